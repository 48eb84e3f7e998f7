"""A route that needs an Idempotency-Key."""

from __future__ import annotations

from flask import Response, abort, request

from headrace.http.answers import Refused
from headrace.http.current import IdempotentRequest, required_request
from headrace.http.header import HEADER


def required_key() -> IdempotentRequest:
    """The request's key, for the first line of a view; a request without one is answered 400.

    `web.wsgi_app = WSGIIdempotencyMiddleware(web.wsgi_app, jobs)` looks after the keys.

    Raises:
        HTTPException: there is no key; or it could not be checked, and the middleware has `outage="run"`.
        ConfigError: the request has come past the middleware.
    """
    try:
        return required_request(request.environ, request.headers.get(HEADER))
    except Refused as refused:
        answer = refused.answer
        abort(Response(answer.body, answer.status, list(answer.headers)))
