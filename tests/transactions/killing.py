"""An app whose worker dies in the middle of a job that ends in the handler's own transaction; for `headrace work`."""

import asyncio
import os
import signal
from pathlib import Path

from headrace import Headrace, current_job
from tests.transactions.callers import KINDS

URL, NAME, KIND, PLACE, TABLE, FOLDER, MOMENT = os.environ["HEADRACE_KILLING"].split("|")

app = Headrace(URL, name=NAME, lease=1.5, heartbeat=0.5, busy_timeout=0.5)


def die(moment: str) -> None:
    """SIGKILL or SIGSTOP at this moment of the first run, if it is the one that was named."""
    mark = Path(FOLDER) / "died"
    if moment == MOMENT.partition("-")[2] and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGSTOP if MOMENT.startswith("frozen") else signal.SIGKILL)


@app.task(name="work", keep=3600)
def work() -> None:
    with (Path(FOLDER) / "runs").open("a") as runs:
        runs.write(f"{current_job().token}\n")
    caller = KINDS[KIND][1](PLACE, TABLE)
    number = len((Path(FOLDER) / "runs").read_text().split())
    caller.order(number)
    die("begun")
    current_job().complete(transaction=caller.handle)
    die("completed")
    caller.commit()
    die("committed")
    caller.close()


@app.task(name="wait", keep=3600)
async def wait() -> None:
    """Holds a claim of the same worker for as long as it lives."""
    if not (Path(FOLDER) / "died").exists():
        await asyncio.Event().wait()
