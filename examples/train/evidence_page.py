"""Writes docs/extrapolation.md, its plots and docs/newton.md from the finished runs."""

import pathlib
import statistics
from typing import Any, Callable, Optional, Sequence

from . import newton, precision, step_time
from .evidence_claims import claims, count
from .evidence_files import ROOT, SEEDS, Item, cell, fill, table
from .evidence_list import MEASUREMENTS
from .evidence_plots import plots
from .evidence_runs import GROUPS, LENGTH, REREAD, TABLES
from .evidence_tables import comparison, grid, growth_table, paper_table
from .evidence_titles import title_of
from .evidence_values import Runs

Rows = Sequence[tuple[str, Optional[int]]]  # attentions, and the p they are read with
# The first line of a page in any other folder than docs.
OTHER_RUNS = (
    "Tables and plots are of the runs in this folder. The sentences about them were written for "
    "docs/{name}.\n\n"
)


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
            columns += [list(map(statistics.median, norms)), runs.largest_norms(attention)]
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
        if item.attention:
            title = f"{item.group}: {title_of(item.attention)}"
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
    seconds = [run["train_seconds"] for run in runs.runs if "train_seconds" in run]
    return {
        "trained": str(len(seconds)),
        "hours": f"{sum(seconds) / 3600:.1f}",
        "median_seconds": f"{statistics.median(seconds or [0.0]):.0f}",
        "longest_minutes": f"{max(seconds, default=0.0) / 60:.0f}",
        "long_runs": str(sum(x > 600 for x in seconds)),
    }


def write_pages(output: pathlib.Path, listed: Sequence[Item], finished: list[dict[str, Any]]) -> None:
    """Writes the pages, and the plots into the folder evidence beside them."""
    runs = Runs(finished)
    own = [(attention, None) for attention in GROUPS["length"].attentions]
    reread = [(attention, p) for attention, powers in REREAD.items() for p in (None, *powers)]
    trained = [("lssar_p3", None), ("lssar_p15", None)]
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
        "reread": by_length(runs, "length", "loss", [*reread, *trained]),
        "reread_ntk": by_length(runs, "length", "loss", [*reread, *trained], rope="ntk"),
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
        "paper": paper_table(),
        "growth": growth_table(runs),
        **{f"table{number}": grid(runs, number) for number in TABLES},
        **{f"ranks_{group}": comparison(runs, group) for group in ("tables", "length")},
        "runs": list_of_runs(runs, listed),
        "measurements": list_of_measurements(runs, listed),
    }
    of_newton = sum(item.group == newton.GROUP for item in listed)
    pages = {
        "extrapolation.md": fill("extrapolation.md.in", parts),
        "newton.md": newton.page(runs.of(newton.GROUP), of_newton),
    }
    for name, text in pages.items():
        note = "" if output == ROOT / "docs" else OTHER_RUNS.format(name=name)
        (output / name).write_text(note + text, encoding="utf-8")
