"""Once records."""

from typing import Any, ClassVar

from django.db import migrations

from headrace.contrib.django.schema import Schema


class Migration(migrations.Migration):
    """Version 3."""

    dependencies: ClassVar[list[tuple[str, str]]] = [("headrace", "0002_outbox")]
    operations: ClassVar[list[Any]] = [Schema(3)]
