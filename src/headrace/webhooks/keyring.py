"""Which secrets sign for which endpoint. Asked at each attempt, so that none is ever stored with a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.errors import ConfigError
from headrace.webhooks.signature import each, key_of

Secret = str | Sequence[str]  # several while one takes the place of another
Secrets = Secret | Mapping[str, Secret] | Callable[[str], Secret | None] | None


class Keyring:
    """Finds the secrets of an endpoint.

    Args:
        secrets: one secret (or several) for all endpoints; a mapping by endpoint; a callable that is handed the
            endpoint, in the worker's thread; or None: nothing is signed.

    Raises:
        ConfigError: a secret that is given here is none.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        if isinstance(secrets, Mapping):
            for one in secrets.values():
                _checked(one)
        elif secrets is not None and not callable(secrets):
            _checked(secrets)

    def find(self, endpoint: str) -> tuple[str, ...] | None:
        """The secrets for `endpoint`; None where nothing is signed.

        Raises:
            ConfigError: there is none for it.
        """
        if self._secrets is None:
            return None
        if callable(self._secrets):
            found = self._secrets(endpoint)
        elif isinstance(self._secrets, Mapping):
            found = self._secrets.get(endpoint)
        else:
            found = self._secrets
        if not found:
            raise ConfigError(
                f"secret= has none for the endpoint {endpoint!r:.200}: give it one; unsigned is secret=None"
            )
        return _checked(found)

    def refuse_unknown(self, endpoint: str) -> None:
        """Find out early, where that costs nothing.

        Raises:
            ConfigError: a mapping has no secret for `endpoint`.
        """
        if isinstance(self._secrets, Mapping):
            self.find(endpoint)


def _checked(secret: Secret) -> tuple[str, ...]:
    found = each(secret)
    if not found:
        raise ConfigError("secret holds no secret at all: give at least one, or secret=None to send unsigned")
    for one in found:
        key_of(one)
    return found
