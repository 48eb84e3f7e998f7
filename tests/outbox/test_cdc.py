"""Change data capture: the connectors' examples name options that exist and columns of the types that they need.

No Debezium can be run here: the names are those of its EventRouter as documented in August 2026.
"""

import json
import re
from pathlib import Path
from typing import ClassVar

import pytest

from headrace import Headrace
from tests.outbox.stores import SQL_STORES

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "outbox"
ROUTER = "transforms.outbox."
OPTIONS = {
    "type",
    "table.field.event.id",
    "table.field.event.key",
    "table.field.event.type",
    "table.field.event.payload",
    "table.field.event.timestamp",
    "table.field.event.schema.version",
    "table.fields.additional.placement",
    "table.field.additional.missing",
    "table.expand.json.payload",
    "table.json.payload.null.behavior",
    "table.json.payload.empty.array.behavior",
    "table.op.invalid.behavior",
    "route.by.field",
    "route.topic.regex",
    "route.topic.replacement",
    "route.tombstone.on.empty.payload",
    "tracing.span.context.field",
    "tracing.operation.name",
    "tracing.with.context.field.only",
}
COLUMNS = {
    "postgres": {
        "id": {"uuid"},
        "event_type": {"character varying"},
        "aggregate_type": {"character varying"},
        "aggregate_id": {"character varying"},
        "payload": {"json", "jsonb"},
        "created_at": {"timestamp without time zone"},  # a time zone would make it a text, which the router refuses
    },
    "mysql": {
        "id": {"char"},
        "event_type": {"varchar"},
        "aggregate_type": {"varchar"},
        "aggregate_id": {"varchar"},
        "payload": {"longtext"},
        "created_at": {"datetime"},  # a TIMESTAMP would be a text
    },
}
DATABASES = [store for store in SQL_STORES if store in COLUMNS]


def settings(database: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((EXAMPLES / f"debezium-{database}.json").read_text())["config"]
    return found


def columns_named(config: dict[str, str]) -> set[str]:
    """Every column that the router is told of."""
    fields = {value for name, value in config.items() if name.startswith(f"{ROUTER}table.field.event.")}
    placed = config[f"{ROUTER}table.fields.additional.placement"].split(",")
    return fields | {place.split(":")[0] for place in placed} | {config[f"{ROUTER}route.by.field"]}


@pytest.mark.parametrize("database", sorted(COLUMNS))
def test_the_options_of_the_example_exist(database: str) -> None:
    config = settings(database)
    given = {name.removeprefix(ROUTER) for name in config if name.startswith(ROUTER)}
    assert given <= OPTIONS
    assert config[f"{ROUTER}type"] == "io.debezium.transforms.outbox.EventRouter"
    # rows are only ever inserted and pruned: nothing else is to be read
    assert config["skipped.operations"] == "u,d,t"
    # the router never reads the type's column by itself
    assert "event_type:header:eventType" in config[f"{ROUTER}table.fields.additional.placement"]
    assert re.fullmatch(r"[\w.]*headrace_outbox", config["table.include.list"])
    assert columns_named(config) == set(COLUMNS[database])


@pytest.mark.parametrize("database", DATABASES)
def test_the_columns_of_the_example_have_the_types_it_needs(
    database: str, request: pytest.FixtureRequest, unique_name: str
) -> None:
    url = request.getfixturevalue(f"{database}_url")
    with Headrace(url, name=unique_name, outbox_mode="cdc") as app:
        id = app.outbox.add(None, "OrderCreated", payload={"n": 1}, aggregate=("Order", 17))
        types = column_types(database, url, f"{unique_name}_outbox")
        for column, allowed in COLUMNS[database].items():
            assert types[column] in allowed, column
        assert app.outbox.view().cdc == 1
        assert app.outbox.prune(0) == 1
        assert len(id) == 36


def column_types(database: str, url: str, table: str) -> dict[str, str]:
    from tests.outbox.lending import connect

    class NoStore:
        sql: ClassVar[dict[str, str]] = {}

        def plan(self, operation: object) -> object: ...

    connection = connect(database, url, NoStore())
    try:
        rows = connection.ask(
            f"select column_name, data_type from information_schema.columns where table_name = '{table}'"
        )
        return {str(name): str(kind) for name, kind in rows}
    finally:
        connection.close()
