"""The plots of docs/extrapolation.md, as SVG: means over seeds, with bars from the least to the largest."""

import dataclasses
import html
import math
import statistics
from typing import Optional, Sequence

from ..gpt import plot
from .evidence_runs import GROUPS
from .evidence_values import LENGTH, Runs

_POWERS = (1, 3, 15, 100, 1000)  # of the group stability
_OF_LOSS = {
    "softmax": "softmax",
    "softmax_entropy": "softmax, log N",
    "lssa": "LSSA",
    "lssar_p3": "LSSAR, p = 3",
    "lssar_p15": "LSSAR, p = 15",
}


@dataclasses.dataclass
class Line:
    """At each place the values of the seeds."""

    name: str
    values: Sequence[Sequence[float]]

    @property
    def mean(self) -> list[float]:
        return [statistics.fmean(x) for x in self.values]

    @property
    def low(self) -> list[float]:
        return [min(x) for x in self.values]

    @property
    def high(self) -> list[float]:
        return [max(x) for x in self.values]


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from one at most `low` to one at least `high`."""
    step = plot.step_of(high - low)
    return [i * step for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _ticks_by_log(low: float, high: float) -> list[float]:
    """As _ticks, but 1, 2 and 5 times powers of 10."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [digit * 10.0**x for x in decades for digit in (1, 2, 5)]
    first = max(i for i, tick in enumerate(every) if tick <= low)
    last = min(i for i, tick in enumerate(every) if tick >= high)
    return every[first : last + 1]


class Axes:
    """x by its logarithm. y as it is, or by its logarithm."""

    def __init__(self, places: dict[int, str], lines: Sequence[Line], titles: tuple[str, str], by_log: bool):
        values = [x for line in lines for seeds in line.values for x in seeds]
        self.places, self.titles = places, titles
        self.scale = math.log10 if by_log else float
        self.ticks = (_ticks_by_log if by_log else _ticks)(min(values), max(values))

    def x(self, place: float) -> float:
        first, last = (math.log(x) for x in (min(self.places), max(self.places)))
        return plot.LEFT + (math.log(place) - first) / (last - first) * (plot.WIDTH - plot.LEFT - plot.RIGHT)

    def y(self, value: float) -> float:
        low, high = self.scale(self.ticks[0]), self.scale(self.ticks[-1])
        of_height = (high - self.scale(value)) / (high - low)
        return plot.TOP + of_height * (plot.HEIGHT - plot.TOP - plot.BOTTOM)

    def svg(self) -> list[str]:
        left, right, bottom = plot.LEFT, plot.WIDTH - plot.RIGHT, plot.HEIGHT - plot.BOTTOM
        lines = []
        for value in self.ticks:
            y = self.y(value)
            lines.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            lines.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
        lines.append(f'<line class="axis" x1="{left}" x2="{left}" y1="{plot.TOP}" y2="{bottom}"/>')
        lines.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        for place, text in self.places.items():
            at = f'x="{self.x(place):.1f}" y="{bottom + 18}"'
            lines.append(f'<text {at} text-anchor="middle">{text}</text>')
        x, y = (left + right) / 2, (plot.TOP + bottom) / 2
        across, up = map(html.escape, self.titles)
        lines.append(f'<text x="{x}" y="{plot.HEIGHT - 14}" text-anchor="middle">{across}</text>')
        lines.append(f'<text x="16" y="{y}" text-anchor="middle" transform="rotate(-90 16 {y})">{up}</text>')
        return lines


def _loss(runs: Runs) -> Optional[str]:
    times, drawn = GROUPS["length"].times, []
    for attention, name in _OF_LOSS.items():
        for values in runs.values("length", attention, "loss"):
            points = [{"length": LENGTH * t, "loss": x} for t, x in zip(times, values)]
            drawn.append({"name": name, "validation": points})
    if not drawn:
        return None
    config = runs.of("length")[0]["config"]
    sizes = {"layers": config["model"]["layers"], "steps": config["train"]["steps"], "length": LENGTH}
    return plot.draw([{**run, **sizes} for run in drawn])


def _by_power(runs: Runs, key: str) -> Optional[str]:
    """The paper's Figure 2: the largest norm of the gradient or the loss at the end, against p."""
    is_norm, lines = key == "norm", []
    for name in ("lssar", "softmax"):
        attentions = [f"{name}_p{p}" for p in _POWERS]
        if is_norm:
            values = [[max(run) for run in runs.norms(x)] for x in attentions]
        else:
            values = [runs.last_losses(x) for x in attentions]
        if not all(values):
            return None
        lines.append(Line({"lssar": "LSSAR", "softmax": "softmax"}[name], values))
    title = "Largest norm of the gradient" if is_norm else "Training loss after 200 steps"
    titles = ("p of the re-weighting", "norm, before clipping" if is_norm else "nats per byte")
    axes = Axes({p: str(p) for p in _POWERS}, lines, titles, by_log=is_norm)
    return plot.picture(f"{title}, by power", axes, _POWERS, lines)


def _entropy(runs: Runs) -> Optional[str]:
    times, lines = GROUPS["looking"].times, []
    points = next((run["points"] for run in runs.of("looking")), [])
    for attention in GROUPS["looking"].attentions:
        seeds = [[statistics.fmean(heads) for heads in x] for x in runs.looked(attention, "entropy")]
        if seeds:
            lines.append(Line(_OF_LOSS[attention], list(zip(*seeds))))
    if not lines:
        return None
    lines.append(Line("equal weights", [[point["uniform"]] for point in points]))
    places = [LENGTH * t for t in times]
    titles = ("length of a window in bytes (times that of training)", "entropy of a query's weights, nats")
    axes = Axes({n: f"{n} ({t} x)" for n, t in zip(places, times)}, lines, titles, by_log=False)
    return plot.picture("Entropy of the attention, mean over heads", axes, places, lines)


def plots(runs: Runs) -> dict[str, str]:
    """Each plot that there are runs for, by the name of its file."""
    drawn = {
        "loss_by_length": _loss(runs),
        "gradient_by_power": _by_power(runs, "norm"),
        "loss_by_power": _by_power(runs, "loss"),
        "entropy_by_length": _entropy(runs),
    }
    return {name: svg for name, svg in drawn.items() if svg}
