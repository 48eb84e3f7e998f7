"""One attempt, from the message to what becomes of it."""

import pytest

from headrace.drivers.system import SystemClock
from headrace.errors import ConfigError
from headrace.webhooks import new_secret, verify
from headrace.webhooks.courier import Courier, Message
from headrace.webhooks.guard import Guard
from headrace.webhooks.judging import Again, Delivered, Gone
from tests.webhooks.names import Names
from tests.webhooks.receiver import Receiver, answering, hanging, resetting, saying

LOOPBACK = Guard(allow="127.0.0.1")
SECRET = new_secret()


class Wall(SystemClock):
    """A clock on the wall that stands still until it is set."""

    def __init__(self, unix_us: int) -> None:
        self.now_us = unix_us

    def unix_us(self) -> int:
        return self.now_us


def message(receiver: Receiver, path: str = "/hook") -> Message:
    return Message("msg_1", receiver.url(path), b'{"a":1}')


def test_what_arrives_is_signed_and_the_same_but_for_its_time(receiver: Receiver) -> None:
    wall = Wall(1_000_000_900_000)
    courier = Courier(LOOPBACK, wall, headers={"X-Shop": "17", "User-Agent": "shop/1"})
    for moment_us in (1_000_000_900_000, 2_000_000_000_000):
        wall.now_us = moment_us
        assert courier.deliver(message(receiver), [SECRET]) == Delivered("200")
    first, second = receiver.requests
    assert first.body == second.body == b'{"a":1}'
    assert [request.headers["webhook-timestamp"] for request in (first, second)] == ["1000000", "2000000"]
    assert verify(SECRET, first.headers, first.body, now=1_000_000) == "msg_1"
    assert verify(SECRET, second.headers, second.body, now=2_000_000) == "msg_1"
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]
    assert first.headers["content-type"] == "application/json"
    assert (first.headers["x-shop"], first.headers["user-agent"]) == ("17", "shop/1")


def test_while_a_secret_is_changed_either_one_fits(receiver: Receiver) -> None:
    other = new_secret()
    Courier(LOOPBACK, SystemClock()).deliver(message(receiver), [other, SECRET])
    (request,) = receiver.requests
    assert request.headers["webhook-signature"].count("v1,") == 2
    assert verify(SECRET, request.headers, request.body) == verify(other, request.headers, request.body) == "msg_1"


def test_unsigned_is_unsigned(receiver: Receiver) -> None:
    Courier(LOOPBACK, SystemClock()).deliver(message(receiver), None)
    assert receiver.requests[0].headers["webhook-id"] == "msg_1"
    assert "webhook-signature" not in receiver.requests[0].headers


def test_a_secret_that_is_none_sends_nothing(receiver: Receiver) -> None:
    with pytest.raises(ConfigError):
        Courier(LOOPBACK, SystemClock()).deliver(message(receiver), ["plain"])
    assert receiver.connections == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Webhook-ID": "other"},
        {"content-length": "3"},
        {"Transfer-Encoding": "chunked"},
        {"host": "inside"},
        {"X: y\r\nZ": "1"},
        {"X": "y\r\nZ: 1"},
        {"X": "\u00e9"},
        {"": "x"},
    ],
)
def test_headers_that_would_change_the_request_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="headers holds"):
        Courier(LOOPBACK, SystemClock(), headers=headers)


@pytest.mark.parametrize(
    ("behaviour", "verdict"),
    [
        (answering("204 No Content"), Delivered("204")),
        (answering("410 Gone", b"no more"), Gone("410 no more")),
        (answering("429 Too Many Requests", b"", "Retry-After: 17"), Again("429", 17)),
        (answering("503 Busy", b"later", "Retry-After: Sun, 01 Jan 2090 00:00:00 GMT"), Again("503 later", 86_400)),
        (answering("502 Bad Gateway", b"<h1>" + b"x" * 9_000), Again("502 <h1>" + "x" * 196)),
        (answering("404 Not Found"), Again("404")),
        (answering("302 Found", b"", "Location: http://169.254.169.254/latest/meta-data/"), Again("302")),
    ],
)
def test_the_answer_decides(receiver: Receiver, behaviour: object, verdict: object) -> None:
    receiver.behaviour = behaviour  # type: ignore[assignment]
    assert Courier(LOOPBACK, SystemClock()).deliver(message(receiver), [SECRET]) == verdict
    assert receiver.connections == 1


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (hanging, "no answer within 2 s"),
        (resetting(), "reset"),
        (saying(b"SSH-2.0-OpenSSH_9.2\r\n"), "the answer is no HTTP"),
    ],
)
def test_without_an_answer_it_is_tried_again(receiver: Receiver, behaviour: object, said: str) -> None:
    receiver.behaviour = behaviour  # type: ignore[assignment]
    verdict = Courier(LOOPBACK, SystemClock(), timeout=2).deliver(message(receiver), [SECRET])
    assert isinstance(verdict, Again)
    assert said in verdict.said


@pytest.mark.parametrize("host", ["inside.example", "unknown.example", "127.0.0.1"])
def test_what_is_refused_is_not_reached_and_tried_again_later(receiver: Receiver, host: str) -> None:
    """A DNS that is wrong today is right tomorrow; and one that is right today leads inside tomorrow."""
    guard = Guard(ports=None, resolver=Names(inside_example=["127.0.0.1"]))
    verdict = Courier(guard, SystemClock()).deliver(Message("m", receiver.url(host=host), b"{}"), None)
    assert isinstance(verdict, Again)
    assert "loopback" in verdict.said or "has no address" in verdict.said
    assert receiver.connections == 0
