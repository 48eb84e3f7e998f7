"""Our tables as an operation of Django's migrations."""

from __future__ import annotations

from typing import Any

from django.db import router
from django.db.migrations.operations.base import Operation

from headrace.contrib.django.configuration import configuration
from headrace.contrib.django.project import project_app
from headrace.core.schema import ReadSchema
from headrace.drivers.borrowed.django import Django
from headrace.migrations import statements


class Schema(Operation):
    """Leads from one version of our schema to the next, on the one database of the project that has our tables.

    Where a worker has upgraded the tables already, there is nothing left to do. The way back deletes what the version
    brought, with all that is in it.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        """No model of Django's changes."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Up to this version."""
        there = self._there(app_label, schema_editor, self.version - 1)
        if there is not None and there < self.version:
            self._go(schema_editor, there, self.version)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Down to the one before."""
        there = self._there(app_label, schema_editor, self.version)
        if there is not None and there >= self.version:
            self._go(schema_editor, there, self.version - 1)

    def describe(self) -> str:
        """For `migrate --plan`."""
        return f"Tables of headrace, version {self.version}"

    @property
    def migration_name_fragment(self) -> str:
        """For names that Django makes."""
        return f"headrace_{self.version}"

    def _there(self, app_label: str, schema_editor: Any, supposed: int) -> int | None:
        """The version that the tables have; None where they do not belong. `sqlmigrate` asks no database."""
        alias = schema_editor.connection.alias
        if alias != configuration().alias or not router.allow_migrate(alias, app_label):
            return None
        if schema_editor.collect_sql:
            return supposed
        app = project_app()
        driver = app.driver if app.settings.database is not None else app.outbox_driver
        return Django(alias).run(driver.store, ReadSchema()).version  # type: ignore[attr-defined]  # of a SQL store

    def _go(self, schema_editor: Any, start: int, target: int) -> None:
        vendor, name = schema_editor.connection.vendor, project_app().config.name
        for text in statements(vendor, name=name, from_version=start, to_version=target):
            schema_editor.execute(text, params=None)
