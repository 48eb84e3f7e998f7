"""What the relay asks of a destination: write one of these to add a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.outbox.events import Message

Answer = Exception | str | None
"""How one message fared: None is well, a text is well with a remark for operators, an exception is its own failure;
but StoreUnavailable and StoreFull are the destination's, and cost the event no attempt."""


class Sink(Protocol):
    """A destination of events. Used by one relay at a time, within one event loop."""

    async def publish(self, messages: Sequence[Message]) -> Sequence[Answer]:
        """Publish, and answer once the destination has acknowledged: one answer per message, in their order.

        Messages of one aggregate stand in their order and must arrive in it. Where one of them fails, none of its
        aggregate that follows may be published: answer those with the same exception. A message may come again, also
        one that was published: hand on `event.id`, by which consumers deduplicate.

        Raises:
            StoreUnavailable, StoreFull: the destination as a whole takes nothing now. No message is blamed for it; all
                come again after a pause. After any other error each aggregate is published alone, so that a message
                that raises is the failure of its own aggregate only.
        """
        ...

    async def aclose(self) -> None:
        """Close what is open. May be called twice; the sink opens again when used again."""
        ...
