"""Sinks for logs, webhooks and chats."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from headrace.core.durations import Duration, seconds
from headrace.core.trail import clean
from headrace.drivers.system import SystemClock
from headrace.errors import ConfigError, WebhookError
from headrace.observe.checks import check_choice, check_span, check_text, check_variable, secret
from headrace.observe.messages import Alert, NotTaken, Sink
from headrace.webhooks.client import Client
from headrace.webhooks.guard import Guard, Target

logger = logging.getLogger("headrace.alerts")

SAID = 200  # characters of an answer that are told
LEVELS = ("info", "warning", "error")
# whoever sets up the app names the address: it may well be inside
ANYWHERE = Guard(allow=("0.0.0.0/0", "::/0"), ports=None)


class LogSink(msgspec.Struct, Sink, frozen=True, kw_only=True):
    """Writes to the log `headrace.alerts`.

    Args:
        level: "info", "warning" or "error". What is resolved is told as information.

    Raises:
        ConfigError: it is another one.
    """

    kind: ClassVar[str] = "log"
    level: str = "warning"

    def __post_init__(self) -> None:
        check_choice("level", self.level, LEVELS)

    def send(self, alert: Alert) -> str:
        """One line, and what programs may want to know of it."""
        level = "info" if alert.state == "resolved" else self.level
        number = getattr(logging, level.upper())
        logger.log(number, "%s", alert.line, extra={"alert": msgspec.to_builtins(alert)})
        return "logged"

    def describe(self) -> str:
        """As for logs."""
        return "log"


class WebhookSink(msgspec.Struct, Sink, frozen=True, kw_only=True):
    """POSTs each alert as JSON.

    Args:
        url: `https://` or `http://`; it may be inside. No redirect is followed, and no proxy used.
        url_env: name of an environment variable that holds the URL, in place of `url`.
        headers: more headers, by name.
        headers_env: the same, whose values are names of environment variables, such as of a token.
        timeout: for a whole exchange, 10 s by default.
        ca_file: certificate authorities of your own, in PEM.

    Raises:
        ConfigError: one of these is out of range, or none or both of `url` and `url_env` are given.
    """

    kind: ClassVar[str] = "webhook"
    url: str | None = None
    url_env: str | None = None
    headers: Mapping[str, str] = {}
    headers_env: Mapping[str, str] = {}
    timeout: Duration = 10
    ca_file: str | None = None

    def __post_init__(self) -> None:
        if self.url is not None and self.url_env is not None:
            raise ConfigError("url and url_env are both given: leave one of them out")
        if self.url is None and self.url_env is None:
            raise ConfigError("url is missing: give url, or url_env, the name of an environment variable")
        if self.url is not None:
            _target(self.url, "url")
        if self.url_env is not None:
            check_variable("url_env", self.url_env)
        for field in ("headers", "headers_env"):
            _check_headers(field, getattr(self, field))
        check_span("timeout", self.timeout)
        if self.ca_file is not None:
            check_text("ca_file", self.ca_file, most=4_000)

    def send(self, alert: Alert) -> str:
        """The status."""
        headers = {"Content-Type": "application/json", "User-Agent": "headrace", **self.headers}
        for name, variable in self.headers_env.items():
            value = secret(variable)
            if value is None:
                raise NotTaken(f"the environment variable {variable} is not set", again=False)
            if not (value.isascii() and value.isprintable()):  # the client's own error would show it
                raise NotTaken(f"the environment variable {variable} holds more than printable ASCII", again=False)
            headers[name] = value
        return self._post(headers, self.body(alert))

    def body(self, alert: Alert) -> bytes:
        """What is sent."""
        return msgspec.json.encode(alert)

    def _post(self, headers: Mapping[str, str], body: bytes) -> str:
        target = self._where()
        tls = ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None
        client = Client(SystemClock(), timeout=seconds(self.timeout), tls=tls)
        try:
            answer = client.post(target, ANYWHERE.addresses(target), headers, body)
        except WebhookError as error:
            raise NotTaken(str(error)) from error
        said = clean(answer.body.decode("utf-8", "replace"), SAID).strip()
        told = f"{answer.status} {said}".strip()
        if not 200 <= answer.status < 300:
            raise NotTaken(told, again=answer.status >= 500 or answer.status in (408, 425, 429))
        return told

    def _where(self) -> Target:
        if self.url is not None:
            return _target(self.url, "url")
        assert self.url_env is not None
        url = secret(self.url_env)
        if url is None:
            raise NotTaken(f"the environment variable {self.url_env} is not set", again=False)
        try:
            return _target(url, self.url_env)
        except ConfigError as error:
            raise NotTaken(str(error), again=False) from error

    def describe(self) -> str:
        """Where to, without the path: in chats that is a secret."""
        if self.url is None:
            return f"{self.kind} {self.url_env}"
        return f"{self.kind} {_target(self.url, 'url').authority}"


class SlackSink(WebhookSink, frozen=True, kw_only=True):
    """POSTs `{"text": ...}`: an incoming webhook of Slack, and of those that take the same.

    `url` and the others are those of `WebhookSink`. Whoever knows the URL can write to the channel: prefer `url_env`.
    """

    kind: ClassVar[str] = "slack"

    def body(self, alert: Alert) -> bytes:
        """The line, with the three characters escaped that mean something there."""
        text = alert.line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return msgspec.json.encode({"text": text})


def _target(url: object, field: str) -> Target:
    try:
        return ANYWHERE.check(url)  # type: ignore[arg-type]
    except WebhookError:  # its message would show the URL
        raise ConfigError(
            f"{field} is no URL that can be used: give http:// or https://, a host, and neither user nor password"
        ) from None


def _check_headers(field: str, headers: object) -> None:
    if not isinstance(headers, Mapping):
        raise ConfigError(f"{field} is {headers!r:.100}: give a table of texts by name")
    for name, value in headers.items():
        check_text(field, name)
        if field == "headers_env":
            check_variable(f"{field}.{name}", value)
        else:
            check_text(f"{field}.{name}", value, most=4_000)
