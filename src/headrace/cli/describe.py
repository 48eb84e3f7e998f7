"""One job as text and as JSON: the same for every command that shows jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.cli.output import as_json, facts, local, printable, say

if TYPE_CHECKING:
    from headrace.core.trail import Difference, Edit, Mishap
    from headrace.jobinfo import JobInfo, OnceInfo

_ENDED = ("done", "failed")  # once records that remember a result
_LONGEST_BODY = 4_000


def job_fields(info: JobInfo) -> dict[str, Any]:
    """The job as JSON; moments are ISO-8601 with their offset."""
    fields: dict[str, Any] = {
        "id": info.id,
        "queue": info.queue,
        "task": info.task,
        "state": info.state.value,
        "priority": info.priority,
        "enqueued": _iso(info.enqueued),
        "due": _iso(info.due),
        "started": _iso(info.started),
        "finished": _iso(info.finished),
        "worker": info.worker,
        "reason": info.reason,
        "failure": info.failure,
        "unique": info.unique,
        "cancel_requested": info.cancel_requested,
        "counts": info.counts,
    }
    if info.body is None:
        return fields
    fields |= {
        "deadline": _iso(info.deadline),
        "poll": _poll_fields(info),
        "once": None if info.once is None else once_fields(info.once),
        "args": _args(info),
        "envelope": _envelope(info),
        "code_version": info.code_version,
        "history": [_mishap_fields(one) for one in info.history],
        "edits": [edit_fields(one) for one in info.edits],
    }
    if info.problem:
        fields |= {"problem": info.problem, "body": info.body.decode("utf-8", "backslashreplace")}
    return fields


def standing_reason(info: JobInfo) -> str:
    """Why it is where it is; of a running job, what is stored says why it had to run again."""
    return "" if info.started is not None and info.finished is None else info.reason


def show_job(info: JobInfo, *, tracebacks: bool) -> None:
    """The job as text, with the traceback of each error or of the last one only."""
    facts(
        [
            ("id", info.id),
            ("task", info.task),
            ("queue", info.queue),
            ("state", info.state.value + (", asked to cancel" if info.cancel_requested else "")),
            ("reason", standing_reason(info)),
            ("priority", info.priority or None),
            ("enqueued", _local(info.enqueued)),
            ("due", _local(info.due) if info.due != info.enqueued else None),
            ("started", _local(info.started)),
            ("finished", _local(info.finished)),
            ("deadline", _local(info.deadline)),
            *_poll_facts(info),
            *_once_facts(info),
            ("worker", info.worker),
            ("unique key", info.unique),
            ("counts", ", ".join(f"{name} {number}" for name, number in info.counts.items() if number)),
            ("problem", info.problem),
            *_envelope_facts(info),
        ]
    )
    _show_payload(info)
    for place, mishap in enumerate(info.history):
        _show_mishap(mishap, traceback=tracebacks or place == len(info.history) - 1)
    for edit in info.edits:
        _show_edit(edit)


def _envelope_facts(info: JobInfo) -> list[tuple[str, object]]:
    envelope = info.envelope
    if envelope is None:
        return []
    headers = ", ".join(f"{name}={value}" for name, value in envelope.headers.items())
    return [
        ("tenant", envelope.tenant),
        ("tags", ", ".join(envelope.tags)),
        ("headers", headers),
        ("enqueued by", f"version {envelope.code_version}" if envelope.code_version else None),
    ]


def _poll_fields(info: JobInfo) -> dict[str, Any] | None:
    poll = info.poll
    if poll is None:
        return None
    return {"schedule": poll.schedule, "answers": poll.answers, "most": poll.most, "delay": poll.delay}


def _poll_facts(info: JobInfo) -> list[tuple[str, object]]:
    """How far a poll has come. Its next query is at `due`."""
    poll = info.poll
    if poll is None:
        return []
    most = "" if poll.most is None else f" of at most {poll.most}"
    waiting = info.finished is None and info.started is None
    after = f", the next {poll.delay:,g} s after the last" if waiting and poll.delay is not None else ""
    return [("schedule", poll.schedule), ("answers", f"{poll.answers}{most} not final{after}")]


def once_fields(once: OnceInfo) -> dict[str, Any]:
    """A once key with its record as JSON."""
    return {
        **{name: getattr(once, name) for name in ("task", "key", "state", "holder", "fence")},
        "until": _iso(once.until),
        "result": _shallow(once.result),
    }


def show_once(once: OnceInfo) -> None:
    """The same as text."""
    facts(
        [
            ("task", once.task),
            ("key", once.key),
            ("state", once.state),
            ("holder", once.holder),
            ("fence", once.fence),
            ("until", _local(once.until)),
            ("result", json.dumps(_shallow(once.result), ensure_ascii=False) if once.state in _ENDED else None),
        ]
    )


def _once_facts(info: JobInfo) -> list[tuple[str, object]]:
    """The key, and what keeps this job from taking effect, or what it or another one has left."""
    once = info.once
    if once is None:
        return []
    holder = "this job" if once.holder == info.id else once.holder
    by = f" by {holder}" if holder and once.state != "free" else ""
    until = f", until {_local(once.until)}" if once.state in _ENDED else ""
    result = json.dumps(_shallow(once.result), ensure_ascii=False) if once.state in _ENDED else None
    return [("once key", once.key), ("once record", f"{once.state}{by}{until}"), ("once result", result)]


def _show_payload(info: JobInfo) -> None:
    say()
    if info.problem and info.body is not None:
        say("body, as stored")
        shown = info.body[:_LONGEST_BODY].decode("utf-8", "backslashreplace")
        cut = f"... [{len(info.body):,} bytes in all; --json shows them]" if len(info.body) > _LONGEST_BODY else ""
        say(f"  {printable(shown)}{cut}")
        return
    say("arguments")
    args = _args(info)
    if not isinstance(args, Mapping):
        say(f"  {as_json(args)}")
    elif not args:
        say("  none")
    else:
        for name, value in args.items():
            say(f"  {printable(name)} = {printable(json.dumps(value, ensure_ascii=False))}")


def _show_mishap(mishap: Mishap, *, traceback: bool) -> None:
    say()
    what = "answer" if mishap.kind == "pending" else "attempt"
    version = f", version {mishap.version}" if mishap.version else ""
    say(printable(f"{local(mishap.at_us)}  {what} {mishap.attempt}: {mishap.kind} on {mishap.worker}{version}"))
    if mishap.kind == "pending":
        say(f"  {printable(mishap.message)}")
    elif mishap.type or mishap.message:
        say(f"  {printable(': '.join(part for part in (mishap.type, mishap.message) if part))}")
    if traceback and mishap.traceback:
        for line in mishap.traceback.splitlines():
            say(f"  {printable(line, lines=True)}")


def _show_edit(edit: Edit) -> None:
    say()
    why = f": {edit.why}" if edit.why else ""
    say(printable(f"{local(edit.at_us)}  edited by {edit.by}{why}"))
    show_diff(edit.diff, "  ")


def show_diff(diff: Iterable[Difference], margin: str = "") -> None:
    """Arguments as they were and as they are."""
    for one in diff:
        for sign, value in (("-", one.was), ("+", one.now)):
            if value is not None:
                say(f"{margin}{sign} {printable(one.name)} = {printable(value)}")


def edit_fields(edit: Edit) -> dict[str, Any]:
    """A correction as JSON."""
    from headrace.cli.output import iso

    return {"at": iso(edit.at_us), "by": edit.by, "why": edit.why, "diff": [diff_fields(one) for one in edit.diff]}


def diff_fields(one: Difference) -> dict[str, Any]:
    """The change of one argument; its values are JSON in texts, null where there was or is none."""
    return {"name": one.name, "was": one.was, "now": one.now}


def _mishap_fields(mishap: Mishap) -> dict[str, Any]:
    from headrace.cli.output import iso

    return {
        "kind": mishap.kind,
        "at": iso(mishap.at_us),
        "started": iso(mishap.started_us),
        "attempt": mishap.attempt,
        "worker": mishap.worker,
        "version": mishap.version,
        "type": mishap.type,
        "message": mishap.message,
        "traceback": mishap.traceback,
    }


def _args(info: JobInfo) -> Any:
    return _shallow(info.args)


def _shallow(value: Any) -> Any:
    """`value`, unless it is nested so deep that Python cannot write it down again (B102)."""
    try:
        json.dumps(value)
    except RecursionError:
        return "[nested too deep to be shown]"
    return value


def _envelope(info: JobInfo) -> dict[str, Any] | None:
    """The fields of the envelope that are set, but for the arguments."""
    if info.envelope is None:
        return None
    import msgspec

    bare = msgspec.structs.replace(info.envelope, args=msgspec.Raw(b"{}"))
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(bare))
    return {name: value for name, value in fields.items() if name != "args"}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def _local(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    try:
        return moment.astimezone().isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError):  # the last day that datetime knows has no other zone
        return moment.isoformat(sep=" ", timespec="seconds")
