"""Sinks, and what becomes of an alert that its receiver does not take: real servers on loopback."""

import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headrace import ConfigError
from headrace.observe import Alert, LogSink, MailSink, NotTaken, SlackSink, WebhookSink
from tests.observe.mailbox import mailbox
from tests.servers.certificate import certificate
from tests.webhooks.receiver import Behaviour, answering, dripping, hanging, receiving, resetting

ALERT = Alert(
    app="shop",
    rule="failed-growth",
    subject="mail",
    state="firing",
    text="5 jobs of queue <mail> & more failed\u2028within 60 s",
    facts={"failed": 5, "window_s": 60.0},
    at="2026-01-02T03:04:05.000+00:00",
    by="host-17",
)


def test_a_webhook_gets_all_of_it_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALERT_TOKEN", "Bearer s3cret")
    with receiving(answering("202 Accepted", b"thanks")) as receiver:
        sink = WebhookSink(
            url=receiver.url("/alerts?a=1"), headers={"X-Team": "ops"}, headers_env={"Authorization": "ALERT_TOKEN"}
        )
        assert sink.send(ALERT) == "202 thanks"
        (request,) = receiver.requests
    assert request.path == "/alerts?a=1"
    assert (request.headers["x-team"], request.headers["authorization"]) == ("ops", "Bearer s3cret")
    assert request.headers["content-type"] == "application/json"
    assert msgspec.json.decode(request.body) == msgspec.to_builtins(ALERT)
    assert "/alerts" not in sink.describe()


