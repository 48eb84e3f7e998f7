"""What has to hold of the operator's repairs. Pure, as the rest of the audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps

from .evidence import Evidence, Finding, Morning, few, finding

Check = Callable[[Evidence, Morning], tuple[list[str], str]]


def about(claim: str) -> Callable[[Check], Callable[[Evidence], Finding]]:
    """A claim about the morning. Without one it proves nothing."""

    def decorated(check: Check) -> Callable[[Evidence], Finding]:
        @wraps(check)
        def checked(evidence: Evidence) -> Finding:
            if evidence.morning is None:
                return Finding(claim, ok=False, found="there was no morning")
            return finding(claim, *check(evidence, evidence.morning))

        return checked

    return decorated


@about("the poison job was quarantined after three deaths, alone")
def only_poison_crashed(evidence: Evidence, morning: Morning) -> tuple[list[str], str]:
    """It took no other with it. Some more deaths may not have been its own: workers are killed all the evening."""
    crashed = [job for job in morning.found if job.id not in morning.spoilt]
    wrong = [f"{job.id} failed too ({job.reason})" for job in crashed if job.id != evidence.poison]
    wrong += [] if evidence.poison in {job.id for job in crashed} else ["it was not"]
    wrong += [
        f"{job.reason} x {job.crashes}"
        for job in crashed
        if job.id == evidence.poison and (job.reason != "crashed" or job.crashes < 3)
    ]
    return wrong, few(f"{job.task.rpartition('.')[2]}: {job.reason} x {job.crashes}" for job in crashed)


@about("a canary that fails stops a replay")
def canary_stopped_it(_evidence: Evidence, morning: Morning) -> tuple[list[str], str]:
    """Of those that were not canaries none was touched."""
    least = len(morning.spoilt) - morning.canaries + 1  # the one that was forgotten has failed again
    wrong = [] if morning.forgotten in morning.stopped else ["the one that was forgotten did not fail"]
    wrong += [f"{len(morning.stopped)} were left failed"] if len(morning.stopped) < least else []
    return wrong, f"{len(morning.stopped)} of {len(morning.spoilt)} were left failed, for a better try"


@about("every price list was imported once, by the job it came with")
def lists_were_imported(evidence: Evidence, morning: Morning) -> tuple[list[str], str]:
    """Two jobs for one list would make two rows."""
    came = Counter((list_id, job_id) for list_id, job_id, _ in evidence.price_lists)
    asked = Counter((list_id, job_id) for job_id, list_id in morning.lists.items())
    wrong = [f"list {list_id} was not" for list_id, _ in (asked - came).elements()]
    wrong += [f"list {list_id} by job {job_id}" for list_id, job_id in (came - asked).elements()]
    wrong += [f"list {id} in {currency}" for id, _, currency in evidence.price_lists if currency != "EUR"]
    return wrong, f"{len(came)} lists"


@about("the store knows who corrected what, and why")
def repairs_are_known(_evidence: Evidence, morning: Morning) -> tuple[list[str], str]:
    """Of each job that had failed; and it has been replayed once, or twice where the first time was in vain."""
    wrong = []
    for repair in morning.repairs:
        times = 2 if repair.id == morning.forgotten else 1
        named = [by for by, why in repair.edits if why]
        wrong += [] if named == [morning.operator] else [f"{repair.id}: corrected by {named}"]
        wrong += [] if repair.state == "succeeded" else [f"{repair.id} is {repair.state}"]
        wrong += [] if repair.replays == times else [f"{repair.id}: replayed {repair.replays} times"]
    missing = {job.id for job in morning.found} - {repair.id for repair in morning.repairs}
    wrong += [f"nothing is known of {id}" for id in sorted(missing)]
    return wrong, f"{len(morning.repairs)} corrected by {morning.operator}, the forgotten one was replayed twice"


@about("the pager rings once for each trouble")
def pager_rang(evidence: Evidence, _morning: Morning) -> tuple[list[str], str]:
    """For the circuit, however often its probes fail, and for the jobs that failed. The cool-down is an hour."""
    firing = Counter((page.rule, page.subject) for page in evidence.pages if page.state == "firing")
    wrong = [f"{count} x {rule}" for (rule, _), count in firing.items() if count > 1]
    rules = {rule for rule, _ in firing}
    wrong += [f"silence about {rule}" for rule in ("circuit-opened", "failed-growth") if rule not in rules]
    return wrong, ", ".join(f"{count} x {rule}" for (rule, _), count in sorted(firing.items()))


MORNING = (
    only_poison_crashed,
    canary_stopped_it,
    lists_were_imported,
    repairs_are_known,
    pager_rang,
)
