"""The parts of a child that need no process: its gate for interruptions, how tasks are found, names of ends."""

import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from headrace.errors import ConfigError, JobInterrupted
from headrace.worker.children import finding, system
from headrace.worker.children.gate import Gate, Terminated
from headrace.worker.options import WorkerOptions
from tests.children import jobs

HERE = "tests.children.jobs"


@pytest.fixture
def gate() -> Iterator[Gate]:
    """With its signal handler, in the main thread."""
    gate = Gate()
    before = signal.signal(signal.SIGTERM, gate.on_signal)
    yield gate
    signal.signal(signal.SIGTERM, before)


def test_an_interruption_hits_its_own_run_only(gate: Gate) -> None:
    """B106: asked for before, in and after 2,000 calls: it is raised in that call, or not at all."""
    runs, told = threading.Semaphore(0), 0
    rng, found = random.Random(106), Counter[str]()

    def tell() -> None:
        nonlocal told
        for number in range(1, 2001):
            runs.acquire()
            sum(range(rng.randrange(3000)))
            gate.stop(number, "timeout")
            told = number

    telling = threading.Thread(target=tell)
    telling.start()
    for number in range(1, 2001):
        runs.release()
        try:
            with gate.open(number):
                sum(range(3000))
            found["whole"] += 1
        except JobInterrupted as error:
            found[error.why] += 1
        finally:
            gate.close()
        sum(range(100))
    telling.join()
    assert told == 2000
    assert found.total() == 2000
    assert found["timeout"] > 0


def test_who_was_told_before_does_not_begin(gate: Gate) -> None:
    begun = []
    assert not gate.stop(3, "cancel")
    with pytest.raises(JobInterrupted, match="cancel"), gate.open(3):
        begun.append(3)
    with gate.open(4):
        begun.append(4)
    assert begun == [4]


def test_the_second_signal_is_the_end(gate: Gate) -> None:
    def deaf() -> None:
        with pytest.raises(JobInterrupted):
            gate.stop(1, "timeout")
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Terminated), gate.open(1):
        deaf()


def test_a_signal_that_nobody_asked_for_does_nothing(gate: Gate) -> None:
    with gate.open(1):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert not gate.raised


def test_nothing_is_raised_within_a_message(gate: Gate) -> None:
    sent = []

    def send() -> None:
        with gate.shield():
            gate.stop(1, "timeout")
            sent.append("whole")
        sent.append("never")

    with pytest.raises(JobInterrupted), gate.open(1):
        send()
    assert sent == ["whole"]


def test_a_task_is_found_by_its_place() -> None:
    assert finding.find(HERE, "note", jobs.note.name) is jobs.note
    for module, place, name in (
        (HERE, "note", "another"),
        (HERE, "anote", jobs.note.name),
        ("json", "note", jobs.note.name),
        ("not.there", "note", jobs.note.name),
    ):
        with pytest.raises(LookupError, match="in a child process"):
            finding.find(module, place, name)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-11, "killed by SIGSEGV"),
        (-250, "killed by signal 250"),
        (None, "gone"),
    ],
)
def test_an_end_in_words(code: int | None, words: str) -> None:
    assert system.how_it_ended(code) == words


def test_there_are_never_more_children_than_slots() -> None:
    assert WorkerOptions(queues=("a",), processes=8, concurrency=3).process_limit == 3
    assert WorkerOptions(queues=("a",)).process_limit >= 1
    with pytest.raises(ConfigError, match="child_max_jobs is 0"):
        WorkerOptions(queues=("a",), child_max_jobs=0)
