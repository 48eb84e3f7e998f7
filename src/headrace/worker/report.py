"""What the log says about the end of a claim."""

from __future__ import annotations

import logging

from headrace.core import trail
from headrace.core.operations import Outcome
from headrace.core.poll import TIMED_OUT
from headrace.core.states import State
from headrace.worker.table import Work

logger = logging.getLogger("headrace.worker")

_EXPECTED = {"", "released", "snoozed", "pending", "once key held", "retry budget"}


def tell(work: Work, outcome: Outcome, said: str = "") -> None:
    """One line per outcome: quiet about success, with the error's message otherwise, and the traceback of a failure.

    `said` is the reason that a verdict gave.
    """
    if outcome.state is State.SUCCEEDED:
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("job %s succeeded", work.job.id, extra=work.describe())
        return
    vain = _in_vain(outcome)
    level = _level(work, outcome) if vain is None else logging.ERROR
    if not logger.isEnabledFor(level):
        return
    message, traceback = _what_went_wrong(work, outcome) if vain is None else vain
    message = message or said
    text = "job %s: %s%s"
    arguments = (work.job.id, _what_became_of_it(outcome), f": {message}" if message else "")
    record = logger.makeRecord(logger.name, level, __file__, 0, text, arguments, None, "tell", work.describe())
    # the exception itself is gone, and its frames with it (B114); every formatter puts this text below the line
    record.exc_text = (traceback.rstrip("\n") or None) if level == logging.ERROR else None
    logger.handle(record)


def _what_became_of_it(outcome: Outcome) -> str:
    """Such as "snoozed for 30 s", "scheduled (ValueError), due in 2 s", "cancelled"."""
    state, reason = outcome.state.value, outcome.reason
    if outcome.state is State.SCHEDULED:
        delay = f"{outcome.delay_us / 1_000_000:{'.3g' if outcome.delay_us < 1_000_000_000 else ',.0f'}} s"
        return f"snoozed for {delay}" if reason == "snoozed" else f"{state} ({reason}), due in {delay}"
    return state if reason in ("", state) else f"{state} ({reason})"


def _in_vain(outcome: Outcome) -> tuple[str, str] | None:
    """What to say of a poll that timed out because its code or its upstream is broken: message and last traceback.

    None for one that had answers to the end, none of which was final: that is what its schedule is for.
    """
    if outcome.state is not State.EXPIRED or outcome.reason != TIMED_OUT:
        return None
    memory = trail.decode(outcome.trail)
    troubled = memory.attempts or memory.crashes  # since the last answer
    if memory.polls and not troubled:
        return None
    what = f"{memory.polls} answers, and then errors only" if memory.polls else "it never had an answer"
    if not troubled or not memory.history:
        return what, ""
    last = memory.history[-1]
    return f"{what}; the last error: {': '.join(filter(None, (last.type, last.message)))}", last.traceback


def _level(work: Work, outcome: Outcome) -> int:
    if outcome.state is State.FAILED:
        return logging.ERROR
    if outcome.reason == "released" and work.fed and work.started_us is None:
        return logging.DEBUG  # it waited for a slot: one line says for all of them that they are given back
    if outcome.state is State.PARKED:  # what holds them back has said so, once for all of them
        return logging.DEBUG
    return logging.INFO if outcome.reason in _EXPECTED else logging.WARNING


def _what_went_wrong(work: Work, outcome: Outcome) -> tuple[str, str]:
    """Message and traceback of the last entry of the history, if this claim has added it."""
    history = trail.decode(outcome.trail).history
    if not history or history == trail.decode(work.job.trail).history:
        return "", ""
    return history[-1].message, history[-1].traceback
