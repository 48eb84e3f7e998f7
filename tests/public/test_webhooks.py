"""The public names of headrace.webhooks are pinned, and it needs nothing beyond the standard library."""

import subprocess
import sys

from headrace import webhooks

# A change here is a change for every user: say so in CHANGELOG.md.
PUBLIC = (
    "AddressRefused",
    "Answer",
    "Delivery",
    "Guard",
    "SignatureInvalid",
    "WebhookError",
    "Webhooks",
    "new_secret",
    "sign",
    "verify",
)
LOADED = """
import sys
import headrace.webhooks
names = {name.partition(".")[0] for name in sys.modules}
print(*sorted(names - sys.stdlib_module_names - {"headrace", "msgspec", "typing_extensions", "__main__"}))
"""


def test_public_names_are_pinned() -> None:
    assert tuple(sorted(webhooks.__all__)) == PUBLIC


def test_every_public_name_says_what_it_is() -> None:
    for name in webhooks.__all__:
        assert getattr(webhooks, name).__doc__, f"headrace.webhooks.{name} has no docstring"


def test_nothing_else_is_loaded() -> None:
    command = [sys.executable, "-I", "-W", "error", "-c", LOADED]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if not name.startswith("_")] == []
