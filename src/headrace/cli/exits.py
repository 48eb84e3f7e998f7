"""The exit codes of every command, in one place."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell is told."""

    OK = 0
    NO = 1
    USAGE = 2
    STORE = 3
    NOT_FOUND = 4
    INTERNAL = 70
    OUTPUT = 74
    INTERRUPTED = 130


MEANING = {
    ExitCode.OK: "done, and nothing to complain about",
    ExitCode.NO: "the answer is no: findings, jobs that were skipped, a question answered with no",
    ExitCode.USAGE: "wrong usage: an option, the app or a task's arguments",
    ExitCode.STORE: "the store cannot be reached, or refuses",
    ExitCode.NOT_FOUND: "no such job",
    ExitCode.INTERNAL: "a bug in headrace; run again with --verbose and report it",
    ExitCode.OUTPUT: "standard output cannot be written, as on a full disk",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C",
}
