"""Newton's law from orbits: trains small models on planets' positions, and reads the force out of them.

    python -m examples.train.newton                     makes the missing runs, and docs/newton.md
    python -m examples.train.newton --attention lssar_p15 --seed 1
    python -m examples.train.newton --page              the page alone, from the runs that there are

Each finished run is a JSON file in docs/evidence/newton. A run whose config has changed is made again.
With --work a run that was interrupted goes on from its last checkpoint.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile
from typing import Any, Iterator, Optional

import lssar
import torch

from . import config as configs, evaluate, force, model as models, train
from .checkpoint import write_whole
from .log import Log

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3)
ATTENTIONS = {"softmax": ("softmax", 0, "softmax"), "lssar_p15": ("lssar", 15, "LSSAR, p = 15")}
# What is read: a name, the length in training lengths, and the axes of the orbits; None: as in training.
READINGS: dict[str, tuple[int, Optional[tuple[float, float]]]] = {
    "new orbits of the same kind": (1, None),
    "the same, 4 x as long": (4, None),
    "wider orbits (axes 1.8 to 2.6)": (1, (1.8, 2.6)),
}
ORBITS = 96  # of each reading, and as many to fit the probe to


def overrides(attention: str, seed: int, quick: bool) -> list[str]:
    name, p, _ = ATTENTIONS[attention]
    made = [f"model.attention={name}", f"model.p={p}", f"data.seed={seed}", f"train.seed={seed}"]
    return made + (["train.steps=4", "train.warmup=1", "train.log_every=1"] if quick else [])


def config_of(attention: str, seed: int, quick: bool = False) -> configs.Config:
    path = pathlib.Path(__file__).parent / "configs" / "newton.json"
    return configs.load(path, overrides(attention, seed, quick))


def make(attention: str, seed: int, folder: str, quick: bool = False) -> dict[str, Any]:
    """Trains and reads a model; what the run's JSON file holds. Its checkpoints are in the folder."""
    config = config_of(attention, seed, quick)
    torch.manual_seed(seed)
    new = models.make(config.model)  # as the run begins with
    run = train.Run(dataclasses.replace(config, train=dataclasses.replace(config.train, out=folder)))
    run.run()
    curve = [[int(row["step"]), float(row["loss"])] for row in Log(folder, run.step).rows()]
    _, model = evaluate.load_model(folder)
    assert isinstance(model, models.Tracker)
    return {
        "name": f"{attention}_{seed}",
        "attention": attention,
        "seed": seed,
        "config": config.to_json(),
        "train_seconds": round(run.seconds, 1),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "lssar": lssar.__version__,
        "target": lssar.device_info("cpu")["target"],
        "curve": curve,
        "probe_position": _rounded(_probe(None, seed, config)),
        "probe_new": _rounded(_probe(new, seed, config)),
        "readings": {name: read(model, seed, *READINGS[name]) for name in READINGS},
    }


def _probe(model: Optional[Any], seed: int, config: configs.Config) -> float:
    """The probe's R^2 on new orbits of the same kind."""
    fit, test = (force.sample(10 * seed + i, ORBITS, config.model.length) for i in (1, 2))
    return force.probe_of(model, fit, test)


@torch.no_grad()
def read(
    model: models.Tracker, seed: int, times: int, axes: Optional[tuple[float, float]]
) -> dict[str, Optional[float]]:
    """The error of the predictions, the law that they follow, and that of the true orbits; the probe."""
    length = times * model.config.length
    fit = force.sample(10 * seed + 1, ORBITS, length, axes)
    positions, following = test = force.sample(10 * seed + 2, ORBITS, length, axes)
    predicted = model(positions)
    exponent, fits = force.law(positions, predicted)
    found = {
        "error": force.error(positions, following, predicted),
        "exponent": exponent,
        "fit_r2": fits,
        "true_exponent": force.law(positions, following)[0],
        "probe_r2": force.probe_of(model, fit, test),
    }
    return {name: _rounded(value) for name, value in found.items()}


def _rounded(value: float) -> Optional[float]:
    return round(value, 5) if value == value else None  # NaN is no JSON


