"""Binding a call to a function's parameters, and which functions can be tasks at all."""

from collections.abc import Callable
from datetime import date
from typing import Any

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
        ((), {}, "takes (order_id, note, loud): Object missing required field `order_id`"),
        ((1, "a", True, 4), {}, "takes 3 arguments (order_id, note, loud), 4 were given"),
        ((1,), {"order_id": 2}, "'order_id' twice"),
        ((1,), {"colour": 2}, "unknown field `colour`"),
    ],
)
def test_calls_that_do_not_fit_are_refused(args: tuple[Any, ...], kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        Arguments.of(example).encode(args, kwargs)
    assert words in str(caught.value)
    assert "example()" in str(caught.value)


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
