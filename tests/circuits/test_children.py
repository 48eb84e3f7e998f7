"""What a call in a child process tells of its dependency: of its exception only the names of the classes come back."""

from tests.circuits.apart import app, call, smtp
from tests.waiting import await_until
from tests.worker.working import working


async def test_calls_in_child_processes_count_too() -> None:
    async with working(app, concurrency=1):
        for how in ("recorded", "ignored", "other", "verdict", "crash", "good"):
            await call.aenqueue(how)

        async def are_over() -> bool:
            queues = await app.ajobs.queues()
            return (await smtp.alook()).calls == 3 and not any(one.ready + one.running for one in queues)

        await await_until(are_over, 30)
    look = await smtp.alook()
    assert (look.calls, look.failed) == (3, 1 / 3)
