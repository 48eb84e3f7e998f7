"""Failed jobs in Django's admin: who may see them, what they look like, and what can be done."""

import html
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from tests.contrib.django import inside
from tests.contrib.django.inside import own_tables

inside.set_up()

from django.contrib.admin.models import LogEntry  # noqa: E402
from django.contrib.auth.models import Permission, User  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402

from headrace.contrib.django import app  # noqa: E402

LIST = "/admin/headrace/failedjob/"
SCRIPT = "<script>alert(1)</script>"


@app.task(name="shop.mail", queue="mail")
def mail(text: str = "") -> None:
    """Never run here."""


@app.task(name="shop.report")
def report(text: str = "") -> None:
    """Never run here."""


@pytest.fixture(autouse=True)
def tables(tmp_path: Path) -> Iterator[None]:
    with own_tables(tmp_path):
        yield


def fail(task: Any = mail, count: int = 1, error: str = "SMTPError", text: str = "hello") -> list[str]:
    """Jobs as a worker leaves them when they have failed; their ids, oldest first."""
    jobs = [task.enqueue(text=text) for _ in range(count)]
    claimed = app.driver.run(ops.Claim("w1", app.clock.unix_us(), (task.queue,), count, 30_000_000))
    mishap = trail.Mishap("error", 1_700_000_000_000_000, 1, "w1", error, f"about {text}", f"Traceback:\n  {text}")
    after = trail.encode(trail.Trail(attempts=1, errors=1, history=(mishap,)))
    outcomes = [
        ops.Outcome(job.id, job.queue, job.token, State.FAILED, trail=after, reason=error) for job in claimed.jobs
    ]
    assert all(app.driver.run(ops.Settle("w1", tuple(outcomes))))
    return [job.id for job in jobs]


@pytest.fixture
def browser() -> Callable[..., Client]:
    """Somebody of the staff, with these permissions."""

    def made(*permissions: str) -> Client:
        user = User.objects.create_user("someone", is_staff=True)
        for name in permissions:
            user.user_permissions.add(Permission.objects.get(codename=f"{name}_failedjob"))
        client = Client()
        client.force_login(user)
        return client

    return made


def test_who_may_see_them(browser: Callable[..., Client]) -> None:
    (id,) = fail()
    pages = (LIST, f"{LIST}{id}/change/")
    assert {Client().get(page).status_code for page in pages} == {302}  # to the log-in
    client = browser()
    assert {client.get(page).status_code for page in pages} == {403}
    assert "failedjob" not in client.get("/admin/").content.decode()


def test_the_index_leads_to_a_list_with_filters(browser: Callable[..., Client]) -> None:
    fail(mail, 2)
    fail(report, 1, error="ValueError")
    client = browser("view")
    assert LIST in client.get("/admin/").content.decode()
    for query, count in (
        ("", 3),
        ("?queue=mail", 2),
        ("?task=shop.report", 1),
        ("?reason=SMTPError", 2),
        ("?reason=SMTPError&task=shop.report", 0),
    ):
        page = client.get(LIST + query).content.decode()
        assert page.count('<th><a href="/admin/headrace/failedjob/') == count, query
        assert 'name="action"' not in page  # whoever may only look has no buttons


def test_a_long_list_has_pages(browser: Callable[..., Client]) -> None:
    fail(mail, 130)
    client = browser("view")
    first = client.get(LIST).content.decode()
    assert first.count('<th><a href="') == 100
    following = html.unescape(first.split('class="paginator"><a href="')[1].split('"')[0])
    assert client.get(LIST + following).content.decode().count('<th><a href="') == 30


def test_nothing_that_a_job_says_is_markup(browser: Callable[..., Client]) -> None:
    (id,) = fail(error=SCRIPT, text=SCRIPT)
    client = browser("view", "change", "delete")
    for page in (
        client.get(LIST),
        client.get(f"{LIST}{id}/change/"),
        client.get(LIST, {"queue": SCRIPT, "task": SCRIPT, "reason": SCRIPT}),
        client.post(LIST, {"action": "forget", "id": SCRIPT, "task": SCRIPT}),
        client.get(f"{LIST}_3Cscript_3E/change/", follow=True),
    ):
        text = page.content.decode()
        assert page.status_code == 200
        assert "<script>alert" not in text
        assert "<script>" not in text
    assert "&lt;script&gt;alert(1)" in client.get(f"{LIST}{id}/change/").content.decode()


