"""A task: a function and its policies. Calling it runs the function here; `enqueue` has a worker run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

import msgspec

from headrace.calls import Job, Sending, note_stored, split
from headrace.core.arguments import Arguments
from headrace.core.codec import Envelope, Template
from headrace.core.moments import Moment, When, moment
from headrace.core.once import Once
from headrace.core.operations import NewJob
from headrace.core.poll import Polling
from headrace.core.retry import Retry
from headrace.core.unique import Unique
from headrace.errors import ConfigError, HeadraceError
from headrace.options import (
    RunIn,
    checked_headers,
    checked_id,
    checked_limits,
    checked_priority,
    checked_queue,
    checked_texts,
    checked_unique,
    duration_us,
    in_words,
    timeout_us,
)
from headrace.sending import Producer, refuse_in_loop

P = ParamSpec("P")
R = TypeVar("R", covariant=True)  # noqa: PLC0105 - the established short name for a return type
HP = ParamSpec("HP")
HR = TypeVar("HR")

Encoded = tuple[bytes, str | None, str | None]
"""A call's arguments, its unique key and its once key."""

CHUNK = 1_000  # jobs of one operation of enqueue_many
PIECE = 50  # jobs that are made without letting the loop do anything else


_PLAIN = Sending()
_AT_ONCE = _PLAIN.run_after


