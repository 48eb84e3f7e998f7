"""Admin pages for failed jobs: a list with filters, one job with its errors, and what can be done about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect

from headrace.contrib.django.models import FailedJob
from headrace.contrib.django.project import project_app
from headrace.core.states import State
from headrace.core.wording import counted
from headrace.errors import HeadraceError
from headrace.jobinfo import JobInfo, JobPage
from headrace.jobs import Jobs

PAGE = 100
SHOWN = 10  # skipped jobs that a message names
LOGGED = 1_000  # jobs of one action that the admin's log names one by one
LONGEST_BODY = 4_000
FILTERS = ("queue", "task", "reason")
ACTIONS = {"retry": "change", "forget": "delete"}  # what each needs the permission for


@admin.register(FailedJob)
class FailedJobAdmin(admin.ModelAdmin):
    """Looks at the store through `app.jobs`, so that it serves every kind of store."""

    def get_urls(self) -> list[Any]:
        """The list and one job: there is nothing to add, and no form to change."""
        return [
            path("", self._view(self.changelist_view), name="headrace_failedjob_changelist"),
            path("<path:object_id>/change/", self._view(self.change_view), name="headrace_failedjob_change"),
        ]

    def _view(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """Outside of ATOMIC_REQUESTS: the store has its own connections, and on SQLite one would wait for the other."""
        made: Callable[..., HttpResponseBase] = self.admin_site.admin_view(view)
        for alias in connections:
            made = transaction.non_atomic_requests(using=alias)(made)
        return made

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Jobs come from code: whoever could make one here could run what they like."""
        return False

    # -- pages

    @method_decorator(csrf_protect)
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:
        """A page of failed jobs, the newest first."""
        self._need(request, "view")
        if request.method == "POST":
            return self._act(request, request.POST.getlist("id"))
        filters = _filters(request.GET)
        try:
            jobs = project_app().jobs
            page = jobs.list(**filters, limit=PAGE, cursor=request.GET.get("cursor") or None)
            queues = [view.name for view in jobs.queues() if view.failed]
        except HeadraceError as error:
            self.message_user(request, str(error), messages.ERROR)
            page, queues = JobPage(()), []
        context = {
            **self._context(request, "Failed jobs"),
            "jobs": page.jobs,
            "filters": filters,
            "filtered": any(filters.values()),
            "following": urlencode({**_given(filters), "cursor": page.next}) if page.next else "",
            "queues": queues,
            "tasks": sorted({*project_app().tasks, *(job.task for job in page.jobs)}),
            "reasons": sorted({job.reason for job in page.jobs}),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/headrace/failed_jobs.html", context)

    @method_decorator(csrf_protect)
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        """One job with its arguments and all its errors."""
        self._need(request, "view")
        id = unquote(object_id)
        if request.method == "POST":
            return self._act(request, [id])
        info = self._job(request, id)
        if info is None:
            return self._to_list()
        context = {
            **self._context(request, f"Failed job {id}"),
            "job": info,
            "object_id": quote(id),
            "arguments": arguments_of(info),
            "counts": {name: count for name, count in info.counts.items() if count},
            "history": list(reversed(info.history)),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/headrace/failed_job.html", context)

    def _job(self, request: HttpRequest, id: str) -> JobInfo | None:
        try:
            info = project_app().jobs.get(id)
        except HeadraceError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        if info is None or info.state is not State.FAILED:
            state = "not there any more" if info is None else info.state.value
            self.message_user(request, f"The job {id} is {state}.", messages.WARNING)
            return None
        return info

    # -- actions

    def _act(self, request: HttpRequest, ids: list[str]) -> HttpResponseBase:
        """Retry or forget: these jobs, or with `every` all that match the filters, once it is confirmed."""
        action, every = request.POST.get("action", ""), bool(request.POST.get("every"))
        if action not in ACTIONS:
            self.message_user(request, "Choose what to do with the jobs.", messages.WARNING)
            return self._to_list(_filters(request.POST))
        self._need(request, ACTIONS[action])
        if not ids and not every:
            self.message_user(request, "Select the jobs first.", messages.WARNING)
            return self._to_list(_filters(request.POST))
        if (every or action == "forget") and not request.POST.get("confirmed"):
            return self._ask(request, action, [] if every else ids)
        try:
            self._carry_out(request, action, None if every else ids)
        except HeadraceError as error:
            self.message_user(request, str(error), messages.ERROR)
        return self._to_list(_filters(request.POST))

    def _ask(self, request: HttpRequest, action: str, ids: list[str]) -> HttpResponseBase:
        context = {
            **self._context(request, "Are you sure?"),
            "action": action,
            "ids": ids,
            "filters": _filters(request.POST),
        }
        return TemplateResponse(request, "admin/headrace/confirm.html", context)

    def _carry_out(self, request: HttpRequest, action: str, ids: list[str] | None) -> None:
        jobs, filters = project_app().jobs, _filters(request.POST)
        self._log(request, action, ids, filters, jobs)
        if action == "forget":
            count = jobs.forget_failed(**filters) if ids is None else jobs.forget(ids)
            self.message_user(request, f"{counted(count, 'failed job')} forgotten.", messages.SUCCESS)
            return
        done = jobs.retry_failed(**filters) if ids is None else jobs.retry(ids)
        self.message_user(request, f"{counted(done.retried, 'failed job')} ready again.", messages.SUCCESS)
        for id, why in list(done.skipped.items())[:SHOWN]:
            self.message_user(request, f"The job {id} stays failed: {why}.", messages.WARNING)
        if len(done.skipped) > SHOWN:
            more = counted(len(done.skipped) - SHOWN, "job")
            self.message_user(request, f"{more} more stay failed.", messages.WARNING)

    def _log(
        self, request: HttpRequest, action: str, ids: list[str] | None, filters: dict[str, Any], jobs: Jobs
    ) -> None:
        """Who did it, for the admin's own log; written first, so that nothing is done unseen."""
        named = [FailedJob(id=id, task=_task_of(jobs, id)) for id in (ids or [])[:LOGGED]]
        if ids is None:
            named = [FailedJob(id="all", task=f"all failed jobs {_given(filters) or ''}".strip())]
        flag = DELETION if action == "forget" else CHANGE
        LogEntry.objects.log_actions(request.user.pk, named, flag, change_message=action)

    # -- what both share

    def _need(self, request: HttpRequest, permission: str) -> None:
        if not getattr(self, f"has_{permission}_permission")(request):
            raise PermissionDenied

    def _to_list(self, filters: dict[str, Any] | None = None) -> HttpResponseRedirect:
        query = urlencode(_given(filters or {}))
        place = reverse("admin:headrace_failedjob_changelist", current_app=self.admin_site.name)
        return HttpResponseRedirect(f"{place}?{query}" if query else place)

    def _context(self, request: HttpRequest, title: str) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "may_retry": self.has_change_permission(request),
            "may_forget": self.has_delete_permission(request),
        }


def arguments_of(info: JobInfo) -> str:
    """As JSON; where the message cannot be read, as it is stored."""
    if info.problem and info.body is not None:
        shown = info.body[:LONGEST_BODY].decode("utf-8", "backslashreplace")
        return shown if len(info.body) <= LONGEST_BODY else f"{shown}... [{len(info.body):,} bytes in all]"
    try:
        return json.dumps(info.args, indent=2, ensure_ascii=False)
    except RecursionError:  # B102
        return "[nested too deep to be shown]"


def _task_of(jobs: Jobs, id: str) -> str:
    info = jobs.get(id)
    return "" if info is None else info.task


def _filters(given: Any) -> dict[str, Any]:
    return {name: given.get(name) or None for name in FILTERS}


def _given(filters: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value}
