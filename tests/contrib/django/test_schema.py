"""Django's migrations make the tables, step by step, there and back, where the jobs are and nowhere else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.contrib.django.inside import entry
from tests.contrib.django.site import Site

STEPS = """
from django.core.management import call_command
from django.core.management.base import CommandError
from headrace.contrib.django import app
from headrace.core.schema import ReadSchema

def say(*command):
    call_command(*command, verbosity=0)
    view = app.driver.run(ReadSchema())
    print(view.version, end=" ")

say("migrate", "headrace", "0001")
say("migrate", "headrace")
say("migrate", "headrace", "0001")
say("migrate", "headrace", "zero")
say("migrate")
call_command("headrace", "schema", "check")
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
"""


def test_up_and_down_in_steps(site: Site) -> None:
    said = site.python(STEPS)
    assert said.startswith("1 4 1 0 4 ")
    assert "has version 4 of the schema, the one that this headrace knows" in said


FIRST = """
from django.core.management import call_command
from headrace.contrib.django import app
app.jobs.queues()
call_command("migrate", verbosity=0)
call_command("headrace", "schema", "check")
"""


def test_where_a_worker_was_first_nothing_is_left_to_do(site: Site) -> None:
    assert "has version 4 of the schema, the one" in site.python(FIRST)


ELSEWHERE = """
from django.core.management import call_command
from django.db import connections
for alias in ("default", "jobs"):
    call_command("migrate", database=alias, verbosity=0)
    print(alias, sorted(name for name in connections[alias].introspection.table_names() if name.startswith("shop_")))
"""


def test_only_the_database_of_the_jobs_gets_tables(make_site: Callable[..., Site], tmp_path: Path) -> None:
    site = make_site(
        {name: entry(str(tmp_path / f"{name}.sqlite3")) for name in ("default", "jobs")},
        {"DATABASE": "jobs", "NAME": "shop"},
    )
    without, made = site.python(ELSEWHERE).splitlines()
    assert without == "default []"
    assert "'shop_jobs'" in made
    assert "'shop_outbox'" in made


PRINTED = """
from django.core.management import call_command
call_command("sqlmigrate", "headrace", "0003")
call_command("sqlmigrate", "headrace", "0003", backwards=True)
"""


def test_the_sql_can_be_printed(make_site: Callable[..., Site], tmp_path: Path) -> None:
    said = make_site({"default": entry(str(tmp_path / "shop.sqlite3"))}).python(PRINTED)
    assert "create table headrace_once (" in said
    assert "drop table headrace_once" in said


def test_a_router_may_keep_them_out(make_site: Callable[..., Any], tmp_path: Path) -> None:
    site = make_site(
        {"default": entry(str(tmp_path / "shop.sqlite3"))}, SHOP_ROUTERS='["djangoshop.routers.NoHeadrace"]'
    )
    assert (
        site.python(
            "from django.core.management import call_command\n"
            'call_command("migrate", verbosity=0)\n'
            "from django.db import connection\n"
            'print([n for n in connection.introspection.table_names() if n.startswith("headrace")])'
        )
        == "[]"
    )
