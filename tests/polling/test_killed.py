"""Workers that die in the middle of polls."""

import signal

from headrace import State
from tests.cases.conftest import StartWorks
from tests.waiting import wait_until

POLLS = """
from headrace import Pending, current_job

@app.poll(name="ask", every="50ms", max_polls=3, keep=3600, unique="{order}")
def ask(order: str):
    job = current_job()
    say("query", job.poll)
    if said("query") == 2:
        os.kill(os.getpid(), signal.SIGKILL)  # the upstream has answered, and nobody will ever know what
    return "paid" if order == "final" and job.poll == 3 else Pending()

@ask.on_final(name="final")
def final(order: str, result: str) -> None:
    say("end", result)

@ask.on_timeout(name="in-vain")
def in_vain(order: str) -> None:
    say("end", "in-vain")
    if said("end") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_killed_between_query_and_report(works: StartWorks) -> None:
    """That query is made again, as the second; nothing is counted twice, and one hook runs."""
    shop = works(POLLS)
    first = shop.start()
    job = shop.app.tasks["ask"].enqueue(order="final")
    assert first.wait(30) == -signal.SIGKILL
    assert shop.app.tasks["ask"].enqueue(order="final").id == job.id  # it still holds its key
    shop.start()
    shop.start()
    shop.wait_for("end paid")
    assert shop.said == ["query 1", "query 2", "query 2", "query 3", "end paid"]
    info = shop.app.jobs.get(job.id)
    assert info is not None
    assert (info.state, info.counts["polls"], info.counts["crashes"]) == (State.SUCCEEDED, 2, 0)
    assert [mishap.kind for mishap in info.history] == ["crash"]


def test_a_worker_killed_in_a_hook(works: StartWorks) -> None:
    """The poll has ended, and its hook is a job like any other: it runs again."""
    shop = works(POLLS.replace('said("query") == 2', "False"))
    first = shop.start()
    job = shop.app.tasks["ask"].enqueue(order="never")
    assert first.wait(30) == -signal.SIGKILL
    info = shop.app.jobs.get(job.id)
    assert info is not None
    assert (info.state, info.reason) == (State.EXPIRED, "timed out")
    shop.start()
    shop.wait_for("end in-vain", 2)
    wait_until(lambda: shop.app.jobs.get(f"{job.id}/end") is None, 30, "the end of the hook")
    assert shop.said == ["query 1", "query 2", "query 3", "end in-vain", "end in-vain"]
