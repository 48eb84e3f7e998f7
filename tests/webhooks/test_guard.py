"""What the guard lets pass, and what it does not."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import AddressRefused, ConfigError, WebhookError
from headrace.webhooks.guard import Guard, SystemResolver, Target
from tests.webhooks.names import Names
from tests.webhooks.test_addresses import METADATA, PUBLIC, REGISTRIES, addresses_in

PUBLIC_NAMES = Names(
    shop_example=["93.184.216.34", "2606:4700:4700::1111"],
    inside_example=["10.1.2.3"],
    mixed_example=["93.184.216.34", "127.0.0.1"],
    empty_example=[],
    nonsense_example=["a.b.c.d"],
    many_example=[f"93.184.216.{n}" for n in range(20)],
)


def guard(**options: object) -> Guard:
    return Guard(**{"resolver": PUBLIC_NAMES, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("https://shop.example", Target("https", "shop.example", 443, "/"), "shop.example"),
        ("http://shop.example/a/b?c=d#e", Target("http", "shop.example", 80, "/a/b?c=d"), "shop.example"),
        ("https://SHOP.example:443/?x", Target("https", "shop.example", 443, "/?x"), "shop.example"),
        ("http://shop.example:443/", Target("http", "shop.example", 443, "/"), "shop.example:443"),
        ("https://93.184.216.34/", Target("https", "93.184.216.34", 443, "/"), "93.184.216.34"),
        (
            "https://[2606:4700:4700::1111]:80/x",
            Target("https", "2606:4700:4700::1111", 80, "/x"),
            "[2606:4700:4700::1111]:80",
        ),
    ],
)
def test_public_addresses_pass(url: str, target: Target, authority: str) -> None:
    assert guard().check(url) == target
    assert target.authority == authority


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.example",
        "//shop.example/",
        "ftp://shop.example/",
        "file:///etc/passwd",
        "gopher://shop.example/_x",
        "javascript:alert(1)",
        "https:///path",
        "https://:443/",
        "https://user@shop.example/",
        "https://user:secret@shop.example/",
        "https://shop.example@127.0.0.1/",
        "https://@shop.example/",
        "https://shop.example:0/",
        "https://shop.example:99999/",
        "https://shop.example:x/",
        "https://shop.example:8443/",
        "https://shop.example:22/",
        "http://shop.example:6379/",
        "https://shop.example\\@127.0.0.1/",
        "https://shop.example /",
        " https://shop.example/",
        "https://shop.example/\r\nHost: inside",
        "https://shop.example/\x00",
        "https://sh\u00f6p.example/",
        "https://shop\u3002example/",
        "https://\u2460\u2461\u2466.0.0.1/",
        "https://[::1",
        "https://[fe80::1%25eth0]/",
        "https://evil[::1]/",
        "https://[1.1.1.1]/",
        "https://shop,example/",
        "https://*/",
        "https://%31%32%37.0.0.1/",
        "https://" + "a" * 300 + ".example/",
        "https://shop.example/" + "x" * 2_000,
        None,
        b"https://shop.example/",
    ],
)
def test_what_is_no_address_of_a_webhook_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        guard().check(url)


@given(addresses_in(REGISTRIES))
def test_special_addresses_are_refused_wherever_they_stand(address: object) -> None:
    host = f"[{address}]" if ":" in str(address) else str(address)
    with pytest.raises(AddressRefused, match="which is"):
        guard().check(f"https://{host}/")
    named = guard(resolver=Names(shop_example=[str(address)]))
    with pytest.raises(AddressRefused, match="which is"):
        named.addresses(named.check("https://shop.example/"))


@pytest.mark.parametrize("text", METADATA)
def test_metadata_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused):
        guard().check(f"http://[{text}]/latest" if ":" in text else f"http://{text}/latest")


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "localhost", "localhost."])
def test_odd_ways_to_write_this_machine_are_resolved_and_refused(host: str) -> None:
    system = Guard(resolver=SystemResolver())
    with pytest.raises(WebhookError, match=r"which is loopback|which is unspecified|has no address"):
        system.addresses(system.check(f"http://{host}/"))


@pytest.mark.parametrize("text", PUBLIC)
def test_public_answers_pass(text: str) -> None:
    named = guard(resolver=Names(shop_example=[text]))
    assert named.addresses(named.check("https://shop.example/")) == [ip_address(text)]


def test_a_name_with_one_address_inside_is_refused_whole() -> None:
    with pytest.raises(AddressRefused, match=r"mixed.example has the address 127.0.0.1, which is loopback"):
        guard().addresses(guard().check("https://mixed.example/"))


@pytest.mark.parametrize("name", ["unknown.example", "empty.example", "nonsense.example"])
def test_a_name_without_an_address_is_not_refused_for_good(name: str) -> None:
    with pytest.raises(WebhookError, match="has no address") as problem:
        guard().addresses(guard().check(f"https://{name}/"))
    assert not isinstance(problem.value, AddressRefused)


def test_a_name_that_cannot_be_encoded_has_no_address() -> None:
    system = Guard(resolver=SystemResolver())
    with pytest.raises(WebhookError, match="has no address"):
        system.addresses(system.check(f"https://{'a' * 64}.example/"))


def test_no_more_than_four_addresses_are_tried() -> None:
    assert len(guard().addresses(guard().check("https://many.example/"))) == 4


def test_the_families_take_turns() -> None:
    """A machine whose IPv6 leads nowhere comes to the IPv4 addresses in time."""
    six = [f"2606:4700::{n}" for n in range(1, 9)]
    named = guard(resolver=Names(both_example=[*six, "1.1.1.1", "8.8.8.8"], one_example=six))
    found = named.addresses(named.check("https://both.example/"))
    assert list(map(str, found)) == [six[0], "1.1.1.1", six[1], "8.8.8.8"]
    assert len(named.addresses(named.check("https://one.example/"))) == 4


@pytest.mark.parametrize(
    "allow",
    ["10.0.0.0/8", "10.1.2.3", ["10.1.2.3/32"], [ip_network("10.1.0.0/16")], "inside.example", ["INSIDE.example."]],
)
def test_what_is_allowed_passes_on_any_port(allow: object) -> None:
    inside = guard(allow=allow)
    assert inside.addresses(inside.check("http://inside.example:8080/")) == [ip_address("10.1.2.3")]
    with pytest.raises(AddressRefused):
        inside.addresses(inside.check("https://mixed.example/"))
    with pytest.raises(AddressRefused, match=r"the port 8080 of its URL is none of 80, 443"):
        inside.addresses(inside.check("http://shop.example:8080/"))


def test_an_allowed_network_does_not_allow_its_addresses_in_disguise() -> None:
    inside = guard(allow="127.0.0.0/8")
    assert inside.check("http://127.0.0.1:8025/").port == 8025
    for host in ("[::ffff:127.0.0.1]", "[::1]", "[64:ff9b::127.0.0.1]"):
        with pytest.raises(AddressRefused):
            inside.check(f"http://{host}/")


def test_ports_and_schemes_are_settings() -> None:
    assert guard(ports=[8443]).check("https://shop.example:8443/").port == 8443
    assert guard(ports=None).check("https://shop.example:8025/").port == 8025
    with pytest.raises(AddressRefused):
        guard(ports=[8443]).check("https://shop.example/")
    with pytest.raises(AddressRefused, match="it must be https"):
        guard(https_only=True).check("http://shop.example/")


@pytest.mark.parametrize(
    "options",
    [{"allow": "10.0.0.0/99"}, {"allow": ["http://inside/"]}, {"allow": ""}, {"ports": [0]}, {"ports": ["80"]}],
)
def test_settings_that_cannot_be_meant_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        guard(**options)


@given(st.text() | st.from_regex(r"https?://[\x20-\x7e]{0,40}", fullmatch=True))
def test_any_text_is_taken_apart_or_refused(url: str) -> None:
    try:
        target = guard().check(url)
    except AddressRefused:
        return
    assert target.port in {80, 443}
    assert target.path.startswith("/")
    assert not set(target.authority) & set("@/\\ ")
