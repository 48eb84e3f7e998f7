"""A route that needs an Idempotency-Key."""

from __future__ import annotations

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from headrace.http.answers import Refused
from headrace.http.current import IdempotentRequest, required_request
from headrace.http.head import KEY_HEADER


async def required_key(connection: HTTPConnection) -> IdempotentRequest:
    """A dependency: the request's key, `Annotated[IdempotentRequest, Depends(required_key)]`.

    A request without one is answered 400. `web.add_middleware(IdempotencyMiddleware, app)` looks after the keys.

    Raises:
        HTTPException: there is no key; or it could not be checked, and the middleware has `outage="run"`.
        ConfigError: the request has come past the middleware.
    """
    try:
        return required_request(connection.scope, connection.headers.get(KEY_HEADER))
    except Refused as refused:
        answer = refused.answer
        # FastAPI makes {"detail": ...} of it, which is a problem document too
        raise HTTPException(answer.status, msgspec.json.decode(answer.body)["detail"], dict(answer.headers)) from None
