"""What a hook's job is called, and polls under ids that somebody has chosen."""

from typing import Any

import pytest

from headrace import Headrace, Pending
from headrace.core.ids import MOST
from headrace.core.operations import Enqueue, NewJob
from headrace.core.poll import end_id
from headrace.jobinfo import JobInfo
from tests.worker.working import ended, state_of, virtually, work_for, working_virtually

DAY_S = 24 * 3600
OURS = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_the_id_of_a_hook_tells_enqueues_under_one_id_apart() -> None:
    assert end_id(OURS, 1) == end_id(OURS, 2) == f"{OURS}/end"
    assert end_id("order-17", 1) == "order-17/end-1"
    assert end_id("order-17", 2) != end_id("order-17", 1)


def test_the_id_of_a_hook_is_never_too_long() -> None:
    now_us = 1_796_000_000_000_000
    long = [end_id(id, now_us) for id in ("x" * MOST, "x" * (MOST - 1) + "y", "x" * 179, "x" * 180)]
    assert {len(id) for id in long} == {MOST}
    assert len(set(long)) == len(long)
    assert long[0] == end_id("x" * MOST, now_us)
    assert long[2] == "x" * 179 + f"/end-{now_us}"


@pytest.mark.parametrize("id", ["settlement", "y" * MOST])
def test_a_poll_under_an_old_id_has_a_hook_of_its_own(id: str) -> None:
    """The hook of the first one is still kept when the id may be used again."""

    async def main(app: Headrace) -> list[int]:
        results = list[int]()

        @app.poll(every="10s", give_up_after=60)
        async def ask(n: int) -> int:
            return n

        @ask.on_final(keep="7d")
        async def final(result: int) -> None:
            results.append(result)

        for n in (1, 2):
            async with working_virtually(app):
                assert (await ask.using(id=id).aenqueue(n=n)).status == "new"
                await work_for(60)
            await work_for(DAY_S)  # a worker that waits looks for work every second, all day long
        return results

    assert virtually(main) == [1, 2]


def test_a_message_that_cannot_be_read_when_its_time_is_over_fails_by_itself() -> None:
    """B019: what cannot be handed on to a hook must not keep the worker busy for ever."""

    async def main(app: Headrace) -> tuple[JobInfo, str, list[Any]]:
        hooks = list[Any]()

        @app.poll(name="ask", every="1s", give_up_after=5)
        async def ask(note: str = "") -> Pending:
            return Pending()

        @ask.on_timeout
        async def in_vain(note: str) -> None:
            hooks.append(note)

        body = b'{"v":1,"id":"foreign","task":"ask","args":{"\xff":1},"deadline_in_us":1}'
        await app.driver.arun(Enqueue((NewJob("foreign", "default", "ask", body, delay_us=1_000_000),)))
        async with working_virtually(app):
            job = await ask.aenqueue()
            await work_for(30)
            return await ended(app, "foreign", "failed"), await state_of(app, job.id), hooks

    info, other, hooks = virtually(main)
    assert info.reason == "bad arguments"
    assert (other, hooks) == ("expired", [""])
