"""A router for a test."""

from typing import Any


class NoHeadrace:
    """Somebody else looks after the tables of headrace."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Not these; no opinion of others."""
        return False if app_label == "headrace" else None
