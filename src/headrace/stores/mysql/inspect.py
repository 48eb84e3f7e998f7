"""The plan of `headrace doctor`: version, durability, replication, isolation, engines, old transactions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.core import operations as ops
from headrace.errors import StoreMisconfigured
from headrace.stores.mysql.text import text
from headrace.stores.plan import Plan, Statement

LONG_TRANSACTION_S = 600
LEAST_PACKET = 8 << 20  # bytes: a body of 1 MB travels as hexadecimal digits, several to a statement
LEAST = {"MariaDB": (10, 6, 0), "MySQL": (8, 0, 1)}


def inspect(op: ops.Inspect, now: int) -> Plan[list[ops.Finding]]:
    """One finding for each promise that rests on the server's settings."""
    version = text((yield Statement("inspect.version"))[0][0])
    settings = {text(name): text(value).upper() for name, value in (yield Statement("inspect.settings"))}
    isolation = [text(value) for _, value in (yield Statement("inspect.isolation"))]
    engines = [text(name) for (name,) in (yield Statement("inspect.engines"))]
    findings = [
        _version(version),
        _durability(settings),
        _torn_pages(settings),
        _binlog(settings),
        _isolation(isolation),
        _engines(engines),
    ]
    findings += _writable(settings)
    findings += _packets(settings)
    findings += yield from _transactions()
    return findings


def _version(version: str) -> ops.Finding:
    kind = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    # some MariaDB servers put a number before their own, for old replicas
    numbers = [int(part) for part in re.findall(r"\d+", version.removeprefix("5.5.5-"))[:3]]
    least = LEAST[kind]
    name = f"{kind} {'.'.join(map(str, numbers))}"
    if tuple(numbers) >= least:
        return ops.Finding("ok", "version", f"{name} has SKIP LOCKED")
    needed = ".".join(map(str, least))
    return ops.Finding("error", "version", f"{name} has no SKIP LOCKED", f"use {kind} {needed} or newer")


def _durability(settings: Mapping[str, str]) -> ops.Finding:
    flush = settings.get("innodb_flush_log_at_trx_commit", "1")
    if flush != "1":
        lost = "the operating system or the machine" if flush == "2" else "the server"
        text = f"innodb_flush_log_at_trx_commit is {flush}: when {lost} crashes, the last second may be lost"
        return ops.Finding("warning", "durability", text, "set it to 1")
    if settings.get("log_bin") in {"ON", "1"} and settings.get("sync_binlog", "1") != "1":
        text = f"sync_binlog is {settings['sync_binlog']}: after a crash a replica may not have what was acknowledged"
        return ops.Finding("warning", "durability", text, "set it to 1")
    return ops.Finding("ok", "durability", "each commit is on disk before it is acknowledged")


def _torn_pages(settings: Mapping[str, str]) -> ops.Finding:
    if settings.get("innodb_doublewrite", "ON") in {"OFF", "0"}:
        text = "innodb_doublewrite is off: a power cut may leave half a page, which nothing repairs"
        return ops.Finding("warning", "torn pages", text, "switch it on, unless the file system writes whole pages")
    return ops.Finding("ok", "torn pages", "innodb_doublewrite is on")


def _binlog(settings: Mapping[str, str]) -> ops.Finding:
    if settings.get("log_bin") in {"ON", "1"} and settings.get("binlog_format") == "STATEMENT":
        text = "binlog_format is STATEMENT: SKIP LOCKED is unsafe there, and READ COMMITTED is refused"
        return ops.Finding("error", "replication", text, "set binlog_format to ROW or MIXED")
    return ops.Finding("ok", "replication", "the binary log, where there is one, carries rows")


def _isolation(values: list[str]) -> ops.Finding:
    if values and values[0].upper() != "READ-COMMITTED":
        text = f"our own connections run at {values[0]}: claims will lock gaps and hold up producers"
        return ops.Finding("warning", "isolation", text, "let nothing between here and the server change it")
    return ops.Finding("ok", "isolation", "our own connections run at READ COMMITTED")


def _engines(others: list[str]) -> ops.Finding:
    if others:
        text = f"not on InnoDB: {', '.join(others)}; they have neither transactions nor row locks"
        return ops.Finding("error", "engine", text, "alter table ... engine = InnoDB, with all workers stopped")
    return ops.Finding("ok", "engine", "all tables are InnoDB")


def _writable(settings: Mapping[str, str]) -> list[ops.Finding]:
    if settings.get("read_only", "OFF") in {"OFF", "0"}:
        return []
    fix = "name the primary in the URL"
    return [ops.Finding("error", "read only", "the server is read only: most likely it is a replica", fix)]


def _packets(settings: Mapping[str, str]) -> list[ops.Finding]:
    size = int(settings.get("max_allowed_packet", LEAST_PACKET))
    if size >= LEAST_PACKET:
        return []
    text = f"max_allowed_packet is {size >> 20} MB: large jobs cannot be stored"
    return [ops.Finding("warning", "packets", text, "set it to 16M")]


def _transactions() -> Plan[list[ops.Finding]]:
    try:
        age = (yield Statement("inspect.oldest"))[0][0] or 0
    except StoreMisconfigured:
        text = "old transactions cannot be looked for without the privilege PROCESS"
        return [ops.Finding("info", "transactions", text)]
    if age < LONG_TRANSACTION_S:
        return [ops.Finding("ok", "transactions", "none is open for long")]
    text = f"one has been open for {age} s: what was deleted since cannot be cleared away, and claims get slower"
    return [ops.Finding("warning", "transactions", text, "end it: information_schema.innodb_trx names its thread")]
