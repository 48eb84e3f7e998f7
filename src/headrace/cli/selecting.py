"""Which failed jobs a command means: ids, ids from standard input, or all that match filters."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import UTC, datetime
from functools import wraps
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from headrace.cli.options import duration
from headrace.cli.output import MICROS, now_us, printable, say
from headrace.cli.progress import progress
from headrace.core.failures import FailedFilter
from headrace.core.states import State
from headrace.core.wording import near

if TYPE_CHECKING:
    from headrace.cli.options import Settings
    from headrace.jobinfo import JobInfo
    from headrace.jobs import Jobs

F = TypeVar("F", bound=Callable[..., Any])

_PAGE = 1_000
_SAMPLE = 10

_queue = click.option("--queue", metavar="NAME", help="Only of this queue.")
_task = click.option("--task", metavar="NAME", help="Only of this task.")
_reason = click.option("--reason", metavar="TEXT", help="Only with this reason, as `failed list` shows it.")


def filters(command: F) -> F:
    """--queue, --task, --reason."""
    return _queue(_task(_reason(command)))


def meant(settings: Settings, where: FailedFilter) -> str:
    """For the note that nothing matches: which task, queue or reason was meant, where none is of that name."""
    app = settings.app()
    if where.task is not None and where.task not in app.tasks:
        return _meant("task", where.task, sorted(app.tasks)) or f": the app has no task {where.task!r}"
    if where.queue is not None and where.queue not in (queues := _queues(settings)):
        return _meant("queue", where.queue, queues) or f": there is no queue {where.queue!r}"
    if where.reason is not None:
        page = settings.jobs().find_failed(msgspec.structs.replace(where, reason=None), limit=_PAGE)
        return _meant("reason", where.reason, {info.reason for info in page.jobs})
    return ""


def _queues(settings: Settings) -> list[str]:
    """Those of the app's tasks, and those that jobs are in."""
    return sorted({*settings.app().task_queues, *(view.name for view in settings.jobs().queues())})


def _meant(option: str, given: str, known: Iterable[str]) -> str:
    close = near(given, sorted(known))
    return f": did you mean --{option} {' or '.join(map(quote, close))}?" if close else ""


_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_NAMES = ("queue", "task", "reason", "error", "text", "since", "until", "tenant", "tag", "fingerprint")


def moment(text: str) -> datetime:
    """So long ago, such as `2h`, a day (its beginning in UTC), or an ISO-8601 moment with its zone. A type of options.

    Raises:
        click.BadParameter: it is neither.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromtimestamp(now_us() / MICROS - _ago(text), UTC)
    if _DAY.fullmatch(text):
        return found.replace(tzinfo=UTC)
    if found.utcoffset() is None:  # B143
        raise click.BadParameter(
            f"{text!r} has no time zone: write {found.isoformat()}Z, or how long ago it was, such as 2h"
        )
    return found


def _ago(text: str) -> float:
    try:
        return duration(text)
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is no moment: write how long ago it was, such as 90s, 2h or 7d, a day such as 2026-11-30, which "
            "begins at midnight in UTC, or a moment such as 2026-11-30T18:00Z"
        ) from None


def failed_filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which failed jobs are meant, as one `where`."""

    @wraps(command)
    def gathered(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in _NAMES}
        return command(*args, where=FailedFilter(**given), **options)

    for option in (
        click.option("--fingerprint", metavar="HEX", help="Only of this group, as `failed groups` shows it."),
        click.option("--tag", metavar="TEXT", help="Only with this tag."),
        click.option("--tenant", metavar="NAME", help="Only of this tenant."),
        click.option("--until", type=moment, metavar="WHEN", help="Only failed before: 2h ago, a day, or a moment."),
        click.option("--since", type=moment, metavar="WHEN", help="Only failed since: 2h ago, a day, or a moment."),
        click.option("--text", metavar="TEXT", help="Only with this text in an error or in the arguments."),
        click.option("--error", metavar="TYPE", help="Only with this type of the last error."),
    ):
        gathered = option(gathered)
    return filters(gathered)


def selection(command: Callable[..., Any]) -> Callable[..., Any]:
    """Ids, or the filters and --all."""
    command = click.option("--all", "every", is_flag=True, help="All failed jobs (that match).")(command)
    return click.argument("ids", nargs=-1, metavar="[ID]...")(failed_filters(command))


def confirmation(command: F) -> F:
    """--yes and --dry-run."""
    command = click.option("--dry-run", is_flag=True, help="Say what would be done and do nothing.")(command)
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)


class Selection(msgspec.Struct, frozen=True):
    """What a command was asked to act on. `ids` is None where filters say it."""

    ids: tuple[str, ...] | None
    where: FailedFilter = FailedFilter()

    @classmethod
    def of(cls, ids: tuple[str, ...], where: FailedFilter, *, every: bool) -> Selection:
        """Checked: ids or filters, not both, and not neither.

        Raises:
            click.UsageError: otherwise.
        """
        given = every or where != FailedFilter()
        if ids and given:
            raise click.UsageError("give ids, or filters, not both")
        if ids == ("-",):
            ids = tuple(dict.fromkeys(line.strip() for line in sys.stdin if line.strip()))
            return cls(ids)
        if ids:
            return cls(tuple(dict.fromkeys(ids)))
        if not given:
            raise click.UsageError(
                "say which: ids, - to read them from standard input, --all, or a filter such as --task or --since"
            )
        return cls(None, where)

    def words(self) -> str:
        """The filters in words."""
        given = [f"{name} {value}" for name in _NAMES if (value := getattr(self.where, name)) is not None]
        return f" of {', '.join(given)}" if given else ""

    def found(self, jobs: Jobs, states: Container[State] = frozenset({State.FAILED})) -> Iterator[JobInfo]:
        """The failed jobs that match, newest first; of jobs that ids name, those in one of `states`."""
        if self.ids is not None:
            found = (jobs.get(id) for id in self.ids)
            yield from (info for info in found if info is not None and info.state in states)
            return
        cursor = None
        while True:
            page = jobs.find_failed(self.where, limit=_PAGE, cursor=cursor)
            yield from page.jobs
            cursor = page.next
            if cursor is None:
                return


def count(found: Iterator[JobInfo]) -> tuple[int, list[JobInfo]]:
    """How many there are, and the first few."""
    number, sample = 0, []
    with progress("counting") as bar:
        for number, info in enumerate(found, 1):
            if number <= _SAMPLE:
                sample.append(info)
            if number % _PAGE == 0:
                bar.update(number)
    return number, sample


def show_sample(number: int, sample: list[JobInfo]) -> None:
    """The first few jobs that would be acted on."""
    for info in sample:
        say(printable(f"  {info.id}  {info.task}  {info.reason or info.state}"))
    if number > len(sample):
        say(f"  and {number - len(sample):,} more")


def confirm(question: str, *, yes: bool) -> bool:
    """Ask on standard error, unless `yes`.

    Raises:
        click.UsageError: nobody is there to answer.
    """
    if yes:
        return True
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError("nobody answers: give --yes to go on without asking") from None
