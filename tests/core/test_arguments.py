"""Arguments: exact round trips, and a clear refusal at enqueue of everything else."""

import enum
import math
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import values
from headrace.core.arguments import Arguments
from headrace.core.codec import MAX_BODY, MAX_DEPTH
from headrace.errors import InvalidArguments, PayloadTooLarge


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Line:
    sku: str
    price: Decimal
    tags: set[str] = field(default_factory=set)


class Point(NamedTuple):
    x: int
    y: float


class Address(msgspec.Struct):
    city: str
    since: date | None = None


class Options(TypedDict):
    loud: bool


class Model(pydantic.BaseModel):
    number: int
    when: datetime


class Opaque:
    pass


def arguments_for(annotation: Any) -> Arguments:
    def task(value):  # type: ignore[no-untyped-def]
        raise AssertionError("arguments are never called")

    task.__annotations__ = {"value": annotation}
    return Arguments.of(task)


def round_trip(annotation: Any, value: Any) -> Any:
    arguments = arguments_for(annotation)
    return arguments.decode(arguments.encode((value,), {}))["value"]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (uuid.UUID, uuid.UUID("12345678123456781234567812345678")),
        (datetime, datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=UTC)),
        (datetime, datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))),
        (datetime, datetime(2026, 3, 29, 2, 30)),  # noqa: DTZ001 - a naive one stays naive
        (date, date(2026, 2, 28)),
        (time, time(23, 59, 59, 999999)),
        (timedelta, timedelta(days=-1, microseconds=1)),
        (Decimal, Decimal("1.10")),
        (Colour, Colour.RED),
        (Level, Level.HIGH),
        (Line, Line("a", Decimal("0.30"), {"x", "y"})),
        (list[Line], [Line("a", Decimal(1)), Line("b", Decimal(2))]),
        (Point, Point(1, 2.5)),
        (Address, Address("Bern", date(2020, 1, 1))),
        (Options, {"loud": True}),
        (Model, Model(number=1, when=datetime(2026, 1, 1, tzinfo=UTC))),
        (Model | None, None),
        (set[int], {1, 2}),
        (frozenset[str], frozenset({"a"})),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2, 3)),
        (bytes, b"\x00\xff"),
        (dict[int, str], {1: "a"}),
        (Literal["a", "b"], "b"),
        (Annotated[int, msgspec.Meta(ge=0)], 0),
        (int, 2**63 - 1),
        (int, -(2**63)),
        (float, 0.1),
        (str, "\x00 \u2028 🏭 </script>"),
        (Any, {"__type__": "datetime", "__value__": "x"}),  # B096: a user's dict stays a dict
        (Any, [1, 2.5, "a", None, True, {"b": []}]),
        (dict[str, Any], {"a": {"b": [1]}}),
        (object, {"a": 1}),
        (list, [1, "a"]),
    ],
)
def test_values_come_back_as_they_were(annotation: Any, value: Any) -> None:  # B096
    back = round_trip(annotation, value)
    assert back == value
    assert type(back) is type(value)


def test_minus_zero_and_decimals_keep_their_digits() -> None:  # B096
    assert math.copysign(1, round_trip(float, -0.0)) == -1
    assert str(round_trip(Decimal, Decimal("1.10"))) == "1.10"


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (int, "7", "task(): argument 'value' must be of type int, not str, given '7'"),
        (int, True, "must be of type int, not bool, given True"),
        (int, None, "must be of type int, not None"),
        (int, 1.5, "must be of type int, not float, given 1.5"),
        (list[int], [1, "x"], "'value[1]'"),
        (Annotated[int, msgspec.Meta(ge=0)], -1, ">= 0"),
        (Literal["a"], "b", "Invalid enum value 'b'"),
        (Colour, "green", "Invalid enum value 'green'"),
        (Line, {"sku": "a"}, "argument 'value' has no field 'price', which is required"),
        (Line | None, 5, "must be of type Line | None, not int"),
        (Model, {"number": "many"}, "number"),
    ],
)
def test_values_of_another_type_are_refused_by_name(annotation: Any, value: Any, words: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        arguments_for(annotation).encode((value,), {})
    assert words in str(caught.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("annotation", "wrap", "path"),
    [
        (float, lambda bad: bad, "value is "),
        (float | None, lambda bad: bad, "value is "),
        (Any, lambda bad: {"a": [1, bad]}, "value['a'][1] is "),
        (list[float | None], lambda bad: [None, bad], "value[1] is "),
        (Point, lambda bad: Point(1, bad), "value[1] is "),
    ],
)
def test_nan_and_infinity_are_refused(
    annotation: Any, wrap: Callable[[float], Any], path: str, bad: float
) -> None:  # B100
    with pytest.raises(InvalidArguments, match="JSON has no such number") as caught:
        arguments_for(annotation).encode((wrap(bad),), {})
    assert path in str(caught.value)


def test_a_none_that_is_meant_is_no_nan() -> None:
    assert round_trip(float | None, None) is None
    assert round_trip(Any, {"a": None}) == {"a": None}


@pytest.mark.parametrize("number", [2**64, 2**70, -(2**63) - 1])
@pytest.mark.parametrize("annotation", [int, Any, list[int]])
def test_numbers_beyond_64_bits_are_refused(annotation: Any, number: int) -> None:  # B096
    with pytest.raises(InvalidArguments, match="does not fit 64 bits"):
        arguments_for(annotation).encode(([number] if annotation == list[int] else number,), {})


def test_long_digits_in_a_text_are_no_number() -> None:
    assert round_trip(str, "9" * 40) == "9" * 40


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        Decimal("1.1"),
        uuid.uuid4(),
        (1, 2),
        {1, 2},
        b"x",
        Colour.RED,
        Line("a", Decimal(1)),
        {"a": [(1,)]},
        {1: "a"},
        OrderedDict(a=1),
    ],
)
@pytest.mark.parametrize("annotation", [Any, object])
def test_a_value_that_would_lose_its_type_is_refused_where_no_annotation_keeps_it(
    annotation: Any, value: Any
) -> None:  # B096
    with pytest.raises(InvalidArguments, match=r"annotate the argument"):
        arguments_for(annotation).encode((value,), {})


