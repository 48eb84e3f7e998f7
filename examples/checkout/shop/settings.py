"""What the shop needs to know about its surroundings, from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Known to everybody: a real shop has one of `headrace.webhooks.new_secret()` for each partner, and tells nobody else.
NO_SECRET = "whsec_YSBzZWNyZXQgZm9yIGRldmVsb3BtZW50"


@dataclass(frozen=True)
class Settings:
    """Every default suits a developer's machine."""

    database_url: str = "sqlite:///build/checkout/shop.db"  # the shop's data: also postgresql://..., mysql://...
    store_url: str = ""  # where the jobs are: beside the shop's data, or redis://...
    store_name: str = "checkout"  # keeps several shops in one store apart
    smtp_host: str = "127.0.0.1"
    smtp_port: int = 1025
    gateway_url: str = "http://127.0.0.1:8026"
    gateway_secret: str = NO_SECRET
    merchants_url: str = "http://127.0.0.1:8025/webhooks"  # a merchant's own address is below it
    merchants_secret: str = NO_SECRET
    patience: float = 5.0  # seconds in which the gateway, or a merchant, has to answer
    alerts_url: str = ""  # where the operator's pager listens
    hurry: float = 1.0  # divides every schedule, see schedules.py
    drills: Path | None = None  # see drills.py; never set in production

    @property
    def one_database(self) -> bool:
        """Are the jobs where the orders are, so that one transaction holds both?"""
        return not self.store_url

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read CHECKOUT_DATABASE_URL, CHECKOUT_STORE_URL and so on; what is not set keeps its default."""

        def given(name: str, default: str) -> str:
            return environment.get(f"CHECKOUT_{name}", default)

        drills = given("DRILLS", "")
        return cls(
            database_url=given("DATABASE_URL", cls.database_url),
            store_url=given("STORE_URL", cls.store_url),
            store_name=given("STORE_NAME", cls.store_name),
            smtp_host=given("SMTP_HOST", cls.smtp_host),
            smtp_port=int(given("SMTP_PORT", str(cls.smtp_port))),
            gateway_url=given("GATEWAY_URL", cls.gateway_url),
            gateway_secret=given("GATEWAY_SECRET", cls.gateway_secret),
            merchants_url=given("MERCHANTS_URL", cls.merchants_url),
            merchants_secret=given("MERCHANTS_SECRET", cls.merchants_secret),
            patience=float(given("PATIENCE", str(cls.patience))),
            alerts_url=given("ALERTS_URL", cls.alerts_url),
            hurry=float(given("HURRY", str(cls.hurry))),
            drills=Path(drills) if drills else None,
        )


@cache
def settings() -> Settings:
    """The settings of this process."""
    return Settings.from_environment(os.environ)
