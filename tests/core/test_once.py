"""The policy of `once`: its key, the fingerprint of a call, what is kept of a result."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.once import RESULT_BYTES, Once, decode_failure, encode_result, fingerprint
from headrace.errors import ConfigError, InvalidArguments


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": ""}, "once: key is ''"),
        ({"key": "{a.b}"}, "argument names in braces only"),
        ({"key": "{a"}, "is no template"),
        ({"key": 17}, "must be a template"),
        ({"key": "k", "lifetime": 0}, "lifetime is 0"),
        ({"key": "k", "lifetime": "soon"}, "lifetime"),
        ({"key": "k", "failures": "maybe"}, "failures is 'maybe'"),
    ],
)
def test_what_can_be_no_policy(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Once(**options)


def test_a_key_is_made_of_arguments() -> None:
    assert Once("charge:{order_id}:{kind}").render({"order_id": 17, "kind": "é", "more": 1}) == "charge:17:é"
    assert Once(lambda order_id: f"o{order_id}").render({"order_id": 17}) == "o17"
    for key in (lambda order_id: 17, lambda order_id: "", lambda order_id: "x" * 501, lambda order_id: "\x00"):
        with pytest.raises(InvalidArguments, match="the once key"):
            Once(key).render({"order_id": 1})
    with pytest.raises(ConfigError, match=r"once: the key 'k\{b\}' names b, the arguments are a"):
        Once("k{b}").check_names(["a"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(arguments=st.dictionaries(st.text(), JSON, max_size=4), other=st.dictionaries(st.text(), JSON, max_size=4))
def test_a_fingerprint_tells_calls_apart_whatever_the_order_of_their_names(
    arguments: dict[str, Any], other: dict[str, Any]
) -> None:
    one = fingerprint(msgspec.json.encode(arguments))
    assert len(one) == 32
    assert one == fingerprint(msgspec.Raw(msgspec.json.encode(dict(reversed(arguments.items())))))
    same = msgspec.json.encode(arguments, order="sorted") == msgspec.json.encode(other, order="sorted")
    assert (one == fingerprint(msgspec.json.encode(other))) is same


def test_a_result_is_json_of_a_bounded_size() -> None:
    assert encode_result({"id": Decimal("1.50")}) == b'{"id":"1.50"}'
    assert encode_result(None) == b"null"
    assert len(encode_result("x" * (RESULT_BYTES - 2))) == RESULT_BYTES
    for value in ("x" * (RESULT_BYTES - 1), object(), {1, object()}):
        with pytest.raises(InvalidArguments):
            encode_result(value)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidArguments, match="cannot be encoded"):
        encode_result(endless)


@pytest.mark.parametrize("raw", [None, b"", b"\xff", b"[]", b"{}", b'{"type":1}', b"[" * 100_000])
def test_a_failure_that_cannot_be_read_is_one_all_the_same(raw: bytes | None) -> None:
    assert decode_failure(raw) == ("OnceFailed", "")
    assert decode_failure(b'{"type":"Declined","message":"no"}') == ("Declined", "no")