def _is_config(values: dict[str, Any], config: configs.Config) -> bool:
    """Whether a run's file means this config. A field that is younger than the run has its default."""
    try:
        return configs.from_json(values) == config
    except configs.ConfigError:  # a field that there is no more
        return False


def kept_runs(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The finished runs whose config is still that of the list, seed by seed."""
    for seed in SEEDS:
        for attention in ATTENTIONS:
            path = folder / f"{attention}_{seed}.json"
            run = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
            if run and _is_config(run["config"], config_of(attention, seed)):
                yield run


def cell(values: list[Optional[float]]) -> str:
    """Mean, and the least and the largest."""
    known = [x for x in values if x is not None]
    if len(known) < len(values):
        return "none"  # a seed has no law
    mean = f"{statistics.fmean(known):.3f}"
    return mean if len(known) == 1 else f"{mean} ({min(known):.3f} to {max(known):.3f})"


def table(runs: list[dict[str, Any]], reading: str) -> str:
    keys = {"error": "error", "exponent": "n of r^-n", "fit_r2": "R^2 of that fit", "probe_r2": "probe's R^2"}
    lines = ["| | seeds | " + " | ".join(keys.values()) + " |", "| --- " * (len(keys) + 2) + "|"]
    for attention, (_, _, title) in ATTENTIONS.items():
        of = [run["readings"][reading] for run in runs if run["attention"] == attention]
        if of:
            cells = [str(len(of)), *(cell([x[key] for x in of]) for key in keys)]
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if runs else "No run is done yet."


def list_of_runs(runs: list[dict[str, Any]]) -> str:
    """Each run: its last training loss, its probe, and two probes to compare it with."""
    lines = ["| run | loss at the end | probe's R^2: trained | before training | of the position alone |"]
    lines.append("| --- " * 5 + "|")
    for run in runs:
        own = run["readings"][next(iter(READINGS))]["probe_r2"]
        probes = f"{own:.3f} | {run['probe_new']:.3f} | {run['probe_position']:.3f}"
        lines.append(f"| {run['name']} | {run['curve'][-1][1]:.2e} | {probes} |")
    return "\n".join(lines) if runs else "No run is done yet."


def write_page(path: pathlib.Path, runs: list[dict[str, Any]]) -> None:
    text = (pathlib.Path(__file__).parent / "newton.md.in").read_text(encoding="utf-8")
    tables = (f"{name[0].upper()}{name[1:]}:\n\n{table(runs, name)}" for name in READINGS)
    true = [run["readings"][name]["true_exponent"] for run in runs for name in READINGS]
    parts = {
        "done": f"{len(runs)} of {len(SEEDS) * len(ATTENTIONS)}",
        "tables": "\n\n".join(tables),
        "true": f"{min(true):.3f} to {max(true):.3f}" if true else "1.997 to 2.005",
        "runs": list_of_runs(runs),
    }
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value)
    path.write_text(text, encoding="utf-8")


def _make_in(work: Optional[pathlib.Path], folder: pathlib.Path, attention: str, seed: int) -> None:
    """Makes a run and writes its file; its checkpoints are in work, or go away with it."""
    name = f"{attention}_{seed}"
    with tempfile.TemporaryDirectory() as temporary:
        text = json.dumps(make(attention, seed, str(work / name) if work else temporary)) + "\n"
    write_whole(folder / f"{name}.json", lambda file: file.write(text.encode()))


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--attention", nargs="+", choices=ATTENTIONS, default=list(ATTENTIONS))
    parser.add_argument("--seed", type=int, nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--page", action="store_true", help="make no run")
    parser.add_argument("--work", type=pathlib.Path, help="folder of checkpoints")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs", help="default docs")
    return parser.parse_args(arguments)


def main(arguments: Optional[list[str]] = None) -> int:
    options = parse(arguments)
    torch.set_num_threads(1)  # the numbers of a run depend on it
    folder = options.output / "evidence" / "newton"
    folder.mkdir(parents=True, exist_ok=True)
    done = {run["name"] for run in kept_runs(folder)}
    for seed in () if options.page else options.seed:
        for attention in options.attention:
            if f"{attention}_{seed}" not in done:
                _make_in(options.work, folder, attention, seed)
    write_page(options.output / "newton.md", list(kept_runs(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
