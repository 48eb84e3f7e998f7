"""The outbox and the inbox."""

from typing import Any, ClassVar

from django.db import migrations

from headrace.contrib.django.schema import Schema


class Migration(migrations.Migration):
    """Version 2."""

    dependencies: ClassVar[list[tuple[str, str]]] = [("headrace", "0001_jobs")]
    operations: ClassVar[list[Any]] = [Schema(2)]
