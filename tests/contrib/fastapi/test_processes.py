"""A worker inside the web process, killed and stopped; a server that loads its code anew."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.contrib.fastapi.test_served import UVICORN
from tests.contrib.serving import PATIENCE, ROOT, Shop, Web, shops
from tests.waiting import wait_until


@pytest.fixture(params=["sqlite"])
def shop(request: pytest.FixtureRequest, unique_name: str, tmp_path: Path) -> Iterator[Shop]:
    yield from shops(request, unique_name, tmp_path)


def test_a_web_process_with_a_worker_runs_its_own_jobs(shop: Shop) -> None:
    web = shop.web(*UVICORN, SHOP_WORKER="1")
    assert web.order(1) == 201
    shop.wait_for_mails([1])
    assert web.stop() in {0, -signal.SIGTERM}  # uvicorn raises the signal again once all is closed
    assert shop.jobs.jobs.workers() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_web_process_that_is_told_to_stop_hands_back_what_does_not_end(shop: Shop, number: signal.Signals) -> None:
    """The server keeps its signals: a worker that took them for itself would leave it hanging."""
    web = shop.web(*UVICORN, SHOP_WORKER="1", SHOP_STUCK="1")
    assert web.order(1) == 201
    wait_until(shop.held.exists, PATIENCE, "the job to begin")
    web.stop(number)
    (queue,) = shop.jobs.jobs.queues()
    assert (queue.running, queue.ready + queue.scheduled) == (0, 1)


def test_jobs_of_a_killed_web_process_wait_for_the_next_one(shop: Shop) -> None:
    web = shop.web(*UVICORN, SHOP_WORKER="1", SHOP_STUCK="1")
    assert web.order(1) == 201
    wait_until(shop.held.exists, PATIENCE, "the job to begin")
    web.kill()
    assert shop.mails() == []
    shop.web(*UVICORN, SHOP_WORKER="1")
    shop.wait_for_mails([1])  # once the lease of the dead process is over


@pytest.fixture
def reloading(shop: Shop, tmp_path: Path) -> Iterator[Web]:
    """A server that watches a folder, with the app in it."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "entry.py").write_text("from tests.contrib.fastapi.shop import web\n")
    arguments = ("-m", "uvicorn", "entry:web", "--port", "{port}", "--reload", "--app-dir", str(tmp_path / "site"))
    web = shop.web(
        *arguments,
        "--reload-dir",
        str(tmp_path / "site"),
        PYTHONPATH=os.pathsep.join([str(ROOT), str(tmp_path / "site")]),
    )
    family = psutil.Process(web.pid).children(recursive=True)
    yield web
    family += psutil.Process(web.pid).children(recursive=True)
    web.stop()
    for child in family:
        if child.is_running():
            child.kill()


def test_a_server_that_loads_its_code_anew_goes_on(shop: Shop, reloading: Web, tmp_path: Path) -> None:
    before = reloading.up()
    assert reloading.order(1) == 201
    (tmp_path / "site" / "entry.py").write_text("from tests.contrib.fastapi.shop import web\n\nAGAIN = True\n")
    reloading.watch(lambda: reloading.up() not in {None, before}, "the new process")
    assert reloading.order(2) == 201
    assert shop.waiting() == 2
