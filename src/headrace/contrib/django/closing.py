"""Our own connections to a database that is about to be dropped, which PostgreSQL refuses while there are any."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import NO_DB_ALIAS

from headrace.contrib.django.project import project_app


def close_before_drop(*, connection: Any, **_: Any) -> None:
    """Called after Django has opened a connection; one to no database is for making and dropping those of tests."""
    if connection.alias == NO_DB_ALIAS and project_app.cache_info().currsize:
        project_app().close()
