"""Webhooks as jobs: each is a poll that asks its receiver to take a message, until it has."""

from __future__ import annotations

import copy
import logging
import random
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Self, TypeVar

from headrace.calls import Job
from headrace.context import current_job
from headrace.core.backoff import Backoff
from headrace.core.durations import Duration, seconds
from headrace.core.ids import following
from headrace.core.poll import polling
from headrace.core.verdict import Cancel, Pending
from headrace.drivers.system import SystemClock
from headrace.errors import ConfigError, WebhookError
from headrace.jobinfo import JobInfo
from headrace.options import checked_texts, refuse_unknown
from headrace.sending import refuse_in_loop
from headrace.webhooks.addresses import Network
from headrace.webhooks.courier import Courier, Message
from headrace.webhooks.guard import Guard
from headrace.webhooks.hooks import JSON, Delivery, Stored, checked_hook, delivery_of, handing, handing_unsaid, taking
from headrace.webhooks.judging import Again, Gone, Success
from headrace.webhooks.keyring import Keyring, Secrets
from headrace.webhooks.payload import MOST_BYTES, body_of, checked_content_type, checked_event
from headrace.webhooks.signature import checked_message_id

logger = logging.getLogger("headrace.webhooks")

_OF_GUARDS = ("ports", "https_only", "resolver")
_OF_POLLS = ("aliases", "jitter", "keep", "max_polls", "priority", "retry")
NAMES_S = 30.0  # what the DNS may take on top of an attempt's timeout before the attempt is given up


Hook = TypeVar("Hook", bound=Callable[[Delivery], Any])


class App(Protocol):
    """What webhooks need of their app."""

    clock: SystemClock
    rng: random.Random

    @property
    def task(self) -> Any:
        """Makes a task of a function."""
        ...

    @property
    def poll(self) -> Any:
        """Makes a poll of one."""
        ...

    @property
    def jobs(self) -> Any:
        """Looks at jobs."""
        ...

    @property
    def ajobs(self) -> Any:
        """The same, awaited."""
        ...

    @property
    def tasks(self) -> Mapping[str, Any]:
        """The tasks by name."""
        ...


