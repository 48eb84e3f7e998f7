"""Django's database connections in a worker: looked after around each job, as Django does around each request.

A worker lives for weeks. Without this, a connection that the server or the network has cut fails every job that its
thread gets from then on (B119), and one of a thread that has ended is never closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import close_old_connections, connections, reset_queries

from headrace.context import JobContext
from headrace.middleware import Middleware, Run
from headrace.task import Task


class App(Protocol):
    """What is needed of the app."""

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """Tasks by name."""
        ...


class FreshConnections(Middleware):
    """The connections of a plain function's thread, and those that a coroutine reaches through `sync_to_async`."""

    before_children = "django:setup"  # tasks import models

    def __init__(self, app: App) -> None:
        self._app = app

    def _is_async(self, job: JobContext) -> bool:
        task = self._app.tasks.get(job.task)
        return task is not None and task.is_async

    @contextmanager
    def inside(self, job: JobContext) -> Iterator[None]:
        """In the thread of a plain function."""
        if self._is_async(job):
            yield
            return
        reset_queries()
        close_old_connections()
        for connection in connections.all(initialized_only=True):
            # Django looks at it once, when the job first uses it; without that, one that was cut fails the job
            connection.health_check_enabled = True
        try:
            yield
        finally:
            close_old_connections()

    async def around(self, job: JobContext, run: Run) -> Any:
        """A coroutine gets a thread of its own for its synchronous parts, as a request does under ASGI.

        Else all coroutines of the worker would share one thread, and wait for each other's queries.
        """
        if not self._is_async(job):
            return await run()
        async with ThreadSensitiveContext() as context:
            try:
                return await run()
            finally:
                thread = SyncToAsync.context_to_thread_executor.get(context)
                if thread is not None:  # it ends with this block, and what it has opened would stay open
                    thread.submit(connections.close_all)
