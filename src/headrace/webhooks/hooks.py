"""What becomes of a function that is told how a delivery ended: it runs as a job of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.context import current_job


class Delivery(msgspec.Struct, frozen=True):
    """What the hooks are handed: one webhook, at its end."""

    id: str  # the header `webhook-id`
    url: str
    endpoint: str
    event: str | None
    body: str
    said: str = ""  # the last answer in one line; empty in on_given_up


def taking(function: Callable[[Delivery], Any]) -> Callable[..., Any]:
    """`function` as the function of a task, which workers may find with other annotations than ours."""

    def run(delivery: Delivery) -> Any:
        return function(delivery)

    async def arun(delivery: Delivery) -> Any:
        return await function(delivery)

    return arun if inspect.iscoroutinefunction(function) else run


def handing(function: Callable[[Delivery], Any]) -> Callable[..., Any]:
    """`function` as a hook of the poll, which takes the poll's arguments and its final value."""

    def run(url: str, endpoint: str, event: str | None, body: str, result: str) -> Any:
        return function(Delivery(_id(), url, endpoint, event, body, result))

    async def arun(url: str, endpoint: str, event: str | None, body: str, result: str) -> Any:
        return await function(Delivery(_id(), url, endpoint, event, body, result))

    return arun if inspect.iscoroutinefunction(function) else run


def handing_unsaid(function: Callable[[Delivery], Any]) -> Callable[..., Any]:
    """The same without a final value: the schedule ended without one."""

    def run(url: str, endpoint: str, event: str | None, body: str) -> Any:
        return function(Delivery(_id(), url, endpoint, event, body))

    async def arun(url: str, endpoint: str, event: str | None, body: str) -> Any:
        return await function(Delivery(_id(), url, endpoint, event, body))

    return arun if inspect.iscoroutinefunction(function) else run


def _id() -> str:
    """The id of the webhook whose end set off the running job: no id of a webhook has a slash in it."""
    return current_job().id.partition("/")[0]