@dataclass(frozen=True, eq=False, kw_only=True)
class Task(Generic[P, R]):
    """Made by `@app.task`. Frozen: `using` returns changed copies."""

    name: str
    function: Callable[P, R] = field(repr=False)
    is_async: bool
    arguments: Arguments = field(repr=False)
    producer: Producer = field(repr=False)
    aliases: tuple[str, ...] = ()
    queue: str = "default"
    priority: int = 0
    retry: Retry
    timeout_s: float | None = None
    expires: Moment | None = None
    deadline: Moment | None = None
    unique: Unique | None = None
    once: Once | None = None
    keep_us: int = 0
    log: tuple[str, ...] = ()
    poll: Polling | None = None
    circuit: str | None = None
    run_in: RunIn | None = None
    hold_after: int | Literal["app"] | None = "app"
    sending: Sending = _PLAIN

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now, as if it were not a task."""
        return self.function(*args, **kwargs)

    @property
    def handler(self) -> Callable[..., Any]:
        """What a worker runs."""
        return self.function

    @property
    def __wrapped__(self) -> Callable[P, R]:
        """For `inspect.signature` and documentation tools."""
        return self.function

    @overload
    def on_failed(self, function: Callable[HP, HR], /) -> Task[HP, HR]: ...

    @overload
    def on_failed(self, /, **options: Any) -> Callable[[Callable[HP, HR]], Task[HP, HR]]: ...

    def on_failed(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """`@t.on_failed` or `@t.on_failed(retry=..., ...)`: a task that runs when a job of this one has failed.

        It is enqueued in the same atomic step, into the same queue, whatever the reason; again when a replay fails.
        It takes a `Failure`, and those of the job's arguments that it names. Options are name, aliases, priority,
        retry, timeout, keep and log, as of `@app.task`.

        Raises:
            ConfigError: there is one already, this task is a hook itself, or an option is out of range.
            TaskError: it takes an argument that the task does not have.
        """
        if function is None:
            return lambda decorated: self.producer.hook_failed(self, decorated, options)
        return self.producer.hook_failed(self, function, options)

    @in_words("using")
    def using(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        run_after: When | None = None,
        expires: When | None = None,
        deadline: When | None = None,
        timeout: When | None = None,
        unique: Unique | str | Callable[..., str] | None = None,
        id: str | None = None,
        tenant: str | None = None,
        tags: Iterable[str] | None = None,
        headers: Mapping[str, str] | None = None,
        transaction: Any = None,
        after_commit: bool | None = None,
    ) -> Task[P, R]:
        """A copy whose jobs have these options; what is None stays as it is.

        Durations are seconds, timedeltas or texts like "5m", and are added on the store's clock; moments are aware
        datetimes. `run_after`: not before. `expires`: expired if not started by then. `deadline`: no run starts
        after. `timeout`: of one run. `id`: of one job; enqueueing the same id again within 24 h after its end
        answers "exists". On Redis an id counts within its queue, on other stores over all queues: use no id twice.
        `transaction`: a SQLAlchemy session or connection, a connection of sqlite3, psycopg, PyMySQL or asyncmy, or the
        alias of a database of Django. The job is stored in the transaction that it is in, and commits or rolls back
        with it; see docs/transactions.md.
        `after_commit`: nothing is stored in the transaction; the job is enqueued once it has been committed, and lost
        if the process dies between the two. For sessions of SQLAlchemy and aliases of Django.

        Raises:
            ConfigError: a value is out of range or of the wrong kind, or contradicts another.
        """
        if queue is not None and queue != self.queue and self.once is not None:
            raise ConfigError(
                f"queue is {queue!r}: {self.name} has once=, whose jobs stay in one queue: {self.queue!r}"
            )
        given = {
            "id": None if id is None else checked_id(id),
            "run_after": None if run_after is None else moment(run_after, "run_after"),
            "timeout_us": None if timeout is None else timeout_us(timeout),
            "tenant": None if tenant is None else checked_texts("tenant", (tenant,))[0],
            "tags": None if tags is None else checked_texts("tags", tags),
            "headers": None if headers is None else checked_headers(headers),
            "transaction": transaction,
            "after_commit": after_commit,
        }
        start, end = checked_limits(expires, deadline)
        changes: dict[str, Any] = {
            "queue": None if queue is None else checked_queue(queue),
            "priority": None if priority is None else checked_priority(priority),
            "expires": start,
            "deadline": end,
            "unique": checked_unique(unique, self.arguments),
            "sending": msgspec.structs.replace(
                self.sending, **{name: value for name, value in given.items() if value is not None}
            ),
        }
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Store one job and return once the store has it.

        Raises:
            InvalidArguments: the arguments do not fit the function's annotations.
            PayloadTooLarge: more than 1 MB.
            ConfigError: `run_after` is not before `expires` or `deadline`, so that the job could never run.
            StoreUnavailable: the store did not answer for `resend` seconds; enqueueing again may make a second job,
                unless it has an `id` or a unique key.
            WrongColour: called inside a running event loop.
        """
        refuse_in_loop("enqueue", "aenqueue")
        job = self._new_job(args, kwargs)
        return self._send((job,))[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """The same, awaited. Coroutines that enqueue at the same time share a round trip."""
        job = self._new_job(args, kwargs)
        if self.sending.transaction is not None or self.sending.after_commit:
            return (await self._asend((job,)))[0]
        answer = await self.producer.asend_one(job)
        return Job(answer.id, answer.status)

    def enqueue_many(
        self, calls: Iterable[Mapping[str, Any] | tuple[Any, ...]], *, spread_over: When | None = None
    ) -> list[Job]:
        """Store many jobs, in chunks of 1,000 that are stored whole or not at all.

        `calls` are mappings of argument names or tuples of positional arguments, and are read as they are sent.
        `spread_over` spreads their due times evenly over that duration.

        Raises:
            As `enqueue`; the message names the call, counted from 0. A note on the error says how many jobs have been
                stored before.
        """
        refuse_in_loop("enqueue_many", "aenqueue_many")
        jobs: list[Job] = []
        try:
            for chunk in self._chunks(calls, spread_over):
                jobs += self._send(chunk)
        except Exception as error:
            note_stored(error, jobs)
            raise
        return jobs

    async def aenqueue_many(
        self, calls: Iterable[Mapping[str, Any] | tuple[Any, ...]], *, spread_over: When | None = None
    ) -> list[Job]:
        """The same, awaited. While one chunk is on its way to the store, the next one is read and made ready."""
        from headrace.coalesce import send_ahead  # noqa: PLC0415 - a caller without a loop need not load asyncio

        jobs: list[Job] = []
        try:
            if self.sending.transaction is None:
                await send_ahead(self._chunks(calls, spread_over, PIECE), self._asend, jobs)
            else:
                for chunk in self._chunks(calls, spread_over):
                    jobs += await self._asend(chunk)
        except Exception as error:
            note_stored(error, jobs)
            raise
        return jobs

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call:
        """A checked call to be enqueued later, for those who keep it first, such as in a transaction of their own.

        `app.send((call.job(id),))` stores it; with the same id it may be sent again.

        Raises:
            InvalidArguments, PayloadTooLarge: as `enqueue`.
        """
        return Call(self, self._encode(args, kwargs))

    def _send(self, jobs: Sequence[NewJob]) -> list[Job]:
        transaction = self._transaction()
        if self.sending.after_commit:
            self.producer.send_after(transaction, jobs)
            return [Job(job.id, pending=True) for job in jobs]
        if transaction is None:
            return [Job(answer.id, answer.status) for answer in self.producer.send(jobs)]
        answers, pending = self.producer.send_in(transaction, jobs)
        return [Job(answer.id, answer.status, pending) for answer in answers]

    async def _asend(self, jobs: Sequence[NewJob]) -> list[Job]:
        transaction = self._transaction()
        if self.sending.after_commit:
            self.producer.asend_after(transaction, jobs)
            return [Job(job.id, pending=True) for job in jobs]
        if transaction is None:
            return [Job(answer.id, answer.status) for answer in await self.producer.asend(jobs)]
        answers, pending = await self.producer.asend_in(transaction, jobs)
        return [Job(answer.id, answer.status, pending) for answer in answers]

    def _transaction(self) -> Any:
        if self.sending.after_commit and self.sending.transaction is None:
            raise ConfigError("after_commit=True waits for a commit: name the transaction too, using(transaction=...)")
        return self.sending.transaction

    # -- making jobs

    @cached_property
    def _template(self) -> Template:
        sending, expires, deadline, unique = (
            self.sending,
            self.expires or Moment(),
            self.deadline or Moment(),
            self.unique,
        )
        return Template(
            Envelope(
                id="",
                task=self.name,
                args=msgspec.Raw(b"{}"),
                queue=self.queue,
                priority=self.priority,
                headers=dict(sending.headers),
                tags=sending.tags,
                tenant=sending.tenant,
                expires_in_us=expires.in_us,
                expires_at_us=expires.at_us,
                deadline_in_us=deadline.in_us,
                deadline_at_us=deadline.at_us,
                timeout_us=sending.timeout_us,
                code_version=self.producer.code_version,
                unique_until=unique.until if unique else None,
                unique_us=unique.lifetime_us if unique else None,
            )
        )

    def _encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Encoded:
        if self.unique is None and self.once is None:
            return self.arguments.encode(args, kwargs), None, None
        named = self.arguments.bind(args, kwargs)
        raw = self.arguments.encode((), named)
        whole = {**self.arguments.defaults, **named}
        unique = None if self.unique is None else self.unique.render(whole)
        return raw, unique, None if self.once is None else self.once.render(whole)

    def _new_job(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NewJob:
        return self._job(self.sending.id or self.producer.new_id(), self._encode(args, kwargs))

    def _job(self, id: str, encoded: Encoded, later_us: int = 0) -> NewJob:
        raw, key, once = encoded
        after, unique = self.sending.run_after, self.unique
        if self.expires or self.deadline:
            self._refuse_late(later_us)
        body = self._template.body(id, raw, key, once)
        if key is None and after.at_us is None:
            return NewJob(
                id,
                self.queue,
                self.name,
                body,
                self.priority,
                (after.in_us or 0) + later_us,
                derived=self.sending.id is not None,
            )
        return NewJob(
            id,
            self.queue,
            self.name,
            body,
            self.priority,
            delay_us=(after.in_us or 0) + later_us,
            due_us=None if after.at_us is None else after.at_us + later_us,
            unique=key,
            unique_until=unique.until if unique else "end",
            unique_us=unique.lifetime_us if unique else 0,
            derived=self.sending.id is not None,
        )

    def _refuse_late(self, later_us: int) -> None:
        """A job that may start only once its time is over is a mistake, and would vanish without a run."""
        due = self.sending.run_after.later(later_us)
        if due == _AT_ONCE:
            return
        for name, end in (("expires", self.expires), ("deadline", self.deadline)):
            if end is not None and not due.is_before(end, self.producer.clock.unix_us):
                raise ConfigError(
                    f"run_after is {due} and {name} is {end}, so the job could never run: make run_after shorter, or "
                    f"{name} longer"
                )

    def _chunks(
        self, calls: Iterable[Mapping[str, Any] | tuple[Any, ...]], spread_over: When | None, size: int = CHUNK
    ) -> Iterator[list[NewJob]]:
        if self.sending.id is not None:
            raise ConfigError(
                f"id is {self.sending.id!r}, and one id cannot stand for many jobs: use enqueue() for each"
            )
        step_us = 0.0
        if spread_over is not None:
            calls = list(calls)
            step_us = duration_us("spread_over", spread_over) / max(1, len(calls))
        place = 0
        rest = iter(calls)
        while chunk := list(islice(rest, size)):
            jobs: list[NewJob] = []
            try:
                for id, arguments in zip(self.producer.new_ids(len(chunk)), chunk, strict=True):
                    args, kwargs = split(arguments)
                    jobs.append(self._job(id, self._encode(args, kwargs), int(step_us * (place + len(jobs)))))
            except HeadraceError as error:
                raise type(error)(f"call {place + len(jobs)} of enqueue_many: {error}") from error
            yield jobs
            place += len(jobs)


class Call(msgspec.Struct, frozen=True):
    """A checked call of a task: a job but for its id."""

    task: Task[..., Any]
    encoded: Encoded

    def job(self, id: str) -> NewJob:
        """The job, ready for the store."""
        return self.task._job(id, self.encoded)  # noqa: SLF001 - the other half of Task.call
