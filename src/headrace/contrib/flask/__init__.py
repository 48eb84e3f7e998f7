"""headrace in Flask: an extension with `init_app`, handlers inside the app context, `flask headrace ...`.

See docs/flask.md; `required_key` is for routes that need an Idempotency-Key, see docs/idempotency-key.md.
"""

from headrace.contrib.flask.extension import FlaskHeadrace
from headrace.contrib.flask.idempotency import required_key

__all__ = ["FlaskHeadrace", "required_key"]
