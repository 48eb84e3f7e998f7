"""A copy of the handler's answer, made while it is being sent."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.http import answers
from headrace.http.answers import Stored
from headrace.http.head import declared_length


class Recording:
    """What has been sent so far, up to a size; beyond it only the status is kept."""

    def __init__(self, names: frozenset[str], limit: int) -> None:
        self._names = names
        self._limit = limit
        self._headers: answers.Headers = ()
        self._chunks: list[bytes] = []
        self._length = 0
        self._declared: int | None = None
        self.status: int | None = None
        self.complete = False

    def start(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """The answer begins; of two beginnings, the later one counts."""
        headers = tuple(headers)
        self.status = status
        self._chunks, self._length = [], 0
        self._headers = answers.kept(headers, self._names)
        declared = [value for name, value in headers if name.lower() == "content-length"]
        self._declared = declared_length(declared[0]) if declared else None

    def add(self, chunk: bytes) -> None:
        """A part of the body."""
        self._length += len(chunk)
        if self.fits:
            self._chunks.append(bytes(chunk))
        else:
            self._chunks.clear()

    @property
    def fits(self) -> bool:
        """Whether it can still be replayed."""
        return self._length <= self._limit

    @property
    def declared_whole(self) -> bool:
        """Whether the client has all of the body already, by the status or the Content-Length that it was told."""
        return self.status in answers.BODILESS or (self._declared is not None and self._length >= self._declared)

    def bare(self) -> Stored:
        """Its status alone, where the store refuses the rest."""
        return Stored(500 if self.status is None else self.status, replayable=False)

    def stored(self) -> Stored:
        """What is kept of it."""
        if self.status is None:
            failed = answers.failed()
            return Stored(failed.status, failed.headers, failed.body)
        if self.complete and self.fits:
            return Stored(self.status, self._headers, b"".join(self._chunks))
        return Stored(self.status, replayable=False)
