"""Writes docs/extrapolation.md, its plots and docs/newton.md from the finished runs."""

import pathlib
import statistics
from typing import Any, Callable, Optional, Sequence

from . import newton, precision, step_time
from .evidence_claims import claims, count
from .evidence_files import SEEDS, Item, cell, fill, table
from .evidence_list import MEASUREMENTS
from .evidence_plots import plots
from .evidence_runs import GROUPS, TABLES
from .evidence_tables import COLUMNS, comparison, grid
from .evidence_values import LENGTH, Runs

TITLES = {
    "softmax": "softmax",
    "softmax_entropy": "softmax, QK norm, log N",
    "lssa": "LSSA",
    "sigmoid_l1": "sigmoid, l1",
    "relu_l1": "ReLU, l1",
    "softmax_inverse": "softmax, inverse: -P",
    "softmax_recentred": "softmax, re-centred: P - b / N",
    "softmax_recentred_l1": "softmax, re-centred, l1",
    "identity_l1": "softmax without exp",
    "exp": "softmax without its norm",
    "identity": "softmax without both",
    "relu_squared_l1": "ReLU², l1",
    "relu6_l1": "ReLU6, l1",
    "gelu_l1": "GELU, l1",
    "softplus_l1": "softplus, l1",
    "mish_l1": "Mish, l1",
    "sigmoid_unbiased_l1": "sigmoid, l1, no bias",
    "sigmoid": "sigmoid",
    "relu_length": "ReLU over N",
    "relu_sqrt_length": "ReLU over √(N / 2)",
}
Rows = Sequence[tuple[str, Optional[int]]]  # attentions, and the p they are read with
PAPER = """| length | 1K (1 x) | 2K | 4K | 8K |
| --- | --- | --- | --- | --- |
| softmax | 3.19 | 4.17 | 5.45 | 6.28 |
| sigmoid | 3.19 | 7.46 | 11.84 | 14.50 |
| ReLU over N | 3.21 | 6.27 | 8.50 | 10.35 |
| LSSA | 3.19 | 4.13 | 5.30 | 5.94 |
| LSSAR, p = 3 | 3.18 | 4.24 | 5.41 | 6.30 |
| LSSAR, p = 15 | 3.19 | 3.19 | 3.23 | 3.32 |
| softmax, p = 15 | - | - | - | 7.02 |
| sigmoid, l1, p = 15 | - | - | - | 3.86 |
"""


def title_of(attention: str, p: Optional[int] = None) -> str:
    """The name of an attention on the page. p: what it is read with; None: as trained."""
    if attention in TITLES:
        name = TITLES[attention]
    else:
        base, _, power = attention.rpartition("_p")
        name = f"{TITLES.get(base, base.upper())}, p = {power}"
    return name if p is None else f"{name}; read with p = {p}"


def by_length(runs: Runs, group: str, key: str, rows: Rows, rope: str = "none") -> str:
    """A row for each (attention, p it is read with) that has runs, a column for each length."""
    made = []
    for attention, p in rows:
        values = runs.values(group, attention, key, p, rope)
        if values:
            made.append([title_of(attention, p), str(len(values)), *map(cell, zip(*values))])
    return table(["", "seeds", *(f"{LENGTH * t} ({t} x)" for t in GROUPS[group].times)], made)


def stability_table(runs: Runs) -> str:
    rows = []
    for attention in GROUPS["stability"].attentions:
        norms = runs.norms(attention)
        if norms:
            columns = [runs.last_losses(attention)]
            columns += [[of(x) for x in norms] for of in (statistics.median, max)]
            rows.append([title_of(attention), str(len(norms)), *map(cell, columns)])
    return table(("", "seeds", "loss at the end", "median norm", "largest norm"), rows)


def looking_table(runs: Runs) -> str:
    """Means over the heads at the ends of the lengths, and the head that gives the first token most."""
    times = GROUPS["looking"].times
    ends, rows = (times[0], times[-1]), []
    for attention in GROUPS["looking"].attentions:
        entropies = runs.looked(attention, "entropy")
        if entropies:
            columns = [[statistics.fmean(x[i]) for x in entropies] for i in (0, -1)]
            columns.append(runs.entropy_growth(attention))
            columns += [runs.live(attention, t) for t in ends]
            columns += [runs.most_on_first(attention, t) for t in ends]
            rows.append([title_of(attention), str(len(entropies)), *map(cell, columns)])
    at = [f"at {LENGTH * t}" for t in ends]
    return table(["", "seeds", f"entropy {at[0]}", at[1], "growth per nat of log N", f"live {at[0]}", at[1],
                  f"most on the first {at[0]}", at[1]], rows)  # fmt: skip


