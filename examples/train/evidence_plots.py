"""The plots of docs/extrapolation.md, as SVG: means over seeds, with bars from the least to the largest."""

import math
import statistics
from typing import Callable, Optional, Sequence

from ..gpt import plot
from .evidence_runs import GROUPS, LENGTH, POWERS
from .evidence_titles import SHORT_TITLES, title_of
from .evidence_values import Runs

Lines = dict[str, Sequence[Sequence[float]]]  # by name: at each place the values of the seeds


def _ticks(values: list[float]) -> list[float]:
    """Round numbers from one at most the least value to one at least the largest."""
    step = plot.step_of(max(values) - min(values))
    return [i * step for i in range(math.floor(min(values) / step), math.ceil(max(values) / step) + 1)]


def _ticks_by_log(values: list[float]) -> list[float]:
    """As _ticks, but 1, 2 and 5 times powers of 10."""
    low, high = min(values), max(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [digit * 10.0**x for x in decades for digit in (1, 2, 5)]
    first = max(i for i, tick in enumerate(every) if tick <= low)
    last = min(i for i, tick in enumerate(every) if tick >= high)
    return every[first : last + 1]


def _draw(title: str, places: dict[int, str], lines: Lines, titles: tuple[str, str], by_log: bool) -> str:
    """The SVG. by_log: values by their logarithm."""
    values = [x for line in lines.values() for of_place in line for x in of_place]
    ticks = (_ticks_by_log if by_log else _ticks)(values)
    axes = plot.Axes(places, ticks, titles, math.log10 if by_log else float)
    return str(plot.picture(title, axes, [plot.Line(name, line) for name, line in lines.items()]))


def _loss(runs: Runs) -> Optional[str]:
    times, drawn = GROUPS["length"].times, []
    for attention, name in SHORT_TITLES.items():
        for values in runs.values("length", attention, "loss"):
            points = [{"length": LENGTH * t, "loss": x} for t, x in zip(times, values)]
            drawn.append({"name": name, "validation": points})
    if not drawn:
        return None
    config = runs.of("length")[0]["config"]
    sizes = {"layers": config["model"]["layers"], "steps": config["train"]["steps"], "length": LENGTH}
    return str(plot.draw([{**run, **sizes} for run in drawn]))


def _by_power(
    values_of: Callable[[str], list[float]], title: str, unit: str, by_log: bool = False
) -> Optional[str]:
    """The paper's Figure 2: a figure of the group stability against p."""
    lines = {
        title_of(name): [values_of(f"{name}_p{p}") for p in POWERS] for name in ("lssar", "softmax")
    }
    if not all(of_place for line in lines.values() for of_place in line):
        return None
    places = {p: str(p) for p in POWERS}
    return _draw(f"{title}, by power", places, lines, ("p of the re-weighting", unit), by_log)


def _entropy(runs: Runs) -> Optional[str]:
    lines: Lines = {}
    for attention in GROUPS["looking"].attentions:
        seeds = [[statistics.fmean(heads) for heads in x] for x in runs.looked(attention, "entropy")]
        if seeds:
            lines[SHORT_TITLES[attention]] = list(zip(*seeds))
    if not lines:
        return None
    lines["equal weights"] = [[point["uniform"]] for point in runs.of("looking")[0]["points"]]
    places = {LENGTH * t: f"{LENGTH * t} ({t} x)" for t in GROUPS["looking"].times}
    titles = ("length of a window in bytes (times that of training)", "entropy of a query's weights, nats")
    return _draw("Entropy of the attention, mean over heads", places, lines, titles, by_log=False)


def plots(runs: Runs) -> dict[str, str]:
    """Each plot that there are runs for, by the name of its file."""
    norm = ("Largest norm of the gradient", "norm, before clipping")
    loss = ("Training loss after 200 steps", "nats per byte")
    drawn = {
        "loss_by_length": _loss(runs),
        "gradient_by_power": _by_power(runs.largest_norms, *norm, by_log=True),
        "loss_by_power": _by_power(runs.last_losses, *loss),
        "entropy_by_length": _entropy(runs),
    }
    return {name: svg for name, svg in drawn.items() if svg}
