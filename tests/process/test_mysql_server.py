"""Servers with settings of their own, users who may do little, and how we say what is wrong."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pymysql
import pytest

from headrace.core import operations as ops
from headrace.drivers.mysql import MySQLDriver
from headrace.drivers.mysql.address import parse
from headrace.drivers.mysql.line import Line
from headrace.drivers.mysql.problems import translate
from headrace.errors import (
    ConfigError,
    PayloadTooLarge,
    StoreError,
    StoreFull,
    StoreMisconfigured,
    StoreUnavailable,
)
from headrace.testing.conformance.harness import job
from tests.process.mysql_jobs import ask, claim, enqueue, open_driver, settle
from tests.servers import MariaServer
from tests.servers.certificate import certificate

Factory = Callable[[], MariaServer]


@pytest.fixture
def driver(mysql_url: str, unique_name: str) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    yield driver
    driver.close()


# -- what our connections are set to


def test_our_settings_hold_whatever_the_servers_are(mariadb_server_factory: Factory, unique_name: str) -> None:
    """Time zone, mode, isolation: none of them may shift a clock, cut a text or lock a gap."""
    server = mariadb_server_factory().start(
        default_time_zone="+09:00", sql_mode="NO_BACKSLASH_ESCAPES", transaction_isolation="SERIALIZABLE"
    )
    driver = open_driver(server.url, unique_name)
    enqueue(driver.run, job("a\\'b", body=b"\\"))
    claimed = driver.run(ops.Claim("w", 1, ("q",), 1, 10**7))
    assert abs(claimed.now_us / 1e6 - time.time()) < 60
    assert (claimed.jobs[0].id, claimed.jobs[0].body) == ("a\\'b", b"\\")
    isolation = [finding for finding in driver.run(ops.Inspect()) if finding.subject == "isolation"]
    assert [finding.level for finding in isolation] == ["ok"]
    with pytest.raises(StoreError, match="1264"):  # out of range: in another mode it would be cut
        enqueue(driver.run, job("c", priority=2**40))
    driver.close()


def test_who_is_frozen_within_a_transaction_loses_its_locks(mariadb_server_factory: Factory, unique_name: str) -> None:
    """MariaDB can be told to; else nobody could claim what it had looked at until it is killed."""
    driver = open_driver(mariadb_server_factory().start().url, unique_name)
    line = Line(driver.address, driver._texts)
    assert list(line._query("select @@session.idle_transaction_timeout")) == [(10,)]
    line.drop()
    driver.close()


def test_doctor_names_what_loses_jobs(mariadb_server_factory: Factory, unique_name: str) -> None:
    server = mariadb_server_factory().start(innodb_doublewrite=0, log_bin="binlog", binlog_format="MIXED", server_id=1)
    driver = open_driver(server.url, unique_name)
    driver.run(ops.Prepare())
    found = {finding.subject: finding for finding in driver.run(ops.Inspect())}
    assert (found["durability"].level, found["torn pages"].level) == ("warning", "warning")
    assert "innodb_flush_log_at_trx_commit is 0" in found["durability"].text
    ask(server.url, "set global innodb_flush_log_at_trx_commit = 1")
    ask(server.url, "set global sync_binlog = 0")
    ask(server.url, f"alter table {unique_name}_queues engine = MyISAM")
    found = {finding.subject: finding for finding in driver.run(ops.Inspect())}
    assert "sync_binlog is 0" in found["durability"].text
    assert (found["engine"].level, f"{unique_name}_queues" in found["engine"].text) == ("error", True)
    assert found["replication"].level == "ok"
    driver.close()


# -- what we may not do


def as_user(url: str, name: str, *grants: str) -> str:
    """The URL of a new user who may do only that."""
    ask(url, f"create user {name} identified by 'pw'")
    for grant in grants:
        ask(url, f"grant {grant} to {name}")
    parts = parse(url)
    return f"mysql://{name}:pw@{parts.host}:{parts.port}/{parts.database}"


def test_a_user_without_the_right_to_make_tables_is_told_what_to_run(mysql_url: str, unique_name: str) -> None:
    database = parse(mysql_url).database
    url = as_user(mysql_url, unique_name, f"select, insert, update, delete on {database}.*")
    driver = open_driver(url, unique_name)
    with pytest.raises(StoreMisconfigured, match="headrace schema upgrade"):
        enqueue(driver.run, "a")
    owner = open_driver(mysql_url, unique_name)
    owner.run(ops.Prepare())
    assert enqueue(driver.run, "a") == ["new"]  # and needs nothing more once they are there
    assert driver.run(settle(claim(driver.run, 1))) == [True]
    assert {finding.level for finding in driver.run(ops.Inspect())} <= {"ok", "info", "warning"}
    driver.close()
    owner.close()


def test_wrong_passwords_and_databases_are_told_apart(mysql_url: str, unique_name: str) -> None:
    parts = parse(mysql_url)
    for url, word in (
        (f"mysql://{parts.user}:wrong@{parts.host}:{parts.port}/{parts.database}", "does not let us in"),
        (f"mysql://{parts.user}:{parts.password}@{parts.host}:{parts.port}/nowhere", "does not exist"),
    ):
        driver = open_driver(url, unique_name)
        with pytest.raises(StoreMisconfigured, match=word) as refused:
            driver.run(ops.Queues())
        assert "wrong" not in str(refused.value)
        with pytest.raises(StoreMisconfigured, match=word):
            asyncio.run(driver.arun(ops.Queues()))
        driver.close()


def test_a_replica_refuses_and_says_so(mariadb_server_factory: Factory, unique_name: str) -> None:
    server = mariadb_server_factory().start()
    url = as_user(server.url, "plain", "all on headrace.*")
    driver = open_driver(url, unique_name)
    assert enqueue(driver.run, "a") == ["new"]
    ask(server.url, "set global read_only = 1")
    with pytest.raises(StoreUnavailable, match="read only"):
        enqueue(driver.run, "b")
    assert any(finding.subject == "read only" for finding in driver.run(ops.Inspect()))
    ask(server.url, "set global read_only = 0")
    assert enqueue(driver.run, "b") == ["new"]
    driver.close()


def test_a_newer_schema_is_refused(driver: MySQLDriver, mysql_url: str, unique_name: str) -> None:
    driver.run(ops.Prepare())
    ask(mysql_url, f"update {unique_name}_meta set value = '99' where name in ('schema', 'oldest')")
    other = open_driver(mysql_url, unique_name)
    with pytest.raises(StoreMisconfigured, match="version 99"):
        other.run(ops.Queues())
    other.close()


def test_a_job_larger_than_a_packet_is_refused(mariadb_server_factory: Factory, unique_name: str) -> None:
    server = mariadb_server_factory().start(max_allowed_packet=1 << 20)
    driver = open_driver(server.url, unique_name)
    with pytest.raises((PayloadTooLarge, StoreUnavailable)):
        enqueue(driver.run, job("a", body=b"\x00" * 1_000_000))
    assert any(finding.subject == "packets" for finding in driver.run(ops.Inspect()))
    assert enqueue(driver.run, "b") == ["new"]
    driver.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, StoreFull) for code in (28, 1021, 1114)),
        *((code, StoreUnavailable) for code in (1205, 1213, 1020, 1927, 2006, 2013, 4031, 1053, 1290, 1836)),
        *((code, StoreMisconfigured) for code in (1044, 1142, 1146, 1064)),
        (1366, StoreError),
    ],
)
def test_errors_of_the_server_are_put_into_our_words(code: int, kind: type[Exception]) -> None:
    address = parse("mysql://me:secret@db/jobs")
    error = translate(pymysql.OperationalError(code, "as it says"), pymysql, address)
    assert type(error) is kind or (kind is StoreUnavailable and isinstance(error, kind))
    assert "as it says" in str(error)
    assert "secret" not in str(error)


# -- addresses


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("mysql://h/", "names no database"),
        ("mysql://h/a/b", "names no database"),
        ("mysql://h:x/d", "port"),
        ("mysql://h/d?colour=red", "colour is no option"),
        ("mysql://h/d?read_timeout=never", "read_timeout is 'never'"),
        ("mysql://h/d?ssl=maybe", "ssl is 'maybe'"),
        ("postgresql://h/d", "use mysql://"),
    ],
)
def test_addresses_that_are_none_are_refused(url: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        parse(url)


def test_an_address_is_read_and_shown() -> None:
    address = parse("mariadb://me%40x:p%2Fw@[::1]:3307/jobs?ssl_ca=/ca.pem&read_timeout=2.5&ssl_verify=0")
    assert (address.user, address.password, address.host, address.port) == ("me@x", "p/w", "::1", 3307)
    assert (address.ssl_ca, address.read_timeout, address.ssl_verify) == ("/ca.pem", 2.5, False)
    assert str(address) == "mariadb://me%40x:***@[::1]:3307/jobs"
    assert parse("mysql:///jobs?unix_socket=/run/my.sock").arguments()["unix_socket"] == "/run/my.sock"


# -- TLS


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_server_proves_itself_by_its_certificate(
    mariadb_server_factory: Factory, unique_name: str, colour: str
) -> None:
    server = mariadb_server_factory()
    cert, key = certificate(server.directory)
    server.start(ssl_cert=str(cert), ssl_key=str(key), require_secure_transport=1)

    def ask_for_queues(options: str) -> list[ops.QueueView]:
        driver = open_driver(server.url + options, unique_name)

        async def asked() -> list[ops.QueueView]:
            try:
                return await driver.arun(ops.Queues())
            finally:
                await driver.aclose()

        try:
            return driver.run(ops.Queues()) if colour == "sync" else asyncio.run(asked())
        finally:
            driver.close()

    assert ask_for_queues(f"?ssl_ca={cert}") == []
    assert ask_for_queues("?ssl=1&ssl_verify=0") == []
    for refused in ("?ssl=1", ""):
        with pytest.raises((StoreUnavailable, StoreMisconfigured, StoreError)):
            ask_for_queues(refused)


def test_errors_are_ours_where_the_library_stands_in_for_another_one() -> None:
    """As under Django: importing a part of it by the other name replaces `pymysql.err` by a copy."""
    script = """
import pymysql
from headrace import Headrace
from headrace.errors import StoreUnavailable
pymysql.install_as_MySQLdb()
import MySQLdb.converters
try:
    Headrace("mysql://nobody@127.0.0.1:1/none", resend=0).jobs.queues()
except StoreUnavailable:
    print("ours")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("ours\n", 0), done.stderr
