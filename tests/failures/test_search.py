"""Finding failed jobs, and telling which of them are the same failure."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace import ConfigError, FailedFilter, Headrace
from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.failures import Place, own_frame, place
from headrace.core.states import State
from headrace.core.trail import Mishap, Trail
from tests.failures.failing import TRACE, claimed, fail, fail_many, memory, settle


def found(app: Headrace, **where: object) -> list[str]:
    return [info.id for info in app.jobs.find_failed(FailedFilter(**where)).jobs]  # type: ignore[arg-type]


def test_filters_by_what_stands_in_the_message_and_the_history(shop: Headrace) -> None:
    mail = shop.tasks["mail"]
    first = fail(shop, lambda: mail.using(tenant="t1", tags=["a", "b"]).enqueue(1, to="Ann"))
    second = fail(shop, lambda: mail.using(tenant="t2").enqueue(2), "TimeoutError", "Deadline is over")
    third = fail(shop, lambda: shop.tasks["charge"].enqueue(3))
    assert found(shop) == [third, second, first]
    assert found(shop, task="charge") == [third]
    assert found(shop, error="TimeoutError") == found(shop, reason="TimeoutError") == [second]
    assert found(shop, tenant="t1") == found(shop, tag="b") == found(shop, text="ann") == [first]
    assert found(shop, text="DEADLINE") == [second]
    assert found(shop, text="no answer") == [third, first]
    assert found(shop, text="ann", tenant="t2") == found(shop, queue="x") == found(shop, tag="z") == []


def test_filters_by_time(shop: Headrace) -> None:
    first = fail(shop, lambda: shop.tasks["mail"].enqueue(1))
    info = shop.jobs.get(first)
    assert info is not None
    assert info.finished is not None
    end = info.finished
    second = fail(shop, lambda: shop.tasks["mail"].enqueue(2))
    later = end + timedelta(microseconds=1)
    assert found(shop, since=later) == [second]
    assert found(shop, until=later) == found(shop, since=end, until=later) == [first]
    assert found(shop, since=datetime.max.replace(tzinfo=UTC)) == []
    with pytest.raises(ConfigError, match="since is the naive datetime"):
        FailedFilter(since=datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused


def test_pages_are_filled_and_follow_each_other(shop: Headrace) -> None:
    ids = [fail(shop, lambda n=n: shop.tasks["mail"].using(tags=["odd"] if n % 2 else []).enqueue(n)) for n in range(9)]
    where = FailedFilter(tag="odd")
    first = shop.jobs.find_failed(where, limit=3)
    assert [info.id for info in first.jobs] == [ids[7], ids[5], ids[3]]
    assert all(info.body is None for info in first.jobs)
    rest = shop.jobs.find_failed(where, limit=3, cursor=first.next)
    assert ([info.id for info in rest.jobs], rest.next) == ([ids[1]], None)
    with pytest.raises(ConfigError, match="limit is 0"):
        shop.jobs.find_failed(limit=0)


def test_reading_ends_where_since_is_passed(shop: Headrace) -> None:
    fail_many(shop, 30)
    newest = fail(shop, lambda: shop.tasks["mail"].enqueue(99))
    info = shop.jobs.get(newest)
    assert info is not None
    page = shop.jobs.find_failed(FailedFilter(since=info.finished), limit=10)
    assert ([one.id for one in page.jobs], page.next) == ([newest], None)


def test_what_matches_is_retried_or_forgotten(shop: Headrace) -> None:
    first = fail(shop, lambda: shop.tasks["mail"].using(tenant="t1").enqueue(1))
    second = fail(shop, lambda: shop.tasks["mail"].using(tenant="t2").enqueue(2))
    assert shop.jobs.retry_failed(where=FailedFilter(tenant="t1")).retried == 1
    assert shop.jobs.forget_failed(where=FailedFilter(tenant="t2")) == 1
    info = shop.jobs.get(first)
    assert info is not None
    assert (info.state, shop.jobs.get(second)) == (State.READY, None)
    with pytest.raises(ConfigError, match="put them into the FailedFilter too"):
        shop.jobs.retry_failed(queue="x", where=FailedFilter())


def test_failures_of_one_type_and_place_are_one_group(shop: Headrace) -> None:
    ids = [fail(shop, lambda: shop.tasks["mail"].enqueue(1)) for _ in range(3)]
    (other,) = [fail(shop, lambda: shop.tasks["charge"].enqueue(1), "KeyError", "'x'")]
    shop.tasks["mail"].enqueue(7)
    settle(shop, claimed(shop), trail=memory(line=99, message="another text"), reason="SMTPError")
    first, second = shop.jobs.failure_groups()
    assert (first.type, first.place, first.count, first.tasks) == ("SMTPError", "mail.send", 4, ("mail",))
    assert (second.type, second.count, second.example, second.message) == ("KeyError", 1, other, "'x'")
    assert first.first < first.last
    assert len(first.fingerprint) == 12
    assert set(ids) < set(found(shop, fingerprint=first.fingerprint))
    assert found(shop, fingerprint=second.fingerprint) == [other]
    assert [group.count for group in shop.jobs.failure_groups(FailedFilter(task="charge"))] == [1]


# -- places


def view(task: str = "mail", reason: str = "") -> ops.JobView:
    return ops.JobView("a", "q", task, State.FAILED, 0, 1, 0, 0, 0, reason=reason)


def frames(*files: str) -> str:
    return "".join(
        ["Traceback (most recent call last):\n", *(f'  File "{one}", line 7, in send\n    x\n' for one in files)]
    )


@pytest.mark.parametrize(
    ("task", "files", "named"),
    [
        ("shop.mail.send", ["/srv/releases/2026-11-30/shop/mail.py"], "shop.mail.send"),
        ("shop.mail.send", ["/elsewhere/shop/shop/mail.py"], "shop.mail.send"),
        ("shop.mail.send", [r"C:\shop\mail.py"], "shop.mail.send"),
        ("shop.mail.send", ["/srv/shop/mail/__init__.py"], "shop.mail.send"),
        ("shop.mail.send", ["/srv/v1/shop/mail.py", "/srv/v1/shop/net/smtp.py"], "shop.net.smtp.send"),
        ("shop.mail.send", ["/srv/v1/shop/mail.py", "/srv/v1/common/net.py"], "common.net.send"),
        ("shop.mail.send", ["/srv/v1/shop/mail.py", "/srv/common/net.py"], "net.send"),
        ("shop.mail.send", ["/srv/v1/shop/net/smtp.py"], "shop.net.smtp.send"),  # its own frame was cut off
        ("shop.send", ["/srv/rel_a/shop.py"], "shop.send"),
        ("shop.send", ["/srv/rel_b/shop.py"], "shop.send"),
        ("shop.send", ["/srv/shop/shop.py"], "shop.send"),
        ("shop.send", ["/srv/shop/rel_a/shop.py", "/srv/shop/rel_a/net.py"], "net.send"),
        ("send", ["/srv/rel_a/shop/mail.py"], "mail.send"),  # a name of its own tells nothing
        ("", ["/srv/releases/17/mail.py"], "mail.send"),
        ("", ["mail.py"], "mail.send"),
    ],
)
def test_a_place_does_not_depend_on_the_folders_of_a_deploy(task: str, files: list[str], named: str) -> None:
    assert own_frame(frames(*files), task) == named


def test_libraries_and_causes_are_passed_over() -> None:
    cause = TRACE.format(line=1, type="OSError", message="gone").replace("in send", "in connect")
    last = TRACE.format(line=1, type="MailError", message="no")
    assert own_frame(f"{cause}\nThe above exception was the direct cause of the following:\n\n{last}") == "mail.send"
    library = 'Traceback (most recent call last):\n  File "/usr/lib/python3.13/json/decoder.py", line 1, in decode\n'
    assert own_frame(f"{cause}\n{library}") == "mail.connect"
    assert own_frame(library) == "json.decoder.decode"
    assert own_frame("") == own_frame("no frames") == ""


def test_failures_without_a_traceback_have_their_task_as_place() -> None:
    crash = Mishap("crash", 5, 1, "w", "WorkerLost", "the lease of w ran out")
    late = Mishap("timeout", 5, 1, "w", "TimeoutError", "still running after 3 s")
    assert place(Trail(history=(crash,)), view()) == Place("WorkerLost", "mail")
    assert place(Trail(history=(late,)), view()) == Place("TimeoutError", "mail")
    assert place(Trail(), view(reason="unreadable")) == Place("unreadable", "mail")
    assert Place("a", "b").fingerprint == Place("a", "b").fingerprint != Place("a", "c").fingerprint


def test_a_decision_about_an_error_is_grouped_with_it() -> None:
    error = Mishap("error", 9, 1, "w", "SMTPError", "no", TRACE.format(line=1, type="SMTPError", message="no"))
    decision = Mishap("error", 9, 1, "w", "Fail", "nobody lives there")
    assert place(Trail(history=(error, decision)), view()) == Place("SMTPError", "mail.send")
    later = Mishap("error", 12, 2, "w", "Fail", "by itself")
    assert place(Trail(history=(error, later)), view()).type == "Fail"


def test_old_trails_are_read() -> None:
    old = b'{"attempts":1,"history":[{"kind":"error","at_us":5,"attempt":1,"worker":"w","type":"E"}]}'
    read = trail.decode(old)
    assert (read.history[0].version, read.edits) == ("", ())
    assert trail.encode(read) == old
