"""`manage.py test`: the project's own tests, on a database that Django makes for them and drops."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.contrib.django.site import Site


def test_the_projects_own_tests_run(
    kind: str, database: dict[str, Any], make_site: Callable[..., Site], tmp_path: Path
) -> None:
    """PostgreSQL drops no database that somebody has open, and Django's file would be in memory."""
    if kind == "sqlite":
        database["TEST"] = {"NAME": str(tmp_path / "test.sqlite3")}
    said = make_site({"default": database}).manage("test", "djangoshop", "--noinput")
    assert "Ran 3 tests" in said
    assert "OK" in said
