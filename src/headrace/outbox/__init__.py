"""The transactional outbox: events written in the caller's transaction, the relay that carries them out, the inbox."""

from headrace.outbox.events import Event, Message
from headrace.outbox.port import Sink

__all__ = ["Event", "Message", "Sink"]