class Webhooks:
    """Tells receivers, again and again by schedule, until they answer as agreed.

        hooks = Webhooks(app, secret=lambda endpoint: secret_of(endpoint))
        hooks.send("https://shop.example/hook", {"order": 17}, event="order.paid", endpoint="shop-17")

    Args:
        app: its workers deliver; make the object where the tasks are defined.
        secret: `whsec_` secrets, see `new_secret`: one for all, several while one takes the place of another, a
            mapping by endpoint, or a callable that is handed the endpoint. None: nothing is signed. They are asked for
            at each attempt and never stored.
        schedule: "standard-webhooks" (at once, then after 5s 5m 30m 2h 5h 10h 14h 20h 24h, made a little uneven),
            "alipay" (at once, then after 4m 10m 10m 1h 2h 6h 15h), or what `every` of `@app.poll` takes. Each delay
            counts from the end of the attempt before it.
        give_up_after: the last attempt begins before that, counted from the enqueue. Needed for schedules whose last
            step repeats.
        success: "2xx"; "success": a 2xx whose body is exactly that word; or a callable that is handed the `Answer`.
        timeout: of one attempt. The name of the host is resolved before, for as long as this machine's DNS takes.
        allow: networks, addresses and hosts that may be reached, on any port, though they are not on the public
            internet.
        guard: in place of `allow`, a `Guard` with other ports than 80 and 443, or for https alone.
        enabled: called with the endpoint before each attempt; where it returns False the delivery is cancelled.
        headers: of HTTP, sent with each webhook.
        most_bytes: the largest body.
        tls: the certificate authorities; by default those of this machine.
        name: of the task in the store. A second object needs another.
        queue: by default "webhooks"; its handlers are plain functions, each in a thread while its receiver thinks.
        options: as of `@app.poll`: max_polls, jitter, priority, retry, aliases, and keep: how long a delivered webhook
            can be looked at, and sent again by its id; by default it is deleted at once. One that was given up or
            cancelled is kept for a day.

    Raises:
        ConfigError: one of these is unknown or out of range, or the name is taken.
    """

    def __init__(
        self,
        app: App,
        *,
        secret: Secrets,
        schedule: str | Backoff = "standard-webhooks",
        give_up_after: Duration | None = None,
        success: Success = "2xx",
        timeout: Duration = 15,
        allow: str | Network | Iterable[str | Network] = (),
        guard: Guard | None = None,
        enabled: Callable[[str], bool] | None = None,
        headers: Mapping[str, str] | None = None,
        most_bytes: int = MOST_BYTES,
        tls: ssl.SSLContext | None = None,
        name: str = "webhooks",
        queue: str = "webhooks",
        **options: Any,
    ) -> None:
        if name in app.tasks:  # two senders with different secrets under one name would sign for each other
            raise ConfigError(f"the task name {name!r} is taken: give these webhooks another name=")
        _refuse(options, enabled)
        timeout_s = _positive("timeout", timeout)
        self._app = app
        self._name = name
        self._most_bytes = most_bytes
        self._enabled = enabled
        self._keyring = Keyring(secret)
        if guard is not None and allow:
            raise ConfigError("allow and guard are both given: give allow= to the Guard")
        self._guard = guard or Guard(allow=allow)
        self._courier = Courier(self._guard, app.clock, success=success, timeout=timeout_s, headers=headers, tls=tls)
        ends = {"give_up_after": give_up_after, "max_polls": options.pop("max_polls", None)}
        self._schedule = polling(schedule, **ends, jitter=options.pop("jitter", None), option="schedule")
        options = {"log": ("endpoint",), "timeout": timeout_s + NAMES_S, **ends, **options}
        # jitter is added below: a poll's would put off the first attempt too, and that one is to be at once
        poll = app.poll(every=schedule, jitter=0, name=name, queue=queue, **options)
        self._task: Any = poll(self._attempt())
        self._disabled: list[Any] = []

    # -- sending

    def using(self, **options: Any) -> Self:
        """A copy whose webhooks have these options, those of `Task.using`: priority, run_after, tenant, tags and so on.

        Raises:
            ConfigError: as `Task.using`.
        """
        if options.get("id") is not None:
            checked_message_id(options["id"])
        changed = copy.copy(self)
        changed._task = self._task.using(**options)  # noqa: SLF001 - of the same class
        return changed

    def send(
        self,
        url: str,
        payload: Any,
        *,
        event: str | None = None,
        endpoint: str | None = None,
        id: str | None = None,
        content_type: str = JSON,
        transaction: Any = None,
    ) -> Job:
        """Store one webhook; workers deliver it.

        Args:
            url: where to. A secret in it is stored with the job.
            payload: JSON values, dataclasses and models; with `event` it becomes the `data` of the object
                `{"type", "timestamp", "data"}`. bytes are sent as they are, and must be UTF-8.
            event: its type, such as "order.paid".
            endpoint: names the receiver to `secret`, `enabled` and the hooks; by default the URL.
            id: the header `webhook-id`, the same on each attempt, by which receivers tell repeats; by default a
                UUID. The same id again within 24 hours after its end stores nothing, and answers "exists".
            content_type: of the body.
            transaction: as of `Task.using`: it is stored in there, and commits with your data or not at all.

        Raises:
            AddressRefused: the URL must not be reached, whatever the DNS says.
            InvalidArguments, PayloadTooLarge: the payload has no JSON form, or more than `most_bytes`.
            ConfigError: an id, an event or a content type that is none, or no secret for this endpoint.
            WrongColour: called inside a running event loop.
        """
        refuse_in_loop("send", "asend")
        webhook = self._webhook(url, payload, event, content_type)
        task, endpoint = self._ready(url, endpoint, id, transaction)
        job: Job = task.enqueue(endpoint, webhook)
        return job

    async def asend(
        self,
        url: str,
        payload: Any,
        *,
        event: str | None = None,
        endpoint: str | None = None,
        id: str | None = None,
        content_type: str = JSON,
        transaction: Any = None,
    ) -> Job:
        """The same, awaited."""
        webhook = self._webhook(url, payload, event, content_type)
        task, endpoint = self._ready(url, endpoint, id, transaction)
        job: Job = await task.aenqueue(endpoint, webhook)
        return job

    def resend(self, delivery: Delivery | str, *, transaction: Any = None) -> Job:
        """Send a webhook that has ended once more, from the start of the schedule, with its old id and body.

        For one that was given up, say. Each call makes a new job; a receiver that has had the id can tell.

        Args:
            delivery: what a hook was handed, or the id of the job that `send` answered, while the store has it: for a
                day after it was given up, and for `keep` after it was delivered.
            transaction: as of `send`.

        Raises:
            WebhookError: the store has no such webhook, or it has not ended yet.
            AddressRefused, ConfigError, WrongColour: as `send`.
        """
        refuse_in_loop("resend", "aresend")
        if isinstance(delivery, str):
            delivery = self._ended(delivery, self._app.jobs.get(delivery))
        task, endpoint = self._ready(delivery.url, delivery.endpoint, None, transaction)
        job: Job = task.enqueue(endpoint, _stored(delivery))
        return job

    async def aresend(self, delivery: Delivery | str, *, transaction: Any = None) -> Job:
        """The same, awaited."""
        if isinstance(delivery, str):
            delivery = self._ended(delivery, await self._app.ajobs.get(delivery))
        task, endpoint = self._ready(delivery.url, delivery.endpoint, None, transaction)
        job: Job = await task.aenqueue(endpoint, _stored(delivery))
        return job

    def _ended(self, id: str, info: JobInfo | None) -> Delivery:
        if info is None or info.envelope is None or info.task not in (self._task.name, *self._task.aliases):
            raise WebhookError(
                f"the store has no webhook {id!r:.100} of {self._name}: one that was given up is kept for a day, one "
                "that was delivered for keep=; later, give the Delivery that a hook was handed"
            )
        if info.finished is None:
            raise WebhookError(f"the webhook {id} has not ended, it is {info.state}: it will be sent by its schedule")
        return delivery_of(info.id, self._task.arguments.decode(info.envelope.args))

    def _webhook(self, url: str, payload: Any, event: str | None, content_type: str) -> Stored:
        body = body_of(payload, checked_event(event), self._app.clock.unix_us(), self._most_bytes)
        return Stored(url, body, event, checked_content_type(content_type))

    def _ready(self, url: str, endpoint: str | None, id: str | None, transaction: Any) -> tuple[Any, str]:
        """The task to enqueue, and the endpoint, once nothing speaks against either."""
        self._guard.check(url)
        endpoint = checked_texts("endpoint", (url if endpoint is None else endpoint,))[0]
        self._keyring.refuse_unknown(endpoint)
        task = self._task
        if id is not None:
            task = task.using(id=checked_message_id(id))
        return (task if transaction is None else task.using(transaction=transaction)), endpoint

    # -- delivering

    def _attempt(self) -> Callable[..., Pending | Cancel | str]:
        """The query of the poll: the message is handed over, and the answer says whether it has been taken."""

        def deliver(endpoint: str, webhook: Stored) -> Pending | Cancel | str:
            if self._enabled is not None and not self._enabled(endpoint):
                return Cancel(f"the endpoint {endpoint} is not enabled")
            message = Message(webhook.own_id(), webhook.url, webhook.body.encode(), webhook.content_type)
            found = self._courier.deliver(message, self._keyring.find(endpoint))
            if isinstance(found, Again):
                return self._again(found)
            if isinstance(found, Gone):
                self._tell_disabled(webhook.delivery(endpoint, found.said))
                return Cancel(f"the endpoint {endpoint} wants no more: {found.said}")
            logger.info("webhook %s to %s: %s", message.id, endpoint, found.said)
            return found.said

        return deliver

    def _again(self, found: Again) -> Pending:
        """By schedule, or later where the answer asks for that."""
        scheduled_us = self._schedule.wait_us(current_job().poll, 0, self._app.rng)
        if scheduled_us is None:  # it was the last attempt
            return Pending(found.said)
        return Pending(found.said, after=max(found.wait_s, scheduled_us / 1_000_000))

    def _tell_disabled(self, delivery: Delivery) -> None:
        """Before the delivery ends: a worker that dies in between comes here again, and the id makes one job of two."""
        job = current_job()
        for task in self._disabled:
            task.using(id=following(job.id, "/disabled", job.enqueued_us)).enqueue(delivery)

    # -- hooks

    def on_delivered(self, function: Hook) -> Hook:
        """`@hooks.on_delivered`: a function that is handed the `Delivery` once the receiver has taken it.

        It runs as a job of its own, which is stored in the same atomic step that ends the delivery.

        Raises:
            ConfigError: there is one already, or it takes no argument.
        """
        checked_hook("on_delivered", function, taken=self._task.hooks.final is not None)
        self._task.on_final(name=f"{self._name}.delivered")(handing(function))
        return function

    def on_given_up(self, function: Hook) -> Hook:
        """`@hooks.on_given_up`: the same for a delivery whose schedule is over.

        Raises:
            ConfigError: there is one already, or it takes no argument.
        """
        checked_hook("on_given_up", function, taken=self._task.hooks.timeout is not None)
        self._task.on_timeout(name=f"{self._name}.given_up")(handing_unsaid(function))
        return function

    def on_disabled(self, function: Hook) -> Hook:
        """`@hooks.on_disabled`: the same for a receiver that answered 410, so that you stop sending to it.

        The delivery itself is cancelled. Others that wait for the same endpoint go on, unless `enabled` stops them.

        Raises:
            ConfigError: there is one already, or it takes no argument.
        """
        checked_hook("on_disabled", function, taken=bool(self._disabled))
        options = {"name": f"{self._name}.disabled", "queue": self._task.queue}
        self._disabled.append(self._app.task(**options)(taking(function)))
        return function


def _refuse(options: Mapping[str, Any], enabled: object) -> None:
    for name in _OF_GUARDS:
        if name in options:
            raise ConfigError(f"Webhooks has no option {name}=: give it to a guard, guard=Guard({name}=...)")
    refuse_unknown("Webhooks", options, {*_OF_POLLS, "secret", *(Webhooks.__init__.__kwdefaults__ or ())})
    if enabled is not None and not callable(enabled):
        raise ConfigError(f"enabled is {enabled!r:.100}: give a callable that is handed the endpoint")


def _stored(delivery: Delivery) -> Stored:
    return Stored(delivery.url, delivery.body, delivery.event, delivery.content_type, checked_message_id(delivery.id))


def _positive(name: str, value: Duration) -> float:
    length = seconds(value, name)
    if not length:
        raise ConfigError(f"{name} is 0: it must be greater than 0")
    return length
