"""The operator's pager: takes alerts over HTTP."""

from __future__ import annotations

import json
from functools import partial
from typing import NamedTuple

from .exchange import Exchange
from .listener import Listener


class Page(NamedTuple):
    """One alert."""

    rule: str
    subject: str
    state: str  # firing or resolved
    text: str


class Pager(Listener):
    """Remembers each."""

    def __init__(self) -> None:
        super().__init__(partial(_Exchange, self))
        self.pages: list[Page] = []

    def rang_for(self, rule: str) -> bool:
        """Has there been an alert of this rule?"""
        return any(page.rule == rule and page.state == "firing" for page in tuple(self.pages))

    @property
    def url(self) -> str:
        """Where alerts go."""
        return f"http://127.0.0.1:{self.port}/alerts"


class _Exchange(Exchange):
    def __init__(self, pager: Pager, *handed_over: object) -> None:
        self.pager = pager
        super().__init__(*handed_over)  # type: ignore[arg-type]

    def post(self, body: bytes) -> None:
        alert = json.loads(body)
        self.pager.pages.append(Page(alert["rule"], alert["subject"], alert["state"], alert["text"]))
        self.answer(200, "ringing")
