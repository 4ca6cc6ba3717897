"""The paper's claims, each beside our runs. The rules were written before the runs were made."""

import statistics
from typing import Callable, Optional

from .evidence_runs import SEEDS

# values(group, attention, key, p=None): for each seed the values at 1, 2, 4, 8 and 16 x.
Values = Callable[..., list[list[float]]]
# norms(attention): for each seed of the group stability the norms of the gradient.
Norms = Callable[[str], list[list[float]]]
Row = tuple[str, str, str]  # the claim, the rule, what our runs say
_EIGHT, _SIXTEEN = 3, 4  # the columns of 8 and 16 x
_CLOSE = 0.05  # nats: losses that differ by less count as equal


_LESS = -1e-9  # shares that are equal, say all right, confirm nothing
_CONSTANT = 0.2  # nats: a loss that grows by less is nearly constant
_STRONG = "(not the paper's: the strong baseline)"


def _column(values: Values, index: int, attention: str, p: Optional[int] = None) -> list[float]:
    return [row[index] for row in values("length", attention, "loss", p)]


def _growth(values: Values, attention: str, to: int = _EIGHT) -> list[float]:
    return [row[to] - row[0] for row in values("length", attention, "loss")]


def _right(values: Values, task: str, attention: str) -> list[float]:
    return [row[_EIGHT] for row in values(task, attention, "accuracy")]


def _finds_more(values: Values, task: str) -> str:
    return _verdict(*(_right(values, task, x) for x in ("softmax", "lssar_p15")), _LESS, of_more=True)


def _verdict(less: list[float], more: list[float], slack: float = 0.0, of_more: bool = False) -> str:
    """Whether no seed of `less` is above any seed of `more` by more than `slack`. The claim is about
    the first, or with `of_more` about the second: its mean is shown first."""
    if len(less) < len(SEEDS) or len(more) < len(SEEDS):
        return "not tested yet: seeds are missing"
    first, second = (more, less) if of_more else (less, more)
    shown = f"{statistics.fmean(first):.3f} and {statistics.fmean(second):.3f}"
    return ("confirmed" if max(less) <= min(more) + slack else "not confirmed") + f": {shown}"


def _table(values: Values, index: int, attention: str) -> list[float]:
    """Losses of the group tables, seed by seed; index 0 is 1 x, 1 is 8 x."""
    return [row[index] for row in values("tables", attention, "loss")]


def _table_growth(values: Values, attention: str) -> list[float]:
    return [row[1] - row[0] for row in values("tables", attention, "loss")]


def _reweighted_rows(values: Values) -> tuple[Row, ...]:
    """What the paper says of its table 4, beside the 800 steps of the group length."""
    softmax = _column(values, _EIGHT, "softmax")
    return (
        (
            "p 3 is better than p 15 at the training length",
            "loss at 1 x: every seed below every seed of p 15",
            _verdict(_column(values, 0, "lssar_p3"), _column(values, 0, "lssar_p15"), _LESS),
        ),
        (
            "Softmax trained with re-weighting, p 15, is no better than softmax at 8 x",
            "loss at 8 x: softmax's at most 0.05 above, every seed",
            _verdict(softmax, _column(values, _EIGHT, "softmax_p15"), _CLOSE),
        ),
        (
            "Sigmoid with l1 and re-weighting, p 15, is better than softmax at 8 x",
            "loss at 8 x: every seed below every seed of softmax",
            _verdict(_column(values, _EIGHT, "sigmoid_l1_p15"), softmax, _LESS),
        ),
        (
            "Sigmoid with l1 and re-weighting, p 15, is not as good as LSSAR, p 15, at 8 x",
            "loss at 8 x: every seed above every seed of LSSAR",
            _verdict(*(_column(values, _EIGHT, x) for x in ("lssar_p15", "sigmoid_l1_p15")), _LESS, True),
        ),
    )


