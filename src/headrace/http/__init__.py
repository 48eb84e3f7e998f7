"""`Idempotency-Key` over HTTP, for any ASGI or WSGI app: a request that comes twice takes effect once.

    web = IdempotencyMiddleware(asgi_app, app)        # app: Headrace, whose store keeps the answers
    web = WSGIIdempotencyMiddleware(wsgi_app, app)

See docs/idempotency-key.md.
"""

from headrace.http.asgi import IdempotencyMiddleware
from headrace.http.current import IdempotentRequest, current_request
from headrace.http.head import RequestHead, by_authorization, by_cookie, by_header
from headrace.http.wsgi import WSGIIdempotencyMiddleware

__all__ = [
    "IdempotencyMiddleware",
    "IdempotentRequest",
    "RequestHead",
    "WSGIIdempotencyMiddleware",
    "by_authorization",
    "by_cookie",
    "by_header",
    "current_request",
]
