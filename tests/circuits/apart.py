"""A task that calls through a circuit in a child process, in a module that a child can import."""

import os

from headrace import Fail, Headrace

app = Headrace("memory://")
smtp = app.circuit("smtp", window=20, minimum=20, record=(OSError, ZeroDivisionError), ignore=FileNotFoundError)


@app.task(name="call", circuit=smtp, retry=1, run_in="process")
def call(how: str) -> None:
    if how == "crash":
        os._exit(3)
    raising = {
        "recorded": ConnectionError(),
        "ignored": FileNotFoundError(),
        "other": KeyError(),
        "verdict": Fail("no"),
    }
    if how in raising:
        raise raising[how]
