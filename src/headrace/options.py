"""Options of tasks and jobs, checked as they are given."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast

from headrace.core import keys
from headrace.core.arguments import Arguments
from headrace.core.moments import Moment, When, limit, moment
from headrace.core.once import Once
from headrace.core.unique import Unique
from headrace.core.wording import near
from headrace.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

RunIn: TypeAlias = Literal["process"]
"""Where a handler runs that neither the worker's event loop nor one of its threads is for."""

_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-/@]{0,199}\Z")
_MOST_CIRCUIT = 190  # parked jobs have it in their reason, of at most 200
# what needs no escaping in JSON and no quoting in a shell
_ID = re.compile(r"[^\s\"'\\\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}\Z")

LEAST_PRIORITY, MOST_PRIORITY = -100, 100


class Named(Protocol):
    """Has the name of a circuit: what `app.circuit` makes."""

    @property
    def name(self) -> str: ...


def checked_circuit(circuit: str | Named, app: object = None) -> str:
    """The name of a circuit, for a task of `app` where one is given.

    Raises:
        ConfigError: as for queues, but for the length; or it is the handle of another app.
    """
    if getattr(circuit, "app", app) is not app:
        raise ConfigError(
            f"circuit is {circuit!r} of another app: make one with app.circuit() of the app that the task belongs to"
        )
    name = circuit if isinstance(circuit, str) else getattr(circuit, "name", None)
    if type(name) is not str or not _QUEUE.match(name) or len(name) > _MOST_CIRCUIT:
        raise ConfigError(
            f"circuit is {circuit!r}: use letters, digits and _ . - / @, at most {_MOST_CIRCUIT} in all, or what "
            "app.circuit() has made"
        )
    return name


def checked_hold_after(number: int | Literal["app"] | None) -> int | Literal["app"] | None:
    """`number`, if so many convictions may have a task held.

    Raises:
        ConfigError: it is none.
    """
    if number is None or number == "app" or (type(number) is int and number >= 1):
        return number
    raise ConfigError(f"hold_after is {number!r}: use a whole number of at least 1, or None for never")


def checked_run_in(place: str) -> RunIn:
    """`place`, if handlers can run there.

    Raises:
        ConfigError: it is none.
    """
    if place != "process":
        raise ConfigError(f'run_in is {place!r}: use "process", or leave it out')
    return "process"


def checked_queue(queue: str) -> str:
    """`queue`, if it may be the name of one.

    Raises:
        ConfigError: it holds other characters than letters, digits, `_ . - / @`, or is longer than 200.
    """
    if type(queue) is not str or not _QUEUE.match(queue):
        raise ConfigError(f"queue is {queue!r}: use letters, digits and _ . - / @, at most 200 in all")
    return queue


def checked_priority(priority: int) -> int:
    """`priority`, if it lies in -100..100.

    Raises:
        ConfigError: it does not.
    """
    if type(priority) is not int or not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
        raise ConfigError(
            f"priority is {priority!r}: it must be a whole number from {LEAST_PRIORITY} to {MOST_PRIORITY}, "
            "higher runs first"
        )
    return priority


def checked_id(id: str) -> str:
    """`id`, if it may name a job.

    Raises:
        ConfigError: it is no str of 1 to 200 printable characters without quotes, backslashes and spaces.
    """
    if type(id) is not str or not _ID.match(id):
        raise ConfigError(
            f"id is {id!r:.100}: use 1 to 200 printable characters, without spaces, quotes and backslashes"
        )
    return id


def duration_us(name: str, when: When) -> int:
    found = moment(when, name)
    if found.in_us is None:
        raise ConfigError(f"{name} is the moment {when}: it must be a duration, in seconds or as a timedelta")
    return found.in_us


def timeout_us(timeout: When) -> int:
    length_us = duration_us("timeout", timeout)
    if length_us == 0:
        raise ConfigError("timeout is 0: it must be greater than 0; leave it out for none")
    return length_us


