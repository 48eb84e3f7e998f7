"""System checks of the setting HEADRACE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core import checks
from django.db import connections

from headrace.contrib.django.configuration import configuration
from headrace.contrib.django.project import project_app
from headrace.errors import HeadraceError


def check_settings(**_: Any) -> Iterable[checks.CheckMessage]:
    """Whether an app can be made of it. Nothing is connected to."""
    try:
        project_app()
        alias = configuration().alias
    except HeadraceError as error:
        yield checks.Error(str(error), id="headrace.E001")
        return
    connection = None if alias is None else connections[alias]
    if connection is not None and connection.vendor == "sqlite" and not _begins_immediate(connection):
        yield checks.Warning(
            f"The database {alias!r} is a SQLite file, and its transactions begin deferred: one that has read and then "
            "enqueues fails where another connection has written meanwhile.",
            hint='Set "OPTIONS": {"transaction_mode": "IMMEDIATE"} for it in DATABASES.',
            id="headrace.W001",
        )


def _begins_immediate(connection: Any) -> bool:
    mode = connection.settings_dict["OPTIONS"].get("transaction_mode") or ""
    return mode.upper() in {"IMMEDIATE", "EXCLUSIVE"}
