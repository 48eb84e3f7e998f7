"""The client against receivers that behave, and against those that do not."""

import socket
import ssl
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.drivers.system import SystemClock
from headrace.errors import AddressRefused, WebhookError
from headrace.webhooks.client import BODY_BYTES, Answer, Client
from headrace.webhooks.guard import Guard
from tests.webhooks.names import Names
from tests.webhooks.receiver import (
    Behaviour,
    Receiver,
    answering,
    dripping,
    hanging,
    pouring,
    receiving,
    resetting,
    saying,
)

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECES = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 103 Hints\r\n",
    b"HTTP/1.1 ",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Retry-After: \xff\r\n",
    b"\r\n",
    b"\n",
    b" ",
    b"-1",
    b"0",
    b"5",
    b"0x5",
    b"ffffffffffffffffffff",
    b"\x00",
    b"success",
]
LOOPBACK = Guard(allow="127.0.0.1")


def post(
    url: str, *, timeout: float = 10, guard: Guard = LOOPBACK, tls: ssl.SSLContext | None = None, body: bytes = b"{}"
) -> Answer:
    client = Client(SystemClock(), timeout=timeout, tls=tls)
    target = guard.check(url)
    return client.post(target, guard.addresses(target), {"webhook-id": "m1"}, body)


def test_a_request_arrives_as_it_is(receiver: Receiver) -> None:
    receiver.behaviour = answering("201 Created", b"thanks", "Retry-After: 7")
    assert post(receiver.url("/hook?a=b%20c"), body=b"\x00\xff body") == Answer(201, b"thanks", retry_after="7")
    (request,) = receiver.requests
    assert (request.path, request.body) == ("/hook?a=b%20c", b"\x00\xff body")
    assert request.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "accept-encoding": "identity",
        "connection": "close",
        "content-length": "7",
        "webhook-id": "m1",
    }


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", Answer(200, b"to the end")),
        (b"HTTP/1.0 200 OK\r\n\r\n", Answer(200)),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Answer(204)),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", Answer(200, b"ok")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more", Answer(200, b"ok")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", Answer(200, b"ok", whole=False)),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nsuc\r\n4\r\ncess\r\n0\r\n\r\n",
            Answer(200, b"success"),
        ),
        (CHUNKED + b"3\r\nsuc\r\n", Answer(200, b"suc", whole=False)),
        (CHUNKED + b"zz\r\nsuc\r\n", Answer(200, whole=False)),
        (CHUNKED + b"-3\r\nsuc\r\n", Answer(200, whole=False)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\nok", Answer(200, b"ok")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nok", Answer(200, b"ok")),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", Answer(202)),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 3 + b"HTTP/1.1 200 OK\r\n\r\nsuccess",
            Answer(200, b"success"),
        ),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Answer(101)),
        (b"HTTP/1.1 500 \xff\xfe\r\nX: \xff\r\n\r\n", Answer(500)),
    ],
)
def test_answers_are_read_as_far_as_they_can_be(receiver: Receiver, said: bytes, answer: Answer) -> None:
    receiver.behaviour = saying(said)
    found = post(receiver.url())
    assert (found.status, found.whole) == (answer.status, answer.whole)
    assert found.body == answer.body or (b"-3" in said and len(found.body) < 20)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\r\n",
        b"success",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 ok\r\n\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 " + b"2" * 70_000,
    ],
)
def test_what_is_no_answer_is_an_error(receiver: Receiver, said: bytes) -> None:
    receiver.behaviour = saying(said)
    with pytest.raises(WebhookError):
        post(receiver.url())


