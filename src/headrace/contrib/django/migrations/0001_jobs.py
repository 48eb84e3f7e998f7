"""Jobs: the first version of the tables."""

from typing import Any, ClassVar

from django.db import migrations, models

from headrace.contrib.django.schema import Schema


class Migration(migrations.Migration):
    """Version 1."""

    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="FailedJob",
            fields=[
                ("id", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("task", models.CharField(max_length=1000)),
            ],
            options={
                "verbose_name": "failed job",
                "verbose_name_plural": "failed jobs",
                "db_table": "headrace_failed_job",
                "managed": False,
                "default_permissions": ("view", "change", "delete"),
            },
        ),
        Schema(1),
    ]
