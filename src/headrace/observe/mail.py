"""The sink for e-mail."""

from __future__ import annotations

import json
import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import ClassVar

import msgspec

from headrace.core.durations import Duration, seconds
from headrace.core.trail import clean
from headrace.errors import ConfigError
from headrace.observe.checks import (
    check_choice,
    check_span,
    check_text,
    check_texts,
    check_variable,
    check_whole,
    secret,
)
from headrace.observe.messages import Alert, NotTaken, Sink

SUBJECT = 150  # characters
PORTS = {"starttls": 587, "tls": 465, "none": 25}


class MailSink(msgspec.Struct, Sink, frozen=True, kw_only=True):
    """Sends each alert as a plain text mail.

    Args:
        host: the mail server.
        to: one recipient, or several.
        sender: the address it comes from.
        port: by default 587, 465 with "tls", 25 with "none".
        security: "starttls", "tls" from the first byte on, or "none".
        user: logs in with this name.
        password_env: name of the environment variable that holds the password. It is never logged.
        timeout: for each step of the conversation, 10 s by default.
        ca_file: certificate authorities of your own, in PEM.

    Raises:
        ConfigError: one of these is missing, out of range, or would send a password in the clear.
    """

    kind: ClassVar[str] = "mail"
    host: str
    to: str | Sequence[str]
    sender: str
    port: int | None = None
    security: str = "starttls"
    user: str | None = None
    password_env: str | None = None
    timeout: Duration = 10
    ca_file: str | None = None

    def __post_init__(self) -> None:
        for field in ("host", "sender"):
            check_text(field, getattr(self, field))
        check_texts("to", self.to)
        check_choice("security", self.security, tuple(PORTS))
        if self.port is not None:
            check_whole("port", self.port, 1, 65_535)
        if self.ca_file is not None:
            check_text("ca_file", self.ca_file, most=4_000)
        check_span("timeout", self.timeout)
        self._check_login()

    def _check_login(self) -> None:
        if (self.user is None) != (self.password_env is None):
            missing, given = ("user", "password_env") if self.user is None else ("password_env", "user")
            raise ConfigError(f"{missing} is missing: {given} is given, and a login takes both")
        if self.user is None or self.password_env is None:
            return
        check_text("user", self.user)
        check_variable("password_env", self.password_env)
        if self.security == "none":
            raise ConfigError("security is 'none': the password would travel in the clear; use 'starttls' or 'tls'")

    def send(self, alert: Alert) -> str:
        """What the server said."""
        password = "" if self.password_env is None else secret(self.password_env)
        if password is None:
            raise NotTaken(f"the environment variable {self.password_env} is not set", again=False)
        try:
            return self._deliver(self._mail(alert), password)
        except smtplib.SMTPResponseException as error:
            raise NotTaken(_without(password, str(error)), again=400 <= error.smtp_code < 500) from None
        except smtplib.SMTPRecipientsRefused as error:
            raise NotTaken(_without(password, f"recipients refused: {error.recipients}"), again=False) from None
        except (OSError, ValueError) as error:  # SMTPException is an OSError; ValueError: an address that is none
            raise NotTaken(_without(password, f"{type(error).__name__}: {error}")) from None

    def _deliver(self, mail: EmailMessage, password: str) -> str:
        port = self.port or PORTS[self.security]
        timeout = seconds(self.timeout)
        if self.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(self.host, port, timeout=timeout, context=self._tls())
        else:
            server = smtplib.SMTP(self.host, port, timeout=timeout)
        with server:
            if self.security == "starttls":
                server.starttls(context=self._tls())
            if self.user is not None:
                server.login(self.user, password)
            refused = server.send_message(mail)
        return f"accepted, but for {', '.join(refused)}" if refused else "accepted"

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_file)

    def _mail(self, alert: Alert) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = clean(" ".join(alert.line.split()), SUBJECT)
        mail["From"] = self.sender
        mail["To"] = ", ".join(check_texts("to", self.to))
        mail["Date"] = formatdate()
        mail["Message-ID"] = make_msgid(domain=self.sender.rpartition("@")[2])
        mail["Auto-Submitted"] = "auto-generated"  # so that nobody's absence notice answers it
        facts = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in alert.facts.items())
        by = f"noticed by {alert.by}" + (f" at {alert.at}" if alert.at else "")
        mail.set_content(f"{alert.line}\n\n{facts}\n\nrule: {alert.rule}\n{by}\n")
        return mail

    def describe(self) -> str:
        """Where to."""
        return f"mail {self.host}"


def _without(password: str, text: str) -> str:
    """What went wrong, should a server repeat what it was sent."""
    return clean(text.replace(password, "***") if password else text, 200)