def test_retry_needs_the_permission_to_change(browser: Callable[..., Client]) -> None:
    (id,) = fail()
    client = browser("view", "delete")
    assert client.post(LIST, {"action": "retry", "id": id}).status_code == 403
    assert app.jobs.get(id).state == "failed"  # type: ignore[union-attr]


def test_forget_needs_the_permission_to_delete(browser: Callable[..., Client]) -> None:
    (id,) = fail()
    client = browser("view", "change")
    for more in ({}, {"confirmed": "1"}):
        assert client.post(f"{LIST}{id}/change/", {"action": "forget", **more}).status_code == 403
    assert app.jobs.get(id).state == "failed"  # type: ignore[union-attr]


def test_selected_jobs_are_made_ready_again_and_the_log_says_by_whom(browser: Callable[..., Client]) -> None:
    first, second, third = fail(mail, 3)
    client = browser("view", "change")
    page = client.post(LIST, {"action": "retry", "id": [first, second], "queue": "mail"}, follow=True)
    assert page.redirect_chain == [(f"{LIST}?queue=mail", 302)]
    assert "2 failed jobs ready again." in page.content.decode()
    assert [app.jobs.get(id).state for id in (first, second, third)] == ["ready", "ready", "failed"]  # type: ignore[union-attr]
    logged = LogEntry.objects.order_by("id").values_list("object_id", "change_message", "user__username")
    assert list(logged) == [(first, "retry", "someone"), (second, "retry", "someone")]


def test_requests_that_are_transactions_do_not_stop_it(
    browser: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite the request's transaction would keep the store's own connection from writing."""
    (id,) = fail()
    client = browser("view", "change")
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    assert "1 failed job ready again." in client.post(LIST, {"action": "retry", "id": id}, follow=True).content.decode()


def test_what_stays_failed_is_told(browser: Callable[..., Client]) -> None:
    (id,) = fail()
    client = browser("view", "change")
    client.post(LIST, {"action": "retry", "id": id})
    page = client.post(LIST, {"action": "retry", "id": id}, follow=True).content.decode()
    assert f"The job {id} stays failed:" in page


def test_forgetting_asks_first(browser: Callable[..., Client]) -> None:
    (id,) = fail()
    client = browser("view", "delete")
    asked = client.post(f"{LIST}{id}/change/", {"action": "forget"}).content.decode()
    assert "Forget 1 failed job" in " ".join(asked.split())
    assert app.jobs.get(id) is not None
    assert f'name="id" value="{id}"' in asked
    client.post(LIST, {"action": "forget", "id": id, "confirmed": "1"})
    assert app.jobs.get(id) is None


def test_all_that_match_over_all_pages(browser: Callable[..., Client]) -> None:
    """Not only those of the page, which people had to click through fifty at a time."""
    fail(mail, 130)
    (other,) = fail(report)
    client = browser("view", "change")
    asked = client.post(LIST, {"action": "retry", "every": "1", "task": "shop.mail"})
    assert "all failed jobs of the task shop.mail" in " ".join(asked.content.decode().split())
    client.post(LIST, {"action": "retry", "every": "1", "task": "shop.mail", "confirmed": "1"})
    assert [job.id for job in app.jobs.list("failed").jobs] == [other]


def test_forms_need_their_token(browser: Callable[..., Client]) -> None:
    (id,) = fail()
    user = User.objects.create_superuser("root")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    assert strict.post(LIST, {"action": "retry", "id": id}).status_code == 403
    assert strict.get(LIST, {"action": "retry", "id": id}).status_code == 200  # a link does nothing
    assert app.jobs.get(id).state == "failed"  # type: ignore[union-attr]


def test_nobody_makes_one_by_hand(browser: Callable[..., Client]) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    assert client.get(f"{LIST}add/").status_code == 404
    assert client.get(f"{LIST}1/delete/").status_code == 404


def test_an_unreadable_message_is_shown_as_it_is(browser: Callable[..., Client]) -> None:
    job = ops.NewJob("odd/id", "mail", "shop.mail", b"\xff<b>no envelope", 0, 0)
    app.driver.run(ops.Enqueue((job,)))
    claimed = app.driver.run(ops.Claim("w1", app.clock.unix_us(), ("mail",), 1, 30_000_000)).jobs[0]
    outcome = ops.Outcome(claimed.id, claimed.queue, claimed.token, State.FAILED, reason="unreadable")
    app.driver.run(ops.Settle("w1", (outcome,)))
    client = browser("view")
    link = client.get(LIST).content.decode().split('<th><a href="')[1].split('"')[0]
    page = client.get(link).content.decode()
    assert "&lt;b&gt;no envelope" in page
    assert "cannot decode" in page
