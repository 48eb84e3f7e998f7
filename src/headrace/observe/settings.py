"""What alerts are made with: in code, or as a TOML file whose mistakes are named with key, value and fix."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.durations import Duration, micros
from headrace.core.wording import near
from headrace.errors import ConfigError
from headrace.observe.checks import check_flag, check_span
from headrace.observe.mail import MailSink
from headrace.observe.messages import Sink
from headrace.observe.rules import RULES, Rule
from headrace.observe.sinks import LogSink, SlackSink, WebhookSink

SINKS: dict[str, Any] = {sink.kind: sink for sink in (LogSink, WebhookSink, SlackSink, MailSink)}
_MOST_BYTES = 1_000_000


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Rules, sinks, and what all of them share.

    Raises:
        ConfigError: there are no rules or no sinks, one of them is something else, two rules have one name, or a value
            is out of range.
    """

    rules: Sequence[Rule]
    sinks: Sequence[Sink]
    cooldown: Duration = "1h"
    resolved: bool = True
    every: Duration = "15s"

    def __post_init__(self) -> None:
        check_span("cooldown", self.cooldown)
        check_span("every", self.every)
        check_flag("resolved", self.resolved)
        _check_all("rules", self.rules, Rule, "FailedGrowth(count=10)")
        _check_all("sinks", self.sinks, Sink, "LogSink()")
        places: dict[str, int] = {}
        for place, rule in enumerate(self.rules):
            if rule.key in places:
                raise ConfigError(
                    f"rules[{places[rule.key]}] and rules[{place}] are both called {rule.key!r}: give one a name"
                )
            places[rule.key] = place

    @property
    def cooldown_us(self) -> int:
        """Microseconds."""
        return micros(self.cooldown, "cooldown")

    @property
    def every_us(self) -> int:
        """Microseconds."""
        return micros(self.every, "every")


def read(path: str | Path) -> AlertSettings:
    """The settings in a TOML file.

    Raises:
        ConfigError: it cannot be read, or something in it is not as it should be.
    """
    file = Path(path)
    try:
        text = file.read_bytes()[:_MOST_BYTES].decode()
        document = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}; name the file with the alerts") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is no TOML: {error}; mend it") from error
    try:
        return parse(document)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def parse(document: Mapping[str, Any]) -> AlertSettings:
    """The settings in what a TOML file holds.

    Raises:
        ConfigError: names the place, the key, the value and the fix.
    """
    _check_keys(document, AlertSettings.__struct_fields__)
    given = dict(document)
    given["rules"] = _made(given.get("rules", []), "rules", RULES, "failed-growth")
    given["sinks"] = _made(given.get("sinks", []), "sinks", SINKS, "log")
    return AlertSettings(**given)


def _made(tables: object, where: str, kinds: Mapping[str, Any], example: str) -> list[Any]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{where} is {tables!r:.100}: write tables, each beginning with [[{where}]]")
    if not tables:
        raise ConfigError(f'{where} is missing: write at least one table, [[{where}]] with kind = "{example}"')
    made = []
    for place, table in enumerate(tables):
        options = dict(table)
        kind = options.pop("kind", None)
        here = f"{where}[{place}]"
        if kind is None:
            raise ConfigError(f'{here}: kind is missing: give one of {", ".join(kinds)}, such as kind = "{example}"')
        if type(kind) is not str or kind not in kinds:
            raise ConfigError(f"{here}: kind is {kind!r:.100}: {_meant(str(kind), kinds)}")
        try:
            made.append(_one(kinds[kind], options))
        except ConfigError as error:
            raise ConfigError(f"{here} ({kind}): {error}") from None
    return made


def _one(kind: Any, options: dict[str, Any]) -> Any:
    _check_keys(options, kind.__struct_fields__)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in options:
            raise ConfigError(f"{field.name} is missing: it takes {', '.join(kind.__struct_fields__)}")
    return kind(**options)


def _check_keys(table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"there is no key {key!r} here: {_meant(key, known)}")


def _meant(word: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    close = near(word, known)
    return f"did you mean {' or '.join(map(repr, close))}?" if close else f"give one of {', '.join(known)}"


def _check_all(field: str, given: object, kind: type, example: str) -> None:
    if not isinstance(given, list | tuple) or not given:
        raise ConfigError(f"{field} is {given!r:.100}: give at least one, such as {field}=[{example}]")
    for place, one in enumerate(given):
        if not isinstance(one, kind):
            raise ConfigError(f"{field}[{place}] is {one!r:.100}: give one such as {example}")
