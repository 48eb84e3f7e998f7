"""The envelope for other languages: the published schema, and what an outsider may rely on."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from headrace import Headrace
from headrace.core import codec
from headrace.core import operations as ops
from tests.public.drivers import WatchedDriver, define, new_job

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA: dict[str, Any] = json.loads((DOCS / "envelope.schema.json").read_text(encoding="utf-8"))
EXAMPLES = re.findall(r"```json\n(.*?)```", (DOCS / "envelope.md").read_text(encoding="utf-8"), re.DOTALL)


def validate(envelope: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(envelope)


def test_the_published_schema_is_the_one_of_the_code() -> None:
    assert codec.schema() == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_field_is_described_in_words() -> None:
    page = (DOCS / "envelope.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.+?) \|$", page, re.MULTILINE))
    assert rows == {name: field["description"] for name, field in SCHEMA["properties"].items()}


def test_what_we_write_satisfies_the_schema(app: Headrace, driver: WatchedDriver) -> None:
    plain = define(app, name="plain")
    full = define(app, name="full", queue="mail", priority=-100, unique="{order_id}", expires=60, deadline="1h")
    plain.enqueue(1)
    full.using(tenant="acme", tags=["a"], headers={"b": "c"}, timeout=5).enqueue(2)
    for operation in driver.enqueues():
        validate(json.loads(operation.jobs[0].body))
    assert len(json.loads(new_job(driver).body)) == 15


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_page_are_envelopes(text: str) -> None:
    validate(json.loads(text))
    assert codec.decode(text.encode()).task


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"v": 2},
        {"id": ""},
        {"id": "x" * 201},
        {"task": ""},
        {"args": [1]},
        {"args": None},
        {"priority": 101},
        {"priority": "high"},
        {"headers": {"a": 1}},
        {"unique_until": "never"},
    ],
)
def test_the_schema_refuses_what_is_no_envelope(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate({"v": 1, "id": "1", "task": "t", "args": {}, **wrong} if wrong else {})


def test_a_job_written_elsewhere_runs_and_keeps_its_unknown_fields(app: Headrace, driver: WatchedDriver) -> None:
    body = b'{"task": "mail", "args": {"order_id": 17}, "id": "from-go-1", "v": 1, "span": {"a": [1]}}'
    validate(json.loads(body))
    driver.run(ops.Enqueue((ops.NewJob("from-go-1", "default", "mail", body),)))
    task = define(app, name="mail")
    (job,) = driver.run(ops.Claim("w", 1, ("default",), 1, 30_000_000)).jobs
    assert job.body == body
    assert task.arguments.decode(codec.decode(job.body).args) == {"order_id": 17}
