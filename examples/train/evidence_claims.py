"""The paper's claims, each beside our runs. The rules were written before the runs were made."""

import statistics
from typing import Callable, Optional

from .evidence_runs import SEEDS

# values(group, attention, key, p=None): for each seed the values at 1, 2, 4, 8 and 16 x.
Values = Callable[..., list[list[float]]]
_EIGHT = 3  # the column of 8 x
_CLOSE = 0.05  # nats: losses that differ by less count as equal


def _column(values: Values, index: int, attention: str, p: Optional[int] = None) -> list[float]:
    return [row[index] for row in values("length", attention, "loss", p)]


def _growth(values: Values, attention: str) -> list[float]:
    return [row[_EIGHT] - row[0] for row in values("length", attention, "loss")]


def _verdict(less: list[float], more: list[float], slack: float = 0.0) -> str:
    """Whether no seed of `less` is above any seed of `more` by more than `slack`."""
    if len(less) < len(SEEDS) or len(more) < len(SEEDS):
        return "not tested yet: seeds are missing"
    shown = f"{statistics.fmean(less):.3f} and {statistics.fmean(more):.3f}"
    return ("confirmed" if max(less) <= min(more) + slack else "not confirmed") + f": {shown}"


def claims(values: Values) -> str:
    """A table: the claim, the rule, what our runs say."""
    lssar, softmax = (_column(values, _EIGHT, x) for x in ("lssar_p15", "softmax"))
    rows = (
        (
            "LSSAR, p 15, loses nothing at the training length",
            "loss at 1 x: at most 0.05 above softmax's, every seed",
            _verdict(_column(values, 0, "lssar_p15"), _column(values, 0, "softmax"), _CLOSE),
        ),
        (
            "Its loss grows less with length than softmax's",
            "loss at 8 x minus 1 x: every seed below every seed of softmax",
            _verdict(_growth(values, "lssar_p15"), _growth(values, "softmax")),
        ),
        ("It is better than softmax at 8 x", "loss at 8 x: likewise", _verdict(lssar, softmax)),
        (
            "It is better at 8 x than softmax with QK norm and log N (not the paper's: the strong baseline)",
            "loss at 8 x: likewise",
            _verdict(lssar, _column(values, _EIGHT, "softmax_entropy")),
        ),
        (
            "p 3 is no better than softmax at 8 x",
            "loss at 8 x: softmax's at most 0.05 above, every seed",
            _verdict(softmax, _column(values, _EIGHT, "lssar_p3"), _CLOSE),
        ),
        (
            "Re-weighting needs no fine-tuning: softmax read with p 15 is better at 8 x than as trained",
            "loss at 8 x: every seed below",
            _verdict(_column(values, _EIGHT, "softmax", 15), softmax),
        ),
        (
            "The same for LSSA",
            "loss at 8 x: every seed below",
            _verdict(_column(values, _EIGHT, "lssa", 15), _column(values, _EIGHT, "lssa")),
        ),
    )
    lines = ["| claim | rule | our small models |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
