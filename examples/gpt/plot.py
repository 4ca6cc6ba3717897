#!/usr/bin/env python3
"""Draws what runs of example_gpt wrote: the loss by length, as an SVG for light and dark pages.

    python3 examples/gpt/plot.py -o plot.svg lssar.json lssa.json softmax.json

Several runs of one attention, with other seeds, are one line: their mean, with a bar from the least
loss to the largest.
"""

import argparse
import html
import json
import math

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 60, 60
COLORS = ("#0072b2", "#009e73", "#d55e00", "#cc79a7", "#999999", "#e69f00", "#56b4e9")  # distinct to most eyes
MARKS = ("circle", "square", "diamond")

STYLE = """
  text { font: 13px sans-serif; fill: #24292f; }
  .title { font-size: 15px; font-weight: bold; }
  .page { fill: #ffffff; }
  .axis { stroke: #24292f; stroke-width: 1; }
  .grid { stroke: #d0d7de; stroke-width: 1; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .page { fill: #0d1117; }
    .axis { stroke: #e6edf3; }
    .grid { stroke: #30363d; }
  }
"""


def name_of(run):
    if "name" in run:
        return run["name"]
    if run["attention"] == "lssar":
        return f"LSSAR, p = {run['p']}"
    return {"lssa": "LSSA"}.get(run["attention"], run["attention"])


def step_of(span):
    """A round distance of grid lines: 4 to 10 of them."""
    power = 10 ** math.floor(math.log10(span))
    return next(f * power for f in (0.1, 0.2, 0.5, 1) if span / (f * power) <= 10)


def mark(shape, x, y, color):
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{color}"/>'
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if shape == "diamond" else ""
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{color}"{turn}/>'


def ticks_around(values):
    """Round numbers, with at least half a step between them and the values."""
    low, high = min(values), max(values)
    step = step_of(max(high - low, 0.01))
    first, last = math.floor(low / step - 0.5), math.ceil(high / step + 0.5)
    return [i * step for i in range(first, last + 1)]


class Axes:
    """Places, each with its text, by their logarithm. Values as they are, or by another scale."""

    def __init__(self, places, ticks, titles, scale=float):
        self.places, self.ticks, self.titles, self.scale = places, ticks, titles, scale

    def x(self, place):
        first, last = math.log(min(self.places)), math.log(max(self.places))
        return LEFT + (math.log(place) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.scale(self.ticks[0]), self.scale(self.ticks[-1])
        return TOP + (high - self.scale(value)) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def svg(self):
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        lines = []
        for value in self.ticks:
            y = self.y(value)
            at = f'x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"'
            lines.append(f'<line class="grid" {at}/>')
            at = f'x="{LEFT - 8}" y="{y + 4:.1f}"'
            lines.append(f'<text {at} text-anchor="end">{value:.4g}</text>')
        lines.append(f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{bottom}"/>')
        lines.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        for place, text in self.places.items():
            at = f'x="{self.x(place):.1f}" y="{bottom + 18}"'
            lines.append(f'<text {at} text-anchor="middle">{text}</text>')
        x, y = (LEFT + right) / 2, (TOP + bottom) / 2
        across, up = map(html.escape, self.titles)
        lines.append(f'<text x="{x}" y="{HEIGHT - 14}" text-anchor="middle">{across}</text>')
        lines.append(
            f'<text x="16" y="{y}" text-anchor="middle" transform="rotate(-90 16 {y})">{up}</text>'
        )
        return lines


class Line:
    """At each place the values of several runs: their mean, the least and the largest."""

    def __init__(self, name, values):
        self.name = name
        self.mean = [sum(of_place) / len(of_place) for of_place in values]
        self.low = [min(of_place) for of_place in values]
        self.high = [max(of_place) for of_place in values]


def lines_of(runs):
    by_name = {}
    for run in runs:
        losses = [point["loss"] for point in run["validation"]]
        by_name.setdefault(name_of(run), []).append(losses)
    return [Line(name, list(zip(*of_runs))) for name, of_runs in by_name.items()]


def draw(runs):
    first = runs[0]
    lengths = [point["length"] for point in first["validation"]]
    places = {length: f"{length} ({length // lengths[0]} x)" for length in lengths}
    ticks = ticks_around([point["loss"] for run in runs for point in run["validation"]])
    titles = (
        "length of a window in bytes (times that of training)",
        "validation loss, nats per byte",
    )
    title = (
        f"A GPT of {first['layers']} layers, trained for {first['steps']} steps on windows of "
        f"{first['length']} bytes"
    )
    return picture(title, Axes(places, ticks, titles), lines_of(runs))


def picture(title, axes, drawn):
    """The SVG of lines at the places of the axes."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{html.escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="{LEFT}" y="30">{html.escape(title)}</text>',
        *axes.svg(),
    ]
    # Names beside the ends of their lines, pushed apart where those are close.
    last_y = -math.inf
    ends = sorted(range(len(drawn)), key=lambda i: axes.y(drawn[i].mean[-1]))
    for i in ends:
        line, color = drawn[i], COLORS[i % len(COLORS)]
        points = [(axes.x(place), axes.y(value)) for place, value in zip(axes.places, line.mean)]
        lines += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{axes.y(low):.1f}" y2="{axes.y(high):.1f}" '
            f'stroke="{color}" stroke-width="1.5"/>'
            for (x, _), low, high in zip(points, line.low, line.high)
            if low != high
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        lines += [mark(MARKS[i % len(MARKS)], x, y, color) for x, y in points]
        last_y = max(points[-1][1] + 4, last_y + 18)
        lines.append(
            f'<text x="{WIDTH - RIGHT + 12}" y="{last_y:.1f}">{html.escape(line.name)}</text>'
        )
    return "\n".join(lines) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("runs", nargs="+", help="JSON files of example_gpt")
    parser.add_argument("-o", "--output", required=True, help="the SVG")
    options = parser.parse_args()
    runs = []
    for path in options.runs:
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(draw(runs))


if __name__ == "__main__":
    main()
