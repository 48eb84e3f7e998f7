"""What Django needs a model for: permissions, and a place in the admin's index. No table belongs to it.

Failed jobs may be on Redis, and on SQL they are rows in a layout of our own that changes between versions: whoever
looks at them, does so through `app.jobs`.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class FailedJob(models.Model):
    """One failed job, as far as the admin's own pages name it. `change` allows to retry it, `delete` to forget it."""

    id = models.CharField(primary_key=True, max_length=200)
    task = models.CharField(max_length=1000)

    class Meta:
        """Nothing to be made, and nobody adds one by hand."""

        managed = False
        db_table = "headrace_failed_job"
        default_permissions = ("view", "change", "delete")
        verbose_name = _("failed job")
        verbose_name_plural = _("failed jobs")

    def __str__(self) -> str:
        return f"{self.task} {self.pk}"
