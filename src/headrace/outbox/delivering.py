"""How a batch of events reaches its sinks: in waves, so that an aggregate keeps its order also across sinks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Sequence

from headrace.core.backoff import Backoff
from headrace.core.outbox import ClaimedEvents, Delivery, StoredEvent
from headrace.errors import ConfigError, StoreFull, StoreUnavailable, UnreadableEnvelope
from headrace.outbox.events import Message, message_of
from headrace.outbox.port import Answer, Sink
from headrace.outbox.routes import Routes

logger = logging.getLogger("headrace.outbox")

OUTAGE_FIRST_S, OUTAGE_CAP_S = 0.25, 30.0
LONGEST_NOTE = 500


class OutageError(Exception):
    """A destination takes nothing at the moment; no event is to blame."""

    def __init__(self, why: str, delay_s: float = OUTAGE_FIRST_S) -> None:
        super().__init__(why)
        self.delay_s = delay_s


class Lane:
    """One aggregate of a batch: what is out, and what is still to go."""

    def __init__(self, events: Sequence[StoredEvent]) -> None:
        self.head = events[0].seq
        self.left = list(events)
        self.out: list[int] = []
        self.notes: dict[int, str] = {}
        self.error: Exception | None = None  # what the first of `left` fails of

    @property
    def active(self) -> bool:
        """Whether there is more to send."""
        return bool(self.left) and self.error is None

    def answered(self, answers: Iterable[Answer]) -> None:
        """The first of `left` went through, or did not."""
        for answer in answers:
            if isinstance(answer, Exception):
                away = isinstance(answer, StoreUnavailable | StoreFull)
                self.error = OutageError(str(answer)) if away else answer
                return
            if answer:
                self.notes[self.left[0].seq] = answer
        self.out.append(self.left.pop(0).seq)


class Courier:
    """Publishes batches and judges what became of them."""

    def __init__(self, routes: Routes, backoff: Backoff, max_attempts: int, rng: random.Random) -> None:
        self._routes = routes
        self._backoff = backoff
        self._max_attempts = max_attempts
        self._rng = rng
        self._outages: dict[int, int] = {}  # how often in a row a sink took nothing
        self.published = 0
        self.failed = 0
        self.parked = 0

    async def deliver(self, claimed: ClaimedEvents, seconds: float) -> list[Delivery]:
        """Publish within `seconds`; what is not out by then comes again."""
        events: dict[tuple[str, str], list[StoredEvent]] = {}
        for event in claimed.events:
            events.setdefault((event.aggregate_type, event.aggregate_id), []).append(event)
        lanes = [Lane(of_lane) for of_lane in events.values()]
        try:
            async with asyncio.timeout(seconds):
                while active := [lane for lane in lanes if lane.active]:
                    await self._wave(active, claimed.now_us)
        except TimeoutError:
            logger.warning("the sinks took longer than %.1f s: what they have not acknowledged comes again", seconds)
            for lane in lanes:
                if lane.active:
                    lane.error = OutageError(f"no acknowledgement within {seconds:.1f} s")
        return [self._judge(lane) for lane in lanes]

    async def _wave(self, lanes: Sequence[Lane], now_us: int) -> None:
        """For each aggregate, as many events as go to the same sinks."""
        runs: list[tuple[Lane, tuple[Sink, ...], list[Message]]] = []
        for lane in lanes:
            try:
                sinks = self._sinks(lane.left[0])
                messages = list(self._run(lane, sinks, now_us))
            except (ConfigError, UnreadableEnvelope) as error:
                lane.error = error
                continue
            runs.append((lane, sinks, messages))
        sinks_used = {id(sink): sink for _, sinks, _ in runs for sink in sinks}
        answers = await asyncio.gather(
            *(
                self._publish(sink, [message for _, sinks, messages in runs if sink in sinks for message in messages])
                for sink in sinks_used.values()
            )
        )
        given = dict(zip(sinks_used, map(iter, answers), strict=True))
        for lane, sinks, messages in runs:
            told = [[next(given[id(sink)]) for sink in sinks] for _ in messages]
            for of_message in told:
                if lane.error is None:
                    lane.answered(of_message)

    def _sinks(self, event: StoredEvent) -> tuple[Sink, ...]:
        sinks = self._routes.of(event.event_type)
        if sinks is None:
            raise ConfigError(f"no subscriber and no route for events of type {event.event_type!r}")
        return sinks

    def _run(self, lane: Lane, sinks: tuple[Sink, ...], now_us: int) -> Iterable[Message]:
        for place, event in enumerate(lane.left):
            if self._routes.of(event.event_type) != sinks:
                return
            try:
                yield message_of(event, now_us)
            except UnreadableEnvelope:
                if place == 0:
                    raise
                return  # those before it go first

    async def _publish(self, sink: Sink, messages: list[Message]) -> Sequence[Answer]:
        try:
            answers = await sink.publish(messages)
        except (StoreUnavailable, StoreFull) as error:
            failures = self._outages[id(sink)] = self._outages.get(id(sink), 0) + 1
            if failures == 1:
                logger.warning("%s takes nothing, its events wait: %s", type(sink).__name__, error)
            delay_s = min(OUTAGE_CAP_S, OUTAGE_FIRST_S * 2 ** min(failures, 10))
            return [OutageError(f"{type(sink).__name__}: {error}", delay_s)] * len(messages)
        except Exception as error:
            lanes: dict[tuple[str, str], list[int]] = {}
            for place, message in enumerate(messages):
                lanes.setdefault((message.event.aggregate_type, message.event.aggregate_id), []).append(place)
            if len(lanes) == 1:
                return [error] * len(messages)
            logger.exception("%s failed, trying each aggregate alone", type(sink).__name__)
            return await self._apart(sink, messages, lanes.values())
        self._outages.pop(id(sink), None)
        if len(answers) != len(messages):
            wrong = f"{type(sink).__name__} gave {len(answers)} answers to {len(messages)} messages"
            logger.error("%s: which of them are out is unknown, so all come again", wrong)
            return [ValueError(wrong)] * len(messages)
        return answers

    async def _apart(self, sink: Sink, messages: Sequence[Message], lanes: Iterable[Sequence[int]]) -> list[Answer]:
        """One bad message must not be the failure of all: each aggregate goes alone."""
        answers: list[Answer] = [None] * len(messages)
        for places in lanes:
            part = await self._publish(sink, [messages[place] for place in places])
            for place, answer in zip(places, part, strict=True):
                answers[place] = answer
        return answers

    def _judge(self, lane: Lane) -> Delivery:
        self.published += len(lane.out)
        if lane.error is None:
            return Delivery(lane.head, tuple(lane.out), notes=lane.notes)
        stuck, note = lane.left[0], noted(lane.error)
        if isinstance(lane.error, OutageError):
            delay_us = round(lane.error.delay_s * (0.5 + self._rng.random() / 2) * 1_000_000)
            return Delivery(lane.head, tuple(lane.out), stuck.seq, delay_us, counted=False, note=note, notes=lane.notes)
        park = stuck.attempts + 1 >= self._max_attempts
        self.failed += 1
        self.parked += park
        log = logger.error if park else logger.warning
        log(
            "event %s (%s of %s %s) %s: %s",
            *(stuck.id, stuck.event_type, stuck.aggregate_type, stuck.aggregate_id),
            "is parked" if park else "failed, trying again",
            note,
        )
        delay_us = round(self._backoff.wait(stuck.attempts, 0.0, self._rng) * 1_000_000)
        return Delivery(lane.head, tuple(lane.out), stuck.seq, delay_us, park=park, note=note, notes=lane.notes)


def noted(error: Exception) -> str:
    """The error in one line that every database takes."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a message about an error must not fail because of the error
        text = type(error).__name__
    text = text.encode("utf-8", "replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return text if len(text) <= LONGEST_NOTE else f"{text[: LONGEST_NOTE - 3]}..."
