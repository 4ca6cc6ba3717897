"""The paper's figures beside ours: its losses, its small tables as a grid of runs, and the order of both."""

import itertools
import math
import statistics
from typing import Optional, Sequence

from .evidence_files import SEEDS, cell, table
from .evidence_runs import TABLES
from .evidence_titles import title_of
from .evidence_values import Runs

# The paper's losses at 1K, the length of its training, 2K, 4K and 8K, as the summary that the page names
# gives them. None: it does not.
PAPER: dict[str, tuple[Optional[float], ...]] = {
    "softmax": (3.19, 4.17, 5.45, 6.28),
    "sigmoid": (3.19, 7.46, 11.84, 14.50),
    "relu_length": (3.21, 6.27, 8.50, 10.35),
    "lssa": (3.19, 4.13, 5.30, 5.94),
    "lssar_p3": (3.18, 4.24, 5.41, 6.30),
    "lssar_p15": (3.19, 3.19, 3.23, 3.32),
    "softmax_p15": (None, None, None, 7.02),
    "sigmoid_l1_p15": (None, None, None, 3.86),
}
PAPER_AT_8 = {name: losses[-1] for name, losses in PAPER.items() if losses[-1] is not None}


def _two_digits(loss: Optional[float]) -> str:
    return "-" if loss is None else f"{loss:.2f}"


def paper_table() -> str:
    rows = ([title_of(name), *map(_two_digits, losses)] for name, losses in PAPER.items())
    return table(("length", "1K (1 x)", "2K", "4K", "8K"), rows)


def growth_table(runs: Runs) -> str:
    """By how much losses grow from 1 x to 8 x, the paper's and those of the group length."""
    rows = []
    for name, (first, *_, last) in PAPER.items():
        ours = runs.growth(8, name)
        if ours and first is not None and last is not None:
            rows.append([title_of(name), _two_digits(last - first), cell(ours)])
    return table(("growth from 1 x to 8 x", "the paper's", "ours"), rows)


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


def comparison(runs: Runs, group: str) -> str:
    """A sentence: the rank correlation with the paper's losses at 8 x."""
    losses = {name: runs.at(8, name, group=group) for name in PAPER_AT_8}
    losses = {name: of_seeds for name, of_seeds in losses.items() if len(of_seeds) == len(SEEDS)}
    count = len(losses)
    if count < 4:
        return "too few attentions have all seeds"
    paper = [PAPER_AT_8[name] for name in losses]
    mean = spearman(paper, list(map(statistics.fmean, losses.values())))
    each = ", ".join(f"{spearman(paper, of_seed):.2f}" for of_seed in zip(*losses.values()))
    share = f"{100 * chance(count, mean):.1f} % of all possible orders have one as large or larger"
    return f"{mean:.2f} for {count} attentions ({each} by seed); {share}"


def grid(runs: Runs, number: int) -> str:
    """One of the paper's tables: our losses at 1 x and 8 x, their ranks among the attentions that have
    all seeds, and the paper's losses at 8 x."""
    columns = {name: list(zip(*runs.values("tables", name, "loss"))) for name in TABLES[number]}
    columns = {name: of for name, of in columns.items() if of}
    whole = {name: of for name, of in columns.items() if len(of[0]) == len(SEEDS)}
    places = [ranks(means) for means in zip(*(map(statistics.fmean, of) for of in whole.values()))]
    of_name = dict(zip(whole, zip(*places)))
    rows = []
    for name, of in columns.items():
        shown = [f"{x:g}" for x in of_name[name]] if name in of_name else ["-", "-"]
        pairs = (x for losses, rank in zip(of, shown) for x in (cell(losses), rank))
        rows.append([title_of(name), str(len(of[0])), *pairs, _two_digits(PAPER_AT_8.get(name))])
    head = ("", "seeds", "loss at 1 x", "rank", "loss at 8 x", "rank", "the paper's at 8 x")
    return table(head, rows)
