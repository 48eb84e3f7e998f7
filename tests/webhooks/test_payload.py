"""The body of a webhook, and which secrets sign it."""

import base64
import dataclasses
import json
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

from headrace.errors import ConfigError, InvalidArguments, PayloadTooLarge
from headrace.webhooks.keyring import Keyring, Secrets
from headrace.webhooks.payload import body_of, checked_content_type, checked_event
from headrace.webhooks.signature import PREFIX

NOW_US = 1_796_040_000_123_456
ONE, TWO = (PREFIX + base64.b64encode(letter * 24).decode() for letter in (b"1", b"2"))


@dataclasses.dataclass
class Order:
    id: int
    total: Decimal


class Paid(msgspec.Struct):
    order: Order
    at: datetime


def test_with_an_event_the_payload_is_its_data() -> None:
    body = body_of({"order": 17}, "order.paid", NOW_US)
    assert body == '{"type":"order.paid","timestamp":"2026-11-30T12:00:00.123Z","data":{"order":17}}'


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"a": [1, None, "\u00fc"]}, {"a": [1, None, "\u00fc"]}),
        ("text", "text"),
        (None, None),
        (Order(1, Decimal("9.90")), {"id": 1, "total": "9.90"}),
        (
            Paid(Order(1, Decimal(2)), datetime(2026, 1, 2, tzinfo=UTC)),
            {"order": {"id": 1, "total": "2"}, "at": "2026-01-02T00:00:00Z"},
        ),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_alone_it_is_the_body(payload: object, expected: object) -> None:
    assert json.loads(body_of(payload, None, NOW_US)) == expected


def test_bytes_are_the_body_as_they_are() -> None:
    assert body_of(b"notify_id=1&trade_status=TRADE_SUCCESS", None, NOW_US) == "notify_id=1&trade_status=TRADE_SUCCESS"
    with pytest.raises(ConfigError, match="leave event= out"):
        body_of(b"{}", "order.paid", NOW_US)
    with pytest.raises(InvalidArguments, match="no UTF-8"):
        body_of(b"\xff", None, NOW_US)


@pytest.mark.parametrize(
    "payload", [float("nan"), {"a": float("inf")}, 2**70, object(), {"a": {object()}}, {(1, 2): 3}]
)
def test_what_has_no_json_form_is_refused(payload: object) -> None:
    with pytest.raises(InvalidArguments):
        body_of(payload, "order.paid", NOW_US)


def test_what_contains_itself_is_refused() -> None:
    payload: list[object] = []
    payload.append(payload)
    with pytest.raises(InvalidArguments):
        body_of(payload, None, NOW_US)


def test_a_body_has_a_largest_size() -> None:
    assert len(body_of("x" * 19_998, None, NOW_US)) == 20_000
    with pytest.raises(PayloadTooLarge, match=r"has 20,001 bytes, 20,000 are allowed"):
        body_of("x" * 19_999, None, NOW_US)
    assert len(body_of("x" * 19_999, None, NOW_US, 30_000)) == 20_001


@pytest.mark.parametrize("event", ["", "a b", "a\n", "\u00e9", "x" * 201, 5])
def test_an_event_has_a_plain_name(event: str) -> None:
    with pytest.raises(ConfigError, match="event is"):
        checked_event(event)


@pytest.mark.parametrize("content_type", ["", "json", "text/html\r\nX: y", "text/\u00e9", None])
def test_a_content_type_is_one(content_type: str) -> None:
    assert checked_content_type("application/x-www-form-urlencoded; charset=utf-8")
    with pytest.raises(ConfigError, match="content_type is"):
        checked_content_type(content_type)


@pytest.mark.parametrize(
    ("secrets", "endpoint", "found"),
    [
        (ONE, "any", (ONE,)),
        ([ONE, TWO], "any", (ONE, TWO)),
        ({"a": ONE, "b": [TWO, ONE]}, "b", (TWO, ONE)),
        (lambda endpoint: {"a": ONE}[endpoint], "a", (ONE,)),
        (lambda endpoint: [TWO, ONE], "a", (TWO, ONE)),
        (None, "any", None),
    ],
)
def test_secrets_are_found(secrets: Secrets, endpoint: str, found: tuple[str, ...] | None) -> None:
    assert Keyring(secrets).find(endpoint) == found


@pytest.mark.parametrize("secrets", [{}, {"a": ONE}, lambda endpoint: None, lambda endpoint: [], lambda endpoint: "x"])
def test_an_endpoint_without_a_secret_is_not_sent_to_unsigned(secrets: Secrets) -> None:
    with pytest.raises(ConfigError, match="secret"):
        Keyring(secrets).find("b")


@pytest.mark.parametrize("secrets", ["", "plain", [], [ONE, "plain"], {"a": "plain"}, {"a": []}])
def test_a_secret_that_is_none_is_refused_at_once(secrets: Secrets) -> None:
    with pytest.raises(ConfigError, match="secret"):
        Keyring(secrets)


def test_only_a_mapping_knows_its_endpoints_beforehand() -> None:
    Keyring(lambda endpoint: None).refuse_unknown("b")
    with pytest.raises(ConfigError, match="has none for the endpoint 'b'"):
        Keyring({"a": ONE}).refuse_unknown("b")
