"""Requests and replies, for both kinds of connection: steps to commands, error replies to our errors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import hiredis

from headrace.errors import StoreError, StoreFull, StoreMisconfigured, StoreUnavailable
from headrace.stores.plan import Call, Step

Command = tuple[Any, ...]

_UNAVAILABLE = ("LOADING", "READONLY", "MASTERDOWN", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS", "UNBLOCKED")
_MISCONFIGURED = {
    "NOAUTH": "give user and password in the URL",
    "WRONGPASS": "user or password in the URL are wrong",
    "NOPERM": "the user may not do that: allow it the keys and commands of headrace",
    "MISCONF": "the server cannot write to its disk: see its log",
    "MOVED": "the server is one node of a cluster: use a server of its own",
    "CROSSSLOT": "the server is one node of a cluster: use a server of its own",
}


class NoScript(StoreError):
    """The server does not know the script; nothing was carried out."""


def error_of(text: str) -> StoreError:
    """Our error for an error reply."""
    code = text.partition(" ")[0]
    if code == "NOSCRIPT":
        return NoScript(text)
    if "OOM command not allowed" in text:  # at the start, or within a script's error on old servers
        return StoreFull(f"nothing was changed: give the server memory or let workers drain it. It says: {text}")
    if code in _MISCONFIGURED:
        return StoreMisconfigured(f"{_MISCONFIGURED[code]}. It says: {text}")
    if code in _UNAVAILABLE or "-READONLY" in text or "max number of clients" in text:
        return StoreUnavailable(f"the server does not serve now: {text}")
    return StoreError(f"the server refused: {text}")


def error_in(reply: Any) -> StoreError | None:
    """The error that a reply is."""
    return error_of(str(reply)) if isinstance(reply, hiredis.ReplyError) else None


class Scripts:
    """Turns steps into commands. A script goes by its hash, and by its text once the server has forgotten it (B033)."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)
        self._hashes = {name: sha1(text) for name, text in texts.items()}

    def command(self, step: Step) -> Command:
        """A plain command, or a script by its hash."""
        if not isinstance(step, Call):
            raise TypeError(f"a {type(step).__name__} is no step for Redis")
        if step.script.isupper():
            return (step.script, *step.keys, *step.args)
        return ("EVALSHA", self._hashes[step.script], str(len(step.keys)), *step.keys, *step.args)

    def whole(self, step: Step) -> Command:
        """The script by its text, after the hash was answered with `NoScript`: nothing was carried out then."""
        assert isinstance(step, Call)
        return ("EVAL", self._texts[step.script], str(len(step.keys)), *step.keys, *step.args)


def sha1(text: str) -> str:
    """The name a server gives to a script; nothing is kept secret by it."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
