"""headrace in Flask: an extension with `init_app`, handlers inside the app context, `flask headrace ...`.

See docs/flask.md.
"""

from headrace.contrib.flask.extension import FlaskHeadrace

__all__ = ["FlaskHeadrace"]
