"""The paper's claims, each beside our runs. Rules without a mark were written before the runs were made."""

import statistics
from typing import Callable, Sequence

from .evidence_files import SEEDS, table
from .evidence_values import Runs

Row = tuple[str, str, str]  # the claim, the rule, what our runs say
_CLOSE = 0.05  # nats: losses that differ by less count as equal
_CONSTANT = 0.2  # nats: a loss that grows by less is nearly constant
_LEARNED = 0.5  # share of right answers: a model with less at 1 x has not learned its task
_SINK = 0.1  # of a head's weight, on the first token: less is no sink
_INVARIANT = 0.1  # nats of entropy per nat of log N: less is nearly the same at every length
_MISSING = "not tested yet: seeds are missing"
_STRONG = "(not the paper's: the strong baseline)"
_SECOND = "(not the paper's: a second task)"
_KINDS = ("confirmed", "not confirmed", "not tested")
_OPPOSITE = "not confirmed, the opposite in every seed"


def _verdict(less: list[float], more: list[float], *, slack: float = 0.0, of_more: bool = False) -> str:
    """Whether every seed of `less` is below every seed of `more`, or with a slack at most so much above.
    The claim is about the first, or with `of_more` about the second: its mean is shown first."""
    if len(less) < len(SEEDS) or len(more) < len(SEEDS):
        return _MISSING
    first, second = (more, less) if of_more else (less, more)
    shown = f"{statistics.fmean(first):.3f} and {statistics.fmean(second):.3f}"
    most, limit = max(less), min(more) + slack
    is_confirmed = most <= limit if slack else most < limit
    return f"{_kind(is_confirmed, min(less) > max(more) + slack)}: {shown}"


def _below(values: list[float], most: float) -> str:
    """Whether no seed is above a number."""
    if len(values) < len(SEEDS):
        return _MISSING
    return f"{_kind(max(values) <= most, min(values) > most)}: {statistics.fmean(values):.3f}"


def _kind(is_confirmed: bool, is_opposite: bool) -> str:
    if is_confirmed:
        return "confirmed"
    return _OPPOSITE if is_opposite else "not confirmed"


def _finds_more(runs: Runs, task: str) -> str:
    """Whether LSSAR is right more often than softmax at 8 x. A model that has not learned the task at the
    training length tests nothing at 8 x."""
    names = ("softmax", "lssar_p15")
    said = _verdict(*(runs.at(8, x, group=task, key="accuracy") for x in names), of_more=True)
    learned = runs.at(1, "lssar_p15", group=task, key="accuracy")
    if said == _MISSING or min(learned) >= _LEARNED:
        return said
    share = statistics.fmean(learned)
    return f"not tested: LSSAR has not learned the task ({share:.3f} at 1 x); the rule alone gives {said}"


def _length_rows(runs: Runs) -> list[Row]:
    lssar, softmax = (runs.at(8, x) for x in ("lssar_p15", "softmax"))
    below = "loss at 8 x: every seed below every seed of softmax"
    return [
        (
            "LSSAR, p 15, loses nothing at the training length",
            "loss at 1 x: at most 0.05 above softmax's, every seed",
            _verdict(runs.at(1, "lssar_p15"), runs.at(1, "softmax"), slack=_CLOSE),
        ),
        (
            "The loss of LSSAR, p 15, grows less with length than softmax's",
            "loss at 8 x minus 1 x: every seed below every seed of softmax",
            _verdict(runs.growth(8, "lssar_p15"), runs.growth(8, "softmax")),
        ),
        ("LSSAR, p 15, is better than softmax at 8 x", below, _verdict(lssar, softmax)),
        (
            f"LSSAR, p 15, is better at 8 x than softmax with QK norm and log N {_STRONG}",
            "loss at 8 x: every seed below every seed of that softmax",
            _verdict(lssar, runs.at(8, "softmax_entropy")),
        ),
        (
            "The loss of LSSAR, p 15, is nearly constant up to 16 x *",
            f"loss at 16 x minus 1 x: at most {_CONSTANT}, every seed",
            _below(runs.growth(16, "lssar_p15"), _CONSTANT),
        ),
        (
            "LSSA, without re-weighting, is better than softmax at the training length *",
            "loss at 1 x: every seed below every seed of softmax",
            _verdict(runs.at(1, "lssa"), runs.at(1, "softmax")),
        ),
        ("LSSA is better than softmax at 8 x †", below, _verdict(runs.at(8, "lssa"), softmax)),
    ]


