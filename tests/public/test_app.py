"""The app: its URL, its settings, and what importing it costs."""

import asyncio
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import ConfigError, Headrace
from headrace.drivers.memory import MemoryDriver
from headrace.urls import safe_url, sqlite_path


def python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///shop.db", "shop.db"),
        ("sqlite:///data/shop.db", "data/shop.db"),
        ("sqlite:////var/lib/shop.db", "/var/lib/shop.db"),
    ],
)
def test_three_slashes_are_relative_and_four_absolute(url: str, path: str) -> None:
    assert sqlite_path(url) == path
    Headrace(url)  # opens nothing yet


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("shop.db", "must begin with one of sqlite://, redis://"),
        ("postgresql+psycopg://localhost/shop", "write postgresql:// without +psycopg"),
        ("", "must begin with one of"),
        ("mongodb://localhost", "must begin with one of"),
        ("oracle://localhost/jobs", "must begin with one of"),
        ("postgresql://localhost/jobs?sslmodus=off", "url cannot be read"),
        ("postgres://localhost/jobs?pool_size=none", "pool_size is 'none' in the URL"),
        ("sqlite://shop.db", "write sqlite:///relative.db"),
        ("sqlite://", "write sqlite:///relative.db"),
        ("sqlite:///", "write sqlite:///relative.db"),
        ("sqlite:///:memory:", "use memory://"),
        ("sqlite:///x.db?timeout=5", "a SQLite URL has no options"),
        ("sqlite:///x.db#1", "no '#'"),
        ("memory://x", "memory:// stands alone"),
        ("redis://localhost:none/0", "no valid port"),
        ("redis://localhost:6379/first", "no valid port or database"),
        ("redis://localhost?retries=3", "retries is no option of a Redis URL"),
        ("unix://", "url names no socket"),
        ("unix://run/redis.sock", "url names no socket"),
        ("rediss://localhost?socket_timeout=long", "socket_timeout is 'long'"),
    ],
)
def test_other_urls_are_refused_with_the_way_to_write_them(url: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Headrace(url)
    assert words in str(caught.value)


def test_a_password_is_shown_nowhere() -> None:
    assert safe_url("redis://user:secret@host:6379/0") == "redis://user:***@host:6379/0"
    assert "secret" not in repr(Headrace("redis://user:secret@host:6379/0"))
    with pytest.raises(ConfigError) as caught:
        Headrace("oracle://user:secret@host/db")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lease": 0.9}, "lease is 0.9 s: it must be at least 1 s"),
        ({"heartbeat": 0}, "heartbeat is 0 s"),
        # B042: a beat as rare as the lease loses it at the first delay
        ({"lease": 30, "heartbeat": 30}, "lower it to 10 or raise the lease to 90"),
        ({"lease": 30, "heartbeat": 10.5}, "at most a third of the lease"),
        ({"name": "a b"}, "name is 'a b'"),
        ({"name": ""}, "name is ''"),
        ({"name": "1st"}, "name is '1st'"),
        ({"resend": -1}, "resend is -1"),
        ({"lease": "long"}, "lease is "),
        ({"busy_timeout": 0}, "busy_timeout is 0 s"),
        ({"keep_failed": 0}, "keep_failed is 0 s: it must be greater than 0, or None for ever"),
        ({"keep_failed_most": -1}, "keep_failed_most is -1: use a whole number of 0 or more, or None for all"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Headrace("memory://", **options)
    assert words in str(caught.value)


def test_a_short_lease_on_sqlite_needs_a_short_busy_timeout() -> None:
    with pytest.raises(ConfigError, match=r"raise it to 15 or lower busy_timeout to 2\b"):
        Headrace("sqlite:///x.db", lease=6, heartbeat=2)
    assert Headrace("sqlite:///x.db", lease=6, heartbeat=2, busy_timeout=2).config.lease_us == 6_000_000
    assert Headrace("memory://", lease=1, heartbeat=0.25).config.heartbeat_s == 0.25


def test_durations_may_be_timedeltas_and_texts() -> None:
    config = Headrace("memory://", lease=timedelta(minutes=1), heartbeat="15s").config
    assert (config.lease_us, config.heartbeat_s) == (60_000_000, 15.0)


def test_a_heartbeat_comes_three_times_a_lease() -> None:  # B042
    assert Headrace("memory://").config.heartbeat_s == 10
    assert Headrace("memory://", lease=6).config.heartbeat_s == 2


def test_an_app_without_arguments_keeps_its_jobs_in_a_file() -> None:
    assert Headrace().config.url == f"sqlite:///{Path.cwd()}/headrace.db"


def test_a_relative_path_counts_from_where_the_app_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that changes its directory later must not read another file than the one its producers write."""
    monkeypatch.chdir(tmp_path)
    app = Headrace("sqlite:///shop.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert app.jobs.queues() == []
    app.close()
    assert (tmp_path / "shop.db").exists()
    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("name", ["shop-a", "Shop", "sqlite", "sqlite_shop"])
def test_a_name_that_is_no_table_prefix_is_refused_at_once(name: str) -> None:
    """Nor are two names put together: shop-a would share the tables of shop_a."""
    with pytest.raises(ConfigError, match="on SQLite it begins the names of tables"):
        Headrace("sqlite:///x.db", name=name)
    with pytest.raises(ConfigError, match="on MariaDB it begins the names of tables"):
        Headrace("mariadb://me@host/jobs", name=name)
    assert Headrace("memory://", name=name).config.name == name


def test_the_driver_is_made_once_for_all_threads() -> None:
    app = Headrace("memory://")
    made: list[object] = []
    threads = [threading.Thread(target=lambda: made.append(app.driver)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(made[0], MemoryDriver)
    assert all(driver is made[0] for driver in made)


def test_a_missing_client_library_names_the_extra() -> None:
    result = python(
        "import sys; sys.modules['hiredis'] = None\n"
        "from headrace import Headrace, ConfigError\n"
        "try: Headrace('redis://localhost:1')\n"
        "except ConfigError as error: print(error)\n"
    )
    assert "pip install headrace[redis]" in result.stdout, result.stderr


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "rediss://127.0.0.1:1/0", "unix:///nowhere/redis.sock"])
def test_redis_urls_make_the_redis_driver_and_open_nothing(url: str) -> None:
    pytest.importorskip("hiredis")
    app = Headrace(url)
    assert type(app.driver).__name__ == "RedisDriver"
    app.close()


def test_sqlite_urls_make_the_sqlite_driver_and_open_nothing(sqlite_url: str, sqlite_path: Path) -> None:
    with Headrace(sqlite_url) as app:
        assert type(app.driver).__name__ == "SQLiteDriver"
        assert not sqlite_path.exists()


def test_a_job_survives_the_app_that_enqueued_it(sqlite_url: str) -> None:
    def mail(order_id: int) -> None: ...

    with Headrace(sqlite_url) as app:
        id = app.task(mail).enqueue(17).id
    with Headrace(sqlite_url) as app:
        info = app.jobs.get(id)
    assert info is not None
    assert info.args == {"order_id": 17}


def test_names_keep_apps_on_one_store_apart(sqlite_url: str) -> None:
    def mail() -> None: ...

    with Headrace(sqlite_url, name="shop") as shop, Headrace(sqlite_url, name="my_blog") as blog:
        id = shop.task(mail).enqueue().id
        assert shop.jobs.get(id) is not None
        assert blog.jobs.get(id) is None


def test_closing_twice_and_using_again_is_fine(sqlite_url: str) -> None:
    app = Headrace(sqlite_url)
    app.close()
    assert app.jobs.queues() == []
    app.close()
    app.close()
    assert app.jobs.queues() == []

    async def twice() -> None:
        async with app:
            assert await app.ajobs.queues() == []
        await app.aclose()

    asyncio.run(twice())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_enqueues_through_the_parents_app(sqlite_url: str) -> None:  # B121
    result = python(
        "import os, sys\n"
        "from headrace import Headrace\n"
        f"app = Headrace({sqlite_url!r})\n"
        "@app.task(name='mail')\n"
        "def mail(order_id: int) -> None: ...\n"
        "mail.enqueue(1)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    mail.enqueue(2)\n"
        "    os._exit(0)\n"
        "status = os.waitpid(child, 0)[1]\n"
        "print(status, app.jobs.queues()[0].ready)\n"
    )
    assert result.stdout.split() == ["0", "2"], result.stderr


def test_an_app_is_made_at_import_in_a_thread_and_without_a_loop() -> None:  # B124
    result = python(
        "import threading\n"
        "from headrace import Headrace\n"
        "def make():\n"
        "    app = Headrace('memory://')\n"
        "    @app.task\n"
        "    def mail(): ...\n"
        "    print(mail.enqueue().status)\n"
        "make()\n"
        "thread = threading.Thread(target=make); thread.start(); thread.join()\n"
    )
    assert result.stdout.split() == ["new", "new"], result.stderr


def test_importing_brings_in_nothing_heavy() -> None:
    result = python(
        "import sys\n"
        "from headrace import Headrace, Retry, current_job\n"
        "app = Headrace('sqlite:///x.db')\n"
        "@app.task\n"
        "def mail(order_id: int) -> None: ...\n"
        "heavy = {'asyncio', 'redis', 'hiredis', 'rich', 'click', 'sqlite3', 'pydantic', 'uvloop', 'ssl'}\n"
        "print(sorted(heavy & set(sys.modules)))\n",
        "-I",
    )
    assert result.stdout.strip() == "[]", result.stderr


def test_the_package_alone_loads_none_of_its_rooms() -> None:
    result = python("import sys, headrace; print([name for name in sys.modules if name.startswith('headrace.')])", "-I")
    assert result.stdout.strip() == "[]", result.stderr


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'headrace' has no attribute 'Nothing'"):
        headrace.Nothing  # noqa: B018
    assert set(headrace.__all__) <= set(dir(headrace))


def test_a_worker_listens_to_the_queues_of_all_tasks() -> None:
    app = Headrace("memory://")

    @app.task(queue="mail")
    def mail() -> None: ...

    @app.task
    def other() -> None: ...

    async def options() -> Any:
        return app.worker(concurrency=3, max_jobs=5).options

    made = asyncio.run(options())
    assert (made.queues, made.concurrency, made.max_jobs) == (("default", "mail"), 3, 5)
    with pytest.raises(ConfigError, match="concurrency is 0"):
        app.worker(concurrency=0)
    with pytest.raises(ConfigError, match="queues is empty"):
        Headrace("memory://").worker()


@pytest.mark.parametrize("queues", [["a\x00b"], {"a\x00b": 1.0}, "mail,a\x00b"])
def test_a_worker_refuses_a_queue_that_no_store_could_keep(queues: Any) -> None:
    with pytest.raises(ConfigError, match="printable"):
        Headrace("memory://").worker(queues)


def test_a_job_is_stored_although_the_loop_of_a_worker_is_closed() -> None:
    """The hint has nobody to go to; the enqueue has long taken place."""
    app = Headrace("memory://")
    wakeup = app.driver.wakeup("w", ("default",))
    loop = asyncio.new_event_loop()
    assert not loop.run_until_complete(wakeup.wait(0))
    loop.close()

    @app.task(name="mail")
    def mail() -> None: ...

    assert mail.enqueue().status == "new"
