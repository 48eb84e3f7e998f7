"""Names of topics and streams out of templates."""

from __future__ import annotations

from headrace.errors import ConfigError
from headrace.outbox.events import Event

_SAMPLE = Event(id="", type="", aggregate_type="", aggregate_id="", created_us=0)


def topic_of(template: str, event: Event) -> str:
    """`template` with `{aggregate_type}` and `{event_type}` filled in."""
    return template.format_map({"aggregate_type": event.aggregate_type, "event_type": event.type})


def checked_template(name: str, template: str) -> str:
    """`template`, unless it asks for something else.

    Raises:
        ConfigError: it does.
    """
    try:
        topic_of(template, _SAMPLE)
    except (KeyError, ValueError, IndexError, AttributeError, TypeError):
        raise ConfigError(
            f"{name} is {template!r}: use a text that may hold {{aggregate_type}} and {{event_type}}"
        ) from None
    return template
