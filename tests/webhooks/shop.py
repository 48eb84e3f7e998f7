"""A shop in a process of its own, that tells a receiver on loopback. Its settings come from the environment."""

import os
from pathlib import Path

from headrace import Headrace
from headrace.webhooks import Delivery, Webhooks

app = Headrace(os.environ["SHOP_URL"], lease=2, busy_timeout=0.5)
hooks = Webhooks(app, secret=os.environ["SHOP_SECRET"], allow="127.0.0.1", schedule="1s", max_polls=60)


@hooks.on_delivered
def note(delivery: Delivery) -> None:
    with Path(os.environ["SHOP_NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(f"{delivery.id} {delivery.said}\n")
