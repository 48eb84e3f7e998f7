"""`headrace circuit list|show|open|close|reset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import NotFound, Settings, common, pass_settings
from headrace.cli.output import age, facts, iso, local, note, now_us, printable, say, say_json, table
from headrace.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from headrace.circuits import Circuit
    from headrace.circuits.looks import CircuitInfo
    from headrace.core.circuit import Transition
    from headrace.core.circuit_policy import CircuitPolicy

why_option = click.option("--why", default="by hand", show_default=True, help="Stands in its history.")
by_option = click.option("--by", metavar="NAME", help="Who does it. Default: user, host and process.")


@click.group()
@common
def circuit() -> None:
    """List circuits; show one; open, close or reset one by hand."""


@circuit.command("list")
@common
@pass_settings
def list_circuits(settings: Settings) -> None:
    """List circuits: those of the app, and those that other code has left in the store.

    SINCE and CAUSE of an open or half-open one tell when it first opened since it was last closed, and why.
    """
    found = settings.app().circuits.look()
    if settings.json:
        for info in found:
            say_json(_fields(info))
        return
    if not found:
        note("the app has no circuit: app.circuit(...) makes one")
        return
    table(
        ["CIRCUIT", "STATE", "SINCE", "CALLS", "FAILED", "SLOW", "PARKED JOBS", "CAUSE"],
        [
            [
                *(info.name, info.state, age(_ago(info.down_since or info.since)), info.calls),
                *(f"{info.failed:.0%}", f"{info.slow:.0%}", info.parked, printable(info.down_why)),
            ]
            for info in found
        ],
    )


@circuit.command()
@click.argument("name")
@common
@pass_settings
def show(settings: Settings, *, name: str) -> None:
    """Show the circuit NAME: state, what its window holds, its settings, its last transitions, its parked jobs.

    \b
    Examples:
      headrace circuit show smtp
      headrace circuit show smtp --json | jq .history
    """
    _show(settings, _named(settings, name).look())


@circuit.command("open")
@click.argument("name")
@why_option
@by_option
@common
@pass_settings
def open_circuit(settings: Settings, *, name: str, why: str, by: str | None) -> None:
    """Let no call in until further notice: jobs of the circuit NAME are parked. `reset` ends it.

    \b
    Example:
      headrace circuit open smtp --why "maintenance until 6 pm"
    """
    found = _named(settings, name)
    found.force_open(why, by=by or _operator())
    _tell(settings, found.look())


@circuit.command("close")
@click.argument("name")
@why_option
@by_option
@common
@pass_settings
def close_circuit(settings: Settings, *, name: str, why: str, by: str | None) -> None:
    """Let all calls in until further notice, however many of them fail. `reset` ends it."""
    found = _named(settings, name)
    found.force_close(why, by=by or _operator())
    _tell(settings, found.look())


@circuit.command()
@click.argument("name")
@why_option
@by_option
@common
@pass_settings
def reset(settings: Settings, *, name: str, why: str, by: str | None) -> None:
    """Close the circuit NAME, with nothing counted and nothing forced. Parked jobs come back at a pace."""
    found = _named(settings, name)
    found.reset(why, by=by or _operator())
    _tell(settings, found.look())


def _named(settings: Settings, name: str) -> Circuit:
    """The circuit of that name, if the app has it or the store knows it."""
    from headrace.core.wording import near

    circuits = settings.app().circuits
    if name not in circuits:
        known = [info.name for info in circuits.look()]
        if name not in known:
            close = " or ".join(repr(one) for one in near(name, known))
            raise NotFound(f"there is no circuit {name!r}" + (f": did you mean {close}?" if close else ""))
    return circuits.named(name)


def _operator() -> str:
    import getpass

    from headrace.drivers.system import this_process

    try:
        return f"{getpass.getuser()}@{this_process()}"
    except (OSError, KeyError):  # an id without a name
        return this_process()


def _show(settings: Settings, info: CircuitInfo) -> None:
    if settings.json:
        say_json(_fields(info))
        return
    probes = f"{info.probing} under way" if info.state == "half_open" else None
    facts(
        [
            ("circuit", info.name),
            ("state", info.state),
            ("since", None if info.since is None else local(_us(info.since))),
            ("down since", None if info.down_since is None else local(_us(info.down_since))),
            ("cause", printable(info.down_why) or None),
            ("until", None if info.until is None else local(_us(info.until))),
            ("calls", f"{info.calls} counted: {info.failed:.0%} failed, {info.slow:.0%} slow"),
            ("probes", probes),
            ("opened", counted(info.entered.get("open", 0), "time")),
            ("parked jobs", info.parked),
            ("opens", _when(info.policy)),
        ]
    )
    for step, merged in _told(info.history):
        say(f"{local(step.at_us)}  {step.before} -> {step.after}: {printable(step.why)} (by {printable(step.by)})")
        if merged:
            say(f"... {merged} more probes failed" if merged > 1 else "... 1 more probe failed")


def _told(history: Sequence[Transition]) -> Iterator[tuple[Transition, int]]:
    """The newest first. Of failed probes one after the other, the last ones only, and how often it was so before."""
    last, merged = None, 0
    for step in reversed(history):
        if last is not None and {step.before, step.after} == {"half_open", "open"}:
            merged += step.after == "open"
            continue
        if last is not None:
            yield last, merged
        last, merged = step, 0
    if last is not None:
        yield last, merged


_AFTER = {
    "forced_open": "no call is let in until it is reset",
    "forced_closed": "all calls are let in until it is reset",
    "closed": "it counts calls anew",
}


def _tell(settings: Settings, info: CircuitInfo) -> None:
    """One line on what was done by hand."""
    if settings.json:
        say_json(_fields(info))
    else:
        meaning = _AFTER.get(info.state, "calls have changed that already")
        say(f"circuit {info.name}: {info.state}, {meaning}; {counted(info.parked, 'job')} parked")


def _when(policy: CircuitPolicy) -> str:
    slow = (
        "" if policy.slow_after_us is None else f" or {policy.slow_rate:.0%} take over {policy.slow_after_us / 1e6:g} s"
    )
    return (
        f"when {policy.failure_rate:.0%} of the last {policy.window} calls fail{slow}, of {policy.least} at least; for "
        f"{policy.open_us / 1e6:g} s, then {policy.probes} probes; {policy.refill:g} calls a second as jobs come back"
    )


def _fields(info: CircuitInfo) -> dict[str, Any]:
    return {
        "circuit": info.name,
        "state": info.state,
        "since": None if info.since is None else iso(_us(info.since)),
        "until": None if info.until is None else iso(_us(info.until)),
        "down_since": None if info.down_since is None else iso(_us(info.down_since)),
        "down_why": info.down_why or None,
        "calls": info.calls,
        "failed": round(info.failed, 4),
        "slow": round(info.slow, 4),
        "probing": info.probing,
        "parked": info.parked,
        "policy": info.policy,
        "entered": info.entered,
        "history": [
            {"at": iso(step.at_us), "before": step.before, "after": step.after, "why": step.why, "by": step.by}
            for step in info.history
        ],
    }


def _us(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _ago(moment: datetime | None) -> int | None:
    return None if moment is None else max(0, now_us() - _us(moment))
