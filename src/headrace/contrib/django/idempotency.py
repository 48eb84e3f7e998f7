"""A view that needs an Idempotency-Key."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse

from headrace.http.answers import Refused
from headrace.http.current import required_request
from headrace.http.header import HEADER


def required_key(view: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for views, plain or async: a request without a key is answered 400.

    `application = WSGIIdempotencyMiddleware(get_wsgi_application(), app)` looks after the keys, or in ASGI
    `IdempotencyMiddleware(get_asgi_application(), app)`. The view finds the key with
    `headrace.http.current_request()`.
    """
    if iscoroutinefunction(view):

        @wraps(view)
        async def aguarded(request: HttpRequest, *args: Any, **arguments: Any) -> Any:
            return _refusal(request) or await view(request, *args, **arguments)

        return aguarded

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **arguments: Any) -> Any:
        return _refusal(request) or view(request, *args, **arguments)

    return guarded


def _refusal(request: HttpRequest) -> HttpResponse | None:
    try:
        required_request(getattr(request, "scope", request.META), request.headers.get(HEADER))
    except Refused as refused:
        answer = refused.answer
        return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))
    return None
