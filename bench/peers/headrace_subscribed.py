"""The app of peer_headrace with a subscriber, for `headrace outbox relay --app headrace_subscribed:app`."""

from peer_headrace import TASKS, app

app.on("OrderCreated")(TASKS["noop"])
