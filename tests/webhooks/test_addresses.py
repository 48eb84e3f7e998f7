"""No address of a special registry is public, and each one in a special network is special."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.addresses import SPECIAL, TRANSLATED, Address, address_of, why_not_public


def words(text: str) -> list[str]:
    return text.split()


# The IANA special-purpose registries, RFC 6890 and its successors, written down here a second time on purpose; and the
# multicast, reserved and site-local space, which other registries have.
REGISTRIES = words("""
0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29
192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24
192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4
255.255.255.255/32 224.0.0.0/4 ::1/128 ::/128 ::ffff:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23
2001::/32 2001:1::1/128 2001:1::2/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28
2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
""")
METADATA = words("""
169.254.169.254 169.254.170.2 169.254.169.123 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254
fe80::a9fe:a9fe ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 ::169.254.169.254 2001:0:a9fe:a9fe::1
""")
PUBLIC = words("""
1.1.1.1 8.8.8.8 93.184.216.34 100.63.255.255 100.128.0.1 172.15.255.255 172.32.0.1 192.0.1.1 198.17.255.255
198.20.0.1 223.255.255.255 2606:4700:4700::1111 2001:4860:4860::8888 2001:200::1 64:ff9b::8.8.8.8 2a00:1450:4001::1
""")


def addresses_in(texts: list[str]) -> st.SearchStrategy[Address]:
    """Addresses anywhere in these networks, their first and last ones among them."""

    def inside(text: str) -> st.SearchStrategy[Address]:
        network = ip_network(text)
        first, last = int(network[0]), int(network[-1])
        return st.integers(first, last).map(type(network[0])) | st.sampled_from([network[0], network[-1]])

    return st.sampled_from(texts).flatmap(inside)


@given(addresses_in(REGISTRIES))
def test_every_address_of_a_special_registry_is_refused(address: Address) -> None:
    assert why_not_public(address)


@pytest.mark.parametrize("text", REGISTRIES)
def test_the_ends_of_each_network_are_refused(text: str) -> None:
    network = ip_network(text)
    assert why_not_public(network[0])
    assert why_not_public(network[-1])


@given(addresses_in([text for text in REGISTRIES if "." in text]))
def test_they_are_refused_where_ipv6_carries_them(address: Address) -> None:
    for prefix in ("::ffff:0:0", "64:ff9b::", "64:ff9b:1::", "::"):
        assert why_not_public(IPv6Address(int(IPv6Address(prefix)) | int(address)))
    assert why_not_public(IPv6Address(int(IPv6Address("2002::")) | int(address) << 80))


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_an_address_that_is_translated_is_what_it_is_translated_to(address: IPv4Address) -> None:
    translated = IPv6Address(int(TRANSLATED[0]) | int(address))
    assert why_not_public(translated) == why_not_public(address)
    assert why_not_public(IPv6Address(f"::ffff:{address}"))


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_only_what_is_given_out_to_the_internet_passes(address: IPv6Address) -> None:
    if why_not_public(address) is None:
        assert address in IPv6Network("2000::/3") or address in TRANSLATED
        assert not address.is_private
        assert not address.is_multicast


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_the_standard_library_calls_no_address_private_that_passes(address: IPv4Address) -> None:
    if why_not_public(address) is None:
        assert address.is_global
        assert not any((address.is_multicast, address.is_reserved, address.is_loopback, address.is_link_local))


@pytest.mark.parametrize("text", METADATA)
def test_no_metadata_of_a_cloud_is_reached(text: str) -> None:
    assert why_not_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_pass(text: str) -> None:
    assert why_not_public(ip_address(text)) is None


def test_a_zone_is_dropped() -> None:
    assert address_of("fe80::1%eth0") == ip_address("fe80::1")
    with pytest.raises(ValueError, match="does not appear"):
        address_of("127.1")


def test_each_reason_is_given() -> None:
    assert {why_not_public(ip_network(text)[0]) for text, _ in SPECIAL} == {why for _, why in SPECIAL}