def _power_rows(runs: Runs) -> list[Row]:
    """What the paper says of re-weighting."""
    softmax, lssa = (runs.at(8, x) for x in ("softmax", "lssa"))
    own = "loss at 8 x: every seed below every seed as trained"
    return [
        (
            "p 3 is no better than softmax at 8 x",
            "loss at 8 x: softmax's at most 0.05 above, every seed",
            _verdict(softmax, runs.at(8, "lssar_p3"), slack=_CLOSE),
        ),
        (
            "Re-weighting needs no fine-tuning (abstract of an early version): softmax read with p 15 is "
            "better at 8 x than as trained",
            own,
            _verdict(runs.at(8, "softmax", 15), softmax),
        ),
        ("LSSA read with p 15 is better at 8 x than as trained", own, _verdict(runs.at(8, "lssa", 15), lssa)),
        (
            "p 3 is better than p 15 at the training length ¶",
            "loss at 1 x: every seed below every seed of p 15",
            _verdict(runs.at(1, "lssar_p3"), runs.at(1, "lssar_p15")),
        ),
        (
            "Softmax trained with re-weighting, p 15, is no better than softmax at 8 x ¶",
            "loss at 8 x: softmax's at most 0.05 above, every seed",
            _verdict(softmax, runs.at(8, "softmax_p15"), slack=_CLOSE),
        ),
        (
            "Sigmoid with l1 and re-weighting, p 15, is better than softmax at 8 x ¶",
            "loss at 8 x: every seed below every seed of softmax",
            _verdict(runs.at(8, "sigmoid_l1_p15"), softmax),
        ),
        (
            "Sigmoid with l1 and re-weighting, p 15, is not as good as LSSAR, p 15, at 8 x ¶",
            "loss at 8 x: every seed above every seed of LSSAR",
            _verdict(runs.at(8, "lssar_p15"), runs.at(8, "sigmoid_l1_p15"), of_more=True),
        ),
    ]


def _other_rows(runs: Runs) -> list[Row]:
    more = "share of right answers at 8 x: every seed above every seed of softmax"
    largest = [runs.largest_norms(f"{name}_p1000") for name in ("lssar", "softmax")]
    return [
        ("LSSAR, p 15, finds a passkey at 8 x more often than softmax", more, _finds_more(runs, "passkey")),
        (
            f"LSSAR, p 15, recalls values of keys at 8 x more often than softmax {_SECOND} ‡",
            more,
            _finds_more(runs, "recall"),
        ),
        (
            "LSSAR is numerically stable at large p, and re-weighted softmax is not",
            "largest norm of the gradient at p 1000: every seed below every seed of softmax",
            _verdict(*largest),
        ),
    ]


def _inner_rows(runs: Runs) -> list[Row]:
    """What the paper says of the weights, beside the group looking."""
    sinks = [runs.most_on_first(x, 1) for x in ("lssar_p15", "softmax")]
    verdict = _verdict(*sinks)
    if verdict != _MISSING and max(sinks[1]) < _SINK:
        shares = " and ".join(f"{100 * max(x):.1f} %" for x in sinks)
        verdict = f"not tested: softmax has no sink at this size (LSSAR's and softmax's most: {shares})"
    growth = "growth of the entropy per nat of log N: at most 0.1, every seed"
    return [
        (
            "The scale log d · log N keeps the entropy at any length: softmax with QK norm §",
            growth,
            _below(runs.entropy_growth("softmax_entropy"), _INVARIANT),
        ),
        (
            "The scale log d · log N keeps the entropy at any length: LSSA §",
            growth,
            _below(runs.entropy_growth("lssa"), _INVARIANT),
        ),
        (
            "Re-weighting makes weights sparse: LSSAR, p 15, beside LSSA §",
            "share of live weights at 1 x: every seed below every seed of LSSA",
            _verdict(runs.live("lssar_p15", 1), runs.live("lssa", 1)),
        ),
        (
            "Attention sinks get weaker with LSSAR, p 15 §",
            "most weight of a head on the first token, at 1 x: every seed below every seed of softmax, "
            "one of which has 10 % or more",
            verdict,
        ),
    ]


