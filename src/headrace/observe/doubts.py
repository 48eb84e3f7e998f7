"""What is odd about alerts in this process: names that its app does not have, secrets that are not there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from headrace.core.wording import near
from headrace.observe.checks import secret
from headrace.observe.settings import AlertSettings


def unknown_names(settings: AlertSettings, known: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Rules about a circuit, queue or task that is none of the `known`: a slip, or one of other code."""
    for rule in settings.rules:
        for kind, names in known.items():
            name = getattr(rule, kind, None)
            if name is not None and name not in names:
                close = near(name, sorted(names))
                hint = (
                    f"did you mean {' or '.join(map(repr, close))}?" if close else "unless other code does, it is idle"
                )
                yield f"alert rule {rule.key!r}: this app has no {kind} {name!r}: {hint}"


def missing_secrets(settings: AlertSettings) -> Iterator[str]:
    """Sinks that read an environment variable which is not set here."""
    for sink in settings.sinks:
        variables = [getattr(sink, field, None) for field in ("url_env", "password_env")]
        variables += getattr(sink, "headers_env", {}).values()
        for variable in variables:
            if variable is not None and secret(variable) is None:
                yield f"alert sink {sink.describe()}: the environment variable {variable} is not set: nothing is sent"
