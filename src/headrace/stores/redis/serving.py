"""The server itself: what it must be to keep jobs, and what its settings promise."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core import operations as ops
from headrace.errors import StoreError, StoreMisconfigured, StoreUnavailable
from headrace.stores.plan import Call, Plan
from headrace.stores.redis.common import Common
from headrace.stores.redis.keys import scripts

OLDEST = (6, 2)


def prepare(store: Common, op: ops.Prepare) -> Plan[None]:
    """Refuse a server that would lose jobs, and load the scripts into one not met before."""
    info = parse_info((yield Call("INFO")))
    _refuse_old(info)
    _refuse_replica(info, met_before=store.server is not None)
    _refuse_eviction(info, allowed=store.allow_eviction)
    if info.get("run_id") == store.server:
        return
    store.registered.clear()
    for text in scripts().values():  # loaded ones are never evicted, those that came by EVAL are
        yield Call("SCRIPT", args=("LOAD", text))
    store.server = info.get("run_id")


def parse_info(text: bytes) -> dict[str, str]:
    """The answer to INFO as a dictionary."""
    lines = text.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def _refuse_old(info: Mapping[str, str]) -> None:
    # Valkey says redis_version 7.2.4 for the sake of its clients.
    version = info.get("redis_version", "0")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST:
        raise StoreMisconfigured(f"the server is Redis {version}: use Redis 6.2 or newer, or Valkey")


def _refuse_replica(info: Mapping[str, str], *, met_before: bool) -> None:
    if info.get("role") == "slave":
        text = "the server is a replica and takes no writes: use the address of the primary"
        raise StoreUnavailable(text) if met_before else StoreMisconfigured(text)


def _refuse_eviction(info: Mapping[str, str], *, allowed: bool) -> None:
    """B036: a server that may evict keys throws jobs away silently once it is full."""
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not allowed:
        raise StoreMisconfigured(
            f"maxmemory-policy is {policy}: a full server would throw jobs away. "
            "Set `maxmemory-policy noeviction` (CONFIG SET maxmemory-policy noeviction, and in the server's file), "
            "or add ?allow_eviction=1 to the URL if jobs may be lost"
        )


def inspect(store: Common, op: ops.Inspect) -> Plan[list[ops.Finding]]:
    """What the settings promise. CONFIG is often blocked: what it would tell is then left open."""
    info = parse_info((yield Call("INFO")))
    settings: dict[str, str] = {}
    for name in ("appendfsync", "save"):
        settings |= yield from _config(name)
    name = info.get("server_name", "redis")
    version = info.get("valkey_version") or info.get("redis_version", "?")
    return [
        ops.Finding("ok", "server", f"{name} {version}, role {info.get('role', '?')}"),
        _durability(info, settings),
        _eviction(info),
        _replication(info),
    ]


def _config(name: str) -> Plan[dict[str, str]]:
    try:
        flat = yield Call("CONFIG", args=("GET", name))
    except StoreUnavailable:
        raise
    except StoreError:
        return {}
    return {flat[at].decode(): flat[at + 1].decode() for at in range(0, len(flat), 2)}


def _durability(info: Mapping[str, str], settings: Mapping[str, str]) -> ops.Finding:
    if info.get("aof_enabled") == "1":
        sync = settings.get("appendfsync", "unknown, for CONFIG is not allowed")
        if sync == "always":
            return ops.Finding("ok", "durability", "append-only file, written to disk before every answer")
        text = f"append-only file, appendfsync {sync}: about one second of acknowledged jobs may be lost in a crash"
        return ops.Finding("info", "durability", text, "appendfsync always")
    if settings.get("save"):
        text = f"snapshots only (save {settings['save']}): whatever came after the last one is lost in a crash"
        return ops.Finding("warning", "durability", text, "appendonly yes")
    if "save" not in settings:
        text = "no append-only file, and whether there are snapshots is not told: jobs may be lost in a crash"
        return ops.Finding("warning", "durability", text, "appendonly yes")
    return ops.Finding(
        "warning", "durability", "nothing is written to disk: all jobs end with the server", "appendonly yes"
    )


def _eviction(info: Mapping[str, str]) -> ops.Finding:
    policy, evicted = info.get("maxmemory_policy", "?"), int(info.get("evicted_keys", "0"))
    limit = info.get("maxmemory_human", "0B")
    if evicted:
        text = f"{evicted} keys were evicted since the server started: jobs are lost"
        return ops.Finding("error", "eviction", text, "maxmemory-policy noeviction")
    if policy != "noeviction":
        text = f"maxmemory-policy {policy}: a full server throws jobs away"
        return ops.Finding("error", "eviction", text, "maxmemory-policy noeviction")
    room = "no memory limit" if info.get("maxmemory") == "0" else f"memory limit {limit}"
    return ops.Finding("ok", "eviction", f"noeviction, {room}, nothing evicted")


def _replication(info: Mapping[str, str]) -> ops.Finding:
    count = int(info.get("connected_slaves", "0"))
    if not count:
        return ops.Finding("info", "replication", "no replica")
    return ops.Finding(
        "info", "replication", f"{count} replicas; they lag behind, so a failover may lose the newest jobs"
    )
