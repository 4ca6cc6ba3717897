"""Newton's law from orbits: trains small models on planets' positions, and reads the force out of them.

python -m examples.train.evidence --group newton makes the runs and docs/newton.md.
"""

import dataclasses
import pathlib
import tempfile
from typing import Any, Optional

import torch

from . import config as configs, evaluate, force, model as models, train
from .evidence_files import SEEDS, cell, fill, has_config, software, table
from .log import Log

GROUP = "newton"
ATTENTIONS = {"softmax": ("softmax", 0, "softmax"), "lssar_p15": ("lssar", 15, "LSSAR, p = 15")}
SAME = "new orbits of the same kind"
# What is read: a name, the length in training lengths, and the axes of the orbits; None: as in training.
READINGS: dict[str, tuple[int, Optional[tuple[float, float]]]] = {
    SAME: (1, None),
    "the same, 4 x as long": (4, None),
    "wider orbits (axes 1.8 to 2.6)": (1, (1.8, 2.6)),
}
ORBITS = 96  # of each reading, and as many to fit the probe to


@dataclasses.dataclass(frozen=True)
class Spec:
    """One run; an Item of evidence_files."""

    attention: str
    seed: int
    group = GROUP
    is_alone = False

    @property
    def name(self) -> str:
        return f"{GROUP}_{self.attention}_{self.seed}"

    @property
    def file(self) -> str:
        return f"{GROUP}/seed_{self.seed}/{self.attention}.json"

    def is_of(self, run: dict[str, Any], quick: bool) -> bool:
        return has_config(run, config_of(self.attention, self.seed, quick))

    def make(self, quick: bool) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            return make(self.attention, self.seed, folder, quick)


def specs(quick: bool = False) -> list[Spec]:
    """Every run; with `quick` one."""
    every = [Spec(attention, seed) for seed in SEEDS for attention in ATTENTIONS]
    return every[:1] if quick else every


def _overrides(attention: str, seed: int, quick: bool) -> list[str]:
    name, p, _ = ATTENTIONS[attention]
    made = [f"model.attention={name}", f"model.p={p}", f"data.seed={seed}", f"train.seed={seed}"]
    return made + (["train.steps=4", "train.warmup=1", "train.log_every=1"] if quick else [])


def config_of(attention: str, seed: int, quick: bool = False) -> configs.Config:
    path = pathlib.Path(__file__).parent / "configs" / "newton.json"
    return configs.load(path, _overrides(attention, seed, quick))


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
        "name": Spec(attention, seed).name,
        "group": GROUP,
        "attention": attention,
        "seed": seed,
        "config": config.to_json(),
        "train_seconds": round(run.seconds, 1),
        "threads": torch.get_num_threads(),
        **software(),
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
    test = force.sample(10 * seed + 2, ORBITS, length, axes)
    positions, following = test
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


def _fitted(reading: dict[str, Optional[float]]) -> dict[str, Optional[float]]:
    """The reading; files have an R^2 of 0 where no power fits, which is no R^2 of a fit."""
    return {**reading, "fit_r2": None} if reading["exponent"] is None else reading


def reading_table(runs: list[dict[str, Any]], reading: str) -> str:
    keys = {"error": "error", "exponent": "n of r^-n", "fit_r2": "R^2 of that fit", "probe_r2": "probe's R^2"}
    rows = []
    for attention, (_, _, title) in ATTENTIONS.items():
        of = [_fitted(run["readings"][reading]) for run in runs if run["attention"] == attention]
        if of:
            rows.append([title, str(len(of)), *(cell([x[key] for x in of]) for key in keys)])
    return table(["", "seeds", *keys.values()], rows)


def list_of_runs(runs: list[dict[str, Any]]) -> str:
    """Each run: its last training loss, its probe, and two probes to compare it with."""
    head = ("run", "loss at the end", "probe's R^2: trained", "before training", "of the position alone")
    rows = []
    for run in runs:
        own = run["readings"][SAME]["probe_r2"]
        probes = [f"{x:.3f}" for x in (own, run["probe_new"], run["probe_position"])]
        name = f"{ATTENTIONS[run['attention']][2]}, seed {run['seed']}"
        rows.append([name, f"{run['curve'][-1][1]:.2e}", *probes])
    return table(head, rows)


def page(runs: list[dict[str, Any]], count: int) -> str:
    """docs/newton.md of the finished runs, of `count`."""
    tables = (f"{name[0].upper()}{name[1:]}:\n\n{reading_table(runs, name)}" for name in READINGS)
    true = [run["readings"][name]["true_exponent"] for run in runs for name in READINGS]
    parts = {
        "done": f"{len(runs)} of {count}",
        "tables": "\n".join(tables),
        "true": f"{min(true):.3f} to {max(true):.3f}" if true else "what no run has measured yet",
        "runs": list_of_runs(runs),
    }
    return fill("newton.md.in", parts)
