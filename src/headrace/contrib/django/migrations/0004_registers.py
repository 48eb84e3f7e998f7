"""Registers, and parked jobs by what they wait for."""

from typing import Any, ClassVar

from django.db import migrations

from headrace.contrib.django.schema import Schema


class Migration(migrations.Migration):
    """Version 4."""

    dependencies: ClassVar[list[tuple[str, str]]] = [("headrace", "0003_once")]
    operations: ClassVar[list[Any]] = [Schema(4)]
