"""Exceptions as text: every kind that ever killed a worker is described and let go."""

import dataclasses
import threading
import weakref
from collections.abc import Iterator

import pytest

from headrace.core.errortext import as_text, describe, drop_frames
from headrace.core.trail import TEXT, TRACEBACK, Mishap, Trail, encode


def raised(error: BaseException) -> BaseException:
    """`error` as it looks after it was raised."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - whatever was given comes back
        return caught


class WithArguments(Exception):
    """No copy of it can be made from its arguments."""

    def __init__(self, one: object, other: object) -> None:
        super().__init__(f"{one} and {other}")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Leaving(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class Wordless(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # noqa: PLE0307 - that is the point


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """It refuses every assignment, that of its traceback too."""

    code: int


class Trapped(Exception):
    """Even its notes raise."""

    @property
    def __notes__(self) -> list[str]:
        raise OSError("trap")


def looped() -> BaseException:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def grouped() -> BaseException:
    inner = [raised(ValueError(number)) for number in range(100)]
    return ExceptionGroup("many", [ExceptionGroup("inner", inner), OSError("single")])


def nested() -> BaseException:
    error: Exception = ValueError("innermost")
    for _ in range(2_000):
        error = ExceptionGroup("group", [error])
    return error


def holding() -> Iterator[int]:
    yield 1


ERRORS = {
    "plain": (ValueError("a problem"), "ValueError", "a problem"),
    "empty": (ValueError(), "ValueError", ""),
    "arguments": (WithArguments(1, 2), "WithArguments", "1 and 2"),
    "lock": (ValueError(threading.Lock()), "ValueError", "<unlocked _thread.lock"),
    "generator": (ValueError(holding()), "ValueError", "<generator object holding"),
    "no str": (Unspeakable(), "Unspeakable", "<Unspeakable.__str__ raised RuntimeError>"),
    "str exits": (Leaving(), "Leaving", "<Leaving.__str__ raised SystemExit>"),
    "str is none": (Wordless(), "Wordless", "<Wordless.__str__ raised TypeError>"),
    "frozen": (Frozen(7), "Frozen", "7"),
    "trap": (Trapped("why"), "Trapped", "why"),
    "group": (grouped(), "ExceptionGroup", "many (2 sub-exceptions)"),
    "deep group": (nested(), "ExceptionGroup", "group (1 sub-exception)"),
    "loop": (looped(), "ValueError", "one"),
    "exit": (SystemExit(2), "SystemExit", "2"),
    "memory": (MemoryError(), "MemoryError", ""),
    "syntax": (SyntaxError("bad", ("f.py", 10**9, -5, "x" * 100)), "SyntaxError", "bad (f.py, line 1000000000)"),
    "surrogate": (ValueError("a\ud800b \x00 😀 שלום"), "ValueError", "a?b \ufffd 😀 שלום"),
    "bytes": (ValueError(b"\xff"), "ValueError", r"b'\xff'"),
    "name": (type("Fehler" + "x" * 500, (Exception,), {})("why"), "Fehlerxxx", "why"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_every_exception_has_its_text(name: str) -> None:
    """B088, B094: type, message and traceback as plain text that every store can keep."""
    error, expected_type, message = ERRORS[name]
    text = describe(raised(error))
    assert text.type.startswith(expected_type)
    assert text.message.startswith(message)
    assert text.traceback
    assert max(len(text.type) - 200, len(text.message) - TEXT, len(text.traceback) - TRACEBACK) < 40
    assert encode(Trail(history=(Mishap("error", 1, 1, "w", *text),)))
    assert error.__traceback__ is None


def test_the_traceback_names_the_place() -> None:
    text = describe(raised(ValueError("a problem")))
    assert text.traceback.startswith("Traceback (most recent call last):\n")
    assert ", in raised\n    raise error\n" in text.traceback
    assert text.traceback.endswith("ValueError: a problem\n")


def test_causes_and_members_are_told() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ExceptionGroup("outer", [ValueError("member")]) from inner
    except ExceptionGroup as caught:
        text = describe(caught)
    for part in ("KeyError: 'inner'", "direct cause", "outer (1 sub-exception)", "ValueError: member"):
        assert part in text.traceback


def test_notes_are_told() -> None:
    error = ValueError("a problem")
    error.add_note("while counting the stock")
    assert describe(error).traceback == "ValueError: a problem\nwhile counting the stock\n"


def test_the_size_is_bounded() -> None:
    """B101: 5 MB of message are cut with a mark, and the frames are still there."""
    text = describe(raised(ValueError("x" * 5_000_000)))
    assert text.message == "x" * TEXT + "...[4998000 characters cut]"
    assert "in raised" in text.traceback
    assert "characters cut]" in text.traceback
    assert len(text.traceback) < TRACEBACK


def test_a_deep_recursion_keeps_the_innermost_frames() -> None:
    def dig(depth: int) -> None:
        if depth == 0:
            raise ValueError("at the bottom")
        dig(depth - 1)

    with pytest.raises(ValueError, match="at the bottom") as caught:
        dig(500)
    text = describe(caught.value)
    assert 'raise ValueError("at the bottom")' in text.traceback
    assert len(text.traceback) <= TRACEBACK


def test_endless_recursion_is_described() -> None:
    def fall() -> None:
        fall()

    with pytest.raises(RecursionError) as caught:
        fall()
    text = describe(caught.value)
    assert text.type == "RecursionError"
    assert "in fall" in text.traceback


class Large:
    """Something that a handler holds."""


def failing(chain: str) -> tuple[BaseException, "weakref.ref[Large]"]:
    def handler() -> None:
        large = Large()
        found.append(weakref.ref(large))
        raise ValueError("with a large local")

    found: list[weakref.ref[Large]] = []
    try:
        try:
            handler()
        except ValueError as inner:
            if chain == "cause":
                raise KeyError("outer") from inner
            if chain == "context":
                raise KeyError("outer") from None
            if chain == "group":
                raise ExceptionGroup("outer", [inner]) from None
            raise
    except (ValueError, KeyError, ExceptionGroup) as error:
        return error, found[0]
    raise AssertionError("unreachable")


@pytest.mark.parametrize("chain", ["none", "cause", "context", "group"])
def test_the_frames_are_let_go(chain: str) -> None:
    """B114: what the handler held can be collected, although the exception itself is still there."""
    error, large = failing(chain)
    assert large() is not None
    describe(error)
    assert large() is None
    assert error is not None


def test_frames_of_a_loop_are_let_go() -> None:
    error = raised(looped())
    drop_frames(error)
    assert error.__traceback__ is None


def test_as_text() -> None:
    assert as_text(5) == "5"
    assert as_text(Unspeakable()) == "<Unspeakable.__str__ raised RuntimeError>"
