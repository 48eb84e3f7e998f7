"""The inbox: a consumer notes each message it gets in its own transaction, so that a repeated one does nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from headrace.core.operations import Operation
from headrace.core.outbox import Receive
from headrace.errors import ConfigError
from headrace.sending import refuse_in_loop

LONGEST_NAME = 255


class Inbox:
    """`async with app.inbox(session, id) as first:`, or `with` in synchronous code. See `Headrace.inbox`."""

    def __init__(
        self,
        receive: Receive,
        run: Callable[[Operation[bool]], bool],
        arun: Callable[[Operation[bool]], Awaitable[bool]],
    ) -> None:
        self._receive = receive
        self._run = run
        self._arun = arun

    def __enter__(self) -> bool:
        refuse_in_loop("with app.inbox(...)", "async with app.inbox(...)")
        return self._run(self._receive)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing: the row commits or rolls back with everything else of the caller's transaction."""

    async def __aenter__(self) -> bool:
        return await self._arun(self._receive)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing, as above."""


def checked_receive(consumer: Any, message_id: Any, nonce: str) -> Receive:
    """The operation.

    Raises:
        ConfigError: a name is no text of 1 to 255 printable characters.
    """
    for name, value in (("consumer", consumer), ("message_id", message_id)):
        if type(value) is not str or not value.isprintable() or not 1 <= len(value) <= LONGEST_NAME:
            raise ConfigError(f"{name} is {value!r:.80}: use 1 to {LONGEST_NAME} printable characters")
    return Receive(consumer, message_id, nonce)
