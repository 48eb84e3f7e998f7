"""What runs when a job has failed for good: hooks of a task and of the whole app, as jobs of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

import msgspec

from headrace.core import codec
from headrace.core.arguments import Arguments
from headrace.core.codec import Envelope
from headrace.core.failures import Failure
from headrace.core.ids import with_ending
from headrace.core.operations import ClaimedJob, NewJob
from headrace.definition import define
from headrace.errors import ConfigError, TaskError
from headrace.following import Hook, check_names, check_options, told_defaults
from headrace.task import Task

if TYPE_CHECKING:
    from headrace.config import Config
    from headrace.sending import Producer

HP = ParamSpec("HP")
HR = TypeVar("HR")

_NOTHING = Arguments("", {}, {}, str)  # of a hook of the whole app: the arguments of the jobs differ


class FailureHook(Hook, frozen=True):
    """A task that runs when a job has failed. `record`: its parameters that take the `Failure`."""

    record: tuple[str, ...] = ()
    ending: str = "/failed"

    def job(self, failed: ClaimedJob, envelope: Envelope | None, failure: Failure) -> NewJob:
        """The job that is enqueued with the end of `failed`: one for each time that it fails."""
        args = {} if envelope is None or self.names == frozenset() else self._given(envelope)
        id = with_ending(failed.id, f"{self.ending}-{failed.base_us}")
        given = None if envelope is None else envelope.args
        job = self.follower(id, failed, envelope, args | self._told(failure, given))
        if len(job.body) > codec.MAX_BODY:
            job = self.follower(id, failed, envelope, args | self._told(failure, None))
        return job

    def _given(self, envelope: Envelope) -> dict[str, msgspec.Raw]:
        try:
            return self.chosen(envelope)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # it may have failed for that
            return {}

    def _told(self, failure: Failure, args: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
        if not self.record:
            return {}
        told = msgspec.Raw(msgspec.json.encode(msgspec.structs.asdict(failure) | {"args": args}))
        return dict.fromkeys(self.record, told)


class FailureHooks:
    """The hooks of an app: of its tasks, by name, and of the app itself."""

    def __init__(self) -> None:
        self.of: dict[str, FailureHook] = {}
        self.everywhere: FailureHook | None = None
        self.lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self.of) or self.everywhere is not None

    @property
    def names(self) -> frozenset[str]:
        """Names of all tasks that are hooks."""
        hooks = [*self.of.values(), *filter(None, [self.everywhere])]
        return frozenset(hook.task.name for hook in hooks)

    def jobs(self, failed: ClaimedJob, envelope: Envelope | None, failure: Failure) -> tuple[NewJob, ...]:
        """What is enqueued with the end of a job that has failed. The app's own hook is not called for itself."""
        hooks = [self.of.get(failure.task)]
        if self.everywhere is not None and failure.task != self.everywhere.task.name:
            hooks.append(self.everywhere)
        return tuple(hook.job(failed, envelope, failure) for hook in hooks if hook is not None)


class FailureApp:
    """Mixed into the app, whose tasks it adds to."""

    if TYPE_CHECKING:
        config: Config

        @property
        def tasks(self) -> Mapping[str, Task[..., Any]]: ...
        def _register(self, task: Task[..., Any]) -> Task[..., Any]: ...

    @property
    def code_version(self) -> str | None:
        """`version` of the settings: jobs note which code enqueued them."""
        return self.config.version

    @property
    def task_queues(self) -> list[str]:
        """The queues of all tasks, sorted. Hooks have none of their own: they run where the job was that has failed."""
        hooks = self.failure_hooks.names
        return sorted({task.queue for task in self.tasks.values() if task.name not in hooks})

    @cached_property
    def failure_hooks(self) -> FailureHooks:
        """All hooks for failed jobs."""
        return FailureHooks()

    @overload
    def on_failed(self, function: Callable[HP, HR], /) -> Task[HP, HR]: ...

    @overload
    def on_failed(self, /, **options: Any) -> Callable[[Callable[HP, HR]], Task[HP, HR]]: ...

    def on_failed(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """`@app.on_failed`: a task that runs when any job of this app has failed for good, whatever the reason.

        It is enqueued in the same atomic step, into the queue of that job, and takes one argument, annotated with
        `Failure`. It runs beside the hook that a task may have, also for hooks of tasks that have failed, but never for
        itself. Options are name, aliases, priority, retry, timeout, keep and log, as of `task`.

        Raises:
            ConfigError: there is one already, or an option is out of range.
            TaskError: it takes something else than a `Failure`.
        """
        if function is None:
            return lambda decorated: self._hook_all(decorated, options)
        return self._hook_all(function, options)

    def _hook_all(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
        hooks = self.failure_hooks
        hook = self._failure_hook("@app.on_failed", function, options, _NOTHING, "default")
        hook = msgspec.structs.replace(hook, names=frozenset(), ending="/app-failed")
        if missing := [name for name in hook.task.arguments.names if name not in hook.record]:
            raise TaskError(
                f"@app.on_failed: {hook.task.arguments.function_name}() takes {missing[0]!r}: it may take one argument "
                "that is annotated with Failure, since the jobs have different ones"
            )
        with hooks.lock:
            self._enter("the app", hooks.everywhere, hook)
            hooks.everywhere = hook
        return hook.task

    def hook_failed(
        self, task: Task[..., Any], function: Callable[..., Any], options: Mapping[str, Any]
    ) -> Task[..., Any]:
        """Have the task of `function` run when a job of `task` has failed; see `Task.on_failed`."""
        hooks = self.failure_hooks
        if task.name in hooks.names:
            raise ConfigError(f"{task.name} runs when a job has failed; when it fails itself, @app.on_failed is told")
        hook = self._failure_hook("on_failed", function, options, task.arguments, task.queue)
        with hooks.lock:
            self._enter(task.name, hooks.of.get(task.name), hook)
            hooks.of[task.name] = hook
        return hook.task

    def _failure_hook(
        self, what: str, function: Callable[..., Any], options: Mapping[str, Any], of: Arguments, queue: str
    ) -> FailureHook:
        check_options(what, options, "job")
        task = define(cast("Producer", self), function, queue=queue, **options)
        types = task.arguments.types
        record = tuple(name for name, type_ in types.items() if type_ is Failure)
        check_names(what, task.arguments, of, record, "task")
        rest = frozenset(types) - frozenset(record)
        names = None if task.arguments.takes_more else rest
        return FailureHook(task, names, told_defaults(what, task.arguments, of), record)

    def _enter(self, owner: str, before: FailureHook | None, hook: FailureHook) -> None:
        """Register the hook's task, unless it is in the way of another one."""
        name = hook.task.name
        if before is not None and before.task.name != name:
            raise ConfigError(f"{owner} has an on_failed already, {before.task.name}: put both into one function")
        if name in self.tasks and name not in self.failure_hooks.names:
            raise ConfigError(f"{name} is a task already: on_failed needs a function of its own")
        self._register(hook.task)
