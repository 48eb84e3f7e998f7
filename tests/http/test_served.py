"""Requests with an Idempotency-Key, sent to real servers: uvicorn before Starlette, wsgiref before Flask."""

from __future__ import annotations

import contextlib

import httpx2
import pytest

from tests.http.calling import Caller, is_replay, kind_of, new_key
from tests.http.site import BIG


def test_a_repeat_is_answered_byte_by_byte_as_the_first_was(caller: Caller) -> None:
    """B158: and without what belonged to the first client alone."""
    key = new_key()
    first, again = caller.twice(key, body=b'{"total": 5}')
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert first.json()["body"] == '{"total": 5}'
    assert first.json()["fence"] > 0
    assert (is_replay(first), is_replay(again)) == (False, True)
    for name in ("Content-Type", "Location", "Content-Length"):
        assert first.headers[name] == again.headers[name]
    assert "Set-Cookie" in first.headers
    assert "Set-Cookie" not in again.headers
    assert "X-Request-Id" not in again.headers
    assert caller.effects[key] == 1


def test_quoted_and_bare_are_one_key(caller: Caller) -> None:
    key = new_key()
    assert not is_replay(caller.post(f'"{key}";v=1', effect=key))
    assert is_replay(caller.post(key, effect=key))
    assert caller.effects[key] == 1


def test_without_a_key_each_request_runs(caller: Caller) -> None:
    effect = new_key()
    for _ in range(2):
        response = caller.post(None, effect=effect)
        assert (response.status_code, response.json()["fence"], is_replay(response)) == (201, None, False)
    assert caller.effects[effect] == 2


def test_a_required_key_that_is_missing_is_400(caller: Caller) -> None:
    effect = new_key()
    assert kind_of(caller.post(None, "/required/orders", effect=effect)) == "missing"
    assert caller.effects[effect] == 0
    assert caller.post(None, "/required/other", effect=effect).status_code == 201
    assert caller.post(new_key(), "/required/orders", effect=effect).status_code == 201


@pytest.mark.parametrize("value", ['"open', "a b", "x" * 256, "a,b", ""])
def test_a_malformed_key_is_400(caller: Caller, value: str) -> None:
    effect = new_key()
    response = caller.post(value, effect=effect)
    assert (response.status_code, kind_of(response)) == (400, "malformed")
    assert caller.effects[effect] == 0


def test_two_keys_are_400(caller: Caller) -> None:
    effect = new_key()
    request = caller.request(None, effect=effect)
    request["headers"] = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
    response = caller.client.request(**request)
    assert (response.status_code, kind_of(response)) == (400, "malformed")
    request["headers"] = [(b"Idempotency-Key", "schlüssel".encode())]
    assert caller.client.request(**request).status_code == 400
    assert caller.effects[effect] == 0


def test_another_request_under_the_same_key_is_422(caller: Caller) -> None:
    """B156: another body, path, query or method."""
    key = new_key()
    assert caller.post(key, effect=key).status_code == 201
    for other in (
        caller.post(key, effect=key, body=b"other"),
        caller.post(key, "/plain/other", effect=key),
        caller.post(key, effect=key, then="created"),
        caller.post(key, effect=key, method="PATCH"),
    ):
        assert (other.status_code, kind_of(other)) == (422, "other-request")
        assert "Retry-After" not in other.headers
    assert is_replay(caller.post(key, effect=key))
    assert caller.effects[key] == 1


def test_another_client_has_keys_of_its_own(caller: Caller) -> None:
    """B156."""
    key = new_key()
    for who in ("Bearer one", "Bearer two", None):
        more = {"Authorization": who} if who else {}
        assert not is_replay(caller.post(key, effect=key, more=more))
        assert is_replay(caller.post(key, effect=key, more=more))
    for tenant in ("one", "two"):
        assert not is_replay(caller.post(key, "/tenant/orders", effect=key, more={"X-Tenant": tenant}))
        assert is_replay(caller.post(key, "/tenant/orders", effect=key, more={"X-Tenant": tenant}))
    assert caller.effects[key] == 5


@pytest.mark.parametrize("status", [401, 408, 409, 429])
def test_an_answer_that_says_nothing_was_done_is_not_stored(caller: Caller, status: int) -> None:
    """B158."""
    key = new_key()
    for response in caller.twice(key, then=str(status)):
        assert (response.status_code, is_replay(response)) == (status, False)
        assert response.text == f"status {status}"
    assert caller.effects[key] == 2


@pytest.mark.parametrize("status", [400, 404, 422])
def test_other_errors_of_the_client_are_stored(caller: Caller, status: int) -> None:
    key = new_key()
    first, again = caller.twice(key, then=str(status))
    assert (again.status_code, again.text, is_replay(again)) == (status, first.text, True)
    assert caller.effects[key] == 1


