"""Tasks that ask an upstream again and again until its answer is final, and the jobs that their ends set off."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from headrace.core import values
from headrace.core.arguments import Arguments
from headrace.core.backoff import Backoff
from headrace.core.codec import Envelope
from headrace.core.durations import Duration
from headrace.core.moments import Moment
from headrace.core.operations import ClaimedJob, NewJob
from headrace.core.poll import Polling, check_retry, default_retry, end_id, polling
from headrace.core.retry import Retry
from headrace.core.unique import Unique
from headrace.definition import define
from headrace.errors import ConfigError, InvalidArguments, TaskError
from headrace.following import Hook, check_names, check_options, told_defaults
from headrace.options import Named, in_words
from headrace.sending import Producer
from headrace.task import Encoded, Task

P = ParamSpec("P")
R = TypeVar("R", covariant=True)  # noqa: PLC0105 - the established short name for a return type
HP = ParamSpec("HP")
HR = TypeVar("HR")
Check = TypeVar("Check", bound=Callable[..., Any])

RESULT = "result"  # the parameter of `on_final` that takes the final value


class PollHook(Hook, frozen=True):
    """A task that runs at the end of a poll."""

    result: Arguments | None = None  # checks the final value

    def job(self, poll: ClaimedJob, envelope: Envelope, value: object = None) -> NewJob:
        """The job that is enqueued with the end of `poll`, whose arguments, headers, tags and tenant it takes over.

        Raises:
            InvalidArguments: the final value does not fit the hook's `result`.
            PayloadTooLarge: with the final value the job has more than 1 MB.
        """
        args = self.chosen(envelope)
        if self.result is not None:
            args |= values.decode_raw_object(self.result.encode((), {RESULT: value}))
        job = self.follower(end_id(poll.id, poll.base_us), poll, envelope, args)
        return job if self.result is None else self.checked(job)  # else it is hardly larger than the poll's own


class Hooks:
    """What goes with a poll. One for all the copies of its task that `using` makes."""

    __slots__ = ("check", "enter", "final", "timeout")

    def __init__(self, enter: Callable[[Task[..., Any]], Task[..., Any]]) -> None:
        """`enter` puts a task into the app."""
        self.enter = enter
        self.check: tuple[Callable[..., Any], tuple[str, ...] | None] | None = None
        self.final: PollHook | None = None
        self.timeout: PollHook | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class PollTask(Task[P, R]):
    """Made by `@app.poll`: a task whose function asks an upstream once, and answers `Pending()` or a final value."""

    poll: Polling
    hooks: Hooks = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse what would let two polls of one key run side by side.

        Raises:
            ConfigError: the unique key is free from the first query on.
        """
        if self.unique is not None and self.unique.until != "end":
            raise ConfigError("unique: until is 'start': a poll needs its key until it has ended, so leave until= out")

    @property
    def handler(self) -> Callable[..., Any]:
        """What a worker runs: the query, after `pre_check`."""
        if self.hooks.check is None:
            return self.function
        check, names = self.hooks.check
        query: Callable[..., Any] = self.function

        def chosen(arguments: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in arguments.items() if names is None or name in names}

        def run(**arguments: Any) -> Any:
            found = check(**chosen(arguments))
            return query(**arguments) if found is None else found

        async def in_thread(arguments: dict[str, Any]) -> Any:
            from asyncio import to_thread  # noqa: PLC0415 - whoever only enqueues need not load it

            return await to_thread(check, **arguments)

        async def arun(**arguments: Any) -> Any:
            if inspect.iscoroutinefunction(check):
                found = await check(**chosen(arguments))
            else:  # it may well ask a database: the loop is not its to block
                found = await in_thread(chosen(arguments))
            return await query(**arguments) if found is None else found

        return arun if self.is_async else run

    def follower(self, poll: ClaimedJob, envelope: Envelope, value: object) -> NewJob | None:
        """The job of `on_final`.

        Raises:
            InvalidArguments: `value` is None, which says nothing, or does not fit the `result` of `on_final`.
            PayloadTooLarge: the job would have more than 1 MB.
        """
        if value is None:
            raise InvalidArguments(
                f"{self.arguments.function_name}() returned None: return Pending() while the answer is not final, and "
                "then a value, such as True"
            )
        hook = self.hooks.final
        return None if hook is None else hook.job(poll, envelope, value)

    def follower_in_vain(self, poll: ClaimedJob, envelope: Envelope) -> NewJob | None:
        """The job of `on_timeout`."""
        hook = self.hooks.timeout
        return None if hook is None else hook.job(poll, envelope)

    # -- what goes with it

    def pre_check(self, function: Check) -> Check:
        """`@t.pre_check`: called before each query, with those of the poll's arguments that it names.

        It returns None to go on. Anything else is the final value, and the upstream is not asked; a verdict counts as
        one of the query's, such as `Cancel("paid by webhook")`, which ends the poll without `on_final`. A plain
        function before an async query runs in a thread.

        Raises:
            ConfigError: there is one already, or an async one stands before a plain query.
            TaskError: it takes an argument that the poll does not have.
        """
        if self.hooks.check is not None:
            raise ConfigError(f"{self.name} has a pre_check already: put both into one function")
        if inspect.iscoroutinefunction(function) and not self.is_async:
            raise ConfigError(
                f"{function.__qualname__}() is async and {self.arguments.function_name}() is not: make them the same"
            )
        arguments = Arguments.of(function)
        check_names("pre_check", arguments, self.arguments, (), "poll")
        self.hooks.check = (function, None if arguments.takes_more else arguments.names)
        return function

    @overload
    def on_final(self, function: Callable[HP, HR], /) -> Task[HP, HR]: ...

    @overload
    def on_final(self, /, **options: Any) -> Callable[[Callable[HP, HR]], Task[HP, HR]]: ...

    def on_final(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """`@t.on_final` or `@t.on_final(retry=..., ...)`: a task that runs once the answer is final.

        It is enqueued in the same atomic step that ends the poll, into the queue of the poll, and takes those of the
        poll's arguments that it names, and the final value if it names `result`.

        Args:
            function: a plain or an async function.
            options: name, aliases, priority, retry, timeout, keep and log, as of `@app.task`.

        Raises:
            ConfigError: there is one already, or an option is out of range.
            TaskError: it takes an argument that the poll does not have.
        """
        if function is None:
            return lambda decorated: self._on_final(decorated, options)
        return self._on_final(function, options)

    @overload
    def on_timeout(self, function: Callable[HP, HR], /) -> Task[HP, HR]: ...

    @overload
    def on_timeout(self, /, **options: Any) -> Callable[[Callable[HP, HR]], Task[HP, HR]]: ...

    def on_timeout(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """`@t.on_timeout`: the same for a poll that ends without a final answer.

        Raises:
            ConfigError, TaskError: as `on_final`.
        """
        if function is None:
            return lambda decorated: self._on_timeout(decorated, options)
        return self._on_timeout(function, options)

    def _on_final(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
        hook = self._hook("on_final", self.hooks.final, function, options, (RESULT,))
        self.hooks.final = hook
        return hook.task

    def _on_timeout(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
        hook = self._hook("on_timeout", self.hooks.timeout, function, options, ())
        self.hooks.timeout = hook
        return hook.task

    def _hook(
        self,
        what: str,
        before: PollHook | None,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        extra: tuple[str, ...],
    ) -> PollHook:
        if before is not None:
            raise ConfigError(f"{self.name} has an {what} already, {before.task.name}: put both into one function")
        check_options(what, options, "poll")
        task = define(self.producer, function, queue=self.queue, **options)
        arguments = task.arguments
        check_names(what, arguments, self.arguments, extra, "poll")
        result = None
        if RESULT in extra and RESULT in arguments.types:
            type_ = arguments.types[RESULT]
            result = Arguments(arguments.function_name, {RESULT: type_}, {}, inspect.Parameter.empty)
        names = None if arguments.takes_more else frozenset(arguments.names)
        defaults = told_defaults(what, arguments, self.arguments)
        return PollHook(self.hooks.enter(task), names, defaults, result)

    # -- making jobs

    def _job(self, id: str, encoded: Encoded, later_us: int = 0) -> NewJob:
        return super()._job(id, encoded, later_us + self._first_us(later_us))

    def _first_us(self, later_us: int) -> int:
        """How long chance puts off the first query: never so long that the poll's time would be over before it."""
        first_us = self.poll.first_us(self.producer.rng)
        if not first_us or self.deadline is None:
            return first_us
        start_us, end_us = self.sending.run_after.in_us, self.deadline.in_us
        if start_us is None or end_us is None:  # a moment: how far off it is, the store alone knows
            return 0
        return max(0, min(first_us, (end_us - start_us - later_us) // 2))


def define_poll(
    producer: Producer,
    enter: Callable[[Task[..., Any]], Task[..., Any]],
    function: Callable[P, R],
    poll: Polling,
    retry: Retry | int | None,
    **options: Any,
) -> PollTask[P, R]:
    """The poll of `function`; see `Headrace.poll` for the options. `enter` puts a task into the app."""
    task = define(producer, function, retry=default_retry(poll) if retry is None else retry, **options)
    check_retry(poll, task.retry)
    if RESULT in task.arguments.types:
        raise TaskError(
            f"{task.arguments.function_name}() takes {RESULT!r}, which is what on_final gets: give it another name"
        )
    given = {one.name: getattr(task, one.name) for one in fields(task)} | {"poll": poll, "hooks": Hooks(enter)}
    if poll.give_up_us is not None:
        given["deadline"] = Moment(in_us=poll.give_up_us)
    return PollTask(**given)


class PollApp:
    """Mixed into the app, whose tasks it adds to."""

    if TYPE_CHECKING:

        def _register(self, task: Task[..., Any]) -> Task[..., Any]: ...

    @in_words("@app.poll")
    def poll(
        self,
        /,
        *,
        every: str | Backoff,
        give_up_after: Duration | None = None,
        max_polls: int | None = None,
        jitter: float | None = None,
        name: str | None = None,
        aliases: Iterable[str] = (),
        queue: str = "default",
        priority: int = 0,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        unique: Unique | str | Callable[..., str] | None = None,
        keep: Duration | None = None,
        log: Iterable[str] = (),
        circuit: str | Named | None = None,
    ) -> Callable[[Callable[P, R]], PollTask[P, R]]:
        """Make a function a poll: it asks an upstream once and returns `Pending()`, or a value that is final.

        The first query is made at once. Each delay counts from the end of the query before it. `on_final` and
        `on_timeout` of what this makes are jobs of their own. A poll that has its answer, or has timed out, enqueues
        exactly one of them with its end; one that fails or is cancelled enqueues none.

        Args:
            every: delays as a text, "1s x5, 5s x5, 10s x10, 30s", whose last step repeats; `Stepped`, `Listed`, `Fixed`
                or `Exponential`; or "alipay" or "standard-webhooks", whose schedules end after their last delay.
            give_up_after: the poll times out this long after its enqueue. No query starts then or later.
            max_polls: it times out after so many answers that are not final. One of the two must be given, except with
                a schedule that ends.
            jitter: each delay is made shorter or longer by up to this share, 0 to 1, and the first query is put off by
                up to this share of the first delay, so that polls that begin together do not ask together. By default
                0, and 0.1 for "standard-webhooks".
            retry: for errors; attempts count anew after each answer. By default exponential backoff of at most 30 s
                without a limit but `give_up_after`; without that one, 20 attempts and at most 1 h.
            name, aliases, queue, priority, timeout, unique, keep, log, circuit: as of `task`. With `unique` no two
                polls of one key wait or run at the same time; it is free when the poll has ended.

        Raises:
            ConfigError: an option is out of range, or nothing would ever end the poll.
            TaskError: the function's parameters or annotations cannot be sent, or one is named `result`.
        """
        options: dict[str, Any] = {
            "name": name,
            "aliases": aliases,
            "queue": queue,
            "priority": priority,
            "timeout": timeout,
        }
        options |= {"unique": unique, "keep": keep, "log": log, "circuit": circuit}
        policy = polling(every, give_up_after, max_polls, jitter)

        def decorate(function: Callable[P, R]) -> PollTask[P, R]:
            task = define_poll(cast("Producer", self), self._register, function, policy, retry, **options)
            self._register(task)
            return task

        return decorate
