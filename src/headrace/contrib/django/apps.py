"""What Django is told of this package."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.db.backends.signals import connection_created
from django.utils.translation import gettext_lazy as _


class HeadraceConfig(AppConfig):
    """`INSTALLED_APPS = [..., "headrace.contrib.django"]`."""

    name = "headrace.contrib.django"
    label = "headrace"
    verbose_name = _("Background jobs")

    def ready(self) -> None:
        """Settings may be used from here on."""
        from headrace.contrib.django.checks import check_settings  # noqa: PLC0415
        from headrace.contrib.django.closing import close_before_drop  # noqa: PLC0415

        checks.register(check_settings)
        connection_created.connect(close_before_drop, dispatch_uid="headrace")