@pytest.mark.parametrize("location", ["http://169.254.169.254/latest/meta-data/", "/other", "https://shop.example/"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(receiver: Receiver, status: int, location: str) -> None:
    receiver.behaviour = answering(f"{status} Elsewhere", b"", f"Location: {location}")
    assert post(receiver.url()).status == status
    assert receiver.connections == 1


@pytest.mark.parametrize(
    "behaviour",
    [
        hanging,
        dripping(b""),
        dripping(b"HTTP/1.1 200 OK\r\nX-"),
        dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        dripping(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
    ids=[
        "not a word",
        "a status line, slowly",
        "a header, slowly",
        "100 Continue, for ever",
        "103 Early Hints, for ever",
    ],
)
def test_no_receiver_is_waited_for_beyond_the_timeout(receiver: Receiver, behaviour: Behaviour) -> None:
    receiver.behaviour = behaviour
    with pytest.raises(WebhookError, match=r"no answer within 0.4 s|in time"):
        post(receiver.url(), timeout=0.4)
    assert not receiver.over.is_set()


def test_a_status_counts_though_its_body_never_ends(receiver: Receiver) -> None:
    receiver.behaviour = dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    answer = post(receiver.url(), timeout=2)
    assert (answer.status, answer.whole, answer.body.strip(b"x")) == (200, False, b"")


@pytest.mark.parametrize("length", ["Content-Length: 99999999999", "Transfer-Encoding: chunked", "X: until the end"])
def test_of_a_giant_body_a_few_kilobytes_are_read(receiver: Receiver, length: str) -> None:
    flood = b"8000\r\n" + b"x" * 0x8000 + b"\r\n" if "chunked" in length else b"x" * 0x8000
    receiver.behaviour = pouring(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".encode(), flood)
    answer = post(receiver.url())
    assert (answer.status, answer.body, answer.whole) == (200, b"x" * BODY_BYTES, False)


def test_a_flood_before_the_body_is_cut_off(receiver: Receiver) -> None:
    receiver.behaviour = pouring(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
    with pytest.raises(WebhookError, match=r"more than 65,536 bytes before its body"):
        post(receiver.url())


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n"])
def test_a_connection_that_is_torn_down_is_an_error(receiver: Receiver, start: bytes) -> None:
    receiver.behaviour = resetting(start)
    with pytest.raises(WebhookError):
        post(receiver.url())


def test_nobody_listens() -> None:
    with receiving() as gone:
        url = gone.url()
    with pytest.raises(WebhookError, match="refused"):
        post(url)


def test_a_receiver_that_takes_no_connection_is_left_in_time(full: Callable[[], int]) -> None:
    with pytest.raises(WebhookError, match="in time"):
        post(f"http://127.0.0.1:{full()}/", timeout=0.3)


def test_the_address_that_was_checked_is_the_one_that_is_reached(receiver: Receiver) -> None:
    """A name whose second answer is another: whoever asks twice is led inside (DNS rebinding)."""
    names = Names(rebinding_example=[["127.0.0.1"], ["169.254.169.254"]])
    guard = Guard(allow="127.0.0.1", resolver=names)
    assert post(receiver.url(host="rebinding.example"), guard=guard).status == 200
    assert names.asked == ["rebinding.example"]
    assert receiver.requests[0].headers["host"] == f"rebinding.example:{receiver.port}"
    with pytest.raises(AddressRefused, match="link-local"):
        post(receiver.url(host="rebinding.example"), guard=guard)
    assert receiver.connections == 1


def test_the_next_address_is_tried(receiver: Receiver) -> None:
    names = Names(two_example=["127.0.0.2", "127.0.0.1"])
    guard = Guard(allow="127.0.0.0/8", resolver=names)
    assert post(receiver.url(host="two.example"), guard=guard).status == 200


def test_no_proxy_is_asked(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        assert post(receiver.url()).status == 200
        assert proxy.connections == 0


def test_tls(certified: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    server, client = certified
    with receiving(answering("200 OK", b"success"), tls=server) as receiver:
        assert post(receiver.url(), tls=client) == Answer(200, b"success")


def test_a_certificate_of_nobody_is_refused(certified: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with receiving(tls=certified[0]) as receiver:
        with pytest.raises(WebhookError, match="CERTIFICATE_VERIFY_FAILED"):
            post(receiver.url())
        assert receiver.requests == []


def test_a_certificate_of_another_host_is_refused(certified: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    server, client = certified
    guard = Guard(allow="127.0.0.1", resolver=Names(other_example=["127.0.0.1"]))
    with receiving(tls=server) as receiver:
        with pytest.raises(WebhookError, match=r"not valid for 'other.example'"):
            post(receiver.url(host="other.example"), tls=client, guard=guard)
        assert receiver.requests == []


def test_a_handshake_that_never_ends_is_left_in_time(certified: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(WebhookError, match="no answer within"):
            post(f"https://127.0.0.1:{port}/", tls=certified[1], timeout=0.4)


def test_a_server_that_speaks_no_tls_is_an_error(
    receiver: Receiver, certified: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    with pytest.raises(WebhookError):
        post(receiver.url().replace("http:", "https:"), tls=certified[1], timeout=0.4)
    assert receiver.requests == []


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
    | st.lists(st.sampled_from(PIECES), max_size=12).map(lambda pieces: PIECES[0] + b"".join(pieces))
)
def test_whatever_comes_back_is_an_answer_or_an_error(receiver: Receiver, said: bytes) -> None:
    receiver.behaviour = saying(said)
    try:
        answer = post(receiver.url())
    except WebhookError:
        return
    assert 100 < answer.status < 1000
    assert len(answer.body) <= BODY_BYTES
