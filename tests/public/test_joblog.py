"""Log lines of a handler name its job."""

import io
import logging

from headrace import Headrace, JobLogFilter


async def test_every_line_of_a_handler_carries_its_job_and_the_named_arguments() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s %(job_id)s %(task)s %(queue)s %(attempt)d %(arguments)s"))
    handler.addFilter(JobLogFilter())
    logger = logging.getLogger("shop")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    app = Headrace("memory://")

    @app.task(name="mail", queue="mails", log=("order_id",))
    async def mail(order_id: int, address: str) -> None:
        logger.info("sending")

    @app.task(name="call", queue="mails", log=("order_id",))
    def call(order_id: int) -> None:
        logger.info("calling")

    first, second = await mail.aenqueue(17, address="a@b.example"), await call.aenqueue(order_id=18)
    await app.worker(burst=True).run()
    logger.removeHandler(handler)
    assert sorted(stream.getvalue().splitlines()) == [
        f"calling {second.id} call mails 1 {{'order_id': 18}}",
        f"sending {first.id} mail mails 1 {{'order_id': 17}}",
    ]


def test_a_line_outside_of_jobs_passes_untouched() -> None:
    record = logging.makeLogRecord({"msg": "hello"})
    assert JobLogFilter().filter(record)
    assert not hasattr(record, "job_id")
