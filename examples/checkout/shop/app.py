"""The app: where jobs, keys and events are, and how patient jobs are."""

from __future__ import annotations

import smtplib

from headrace import Exponential, Fail, Headrace, Retry
from headrace.observe import CircuitOpened, FailedGrowth, WebhookSink

from .mailing import AddressRefused
from .notifications import UnknownOrder
from .settings import settings

# What a killed process held is free after one lease. Two seconds keep the demo short; the default of 30 suits most.
# On SQLite a heartbeat may have to wait for the file, so a short lease needs a short `busy_timeout`.
LEASE = 2

app = Headrace(
    settings().store_url or settings().database_url,
    name=settings().store_name,
    outbox=None if settings().one_database else settings().database_url,
    lease=LEASE,
    heartbeat=0.5,
    busy_timeout=0.6,
)

# An outage is waited out, a few seconds apart with jitter, so that not all come back at once. Minutes suit real life.
# What no waiting can mend fails at once. By default a job under which three workers have died is given up; here workers
# are killed every few seconds, so that three deaths say nothing about the job.
PATIENTLY = Retry(
    max_attempts=100,
    max_crashes=10,
    backoff=Exponential(base=0.2, factor=2, cap=1.5, jitter="equal"),
    on=[((UnknownOrder, AddressRefused), Fail)],
)

# The mail server is shared by all mails: when half of the calls fail, nobody calls it for a while. Mails wait, and cost
# no attempt. Then two try, and when they come back well the others follow at a pace. A minute of `open_for` suits most.
smtp = app.circuit(
    "smtp",
    failure_rate=0.5,
    window=10,
    minimum=4,
    open_for=1.2,
    probes=2,
    refill=25,
    record=(smtplib.SMTPException, OSError),
    ignore=(UnknownOrder, AddressRefused),
)

# One message for one trouble, from whichever worker sees it first.
if settings().alerts_url:
    app.alerts(
        rules=[CircuitOpened(), FailedGrowth(count=5, window="10m")],
        sinks=[WebhookSink(url=settings().alerts_url)],
        cooldown="1h",
        every="2s",
    )
