"""headrace in a Django project: `app`, made from the setting HEADRACE; a backend for Django's tasks; admin pages.

    INSTALLED_APPS = [..., "headrace.contrib.django"]

See docs/django.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.contrib.django.backend import HeadraceBackend
    from headrace.contrib.django.idempotency import required_key
    from headrace.contrib.django.project import DjangoApp

    app: DjangoApp

__all__ = ["HeadraceBackend", "app", "required_key"]


def __getattr__(name: str) -> Any:
    """Made when it is first asked for: Django imports this package before its settings may be used."""
    if name == "app":
        from headrace.contrib.django.project import project_app  # noqa: PLC0415

        return project_app()
    if name == "HeadraceBackend":
        from headrace.contrib.django.backend import HeadraceBackend  # noqa: PLC0415

        return HeadraceBackend
    if name == "required_key":
        from headrace.contrib.django.idempotency import required_key  # noqa: PLC0415

        return required_key
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
