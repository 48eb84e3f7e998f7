"""Gives parked jobs back when what they wait for is there again. Every worker does it; none is needed for it.

Whoever parks jobs says for what, by a reason such as "circuit smtp", and has a policy for the first word of it here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from headrace.circuits.looks import REASON
from headrace.core.circuit import REGISTERS, Offer, OfferCalls
from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.core.registers import Amend
from headrace.core.wording import counted
from headrace.worker.gates import Gates
from headrace.worker.retrying import Backoff
from headrace.worker.shared import Shared

logger = logging.getLogger("headrace.worker")

LOOK_S = 1.0  # between two looks
SELDOM_S = 5.0  # where the app parks nothing itself
PACE_S = 0.1  # while jobs come back at a pace
STRANDED = 1_000  # jobs of a reason that nobody knows, at a time


class Coming(msgspec.Struct, frozen=True):
    """How many jobs of each reason may go on now, and in how many seconds to look again.

    `soon`: more of them may go on shortly, so that a worker which ends when nothing is left waits for them.
    """

    counts: Mapping[str, int]
    again_s: float = LOOK_S
    soon: bool = False


Policy = Callable[[Sequence[str]], Awaitable[Coming]]
"""Asked about all reasons that begin with its word, while jobs are parked for them."""


class ParkedJobs:
    """Looks why jobs of this worker's queues are parked, and gives back those that may go on."""

    def __init__(self, shared: Shared, policies: Mapping[str, Policy]) -> None:
        """`policies` by the first word of the reasons they know. Other reasons hold nothing back."""
        self._shared = shared
        self._policies = policies
        self._backoff = Backoff(shared.rng)
        self.soon = True  # jobs may come back shortly; so it is before the first look
        self._looked = asyncio.Event()

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            try:
                wait_s = await self.give_back()
            except Exception as error:  # noqa: BLE001 - logged by pause()
                await self._backoff.pause(error, "looking after parked jobs")
                continue
            self._backoff.reset()
            await self._shared.sleep(wait_s)

    async def give_back(self) -> float:
        """One look. Returns in how many seconds to look again."""
        found = await self._shared.driver.arun(LookParked(self._shared.options.queues))
        words: dict[str, set[str]] = {}
        for one in found:
            words.setdefault(one.reason.partition(" ")[0], set()).add(one.reason)
        wait_s, soon = LOOK_S if self._shared.parks else SELDOM_S, False
        for word, reasons in words.items():
            coming = await self._policies.get(word, self._stranded)(sorted(reasons))
            for reason, count in coming.counts.items():
                if count > 0:
                    await self._unpark(found, reason, count)
            wait_s, soon = min(wait_s, coming.again_s), soon or coming.soon
        self.soon = soon
        self._looked.set()
        return wait_s

    async def looked(self) -> None:
        """Wait for the next look."""
        self._looked.clear()
        await self._looked.wait()

    async def _unpark(self, found: Sequence[ParkedFor], reason: str, count: int) -> None:
        queues = tuple(one.queue for one in found if one.reason == reason)
        given = await self._shared.driver.arun(Unpark(queues, reason, count))
        if given:
            logger.debug("%s go on that were parked: %s", counted(given, "job"), reason)

    async def _stranded(self, reasons: Sequence[str]) -> Coming:
        logger.warning("jobs are parked for reasons that nobody knows, and go on: %s", "; ".join(reasons))
        return Coming(dict.fromkeys(reasons, STRANDED), PACE_S, soon=True)


class OfCircuits:
    """The policy of jobs that wait for circuits: as many go on as a circuit would let in now."""

    def __init__(self, shared: Shared, gates: Gates) -> None:
        self._shared = shared
        self._gates = gates
        self._request = gates.requests.id()

    async def __call__(self, reasons: Sequence[str]) -> Coming:
        """Ask all circuits together."""
        names = [reason.removeprefix(REASON) for reason in reasons]
        sent = self._shared.monotonic()
        offers: list[Offer] = await self._shared.driver.arun(Amend(tuple(map(self._question, names))))
        self._request = self._gates.requests.id()  # not before: it is repeated where its answer is lost
        for name, offer in zip(names, offers, strict=True):
            self._gates.standings.learn(name, offer.standing, sent)
        counts = {reason: offer.count for reason, offer in zip(reasons, offers, strict=True)}
        return Coming(counts, min(map(_again_s, offers)), any(map(_is_recovering, offers)))

    def _question(self, name: str) -> OfferCalls:
        policy = self._gates.requests.policy(name)
        return OfferCalls(register=REGISTERS + name, by=self._shared.id, policy=policy, request=self._request)


def _is_recovering(offer: Offer) -> bool:
    return offer.count > 0 or offer.standing.state in ("closed", "forced_closed")


def _again_s(offer: Offer) -> float:
    """Nobody looks as often where another worker gives the jobs back."""
    if offer.count:
        return PACE_S
    if offer.standing.state == "open":
        # a third more, since a pause may be a quarter shorter: it shall be over by then
        return min(LOOK_S, max(0.01, offer.standing.wait_us / 750_000))
    return 3 * PACE_S if _is_recovering(offer) else LOOK_S
