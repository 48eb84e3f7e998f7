"""The shop's own tests, as its makers would write them: run by `manage.py test`."""

import asyncio

from django.db import transaction
from django.test import TestCase, TransactionTestCase

from djangoshop.orders import tasks
from djangoshop.orders.models import Mail
from headrace.contrib.django import app


class InATransaction(TestCase):
    """What a test enqueues goes with it."""

    def enqueue_one(self) -> None:
        """Its unique key is free, for whatever test has gone before."""
        assert tasks.confirm.enqueue(number=1).status == "new"
        assert tasks.confirm.enqueue(number=1).status == "duplicate"

    def test_one(self) -> None:
        """Once."""
        self.enqueue_one()

    def test_two(self) -> None:
        """And again."""
        self.enqueue_one()


class ToTheEnd(TransactionTestCase):
    """With a worker, on the database of the tests."""

    def test_it_runs(self) -> None:
        """A commit, and a run."""
        with transaction.atomic():
            tasks.confirm.enqueue(number=2)

        async def work() -> None:
            await app.worker(burst=True).run()
            await app.aclose()

        asyncio.run(work())
        assert "test" in app.config.url
        assert Mail.objects.filter(number=2).count() == 1