def _part_rows(runs: Runs) -> list[Row]:
    """What the paper says of the parts of softmax (its tables 1 to 4), beside the group tables."""

    def at(attention: str) -> list[float]:
        return runs.at(1, attention, group="tables")

    def grows_more(attention: str) -> str:
        growth = [runs.growth(8, x, group="tables") for x in ("softmax", attention)]
        return _verdict(*growth, of_more=True)

    softmax, near = at("softmax"), "loss at 1 x: at most 0.05 above softmax's, every seed"
    more = "loss at 8 x minus 1 x: every seed above every seed of softmax"
    return [
        (
            "The l1 norm of softmax is essential (table 2)",
            "loss at 1 x: exp without the norm above softmax, every seed",
            _verdict(softmax, at("exp"), of_more=True),
        ),
        (
            "The l1 norm of softmax matters more than the exponential (table 2)",
            "loss at 1 x: the norm without exp below exp without the norm, every seed",
            _verdict(at("identity_l1"), at("exp")),
        ),
        (
            "Weights need not be positive: softmax re-centred, with l1, is as good as softmax (table 1)",
            near,
            _verdict(at("softmax_recentred_l1"), softmax, slack=_CLOSE),
        ),
        (
            "With l1, softplus is as good as exp (table 3)",
            near,
            _verdict(at("softplus_l1"), softmax, slack=_CLOSE),
        ),
        (
            "With l1, sigmoid is as good as exp (table 3)",
            near,
            _verdict(at("sigmoid_unbiased_l1"), softmax, slack=_CLOSE),
        ),
        (
            "With l1, a power of ReLU is worse than exp (table 3)",
            "loss at 1 x: ReLU² above softmax, every seed",
            _verdict(softmax, at("relu_squared_l1"), of_more=True),
        ),
        ("Sigmoid's loss grows more with length than softmax's (table 4)", more, grows_more("sigmoid")),
        (
            "The loss of ReLU over N grows more with length than softmax's (table 4)",
            more,
            grows_more("relu_length"),
        ),
        *(
            (
                f"LSSA is better {where} than {title} (table 4) †",
                f"loss at {times} x: every seed below every seed of {title}",
                _verdict(*(runs.at(times, x, group="tables") for x in ("lssa", other))),
            )
            for times, where in ((1, "at the training length"), (8, "at 8 x"))
            for other, title in (("sigmoid", "sigmoid"), ("relu_length", "ReLU over N"))
        ),
    ]


def _far_rows(runs: Runs) -> list[Row]:
    """What the paper says of physics, of numbers, of images and of large models."""
    missed = [[abs(x - 2) for x in runs.orbits(name, "exponent")] for name in ("lssar_p15", "softmax")]
    return [
        (
            "LSSAR, p 15, learns Newton's law from orbits better than softmax ([Newton](newton.md)) †",
            "distance of n from 2 in the law r^-n of the predictions, on new orbits: "
            "every seed below every seed of softmax",
            _verdict(*missed),
        ),
        (
            "Softplus with l1 is numerically more stable than softmax (abstract) †",
            "-",
            "not tested: all runs are in float32, and neither overflows",
        ),
        (
            "Without a causal mask, in vision transformers, LSSAR is not as good as softmax",
            "-",
            "not tested: [the program](train.md) trains small ones, but no run compares attentions",
        ),
        (
            "LSSAR is better than softmax on downstream tasks",
            "-",
            "not tested at this size: models of bytes with 0.1 million weights answer no such task; "
            "[checkpoints can be scored](train.md#lm-evaluation-harness)",
        ),
    ]


_PARTS: Sequence[Callable[[Runs], list[Row]]] = (
    _length_rows,
    _power_rows,
    _other_rows,
    _inner_rows,
    _part_rows,
    _far_rows,
)


def rows(runs: Runs) -> list[Row]:
    return [row for part in _PARTS for row in part(runs)]


def claims(runs: Runs) -> str:
    """A table: the claim, the rule, what our runs say."""
    return table(("claim", "rule", "our small models"), rows(runs))


def count(runs: Runs) -> str:
    """How many claims have which verdict."""
    said = [verdict for _, _, verdict in rows(runs)]
    found = [f"{sum(x.startswith(kind) for x in said)} {kind}" for kind in _KINDS]
    opposite = sum(x.startswith(_OPPOSITE) for x in said)
    found[1] += f" ({opposite} of them the opposite in every seed)"
    return f"{len(said)} claims: {', '.join(found)}"
