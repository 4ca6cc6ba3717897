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


class Axes:
    """Lengths by their logarithm, losses as they are."""

    def __init__(self, lengths, losses):
        span = max(max(losses) - min(losses), 0.01)
        self.step = step_of(span)
        self.low = math.floor(min(losses) / self.step - 0.5) * self.step
        self.high = math.ceil(max(losses) / self.step + 0.5) * self.step
        self.lengths = lengths

    def x(self, length):
        first, last = math.log(self.lengths[0]), math.log(self.lengths[-1])
        return LEFT + (math.log(length) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(self, loss):
        return TOP + (self.high - loss) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def svg(self):
        lines = []
        for i in range(round((self.high - self.low) / self.step) + 1):
            loss = self.low + i * self.step
            y = self.y(loss)
            lines.append(
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            lines.append(
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:.4g}</text>'
            )
        bottom = HEIGHT - BOTTOM
        lines.append(f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{bottom}"/>')
        lines.append(
            f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
        )
        for length in self.lengths:
            times = length // self.lengths[0]
            lines.append(
                f'<text x="{self.x(length):.1f}" y="{bottom + 18}" text-anchor="middle">'
                f"{length} ({times} x)</text>"
            )
        middle = (LEFT + WIDTH - RIGHT) / 2
        lines.append(
            f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">'
            "length of a window in bytes (times that of training)</text>"
        )
        lines.append(
            f'<text x="16" y="{(TOP + bottom) / 2}" text-anchor="middle" '
            f'transform="rotate(-90 16 {(TOP + bottom) / 2})">validation loss, nats per byte</text>'
        )
        return lines


class Line:
    """The runs of one attention: at each length the mean, the least and the largest loss."""

    def __init__(self, runs):
        self.name = name_of(runs[0])
        columns = list(zip(*([point["loss"] for point in run["validation"]] for run in runs)))
        self.mean = [sum(column) / len(column) for column in columns]
        self.low = [min(column) for column in columns]
        self.high = [max(column) for column in columns]


def lines_of(runs):
    by_name = {}
    for run in runs:
        by_name.setdefault(name_of(run), []).append(run)
    return [Line(group) for group in by_name.values()]


def draw(runs):
    lengths = [point["length"] for point in runs[0]["validation"]]
    axes = Axes(lengths, [point["loss"] for run in runs for point in run["validation"]])
    first = runs[0]
    title = (
        f"A GPT of {first['layers']} layers, trained for {first['steps']} steps on windows of "
        f"{first['length']} bytes"
    )
    return picture(title, axes, lengths, lines_of(runs))


def picture(title, axes, places, drawn):
    """The SVG of lines, each with name, mean, low and high at the places."""
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
        points = [(axes.x(place), axes.y(value)) for place, value in zip(places, line.mean)]
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
