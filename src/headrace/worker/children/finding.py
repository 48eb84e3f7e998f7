"""Finds in a child the task that the worker means: by the place of its function in the worker's own code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from headrace.task import Task

MAIN, CHILDS_MAIN = "__main__", "__mp_main__"  # what multiprocessing calls the program's own module in a child


def module_of(name: str) -> ModuleType:
    """Of those that the child was started with. That of the program itself has been run by multiprocessing."""
    if name == MAIN:
        return sys.modules[MAIN]
    return importlib.import_module(name)  # named by the worker's own code, when it starts the child


def module_name(kind: type) -> str:
    """Where a class stands, as the worker calls that place."""
    return MAIN if kind.__module__ == CHILDS_MAIN else kind.__module__


def find(module: str, qualname: str, name: str) -> Task[..., Any]:
    """The task of that name among those of the apps that the module knows, if its function stands in that place.

    Raises:
        LookupError: there is none; the code of child and worker differ.
    """
    for tasks in _registries(sys.modules.get(module), qualname):
        task = tasks.get(name)
        if isinstance(task, Task) and task.function.__qualname__ == qualname and _same(task, module):
            return task
    raise LookupError(
        f"{module} has no task {name!r} of {qualname}() in a child process: it must be defined whenever the module is "
        "imported, and the code of a running worker must not be changed under it"
    )


def _same(task: Task[..., Any], module: str) -> bool:
    found = task.function.__module__
    return (MAIN if found == CHILDS_MAIN else found) == module


def _registries(module: ModuleType | None, qualname: str) -> Iterator[Mapping[str, Any]]:
    """First that of the task which stands there itself, then those of other tasks and of apps in the module."""
    if module is None:
        return
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    for value in (found, *list(vars(module).values())):
        app = value.producer if isinstance(value, Task) else value
        tasks = getattr(app, "tasks", None)
        if isinstance(tasks, Mapping):
            yield tasks
