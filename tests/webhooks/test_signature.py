"""Signatures: the vector that the Standard Webhooks project publishes, rotation, old requests and forged ones."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError, SignatureInvalid
from headrace.webhooks.signature import checked_message_id, key_of, new_secret, sign, verify

# The example of the reference libraries of Standard Webhooks.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
MOMENT = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {"webhook-id": ID, "webhook-timestamp": str(MOMENT), "webhook-signature": SIGNATURE}


def test_the_published_vector_is_signed() -> None:
    assert sign(SECRET, ID, MOMENT, BODY) == SIGNATURE


def test_the_published_vector_is_verified() -> None:
    assert verify(SECRET, HEADERS, BODY, now=MOMENT) == ID


def test_while_a_secret_is_changed_both_sign() -> None:
    other = new_secret()
    signatures = sign([other, SECRET], ID, MOMENT, BODY)
    first, second = signatures.split(" ")
    assert second == SIGNATURE != first
    for known in (SECRET, other, [new_secret(), other]):
        assert verify(known, {**HEADERS, "Webhook-Signature": signatures}, BODY, now=MOMENT) == ID


def test_signatures_of_other_kinds_are_passed_over() -> None:
    mixed = f"v1a,aGVsbG8= v2,x {SIGNATURE}"
    assert verify(SECRET, {**HEADERS, "webhook-signature": mixed}, BODY, now=MOMENT) == ID


@pytest.mark.parametrize("off", [-301, 301, 86_400])
def test_a_timestamp_that_is_far_off_is_refused(off: int) -> None:
    with pytest.raises(SignatureInvalid, match="more than 300 s from now"):
        verify(SECRET, HEADERS, BODY, now=MOMENT + off)


@pytest.mark.parametrize("off", [-300, 0, 300])
def test_clocks_may_differ_a_little(off: int) -> None:
    assert verify(SECRET, HEADERS, BODY, now=MOMENT + off) == ID


def test_the_clock_of_this_machine_is_the_default() -> None:
    with pytest.raises(SignatureInvalid, match="from now"):
        verify(SECRET, HEADERS, BODY)


@pytest.mark.parametrize(
    ("changed", "body"),
    [
        ({}, BODY + b" "),
        ({"webhook-id": ID + "x"}, BODY),
        ({"webhook-timestamp": str(MOMENT + 1)}, BODY),
        ({"webhook-signature": SIGNATURE[:-2]}, BODY),
        ({"webhook-signature": SIGNATURE.removeprefix("v1,")}, BODY),
        ({"webhook-signature": SIGNATURE.replace("v1,", "v1a,")}, BODY),
        ({"webhook-signature": ""}, BODY),
        ({"webhook-signature": "v1,\u00e9"}, BODY),
        ({"webhook-timestamp": f" {MOMENT}"}, BODY),
        ({"webhook-timestamp": "1e9"}, BODY),
        ({"webhook-timestamp": "\u0661"}, BODY),
    ],
)
def test_what_was_changed_on_the_way_is_refused(changed: dict[str, str], body: bytes) -> None:
    with pytest.raises(SignatureInvalid):
        verify(SECRET, {**HEADERS, **changed}, body, now=MOMENT)


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_a_missing_header_is_named(name: str) -> None:
    with pytest.raises(SignatureInvalid, match=name):
        verify(SECRET, {key: value for key, value in HEADERS.items() if key != name}, BODY, now=MOMENT)


@pytest.mark.parametrize("size", [24, 32, 64])
def test_secrets_of_24_to_64_bytes_are_taken(size: int) -> None:
    assert len(key_of("whsec_" + base64.b64encode(b"k" * size).decode())) == size


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "secret",
        SECRET.removeprefix("whsec_"),
        "whsec_" + base64.b64encode(b"k" * 23).decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
        SECRET[:-1],
        SECRET + "\n",
        "whsec_MfKQ-r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_\u00e9",
        b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(ConfigError) as refused:
        sign(secret if isinstance(secret, str) else [secret], ID, MOMENT, BODY)
    shown = secret[6:] if secret else "nothing"
    assert not shown or str(shown) not in str(refused.value)


def test_no_secret_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        sign([], ID, MOMENT, BODY)


@pytest.mark.parametrize("id", ["", "a.b", "a b", "a\n", "\u00e9", "x" * 151])
def test_an_id_that_could_be_read_as_another_message_is_refused(id: str) -> None:
    with pytest.raises(ConfigError, match="full stop"):
        checked_message_id(id)


def test_new_secrets_differ_and_are_secrets() -> None:
    assert new_secret() != new_secret()
    assert len(key_of(new_secret())) == 32


@given(st.binary(min_size=24, max_size=64), st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True), st.binary())
def test_what_is_signed_is_verified(key: bytes, id: str, body: bytes) -> None:
    secret = "whsec_" + base64.b64encode(key).decode()
    headers = {"WEBHOOK-ID": id, "Webhook-Timestamp": "5", "webhook-signature": sign(secret, id, 5, body)}
    assert verify(secret, headers, body, now=5) == id
    with pytest.raises(SignatureInvalid):
        verify(new_secret(), headers, body, now=5)
