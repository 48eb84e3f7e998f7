"""Event loops differ in how they tell of a connection that was reset."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.errors import StoreUnavailable
from tests.process.mysql_jobs import open_driver
from tests.proxy import Proxy
from tests.servers import free_port

Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS: list[Loop] = [asyncio.new_event_loop]
with contextlib.suppress(ImportError):
    import uvloop

    LOOPS.append(uvloop.new_event_loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_is_reset_while_it_is_made_is_a_store_that_is_away(
    proxy_factory: Callable[[str], Proxy], unique_name: str, loop: Loop
) -> None:
    """A worker gives up an outcome for any other error, and its job runs again."""
    driver = open_driver(proxy_factory(f"mysql://somebody@127.0.0.1:{free_port()}/nothing").url, unique_name)

    async def main() -> set[Any]:
        asked = [driver.arun(ops.Get("a job")) for _ in range(20)]
        return {type(answer) for answer in await asyncio.gather(*asked, return_exceptions=True)}

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(main()) == {StoreUnavailable}
    driver.close()
