"""What may stand in an Idempotency-Key header: Strings of RFC 9651, and bare keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http.header import BadKey, parse

PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


@given(st.text(PRINTABLE, min_size=1, max_size=255))
def test_every_string_comes_back_as_it_was_written(text: str) -> None:
    assert parse([quoted(text)]) == text
    assert parse([quoted(text)], strict=True) == text


@given(st.text(VISIBLE.replace(",", ""), min_size=1, max_size=255).filter(lambda text: text[0] != '"'))
def test_a_bare_key_is_taken_as_it_is_unless_strict(text: str) -> None:
    assert parse([text]) == text
    with pytest.raises(BadKey, match="quotation marks"):
        parse([text], strict=True)


@given(st.text(st.characters(max_codepoint=255), max_size=300), st.booleans())
def test_whatever_stands_there_is_a_key_or_is_refused(text: str, strict: bool) -> None:
    try:
        key = parse([text], strict=strict)
    except BadKey:
        return
    assert key is not None
    assert 1 <= len(key) <= 255
    assert set(key) <= set(PRINTABLE)


@pytest.mark.parametrize(
    "parameters",
    [";a", "; a=1", ";a=1.5;b=-3", ';a="x\\"y;z"', ";a=tok/en:*", ";a=:aGk=:;b=?0", ";a=@1700000000", ';a=%"f%c3%bc"'],
)
def test_parameters_are_ignored(parameters: str) -> None:
    assert parse([f'"{KEY}"{parameters}'], strict=True) == KEY


@pytest.mark.parametrize("value", [f'  "{KEY}" ', f"\t{KEY}  "])
def test_white_space_around_it_is_ignored(value: str) -> None:
    assert parse([value]) == KEY


def test_quoted_and_bare_are_the_same_key() -> None:
    assert parse([f'"{KEY}"']) == parse([KEY]) == KEY


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        '""',
        '"',
        '"abc',
        '"a"b',
        '"a" b',
        '"a", "b"',
        '"a","a"',
        "a,b",  # two bare ones, joined by a server
        "a b",
        r'"a\b"',
        '"a\\',
        '"a\x00"',
        '"a\x7f"',
        '"a\tb"',
        "a\nb",
        '"a\n"',
        '"a"\n',
        "a\n",
        "schl\xfcssel",
        '"schl\xfcssel"',
        '"a";',
        '"a";A=1',
        '"a";b=',
        '"a";b="',
        '"a";b=c d',
        "x" * 256,
        f'"{"x" * 256}"',
    ],
)
def test_what_is_no_key_is_refused(value: str) -> None:
    with pytest.raises(BadKey):
        parse([value])


def test_no_header_is_no_key() -> None:
    assert parse([]) is None
    assert parse([], strict=True) is None


@pytest.mark.parametrize("values", [["a", "a"], ["a", "b"], ['"a"', '"a"'], ["a", ""]])
def test_two_headers_are_refused(values: list[str]) -> None:
    with pytest.raises(BadKey, match="more than one"):
        parse(values)


@given(st.text('a"\\', min_size=1, max_size=10), st.integers(1, 60))
def test_the_length_is_that_of_the_key_not_of_what_is_sent(text: str, times: int) -> None:
    key = text * times
    if len(key) > 255:
        with pytest.raises(BadKey, match="characters"):
            parse([quoted(key)])
    else:
        assert parse([quoted(key)]) == key
