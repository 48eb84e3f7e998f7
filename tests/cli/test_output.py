"""What is printed: no stored text can do anything to a terminal, times and ages read well, columns stand in line."""

import json
import os
import re
import subprocess
import sys
import unicodedata

import pytest

from headrace.cli import output

NASTY = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "one\ntwo\r\tthree",
    "nul \x00 delete \x7f",
    "lone \ud800 surrogate",
    "turned \u202egpj.exe",
    "line\u2028separator",
]


@pytest.mark.parametrize("text", NASTY)
def test_stored_text_cannot_command_a_terminal(text: str) -> None:
    """B094: control characters, escape sequences, lone surrogates and direction marks are shown as escapes."""
    shown = output.printable(text)
    assert not [char for char in shown if unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} or char == "\u202e"]
    assert "\\" in shown
    shown.encode("utf-8")


@pytest.mark.parametrize("text", ["plain", "Grüße", "\u8ba2\u5355", "שלום", "\U0001f600", "\U0001f468\u200d\U0001f469"])
def test_text_of_every_language_is_left_alone(text: str) -> None:
    """B094: right-to-left text, four-byte characters and joined emoji are text, not danger."""
    assert output.printable(text) == text


def test_tracebacks_keep_their_lines_and_nothing_else() -> None:
    assert output.printable("a\n\tb\x1bc", lines=True) == "a\n\tb\\x1bc"


@pytest.mark.parametrize("text", NASTY)
def test_json_is_plain_ascii_and_still_means_the_same(text: str) -> None:
    """B094."""
    line = output.as_json({"text": text})
    assert re.fullmatch("[ -~]*", line)
    assert json.loads(line) == {"text": text}


@pytest.mark.parametrize(
    ("duration", "shown"),
    [
        (None, "-"),
        (-5, "0 ms"),
        (250_000, "250 ms"),
        (12_000_000, "12 s"),
        (192_000_000, "3 m 12 s"),
        (180_000_000, "3 m"),
        (7_500_000_000, "2 h 5 m"),
        (7_200_000_000, "2 h"),
        (442_800_000_000, "5 d 3 h"),
    ],
)
def test_ages_have_their_two_largest_units(duration: int | None, shown: str) -> None:
    assert output.age(duration) == shown


def test_moments_carry_their_offset() -> None:
    assert output.iso(1_700_000_000_123_456) == "2023-11-14T22:13:20.123+00:00"
    assert re.fullmatch(r"2023-11-1\d \d\d:\d\d:20[+-]\d\d:\d\d", output.local(1_700_000_000_123_456))
    assert output.iso(None) is None
    assert output.local(None) == "-"


def test_an_absurd_moment_is_shown_as_it_is() -> None:
    assert output.iso(10**30) == f"{10**30} us"
    assert output.local(10**30) == f"{10**30} us"


def test_columns_stand_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["NAME", "READY"], [["\u8ba2\u5355", 5], ["mail", 12_000], ["", None]])
    assert capsys.readouterr().out.splitlines() == ["NAME  READY", "\u8ba2\u5355      5", "mail  12000", "-         -"]


def test_a_cell_with_line_breaks_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """B094."""
    output.table(["A", "B"], [["x\ny", "\x1b[2J"]])
    assert capsys.readouterr().out.splitlines() == ["A     B", "x\\ny  \\x1b[2J"]


def test_a_terminal_without_the_character_gets_its_escape() -> None:
    """B094: a Latin-1 standard output costs a character its shape, not the command its life."""
    program = r"from headrace.cli.output import *; survive_any_encoding(); say('\xfc \u8ba2 \ud800')"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert result.stderr == b""
    assert result.stdout == b"\xfc \\u8ba2 \\ud800\n"
