"""The guard between webhooks and the networks of those who send them.

Whoever may name the address of a webhook could otherwise name the database, the metadata service of the cloud, or this
machine (server-side request forgery). What is checked is what will be connected to: the name is resolved once, and the
client is handed the very addresses that were looked at, so that a second answer of the DNS changes nothing.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from itertools import zip_longest
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

import msgspec

from headrace.errors import AddressRefused, ConfigError, WebhookError
from headrace.webhooks.addresses import Address, Network, address_of, why_not_public

PORTS = {"http": 80, "https": 443}
URL_CHARACTERS = 2_000
MOST_ADDRESSES = 4  # of one name that are tried

# What a URL may consist of: everything else is written with % in it, or as xn-- in the name of a host
_URL = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+\Z")
_ENTRIES = IPv4Network | IPv6Network | IPv4Address | IPv6Address
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})\Z")


class Target(msgspec.Struct, frozen=True):
    """A URL, taken apart once."""

    scheme: str
    host: str  # without the brackets of IPv6
    port: int
    path: str  # with the query

    @property
    def authority(self) -> str:
        """For the header `Host`: the port is named where it is not that of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


class Resolver(Protocol):
    """Turns names into addresses."""

    def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host`, written out. Raises OSError where there is no answer."""
        ...


class SystemResolver:
    """Asks the operating system, `hosts` file and all."""

    def resolve(self, host: str, port: int) -> Sequence[str]:
        """As `Resolver.resolve`; as long as the system's own timeouts allow."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        return list(dict.fromkeys(str(place[4][0]) for place in found))


class Guard:
    """Lets URLs pass whose host is on the public internet.

    Args:
        allow: networks ("10.1.0.0/16"), addresses and names of hosts that may be reached all the same, on any port.
        ports: the ports that may be reached; None: all.
        https_only: refuse `http://`.
        resolver: asked for the addresses of a name.

    Raises:
        ConfigError: an entry of `allow` is neither a network nor the name of a host, or a port is none.
    """

    def __init__(
        self,
        *,
        allow: str | Network | Iterable[str | Network] = (),
        ports: Iterable[int] | None = (80, 443),
        https_only: bool = False,
        resolver: Resolver | None = None,
    ) -> None:
        self._networks: list[Network] = []
        self._names: set[str] = set()
        for entry in _each(allow):
            self._allow(entry)
        self._ports = None if ports is None else frozenset(map(_checked_port, ports))
        self._schemes = {"https"} if https_only else set(PORTS)
        self._resolver = resolver or SystemResolver()

    def _allow(self, entry: object) -> None:
        if not isinstance(entry, str | _ENTRIES):  # a number would be read as an address
            raise _no_entry(entry)
        try:
            self._networks.append(ip_network(entry, strict=False))
        except ValueError:
            if not isinstance(entry, str) or not _HOST.match(entry):
                raise _no_entry(entry) from None
            self._names.add(_bare(entry))

    def check(self, url: str) -> Target:
        """Take `url` apart, and refuse what no answer of the DNS could make good.

        Raises:
            AddressRefused: it is no http or https URL, has a user or a password, a port that is not allowed, or an
                address of the wrong kind written out in it.
        """
        target = _target(url)
        if target.scheme not in self._schemes:
            raise AddressRefused(f"its URL begins with {target.scheme}://: it must be https://")
        try:
            address = address_of(target.host)
        except ValueError:
            self._check_port(target, allowed=_bare(target.host) in self._names or bool(self._networks))
        else:
            self._check(target, address)
        return target

    def addresses(self, target: Target) -> list[Address]:
        """The addresses that `target` may be reached at, at most four. Resolves its name, which may block.

        Raises:
            AddressRefused: one of its addresses is not to be reached: then none of them is.
            WebhookError: the name has no address, or nobody says which.
        """
        try:
            texts = self._resolver.resolve(target.host, target.port)
            found = [address_of(text) for text in texts]
        except (OSError, ValueError) as error:  # ValueError: the name cannot be encoded, or the answer is no address
            raise WebhookError(f"the host {target.host} has no address: {error}") from error
        if not found:
            raise WebhookError(f"the host {target.host} has no address")
        for address in found:
            self._check(target, address)
        return _alternating(found)[:MOST_ADDRESSES]

    def _check(self, target: Target, address: Address) -> None:
        allowed = _bare(target.host) in self._names or any(
            address.version == network.version and address in network for network in self._networks
        )
        why = None if allowed else why_not_public(address)
        if why is not None:
            raise AddressRefused(
                f"the host {target.host} has the address {address}, which is {why}: allow= names those that may be "
                "reached all the same"
            )
        self._check_port(target, allowed=allowed)

    def _check_port(self, target: Target, *, allowed: bool) -> None:
        if not allowed and self._ports is not None and target.port not in self._ports:
            known = ", ".join(map(str, sorted(self._ports)))
            raise AddressRefused(
                f"the port {target.port} of its URL is none of {known}: name its host in allow=, or give Webhooks a "
                f"guard=Guard(ports=...)"
            )


def _each(allow: object) -> Iterable[object]:
    return allow if isinstance(allow, Iterable) and not isinstance(allow, str | bytes | _ENTRIES) else (allow,)


def _no_entry(entry: object) -> ConfigError:
    return ConfigError(f"allow holds {entry!r:.100}: give networks such as '10.1.0.0/16', addresses, or names of hosts")


def _alternating(found: list[Address]) -> list[Address]:
    """One of each family after the other, the first one's first: where one leads nowhere, the next is of the other."""
    first = found[0].version
    families = ([one for one in found if one.version == first], [one for one in found if one.version != first])
    return [one for pair in zip_longest(*families) for one in pair if one is not None]


def _target(url: str) -> Target:
    if type(url) is not str or not url.isascii() or len(url) > URL_CHARACTERS or not _URL.match(url):
        raise AddressRefused(
            f"{url!r:.100} is no URL: use at most {URL_CHARACTERS:,} characters of those that a URL consists of, "
            "% for all others, and xn-- in names"
        )
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError as error:
        raise AddressRefused(f"{url!r:.100} is no URL: {error}") from None
    if parts.scheme not in PORTS:
        raise AddressRefused(f"{url!r:.100} is no http:// or https:// URL")
    if "@" in parts.netloc:
        raise AddressRefused("its URL has a user or a password in it: sign instead, or use a header")
    if not _is_host(host) or ("[" in parts.netloc and not parts.netloc.startswith("[")):
        raise AddressRefused(f"{url!r:.100} has no host in it")
    if port == 0:
        raise AddressRefused("its URL has port 0")
    return Target(parts.scheme, host, port or PORTS[parts.scheme], _path(parts))


def _path(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _is_host(host: str) -> bool:
    if _HOST.match(host):
        return True
    try:
        return "%" not in host and address_of(host).version == 6
    except ValueError:
        return False


def _bare(host: str) -> str:
    return host.lower().rstrip(".")


def _checked_port(port: int) -> int:
    if type(port) is not int or not 1 <= port <= 65_535:
        raise ConfigError(f"ports holds {port!r}: give whole numbers from 1 to 65535, or ports=None for all")
    return port
