"""The operator's morning: what failed is looked at, corrected, tried with a few and replayed, by real commands."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from .director import Director
from .evidence import Evidence, FailedJob, Morning, Repair
from .shop.price_lists import CORRUPT

SOUND, SPOILT, ODD = range(1, 4), range(101, 112), 112
REPRINTED = 14  # the list that the supplier sends in place of the corrupt one
OPERATOR = "ann"
IMPORTS = "examples.checkout.shop.jobs.import_price_list"
CANARIES = 2
LINES, WIDTH = 4, 120  # of a command's output that are shown
PATIENCE = 60  # seconds for one command


class MorningScenes(Director):
    """The end of the evening, and what comes of it."""

    morning: Morning | None = None

    def __init__(self, *placement: object) -> None:
        super().__init__(*placement)  # type: ignore[arg-type]
        self.lists: dict[str, int] = {}
        self.spoilt: dict[str, int] = {}

    def poison_job(self) -> None:
        """A job that kills whoever runs it, among others that do no harm."""
        self.stage.note("a corrupt price list comes in: whoever imports it crashes")
        self.poison = self.cast.import_price_list(CORRUPT)
        self.lists[self.poison] = REPRINTED
        self.lists |= {self.cast.import_price_list(list_id): list_id for list_id in SOUND}

    def spoilt_price_lists(self) -> None:
        """They fail at once and for good, since no waiting can help."""
        self.stage.note(f"a supplier sends {len(SPOILT)} price lists in EURO, and one in EUROS: nobody knows these")
        self.spoilt = {self.cast.import_price_list(list_id, "EURO"): list_id for list_id in SPOILT}
        self.wait_for("all have failed", lambda: self.spoilt.keys() <= self._failed().keys(), 20)
        self.spoilt[self.cast.import_price_list(ODD, "EUROS")] = ODD
        self.wait_for("that one too", lambda: self.spoilt.keys() <= self._failed().keys(), 20)
        self.lists |= self.spoilt
        self.wait_for("the pager rings for that", lambda: self.cast.pager.rang_for("failed-growth"), 20)

    def operator_repairs(self) -> None:
        """The odd one is overlooked, and among those that are tried first: the replay stops before it can do harm."""
        found = self._failed()
        self.stage.note(f"in the morning {len(found)} jobs are failed, and an operator looks at them")
        groups = self._headrace("failed", "groups").splitlines()
        fingerprint = next((line.split()[0] for line in groups if "UnknownCurrency" in line), "none")
        odd, first = self._newest(found)
        self._headrace(*_edit(first, "currency=EUR"), "--dry-run")
        self._show("python -m", "examples.checkout.shop.repairs", fingerprint, "--by", OPERATOR)
        tried = ("--canary", str(CANARIES), "--yes", "--by", OPERATOR)
        self._headrace("failed", "replay", "--fingerprint", fingerprint, *tried, code=1)
        stopped = [id for id in self._failed() if id in self.spoilt]
        self._headrace(*_edit(odd, "currency=EUR"))
        self._headrace(*_edit(self.poison, f"list_id={REPRINTED}", why="the supplier has sent it again"))
        self._headrace("failed", "replay", "--task", IMPORTS, *tried)
        self.morning = Morning(
            found=list(found.values()),
            lists=dict(self.lists),
            spoilt=list(self.spoilt),
            canaries=CANARIES,
            forgotten=odd,
            stopped=stopped,
            repairs=[],
            operator=OPERATOR,
        )

    def testimony(self, evidence: Evidence) -> Evidence:
        """What the store has kept of the jobs that were repaired."""
        evidence = super().testimony(evidence)
        if self.morning is None:
            return evidence
        jobs = [self.cast.store.jobs.get(job.id) for job in self.morning.found]
        repairs = [
            Repair(job.id, job.state.value, job.counts["replays"], [(edit.by, edit.why) for edit in job.edits])
            for job in jobs
            if job is not None
        ]
        return replace(evidence, morning=replace(self.morning, repairs=repairs))

    def _failed(self) -> dict[str, FailedJob]:
        """By id, the newest first."""
        return {job.id: job for job in self.cast.failed()}

    def _newest(self, found: dict[str, FailedJob]) -> tuple[str, str]:
        """The two of the spoilt lists that were the last to fail."""
        spoilt = [id for id in found if id in self.spoilt]
        return (spoilt[0], spoilt[1]) if len(spoilt) > 1 else ("none", "none")

    def _headrace(self, *arguments: str, code: int = 0) -> str:
        return self._show("headrace", *arguments, code=code)

    def _show(self, program: str, *arguments: str, code: int = 0) -> str:
        """Run a command as the operator would, show it with what it says, and return that."""
        module = [] if program == "python -m" else ["headrace.cli"]
        done = subprocess.run(
            [sys.executable, "-m", *module, *arguments],
            env=self.cast.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        shown = " ".join([program, *(f'"{word}"' if " " in word else word for word in arguments)])
        self.stage.note(f"$ {shown}")
        for line in done.stdout.splitlines()[:LINES]:
            self.stage.note(f"    {shorten(line)}")
        if done.returncode != code:
            self.expect(shown, happened=False, otherwise=f"exit code {done.returncode}: {done.stderr}")
        return done.stdout


def _edit(id: str, pair: str, why: str = "EURO is a typing error") -> tuple[str, ...]:
    return ("failed", "edit", id, "--set", pair, "--by", OPERATOR, "--why", why)


def shorten(line: str) -> str:
    """As much of a line as is shown."""
    return line.rstrip() if len(line) <= WIDTH else f"{line[:WIDTH]} ..."
