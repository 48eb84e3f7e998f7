"""What becomes of a request: whose key it is, what tells it from another, what is stored of its answer."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, Headrace
from headrace.core.once_records import OnceTaken
from headrace.holding import Holding
from headrace.http import IdempotencyMiddleware, WSGIIdempotencyMiddleware, by_cookie, by_header
from headrace.http.answers import Refused, Stored, encode, replay
from headrace.http.head import RequestHead, declared_length, fingerprint, record_key
from headrace.http.rules import Rules
from headrace.http.settings import Settings

VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
REQUESTS = st.tuples(st.text(VISIBLE), st.text(), st.binary(), st.binary())


class Head(RequestHead):
    __slots__ = ("_headers",)

    def __init__(self, headers: Mapping[str, str], path: str = "/") -> None:
        super().__init__("POST", path, b"", {})
        self._headers = headers

    def values(self, name: str) -> list[str]:
        return [self._headers[name]] if name in self._headers else []


def rules(**options: Any) -> Rules:
    return Rules(Settings(**options))


def refusal(call: Any, *args: Any) -> tuple[int, dict[str, str], dict[str, Any]]:
    with pytest.raises(Refused) as caught:
        call(*args)
    answer = caught.value.answer
    return answer.status, dict(answer.headers), msgspec.json.decode(answer.body)


# -- which record


@given(REQUESTS, REQUESTS)
def test_only_the_same_request_has_the_same_fingerprint(
    one: tuple[str, str, bytes, bytes], other: tuple[str, str, bytes, bytes]
) -> None:
    assert (fingerprint(*one) == fingerprint(*other)) == (one == other)
    assert len(fingerprint(*one)) == 32


def test_a_byte_that_moves_to_the_next_part_makes_another_request() -> None:
    assert (
        len({fingerprint("P", "/ab", b"", b""), fingerprint("P", "/a", b"b", b""), fingerprint("P", "/a", b"", b"b")})
        == 3
    )


@given(
    st.tuples(st.none() | st.text(), st.text(VISIBLE, max_size=255)), st.tuples(st.none() | st.text(), st.text(VISIBLE))
)
def test_no_two_clients_share_a_record(one: tuple[str | None, str], other: tuple[str | None, str]) -> None:
    assert (record_key(*one) == record_key(*other)) == (one == other)
    assert 1 <= len(record_key(*one)) <= 500


def test_a_record_does_not_tell_who_its_client_is() -> None:
    assert "secret" not in record_key("Bearer secret", "k")


def test_a_claim_names_web_app_client_and_request() -> None:
    claim = rules(name="shop", lease=5).claim(Head({"authorization": "Bearer a"}, "/orders"), "k", b"{}", "owner")
    assert (claim.scope, claim.key) == ("http:shop", record_key("Bearer a", "k"))
    assert claim.fingerprint == fingerprint("POST", "/orders", b"", b"{}")
    assert (claim.owner, claim.token, claim.queue, claim.lease_us) == ("owner", 0, "", 5_000_000)
    assert rules().claim(Head({}), "k", b"", "owner").scope == "http"
    assert rules().claim(Head({}), "k", b"", "owner").key == record_key(None, "k")


def test_the_principal_may_be_a_header_or_a_cookie() -> None:
    head = Head({"x-tenant": "acme", "cookie": "a=1; sessionid=s3; b=2"})
    assert by_header("X-Tenant")(head) == "acme"
    assert by_cookie("sessionid")(head) == "s3"
    assert by_header("X-Tenant")(Head({})) is None
    assert by_cookie("sessionid")(Head({})) is None
    assert by_cookie("sessionid")(Head({"cookie": "\x01=; sessionid="})) is None


def test_a_principal_that_is_no_text_is_refused_in_words() -> None:
    wrong: Any = lambda head: 17  # noqa: E731 - as in principal=lambda request: request.scope["user"].id
    with pytest.raises(ConfigError, match=r"principal answered 17: it must be a str, such as str\(user.id\)"):
        rules(principal=wrong).claim(Head({}), "k", b"", "owner")


@pytest.mark.parametrize(
    "cookies",
    [
        'prefs={"a":1}; sessionid=s3',
        "sessionid=s3; a[b]=1",
        "caf\xe9=1; sessionid=s3",
        "flag; sessionid=s3;",
        "a=b\\;sessionid=s3",
        "xsessionid=s4; sessionid = s3",
    ],
)
def test_an_odd_cookie_beside_it_makes_nobody_unknown(cookies: str) -> None:
    """B156: whoever is unknown shares keys with all who are."""
    assert by_cookie("sessionid")(Head({"cookie": cookies})) == "s3"


# -- is there a key


def test_a_request_without_a_key_passes_unless_one_is_required() -> None:
    assert rules().key_of(Head({})) is None
    status, headers, problem = refusal(rules(required=True).key_of, Head({}))
    assert status == problem["status"] == 400
    assert headers["Content-Type"] == "application/problem+json"
    assert problem["type"] == "urn:headrace:idempotency-key:missing"
    some = rules(required=lambda head: head.path.startswith("/orders"))
    assert some.key_of(Head({}, "/other")) is None
    assert refusal(some.key_of, Head({}, "/orders/17"))[0] == 400


def test_a_malformed_key_is_refused_also_where_none_is_required() -> None:
    status, _, problem = refusal(rules().key_of, Head({"idempotency-key": '"'}))
    assert (status, problem["type"]) == (400, "urn:headrace:idempotency-key:malformed")
    assert refusal(rules(strict=True).key_of, Head({"idempotency-key": "bare"}))[0] == 400
    assert rules(strict=True).key_of(Head({"idempotency-key": '"quoted"'})) == "quoted"


# -- what the store has answered


@pytest.mark.parametrize(("lease_us", "seconds"), [(0, 1), (1, 1), (1_000_001, 2), (3_000_000, 3), (29_000_000, 5)])
def test_a_held_key_names_the_time_to_come_again(lease_us: int, seconds: int) -> None:
    answer = rules().answer(OnceTaken("held", 7, lease_us=lease_us))
    assert answer is not None
    assert (answer.status, dict(answer.headers)["Retry-After"]) == (409, str(seconds))


def test_no_more_than_a_lease_is_left_of_one() -> None:
    answer = rules(lease=2).answer(OnceTaken("held", 7, lease_us=2_000_001))
    assert answer is not None
    assert dict(answer.headers)["Retry-After"] == "2"


def test_answers_by_status_of_the_record() -> None:
    assert rules().answer(OnceTaken("mine", 7)) is None
    other = rules().answer(OnceTaken("other", 7))
    assert other is not None
    assert (other.status, "Retry-After" in dict(other.headers)) == (422, False)
    done = rules().answer(OnceTaken("done", 7, encode(Stored(201, (("Location", "/o/1"),), b"\x00\xff"))))
    assert done is not None
    assert (done.status, done.body) == (201, b"\x00\xff")
    assert done.headers == (("Location", "/o/1"), ("Idempotent-Replayed", "true"))


@pytest.mark.parametrize(
    "result",
    [
        *(None, b"", b"{", b"[]", b'{"status":"x"}', b'{"status":201,"body":"?"}'),
        encode(Stored(201, replayable=False)),
        encode(Stored(99)),
        encode(Stored(201, (("A\n", "b"),))),
        encode(Stored(201, (("A", "b\r\nSet-Cookie: c=d"),))),
        encode(Stored(201, (("A", "\u0100"),))),
    ],
)
def test_a_record_without_a_readable_answer_is_never_run_again(result: bytes | None) -> None:
    answer = rules().answer(OnceTaken("done", 7, result))
    assert answer is not None
    assert answer.status == 409
    assert msgspec.json.decode(answer.body)["type"] == "urn:headrace:idempotency-key:not-replayable"


@given(
    st.integers(200, 599),
    st.lists(st.tuples(st.text("abcXYZ-09", min_size=1), st.text(VISIBLE + " \t\xfc"))),
    st.binary(),
)
def test_a_stored_answer_is_json_and_comes_back_byte_by_byte(
    status: int, headers: list[tuple[str, str]], body: bytes
) -> None:
    encoded = encode(Stored(status, tuple(headers), body))
    assert msgspec.json.decode(encoded)["status"] == status
    answer = replay(encoded)
    assert answer is not None
    assert (answer.status, answer.headers[:-1], answer.body) == (status, tuple(headers), body)


# -- what is stored of an answer


def concluded(status: int | None, **options: Any) -> Stored | None:
    made = rules(**options)
    recording = made.recording()
    if status is not None:
        recording.start(status, ())
        recording.complete = True
    return made.conclude(recording)


@pytest.mark.parametrize("status", [401, 408, 409, 429])
def test_statuses_that_say_nothing_was_done_are_never_stored(status: int) -> None:
    """B158."""
    assert concluded(status) is None
    assert concluded(status, replay_errors="always", unstored=(422,)) is None


@pytest.mark.parametrize("status", [200, 201, 204, 303, 400, 403, 404, 422, 499])
def test_other_answers_below_500_are_stored(status: int) -> None:
    for policy in ("always", "never"):
        stored = concluded(status, replay_errors=policy)
        assert stored is not None
        assert (stored.status, stored.replayable) == (status, True)
    if status >= 400:
        assert concluded(status, unstored=(status,)) is None


@pytest.mark.parametrize("status", [500, 503, 599, None])
def test_errors_are_stored_unless_the_settings_say_otherwise(status: int | None) -> None:
    """B155 B158: by default a handler that may have had an effect does not run again."""
    stored = concluded(status)
    assert stored is not None
    assert stored.status == (status or 500)
    assert concluded(status, replay_errors="never") is None


def test_what_belongs_to_one_client_or_moment_is_not_kept() -> None:
    """B158."""
    recording = rules(headers=("X-Order", "Retry-After")).recording()
    sent = ["Content-Type", "Location", "X-Order", "Set-Cookie", "Date", "Content-Length", "X-Other"]
    sent += ["Retry-After", "Connection", "Server"]
    recording.start(201, [(name, "v") for name in sent])
    recording.complete = True
    kept = [name for name, _ in recording.stored().headers]
    assert kept == ["Content-Type", "Location", "X-Order", "Retry-After"]


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 120), st.booleans())
def test_a_body_is_replayed_if_it_is_whole_and_fits(chunks: list[bytes], limit: int, complete: bool) -> None:
    recording = rules(max_response=limit).recording()
    recording.start(200, ())
    for chunk in chunks:
        recording.add(chunk)
    recording.complete = complete
    stored, body = recording.stored(), b"".join(chunks)
    assert stored.replayable == (complete and len(body) <= limit)
    assert stored.body == (body if stored.replayable else b"")


@pytest.mark.parametrize(("length", "whole"), [("4", True), ("3", True), ("5", False), ("x", False), (None, False)])
def test_a_declared_length_tells_when_the_client_has_all(length: str | None, whole: bool) -> None:
    recording = rules().recording()
    recording.start(200, [] if length is None else [("content-length", length)])
    recording.add(b"four")
    assert recording.declared_whole == whole


@pytest.mark.parametrize(
    ("text", "length"),
    [
        *((None, None), ("", None), ("-1", None), ("+1", None), ("1.0", None), ("1_0", None), ("\u0661", None)),
        *(("0", 0), ("007", 7), ("0" * 5_000 + "9", 9)),
    ],
)
def test_a_content_length_is_digits(text: str | None, length: int | None) -> None:
    assert declared_length(text) == length
    assert (declared_length("9" * 5_000) or 0) > 10**18


# -- settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a b"}, "name is"),
        ({"methods": ("POST", "get")}, "methods holds GET"),
        ({"methods": "POST"}, "methods is 'POST'"),
        ({"lease": 0.5}, "lease is 0.5"),
        ({"lease": "soon"}, "lease is 'soon'"),
        ({"lifetime": 0}, "lifetime is 0"),
        ({"replay_errors": "sometimes"}, "replay_errors is 'sometimes'"),
        ({"outage": "crash"}, "outage is 'crash'"),
        ({"principal": "Authorization"}, "principal is 'Authorization'"),
        ({"required": "yes"}, "required is 'yes'"),
        ({"headers": ("set-Cookie",)}, "headers holds set-cookie"),
        ({"headers": "X-A"}, "headers is 'X-A'"),
        ({"max_request": -1}, "max_request is -1"),
        ({"max_request": 0}, "max_request is 0"),
        ({"max_request": "1 MB"}, "max_request is '1 MB'"),
        ({"max_response": None}, "max_response is None"),
        ({"name": None}, "name is None"),
        ({"unstored": 422}, "unstored is 422: hand over several"),
        ({"unstored": ("422",)}, "unstored holds '422'"),
        ({"unstored": (201,)}, "unstored holds 201: .* a repeat would have it again"),
        ({"max_response": 700_001}, "max_response is 700001"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings(**options)


@pytest.mark.parametrize("middleware", [IdempotencyMiddleware, WSGIIdempotencyMiddleware])
@pytest.mark.parametrize("app", ["sqlite:///shop.db", None, print])
def test_something_that_is_no_app_is_refused(middleware: Any, app: Any) -> None:
    with pytest.raises(ConfigError, match="hand over the web app first, then the Headrace"):
        middleware(lambda: None, app)


def test_durations_are_written_as_elsewhere() -> None:
    made = rules(lease="45s", lifetime=timedelta(days=2))
    claim = made.claim(Head({}), "k", b"", "owner")
    assert (made.lease_us, claim.lease_us) == (45_000_000, 45_000_000)
    holding = Holding(Headrace("memory://").driver, claim, 9, "the key", 0)
    assert made.end(holding, Stored(200)).end.keep_us == 2 * 24 * 3600 * 1_000_000
    given_back = made.end(holding, None)
    assert (given_back.owner, given_back.end.state, given_back.end.fence) == ("owner", "free", 9)


def test_methods_may_be_others() -> None:
    assert rules().methods == {"POST", "PATCH"}
    assert rules(methods=["put"]).methods == {"PUT"}
