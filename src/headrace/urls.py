"""A URL becomes a store and a driver: the only file that knows concrete stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from headrace.config import Config
from headrace.core.ports import Driver
from headrace.errors import ConfigError


def safe_url(url: str) -> str:
    """`url` without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}").geturl()


def checked_url(url: str) -> str:
    """`url`, so that it names the same store from now on: a relative path counts from the directory we are in."""
    if not isinstance(url, str):
        return url  # the settings say what is wrong with it
    scheme, separator, _ = url.partition("://")
    if scheme.partition("+")[0] in _DRIVERS and "+" in scheme:
        plain, _, library = scheme.partition("+")
        raise ConfigError(f"url is {safe_url(url)!r}: write {plain}:// without +{library}")
    if not separator or scheme not in _DRIVERS:
        raise ConfigError(
            f"url is {safe_url(url)!r}: it must begin with one of {', '.join(f'{name}://' for name in _DRIVERS)}"
        )
    return _DRIVERS[scheme][0](url)


def make_driver(config: Config) -> Driver:
    """The store and driver that `config.url` names. Opens nothing yet.

    Raises:
        ConfigError: the extra for it is not installed.
    """
    return _DRIVERS[config.url.partition("://")[0]][1](config)


def sqlite_path(url: str) -> str:
    """The file of a sqlite URL: three slashes and a relative path, or four and an absolute one."""
    path = url.removeprefix("sqlite://")
    if not path.startswith("/") or path == "/":
        raise ConfigError(f"url is {url!r}: write sqlite:///relative.db or sqlite:////absolute/path.db")
    if path == "/:memory:":
        raise ConfigError("url is 'sqlite:///:memory:', which every thread would see empty: use memory://")
    if "?" in path or "#" in path:
        raise ConfigError(
            f"url is {url!r}: a SQLite URL has no options, and the file's name no '?' and no '#'; busy_timeout is an "
            "argument of Headrace"
        )
    return path[1:]


def _absolute_sqlite(url: str) -> str:
    return f"sqlite:///{Path(sqlite_path(url)).absolute()}"


def _checked_redis(url: str) -> str:
    """Read it now: an unknown option or a port that is none should not wait for the first job to be told."""
    _need_hiredis()
    from headrace.drivers.redis.address import parse

    parse(url)
    return url


def _checked_memory(url: str) -> str:
    if url != "memory://":
        raise ConfigError(f"url is {url!r}: memory:// stands alone, it has no path and no options")
    return url


def _checked_postgres(url: str) -> str:
    _need_psycopg()
    from headrace.drivers.postgres.address import parse

    parse(url)
    return url


def _need_psycopg() -> None:
    try:
        import psycopg  # noqa: F401 - to tell a missing library, or one without libpq, from an error in ours
    except ImportError as error:
        raise ConfigError(
            f"the client library for PostgreSQL is missing ({error}): pip install headrace[postgres]"
        ) from None


def _checked_mysql(url: str) -> str:
    _need_pymysql()
    from headrace.drivers.mysql.address import parse

    parse(url)
    return url


def _need_pymysql() -> None:
    try:
        import asyncmy  # noqa: F401
        import pymysql  # type: ignore[import-untyped] # noqa: F401 - to tell a missing library from an error in ours
    except ImportError as error:
        raise ConfigError(
            f"the client libraries for MySQL and MariaDB are missing ({error}): pip install headrace[mysql]"
        ) from None


def _need_hiredis() -> None:
    try:
        import hiredis  # noqa: F401 - to tell a missing library from an error in ours
    except ImportError:
        raise ConfigError("the protocol library for Redis is missing: pip install headrace[redis]") from None


def _sqlite(config: Config) -> Driver:
    from headrace.drivers.sqlite import SQLiteDriver
    from headrace.stores.sqlite import SQLiteStore

    store = SQLiteStore(prefix=f"{config.name}_")
    return SQLiteDriver(sqlite_path(config.url), store, busy_timeout=config.busy_timeout_s)


def _redis(config: Config) -> Driver:
    _need_hiredis()
    from headrace.drivers.redis import RedisDriver
    from headrace.drivers.redis.address import parse
    from headrace.stores.redis import RedisStore

    store = RedisStore(name=config.name, allow_eviction=parse(config.url).allow_eviction)
    return RedisDriver(config.url, store)


def _postgres(config: Config) -> Driver:
    _need_psycopg()
    from headrace.drivers.postgres import PostgresDriver
    from headrace.stores.postgres import PostgresStore

    return PostgresDriver(config.url, PostgresStore(prefix=f"{config.name}_"))


def _mysql(config: Config) -> Driver:
    _need_pymysql()
    from headrace.drivers.mysql import MySQLDriver
    from headrace.stores.mysql import MySQLStore

    return MySQLDriver(config.url, MySQLStore(prefix=f"{config.name}_"))


def _memory(config: Config) -> Driver:
    from headrace.drivers.memory import MemoryDriver
    from headrace.stores.memory import MemoryStore

    return MemoryDriver(MemoryStore())


_DRIVERS: dict[str, tuple[Callable[[str], str], Callable[[Config], Driver]]] = {
    "sqlite": (_absolute_sqlite, _sqlite),
    "redis": (_checked_redis, _redis),
    "rediss": (_checked_redis, _redis),
    "unix": (_checked_redis, _redis),
    "postgresql": (_checked_postgres, _postgres),
    "postgres": (_checked_postgres, _postgres),
    "mysql": (_checked_mysql, _mysql),
    "mariadb": (_checked_mysql, _mysql),
    "memory": (_checked_memory, _memory),
}
