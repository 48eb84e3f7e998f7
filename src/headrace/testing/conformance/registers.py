"""Guarantees of registers: they change one after the other, by functions of the application's, and nothing is lost."""

from __future__ import annotations

from typing import Any

from headrace.core import operations as ops
from headrace.core.registers import Amend, Change, Changed, LookRegisters, RegisterView
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import Harness, guarantee

DAY_US = 24 * 3600 * MICROSECONDS


class Append(Change, frozen=True, kw_only=True):
    """Adds `text`, unless it is the end already; answers what was there, and the time."""

    text: bytes
    keep_us: int = DAY_US

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """The content is the texts, one after the other."""
        was = body or b""
        return Changed(was if was.endswith(self.text) else was + self.text, (body, now_us), self.keep_us)


class Count(Change, frozen=True, kw_only=True):
    """Adds `text`, however often: for those who send once."""

    text: bytes

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """The content is the texts, one after the other."""
        return Changed((body or b"") + self.text)


class Erase(Change, frozen=True, kw_only=True):
    """Leaves nothing."""

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Answers what was there."""
        return Changed(None, body)


def append(h: Harness, name: str, text: bytes, **options: Any) -> bytes | None:
    """What was there before."""
    ((was, now_us),) = h.run(Amend((Append(register=name, text=text, **options),)))
    assert now_us == h.clock()
    return was  # type: ignore[no-any-return]


def look(h: Harness, **options: Any) -> dict[str, bytes]:
    """Names and contents, in their order."""
    return {view.name: view.body for view in h.run(LookRegisters(**options))}


@guarantee
def a_register_is_changed_by_what_it_holds(h: Harness) -> None:
    assert append(h, "r", b"a") is None
    assert append(h, "r", b"\x00b\xff") == b"a"
    assert append(h, "r", b"c") == b"a\x00b\xff"
    assert h.run(LookRegisters()) == [RegisterView("r", b"a\x00b\xffc", h.clock() - 1 + DAY_US)]


@guarantee
def changes_of_one_call_see_each_other(h: Harness) -> None:
    changes = [Append(register=name, text=text) for name, text in (("r", b"a"), ("s", b"b"), ("r", b"c"))]
    answers = h.run(Amend((*changes, Erase(register="s"), Append(register="s", text=b"d"))))
    assert answers == [(None, h.clock()), (None, h.clock()), (b"a", h.clock()), b"b", (None, h.clock())]
    assert look(h) == {"r": b"ac", "s": b"d"}
    assert h.run(Amend(())) == []


@guarantee
def a_register_that_holds_nothing_is_gone(h: Harness) -> None:
    assert h.run(Amend((Erase(register="r"),))) == [None]
    append(h, "r", b"a")
    assert h.run(Amend((Erase(register="r"),))) == [b"a"]
    assert look(h) == {}
    assert append(h, "r", b"b") is None


@guarantee
def a_register_is_forgotten_when_nobody_writes_to_it(h: Harness) -> None:
    append(h, "r", b"a", keep_us=10)
    h.clock.advance_us(8)
    assert append(h, "r", b"a", keep_us=10) == b"a"  # looked at, but not written
    assert append(h, "r", b"b") is None
    append(h, "s", b"a", keep_us=10)
    h.clock.advance_us(8)
    assert append(h, "s", b"b", keep_us=10) == b"a"
    h.clock.advance_us(8)
    assert look(h) == {"r": b"b", "s": b"ab"}
    h.clock.advance_us(2)
    assert look(h) == {"r": b"b"}
    assert append(h, "s", b"c") is None


@guarantee
def registers_are_pruned(h: Harness) -> None:
    for number in range(5):
        append(h, f"r{number}", b"a", keep_us=10)
    append(h, "kept", b"a")
    h.clock.advance_us(20)
    assert h.run(ops.Prune(limit=3)).more
    assert not h.run(ops.Prune(limit=3)).more
    assert look(h) == {"kept": b"a"}


@guarantee
def registers_are_listed_by_prefix_and_page(h: Harness) -> None:
    names = ["a:1", "b%1", "b_1", "b:1", "b:10", "b:2", "b:\u00e9", "b;1", "B:1"]
    h.run(Amend(tuple(Append(register=name, text=name.encode()) for name in names)))
    assert list(look(h)) == sorted(names, key=str.encode)
    assert list(look(h, prefix="b:")) == ["b:1", "b:10", "b:2", "b:\u00e9"]
    assert list(look(h, prefix="b:", limit=2)) == ["b:1", "b:10"]
    assert list(look(h, prefix="b:", limit=2, after="b:10")) == ["b:2", "b:\u00e9"]
    assert list(look(h, prefix="b%")) == ["b%1"]
    assert list(look(h, prefix="b_")) == ["b_1"]
    assert look(h, prefix="c") == {}
    assert look(h)["b:\u00e9"] == "b:\u00e9".encode()


@guarantee
def a_register_may_be_large_and_its_name_long(h: Harness) -> None:
    name, text = "r" * 300, bytes(range(256)) * 400
    append(h, name, text)
    assert look(h) == {name: text}


@guarantee
def two_who_change_a_register_at_once_both_count(h: Harness) -> None:
    """Whatever happens in between, each sees what the other wrote, or is seen by it."""
    texts = [b"<%d>" % number for number in range(8)]

    def change(text: bytes) -> None:
        for register in ("r", "s", "r"):
            h.run(Amend((Count(register=register, text=text), Count(register="s", text=text))))

    h.parallel(*[lambda text=text: change(text) for text in texts])
    content = look(h)
    assert {text: content["r"].count(text) for text in texts} == dict.fromkeys(texts, 2)
    assert {text: content["s"].count(text) for text in texts} == dict.fromkeys(texts, 4)
