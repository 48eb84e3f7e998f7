"""What is known at the end of a performance: records, each from whoever saw it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .customers import Receipt
from .world.gateway import Charge
from .world.mail import Mail
from .world.merchant import Webhook
from .world.pager import Page


@dataclass(frozen=True)
class OrderRow:
    """An order as it stands in the shop's database."""

    id: int
    key: str
    sku: str
    quantity: int
    total_cents: int
    trade_no: str | None
    payment: str


@dataclass(frozen=True)
class DeliveryRow:
    """A job that brought an event to one of its subscribers, as the subscriber wrote it down."""

    subscriber: str
    event_id: str
    job_id: str
    enqueued_us: int
    order_id: int
    key: str


@dataclass(frozen=True)
class FailedJob:
    """A job that will not run again by itself."""

    id: str
    task: str
    reason: str
    crashes: int  # how many workers died under it


@dataclass(frozen=True)
class Step:
    """The circuit around the mail server went from one state to another."""

    at: float  # seconds since the epoch, like all times of an outage
    after: str


@dataclass(frozen=True)
class MailOutage:
    """The mail server answered, but took no mail."""

    began: float
    ended: float
    calls: list[float]  # every call to the mail server, of the whole evening
    steps: list[Step]  # the history of the circuit, which the store keeps
    probes: int  # the circuit's settings
    refill: float
    burst: int
    workers: int
    parked: int  # mails that waited when it ended
    attempts: int  # that these had cost
    drained: float  # when none waited any more; 0: there were always some
    meanwhile: dict[str, int]  # what else was done: orders, charges, invoices, webhooks


@dataclass(frozen=True)
class Repair:
    """What is kept of a job that an operator has corrected and replayed."""

    id: str
    state: str
    replays: int
    edits: list[tuple[str, str]]  # by whom, and why


@dataclass(frozen=True)
class Morning:
    """Failed jobs, and what the operator made of them."""

    found: list[FailedJob]  # as the operator found them
    lists: dict[str, int]  # all jobs that were to import a price list, and which it is to be in the end
    spoilt: list[str]  # of these, those that came with a currency nobody knows
    canaries: int
    forgotten: str  # the one that was not corrected before the first replay
    stopped: list[str]  # the spoilt ones that were still failed after the first replay
    repairs: list[Repair]  # of those found
    operator: str


@dataclass(frozen=True)
class Evidence:
    """All that is known at the end, each part from whoever saw it."""

    receipts: list[Receipt]  # the customers
    orders: list[OrderRow]  # the shop's database
    stock_before: dict[str, int]
    stock_after: dict[str, int]
    sold: dict[str, int]  # units, as the statistics counted them from events
    invoices: list[tuple[int, int]]  # the ledger: order and cents
    charges: list[Charge]  # the gateway
    asked_again: int  # requests to the gateway that repeated an earlier one
    poll_ends: list[tuple[str, str]]  # the hooks of the polls: trade number, and which hook was called
    deliveries: list[DeliveryRow]  # the subscribers
    mails: list[Mail]  # the mail server
    webhooks: list[Webhook]  # the merchants
    refused: list[str]  # ids of webhooks that a merchant answered with 410
    forged: int  # webhooks without a good signature
    left: set[str]  # items whose merchant has answered so
    statuses: dict[int, str]  # the shop's pages, one per order
    unfinished: dict[str, int]  # the job store: jobs that are ready, running, scheduled, parked
    waiting_events: int  # the outbox
    failed: list[FailedJob]
    poison: str  # the id of the job that had to fail
    price_lists: list[tuple[int, str, str]]  # imported: list, job, currency
    pages: list[Page]  # the operator's pager
    mishaps: list[str]  # scenes that did not go as written
    outage: MailOutage | None = None
    morning: Morning | None = None


@dataclass(frozen=True)
class Finding:
    """One line of the audit."""

    claim: str
    ok: bool
    found: str


def finding(claim: str, wrong: Iterable[object], right: str) -> Finding:
    """A claim that holds if nothing is wrong, with what was found."""
    problems = [str(problem) for problem in wrong]
    return Finding(claim, not problems, few(problems) if problems else right)


def few(texts: Iterable[str]) -> str:
    """The first three, and how many more there are."""
    all_texts = list(texts)
    more = f" and {len(all_texts) - 3} more" if len(all_texts) > 3 else ""
    return ", ".join(all_texts[:3]) + more
