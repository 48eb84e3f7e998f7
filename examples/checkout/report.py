"""The report: report.md for people, report.json for programs."""

from __future__ import annotations

import json
import platform
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles

from .audit import repeats
from .evidence import Evidence, Finding
from .stage import Event


@dataclass(frozen=True)
class Report:
    """What a run of the demo showed."""

    ok: bool
    seconds: float
    database: str
    findings: list[Finding]
    figures: dict[str, float | int]
    timeline: list[Event]

    def write(self, folder: Path) -> Path:
        """Write both files and return the readable one."""
        (folder / "report.json").write_text(json.dumps(asdict(self) | _machine(), indent=2) + "\n", encoding="utf-8")
        readable = folder / "report.md"
        readable.write_text(self.markdown(), encoding="utf-8")
        return readable

    def markdown(self) -> str:
        """The report as a page."""
        machine = _machine()
        verdict = "All claims hold" if self.ok else "SOMETHING IS OFF"
        lines = [
            "# Checkout demo",
            "",
            f"{verdict} after {self.seconds:.0f} s.",
            f"Database: {self.database}. Python {machine['python']} on {machine['system']}.",
            "",
            "## Audit",
            "",
            "| | claim | found |",
            "|---|---|---|",
            *(f"| {_verdict(finding)} | {finding.claim} | {finding.found} |" for finding in self.findings),
            "",
            "A mail or webhook that came twice has the same id both times, so its receiver can tell.",
            "Its answer was lost, or a process died between sending it and writing down that it was sent.",
            "",
            "## Figures",
            "",
            "| | |",
            "|---|---:|",
            *(f"| {name} | {value} |" for name, value in self.figures.items()),
            "",
            "## Timeline",
            "",
            "| second | |",
            "|---:|---|",
            *(f"| {event.second:.1f} | {event.text} |" for event in self.timeline),
            "",
        ]
        return "\n".join(lines)

    def table(self) -> str:
        """The audit for a terminal."""
        width = max(len(finding.claim) for finding in self.findings)
        rows = [f"  {_verdict(finding):3}  {finding.claim:{width}}  {finding.found}" for finding in self.findings]
        return "\n".join(rows)


def figures(evidence: Evidence, deaths: int) -> dict[str, float | int]:
    """The numbers of a run. Waits are from the click to the mail's arrival, outages included."""
    clicked: dict[int, float] = {}
    for receipt in evidence.receipts:
        if receipt.order_id is not None:
            clicked.setdefault(receipt.order_id, receipt.at)
    arrived: dict[int, float] = {}
    for mail in evidence.mails:
        arrived.setdefault(int(mail.message_id.partition("@")[0].rpartition("-")[2]), mail.at)
    waits = sorted(arrived[order] - clicked[order] for order in clicked.keys() & arrived.keys())
    percentiles = quantiles(waits, n=100, method="inclusive") if len(waits) > 1 else [0.0] * 99
    return {
        "orders": len(evidence.orders),
        "refused (409)": sum(receipt.status == 409 for receipt in evidence.receipts),
        "answers replayed": sum(receipt.replayed for receipt in evidence.receipts),
        "charges": len(evidence.charges),
        "charges asked for again": evidence.asked_again,
        "mails sent": len(evidence.mails),
        "mails that came twice": repeats(mail.message_id for mail in evidence.mails),
        "webhooks sent": len(evidence.webhooks),
        "webhooks that came twice": repeats(webhook.id for webhook in evidence.webhooks),
        "processes that died": deaths,
        "click to mail, median, s": round(percentiles[49], 3),
        "click to mail, 95 %, s": round(percentiles[94], 3),
        "click to mail, longest, s": round(waits[-1], 3) if waits else 0.0,
    }


def _verdict(finding: Finding) -> str:
    return "OK" if finding.ok else "OFF"


def _machine() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "sqlite": sqlite3.sqlite_version,
    }
