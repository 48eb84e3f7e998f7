"""What tables of a report are made of."""

from __future__ import annotations

from typing import Any

Entry = dict[str, Any]
Named = list[tuple[str, Entry]]


def has(entry: Entry, workload: str) -> bool:
    """Whether a variant has an answer to it."""
    return bool(entry.get(workload)) and "error" not in entry[workload]


def number(value: float | None, digits: int = 0) -> str:
    """With thousands separated; a dash for what was not measured."""
    return "–" if value is None else f"{value:,.{digits}f}"


def rates(result: Entry | None) -> str:
    """The median, the spread of the runs where it is more than 10 %, and what went wrong."""
    if not result:
        return "–"
    if "error" in result:
        return "failed"
    runs = result["rates"]
    text = number(result["median"])
    if max(runs) > 1.1 * min(runs):
        text += f" ({number(min(runs))}–{number(max(runs))})"
    wrong = [f"{result[key]} {key}" for key in ("lost", "duplicated", "unsettled") if result.get(key)]
    return text + (f" **{', '.join(wrong)}**" if wrong else "")


def table(title: str, head: list[str], rows: list[list[str]], *, words: bool = False) -> str:
    """A table under a heading; nothing without rows. Columns after the first are numbers, unless they are words."""
    if not rows:
        return ""
    rule = "|---|" + ("---|" if words else "---:|") * (len(head) - 1)
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([f"## {title}\n", lines[0], rule, *lines[1:]]) + "\n"
