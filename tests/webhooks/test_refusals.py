"""What is refused where webhooks are set up, and where they are sent."""

from typing import Any

import pytest

from headrace import Headrace
from headrace.errors import AddressRefused, ConfigError, InvalidArguments, PayloadTooLarge, WrongColour
from headrace.webhooks import Delivery, Guard
from tests.webhooks.hooks import SECRET, webhooks


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"url": "http://169.254.169.254/latest/"}, AddressRefused),
        ({"url": "http://localhost:8025/", "payload": {}}, None),
        ({"url": "ftp://shop.example/"}, AddressRefused),
        ({"payload": float("nan")}, InvalidArguments),
        ({"payload": "x" * 20_000}, PayloadTooLarge),
        ({"id": "a.b"}, ConfigError),
        ({"id": ""}, ConfigError),
        ({"event": "a b"}, ConfigError),
        ({"endpoint": ""}, ConfigError),
        ({"content_type": "json"}, ConfigError),
        ({"payload": b"{}", "event": "order.paid"}, ConfigError),
    ],
)
def test_what_can_be_seen_at_once_is_refused_at_once(
    app: Headrace, arguments: dict[str, Any], error: type[Exception] | None
) -> None:
    hooks = webhooks(app)
    arguments = {"url": "https://shop.example/", "payload": {}, **arguments}
    if error is None:  # a name is looked up at the attempt
        assert hooks.send(**arguments).status == "new"
    else:
        with pytest.raises(error):
            hooks.send(**arguments)
        assert app.jobs.list(state="ready").jobs == ()


def test_an_endpoint_without_a_secret_is_refused_at_once(app: Headrace) -> None:
    hooks = webhooks(app, secret={"a": SECRET})
    assert hooks.send("https://shop.example/", {}, endpoint="a").status == "new"
    with pytest.raises(ConfigError, match="has none for the endpoint 'b'"):
        hooks.send("https://shop.example/", {}, endpoint="b")


async def test_in_a_loop_send_names_its_twin(app: Headrace) -> None:
    with pytest.raises(WrongColour, match="asend"):
        webhooks(app).send("https://shop.example/", {})
    with pytest.raises(WrongColour, match="aresend"):
        webhooks(app, name="other").resend(Delivery("m1", "https://shop.example/", "shop-17", None, "{}"))


@pytest.mark.parametrize(
    "options",
    [
        {"secret": "plain"},
        {"timeout": 0},
        {"allow": "10.0.0.0/99"},
        {"guard": Guard()},
        {"success": "3xx"},
        {"headers": {"Host": "x"}},
        {"schedule": "1s", "give_up_after": None},
        {"schedule": "sometimes"},
        {"queue": "a b"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(app: Headrace, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        webhooks(app, **options)


def test_two_senders_have_two_names(app: Headrace) -> None:
    webhooks(app)
    with pytest.raises(ConfigError, match="give these webhooks another name="):
        webhooks(app)
    webhooks(app, name="other")
    assert {"webhooks", "other"} <= set(app.tasks)


def test_each_hook_is_there_once(app: Headrace) -> None:
    hooks = webhooks(app)
    for hook in (hooks.on_delivered, hooks.on_given_up, hooks.on_disabled):
        hook(print)
        with pytest.raises(ConfigError, match="already"):
            hook(print)
    assert {"webhooks.delivered", "webhooks.given_up", "webhooks.disabled"} <= set(app.tasks)
