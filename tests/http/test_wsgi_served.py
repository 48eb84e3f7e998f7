"""What only WSGI has: lists, `write`, `wsgi.file_wrapper`."""

from __future__ import annotations

import pytest

from tests.http.calling import Caller, is_replay, new_key

pytestmark = pytest.mark.parametrize("caller", ["wsgi-memory"], indirect=True)


@pytest.mark.parametrize(
    ("kind", "body"), [("list", b"one,two"), ("written", b"written,returned"), ("wrapped", b"f" * 70_000)]
)
def test_every_way_to_answer_is_copied(caller: Caller, kind: str, body: bytes) -> None:
    """B157."""
    key = new_key()
    first, again = caller.twice(key, f"/plain/raw/{kind}")
    assert (first.status_code, first.content, is_replay(first)) == (201, body, False)
    assert (again.status_code, again.content, is_replay(again)) == (201, body, True)
    assert again.headers["Content-Type"] == "text/plain"
    assert caller.effects[key] == 1
