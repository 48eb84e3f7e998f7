"""`manage.py headrace ...`."""

from pathlib import Path

import pytest

from headrace.contrib.django.management.commands.headrace import own_arguments
from tests.contrib.django.inside import entry
from tests.contrib.django.site import Site


@pytest.fixture
def shop(tmp_path: Path) -> Site:
    return Site(tmp_path, {"default": entry(str(tmp_path / "shop.sqlite3"))}, {})


def test_it_hands_on_and_answers_with_our_exit_codes(shop: Site) -> None:
    assert "has no schema yet" in shop.manage("headrace", "schema", "check", code=1)
    assert "headrace: No such command 'wrok'" in shop.manage(
        "headrace", "wrok", "--settings=djangoshop.settings", code=2
    )


def test_it_knows_the_tasks_of_all_apps(shop: Site) -> None:
    shop.manage("headrace", "enqueue", "djangoshop.orders.tasks.fail", "text=once", "--traceback")
    shop.manage("migrate")
    assert "stopped after 1 job" in shop.manage("headrace", "work", "--burst")
    assert "ValueError" in shop.manage("headrace", "failed", "list")


def test_child_processes_are_set_up_as_django_wants_it(shop: Site) -> None:
    shop.manage("migrate")
    shop.manage("headrace", "enqueue", "djangoshop.orders.tasks.apart", "number=7")
    assert "stopped after 1 job" in shop.manage("headrace", "work", "--burst")
    said = "from djangoshop.orders.models import Mail; print(list(Mail.objects.values_list('number', 'by')))"
    assert shop.python(said) == "[(7, 'process')]"


def test_help_is_ours_and_names_the_way_it_is_called(shop: Site) -> None:
    for words in (("help", "headrace"), ("headrace", "--help")):
        said = shop.manage(*words)
        assert "Usage: manage.py headrace [OPTIONS] COMMAND" in said
        assert "Run jobs until told to stop." in said


def test_a_worker_does_not_start_with_settings_that_django_refuses(shop: Site) -> None:
    shop.environment["SHOP_OPTIONS"] = '{"RETRIES": 3}'
    assert "headrace.E003" in shop.manage("headrace", "work", "--burst", code=1)


def test_call_command_raises_with_the_exit_code(shop: Site) -> None:
    said = shop.python(
        "from django.core.management import CommandError, call_command\n"
        "from io import StringIO\n"
        "out = StringIO()\n"
        "try: call_command('headrace', 'schema', 'check', '--json', stdout=out)\n"
        "except CommandError as error: print(error.returncode, error, out.getvalue())"
    )
    assert said.startswith("1 headrace schema check --json ended with exit code 1 ")
    assert '"state":"older"' in said.replace(" ", "")


def test_options_of_djangos_own_are_not_handed_on() -> None:
    given = ["--settings", "x.y", "work", "--pythonpath=z", "-q", "mail", "--traceback", "--no-color", "--skip-checks"]
    assert own_arguments(given) == ["work", "-q", "mail", "--verbose"]
