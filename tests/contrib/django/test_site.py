"""A shop in Django with a real web server, worker and relay, on each database."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.contrib.django.inside import entry
from tests.contrib.django.site import Site

ALL = ["async", "event", "framework", "plain"]


def test_an_order_and_all_that_follows_commit_together(site: Site, port: int) -> None:
    """B116: a plain function, a coroutine, a task of Django's framework and a subscriber; or none of them."""
    site.manage("migrate")
    site.serve(port)
    worker = site.start("headrace", "work", ready=" started on ")
    site.start("headrace", "outbox", "relay", ready=" started on ")
    assert site.ask("/orders?number=1&then=fail", post=True) == 500
    result = site.ask("/orders?number=2", post=True)["result"]
    site.watch(lambda: site.ask("/orders/2")["mails"] == ALL, "all mails of order 2")
    assert site.ask("/orders/1") == {"orders": 0, "mails": []}
    site.watch(lambda: site.ask(f"/results/{result}") == {"status": "SUCCESSFUL", "attempts": 1}, "the result")
    assert site.end(worker) == 0


def test_jobs_on_redis_travel_through_the_outbox(
    make_site: Callable[..., Site], redis_url: str, unique_name: str, tmp_path: Path, port: int
) -> None:
    headrace = {"URL": redis_url, "OUTBOX": "default", "NAME": unique_name}
    site = make_site({"default": entry(str(tmp_path / "shop.sqlite3"))}, headrace)
    site.manage("migrate")
    site.serve(port)
    site.start("headrace", "work", ready=" started on ")
    assert site.ask("/orders?number=1&then=fail", post=True) == 500
    assert site.ask("/orders?number=2", post=True)["result"]
    site.start("headrace", "outbox", "relay", ready=" started on ")
    site.watch(lambda: site.ask("/orders/2")["mails"] == ALL, "all mails of order 2")
    assert site.ask("/orders/1") == {"orders": 0, "mails": []}


LATER = """
from djangoshop.orders import tasks
for number in range({first}, {first} + 8):
    tasks.confirm.enqueue(number)
    tasks.aconfirm.enqueue(number)
"""
SENT = "from djangoshop.orders.models import Mail; print(Mail.objects.filter(number__gte={first}).count())"
FAILED = "from headrace.contrib.django import app; print(len(app.jobs.list('failed').jobs))"


def test_a_worker_outlives_a_restart_of_the_database(
    make_site: Callable[..., Site], postgres_server_factory: Callable[[], Any]
) -> None:
    """B119: connections that Django keeps are dead after it, and no job may fail because of that (retry=1)."""
    server = postgres_server_factory().start()
    site = make_site({"default": {**entry(server.url), "CONN_MAX_AGE": None}})
    site.manage("migrate")
    site.start("headrace", "work", "--threads", "4", ready=" started on ")
    site.python(LATER.format(first=0))
    site.watch(lambda: site.python(SENT.format(first=0)) == "16", "the mails of 8 orders")
    server.stop()
    server.start()
    site.watch(
        lambda: (
            "PONG" in site.python("from django.db import connection; connection.ensure_connection(); print('PONG')")
        ),
        "the database",
    )
    site.python(LATER.format(first=100))
    site.watch(lambda: site.python(SENT.format(first=100)) == "16", "the mails of 8 more")
    assert site.python(FAILED) == "0"
