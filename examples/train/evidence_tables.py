"""The paper's small tables as a grid of runs, and how our order compares with the paper's."""

import itertools
import math
import statistics
from typing import Callable, Optional, Sequence

from .evidence_files import SEEDS
from .evidence_runs import TABLES

# values(group, attention, key): for each seed the values at every length.
Values = Callable[..., list[list[float]]]

# The paper's losses at 8K, of models trained at 1K, as the summary that the page names gives them.
PAPER_AT_8 = {
    "softmax": 6.28,
    "sigmoid": 14.50,
    "relu_length": 10.35,
    "lssa": 5.94,
    "lssar_p3": 6.30,
    "lssar_p15": 3.32,
    "softmax_p15": 7.02,
    "sigmoid_l1_p15": 3.86,
}
# The indices of 1 x and 8 x among a group's lengths.
COLUMNS = {"tables": (0, 1), "length": (0, 3)}


def ranks(numbers: Sequence[float]) -> list[float]:
    """1 for the least; equal numbers share the mean of their ranks."""
    return [
        sum(other < x for other in numbers) + (sum(other == x for other in numbers) + 1) / 2
        for x in numbers
    ]


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of the ranks: 1 the same order, -1 the opposite; nan if one has no order."""
    a, b = ranks(first), ranks(second)
    mean = (len(a) + 1) / 2
    a, b = [x - mean for x in a], [x - mean for x in b]
    norm = math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b)) / norm if norm else math.nan


def chance(count: int, least: float) -> float:
    """The share of all orders of `count` whose rank correlation with a given order is `least` or more."""
    # 1 - 6 S / (n^3 - n) with S the sum of squared differences of ranks, an integer.
    most = (1 - least) * (count**3 - count) / 6 + 1e-6
    orders = itertools.permutations(range(count))
    reach = sum(sum((i - x) ** 2 for i, x in enumerate(order)) <= most for order in orders)
    return reach / math.factorial(count)


def comparison(values: Values, group: str) -> str:
    """A sentence: the rank correlation with the paper's losses at 8 x."""
    column = COLUMNS[group][1]
    runs = {name: values(group, name, "loss") for name in PAPER_AT_8}
    runs = {name: seeds for name, seeds in runs.items() if len(seeds) == len(SEEDS)}
    count = len(runs)
    if count < 4:
        return "too few attentions have all seeds"
    paper = [PAPER_AT_8[name] for name in runs]
    mean = spearman(paper, [statistics.fmean(run[column] for run in seeds) for seeds in runs.values()])
    by_seed = zip(*([run[column] for run in seeds] for seeds in runs.values()))
    each = ", ".join(f"{spearman(paper, losses):.2f}" for losses in by_seed)
    share = 100 * chance(count, mean)
    return f"{mean:.2f} for {count} attentions ({each} by seed); {share:.1f} % of all orders reach it"


def _row(values: Values, name: str, title: str, places: Optional[Sequence[float]]) -> str:
    """A line of the grid. places: the ranks at 1 x and 8 x; None: seeds are missing."""
    seeds = values("tables", name, "loss")
    cells = [str(len(seeds))]
    for i, column in enumerate(zip(*seeds)):
        cells.append(f"{statistics.fmean(column):.3f} ({min(column):.3f} to {max(column):.3f})")
        cells.append(f"{places[i]:g}" if places else "-")
    paper = PAPER_AT_8.get(name)
    return f"| {title} | " + " | ".join([*cells, "-" if paper is None else f"{paper:.2f}"]) + " |"


def grid(values: Values, number: int, title_of: Callable[[str], str]) -> str:
    """One of the paper's tables: our losses at 1 x and 8 x, their ranks among the attentions that have
    all seeds, and the paper's losses at 8 x."""
    runs = {name: values("tables", name, "loss") for name in TABLES[number]}
    means = {
        name: [statistics.fmean(column) for column in zip(*seeds)]
        for name, seeds in runs.items()
        if len(seeds) == len(SEEDS)
    }
    columns = [ranks(column) for column in zip(*means.values())]
    places = dict(zip(means, zip(*columns)))
    lines = ["| | seeds | loss at 1 x | rank | loss at 8 x | rank | the paper's at 8 x |"]
    lines.append("| --- " * 7 + "|")
    lines += [_row(values, x, title_of(x), places.get(x)) for x, seeds in runs.items() if seeds]
    return "\n".join(lines) + "\n" if len(lines) > 2 else "No run is done yet.\n"
