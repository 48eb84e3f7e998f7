"""Binding a call to a function's parameters, and which functions can be tasks at all."""

import math
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest

from headrace.core.arguments import Arguments
from headrace.errors import InvalidArguments, TaskError


class Opaque:
    pass


def example_of_any(value: Any) -> None: ...


def example(order_id: int, note: str = "hello", *, loud: bool = False) -> None: ...


def test_positions_become_names_and_defaults_stay_with_the_function() -> None:
    arguments = Arguments.of(example)
    assert arguments.encode((17,), {}) == b'{"order_id":17}'
    assert arguments.decode(b'{"order_id":17}') == {"order_id": 17}
    assert arguments.decode(arguments.encode((17, "x"), {"loud": True})) == {"order_id": 17, "note": "x", "loud": True}
    assert arguments.defaults == {"note": "hello", "loud": False}


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "argument 'order_id' is missing; it takes (order_id, note, loud)"),
        ((1, "a", True, 4), {}, "got 4 arguments by position; it takes (order_id, note, loud)"),
        ((1,), {"order_id": 2}, "'order_id' twice"),
        ((1,), {"colour": 2}, "has no argument 'colour'; it takes (order_id, note, loud)"),
        ((1,), {"lout": True}, "has no argument 'lout' (did you mean 'loud'?); it takes (order_id"),
        (("x" * 40,), {}, "argument 'order_id' must be of type int, not str"),
    ],
)
def test_calls_that_do_not_fit_are_refused(args: tuple[Any, ...], kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        Arguments.of(example).encode(args, kwargs)
    assert words in str(caught.value)
    assert "example()" in str(caught.value)


def test_all_missing_arguments_are_named_at_once() -> None:
    def pay(order_id: int, amount: Decimal, note: str = "") -> None: ...

    with pytest.raises(
        InvalidArguments, match=r"arguments 'order_id' and 'amount' are missing; it takes \(order_id, am"
    ):
        Arguments.of(pay).encode((), {})
    with pytest.raises(InvalidArguments, match="argument 'order_id' is missing"):
        Arguments.of(pay).decode(b"{}")


def test_a_value_is_shown_only_where_it_is_short_and_no_secret() -> None:
    """The text of the error ends in logs."""

    def login(user: int, password: int, options: dict[str, int]) -> None: ...

    arguments = Arguments.of(login)
    good: dict[str, Any] = {"user": 1, "password": 1, "options": {}}
    for given, shown in [({"user": "anna"}, "not str, given 'anna'"), ({"user": "x" * 30}, "not str")]:
        with pytest.raises(InvalidArguments, match=f"{shown}$"):
            arguments.encode((), good | given)
    for given in [{"password": "hunter2"}, {"options": {"token": "hunter2"}}]:
        with pytest.raises(InvalidArguments) as caught:
            arguments.encode((), good | given)
        assert "hunter2" not in str(caught.value)


def test_an_extra_argument_is_named_too() -> None:
    def count(**numbers: list[int]) -> None: ...

    for value, path in [(5, "'a' must be of type list"), ([1, "x"], r"'a\[1\]' must be of type int, not str")]:
        with pytest.raises(InvalidArguments, match=path):
            Arguments.of(count).encode((), {"a": value})


@pytest.mark.parametrize(
    "raw",
    [b"{}", b'{"order_id":"x"}', b'{"order_id":1,"gone":2}', b"[]", b"", b"\xff", b'{"order_id":' + b"[" * 100_000],
)
def test_stored_arguments_that_do_not_fit_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidArguments, match="example"):
        Arguments.of(example).decode(raw)


def test_stored_arguments_are_decoded_out_of_an_envelope() -> None:
    assert Arguments.of(example).decode(msgspec.Raw(b'{"order_id":1}')) == {"order_id": 1}


def test_keyword_extras_are_sent_along() -> None:
    def task(a: int, **more: Any) -> None: ...

    def typed(**more: date) -> None: ...

    arguments = Arguments.of(task)
    assert arguments.decode(arguments.encode((1,), {"b": [2]})) == {"a": 1, "b": [2]}
    dates = Arguments.of(typed)
    assert dates.decode(dates.encode((), {"x": date(2026, 1, 1)})) == {"x": date(2026, 1, 1)}
    with pytest.raises(InvalidArguments):
        dates.encode((), {"x": 5})
    with pytest.raises(InvalidArguments, match="annotate"):
        arguments.encode((1,), {"b": (2,)})


def test_functions_that_cannot_be_tasks_are_refused_by_parameter() -> None:
    def starred(*items: int) -> None: ...

    def positional(a: int, /) -> None: ...

    def opaque(a: int, thing: Opaque) -> None: ...

    def inside(things: dict[str, list[Opaque]]) -> None: ...

    def callback(then: Callable[[], None]) -> None: ...

    refused: list[tuple[Callable[..., Any], str]] = [
        (starred, r"\*items"),
        (positional, "'a'"),
        (opaque, "'thing' is annotated with .*Opaque, which has no JSON form"),
        (inside, "'things' is annotated with .*Opaque"),
        (callback, "'then'"),
    ]
    for function, words in refused:
        with pytest.raises(TaskError, match=words):
            Arguments.of(function)


def test_a_method_is_refused() -> None:
    class Shop:
        def mail(self, order_id: int) -> None: ...

        @classmethod
        def report(cls) -> None: ...

        @staticmethod
        def plain(order_id: int) -> None: ...

    with pytest.raises(TaskError, match=r"Shop\.mail\(\) takes 'self', so it is a method.*make it a function"):
        Arguments.of(Shop.mail)
    with pytest.raises(TaskError, match="takes 'cls'"):
        Arguments.of(Shop.report.__func__)
    assert Arguments.of(Shop.plain).names == Arguments.of(Shop().mail).names == ("order_id",)


@pytest.mark.parametrize(
    ("annotation", "default", "words"),
    [
        (int, "x", r"default of 'value' does not fit its annotation \(Expected int, got str\): change one of them$"),
        (int, None, r"Expected int, got None\): change one of them, such as to `\.\.\. \| None`"),
        (list[int], ["a"], "Expected int, got str"),
        (Literal["a"], "b", "Invalid enum value 'b'"),
    ],
)
def test_a_default_that_does_not_fit_its_annotation_is_refused(annotation: Any, default: Any, words: str) -> None:
    def task(value=default): ...  # type: ignore[no-untyped-def]

    task.__annotations__ = {"value": annotation}
    with pytest.raises(TaskError, match=words):
        Arguments.of(task)


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (float, 1),
        (float, math.nan),
        (Decimal, Decimal("1.1")),
        (date, date(2026, 1, 1)),
        (timedelta, timedelta(1)),
        (dict[int, str], {1: "a"}),
        (tuple[int, ...], ()),
        (set[str], {"a"}),
        (int | None, None),
        (int, 2**70),
        (Any, (1,)),
        (str, Opaque()),  # a sentinel is the function's own affair: a default never travels
    ],
)
def test_a_default_that_fits_is_none_of_our_business(annotation: Any, default: Any) -> None:
    def task(value=default): ...  # type: ignore[no-untyped-def]

    task.__annotations__ = {"value": annotation}
    assert Arguments.of(task).defaults == {"value": default}


def test_an_annotation_that_cannot_be_evaluated_is_refused() -> None:
    def task(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TaskError, match=r"Missing.*needed at run time"):
        Arguments.of(task)


def test_a_value_whose_repr_raises_can_still_be_refused() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(InvalidArguments, match="whose repr raised RuntimeError"):
        Arguments.of(example_of_any).encode((Rude(),), {})
