"""A circuit breaker around one dependency, as a pure machine over a register that all workers share.

The semantics are those of resilience4j's count-based breaker, with what several workers need besides: the results of
calls carry the generation in which they began, so that late ones decide nothing; a half-open circuit gives its probes
out as leases, so that one who dies with a probe holds up nobody; and a circuit that has closed again lets calls in at
a pace for as long as jobs are parked for it.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from headrace.core.circuit_policy import SECOND, CircuitPolicy
from headrace.core.registers import Change, Changed
from headrace.errors import ConfigError

REGISTERS = "circuit:"  # before the name of each circuit
HISTORY = 20  # transitions that are remembered
REPEATED = 6  # of those, the last ones that a request which is repeated hears of
HEARD = 200  # reports of one generation that are known again
PROBE_OFFER_US = SECOND  # while half-open they are offered less often: one who was offered must first come and ask
KEEP_US = 30 * 24 * 3600 * SECOND  # a circuit that nobody has changed for so long is forgotten, that is: closed
FORCED_KEEP_US = 600 * KEEP_US  # what an operator has forced holds until further notice

State = Literal["closed", "open", "half_open", "forced_open", "forced_closed"]
Result = Literal["ok", "failed", "slow", "slow_failed", "none"]
"""What a call tells of its dependency. `none`: nothing; it was not made, or its exception is ignored."""

LETTERS: dict[Result, str] = {"ok": "o", "failed": "f", "slow": "s", "slow_failed": "x"}


class Transition(msgspec.Struct, frozen=True):
    """A circuit went from one state to another. `by`: the worker that found it, or the operator. `request`: his."""

    at_us: int
    before: State
    after: State
    why: str
    by: str
    request: str = ""


class Breaker(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a circuit's register. `window`, `results`: a letter for each call, the newest last."""

    policy: CircuitPolicy
    state: State = "closed"
    generation: int = 1
    since_us: int = 0
    until_us: int = 0  # open until then
    window: str = ""
    permits: dict[str, int] = {}  # of a half-open one: id of the call -> lease until
    results: str = ""
    heard: tuple[str, ...] = ()  # ids of reports of this generation
    offered_us: int = 0  # when parked jobs were last offered
    recovering_until_us: int = 0
    paced_us: int = 0  # while there is a pace: the time up to which calls have been let in
    down_since_us: int = 0  # the first opening since it was last closed, which its probes do not change; 0: closed
    down_why: str = ""  # and the reason of that
    history: tuple[Transition, ...] = ()
    entered: dict[State, int] = {}  # how often it has come into each state, ever

    def moved(self, state: State, now_us: int, why: str, change: CircuitChange) -> Breaker:
        """A new generation in another state, with nothing counted yet."""
        step = Transition(now_us, self.state, state, why, change.by, change.request)
        down = (self.down_since_us, self.down_why) if self.down_since_us else (now_us, why)
        down_since_us, down_why = (0, "") if state in ("closed", "forced_closed") else down
        return Breaker(
            policy=self.policy,
            state=state,
            generation=self.generation + 1,
            since_us=now_us,
            until_us=now_us + self.policy.open_us if state == "open" else 0,
            down_since_us=down_since_us,
            down_why=down_why,
            history=(*self.history, step)[-HISTORY:],
            entered={**self.entered, state: self.entered.get(state, 0) + 1},
        )

    def awake(self, now_us: int, change: CircuitChange) -> Breaker:
        """Half-open, if it has been open for long enough; permits whose leases are over are gone.

        A half-open one whose policy wants fewer probes now may have all its results already, and nobody to tell.
        """
        breaker = self._as_of(now_us)
        if breaker.state == "open" and now_us >= breaker.until_us:
            breaker = breaker.moved("half_open", now_us, "it has been open for long enough", change)
        if any(until <= now_us for until in breaker.permits.values()):
            living = {id: until for id, until in breaker.permits.items() if until > now_us}
            breaker = replace(breaker, permits=living)
        return _judged(breaker, now_us, change) if breaker.state == "half_open" else breaker

    def _as_of(self, now_us: int) -> Breaker:
        """Where the store's clock was set back, what is to come takes no longer for that."""
        ahead_us = self.since_us - now_us
        if ahead_us <= 0:
            return self
        permits = {call: until - ahead_us for call, until in self.permits.items()}
        until_us, down_since_us = max(0, self.until_us - ahead_us), min(self.down_since_us, now_us)
        return replace(self, since_us=now_us, until_us=until_us, down_since_us=down_since_us, permits=permits)

    @property
    def probes_left(self) -> int:
        """How many more calls a half-open circuit lets through now."""
        return max(0, self.policy.probes - len(self.results) - len(self.permits))

    def recovers(self, now_us: int) -> bool:
        """Whether calls are let in at a pace."""
        return self.state in ("closed", "forced_closed") and now_us < self.recovering_until_us

    def paced(self, calls: int, now_us: int) -> tuple[Breaker, int]:
        """How many of so many calls are let in at the pace; they have taken their part of it."""
        policy = self.policy
        since = min(now_us, max(self.paced_us, now_us - policy.burst_us))
        count = min(calls, (now_us - since) // policy.interval_us)
        let_in = since + count * policy.interval_us
        return replace(self, paced_us=let_in) if count or self.paced_us > now_us else self, count


class Standing(msgspec.Struct, frozen=True):
    """How a circuit stands after a change, and the transitions that this change has made.

    `wait_us`: of an open one, how long it stays so. `slowed`: calls are let in at a pace.
    """

    state: State
    generation: int
    wait_us: int = 0
    slowed: bool = False
    transitions: tuple[Transition, ...] = ()

    @property
    def lets_all_in(self) -> bool:
        """Whether nobody needs to ask."""
        return self.state in ("closed", "forced_closed") and not self.slowed


class Admission(msgspec.Struct, frozen=True):
    """Which calls may be made."""

    standing: Standing
    admitted: frozenset[str]


class CircuitChange(Change, frozen=True, kw_only=True):
    """Base of the changes of a circuit. `by` is whoever asks for it. `policy` None: the one in the register holds.

    `request`: an id of its own; whoever repeats it, since the answer was lost, hears again what it has done.
    """

    by: str
    policy: CircuitPolicy | None = None
    request: str = ""

    def answered(self, was: Breaker, breaker: Breaker, now_us: int) -> Standing:
        """How it stands, with the transitions that `was` had not made, and those that this same request made before."""
        made = breaker.generation - was.generation
        steps = breaker.history[-made:] if made else ()
        if self.request:
            steps = tuple(step for step in breaker.history[-REPEATED:] if step.request == self.request)
        return Standing(
            breaker.state,
            breaker.generation,
            max(0, breaker.until_us - now_us) if breaker.state == "open" else 0,
            breaker.recovers(now_us),
            steps,
        )


class AskCircuit(CircuitChange, frozen=True, kw_only=True):
    """May these calls be made? Asking again for a probe extends its lease. The answer is an `Admission`.

    While there is a pace, an answer that was lost has taken its part of it: whoever asks again is another call.
    """

    calls: tuple[str, ...]
    lease_us: int

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Admit all, none, the probes that are free, or as many as the pace allows."""
        was = decode(body, self.policy)
        breaker = was.awake(now_us, self)
        calls = list(dict.fromkeys(self.calls))
        match breaker.state:
            case "half_open":
                breaker, admitted = self._probes(breaker, calls, now_us)
            case "open" | "forced_open":
                admitted = []
            case _ if breaker.recovers(now_us):
                breaker, count = breaker.paced(len(calls), now_us)
                admitted = calls[:count]
            case _:
                admitted = calls
        answer = Admission(self.answered(was, breaker, now_us), frozenset(admitted))
        return _changed(body, was, breaker, answer)

    def _probes(self, breaker: Breaker, calls: list[str], now_us: int) -> tuple[Breaker, list[str]]:
        known = [call for call in calls if call in breaker.permits]
        new = [call for call in calls if call not in breaker.permits][: breaker.probes_left]
        leased = dict.fromkeys((*known, *new), now_us + self.lease_us)
        return replace(breaker, permits=breaker.permits | leased) if leased else breaker, known + new


class ReportCalls(CircuitChange, frozen=True, kw_only=True):
    """What became of calls that were admitted in `generation`. The answer is a `Standing`.

    A report that was heard before, by its `request`, changes nothing.
    """

    request: str
    generation: int
    calls: tuple[tuple[str, Result], ...]

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Count what belongs to this generation, and judge."""
        was = decode(body, self.policy)
        breaker = was.awake(now_us, self)
        if self.generation == breaker.generation and self.request not in breaker.heard:
            counted = self._counted(breaker)
            if counted is not breaker:
                heard = (*breaker.heard, self.request)[-HEARD:]
                breaker = _judged(replace(counted, heard=heard), now_us, self)
        return _changed(body, was, breaker, self.answered(was, breaker, now_us))

    def _counted(self, breaker: Breaker) -> Breaker:
        if breaker.state == "closed":
            letters = "".join(LETTERS[result] for _, result in self.calls if result != "none")
            return replace(breaker, window=(breaker.window + letters)[-breaker.policy.window :]) if letters else breaker
        mine = {call: result for call, result in self.calls if call in breaker.permits}
        if breaker.state != "half_open" or not mine:
            return breaker
        letters = "".join(LETTERS[result] for result in mine.values() if result != "none")
        left = {call: until for call, until in breaker.permits.items() if call not in mine}
        return replace(breaker, permits=left, results=breaker.results + letters)


class OfferCalls(CircuitChange, frozen=True, kw_only=True):
    """Jobs are parked for it: how many may be given back now? The answer is an `Offer`.

    However many workers ask, one of them is told at a time: what all of them gave back would only be parked again.
    """

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """As many as would be admitted now. Of a closed circuit, this is what keeps the pace going."""
        was = decode(body, self.policy)
        breaker, count = was.awake(now_us, self), 0
        since = now_us - breaker.offered_us  # below 0 where a clock was set back, which holds nobody up
        if breaker.state == "half_open" and not 0 <= since < PROBE_OFFER_US:
            count = breaker.probes_left
        elif breaker.state in ("closed", "forced_closed") and not 0 <= since < breaker.policy.burst_us:
            policy = breaker.policy
            if not breaker.recovers(now_us):
                breaker = replace(breaker, paced_us=now_us)
            breaker = replace(breaker, recovering_until_us=now_us + policy.recovery_us)
            count = breaker.paced(policy.burst, now_us)[1] + policy.burst  # now, and until the next offer
        if count:
            breaker = replace(breaker, offered_us=now_us)
        return _changed(body, was, breaker, Offer(self.answered(was, breaker, now_us), count))


class Offer(msgspec.Struct, frozen=True):
    """How many parked jobs may be given back."""

    standing: Standing
    count: int


class ForceCircuit(CircuitChange, frozen=True, kw_only=True):
    """An operator opens it or closes it until further notice, or resets it: closed, nothing counted, nothing forced."""

    to: Literal["forced_open", "forced_closed", "closed"]
    why: str

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Whatever state it is in; the same again changes nothing."""
        was = decode(body, self.policy)
        again = was.state == self.to and not (self.to == "closed" and was.window)
        breaker = was if again else was.moved(self.to, now_us, self.why, self)
        return _changed(body, was, breaker, self.answered(was, breaker, now_us))


def shares(letters: str) -> tuple[float, float]:
    """(share of failed calls, share of slow ones) of a window; (0, 0) of an empty one."""
    failed, slow = (letters.count(letter) + letters.count("x") for letter in "fs")
    return failed / max(1, len(letters)), slow / max(1, len(letters))


def verdict(letters: str, policy: CircuitPolicy) -> str:
    """Why a circuit with these results opens; empty: it does not."""
    failed, slow = shares(letters)
    if failed >= policy.failure_rate:
        return f"{failed:.0%} of {len(letters)} calls failed"
    if slow >= policy.slow_rate:
        return f"{slow:.0%} of {len(letters)} calls were slow"
    return ""


def _judged(breaker: Breaker, now_us: int, change: CircuitChange) -> Breaker:
    policy = breaker.policy
    if breaker.state == "closed" and len(breaker.window) >= policy.least:
        why = verdict(breaker.window, policy)
        return breaker.moved("open", now_us, why, change) if why else breaker
    if breaker.state == "half_open" and len(breaker.results) >= policy.verdict_after:
        why = verdict(breaker.results, policy)
        if why:
            return breaker.moved("open", now_us, f"probes: {why}", change)
        closed = breaker.moved("closed", now_us, "the probes came back well", change)
        return replace(closed, recovering_until_us=now_us + policy.recovery_us, paced_us=now_us - policy.burst_us)
    return breaker


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Breaker)


def decode(body: bytes | None, policy: CircuitPolicy | None = None) -> Breaker:
    """The breaker in a register, under `policy` where one is given; a new one where there is none that can be read."""
    try:
        breaker = _decoder.decode(body) if body else Breaker(policy or CircuitPolicy())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ConfigError):
        breaker = Breaker(policy or CircuitPolicy())
    return breaker if policy is None or breaker.policy == policy else replace(breaker, policy=policy)


def _changed(body: bytes | None, was: Breaker, breaker: Breaker, answer: object) -> Changed:
    keep_us = FORCED_KEEP_US if breaker.state.startswith("forced") else KEEP_US + breaker.policy.open_us
    return Changed(body if breaker == was else _encoder.encode(breaker), answer, keep_us)
