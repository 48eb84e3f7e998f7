"""What only ASGI has: background tasks, bodies in pieces, apps that send nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.calling import Caller, is_replay, kind_of, new_key
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("caller", ["asgi-memory"], indirect=True)


def test_a_background_task_runs_once(caller: Caller) -> None:
    """B157."""
    key = new_key()
    first, again = caller.twice(key, then="background")
    assert (first.text, again.text, is_replay(again)) == ("accepted", "accepted", True)
    wait_until(lambda: caller.effects[f"{key} in the background"], what="the background task")
    assert caller.effects[key] == caller.effects[f"{key} in the background"] == 1


def test_a_background_task_that_fails_changes_nothing_of_the_answer(caller: Caller) -> None:
    """B157."""
    key = new_key()
    first, again = caller.twice(key, then="late_failure")
    assert (first.status_code, again.status_code, again.text, is_replay(again)) == (202, 202, "accepted", True)
    assert caller.effects[key] == 1


def test_an_app_that_answers_nothing_has_failed(caller: Caller) -> None:
    """B157."""
    key = new_key()
    first, again = caller.twice(key, "/plain/raw/mute")
    assert (first.status_code, again.status_code, kind_of(again)) == (500, 500, "failed")
    assert caller.effects[key] == 1


def test_a_body_in_pieces_is_one_body(caller: Caller) -> None:
    key = new_key()

    def pieces(*texts: bytes) -> Iterator[bytes]:
        yield from texts

    request = caller.request(key)
    first = caller.client.request(**{**request, "content": pieces(b"ab", b"cd")})
    again = caller.client.request(**{**request, "content": pieces(b"a", b"bc", b"d")})
    assert (first.json()["body"], is_replay(again)) == ("abcd", True)
    tiny = caller.request(new_key(), "/tiny/orders", effect=key)
    large = caller.client.request(**{**tiny, "content": pieces(b"0123456789", b"x")})
    assert (large.status_code, kind_of(large)) == (413, "too-large")
    assert caller.effects[key] == 1
