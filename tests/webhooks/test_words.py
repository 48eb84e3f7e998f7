"""What is given to webhooks by mistake is refused at once, in words that name it and what exists."""

import re
from typing import Any

import pytest

from headrace import Headrace
from headrace.errors import AddressRefused, ConfigError, WebhookError
from headrace.webhooks import Delivery, Guard, new_secret, sign, verify
from tests.waiting import await_until
from tests.webhooks.hooks import SECRET, collecting, webhooks
from tests.webhooks.receiver import Receiver, answering
from tests.worker.working import working


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"enabled": False}, "enabled is False: give a callable that is handed the endpoint"),
        ({"secret": 123}, "a webhook secret must be a text that starts with 'whsec_'"),
        ({"secret": b"whsec_x"}, "a webhook secret must be a text"),
        ({"secret": {"shop-17": None}}, "a webhook secret must be a text"),
        ({"allow": True}, "allow holds True: give networks"),
        ({"allow": [8080]}, "allow holds 8080: give networks"),
        ({"allow": None}, "allow holds None: give networks"),
        ({"ports": [8080]}, "Webhooks has no option ports=: give it to a guard, guard=Guard(ports=...)"),
        ({"colour": "red"}, "Webhooks has no option colour=: it takes aliases, allow, "),
        ({"secrets": SECRET}, "Webhooks has no option secrets=: did you mean secret=?"),
        ({"max_polss": 3}, "Webhooks has no option max_polss=: did you mean max_polls=?"),
        ({"schedule": "10s", "give_up_after": None}, "schedule is '10s', whose last step repeats for ever: set give_"),
        ({"schedule": "sometimes"}, "schedule is 'sometimes': use 'alipay' or 'standard-webhooks'"),
        ({"schedule": 5}, "schedule is 5: use a text"),
    ],
)
def test_a_setting_is_refused_in_words(app: Headrace, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        webhooks(app, **options)


@pytest.mark.parametrize("hook", ["on_delivered", "on_given_up", "on_disabled"])
def test_a_hook_takes_the_delivery_and_is_there_once(app: Headrace, hook: str) -> None:
    hooks = webhooks(app)
    decorate = getattr(hooks, hook)

    def nothing() -> None: ...

    def more(delivery: Delivery, other: int) -> None: ...

    for function in (nothing, more):
        with pytest.raises(ConfigError, match=rf"{hook}: .* must take one argument, the Delivery"):
            decorate(function)
    with pytest.raises(ConfigError, match=rf"{hook} is given None"):
        decorate(None)
    assert decorate(print) is print
    with pytest.raises(ConfigError, match=f"there is an {hook} already: put both into one function"):
        decorate(print)


def test_a_refused_address_says_what_there_is(app: Headrace) -> None:
    hooks = webhooks(app, allow=())
    with pytest.raises(AddressRefused, match=r"name its host in allow=, or give Webhooks a guard=Guard\(ports=...\)"):
        hooks.send("https://shop.example:8443/", {})
    with pytest.raises(AddressRefused, match=r"which is loopback: allow= names those that may be reached"):
        hooks.send("http://127.0.0.1/", {})
    webhooks(app, name="other", allow=(), guard=Guard(ports=[8443])).send("https://shop.example:8443/", {})


def test_a_receiver_is_told_what_verify_needs() -> None:
    secret, body = new_secret(), b'{"order":17}'
    headers = {"webhook-id": "m1", "webhook-timestamp": "1700000000", "webhook-signature": ""}
    headers["webhook-signature"] = sign(secret, "m1", 1_700_000_000, body)
    assert verify(secret, headers, bytearray(body), now=1_700_000_000) == "m1"  # type: ignore[arg-type]
    wrong: list[tuple[Any, Any, str]] = [
        (headers, body.decode(), "body is of type str: give the bytes as they were sent, before any decoding"),
        (headers, {"order": 17}, "body is of type dict: give the bytes"),
        (None, body, "headers is None: give the request's headers by name"),
        (list(headers.items()), body, "give the request's headers by name"),
    ]
    for given, text, words in wrong:
        with pytest.raises(ConfigError, match=words):
            verify(secret, given, text)
    with pytest.raises(ConfigError, match="body is of type str"):
        sign(secret, "m1", 1_700_000_000, "text")  # type: ignore[arg-type]


async def test_one_that_was_given_up_is_sent_again_by_its_id(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app, schedule="10ms", give_up_after="1h", max_polls=1, keep="1h")
    given_up, delivered = collecting(hooks.on_given_up), collecting(hooks.on_delivered)
    receiver.script = [answering("500 Oops")] * 2
    first = await hooks.asend(receiver.url(), b"a=1", id="order-17", content_type="text/plain", endpoint="shop-17")
    with pytest.raises(WebhookError, match="the webhook order-17 has not ended, it is ready"):
        await hooks.aresend(first.id)
    async with working(app):
        await await_until(lambda: given_up)
        second = await hooks.aresend(first.id)
        await await_until(lambda: len(given_up) == 2)
        await hooks.aresend(second.id)
        await await_until(lambda: delivered)
    sent = [(request.headers["webhook-id"], request.body) for request in receiver.requests]
    assert sent == [("order-17", b"a=1")] * 3
    assert delivered == [Delivery("order-17", receiver.url(), "shop-17", None, "a=1", "text/plain", "200")]


def test_what_the_store_does_not_have_cannot_be_sent_again(app: Headrace) -> None:
    hooks = webhooks(app)

    @app.task(name="other")
    def other() -> None: ...

    for id in ("nobody", other.enqueue().id):
        with pytest.raises(
            WebhookError, match=f"the store has no webhook '{id}' of webhooks: one that was given up is"
        ):
            hooks.resend(id)


def test_the_arguments_of_a_webhook_hold_what_was_given(app: Headrace) -> None:
    job = webhooks(app).send("https://shop.example/", {"order": 17}, endpoint="shop-17")
    info = app.jobs.get(job.id)
    assert info is not None
    webhook = {"url": "https://shop.example/", "body": '{"order":17}'}
    assert info.args == {"endpoint": "shop-17", "webhook": webhook}
