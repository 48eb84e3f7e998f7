"""An app on each store, and workers that are processes."""

from tests.cases.conftest import app, works

__all__ = ["app", "works"]
