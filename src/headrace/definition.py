"""From a function and its options to a task."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from headrace.core.arguments import Arguments
from headrace.core.moments import When
from headrace.core.once import Once
from headrace.core.retry import Retry
from headrace.core.unique import Unique
from headrace.errors import ConfigError
from headrace.options import (
    Named,
    RunIn,
    checked_circuit,
    checked_hold_after,
    checked_limits,
    checked_once,
    checked_priority,
    checked_queue,
    checked_run_in,
    checked_texts,
    checked_unique,
    duration_us,
    timeout_us,
)
from headrace.sending import Producer
from headrace.task import Task

P = ParamSpec("P")
R = TypeVar("R")

_RETRY = Retry()


def define(
    producer: Producer,
    function: Callable[P, R],
    *,
    name: str | None = None,
    aliases: Iterable[str] = (),
    queue: str = "default",
    priority: int = 0,
    retry: Retry | int = _RETRY,
    timeout: When | None = None,
    expires: When | None = None,
    deadline: When | None = None,
    unique: Unique | str | Callable[..., str] | None = None,
    once: Once | str | Callable[..., str] | None = None,
    keep: When | None = None,
    log: Iterable[str] = (),
    circuit: str | Named | None = None,
    run_in: RunIn | None = None,
    hold_after: int | Literal["app"] | None = "app",
) -> Task[P, R]:
    """The task of `function`; see `Headrace.task` for the options."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"{function.__qualname__}() is a generator, which a job cannot run: return instead of yielding"
        )
    if retry is None:
        raise ConfigError("retry is None: use 1 for a single attempt, or Retry(max_attempts=None) for no limit")
    if run_in is not None:
        _refuse_hidden(function, checked_run_in(run_in))
    arguments = Arguments.of(function)
    log = (log,) if isinstance(log, str) else tuple(log)
    unknown = [argument for argument in log if argument not in arguments.names]
    if unknown:
        raise ConfigError(
            f"log names {', '.join(unknown)}; {arguments.function_name}() takes "
            f"{', '.join(arguments.names) or 'no arguments'}"
        )
    start, end = checked_limits(expires, deadline)
    return Task(
        name=task_name(function) if name is None else checked_texts("name", (name,))[0],
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        arguments=arguments,
        producer=producer,
        aliases=checked_texts("aliases", aliases),
        queue=checked_queue(queue),
        priority=checked_priority(priority),
        retry=retry if isinstance(retry, Retry) else Retry(max_attempts=retry),
        timeout_s=None if timeout is None else timeout_us(timeout) / 1_000_000,
        expires=start,
        deadline=end,
        unique=checked_unique(unique, arguments),
        once=checked_once(once, arguments),
        keep_us=0 if keep is None else duration_us("keep", keep),
        log=log,
        circuit=None if circuit is None else checked_circuit(circuit, producer),
        run_in=None if run_in is None else checked_run_in(run_in),
        hold_after=checked_hold_after(hold_after),
    )


MAIN = ("__main__", "__mp_main__")  # the program's own module, here and in a child process of multiprocessing


def _refuse_hidden(function: Callable[..., Any], run_in: RunIn) -> None:
    """A child process imports the function's module and looks there for it."""
    name, module = function.__qualname__, function.__module__
    if "<" in name:
        raise ConfigError(
            f"run_in is {run_in!r}, and {name} stands inside of a function or has no name, so that no other process "
            "finds it: make it a function of its module, or leave out run_in"
        )
    main = sys.modules.get(module)
    if module in MAIN and getattr(main, "__spec__", None) is None and getattr(main, "__file__", None) is None:
        raise ConfigError(
            f"run_in is {run_in!r}, and {name}() was not read from a file, so that no other process can: put it into a "
            "module, or leave out run_in"
        )


def task_name(function: Callable[..., Any]) -> str:
    """`module.qualname`, also for a module that runs as a program, so that a worker that imports it finds it."""
    module = function.__module__
    if module in MAIN:
        main = sys.modules[module]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        if spec is not None:
            module = spec.name
        elif file is not None:
            module = Path(file).stem
    return f"{module}.{function.__qualname__}"
