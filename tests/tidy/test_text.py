"""What no file holds: silenced complexity, promises to do it later, paths of one machine, an index's address."""

import re
from pathlib import Path

import pytest

from tests.tidy.house import ROOT, place, tracked

THIS = Path(__file__).resolve()
CODE = {".py", ".pyi", ".sql", ".lua", ".sh", ".toml", ".html", ".css", ".js"}
BINARY = {".png", ".jpg", ".gif", ".ico", ".woff2"}

IN_CODE = {
    "complexity is reduced, not silenced": r"noqa:[^\n]*\b(C901|PLR\d+)|#\s*(ruff|flake8):\s*noqa|#\s*noqa(?!:)",
    "it is done, or it is an issue": r"\b(TODO|FIXME|XXX|HACK)\b",
    "types are not switched off for a file": r"#\s*mypy:\s*(ignore-errors|disable-error-code)",
}
IN_ANYTHING = {
    "a path of somebody's machine": r"(?<![\w.-])/(work|root|home/\w+|Users/\w+|opt/\w+)/\w",
    "the address of a package index": (
        r"pypi\.org|pythonhosted|registry\.npmjs|deb\.debian|proxy\.golang|"
        r"(?<!no-emit)-(extra-)?index-url|(?<!no-emit)-find-links|^\s*index-url\s*="
    ),
}
SAMPLES = [
    "def f():  # noqa: PLR0913",
    "def f():  # noqa: E501, C901",
    "x = 1  # noqa",
    "# ruff: noqa: F401",
    "# TODO later",
    "# mypy: ignore-errors",
    "see /home/me/file",
    "'/work/x'",
    "https://pypi.org/simple",
    "--index-url x",
    "--extra-index-url x",
]


def broken(paths: list[Path], patterns: dict[str, str]) -> list[str]:
    compiled = {why: re.compile(pattern, re.MULTILINE) for why, pattern in patterns.items()}
    return [
        f"{place(path, text.count(chr(10), 0, hit.start()) + 1)} {why}: {hit[0]!r}"
        for path in paths
        for text in [path.read_text(encoding="utf-8")]
        for why, pattern in compiled.items()
        for hit in pattern.finditer(text)
    ]


def test_code_silences_and_postpones_nothing() -> None:
    seen = [path for path in tracked() if path != THIS and (path.suffix in CODE or path.name == "Makefile")]
    assert len(seen) >= 25
    assert not (found := broken(seen, IN_CODE)), "\n".join(found)


def test_no_file_knows_a_machine_or_an_index() -> None:
    seen = [path for path in tracked() if path != THIS and path.suffix not in BINARY]
    assert len(seen) >= 35
    assert ROOT / "requirements" / "test.txt" in seen
    assert not (found := broken(seen, IN_ANYTHING)), "\n".join(found)


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_sample_is_caught(tmp_path: Path, sample: str) -> None:
    (tmp_path / "sample").write_text(sample, encoding="utf-8")
    assert len(broken([tmp_path / "sample"], IN_CODE | IN_ANYTHING)) == 1


@pytest.mark.parametrize("sample", ["x = y  # noqa: S608", "/usr/bin/env", "--no-emit-index-url", "a/home/b/c"])
def test_a_harmless_line_passes(tmp_path: Path, sample: str) -> None:
    (tmp_path / "sample").write_text(sample, encoding="utf-8")
    assert not broken([tmp_path / "sample"], IN_CODE | IN_ANYTHING)
