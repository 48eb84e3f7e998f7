"""What has to hold of the mail outage: the circuit around the mail server. Pure, as the rest of the audit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from math import inf

from .evidence import Evidence, Finding, MailOutage, finding

SETTLED = 0.5  # seconds in which all have heard that the circuit is open: the calls before it have ended by then
ON_THE_WAY = 3  # calls of each worker that may be later: let in before, and held up by a busy machine
AFTERWARDS = 2.0  # seconds for which there is still a pace when no mail is parked any more; the circuit gives it five
STALLED = 1.5  # so much more may come within one second after the machine has stood still


@dataclass(frozen=True)
class _Phase:
    """The circuit was in one state all that time."""

    state: str
    start: float
    end: float

    def calls(self, outage: MailOutage) -> list[float]:
        """Those that began within."""
        return sorted(call for call in outage.calls if self.start <= call < self.end)


def about(claim: str) -> Callable[[Callable[[MailOutage], tuple[list[str], str]]], Callable[[Evidence], Finding]]:
    """A claim about the outage. Without one it proves nothing."""

    def decorated(check: Callable[[MailOutage], tuple[list[str], str]]) -> Callable[[Evidence], Finding]:
        @wraps(check)
        def checked(evidence: Evidence) -> Finding:
            if evidence.outage is None:
                return Finding(claim, ok=False, found="there was no outage")
            return finding(claim, *check(evidence.outage))

        return checked

    return decorated


@about("a mail server that fails opens its circuit")
def circuit_opened(outage: MailOutage) -> tuple[list[str], str]:
    """And it closes when the server is back."""
    opened = [step for step in outage.steps if step.after == "open" and outage.began <= step.at <= outage.ended]
    closed = [step for step in outage.steps if step.after == "closed" and step.at >= outage.ended]
    wrong = [] if opened else ["it did not open"]
    wrong += [] if closed else ["it did not close again"]
    after = f"{opened[0].at - outage.began:.1f} s after the first 421" if opened else ""
    return wrong, f"{after}, {len(opened)} x open"


@about("while it is open nobody calls, but for probes")
def only_probes_called(outage: MailOutage) -> tuple[list[str], str]:
    """Counted by the mail server, and held against the history that the store keeps."""
    late, probes, periods = 0, 0, 0
    for phase in _phases(outage):
        calls = phase.calls(outage)
        if phase.state == "open":
            late += sum(call > phase.start + SETTLED for call in calls)
        elif phase.state == "half_open":
            periods += 1
            probes += len(calls)
    late += max(0, probes - outage.probes * periods)
    wrong = [f"{late} calls besides"] if late > outage.workers * ON_THE_WAY else []
    return wrong, f"{probes} probes in {periods} rounds, {late} on their way"


@about("mails wait meanwhile, and lose no attempt")
def mails_waited(outage: MailOutage) -> tuple[list[str], str]:
    """An attempt is a call that was made."""
    calls = sum(outage.began <= call <= outage.ended for call in outage.calls)
    wrong = [] if outage.parked else ["none waited"]
    wrong += [f"{outage.attempts} attempts, but {calls} calls"] if outage.attempts > calls else []
    return wrong, f"{outage.parked} waited, with {outage.attempts} attempts among them"


@about("the other queues flow meanwhile")
def the_rest_flowed(outage: MailOutage) -> tuple[list[str], str]:
    """Half as many charges and invoices as orders came in are enough: the last ones are always on their way."""
    done = outage.meanwhile
    wrong = [f"only {done[what]} {what}" for what in ("charges", "invoices") if done[what] < done["orders"] / 2]
    wrong += [f"no {what}" for what in ("orders", "webhooks") if not done[what]]
    return wrong, ", ".join(f"{count} {what}" for what, count in done.items())


@about("mails that waited come at a pace")
def came_at_a_pace(outage: MailOutage) -> tuple[list[str], str]:
    """As many as so much time lets in since the circuit closed; and hence never all in one second."""
    if not outage.drained:
        return ["some waited to the end"], ""
    start, until, calls = 0.0, outage.drained + AFTERWARDS, list[float]()
    closed = [phase for phase in _phases(outage) if phase.state == "closed" and phase.start >= outage.ended]
    for phase in closed[:1]:
        start, calls = phase.start, [call for call in phase.calls(outage) if call <= until]
    rate = outage.refill * 1.1
    early = sum(place > rate * (call - start) + outage.burst for place, call in enumerate(calls))
    most = max((sum(call <= later < call + 1 for later in calls) for call in calls), default=0)
    wrong = [f"{early} came early"] if early else []
    wrong += [f"{most} in one second"] if most > (rate + outage.burst) * STALLED else []
    wrong += [] if calls else ["none came"]
    return wrong, f"{len(calls)} in {max(calls, default=start) - start:.1f} s, at most {most} in a second"


OUTAGE = (circuit_opened, only_probes_called, mails_waited, the_rest_flowed, came_at_a_pace)


def _phases(outage: MailOutage) -> Iterator[_Phase]:
    steps = sorted(outage.steps, key=lambda step: step.at)
    ends = [step.at for step in steps[1:]] + [inf]
    for step, end in zip(steps, ends, strict=False):
        yield _Phase(step.after, step.at, end)
