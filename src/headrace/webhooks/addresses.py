"""Which internet addresses belong to the public: all that no special registry has.

Sources: the IANA IPv4 and IPv6 Special-Purpose Address Registries, the multicast and reserved space, and the documented
metadata addresses of clouds that lie outside of these. A table of our own, since that of the standard library differs
from one Python to the next.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# (network, why it is refused); the first that fits gives the reason
SPECIAL: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by a carrier"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "of a protocol"),
    ("192.0.2.0/24", "for documentation"),
    ("192.31.196.0/24", "of a protocol"),
    ("192.52.193.0/24", "of a protocol"),
    ("192.88.99.0/24", "a relay of 6to4"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "of a protocol"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("168.63.129.16/32", "the metadata of a cloud"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "an IPv4 address in disguise"),
    ("64:ff9b:1::/48", "a local translation to IPv4"),
    ("2001::/23", "of a protocol"),
    ("2001:db8::/32", "for documentation"),
    ("2002::/16", "an IPv4 address in disguise"),
    ("2620:4f:8000::/48", "of a protocol"),
    ("3fff::/20", "for documentation"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", "multicast"),
)
# Where only IPv6 is routed, this is how the public IPv4 internet is reached: what is inside decides.
TRANSLATED = IPv6Network("64:ff9b::/96")
UNICAST = IPv6Network("2000::/3")

_SPECIAL: tuple[tuple[Network, str], ...] = tuple((ip_network(text), why) for text, why in SPECIAL)


def address_of(text: str) -> Address:
    """The address that `text` writes out. A zone behind it is dropped.

    Raises:
        ValueError: it is none.
    """
    return ip_address(text.partition("%")[0])


def why_not_public(address: Address) -> str | None:
    """Why `address` is no address of the public internet; None where it is one."""
    if isinstance(address, IPv6Address) and address in TRANSLATED:
        return why_not_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    for network, why in _SPECIAL:
        if address.version == network.version and address in network:
            return why
    if isinstance(address, IPv6Address) and address not in UNICAST:
        return "reserved"
    return None