@pytest.mark.parametrize("token", ["Bearer s3cret\n", "Bearer s3cret\r\nX-Admin: yes", "Bearer s3crét"])
def test_a_secret_that_no_header_may_hold_is_not_shown(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("ALERT_TOKEN", token)
    with receiving() as receiver:
        sink = WebhookSink(url=receiver.url("/"), headers_env={"Authorization": "ALERT_TOKEN"})
        with pytest.raises(NotTaken, match="ALERT_TOKEN holds more than printable ASCII") as refused:
            sink.send(ALERT)
        assert not receiver.requests
    assert not refused.value.again


def test_a_chat_gets_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        monkeypatch.setenv("SLACK_URL", receiver.url("/services/T0/B0/secret"))
        sink = SlackSink(url_env="SLACK_URL")
        sink.send(ALERT)
        sink.send(msgspec.structs.replace(ALERT, state="resolved"))
        first, second = (msgspec.json.decode(request.body) for request in receiver.requests)
    assert first == {"text": "[shop] 5 jobs of queue &lt;mail&gt; &amp; more failed\u2028within 60 s"}
    assert second["text"].startswith("[shop] resolved: 5 jobs")
    assert sink.describe() == "slack SLACK_URL"


@pytest.mark.parametrize(
    ("behaviour", "words", "again"),
    [
        (hanging, "no answer within 0.2 s", True),
        (dripping(b"HTTP/1.1 200 OK\r\nX-Slow: "), "no answer within 0.2 s", True),
        (resetting(), "Error", True),
        (answering("500 Internal Server Error", b"sorry"), "500 sorry", True),
        (answering("429 Too Many Requests"), "429", True),
        (answering("302 Found"), "302", False),
        (answering("404 Not Found", b"no such channel"), "404 no such channel", False),
    ],
    ids=["hangs", "drips", "resets", "500", "429", "302", "404"],
)
def test_what_a_receiver_may_do(behaviour: Behaviour, words: str, again: bool) -> None:
    with receiving(behaviour) as receiver, pytest.raises(NotTaken, match=words) as caught:
        # a busy machine may take longer than that to answer at all
        WebhookSink(url=receiver.url(), timeout=0.2 if "0.2" in words else 20).send(ALERT)
    assert caught.value.again is again


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_receiver_that_is_not_there() -> None:
    with pytest.raises(NotTaken, match="refused"):
        WebhookSink(url=f"http://127.0.0.1:{closed_port()}/", timeout=1).send(ALERT)
    with pytest.raises(NotTaken, match="refused"):
        MailSink(host="127.0.0.1", port=closed_port(), to="a@b", sender="c@d", security="none").send(ALERT)


@pytest.mark.parametrize("value", [None, "", "ftp://x", "http://user:s3cret@host/"])
def test_a_url_in_the_environment_that_is_none(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACK_URL", raising=False)
    if value is not None:
        monkeypatch.setenv("SLACK_URL", value)
    with pytest.raises(NotTaken, match="SLACK_URL is n") as caught:
        SlackSink(url_env="SLACK_URL").send(ALERT)
    assert not caught.value.again
    assert "s3cret" not in str(caught.value)


def test_a_mail_says_what_and_when() -> None:
    with mailbox() as server:
        sink = MailSink(
            host="127.0.0.1", port=server.port, to=["a@shop.example", "b@shop.example"], sender="hr@x.example",
            security="none",
        )  # fmt: skip
        assert sink.send(ALERT) == "accepted"
        (mail,) = server.mails
    assert mail["Subject"] == "[shop] 5 jobs of queue <mail> & more failed within 60 s"
    assert (mail["From"], mail["To"]) == ("hr@x.example", "a@shop.example, b@shop.example")
    assert mail["Message-ID"].endswith("@x.example>")
    text = mail.get_content()
    assert "failed: 5" in text
    assert "noticed by host-17 at 2026-01-02T03:04:05" in text


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    certificate_file, key_file = certificate(tmp_path_factory.mktemp("mail-tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate_file, key_file)
    return server, Path(certificate_file)


def sealed(port: int, ca_file: Path | None) -> MailSink:
    return MailSink(
        host="127.0.0.1", port=port, to="a@x", sender="b@x", user="ops", password_env="SMTP_PASSWORD",
        ca_file=None if ca_file is None else str(ca_file), timeout=5,
    )  # fmt: skip


def test_a_login_is_encrypted(tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMTP_PASSWORD", "pa55 word")
    with mailbox(tls[0]) as server:
        assert sealed(server.port, tls[1]).send(ALERT) == "accepted"
        assert server.logins == [("ops", "pa55 word")]
        assert server.encrypted == [True]
        with pytest.raises(NotTaken, match="CERTIFICATE_VERIFY_FAILED"):
            sealed(server.port, None).send(ALERT)
        monkeypatch.delenv("SMTP_PASSWORD")
        with pytest.raises(NotTaken, match="the environment variable SMTP_PASSWORD is not set"):
            sealed(server.port, tls[1]).send(ALERT)
        assert len(server.mails) == 1


def test_a_password_is_told_to_nobody(
    tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where the server repeats it."""
    monkeypatch.setenv("SMTP_PASSWORD", "hunter2")
    with mailbox(tls[0]) as server:
        server.answers["AUTH"] = "535 no: hunter2 is not the password"
        sink = sealed(server.port, tls[1])
        with caplog.at_level(logging.DEBUG), pytest.raises(NotTaken, match="535") as caught:
            sink.send(ALERT)
    assert "hunter2" not in f"{caught.value} {sink!r} {caplog.text}"
    assert not caught.value.again


@pytest.mark.parametrize(
    ("verb", "answer", "again"),
    [("RCPT", "550 no such user", False), ("DATA", "451 later", True), ("DATA", "554 spam", False)],
)
def test_what_a_mail_server_may_say(verb: str, answer: str, again: bool) -> None:
    with mailbox() as server:
        server.answers[verb] = answer
        sink = MailSink(host="127.0.0.1", port=server.port, to="a@x", sender="b@x", security="none")
        with pytest.raises(NotTaken, match=answer[:3]) as caught:
            sink.send(ALERT)
    assert caught.value.again is again


def test_the_log_has_the_facts(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headrace.alerts"):
        LogSink(level="error").send(ALERT)
        LogSink().send(msgspec.structs.replace(ALERT, state="resolved"))
    first, second = caplog.records
    assert (first.levelname, second.levelname) == ("ERROR", "INFO")
    assert first.getMessage() == ALERT.line
    assert first.alert["facts"] == {"failed": 5, "window_s": 60.0}  # type: ignore[attr-defined]


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: LogSink(level="loud"), "level is 'loud': give one of 'info', 'warning', 'error'"),
    (WebhookSink, "url is missing: give url, or url_env"),
    (lambda: WebhookSink(url="https://x/", url_env="X"), "both given: leave one of them out"),
    (lambda: WebhookSink(url="hooks.slack.com/secret"), "url is no URL that can be used: give http"),
    (lambda: SlackSink(url_env="https://hooks.slack.com/secret"), "url_env is not the name of an environment var"),
    (lambda: WebhookSink(url="https://x/", headers={"a": 3}), "headers.a is 3: give 1 to"),  # type: ignore[dict-item]
    (lambda: WebhookSink(url="https://x/", headers="a"), "headers is 'a': give a table of texts"),  # type: ignore[arg-type]
    (lambda: WebhookSink(url="https://x/", headers={"a": "b\nc"}), "headers.a is 'b"),
    (lambda: WebhookSink(url="https://x/", timeout=0), "timeout is 0: it must be more than 0"),
    (lambda: MailSink(host="", to="a@b", sender="c@d"), "host is '': give 1 to 200"),
    (lambda: MailSink(host="h", to=[], sender="c@d"), r"to is \[\]: give one text, or a list of texts"),
    (lambda: MailSink(host="h", to="a@b", sender="c@d", port=0), "port is 0: give a whole number from 1 to 65,535"),
    (lambda: MailSink(host="h", to="a@b", sender="c@d", security="ssl"), "security is 'ssl': give one of 'starttls'"),
    (lambda: MailSink(host="h", to="a@b", sender="c@d", user="u"), "password_env is missing: user is given"),
    (lambda: MailSink(host="h", to="a@b", sender="c@d", password_env="P"), "user is missing: password_env is given"),
    (
        lambda: MailSink(host="h", to="a@b", sender="c@d", user="u", password_env="p@ss!"),
        "password_env is not the name of an environment variable",
    ),
    (
        lambda: MailSink(host="h", to="a@b", sender="c@d", user="u", password_env="P", security="none"),
        "the password would travel in the clear",
    ),
]


@pytest.mark.parametrize(("make", "words"), MISTAKES)
def test_mistakes_are_named(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        make()
    assert "secret" not in str(caught.value)
    assert "p@ss" not in str(caught.value)
