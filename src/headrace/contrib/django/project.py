"""The app of a Django project."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from headrace.app import Headrace
from headrace.contrib.django.addresses import url_of
from headrace.contrib.django.configuration import Configuration, configuration
from headrace.contrib.django.hygiene import FreshConnections
from headrace.core.operations import Enqueued, NewJob

if TYPE_CHECKING:
    from headrace.worker import Worker


class DjangoApp(Headrace):
    """Made from the setting HEADRACE; a project has one, `headrace.contrib.django.app`.

    It differs from any other app in three things. Its address is that of a database of Django, and follows it to the
    database of the tests. A job that is enqueued inside of `atomic()` on that database belongs to the transaction. Its
    workers treat Django's connections around each job as Django does around each request.
    """

    def __init__(self, settings: Configuration) -> None:
        self.settings = settings
        self._names: dict[str, str] = {}
        self._moving = threading.Lock()
        arguments = dict(settings.arguments)
        if settings.outbox is not None:
            arguments["outbox"] = self._address(settings.outbox)
        there = None if settings.database is None else self._address(settings.database, settings.url)
        super().__init__(there or settings.url or "", **arguments)
        self.middleware.append(FreshConnections(self))

    def _address(self, alias: str, url: str | None = None) -> str:
        """Where the database is, unless `url` says so; its name is remembered, to see whether it changes."""
        from django.db import connections  # noqa: PLC0415

        self._names[alias] = connections[alias].settings_dict["NAME"]
        return url or url_of(alias)

    # -- the store

    def _before_use(self) -> None:
        """Follow a database of Django that has been given another name, as tests do."""
        if all(map(self._stays, self._names)):
            return
        with self._moving:
            for alias in [alias for alias in self._names if not self._stays(alias)]:
                self._move(alias)

    def _stays(self, alias: str) -> bool:
        from django.db import connections  # noqa: PLC0415

        return bool(connections[alias].settings_dict["NAME"] == self._names[alias])

    def _move(self, alias: str) -> None:
        from django.db import connections  # noqa: PLC0415

        name, url = connections[alias].settings_dict["NAME"], url_of(alias)
        self._move_to(replace(self.config, **{"outbox" if alias == self.settings.outbox else "url": url}))
        self._names[alias] = name  # last: other threads go by it, and where it fails it must fail again

    # -- producers

    def send(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, in the transaction that this thread is in on our database if there is one."""
        if (alias := self.joined()) is not None:
            return self.send_in(alias, jobs)[0]
        return super().send(jobs)

    def joined(self) -> str | None:
        """The database whose transaction a job that is enqueued here and now belongs to; None: to no transaction."""
        from django.db import connections  # noqa: PLC0415

        alias = self.settings.alias
        return alias if alias and self.settings.joins and connections[alias].in_atomic_block else None

    # -- workers

    def worker(
        self, queues: Sequence[str] | Mapping[str, float] | str | None = None, *, id: str | None = None, **options: Any
    ) -> Worker:
        """As `Headrace.worker`; by default also for the QUEUES of the tasks backends that are ours."""
        if queues is None:
            from headrace.contrib.django.registry import backend_queues  # noqa: PLC0415 - tasks need not be in use

            queues = sorted({*self.task_queues, *backend_queues()})
        return super().worker(queues, id=id, **options)


@cache
def project_app() -> DjangoApp:
    """The app of this project.

    Raises:
        ConfigError: the setting HEADRACE says something that we do not understand.
    """
    return DjangoApp(configuration())
