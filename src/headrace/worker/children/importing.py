"""Whether this process is a child that still imports what it is to run."""

from __future__ import annotations

import sys

from headrace.errors import ConfigError

NAME = "headrace-child-"  # before the number of each child, known before its first import


class _Stage:
    ready = False


def be_ready() -> None:
    """In a child: all is imported."""
    _Stage.ready = True


def refuse_worker() -> None:
    """Where a program has no main guard, its children, which import it, would start workers with children.

    Raises:
        ConfigError: this process is such a child.
    """
    # multiprocessing is not imported for this: in a child it is there
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None or _Stage.ready:
        return
    if multiprocessing.current_process().name.startswith(NAME):
        raise ConfigError(
            "a worker was started by the mere import of a module, in a child process that a worker has for jobs with "
            'run_in="process": put what starts it under  if __name__ == "__main__":'
        )
