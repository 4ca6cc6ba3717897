"""Writes docs/extrapolation.md and its plots from the finished runs."""

import json
import pathlib
import statistics
from typing import Any, Callable, Optional, Sequence

from ..gpt import plot
from . import precision, step_time
from .evidence_claims import claims
from .evidence_runs import GROUPS, SEEDS, TABLES, Spec
from .evidence_tables import COLUMNS, comparison, grid

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
PLOTTED = ("softmax", "softmax_entropy", "lssa", "lssar_p3", "lssar_p15")
PLOT_TITLES = {"softmax_entropy": "softmax, log N"}  # what has room beside a line
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


class Runs:
    """The finished runs, by group and attention."""

    def __init__(self, runs: list[dict[str, Any]]) -> None:
        self.runs = runs

    def of(self, group: str, attention: str) -> list[dict[str, Any]]:
        return [run for run in self.runs if (run["group"], run["attention"]) == (group, attention)]

    def values(
        self, group: str, attention: str, key: str, p: Optional[int] = None, rope: str = "none"
    ) -> list[list[float]]:
        """For each seed the values of `key`, loss or accuracy, at every length."""
        found = []
        for run in self.of(group, attention):
            for reading in run["readings"]:
                if (reading["p"], reading["rope"]) == (p, rope):
                    found.append([point[key] for point in reading["points"]])
        return found

    def norms(self, attention: str) -> list[list[float]]:
        """For each seed the norms of the gradient. The warm-up has its own: the last two thirds count."""
        curves = [run["curve"] for run in self.of("stability", attention)]
        return [[row[2] for row in curve[len(curve) // 3 :]] for curve in curves]


def cell(column: tuple[float, ...]) -> str:
    """Mean, and the least and the largest of several."""
    mean = f"{statistics.fmean(column):.3f}"
    return mean if len(column) == 1 else f"{mean} ({min(column):.3f} to {max(column):.3f})"


def table(runs: Runs, group: str, key: str, rows: Rows, rope: str = "none") -> str:
    """A row for each (attention, p it is read with) that has runs, a column for each length."""
    times, length = GROUPS[group].times, 64
    head = [f"{length * t} ({t} x)" for t in times]
    lines = ["| | seeds | " + " | ".join(head) + " |", "| --- " * (len(head) + 2) + "|"]
    for attention, p in rows:
        values = runs.values(group, attention, key, p, rope)
        if values:
            cells = [str(len(values)), *(cell(column) for column in zip(*values))]
            lines.append(f"| {title_of(attention, p)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "No run is done yet.\n"


def stability_table(runs: Runs) -> str:
    lines = ["| | seeds | loss at the end | median norm | largest norm |", "| --- " * 5 + "|"]
    for attention in GROUPS["stability"].attentions:
        curves = [run["curve"] for run in runs.of("stability", attention)]
        if curves:
            norms = runs.norms(attention)
            ends = cell(tuple(curve[-1][1] for curve in curves))
            middle, top = cell(tuple(map(statistics.median, norms))), cell(tuple(map(max, norms)))
            lines.append(f"| {title_of(attention)} | {len(curves)} | {ends} | {middle} | {top} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "No run is done yet.\n"


def loss_plot(runs: Runs) -> Optional[str]:
    """The plot of loss by length, or None without a run."""
    drawn = []
    for attention in PLOTTED:
        for values in runs.values("length", attention, "loss"):
            points = [{"length": 64 * t, "loss": x} for t, x in zip(GROUPS["length"].times, values)]
            name = PLOT_TITLES.get(attention) or title_of(attention)
            drawn.append({"name": name, "validation": points})
    if not drawn:
        return None
    first = next(run["config"] for run in runs.runs if run["group"] == "length")
    sizes = {"layers": first["model"]["layers"], "steps": first["train"]["steps"], "length": 64}
    return plot.draw([{**run, **sizes} for run in drawn])


def measured(path: pathlib.Path, table_of: Callable[[dict[str, Any]], str]) -> str:
    """The table of a measurement's file."""
    if not path.exists():
        return "Not measured yet.\n"
    return table_of(json.loads(path.read_text(encoding="utf-8")))


def list_of_runs(runs: Runs, listed: list[Spec]) -> str:
    """Every run of the list: its loss at the training length, or that it is missing."""
    done = {run["name"]: run["readings"][0]["points"][0]["loss"] for run in runs.runs}
    lines = ["| run | " + " | ".join(f"seed {s}" for s in SEEDS) + " |", "| --- " * 4 + "|"]
    for group in GROUPS:
        for attention in GROUPS[group].attentions:
            names = [spec.name for spec in listed if (spec.group, spec.attention) == (group, attention)]
            cells = [f"{done[n]:.3f}" if n in done else "missing" for n in names]
            if names:
                lines.append(f"| {group}: {title_of(attention)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_page(path: pathlib.Path, listed: list[Spec], finished: list[dict[str, Any]]) -> None:
    """Writes the page, and its plot into the folder evidence beside it."""
    runs = Runs(finished)
    own = [(attention, None) for attention in GROUPS["length"].attentions]
    reread = [(a, p) for a in ("softmax", "softmax_entropy", "lssa") for p in (None, 3, 15)]
    few = [(attention, None) for attention in GROUPS["passkey"].attentions]
    drawn, image, evidence = loss_plot(runs), "", path.parent / "evidence"
    if drawn:
        evidence.mkdir(exist_ok=True)
        (evidence / "loss_by_length.svg").write_text(drawn, encoding="utf-8")
        image = "![Loss by length](evidence/loss_by_length.svg)\n"
    parts = {
        "done": str(len(finished)),
        "all": str(len(listed)),
        "image": image,
        "length": table(runs, "length", "loss", own),
        "ntk": table(runs, "length", "loss", own, rope="ntk"),
        "reread": table(runs, "length", "loss", [*reread, ("lssar_p3", None), ("lssar_p15", None)]),
        "passkey": table(runs, "passkey", "accuracy", few),
        "passkey_reread": table(runs, "passkey", "accuracy", reread),
        "recall": table(runs, "recall", "accuracy", few),
        "recall_ntk": table(runs, "recall", "accuracy", few, rope="ntk"),
        "recall_reread": table(runs, "recall", "accuracy", reread),
        "recall_reread_ntk": table(runs, "recall", "accuracy", reread, rope="ntk"),
        "stability": stability_table(runs),
        "precision": measured(evidence / "precision" / "cpu.json", precision.table),
        "step_time": measured(evidence / "step_time" / "cpu.json", step_time.table),
        "claims": claims(runs.values, runs.norms),
        "paper": PAPER,
        **{f"table{number}": grid(runs.values, number, title_of) for number in TABLES},
        **{f"ranks_{group}": comparison(runs.values, group) for group in COLUMNS},
        "runs": list_of_runs(runs, listed),
    }
    text = (pathlib.Path(__file__).parent / "extrapolation.md.in").read_text(encoding="utf-8")
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value.rstrip("\n"))
    path.write_text(text, encoding="utf-8")