def test_an_error_after_the_effect_does_not_run_again_by_default(caller: Caller) -> None:
    """B155: the default is the safe one; B158: the other is a setting."""
    key = new_key()
    first, again = caller.twice(key, then="500")
    assert (first.status_code, again.status_code, again.text, is_replay(again)) == (500, 500, first.text, True)
    assert caller.effects[key] == 1
    for response in caller.twice(key, "/never/orders", then="500"):
        assert (response.status_code, is_replay(response)) == (500, False)
    assert caller.effects[key] == 3


def test_a_handler_that_raises_counts_as_500(caller: Caller) -> None:
    """B155 B157: the framework's middleware makes the answer, which is replayed."""
    key = new_key()
    first, again = caller.twice(key, then="fail")
    assert (first.status_code, again.status_code, is_replay(again)) == (500, 500, True)
    assert first.content == again.content
    assert caller.effects[key] == 1
    caller.twice(key, "/never/orders", then="fail")
    assert caller.effects[key] == 3


def test_a_handler_may_say_that_it_has_done_nothing(caller: Caller) -> None:
    """B155."""
    key = new_key()
    for response in caller.twice(key, then="nothing_done"):
        assert (response.status_code, is_replay(response)) == (503, False)
    assert caller.effects[key] == 2


@pytest.mark.parametrize("path", ["/plain/orders", "/tenant/orders"])
@pytest.mark.parametrize("then", ["streamed", "sized", "file", "empty", "moved"])
def test_answers_of_every_kind_are_replayed(caller: Caller, then: str, path: str) -> None:
    """B157. In ASGI one of the apps has a middleware that makes streams of all answers."""
    key = new_key()
    first, again = caller.twice(key, path, then=then)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers.get("Location") == first.headers.get("Location")
    assert (is_replay(first), is_replay(again)) == (False, True)
    assert caller.effects[key] == 1
    assert {"streamed": 201, "sized": 201, "file": 200, "empty": 204, "moved": 303}[then] == again.status_code
    if then != "empty":
        assert int(again.headers["Content-Length"]) == len(again.content)


def test_an_answer_that_breaks_off_is_not_run_again(caller: Caller) -> None:
    """B157."""
    key = new_key()
    with contextlib.suppress(httpx2.TransportError):
        caller.post(key, then="breaks")
    again = caller.post(key, then="breaks")
    assert (again.status_code, kind_of(again)) == (409, "not-replayable")
    assert "Retry-After" not in again.headers
    assert caller.effects[key] == 1


@pytest.mark.parametrize("path", ["/plain/raw/fails", "/plain/raw/half"])
def test_an_exception_that_reaches_the_server_is_not_run_again(caller: Caller, path: str) -> None:
    """B155 B157: without an answer it counts as 500, with half of one it cannot be replayed."""
    key = new_key()
    with contextlib.suppress(httpx2.TransportError):
        caller.post(key, path)
    again = caller.post(key, path)
    expected = (500, "failed") if path.endswith("fails") else (409, "not-replayable")
    assert (again.status_code, kind_of(again)) == expected
    assert caller.effects[key] == 1
    never = path.replace("plain", "never")
    for _ in range(2):
        with contextlib.suppress(httpx2.TransportError):
            caller.post(key, never)
    # what has begun to succeed has had its effect, whatever broke off its answer
    assert caller.effects[key] == (3 if path.endswith("fails") else 2)


def test_an_answer_over_the_cap_is_done_and_not_replayable(caller: Caller) -> None:
    """B157."""
    key = new_key()
    first = caller.post(key, "/tiny/orders", then="big", body=b"")
    assert (first.status_code, len(first.content)) == (201, BIG)
    again = caller.post(key, "/tiny/orders", then="big", body=b"")
    assert (again.status_code, kind_of(again)) == (409, "not-replayable")
    assert caller.effects[key] == 1
    assert is_replay(caller.twice(new_key(), then="big")[1])


def test_a_request_over_the_cap_is_413(caller: Caller) -> None:
    key = new_key()
    assert caller.post(key, "/tiny/orders", body=b"0123456789").status_code == 201
    too_large = caller.post(new_key(), "/tiny/orders", effect=key, body=b"0123456789x")
    assert (too_large.status_code, kind_of(too_large)) == (413, "too-large")
    assert caller.post(None, "/tiny/orders", effect="free", body=b"0123456789x").status_code == 201
    assert caller.effects[key] == 1


@pytest.mark.parametrize("method", ["HEAD", "GET", "PUT"])
def test_other_methods_pass_through(caller: Caller, method: str) -> None:
    """B157."""
    key = new_key()
    for response in caller.twice(key, method=method):
        assert (response.status_code, is_replay(response)) == (201, False)
    assert caller.effects[key] == 2


def test_patch_is_guarded_too(caller: Caller) -> None:
    key = new_key()
    assert is_replay(caller.twice(key, method="PATCH")[1])
    assert caller.effects[key] == 1
