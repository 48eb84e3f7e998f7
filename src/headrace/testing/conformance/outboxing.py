"""What every SQL store promises about its outbox and its inbox. Used as the other guarantees are."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from headrace.core import outbox
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import LEASE, Guarantee, Harness

OUTBOX_GUARANTEES: dict[str, Guarantee] = {}
HOUR = 3600 * MICROSECONDS


def promised(check: Guarantee) -> Guarantee:
    """Enter `check` under its name."""
    OUTBOX_GUARANTEES[check.__name__] = check
    return check


def uuid(number: int) -> str:
    """The id of the event of that number."""
    return str(UUID(int=number))


def event(number: int, aggregate: str = "", **options: Any) -> outbox.NewEvent:
    """An event, alone in its aggregate unless one is named."""
    options = {"payload": f'{{"n":{number}}}', "event_type": "Happened", "aggregate_type": "Thing", **options}
    return outbox.NewEvent(id=uuid(number), aggregate_id=aggregate or str(number), **options)


def add(h: Harness, *events: outbox.NewEvent, cdc: bool = False) -> None:
    """Write them, in one transaction."""
    h.run(outbox.AddEvents(events, cdc))


def claim(h: Harness, limit: int = 100, owner: str = "r1", lease_us: int = LEASE) -> list[outbox.StoredEvent]:
    """What a relay gets. Looks again as long as there is more: a look may have found only what is blocked."""
    for _ in range(100):
        claimed = h.run(outbox.ClaimEvents(owner, lease_us, limit))
        if claimed.events or not claimed.more:
            return claimed.events
    raise AssertionError("a claim finds nothing and says that there is more, again and again")


def numbers(events: list[outbox.StoredEvent]) -> list[int]:
    """Of claimed events."""
    return [UUID(each.id).int for each in events]


def settle(h: Harness, *deliveries: outbox.Delivery, owner: str = "r1") -> list[bool]:
    """Say how it went."""
    return h.run(outbox.SettleEvents(owner, deliveries))


def out(h: Harness, events: list[outbox.StoredEvent], owner: str = "r1") -> bool:
    """Mark events of one aggregate as published."""
    return settle(h, outbox.Delivery(events[0].seq, tuple(each.seq for each in events)), owner=owner)[0]


def view(h: Harness) -> outbox.OutboxView:
    """The counts."""
    return h.run(outbox.ViewOutbox())


@promised
def an_event_is_claimed_whole_and_once(h: Harness) -> None:
    written = event(7, "42", payload='{"b":1,"a":  "ä\\u0000\\ud83d"}', headers='{"k":"v"}')
    add(h, written)
    before = h.clock.now_us() if hasattr(h.clock, "now_us") else None
    (claimed,) = claim(h)
    assert (claimed.id, claimed.event_type) == (uuid(7), "Happened")
    assert (claimed.aggregate_type, claimed.aggregate_id) == ("Thing", "42")
    assert claimed.payload.decode() == written.payload
    assert claimed.headers == b'{"k":"v"}'
    assert claimed.attempts == 0
    assert before is None or claimed.created_us <= before
    assert claim(h, owner="r2") == []
    assert out(h, [claimed])
    assert claim(h) == []
    assert view(h).published == 1


@promised
def an_id_that_is_there_is_passed_over(h: Harness) -> None:
    add(h, event(1), event(2))
    add(h, event(2, payload='"other"'), event(3))
    assert numbers(claim(h)) == [1, 2, 3]
    assert view(h).pending == 3


@promised
def events_of_an_aggregate_are_claimed_in_their_order(h: Harness) -> None:
    add(h, *(event(n, "ab"[n % 2]) for n in range(1, 9)))
    events = claim(h)
    assert numbers(events) == list(range(1, 9))
    assert [each.seq for each in events] == sorted(each.seq for each in events)


@promised
def an_aggregate_is_in_one_hand_at_a_time(h: Harness) -> None:
    """Also for events that are written while it is held, and beyond what one claim may take."""
    add(h, event(1, "a"), event(2, "a"), event(3, "a"), event(4, "b"))
    first = claim(h, limit=2)
    assert numbers(first) in ([1, 2], [1, 4])
    second = claim(h, owner="r2")
    assert numbers(second) == ([4] if numbers(first) == [1, 2] else [])
    add(h, event(5, "a"))
    assert claim(h, owner="r2") == []
    mine = [each for each in first if each.aggregate_id == "a"]
    assert out(h, mine)
    rest = numbers(claim(h, owner="r3"))
    assert rest == [n for n in (2, 3, 5) if n not in numbers(mine)]


@promised
def the_rest_of_an_aggregate_can_be_claimed_at_once(h: Harness) -> None:
    """What stood behind a held head, and was looked at meanwhile, waits no longer than the head."""
    add(h, *(event(n, "a") for n in range(1, 8)))
    first = claim(h, limit=2)
    assert numbers(first) == [1, 2]
    h.clock.advance(20)
    for _ in range(3):
        assert claim(h, owner="r2", limit=2) == []
    assert out(h, first)
    assert numbers(claim(h, owner="r2")) == [3, 4, 5, 6, 7]


@promised
def a_lost_lease_gives_the_aggregate_to_another_and_no_word_back(h: Harness) -> None:
    add(h, event(1, "a"), event(2, "a"))
    mine = claim(h)
    h.clock.advance_us(LEASE - 10)
    assert claim(h, owner="r2") == []
    h.clock.advance_us(10)
    theirs = claim(h, owner="r2")
    assert numbers(theirs) == [1, 2]
    assert not out(h, mine)
    assert view(h).published == 0
    assert out(h, theirs, owner="r2")
    assert view(h).published == 2


@promised
def a_lease_that_is_over_and_untouched_still_counts(h: Harness) -> None:
    add(h, event(1))
    mine = claim(h)
    h.clock.advance_us(2 * LEASE)
    assert out(h, mine)


@promised
def an_event_that_fails_is_passed_by_none_of_its_aggregate(h: Harness) -> None:
    add(h, event(1, "a"), event(2, "a"), event(3, "a"), event(4, "b"))
    one, two, three, four = claim(h)
    stuck = outbox.Delivery(one.seq, (one.seq,), two.seq, delay_us=60 * MICROSECONDS, note="Refused: no")
    assert settle(h, stuck, outbox.Delivery(four.seq, (four.seq,))) == [True, True]
    h.clock.advance(59)
    assert claim(h) == []
    add(h, event(5, "a"), event(6, "b"))
    assert numbers(claim(h)) == [6]
    h.clock.advance(2)
    again = claim(h)
    assert numbers(again) == [2, 3, 5]
    assert [each.attempts for each in again] == [1, 0, 0]
    assert three.attempts == 0


@promised
def an_outage_is_not_counted_against_the_event(h: Harness) -> None:
    add(h, event(1))
    (one,) = claim(h)
    assert settle(h, outbox.Delivery(one.seq, (), one.seq, delay_us=MICROSECONDS, counted=False))[0]
    assert claim(h) == []
    h.clock.advance(1)
    assert [each.attempts for each in claim(h)] == [0]


@promised
def a_parked_event_holds_up_its_aggregate_alone(h: Harness) -> None:
    add(h, event(1, "a"), event(2, "a"), event(3, "b"), event(4, "b"))
    one, _, three, four = claim(h)
    park = outbox.Delivery(one.seq, (), one.seq, park=True, note="Refused: no")
    assert settle(h, park, outbox.Delivery(three.seq, (three.seq, four.seq))) == [True, True]
    add(h, event(5, "a"), event(6, "b"))
    h.clock.advance(3600)
    assert numbers(claim(h)) == [6]
    (parked,) = h.run(outbox.ParkedEvents())
    assert (parked.id, parked.attempts, parked.note) == (uuid(1), 1, "Refused: no")
    assert (parked.event_type, parked.aggregate_type, parked.aggregate_id) == ("Happened", "Thing", "a")
    seen = view(h)
    assert (seen.pending, seen.parked, seen.published) == (3, 1, 2)


@promised
def a_parked_event_that_is_retried_goes_first(h: Harness) -> None:
    add(h, event(1, "a"), event(2, "a"), event(3, "c"))
    one, _, three = claim(h)
    park = [outbox.Delivery(each.seq, (), each.seq, park=True) for each in (one, three)]
    assert settle(h, *park) == [True, True]
    h.clock.advance(10)
    assert claim(h) == []
    assert h.run(outbox.RetryEvents((uuid(1), uuid(2), uuid(99)))) == 1
    events = claim(h)
    assert numbers(events) == [1, 2]
    assert events[0].attempts == 0
    assert h.run(outbox.RetryEvents()) == 1
    assert numbers(claim(h)) == [3]
    assert h.run(outbox.RetryEvents()) == 0


@promised
def a_parked_event_that_is_skipped_lets_the_others_go_on(h: Harness) -> None:
    add(h, event(1, "a"), event(2, "a"))
    one, _ = claim(h)
    assert settle(h, outbox.Delivery(one.seq, (), one.seq, park=True))[0]
    h.clock.advance(10)
    assert claim(h) == []
    assert h.run(outbox.SkipEvents((uuid(2),))) == 0
    assert h.run(outbox.SkipEvents((uuid(1),))) == 1
    assert numbers(claim(h)) == [2]


@promised
def many_blocked_events_do_not_hide_the_one_behind_them(h: Harness) -> None:
    add(h, *(event(n, "a") for n in range(1, 200)), event(200, "b"))
    held = claim(h, limit=1)
    assert numbers(held) == [1]
    assert numbers(claim(h, limit=10, owner="r2")) == [200]


@promised
def a_claim_says_when_to_look_again(h: Harness) -> None:
    nothing = h.run(outbox.ClaimEvents("r1", LEASE, 10))
    assert (nothing.events, nothing.more, nothing.next_due_us) == ([], False, None)
    add(h, event(1))
    claimed = h.run(outbox.ClaimEvents("r1", LEASE, 10))
    assert claimed.next_due_us == claimed.now_us + LEASE
    assert not claimed.more


@promised
def relays_that_claim_at_once_share_without_overlap(h: Harness) -> None:
    add(h, *(event(n, str(n % 20)) for n in range(1, 201)))
    got: list[tuple[int, int]] = []
    for _ in range(30):
        claims = h.parallel(
            *(lambda owner=f"r{n}": h.run(outbox.ClaimEvents(owner, LEASE, 30)).events for n in range(4))
        )
        lanes = [{each.aggregate_id for each in events} for events in claims]
        assert sum(map(len, lanes)) == len(set().union(*lanes))
        for n, events in enumerate(claims):
            got += [(int(each.aggregate_id), UUID(each.id).int) for each in events]
            by_lane: dict[str, list[outbox.StoredEvent]] = {}
            for each in events:
                by_lane.setdefault(each.aggregate_id, []).append(each)
            assert all(out(h, lane, owner=f"r{n}") for lane in by_lane.values())
    assert sorted(number for _, number in got) == list(range(1, 201))
    for lane in range(20):
        of_lane = [number for aggregate, number in got if aggregate == lane]
        assert of_lane == sorted(of_lane)


@promised
def published_events_are_pruned_by_age(h: Harness) -> None:
    """B160: what is out does not pile up, and goes in steps."""
    add(h, *(event(n) for n in range(1, 6)))
    events = claim(h)
    assert all(out(h, [each]) for each in events[:3])
    h.clock.advance_us(HOUR)
    assert out(h, events[3:4])
    assert h.run(outbox.PruneEvents(HOUR, 2)) == outbox.PrunedRows(2, more=True)
    assert h.run(outbox.PruneEvents(HOUR, 2)) == outbox.PrunedRows(1, more=False)
    seen = view(h)
    assert (seen.published, seen.pending) == (1, 1)


@promised
def the_lag_and_the_oldest_event_are_measured(h: Harness) -> None:
    assert (view(h).oldest_us, view(h).lag_us) == (None, None)
    add(h, event(1))
    written = view(h).oldest_us
    assert written is not None
    add(h, event(2))
    h.clock.advance(2)
    assert out(h, claim(h, limit=1))
    seen = view(h)
    assert seen.lag_us is not None
    assert 2 * MICROSECONDS <= seen.lag_us <= 2 * MICROSECONDS + 100
    assert seen.oldest_us is not None
    assert written < seen.oldest_us < seen.now_us


@promised
def a_table_for_another_reader_is_left_alone(h: Harness) -> None:
    add(h, event(1), event(2), cdc=True)
    claimed = h.run(outbox.ClaimEvents("r1", LEASE, 10))
    assert claimed.cdc
    assert claimed.events == []
    assert view(h).cdc == 2
    assert h.run(outbox.PruneEvents(HOUR, cdc=True)).count == 0
    h.clock.advance_us(HOUR)
    assert h.run(outbox.PruneEvents(HOUR)).count == 0
    assert h.run(outbox.PruneEvents(HOUR, cdc=True)).count == 2


@promised
def names_of_any_characters_come_back_as_they_were(h: Harness) -> None:
    odd = ("a'b", 'a"b', "a\\b", "a%b", "ä", "名前", "\U0001f9ea", "a:now", "{a}", "A", "a", "a b")
    add(h, *(event(n, name, event_type=name, aggregate_type=name) for n, name in enumerate(odd, 1)))
    events = claim(h)
    assert [(each.event_type, each.aggregate_type, each.aggregate_id) for each in events] == [(n, n, n) for n in odd]
    assert settle(h, *(outbox.Delivery(each.seq, (each.seq,)) for each in events)) == [True] * len(odd)


@promised
def a_message_is_received_once_by_each_consumer(h: Harness) -> None:
    assert h.run(outbox.Receive("mail", "m1", "n1"))
    assert not h.run(outbox.Receive("mail", "m1", "n2"))
    assert h.run(outbox.Receive("bills", "m1", "n3"))
    assert h.run(outbox.Receive("mail", "M1", "n4"))
    answers = h.parallel(*(lambda n=n: h.run(outbox.Receive("mail", "m2", f"p{n}")) for n in range(6)))
    assert sorted(answers) == [False] * 5 + [True]


@promised
def the_inbox_forgets_by_age(h: Harness) -> None:
    for n in range(3):
        assert h.run(outbox.Receive("mail", str(n), str(n)))
    h.clock.advance_us(HOUR)
    assert h.run(outbox.Receive("mail", "3", "3"))
    assert h.run(outbox.PruneInbox(HOUR, 2)) == outbox.PrunedRows(2, more=True)
    assert h.run(outbox.PruneInbox(HOUR, 2)) == outbox.PrunedRows(1, more=False)
    assert h.run(outbox.Receive("mail", "0", "again"))
    assert not h.run(outbox.Receive("mail", "3", "again"))
