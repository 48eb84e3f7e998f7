"""The setting HEADRACE, and addresses that are made of DATABASES."""

from pathlib import Path
from typing import Any

import pytest

from headrace.contrib.django.addresses import url_of
from headrace.contrib.django.configuration import Configuration, read
from headrace.drivers.mysql.address import parse as parse_mysql
from headrace.drivers.postgres.address import parse as parse_postgres
from headrace.errors import ConfigError
from tests.contrib.django import inside

DATABASES = {"default": {}, "jobs": {}}


def test_without_a_setting_the_jobs_are_in_the_default_database() -> None:
    assert read({}, DATABASES) == Configuration("default", None, None, joins=True, arguments={})
    assert read({}, DATABASES).alias == "default"


def test_what_may_be_said() -> None:
    found = read({"URL": "redis://x", "OUTBOX": "jobs", "LEASE": 60, "ENQUEUE_IN_TRANSACTION": False}, DATABASES)
    assert found == Configuration(None, "redis://x", "jobs", joins=False, arguments={"lease": 60})
    assert found.alias == "jobs"
    assert read({"URL": "redis://x"}, DATABASES).alias is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("redis://x", "write a dict"),
        ({"url": "redis://x"}, "HEADRACE has 'url', which is none of DATABASE, URL"),
        ({"DATABASE": "other"}, "DATABASE in HEADRACE is 'other': there is no such alias"),
        ({"DATABASE": "jobs", "OUTBOX": "default"}, "has DATABASE and OUTBOX"),
        ({"DATABASE": None}, "neither DATABASE nor URL"),
    ],
)
def test_what_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(given, DATABASES)


@pytest.fixture
def alias(unique_name: str) -> Any:
    """A database that nobody connects to, with what the test wants changed."""
    inside.set_up()
    from django.db import connections

    def made(engine: str, **changes: Any) -> str:
        inside.add(unique_name, "mysql://user@host/shop" if engine == "mysql" else f"{engine}://user@host/shop")
        connections[unique_name].settings_dict.update(changes)
        return unique_name

    yield made
    inside.remove(unique_name)


def test_an_address_on_postgresql_says_what_django_says(alias: Any) -> None:
    url = url_of(alias("postgresql", PASSWORD="a/b:@%", PORT="5433", OPTIONS={"sslmode": "require", "pool": True}))
    assert parse_postgres(url).parameters == {
        "user": "user",
        "password": "a/b:@%",
        "host": "host",
        "port": "5433",
        "dbname": "shop",
        "sslmode": "require",
    }


def test_an_address_on_mysql_says_what_django_says(alias: Any) -> None:
    found = parse_mysql(url_of(alias("mysql", PASSWORD="a/b:@%", OPTIONS={"connect_timeout": 3})))
    assert (found.user, found.password, found.host, found.database) == ("user", "a/b:@%", "host", "shop")
    assert found.connect_timeout == 3


def test_a_socket_of_mysql(alias: Any) -> None:
    assert parse_mysql(url_of(alias("mysql", HOST="/run/my.sock"))).unix_socket == "/run/my.sock"


def test_a_database_in_memory_is_refused_with_what_to_do(alias: Any) -> None:
    name = alias("postgresql")
    inside.remove(name)
    inside.add(name, ":memory:")
    with pytest.raises(ConfigError, match="is in memory"):
        url_of(name)


def test_jobs_of_tests_never_go_to_the_database_that_was_there_before(tmp_path: Path, unique_name: str) -> None:
    """Tests whose database nobody else could open get an error for each job, not for the first one only."""
    inside.add(unique_name, str(tmp_path / "shop.sqlite3"))
    from django.db import connections

    from headrace.contrib.django.project import DjangoApp

    app = DjangoApp(Configuration(unique_name, None, None, joins=True, arguments={}))
    assert app.jobs.queues() == []
    connections[unique_name].settings_dict["NAME"] = ":memory:"
    for _ in range(2):
        with pytest.raises(ConfigError, match="in memory, where no other connection finds jobs"):
            app.jobs.queues()
    connections[unique_name].settings_dict["NAME"] = str(tmp_path / "test.sqlite3")
    assert app.jobs.queues() == []
    assert app.driver.describe().endswith("test.sqlite3")
    app.close()
    inside.remove(unique_name)
