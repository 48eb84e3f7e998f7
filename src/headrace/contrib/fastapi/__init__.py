"""headrace in FastAPI: `lifespan` opens and closes the app, `transaction` commits before the answer is sent.

`lifespan` and `get_headrace` need Starlette only. See docs/fastapi.md.
"""

from headrace.contrib.fastapi.dependencies import get_headrace, transaction
from headrace.contrib.fastapi.lifespan import Lifespan, lifespan

__all__ = ["Lifespan", "get_headrace", "lifespan", "transaction"]
