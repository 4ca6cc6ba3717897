"""TFLOP/s over length as one SVG file, without any library: a panel per pass and (d, causal).

A CPU's page shows GFLOP/s. It has a row of panels per pass and number of threads, and a column per
dtype, d and causal. A dotted line is the FMA peak. Decodes and packed sequences are left out.
"""

from xml.sax.saxutils import escape

from compare.cases import PASSES, count

PANEL_WIDTH, PANEL_HEIGHT = 230, 170
LEFT, TOP, GAP_X, GAP_Y, LEGEND = 56, 44, 62, 58, 26
# Distinct for the colour-blind too (Okabe and Ito); a contender beyond these reuses them.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#999999")
DASHES = {"gauss": "", "peaky": "5 3"}


def nice_top(value):
    """The least of 1, 2, 5 times a power of ten that is not below value."""
    if not value > 0:
        return 1.0
    step = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 1e-9
    while True:
        for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10):
            if factor * step >= value:
                return factor * step
        step *= 10


def length_label(length):
    return f"{length // 1024}K" if length >= 1024 and length % 1024 == 0 else str(length)


class Svg:
    def __init__(self, width, height):
        self._parts = [
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">\n'
            f'<rect width="{width}" height="{height}" fill="white"/>'
        ]

    def text(self, x, y, text, anchor="start", size=11):
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
            f"{escape(text)}</text>"
        )

    def line(self, points, colour, dash="", width=1.5):
        coordinates = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{coordinates}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}"{dashed}/>'
        )

    def dot(self, x, y, colour):
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>')

    def document(self):
        return "\n".join(self._parts) + "\n</svg>\n"


class Panel:
    """Axes at (x, y) with lengths at equal distances and rates from 0 to `top`."""

    def __init__(self, svg, x, y, lengths, top):
        self._svg, self._x, self._y = svg, x, y
        self._lengths, self._top = lengths, top

    def at(self, length, rate):
        steps = max(len(self._lengths) - 1, 1)
        place = self._lengths.index(length) / steps if len(self._lengths) > 1 else 0.5
        return (
            self._x + place * PANEL_WIDTH,
            self._y + PANEL_HEIGHT * (1 - rate / self._top),
        )

    def axes(self, title, size):
        for part in range(5):
            value = self._top * part / 4
            y = self._y + PANEL_HEIGHT * (1 - part / 4)
            self._svg.line([(self._x, y), (self._x + PANEL_WIDTH, y)], "#dddddd", width=0.7)
            self._svg.text(self._x - 6, y + 4, f"{value:.4g}", "end", 10)
        for length in self._lengths:
            x, _ = self.at(length, 0)
            self._svg.text(x, self._y + PANEL_HEIGHT + 14, length_label(length), "middle", 10)
        self._svg.text(self._x, self._y - 8, title, size=size)


def rate_of(record):
    return record["tflops"] * (1e3 if "threads" in record else 1)


def row_of(record):
    return record["pass"], record.get("threads")


def column_of(record):
    return record.get("dtype"), record["dim"], record["causal"]


def plot(records, title):
    """The SVG text. If nothing was measured, the picture says so."""
    done = [
        r
        for r in records
        if r["status"] == "ok" and not r.get("num_queries") and not r.get("longest")
    ]
    unit = "GFLOP/s" if any("threads" in r for r in records) else "TFLOP/s"
    names = list(dict.fromkeys(r["contender"] for r in done))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    rows = sorted(dict.fromkeys(map(row_of, done)), key=lambda row: PASSES.index(row[0]))
    columns = list(dict.fromkeys(map(column_of, done)))
    width = LEFT + max(len(columns), 2) * (PANEL_WIDTH + GAP_X)
    height = TOP + LEGEND + max(len(rows), 1) * (PANEL_HEIGHT + GAP_Y)
    svg = Svg(width, height)
    svg.text(LEFT, 20, f"{title}, {unit} over length", size=13)
    if not done:
        svg.text(LEFT, TOP + LEGEND, "Nothing was measured.")
    x = LEFT
    for name in names:
        svg.line([(x, TOP - 4), (x + 18, TOP - 4)], colours[name], width=2.5)
        svg.text(x + 23, TOP, name)
        x += 40 + 7 * len(name)
    if any(r["data"] == "peaky" for r in done):
        svg.text(x, TOP, "dashed: peaky inputs")
        x += 150
    if any("fma_gflops" in r for r in done):
        svg.text(x, TOP, "dotted: FMA peak")
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            here = [r for r in done if (row_of(r), column_of(r)) == (row, column)]
            if here:
                x = LEFT + j * (PANEL_WIDTH + GAP_X)
                y = TOP + LEGEND + i * (PANEL_HEIGHT + GAP_Y) + 14
                draw_panel(svg, x, y, here, colours)
    return svg.document()


def draw_panel(svg, x, y, records, colours):
    lengths = sorted({r["length"] for r in records})
    first = records[0]
    peaks = {r["length"]: r["fma_gflops"] for r in records if "fma_gflops" in r}
    panel = Panel(svg, x, y, lengths, nice_top(max([*map(rate_of, records), *peaks.values()])))
    kind = "causal" if first["causal"] else "not causal"
    cpu = f"{first['dtype']}, {count(first['threads'])}, " if "threads" in first else ""
    panel.axes(f"{first['pass']}, {cpu}d {first['dim']}, {kind}", size=10 if cpu else 12)
    if peaks:
        svg.line([panel.at(length, peaks[length]) for length in sorted(peaks)], "#999999", "1 3")
    for name, data in dict.fromkeys((r["contender"], r["data"]) for r in records):
        line = [r for r in records if (r["contender"], r["data"]) == (name, data)]
        points = [
            panel.at(r["length"], rate_of(r)) for r in sorted(line, key=lambda r: r["length"])
        ]
        svg.line(points, colours[name], DASHES.get(data, "2 2"))
        for point in points:
            svg.dot(*point, colours[name])
