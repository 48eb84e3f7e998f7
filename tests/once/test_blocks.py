"""`app.once(key)` around code outside of jobs: one block takes effect, the others get what it left."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    ConfigError,
    Headrace,
    InvalidArguments,
    LeaseLost,
    OnceBusy,
    OnceConflict,
    OnceFailed,
    TaskError,
    WrongColour,
)
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, TakeOnce
from headrace.core.operations import OnceEnd
from headrace.once import OnceRun
from tests.once.conftest import Block
from tests.waiting import await_until, wait_until


def leaving(result: Any) -> Any:
    def inside(run: OnceRun) -> None:
        if not run.done:
            run.result = result

    return inside


async def look(app: Headrace, key: str, scope: str = "") -> Any:
    return await app.driver.arun(LookOnce(f"once:{scope}", key))


async def test_the_first_block_takes_effect_and_later_ones_get_its_result(app: Headrace, block: Block) -> None:
    first = await block(leaving({"paid": [1, "€"]}), "charge:1", {"amount": 5})
    assert (first.done, first.key, first.lost) == (False, "charge:1", False)
    for result in ("another", None):
        later = await block(leaving(result), "charge:1", {"amount": 5})
        assert (later.done, later.result, later.fence) == (True, {"paid": [1, "€"]}, first.fence)
    other = await block(leaving(2), "charge:1", {"amount": 5}, scope="refunds")
    assert (other.done, other.fence > 0) == (False, True)
    assert (await look(app, "charge:1")).state == "done"


async def test_a_result_that_cannot_be_kept_does_not_free_the_key(app: Headrace, block: Block) -> None:
    """The effect has happened: whoever comes next must not have it a second time."""
    for key, result in (("odd", object()), ("large", "x" * 70_000)):
        with pytest.raises(InvalidArguments, match=f"'{key}' took effect, and later ones will not; but its result"):
            await block(leaving(result), key)
        later = await block(leaving("again"), key)
        assert (later.done, later.result) == (True, None)


async def test_a_block_is_entered_once(app: Headrace) -> None:
    """A second time its lease would not be renewed."""
    run = app.once("k")
    with pytest.raises(ValueError, match="its own"):
        async with run:
            raise ValueError("its own")
    with pytest.raises(TaskError, match=r"call app.once\(...\) for each"):
        async with run:
            pass


async def test_another_call_under_the_key_is_refused(block: Block) -> None:
    await block(leaving(1), "k", {"amount": 5, "to": "me"})
    assert (await block(leaving(1), "k", {"to": "me", "amount": 5})).done
    for arguments in ({"amount": 6, "to": "me"}, None, [1]):
        with pytest.raises(OnceConflict, match="'k' stands for a call with other arguments"):
            await block(leaving(1), "k", arguments)


async def test_a_block_that_raises_leaves_the_key_free_or_keeps_its_failure(block: Block) -> None:
    def broken(run: OnceRun) -> None:
        raise ValueError("declined")

    for _ in range(2):
        with pytest.raises(ValueError, match="declined"):
            await block(broken, "free")
    assert not (await block(leaving(1), "free")).done
    with pytest.raises(ValueError, match="declined"):
        await block(broken, "kept", failures="keep")
    with pytest.raises(OnceFailed, match="under the once key 'kept' has failed: ValueError: declined"):
        await block(leaving(1), "kept")


async def test_while_one_is_at_it_others_are_told_or_wait_for_their_turn(app: Headrace, block: Block) -> None:
    go_on, runs = threading.Event(), []

    async def slow(run: OnceRun) -> None:
        runs.append(run.done)
        await asyncio.to_thread(go_on.wait, 30)
        run.result = "slow"

    first = asyncio.create_task(block(slow, "k"))
    await await_until(lambda: runs)
    with pytest.raises(OnceBusy) as caught:
        await block(leaving("quick"), "k")
    assert 1 <= caught.value.retry_after <= 30
    with pytest.raises(OnceConflict):
        await block(leaving("quick"), "k", "other arguments")
    waiting = asyncio.create_task(block(leaving("quick"), "k", wait=30))
    free_waiting = asyncio.create_task(block(leaving("quick"), "k", wait=30))
    go_on.set()
    assert [(run.done, run.result) for run in await asyncio.gather(first, waiting, free_waiting)] == [
        (False, "slow"),
        (True, "slow"),
        (True, "slow"),
    ]


async def test_the_lease_is_renewed_while_the_block_runs(app: Headrace, block: Block) -> None:
    leases: list[int] = []

    async def long(run: OnceRun) -> None:
        async def renewed() -> bool:
            view = await asyncio.to_thread(app.driver.run, LookOnce("once:", "k"))
            assert view is not None
            assert view.owner == run._owner
            leases.append(view.lease_until_us or 0)
            return leases[-1] > leases[0] + 1_500_000  # it would have been over long ago

        await await_until(renewed, 20)
        assert not run.lost

    run = await block(long, "k", lease=1)
    assert (run.lost, (await look(app, "k")).state) == (False, "done")


async def test_a_block_that_blocks_its_loop_keeps_its_key(app: Headrace) -> None:
    """B040: for longer than the lease, which a thread renews."""

    def lease() -> int:
        view = app.driver.run(LookOnce("once:", "k"))
        assert view is not None
        return view.lease_until_us or 0

    async with app.once("k", lease=1) as run:
        before = lease()
        assert wait_until(lambda: lease() > before + 1_500_000, 20, "renewals")
    assert (run.lost, (await look(app, "k")).state) == (False, "done")


def test_the_lease_is_renewed_after_a_completion_that_was_refused(sqlite_path: Path) -> None:
    """Nothing was changed by it, and the block goes on."""
    app = Headrace(f"sqlite:///{sqlite_path}")
    connection = sqlite3.connect(sqlite_path, isolation_level=None)

    def lease() -> int:
        view = app.driver.run(LookOnce("once:", "k"))
        assert view is not None
        return view.lease_until_us or 0

    with app.once("k", lease=1) as run:
        connection.execute("begin immediate")
        with pytest.raises(InvalidArguments):
            run.complete(object(), transaction=connection)
        connection.execute("rollback")
        before = lease()
        wait_until(lambda: lease() > before + 1_500_000, 20, "renewals")
    assert not run.lost
    connection.close()
    app.close()


async def steal(app: Headrace, run: OnceRun) -> None:
    """What happens while this process is frozen for longer than its lease: somebody else takes the key."""
    end = OnceEnd("once:", run.key, run.fence, "free")
    assert await asyncio.to_thread(app.driver.run, EndOnce(run._owner, end))
    claim = OnceClaim("once:", run.key, b"x" * 32, "thief", lease_us=60_000_000)
    assert (await asyncio.to_thread(app.driver.run, TakeOnce((claim,))))[0].status == "mine"


async def test_a_block_that_has_lost_the_key_learns_of_it(app: Headrace, block: Block) -> None:
    async def robbed(run: OnceRun) -> None:
        await steal(app, run)
        await await_until(lambda: run.lost, 20)

    with pytest.raises(LeaseLost, match="'k' is not held any more"):
        await block(robbed, "k", lease=1)
    view = await look(app, "k")
    assert (view.state, view.owner) == ("held", "thief")


async def test_a_robbed_block_that_raises_takes_nothing_away(app: Headrace, block: Block) -> None:
    async def robbed(run: OnceRun) -> None:
        await steal(app, run)
        raise ValueError("its own error")

    with pytest.raises(ValueError, match="its own error"):
        await block(robbed, "k")
    assert (await look(app, "k")).owner == "thief"


async def test_a_cancelled_block_leaves_the_key_free(app: Headrace) -> None:
    entered = asyncio.Event()

    async def endless() -> None:
        async with app.once("k"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(endless())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with app.once("k") as run:
        assert not run.done


async def test_many_blocks_at_once_take_effect_once(app: Headrace, block: Block) -> None:
    effects = []

    def inside(run: OnceRun) -> None:
        if not run.done:
            effects.append(run.fence)
            run.result = run.fence

    runs = await asyncio.gather(*(block(inside, "k", wait=30) for _ in range(10)))
    assert len(effects) == 1
    assert {run.result for run in runs} == set(effects)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"key": ""}, InvalidArguments, "the once key must be a str of 1 to 500"),
        ({"key": "k" * 501}, InvalidArguments, "the once key must be a str of 1 to 500"),
        ({"key": 17}, InvalidArguments, "the once key must be a str"),
        ({"key": "k", "scope": "s" * 201}, InvalidArguments, "the once scope must be a str of 0 to 200 characters"),
        ({"key": "k", "scope": None}, InvalidArguments, "the once scope must be a str"),
        ({"key": "k", "scope": "a\0"}, InvalidArguments, "the once scope .* holds a NUL"),
        ({"key": "k", "scope": "\ud800"}, InvalidArguments, "the once scope .* half of a surrogate pair"),
        ({"key": "k", "arguments": object()}, InvalidArguments, "cannot be encoded as JSON"),
        ({"key": "k", "lease": 0.5}, ConfigError, "lease is 0.5: it must be at least 1 s"),
        ({"key": "k", "lifetime": 0}, ConfigError, "lifetime is 0"),
        ({"key": "k", "wait": "soon"}, ConfigError, "wait"),
        ({"key": "k", "failures": "?"}, ConfigError, "failures is"),
    ],
)
def test_what_can_be_no_block(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Headrace("memory://").once(**options)


async def test_a_blocking_block_does_not_block_a_loop() -> None:
    words = r"^`with app.once\(...\)` would .* use `async with app.once\(...\)`$"
    with pytest.raises(WrongColour, match=words), Headrace("memory://").once("k"):
        pass
