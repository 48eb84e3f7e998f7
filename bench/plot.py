"""Curves over time as a small SVG: the same numbers give the same text, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import msgspec

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 60, 44
GREY, INK = "#8a8f98", "#2b2f36"
FONT = 'font-family="sans-serif" font-size="12"'


class Curve(msgspec.Struct, frozen=True):
    """One value for each step, from 0 on."""

    label: str
    colour: str
    values: Sequence[float]


class Plot(msgspec.Struct, frozen=True):
    """`level`: a line across. `band`: a stretch of the time axis that is shaded."""

    title: str
    across: str
    up: str
    curves: Sequence[Curve]
    level: tuple[float, str]
    band: tuple[float, float, str]


class _Scale:
    def __init__(self, plot: Plot) -> None:
        self.steps = max(len(curve.values) for curve in plot.curves)
        self.most = round_up(max(plot.level[0], *(value for curve in plot.curves for value in curve.values)))

    def x(self, step: float) -> str:
        return _number(LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps)

    def y(self, value: float) -> str:
        return _number(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.most)


def round_up(value: float) -> int:
    """To a number that can be divided into four or five parts that read well."""
    size = 1
    while True:
        for part in (4, 5, 8, 10, 20):
            if part * size >= value:
                return part * size
        size *= 10


def draw(plot: Plot) -> str:
    """The whole file."""
    scale = _Scale(plot)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT} {_described(plot.title)}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 20, plot.title, size=14),
        *_band(plot, scale),
        *_axes(plot, scale),
        *_level(plot, scale),
        *(_curve(curve, scale) for curve in plot.curves),
        *_legend(plot),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _described(title: str) -> str:
    return f'role="img" aria-label="{escape(title)}"'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(
    x: float | str, y: float | str, text: str, *, anchor: str = "start", colour: str = INK, size: int = 12
) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{escape(text)}</text>'


def _line(x1: str, y1: str, x2: str, y2: str, more: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {more}/>'


def _band(plot: Plot, scale: _Scale) -> Iterator[str]:
    first, last, label = plot.band
    width = _number(float(scale.x(last)) - float(scale.x(first)))
    yield (
        f'<rect x="{scale.x(first)}" y="{TOP}" width="{width}" height="{HEIGHT - TOP - BOTTOM}" '
        f'fill="{GREY}" fill-opacity="0.15"/>'
    )
    yield _text(scale.x((first + last) / 2), TOP + 16, label, anchor="middle", colour=GREY)


def _axes(plot: Plot, scale: _Scale) -> Iterator[str]:
    parts = 5 if scale.most % 5 == 0 else 4
    for part in range(parts + 1):
        value = scale.most * part / parts
        y = scale.y(value)
        yield _line(scale.x(0), y, scale.x(scale.steps), y, f'stroke="{GREY}" stroke-opacity="0.3"')
        yield _text(LEFT - 8, float(y) + 4, f"{value:g}", anchor="end")
    for step in range(0, scale.steps + 1, round_up(scale.steps / 10)):
        yield _text(scale.x(step), HEIGHT - BOTTOM + 18, str(step), anchor="middle")
    yield _text(WIDTH - RIGHT, HEIGHT - 8, plot.across, anchor="end")
    yield _text(LEFT - 40, TOP - 14, plot.up)


def _level(plot: Plot, scale: _Scale) -> Iterator[str]:
    value, label = plot.level
    yield _line(
        scale.x(0), scale.y(value), scale.x(scale.steps), scale.y(value), f'stroke="{INK}" stroke-dasharray="6 4"'
    )
    yield _text(WIDTH - RIGHT - 4, float(scale.y(value)) - 6, label, anchor="end")


def _curve(curve: Curve, scale: _Scale) -> str:
    points = " ".join(f"{scale.x(step + 0.5)},{scale.y(value)}" for step, value in enumerate(curve.values))
    return f'<polyline points="{points}" fill="none" stroke="{curve.colour}" stroke-width="2" stroke-linejoin="round"/>'


def _legend(plot: Plot) -> Iterator[str]:
    x = LEFT + 100
    for curve in plot.curves:
        yield _line(str(x), "42", str(x + 24), "42", f'stroke="{curve.colour}" stroke-width="3"')
        yield _text(x + 30, 46, curve.label)
        x += 60 + 7 * len(curve.label)
