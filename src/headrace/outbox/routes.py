"""Which sinks an event goes to."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from headrace.errors import ConfigError
from headrace.outbox.port import Sink
from headrace.outbox.sinks.jobs import JobsSink


class Routes:
    """Patterns of event types and their sinks. Subscribers are served besides all routes."""

    def __init__(self, jobs: JobsSink) -> None:
        self._jobs = jobs
        self._routes: list[tuple[str, tuple[Sink, ...]]] = []
        self._known: dict[str, tuple[Sink, ...] | None] = {}

    def add(self, pattern: str, sinks: Sequence[Sink]) -> None:
        """Send events whose type matches `pattern` to `sinks`; to none: they are taken and dropped.

        Raises:
            ConfigError: the pattern is no text, or a sink is none.
        """
        if type(pattern) is not str or not pattern:
            raise ConfigError(f'pattern is {pattern!r:.80}: give a type of event, or a pattern such as "Order*"')
        for sink in sinks:
            if not callable(getattr(sink, "publish", None)) or not callable(getattr(sink, "aclose", None)):
                raise ConfigError(f"sink is {sink!r:.80}: it must have the methods publish and aclose")
        self._routes.append((pattern, tuple(sinks)))
        self._known.clear()

    def of(self, event_type: str) -> tuple[Sink, ...] | None:
        """The sinks of a type, each once, the subscribers' first. None: nobody has said what to do with it."""
        if event_type not in self._known:
            self._known[event_type] = self._find(event_type)
        return self._known[event_type]

    def _find(self, event_type: str) -> tuple[Sink, ...] | None:
        found: list[Sink] = [self._jobs] if self._jobs.takes(event_type) else []
        matching = [sinks for pattern, sinks in self._routes if fnmatchcase(event_type, pattern)]
        for sink in (sink for sinks in matching for sink in sinks):
            if not any(sink is known for known in found):
                found.append(sink)
        return tuple(found) if found or matching else None

    def forget(self) -> None:
        """Look again: there may be another subscriber."""
        self._known.clear()

    def sinks(self) -> list[Sink]:
        """All of them, each once."""
        found: list[Sink] = [self._jobs]
        for sink in (sink for _, sinks in self._routes for sink in sinks):
            if not any(sink is known for known in found):
                found.append(sink)
        return found