@dataclass
class Event:
    kind: str
    payload: Any = None
    more: "list[Event]" = field(default_factory=list)


class Loose(TypedDict, total=False):
    extra: dict[str, object]


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (dict[str, Any], {"a": date(2026, 1, 1)}, "value['a'] is"),
        (dict[str, list[Any]], {"a": [1, {"b": (1,)}]}, "value['a'][1]['b'] is"),
        (tuple[int, Any], (1, (2,)), "value[1] is"),
        (Event, Event("x", payload=Decimal(1)), "value.payload is"),
        (Event, Event("x", more=[Event("y"), Event("z", payload={"d": {1}})]), "value.more[1].payload['d'] is"),
        (Event | None, Event("x", payload=b"y"), "value.payload is"),
        (Loose, {"extra": {"a": [Colour.RED]}}, "value.extra['a'][0] is"),
        (int | list[Any], [(1,)], "value[0] is"),
    ],
)
def test_so_it_is_deep_inside_of_an_annotation(annotation: Any, value: Any, path: str) -> None:  # B096
    with pytest.raises(InvalidArguments, match=r"annotate the argument") as caught:
        arguments_for(annotation).encode((value,), {})
    assert path in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Event, Event("x", payload={"a": [1]}, more=[Event("y")])),
        (Loose, {}),
        (list[tuple[Any, date]], [(None, date(2026, 1, 1))]),
        (dict[str, object], {"a": [1]}),
    ],
)
def test_plain_values_may_stand_where_anything_may(annotation: Any, value: Any) -> None:
    assert round_trip(annotation, value) == value


@pytest.mark.parametrize("value", [Opaque(), 1j, [Opaque()], lambda: None, Path("x"), iter(())])
def test_a_value_without_a_json_form_is_refused(value: Any) -> None:  # B096
    with pytest.raises(InvalidArguments, match=r"value.* is .*of type"):
        arguments_for(Any).encode((value,), {})


def test_a_lone_surrogate_is_refused() -> None:  # B094
    with pytest.raises(InvalidArguments, match=r"value\['a'\] is the text .* lone surrogate"):
        arguments_for(Any).encode(({"a": "\ud800"},), {})


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_the_depth_limit_is_exact() -> None:  # B102
    arguments = arguments_for(Any)
    fits = nested(MAX_DEPTH - 1)  # the arguments' own object is the first level
    assert arguments.decode(arguments.encode((fits,), {}))["value"] == fits
    with pytest.raises(PayloadTooLarge, match="65 levels deep, 64 are allowed"):
        arguments.encode((nested(MAX_DEPTH),), {})


@pytest.mark.parametrize("levels", [10_000, 100_000])
def test_ten_thousand_levels_are_an_error_and_nothing_worse(levels: int) -> None:  # B102
    with pytest.raises(PayloadTooLarge, match="nested too deep"):
        arguments_for(Any).encode((nested(levels),), {})


def test_a_list_that_holds_itself_is_refused() -> None:  # B102
    value: list[Any] = []
    value.append(value)
    with pytest.raises(PayloadTooLarge, match="contain themselves"):
        arguments_for(Any).encode((value,), {})


def test_brackets_in_texts_and_many_siblings_are_not_depth() -> None:
    assert round_trip(Any, "[{" * 500) == "[{" * 500
    assert round_trip(Any, [[] for _ in range(500)]) == [[] for _ in range(500)]
    assert values.depth(b'{"a\\"[":["]\\\\",[]]}') == 3


@given(
    st.recursive(
        st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
    )
)
def test_depth_is_what_recursion_says(value: Any) -> None:
    def depth(part: Any) -> int:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    assert values.depth(msgspec.json.encode(value)) == depth(value)


@pytest.mark.parametrize("size", [63_000, 65_536, 999_000])
def test_large_arguments_survive(size: int) -> None:  # B101
    text = "é" * (size // 2)
    assert round_trip(str, text) == text


def test_more_than_a_megabyte_is_refused_naming_the_largest() -> None:  # B101
    def task(small: int, blob: str) -> None: ...

    with pytest.raises(PayloadTooLarge, match=r"the largest is 'blob'; store it elsewhere and pass its id"):
        Arguments.of(task).encode((1,), {"blob": "x" * MAX_BODY})
