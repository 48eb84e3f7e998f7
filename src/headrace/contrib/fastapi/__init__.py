"""headrace in FastAPI: `lifespan` opens and closes the app, `transaction` commits before the answer is sent.

`required_key` is for routes that need an Idempotency-Key, see docs/idempotency-key.md.

`lifespan` and `get_headrace` need Starlette only. See docs/fastapi.md.
"""

from headrace.contrib.fastapi.dependencies import get_headrace, transaction
from headrace.contrib.fastapi.idempotency import required_key
from headrace.contrib.fastapi.lifespan import Lifespan, lifespan

__all__ = ["Lifespan", "get_headrace", "lifespan", "required_key", "transaction"]