def measured(runs: Runs, group: str, table_of: Callable[[dict[str, Any]], str]) -> str:
    """The table of a measurement."""
    found = runs.of(group)
    return table_of(found[0]) if found else "Not measured yet.\n"


def _result(run: dict[str, Any]) -> str:
    """A run in one number: the loss at the training length; of orbits the last training loss."""
    if run["group"] == newton.GROUP:
        return f"{run['curve'][-1][1]:.1e}"
    points = run["points"] if "points" in run else run["readings"][0]["points"]
    return f"{points[0]['loss']:.3f}"


def list_of_runs(runs: Runs, listed: Sequence[Item]) -> str:
    """Every run of the list: what came out, or that it is missing."""
    done = {run["name"]: _result(run) for run in runs.runs if run["group"] not in MEASUREMENTS}
    rows: dict[str, list[str]] = {}
    for item in listed:
        if item.group not in MEASUREMENTS:
            title = f"{item.group}: {title_of(getattr(item, 'attention'))}"
            rows.setdefault(title, []).append(done.get(item.name, "missing"))
    return table(["run", *(f"seed {s}" for s in SEEDS)], [[title, *cells] for title, cells in rows.items()])


def list_of_measurements(runs: Runs, listed: Sequence[Item]) -> str:
    rows = []
    for item in listed:
        if item.group in MEASUREMENTS:
            link = f"[{item.file}](evidence/{item.file})"
            rows.append([item.name, link if runs.of(item.group) else "missing"])
    return table(("measurement", "file"), rows)


def times(runs: Runs) -> dict[str, str]:
    """How long the runs took, for a sentence."""
    seconds = sorted(run["train_seconds"] for run in runs.runs if "train_seconds" in run) or [0.0]
    return {
        "trained": str(len(seconds)),
        "hours": f"{sum(seconds) / 3600:.1f}",
        "median_seconds": f"{statistics.median(seconds):.0f}",
        "longest_minutes": f"{seconds[-1] / 60:.0f}",
    }


def write_pages(output: pathlib.Path, listed: Sequence[Item], finished: list[dict[str, Any]]) -> None:
    """Writes the pages, and the plots into the folder evidence beside them."""
    runs = Runs(finished)
    own = [(attention, None) for attention in GROUPS["length"].attentions]
    reread = [(a, p) for a in ("softmax", "softmax_entropy", "lssa") for p in (None, 3, 15)]
    few = [(attention, None) for attention in GROUPS["passkey"].attentions]
    evidence = output / "evidence"
    evidence.mkdir(exist_ok=True)
    for name, svg in plots(runs).items():
        (evidence / f"{name}.svg").write_text(svg, encoding="utf-8")
    parts = {
        "done": str(len(finished)),
        "all": str(len(listed)),
        **times(runs),
        "length": by_length(runs, "length", "loss", own),
        "ntk": by_length(runs, "length", "loss", own, rope="ntk"),
        "reread": by_length(runs, "length", "loss", [*reread, ("lssar_p3", None), ("lssar_p15", None)]),
        "passkey": by_length(runs, "passkey", "accuracy", few),
        "passkey_reread": by_length(runs, "passkey", "accuracy", reread),
        "recall": by_length(runs, "recall", "accuracy", few),
        "recall_ntk": by_length(runs, "recall", "accuracy", few, rope="ntk"),
        "recall_reread": by_length(runs, "recall", "accuracy", reread),
        "recall_reread_ntk": by_length(runs, "recall", "accuracy", reread, rope="ntk"),
        "stability": stability_table(runs),
        "looking": looking_table(runs),
        "precision": measured(runs, "precision", precision.table),
        "step_time": measured(runs, "step_time", step_time.table),
        "claims": claims(runs),
        "verdicts": count(runs),
        "paper": PAPER,
        **{f"table{number}": grid(runs.values, number, title_of) for number in TABLES},
        **{f"ranks_{group}": comparison(runs.values, group) for group in COLUMNS},
        "runs": list_of_runs(runs, listed),
        "measurements": list_of_measurements(runs, listed),
    }
    (output / "extrapolation.md").write_text(fill("extrapolation.md.in", parts), encoding="utf-8")
    of_newton = sum(item.group == newton.GROUP for item in listed)
    newton.write_page(output / "newton.md", runs.of(newton.GROUP), of_newton)
