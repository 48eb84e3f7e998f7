"""The outbox from the command line."""

import json
import sys

import pytest

from headrace import Headrace
from headrace.core.outbox import ClaimEvents, Delivery, SettleEvents
from tests.cli.conftest import Command


@pytest.fixture
def parked(shop: Headrace) -> list[str]:
    """Two parked events; a third waits behind the first."""
    ids = [shop.outbox.add(None, "Happened", payload=n, aggregate=("Thing", n % 2)) for n in range(3)]
    claimed = shop.driver.run(ClaimEvents("r", 60_000_000, 10)).events
    deliveries = [
        Delivery(event.seq, (), event.seq, park=True, note="Refused: \x1b[31mno") for event in claimed if event.seq < 3
    ]
    assert shop.driver.run(SettleEvents("r", tuple(deliveries))) == [True, True]
    return ids


def test_the_status_shows_counts_ages_and_parked_events(headrace: Command, parked: list[str]) -> None:
    shown = headrace("outbox", "status")
    assert shown.code == 0
    assert "pending    1" in shown.out
    assert "parked     2" in shown.out
    assert parked[0] in shown.out
    assert "\x1b" not in shown.out
    fields = json.loads(headrace("outbox", "status", "--json").out)
    assert (fields["pending"], fields["parked"], fields["published"]) == (1, 2, 0)
    assert fields["oldest_age_s"] >= 0
    assert fields["lag_s"] is None
    assert [event["id"] for event in fields["parked_events"]] == parked[:2]


def test_the_doctor_asks_for_a_relay(
    shop: Headrace, headrace: Command, parked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = headrace("doctor").out
    assert "warning  outbox: 2 events parked" in said
    assert "does a relay run?" not in said
    monkeypatch.setattr(sys.modules["headrace.cli.doctor"], "_PATIENCE_S", 0)
    assert "outbox: 1 row waiting, the oldest for 0 s: does a relay run?" in headrace("doctor").out


def test_an_empty_outbox_has_a_status(headrace: Command) -> None:
    shown = headrace("outbox", "status")
    assert (shown.code, shown.err) == (0, "")
    assert "pending    0" in shown.out


def test_parked_events_are_retried_by_id_and_all(headrace: Command, parked: list[str]) -> None:
    assert headrace("outbox", "retry").code == 2
    assert headrace("outbox", "retry", parked[0], "--all").code == 2
    assert headrace("outbox", "retry", "no-uuid").code == 4  # another program's row may have such an id
    missing = headrace("outbox", "retry", parked[2])
    assert "no parked event" in missing.err
    assert missing.code not in (0, 2)
    assert headrace("outbox", "retry", parked[0], "--json").out == '{"retried": 1}\n'
    assert headrace("outbox", "retry", "--all").out == "retried 1 event\n"
    assert headrace("outbox", "retry", "--all").out == "retried 0 events\n"


def test_parked_events_are_skipped_once_confirmed(headrace: Command, parked: list[str], shop: Headrace) -> None:
    assert headrace("outbox", "skip", parked[0], "--yes").out == "skipped 1 event\n"
    assert [event.id for event in shop.outbox.parked()] == parked[1:2]
    assert headrace("outbox", "skip", parked[0], "--yes").code not in (0, 2)


def test_a_relay_carries_out_what_is_due_and_published_events_are_pruned(headrace: Command, shop: Headrace) -> None:
    @shop.on("Happened")
    def handle(n: int) -> None: ...

    for n in range(3):
        shop.outbox.add(None, "Happened", payload=n)
    ran = headrace("outbox", "relay", "--once")
    assert ran.code == 0
    assert shop.outbox.view().published == 3
    assert len(shop.jobs.list("ready").jobs) == 3
    assert headrace("outbox", "prune").out == "pruned 0 events\n"
    assert headrace("outbox", "prune", "--older-than", "0s", "--json").out == '{"pruned": 3}\n'


def test_bad_options_of_a_relay_are_refused(headrace: Command) -> None:
    short = headrace("outbox", "relay", "--lease", "10ms")
    assert short.code == 2
    assert "lease is 0.01" in short.err
