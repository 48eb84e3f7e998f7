"""The envelope: what is written, what can be read, and what is refused with a clear word."""

from typing import Any

import msgspec
import pytest

from headrace.core import codec
from headrace.core.codec import MAX_BODY, Envelope, Template
from headrace.errors import NewerEnvelope, PayloadTooLarge, UnreadableEnvelope

PLAIN = Envelope(id="1", task="shop.mail", args=msgspec.Raw(b'{"order_id":17}'))

FULL = Envelope(
    id="1",
    task='shop."mail"',
    args=msgspec.Raw(b'{"text":"\\u00e9\\"}"}'),
    queue="mail",
    priority=-5,
    headers={"a": "é"},
    tags=("x", "y"),
    tenant="acme",
    expires_in_us=1,
    deadline_at_us=2,
    timeout_us=3,
    unique_until="start",
    unique_us=4,
    unique='order-"17"',
)


def as_dict(body: bytes) -> Any:
    return msgspec.json.decode(body)


def test_a_plain_job_is_written_without_defaults() -> None:
    assert codec.encode(PLAIN) == b'{"v":1,"id":"1","task":"shop.mail","args":{"order_id":17}}'


@pytest.mark.parametrize("envelope", [PLAIN, FULL])
def test_what_was_encoded_is_decoded(envelope: Envelope) -> None:
    decoded = codec.decode(codec.encode(envelope))
    assert codec.encode(decoded) == codec.encode(envelope)
    assert bytes(decoded.args) == bytes(envelope.args)


@pytest.mark.parametrize("envelope", [PLAIN, FULL])
def test_a_template_means_the_same_as_encode(envelope: Envelope) -> None:
    body = Template(envelope).body(envelope.id, bytes(envelope.args), envelope.unique)
    assert as_dict(body) == as_dict(codec.encode(envelope))


def test_a_template_forgets_the_job_it_was_made_from() -> None:
    body = Template(FULL).body("2", b"{}")
    assert as_dict(body) == as_dict(
        codec.encode(msgspec.structs.replace(FULL, id="2", args=msgspec.Raw(b"{}"), unique=None))
    )


def test_unknown_fields_are_passed_over() -> None:
    decoded = codec.decode(b'{"v":1,"id":"1","task":"t","args":{"a":1},"from_the_future":{"x":[1]}}')
    assert (decoded.id, decoded.task, bytes(decoded.args)) == ("1", "t", b'{"a":1}')


def test_spaces_and_any_order_are_read() -> None:
    decoded = codec.decode(b' { "args" : { } , "task" : "t", "id": "1", "v" : 1 } ')
    assert (decoded.task, decoded.queue, bytes(decoded.args)) == ("t", "default", b"{ }")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b"\x80\x04\x95pickle", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"v":1,"id":"1","task":"t","args":{}', "not a JSON object"),
        (b"{}", "no envelope"),
        (b'{"v":1,"id":"1","args":{}}', "`task`"),
        (b'{"v":1,"id":"1","task":"t"}', "`args`"),
        (b'{"v":1,"id":"1","task":"t","args":[1]}', "'args' of the message is not a JSON object"),
        (b'{"v":1,"id":"1","task":5,"args":{}}', "$.task"),
        (b'{"v":"1","id":"1","task":"t","args":{}}', "$.v"),
        (b'{"v":0,"id":"1","task":"t","args":{}}', "$.v"),
        (b'{"id":"1","task":"t","args":{}}', "no field 'v'"),
        (b'{"v":2,"id":"1","task":"t","args":{}}', "version 2, this worker reads up to 1"),
        (b'{"v":1,"id":"1","task":"\xff","args":{}}', "no envelope"),
    ],
)
def test_what_is_no_envelope_is_refused_in_words(body: bytes, words: str) -> None:  # B098
    with pytest.raises(UnreadableEnvelope) as caught:
        codec.decode(body)
    assert words in str(caught.value)


def test_a_newer_message_is_told_apart_so_that_a_newer_worker_may_take_it() -> None:  # B098
    with pytest.raises(NewerEnvelope):
        codec.decode(b'{"v":2,"id":"1","task":"t","args":{}}')


@pytest.mark.parametrize("where", ["args", "other", "top"])
def test_a_message_nested_100_000_deep_is_unreadable_and_nothing_worse(where: str) -> None:  # B102
    deep = b"[" * 100_000 + b"]" * 100_000
    bodies = {
        "args": b'{"v":1,"id":"1","task":"t","args":{"a":' + deep + b"}}",
        "other": b'{"v":1,"id":"1","task":"t","args":{},"x":' + deep + b"}",
        "top": deep,
    }
    with pytest.raises(UnreadableEnvelope):
        codec.decode(bodies[where])


def test_the_size_limit_is_exact() -> None:  # B101
    template = Template(PLAIN)
    empty = len(template.body("1", b'{"a":""}'))
    fits = b'{"a":"' + b"x" * (MAX_BODY - empty) + b'"}'
    assert len(template.body("1", fits)) == MAX_BODY
    with pytest.raises(PayloadTooLarge, match="1,000,001 bytes, 1,000,000 are allowed"):
        template.body("1", fits[:-2] + b'x"}')
    with pytest.raises(PayloadTooLarge):
        codec.encode(msgspec.structs.replace(PLAIN, args=msgspec.Raw(fits[:-2] + b'x"}')))


def test_the_version_stands_in_every_message() -> None:
    assert as_dict(codec.encode(PLAIN))["v"] == Envelope.v == codec.VERSION