def checked_limits(expires: When | None, deadline: When | None) -> tuple[Moment | None, Moment | None]:
    """The two limits of one call.

    Raises:
        ConfigError: one is none, or `expires` comes after `deadline`: then it says nothing.
    """
    start, end = limit(expires, "expires"), limit(deadline, "deadline")
    if start is None or end is None or (start.at_us is None) is not (end.at_us is None):
        return start, end
    if end.is_before(start, lambda: 0):
        raise ConfigError(
            f"expires is {expires}, later than deadline, {deadline}: no run starts after the deadline, so leave "
            "expires out or make it shorter"
        )
    return start, end


def refuse_unknown(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse an option that `where` does not have.

    Raises:
        ConfigError: names it, and those that may be meant.
    """
    for name in given:
        if name not in known:
            close = [f"{one}=" for one in near(name, known)]
            fix = f"did you mean {' or '.join(close)}?" if close else f"it takes {', '.join(sorted(known))}"
            raise ConfigError(f"{where} has no option {name}=: {fix}") from None


def in_words(where: str) -> Callable[[F], F]:
    """Calls that do not fit a method's keywords end in a `ConfigError` about `where`, and not in Python's own words."""

    def decorate(method: F) -> F:
        signature = inspect.signature(method)
        known = [one.name for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
        needed = [name for name in known if signature.parameters[name].default is inspect.Parameter.empty]
        placed = sum(one.kind is one.POSITIONAL_ONLY for one in list(signature.parameters.values())[1:])

        @functools.wraps(method)
        def checked(itself: Any, /, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(itself, *args, **kwargs)
            except TypeError:  # only then is it looked at: from within the method it passes as it is
                if len(args) > placed:
                    raise ConfigError(
                        f"{where} takes its options by name, such as {where}({known[0]}=...), and not "
                        f"{args[placed]!r:.100}"
                    ) from None
                refuse_unknown(where, kwargs, known)
                missing = [name for name in needed if name not in kwargs]
                if missing:
                    raise ConfigError(f"{where} needs {missing[0]}=: {where}({missing[0]}=..., ...)") from None
                raise

        return cast("F", checked)

    return decorate


def checked_once(once: Once | str | Callable[..., str] | None, arguments: Arguments) -> Once | None:
    if once is None:
        return None
    made = once if isinstance(once, Once) else Once(once)
    if not arguments.takes_more:
        made.check_names(arguments.names)
    _refuse_constant(made, arguments)
    return made


def _refuse_constant(once: Once, arguments: Arguments) -> None:
    """A key stands for one call, so a second one with other arguments would fail for good."""
    if not isinstance(once.key, str) or keys.template_names(once.key, "once"):
        return
    names = list(arguments.names)
    if names or arguments.takes_more:
        one = names[0] if names else "order_id"
        raise ConfigError(
            f"once: the key {once.key!r} is the same for all calls of {arguments.function_name}(), which takes "
            f"arguments: the second call with others would be refused. Name those that tell effects apart, such as "
            f"once={once.key + ':{' + one + '}'!r}"
        )


def checked_unique(unique: Unique | str | Callable[..., str] | None, arguments: Arguments) -> Unique | None:
    if unique is None:
        return None
    made = unique if isinstance(unique, Unique) else Unique(unique)
    if not arguments.takes_more:
        made.check_names(arguments.names)
    return made


def checked_texts(name: str, texts: Iterable[str]) -> tuple[str, ...]:
    found = (texts,) if isinstance(texts, str) else tuple(texts)
    for text in found:
        if type(text) is not str or not text or not text.isprintable():
            raise ConfigError(f"{name} holds {text!r}: it must be a str of printable characters")
    return found


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """`headers`, if they are texts by name.

    Raises:
        ConfigError: they are no mapping, or hold something else than printable texts.
    """
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers is {headers!r}: give a dict of texts")
    return dict(zip(checked_texts("headers", headers), checked_texts("headers", headers.values()), strict=True))
