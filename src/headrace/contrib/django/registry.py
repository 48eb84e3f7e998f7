"""Which functions may run: those that an imported module has made tasks of. No name that a store holds is imported."""

from __future__ import annotations

from django.utils.module_loading import autodiscover_modules


def discover() -> None:
    """Import the module `tasks` of each installed app that has one, so that its tasks are known."""
    autodiscover_modules("tasks")


def backend_queues() -> set[str]:
    """The QUEUES of all tasks backends that are ours."""
    try:
        from headrace.contrib.django import framework  # noqa: PLC0415 - a project may do without it
    except ImportError:
        return set()
    from headrace.contrib.django.backend import HeadraceBackend  # noqa: PLC0415

    found: set[str] = set()
    for backend in framework.task_backends.all():
        if isinstance(backend, HeadraceBackend):
            found |= backend.queues
    return found
