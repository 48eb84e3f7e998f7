"""Which failures that users of other job systems met are tested here, and by whom the table is kept true.

The cases are numbered; comments and tests all over this project cite the numbers. Areas A to D, G, L and R are listed
whole, of F and H what loses work, does it twice or needs an operator.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

# number, status, what went wrong elsewhere, and after a bar what is missing.
#   tested   its scenario, end to end
#   partly   as far as the parts that it needs exist
#   later    the part that could fail like this does not exist yet
TABLE = """
A. Lost or stranded jobs: a worker's death and shutdown
B001 tested  a job vanishes when its worker is killed
B002 tested  the retry policy is ignored when the worker is killed
B003 tested  SIGTERM between claim and start orphans the job
B005 tested  a finished job is not reported on a warm shutdown and runs again
B006 tested  delayed jobs held in a worker's memory are lost
B007 tested  a child killed for its memory counts as done
B009 tested  the crash count belongs to something that changes with each delivery
B010 tested  a MemoryError in a job blocks the whole pool
B011 tested  an orphan waits for the job's timeout instead of the heartbeat's
B012 tested  rescue by time alone runs a job again that is alive
B013 tested  a dead worker's row is pruned first, and its jobs are invisible
B015 tested  the rescue job itself gets stuck
B016 partly  a dead claim occupies the slot that its own recovery needs | concurrency keys
B017 tested  cancelled at shutdown, the job stays claimed
B018 tested  a job without a timeout is never recovered
B019 partly  a job is dropped between claim and start, and its slot leaks | concurrency keys
B020 partly  a crash is recorded as the user's failure | the supervisor
B021 tested  a worker lives on when its heartbeats fail
B022 later   a replacement hangs while it starts and is never replaced | the supervisor
B023 tested  orphans are only recovered when some process starts
B024 tested  deploys use up the attempts
B025 tested  failed jobs fill the store
B. Redis: restart, reconnect, failover
B026 tested  a worker silently stops consuming after a reconnect
B027 partly  heartbeats go on while nothing is consumed | the health endpoint and the supervisor that reads it
B029 tested  a read timeout shorter than the blocking pop makes idle workers quit
B030 tested  delayed jobs do not run after a restart
B031 tested  delayed jobs are late after a lost connection
B032 tested  an enqueue during a restart silently loses jobs
B033 tested  scripts are unknown after a restart
B034 tested  keys of one script in several slots of a cluster
B036 tested  the server is full, or evicts
B037 partly  a flush removes the schedules | schedules
C. The same job runs twice
B038 tested  a delay longer than the visibility timeout makes copies
B039 tested  a lease shorter than the run: a second run and a false failure
B040 tested  blocking code in the event loop stops the renewal of the lease
B042 tested  the heartbeat is as rare as the lease is long
B043 tested  a sweeper takes a job that is just being started
B044 tested  a timed-out attempt goes on while its retry starts
B046 tested  two maintenance loops act on the same expired row
B047 tested  a restart of the database drops session locks while the job runs
D. Unique jobs and locks
B049 tested  a unique key stays taken after a crash
B050 tested  a shutdown gives the job back but drops its key
B051 tested  a key stays taken when the job fails without retries
B054 tested  deleting a waiting job leaves its key
B055 tested  cancelling an unknown id kills the next job with that id
B056 tested  a fixed id inherits fields of the run before
B057 partly  a race for a concurrency key leaves a job blocked | concurrency keys
B058 tested  a job is stuck in cancelling
F. Delays, schedules, clocks
B075 tested  all jobs of the future are pulled into a worker's memory
B076 tested  due jobs stay with the worker that fetched them early
B077 later   an hourly schedule skips the repeated hour | schedules
B078 later   an hour late on the day the clocks change | schedules
B079 later   a daily job runs twice when the clocks change | schedules
B080 later   the scheduler stops when the clocks change | schedules
B083 later   a restart adds the schedule again | schedules
B084 later   the next occurrence is made only when the last one ends | schedules
B085 later   only the leader's schedules exist | schedules
B086 later   down at the scheduled minute: the run is lost or doubled | schedules
G. Poison messages and serialisation
B088 tested  an exception that cannot be unpickled kills the main process
B090 tested  replay of a job whose payload was trimmed
B092 tested  an import error in a job's module leaves it in limbo
B093 later   saving metadata on the failure path raises | progress and metadata of a job
B094 tested  text that is not ASCII, or broken
B096 tested  UUID, datetime and Decimal change their type on the way
B097 tested  a result cannot be stored after the work is done
B098 tested  producer and worker use different formats
B099 tested  the limit of a notification makes the enqueue fail
B100 tested  NaN and Infinity
B101 tested  an oversized payload or error text
B102 tested  deep nesting
B103 partly  a message grows with the workflow it belongs to | batches and chains
B104 tested  the user hands over a client that decodes
H. Timeouts, cancellation, synchronous code
B105 tested  a time limit cannot stop a blocking call; all slots hang
B106 tested  a timeout hits outside of the guarded code and kills the thread
B107 tested  a cancellation is no Exception
B108 tested  a swallowed cancellation makes the shutdown hang
B110 tested  a cancel changes the state, and the handler runs on
B111 tested  a hook for timeouts without the job's data, or none
L. Failed jobs and their replay
B135 tested  retrying all failed jobs makes copies
B137 tested  a replayed job fails at once since its deadline has passed
B138 tested  hooks for failed jobs are passed over on some ways
R. Circuits
B161 tested  a shared circuit never leaves the open state
B162 tested  a half-open circuit lets everybody through
"""

SIZES = {"A": 22, "B": 10, "C": 8, "D": 8, "F": 10, "G": 14, "H": 6, "L": 3, "R": 2}


class Case(NamedTuple):
    area: str
    number: str
    status: str
    title: str
    missing: str


def read(table: str) -> list[Case]:
    cases, area = [], ""
    for line in table.strip().splitlines():
        if not re.match(r"B\d{3} ", line):
            area = line.partition(".")[0]
            continue
        number, status, rest = line.split(maxsplit=2)
        title, _, missing = rest.partition(" | ")
        cases.append(Case(area, number, status, title, missing))
    return cases


CASES = read(TABLE)


def named_by_tests() -> dict[str, list[str]]:
    """Number -> the files whose tests name it. What a module says at its top about itself does not count."""
    found: dict[str, list[str]] = {}
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    for path in sorted([*tests, *(ROOT / "src/headrace/testing/conformance").glob("*.py")]):
        text = path.read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(text), clean=False) or ""
        for number in sorted(set(re.findall(r"\bB\d{3}\b", text.replace(about, "", 1)))):
            found.setdefault(number, []).append(path.relative_to(ROOT).as_posix())
    return found


def test_the_table_is_whole() -> None:
    numbers = [case.number for case in CASES]
    assert numbers == sorted(set(numbers))
    assert {area: sum(case.area == area for case in CASES) for area in SIZES} == SIZES
    assert len(CASES) == sum(SIZES.values())
    assert {case.status for case in CASES} == {"tested", "partly", "later"}
    assert [case.number for case in CASES if bool(case.missing) == (case.status == "tested")] == []


def test_every_case_that_is_said_to_be_tested_is_named_by_a_test() -> None:
    named = named_by_tests()
    unnamed = [f"{case.number} {case.title}" for case in CASES if case.status != "later" and case.number not in named]
    assert not unnamed, "no test names\n" + "\n".join(unnamed)


def test_no_case_that_is_left_for_later_is_named_by_a_test() -> None:
    named = named_by_tests()
    stale = {case.number: named[case.number] for case in CASES if case.status == "later" and case.number in named}
    assert not stale, "tested by now: change the table"


@pytest.mark.parametrize("text", ['"""B001."""\n', "x = 1\n"])
def test_a_modules_own_words_do_not_count(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(text)
    (tmp_path / "tests/test_b.py").write_text(text + 'def test_b():\n    """B002"""\n')
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert named_by_tests() == {"B002": ["tests/test_b.py"]}
