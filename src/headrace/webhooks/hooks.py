"""What becomes of a function that is told how a delivery ended: it runs as a job of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headrace.context import current_job
from headrace.errors import ConfigError

JSON = "application/json"


class Delivery(msgspec.Struct, frozen=True):
    """What the hooks are handed: one webhook, at its end."""

    id: str  # the header `webhook-id`
    url: str
    endpoint: str
    event: str | None
    body: str
    content_type: str = JSON
    said: str = ""  # the last answer in one line; empty in on_given_up


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """A webhook as it lies in its job."""

    url: str
    body: str
    event: str | None = None
    content_type: str = JSON
    id: str | None = None  # None: that of the job

    def own_id(self) -> str:
        """Its id, in its own job or in one that its end has set off: no id of a webhook has a slash in it."""
        return self.id or current_job().id.partition("/")[0]

    def delivery(self, endpoint: str, said: str = "") -> Delivery:
        """What the hooks are handed."""
        return Delivery(self.own_id(), self.url, endpoint, self.event, self.body, self.content_type, said)


def delivery_of(job: str, arguments: Mapping[str, Any]) -> Delivery:
    """What a job that has ended was to deliver."""
    endpoint, webhook = arguments["endpoint"], arguments["webhook"]
    return Delivery(webhook.id or job, webhook.url, endpoint, webhook.event, webhook.body, webhook.content_type)


def checked_hook(what: str, function: Callable[[Delivery], Any], *, taken: bool) -> None:
    """Refuse what cannot be a hook.

    Raises:
        ConfigError: there is one already, as `taken` says, or it cannot be called with a `Delivery` alone.
    """
    if taken:
        raise ConfigError(f"there is an {what} already: put both into one function")
    if not callable(function):
        raise ConfigError(f"{what} is given {function!r:.100}: decorate a function with it, without options")
    try:
        signature = inspect.signature(function)
    except ValueError:  # of one that is written in C
        return
    try:
        signature.bind(None)
    except TypeError:
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigError(f"{what}: {name}{signature} must take one argument, the Delivery") from None


def taking(function: Callable[[Delivery], Any]) -> Callable[..., Any]:
    """`function` as the function of a task, whatever its parameter is called and annotated with."""

    def run(delivery: Delivery) -> Any:
        return function(delivery)

    async def arun(delivery: Delivery) -> Any:
        return await function(delivery)

    return arun if inspect.iscoroutinefunction(function) else run


def handing(function: Callable[[Delivery], Any]) -> Callable[..., Any]:
    """`function` as a hook of the poll, which takes the poll's arguments and its final value."""

    def run(endpoint: str, webhook: Stored, result: str) -> Any:
        return function(webhook.delivery(endpoint, result))

    async def arun(endpoint: str, webhook: Stored, result: str) -> Any:
        return await function(webhook.delivery(endpoint, result))

    return arun if inspect.iscoroutinefunction(function) else run


def handing_unsaid(function: Callable[[Delivery], Any]) -> Callable[..., Any]:
    """The same without a final value: the schedule ended without one."""

    def run(endpoint: str, webhook: Stored) -> Any:
        return function(webhook.delivery(endpoint))

    async def arun(endpoint: str, webhook: Stored) -> Any:
        return await function(webhook.delivery(endpoint))

    return arun if inspect.iscoroutinefunction(function) else run
