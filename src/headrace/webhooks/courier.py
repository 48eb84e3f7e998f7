"""One attempt at one delivery, from the message to what its answer means."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping

import msgspec

from headrace.drivers.system import SystemClock
from headrace.errors import ConfigError, WebhookError
from headrace.webhooks.client import Client
from headrace.webhooks.guard import Guard
from headrace.webhooks.judging import Again, Judgement, Success, checked_success, judge
from headrace.webhooks.signature import sign

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}\Z")
_VALUE = re.compile(r"[\x20-\x7e]{1,2000}\Z")
_OURS = {
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
}


def checked_http_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """`headers`, if they may be sent beside ours.

    Raises:
        ConfigError: a name or a value is none, or the header is one of ours.
    """
    found = {str(name): str(value) for name, value in headers.items()}
    for name, value in found.items():
        if not _NAME.match(name) or not _VALUE.match(value):
            raise ConfigError(f"headers holds {name!r:.100}: give names and values of printable ASCII")
        if name.lower() in _OURS:
            raise ConfigError(f"headers holds {name!r}, which each webhook has from here: leave it out")
    return found


class Message(msgspec.Struct, frozen=True):
    """A webhook: the same on each attempt, to the byte."""

    id: str
    url: str
    body: bytes
    content_type: str = "application/json"


class Courier:
    """Carries messages out. Blocking, and safe to use from many threads.

    Args:
        guard: which addresses may be reached.
        clock: the time of each attempt, and its timeouts.
        success: what has been agreed on with the receivers.
        timeout: seconds for one attempt, once the name is resolved.
        headers: sent with each message, beside ours.
        tls: by default the certificate authorities of this machine.

    Raises:
        ConfigError: a header or an agreement is none.
    """

    def __init__(
        self,
        guard: Guard,
        clock: SystemClock,
        *,
        success: Success = "2xx",
        timeout: float = 15,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._success = checked_success(success)
        self._headers = {"User-Agent": "headrace-webhooks", **checked_http_headers(headers or {})}
        self._client = Client(clock, timeout=timeout, tls=tls)

    def deliver(self, message: Message, secrets: Iterable[str] | None) -> Judgement:
        """Send `message` once, signed with each of `secrets`; unsigned where that is None.

        An address that is refused, a name that is not known and a receiver that does not answer are all tried again: a
        DNS is corrected, a server comes back.

        Raises:
            ConfigError: a secret is none.
        """
        headers = self._headers_of(message, secrets)
        try:
            target = self._guard.check(message.url)
            answer = self._client.post(target, self._guard.addresses(target), headers, message.body)
        except WebhookError as error:
            return Again(str(error))
        return judge(answer, self._success, self._clock.unix_us() / 1_000_000)

    def _headers_of(self, message: Message, secrets: Iterable[str] | None) -> dict[str, str]:
        moment = self._clock.unix_us() // 1_000_000
        headers = {
            **self._headers,
            "Content-Type": message.content_type,
            "webhook-id": message.id,
            "webhook-timestamp": str(moment),
        }
        if secrets is not None:
            headers["webhook-signature"] = sign(secrets, message.id, moment, message.body)
        return headers
