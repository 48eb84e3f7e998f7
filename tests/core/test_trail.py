"""What a job remembers: counts apart from each other, a bounded history, and no trust in what is read back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import trail
from headrace.core.trail import EMPTY, HISTORY, Mishap, Trail, clean


def mishap(number: int) -> Mishap:
    return Mishap("error", number, number, "w", type="ValueError", message=f"number {number}")


def test_a_new_job_has_none() -> None:
    assert trail.decode(None) is EMPTY
    assert trail.decode(b"") is EMPTY
    assert trail.encode(EMPTY) == b"{}"  # small on the wire, whatever fields there will be


def test_the_history_keeps_the_newest() -> None:
    kept = EMPTY
    for number in range(HISTORY + 5):
        kept = kept.with_mishap(mishap(number))
    assert [one.at_us for one in kept.history] == list(range(5, HISTORY + 5))
    assert not EMPTY.history


COUNTS = st.integers(0, 10**6)
TRAILS = st.builds(
    Trail,
    attempts=COUNTS,
    errors=COUNTS,
    crashes=COUNTS,
    releases=COUNTS,
    snoozes=COUNTS,
    replays=COUNTS,
    delay_us=COUNTS,
    unknown_since_us=st.none() | COUNTS,
    unknowns=COUNTS,
    alone=st.booleans(),
    history=st.lists(st.builds(mishap, COUNTS), max_size=HISTORY).map(tuple),
)


@given(TRAILS)
def test_it_survives_the_store(one: Trail) -> None:
    assert trail.decode(trail.encode(one)) == one


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense",
        b"[]",
        b"null",
        b'{"attempts": "many"}',
        b'{"attempts": -5}',
        b'{"delay_us": 1e400}',
        b'{"history": [{"kind": "error", "at_us": 9000000000000000000, "attempt": 1, "worker": "w"}]}',
        b'{"history": [{}]}',
        b"\xff\xfe",
        b'{"history": [{"kind": "error", "at_us": 1, "attempt": 1, "worker": "\xff"}]}',
        b'{"x":' + b"[" * 100_000,
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_what_cannot_be_read_counts_as_none(raw: bytes) -> None:
    """B102: also a message nested 100,000 deep, which must not take the worker down."""
    assert trail.decode(raw) == EMPTY


def test_a_newer_version_may_have_written_more() -> None:
    assert trail.decode(b'{"attempts": 2, "moods": ["sad"]}') == Trail(attempts=2)


def test_a_crash_is_counted_apart_and_kept() -> None:
    """B002: the record says that the worker was lost, and attempts and errors are not touched."""
    before = Trail(attempts=1, errors=1, releases=2, snoozes=3, history=(mishap(1),))
    after = trail.decode(trail.crashed(trail.encode(before), worker="w7", now_us=9, alone=False))
    crash = Mishap("crash", 9, 2, "w7", type="WorkerLost", message="the lease of w7 ran out")
    assert after == msgspec.structs.replace(before, crashes=1, history=(mishap(1), crash))


def test_crashes_add_up_whoever_rescues() -> None:
    """B009: the count belongs to the job, not to the delivery or to the worker that found it."""
    raw = None
    for number in (1, 2, 3):
        raw = trail.crashed(raw, worker=f"worker {number}", now_us=number, alone=number == 3)
        assert trail.decode(raw).crashes == number
        assert trail.decode(raw).alone is (number == 3)
    assert [one.worker for one in trail.decode(raw).history] == ["worker 1", "worker 2", "worker 3"]


def test_a_release_is_counted_apart() -> None:
    """B024"""
    before = Trail(attempts=1, errors=1, crashes=1)
    assert trail.decode(trail.released(trail.encode(before))) == msgspec.structs.replace(before, releases=1)


@given(TRAILS)
def test_a_replay_resets_counts_and_keeps_the_history(before: Trail) -> None:
    after = trail.decode(trail.replayed(trail.encode(before)))
    assert after == Trail(replays=before.replays + 1, history=before.history)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("plain", "plain"),
        ("😀 שלום 中文", "😀 שלום 中文"),
        ("a\ud800b", "a?b"),
        ("a\x00b", "a\ufffdb"),
        ("\x1b[31mred", "\x1b[31mred"),
    ],
)
def test_clean_texts_are_valid_utf8(text: str, kept: str) -> None:
    """B094"""
    assert clean(text, 100) == kept


def test_long_texts_are_cut_with_a_mark() -> None:
    """B101"""
    assert clean("x" * 10 + "y" * 5, 10) == "x" * 10 + "...[5 characters cut]"
    assert clean("x" * 5 + "y" * 10, 10, keep_end=True) == "[5 characters cut]..." + "y" * 10
    assert clean("x" * 10, 10) == "x" * 10


@given(st.text(st.characters(), max_size=50), st.integers(1, 40), st.booleans())
def test_any_text_can_be_stored(text: str, limit: int, keep_end: bool) -> None:
    kept = clean(text, limit, keep_end=keep_end)
    assert (
        trail.decode(trail.encode(Trail(history=(Mishap("error", 1, 1, "w", message=kept),)))).history[0].message
        == kept
    )
    assert "\x00" not in kept
    assert len(kept) <= limit + len("[50 characters cut]...")
