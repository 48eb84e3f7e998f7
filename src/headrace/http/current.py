"""The request with a key that a handler runs for, as the handler sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from headrace.core.once_records import EndOnce
from headrace.core.ports import Driver
from headrace.errors import ConfigError
from headrace.holding import Holding
from headrace.http import answers
from headrace.http.answers import Refused, Stored
from headrace.http.rules import Rules
from headrace.sending import refuse_in_loop
from headrace.transactions import Transactions, alend, lend

# Where the scope of ASGI and WSGI's environ have it; None where a request with a key runs unguarded, in an outage
SCOPE_KEY = "headrace.idempotency"
NAME = "an Idempotency-Key"  # in messages, which do not name it: whoever knows it is handed the answer


class IdempotentRequest:
    """A request whose key nobody else can run with at the moment. Safe from any thread."""

    def __init__(self, rules: Rules, driver: Driver, key: str, holding: Holding) -> None:
        self._rules = rules
        self._driver = driver
        self._key = key
        self._nothing_done = False
        self.holding = holding  # for the middleware

    @property
    def key(self) -> str:
        """The client's. To hand it to another service, join it with your own name for the client."""
        return self._key

    @property
    def fence(self) -> int:
        """Grows with each handler that runs under this key: hand it to what refuses the smaller of two."""
        return self.holding.fence

    def give_back(self) -> None:
        """Say that nothing has been done: whatever the answer is, it is not kept, and a repeat runs the handler."""
        self._nothing_done = True

    def complete(
        self,
        *,
        transaction: Any,
        status: int,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        body: bytes | str = b"",
    ) -> None:
        """Store the answer in a transaction of the handler's own: the two commit together, or neither does.

        `transaction` is what `task.using(transaction=...)` takes, of the database with the app's tables. Commit it
        before the handler returns, and return this very answer. After a rollback the key is given back.

        Raises:
            LeaseLost: another request counts. Let it pass, so that all is rolled back.
            ConfigError: it is no transaction of that database, or the keys are in none; or no server can send it.
            WrongColour: called inside a running event loop.
        """
        refuse_in_loop("complete", "acomplete")
        transactions, loan, end = self._transactions(), lend(transaction), self._end(status, headers, body)
        with self.holding.ending():
            self.holding.check(transactions.run(loan, end))

    async def acomplete(
        self,
        *,
        transaction: Any,
        status: int,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        body: bytes | str = b"",
    ) -> None:
        """The same, awaited."""
        transactions, loan, end = self._transactions(), alend(transaction), self._end(status, headers, body)
        with self.holding.ending():
            self.holding.check(await transactions.arun(loan, end))

    def _transactions(self) -> Transactions:
        transactions = Transactions.on(self._driver)
        if not transactions.in_database:
            raise ConfigError(
                f"the keys are in {self._driver.describe()}, which no transaction of your database reaches: let the "
                "handler return, and the answer is stored after your commit"
            )
        return transactions

    def _end(self, status: int, headers: Mapping[str, str] | Iterable[tuple[str, str]], body: bytes | str) -> EndOnce:
        recording = self._rules.recording()
        recording.start(status, headers.items() if isinstance(headers, Mapping) else headers)
        recording.add(body.encode() if isinstance(body, str) else body)
        recording.complete = True
        stored = recording.stored()
        if not stored.sound:
            raise ConfigError(
                f"no server can send an answer with status {status!r} and these headers: {stored.headers}"
            )
        return self.ended(stored)

    # -- for the middleware

    @property
    def nothing_done(self) -> bool:
        """Whether the handler has said so."""
        return self._nothing_done

    def ended(self, stored: Stored | None) -> EndOnce:
        """The end of the record. Giving it back does nothing where it is done already."""
        return self._rules.end(self.holding, stored)


_current: ContextVar[IdempotentRequest | None] = ContextVar("headrace_request", default=None)


@contextmanager
def entered(request: IdempotentRequest) -> Iterator[None]:
    """Make it the current one of this task or thread."""
    token = _current.set(request)
    try:
        yield
    finally:
        _current.reset(token)


def current_request() -> IdempotentRequest | None:
    """The request with a key that this code runs for; None where there is no key, or no middleware."""
    return _current.get()


def required_request(scope: Mapping[str, Any], header: str | None) -> IdempotentRequest:
    """The request with a key that `scope`, or WSGI's environ, belongs to. `header` is its Idempotency-Key, if any.

    Raises:
        Refused: it has no key, or runs unguarded; holds the answer.
        ConfigError: it has come past the middleware.
    """
    request: IdempotentRequest | None = scope.get(SCOPE_KEY)
    if request is not None:
        return request
    if header is None:
        raise Refused(answers.missing())
    if SCOPE_KEY in scope:
        raise Refused(answers.outage())
    raise ConfigError(
        "a request with an Idempotency-Key has come past the middleware: wrap the web app in IdempotencyMiddleware or "
        "WSGIIdempotencyMiddleware, and name the request's method in its methods="
    )
