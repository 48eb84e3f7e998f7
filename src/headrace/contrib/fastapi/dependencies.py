"""What path functions ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from starlette.requests import HTTPConnection

from headrace.app import Headrace
from headrace.contrib.fastapi.lifespan import STATE
from headrace.errors import ConfigError


def transaction(begin: Callable[[], AbstractAsyncContextManager[Any] | AbstractContextManager[Any]]) -> Any:
    """A dependency: what `begin()` yields, in a transaction that is committed before the answer is sent.

        SessionDep = Annotated[AsyncSession, transaction(async_sessionmaker(engine).begin)]

    An exception that leaves the path function, `HTTPException` too, rolls back; a commit that fails is an error 500,
    and no client is told that its order stands when it does not. A plain dependency with `yield` commits only after the
    answer has been sent (FastAPI 0.118 and later).

    Args:
        begin: returns a context manager that commits at its end and rolls back when an exception leaves it:
            `sessionmaker(engine).begin`, `async_sessionmaker(engine).begin`, `engine.begin`, the `connection` of a pool
            of psycopg. A synchronous one is entered and left in a thread.

    Returns:
        What `Depends` returns, for `Annotated`; its `dependency` is the key for `dependency_overrides`.

    Raises:
        ConfigError: `begin` returns a session or connection that commits nothing at its end; in a request if only that
            tells.
    """
    from fastapi import Depends  # noqa: PLC0415 - the rest of this package works with Starlette alone
    from fastapi.concurrency import contextmanager_in_threadpool  # noqa: PLC0415

    _refuse_uncommitted(begin)

    async def in_transaction() -> AsyncIterator[Any]:
        context = begin()
        _refuse_uncommitted(context)
        if isinstance(context, AbstractContextManager) and not isinstance(context, AbstractAsyncContextManager):
            context = contextmanager_in_threadpool(context)
        async with context as held:
            yield held

    return Depends(in_transaction, scope="function")


def _refuse_uncommitted(thing: object) -> None:
    """A maker of sessions, a session or a connection: what has yet to begin a transaction rolls back at its end."""
    if hasattr(thing, "begin"):
        raise ConfigError(
            f"transaction() was given a {type(thing).__name__}, at whose end nothing is committed: hand over a "
            "`begin`, as in transaction(sessionmaker(engine).begin)"
        )


async def get_headrace(connection: HTTPConnection) -> Headrace:
    """The app of `lifespan`, for requests and web sockets: `Annotated[Headrace, Depends(get_headrace)]`.

    Raises:
        ConfigError: the lifespan does not run.
    """
    app = getattr(connection.state, STATE, None)
    if not isinstance(app, Headrace):
        raise ConfigError(
            "this web app does not run headrace's lifespan: make it with FastAPI(lifespan=lifespan(app)), do not start "
            'the server with lifespan="off", and in tests write `with TestClient(web) as client:`'
        )
    return app
