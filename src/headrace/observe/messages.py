"""What an alert says, and what takes it: the two ends that rules and sinks meet at."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One message. As JSON, it is what `WebhookSink` sends."""

    app: str  # its name
    rule: str
    subject: str  # what the rule was broken by, such as a queue
    state: Literal["firing", "resolved", "test"]
    text: str  # a sentence for people
    facts: dict[str, Any]  # the same for programs
    at: str | None  # ISO-8601 by the store's clock; None where the store did not answer
    by: str  # the process that noticed it

    @property
    def line(self) -> str:
        """All of it in one line."""
        return f"[{self.app}] {'resolved: ' if self.state == 'resolved' else ''}{self.text}"


class NotTaken(Exception):
    """A sink did not take an alert. `again`: whether that may be different in a moment."""

    def __init__(self, why: str, *, again: bool = True) -> None:
        super().__init__(why)
        self.again = again


class Sink:
    """Takes alerts. Subclass it for a kind of your own.

    Each sink has a thread of its own, in which it is called with one alert after the other.
    """

    def send(self, alert: Alert) -> str:
        """Deliver it within seconds; answer what the other side said, in a few words.

        Whatever it raises means that it was not delivered: it is tried again, unless that is `NotTaken` with
        `again=False`.
        """
        raise NotImplementedError

    def describe(self) -> str:
        """What logs call it; without secrets."""
        return type(self).__name__