def _part_rows(values: Values) -> tuple[Row, ...]:
    """What the paper says of the parts of softmax (its tables 1 to 4), beside the group tables."""
    softmax = _table(values, 0, "softmax")

    def close(attention: str) -> str:
        return _verdict(_table(values, 0, attention), softmax, _CLOSE)

    def grows_more(attention: str) -> str:
        growth = [_table_growth(values, x) for x in ("softmax", attention)]
        return _verdict(*growth, _LESS, True)

    near = "loss at 1 x: at most 0.05 above softmax's, every seed"
    more = "loss at 8 x minus 1 x: every seed above every seed of softmax"
    return (
        (
            "The l1 norm of softmax is essential (table 2)",
            "loss at 1 x: exp without it above softmax, every seed",
            _verdict(softmax, _table(values, 0, "exp"), _LESS, True),
        ),
        (
            "The l1 norm of softmax matters more than the exponential (table 2)",
            "loss at 1 x: the norm without exp below exp without the norm, every seed",
            _verdict(_table(values, 0, "identity_l1"), _table(values, 0, "exp"), _LESS),
        ),
        (
            "Weights need not be positive: softmax re-centred, with l1, is as good as softmax (table 1)",
            near,
            close("softmax_recentred_l1"),
        ),
        ("With l1, softplus is as good as exp (table 3)", near, close("softplus_l1")),
        ("With l1, sigmoid is as good as exp (table 3)", near, close("sigmoid_unbiased_l1")),
        (
            "With l1, a power of ReLU is worse than exp (table 3)",
            "loss at 1 x: ReLU² above softmax, every seed",
            _verdict(softmax, _table(values, 0, "relu_squared_l1"), _LESS, True),
        ),
        ("Sigmoid's loss grows more with length than softmax's (table 4)", more, grows_more("sigmoid")),
        (
            "The loss of ReLU over N grows more with length than softmax's (table 4)",
            more,
            grows_more("relu_length"),
        ),
    )


def _other_rows(values: Values, norms: Norms) -> tuple[Row, ...]:
    more = "share of right answers at 8 x: every seed above every seed of softmax"
    largest = {name: [max(run) for run in norms(f"{name}_p1000")] for name in ("lssar", "softmax")}
    return (
        (
            "It finds a passkey at 8 x more often than softmax",
            more,
            _finds_more(values, "passkey"),
        ),
        (
            "LSSAR, p 15, recalls values of keys at 8 x more often than softmax ‡",
            more,
            _finds_more(values, "recall"),
        ),
        (
            "It is numerically stable at large p, and re-weighted softmax is not",
            "largest norm of the gradient at p 1000: every seed below every seed of softmax",
            _verdict(largest["lssar"], largest["softmax"]),
        ),
    )


def claims(values: Values, norms: Norms) -> str:
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
            f"It is better at 8 x than softmax with QK norm and log N {_STRONG}",
            "loss at 8 x: likewise",
            _verdict(lssar, _column(values, _EIGHT, "softmax_entropy")),
        ),
        (
            "Its loss is nearly constant up to 16 x *",
            "loss at 16 x minus 1 x: at most 0.2, every seed",
            _verdict(_growth(values, "lssar_p15", _SIXTEEN), [_CONSTANT] * len(SEEDS)),
        ),
        (
            "LSSA, without re-weighting, is better than softmax at the training length *",
            "loss at 1 x: every seed below every seed of softmax",
            _verdict(_column(values, 0, "lssa"), _column(values, 0, "softmax")),
        ),
        (
            "LSSA is better than softmax at 8 x †",
            "loss at 8 x: every seed below every seed of softmax",
            _verdict(_column(values, _EIGHT, "lssa"), softmax, _LESS),
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
            "LSSA read with p 15 is better at 8 x than as trained",
            "loss at 8 x: every seed below",
            _verdict(_column(values, _EIGHT, "lssa", 15), _column(values, _EIGHT, "lssa")),
        ),
        *_reweighted_rows(values),
        *_other_rows(values, norms),
        *_part_rows(values),
    )
    lines = ["| claim | rule | our small models |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
