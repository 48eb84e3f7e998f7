"""The public face: its names are pinned, and nothing optional is needed to show it."""

import subprocess
import sys

import headrace

# The promise of `from headrace import ...`. A change here is a change for every user: say so in CHANGELOG.md.
PUBLIC: tuple[str, ...] = (
    "Cancel",
    "ChildError",
    "Circuit",
    "CircuitInfo",
    "CircuitOpen",
    "ConfigError",
    "EnvelopeError",
    "Exponential",
    "Fail",
    "FailedFilter",
    "Failure",
    "Fixed",
    "Headrace",
    "HeadraceError",
    "InvalidArguments",
    "Job",
    "JobContext",
    "JobInfo",
    "JobInterrupted",
    "JobLogFilter",
    "LeaseLost",
    "Listed",
    "Middleware",
    "NewerEnvelope",
    "Once",
    "OnceBusy",
    "OnceConflict",
    "OnceError",
    "OnceFailed",
    "PayloadTooLarge",
    "Pending",
    "PollTask",
    "RepairError",
    "Retry",
    "RetryBudget",
    "RetryIn",
    "RolledBack",
    "Snooze",
    "State",
    "Stepped",
    "StoreError",
    "StoreFull",
    "StoreMisconfigured",
    "StoreUnavailable",
    "Task",
    "TaskError",
    "Unique",
    "UnknownTask",
    "UnreadableEnvelope",
    "WrongColour",
    "current_job",
)

BARE = """
import importlib, pkgutil, sys

OPTIONAL = {
    "redis", "hiredis", "rich", "uvloop", "fastapi", "starlette", "sqlalchemy", "pydantic", "valkey",
    "prometheus_client",
}
ROOMS = ("core", "stores", "task", "cli")

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked)", name=name)

sys.meta_path.insert(0, Absent())
import headrace

for module in pkgutil.walk_packages(headrace.__path__, "headrace."):
    if module.name.split(".")[1] in ROOMS and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        print(module.name)
"""


def test_public_names_are_pinned() -> None:
    assert tuple(sorted(getattr(headrace, "__all__", ()))) == tuple(sorted(PUBLIC))


def test_every_public_name_exists_and_says_what_it_is() -> None:
    for name in getattr(headrace, "__all__", ()):
        assert getattr(headrace, name).__doc__, f"headrace.{name} has no docstring"


def test_headrace_imports_without_its_extras() -> None:
    result = subprocess.run([sys.executable, "-W", "error", "-c", BARE], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    imported = result.stdout.split()
    assert {"headrace.core.states", "headrace.stores.plan"} <= set(imported)
    assert len(imported) >= 9
