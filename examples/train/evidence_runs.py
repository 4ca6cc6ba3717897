"""The runs of texts and tasks behind docs/extrapolation.md: which there are, and how one of them is made.

A group is a question. Its runs differ in the attention and in the seed, and in nothing else.
"""

import dataclasses
import hashlib
import pathlib
import subprocess
import tempfile
from typing import Any, Iterator

import torch

from . import config as configs, evaluate, looking, model as models, train
from .evidence_files import ROOT, SEEDS, has_config, software
from .fields import ConfigError
from .log import Log

_PLAIN = "scale=inv_sqrt_dim,qk_norm=false"  # of scores, as softmax has it
_ACTIVATIONS = ("relu_squared", "relu6", "gelu", "softplus", "mish")
# Names of attentions on the page: model.attention and model.p.
ATTENTIONS: dict[str, tuple[str, int]] = {
    "softmax": ("softmax", 0),
    "softmax_entropy": ("softmax_entropy", 0),
    "lssa": ("lssa", 0),
    "lssar_p3": ("lssar", 3),
    "lssar_p15": ("lssar", 15),
    "softmax_p3": ("softmax", 3),
    "softmax_p15": ("softmax", 15),
    "sigmoid_l1": ("sigmoid_l1", 0),
    "sigmoid_l1_p15": ("sigmoid_l1", 15),
    "relu_l1": ("relu_l1", 0),
    **{f"{name}_p{p}": (name, p) for name in ("lssar", "softmax") for p in (1, 100, 1000)},
    # What else the paper's tables have: forms of softmax, activations with l1, others without softmax.
    "softmax_inverse": ("softmax,psi=-x/N", 0),
    "softmax_recentred": ("softmax,psi=(x-b)/N", 0),
    "softmax_recentred_l1": ("softmax,psi=x-b,psi_normalizer=sum_abs", 0),
    "identity": (f"{_PLAIN},phi=identity,normalizer=none", 0),
    "identity_l1": (f"{_PLAIN},phi=identity,normalizer=sum_abs", 0),
    "exp": (f"{_PLAIN},phi=exp,normalizer=none", 0),
    **{f"{phi}_l1": (f"{_PLAIN},phi={phi},normalizer=sum_abs", 0) for phi in _ACTIVATIONS},
    "sigmoid_unbiased_l1": (f"{_PLAIN},phi=sigmoid,normalizer=sum_abs", 0),
    "sigmoid": ("sigmoid", 0),
    "relu_length": (f"{_PLAIN},phi=relu,normalizer=length", 0),
    "relu_sqrt_length": (f"{_PLAIN},phi=relu,normalizer=sqrt_length", 0),
}
_OF_TEXT = ("softmax", "softmax_entropy", "lssa", "lssar_p3", "lssar_p15", "softmax_p3", "softmax_p15",
            "sigmoid_l1", "sigmoid_l1_p15", "relu_l1")  # fmt: skip
_OF_TASKS = ("softmax", "softmax_entropy", "lssa", "lssar_p3", "lssar_p15", "softmax_p15")
POWERS = (1, 3, 15, 100, 1000)  # of the group stability
_OF_POWERS = tuple(f"{name}_p{p}" for name in ("lssar", "softmax") for p in POWERS)
# The rows of the paper's tables 1 to 4.
TABLES: dict[int, tuple[str, ...]] = {
    1: ("softmax", "softmax_inverse", "softmax_recentred", "softmax_recentred_l1"),
    2: ("softmax", "identity_l1", "exp", "identity"),
    3: ("softmax", "relu_l1", *(f"{phi}_l1" for phi in _ACTIVATIONS), "sigmoid_unbiased_l1"),
    4: ("softmax", "sigmoid", "relu_length", "relu_sqrt_length", "lssa", "lssar_p3", "lssar_p15",
        "softmax_p15", "sigmoid_l1_p15"),
}  # fmt: skip
# Models that are also read with these powers: re-weighting switched on only at inference.
REREAD = {"softmax": (3, 15), "softmax_entropy": (3, 15), "lssa": (3, 15)}
# Checksums of the texts that the kept runs were made with. A system with other licences has other texts.
_TEXTS = {
    "train": "448d736ce75b8fb3f45b9131aea9e41c54c040f2778796b24ac929368610ebd6",
    "validation": "ab3cfba9a0858f70f66a359bb12fb77d21cfbd66d12f83dba09be45fec848bfc",
}
LENGTH = 64  # of training
_MODEL = {"vocab": 256, "layers": 2, "width": 64, "heads": 2, "length": LENGTH}
_TRAIN = {"steps": 800, "batch": 16, "learning_rate": 0.003, "warmup": 100, "log_every": 50}


@dataclasses.dataclass(frozen=True)
class Group:
    attentions: tuple[str, ...]
    data: dict[str, Any]
    model: dict[str, Any] = dataclasses.field(default_factory=dict)  # beside _MODEL
    train: dict[str, Any] = dataclasses.field(default_factory=dict)  # beside _TRAIN
    times: tuple[int, ...] = evaluate.TIMES
    documents: int = 240
    ropes: tuple[str, ...] = ("none", "ntk")  # how positions are stretched for reading
    rereads: bool = True  # whether REREAD applies
    looks: bool = False  # whether looking.py looks at the models, rather than evaluate.py reads them


GROUPS = {
    "length": Group(_OF_TEXT, {"source": "text"}),
    "passkey": Group(_OF_TASKS, {"source": "passkey"}, {"vocab": 64}, {"steps": 300}),
    # Sequences grow from 16 tokens: those of 64 alone teach a model this small nothing in its time.
    "recall": Group(
        _OF_TASKS,
        {"source": "recall", "pairs": 4, "queries": 8, "shortest": 16},
        {"vocab": 64, "width": 128, "heads": 4, "hidden": 256, "qk_norm": True},
        {"batch": 64, "learning_rate": 0.001, "warmup": 50, "log_every": 20},
        documents=60,
    ),
    "stability": Group(_OF_POWERS, {"source": "text"}, train={"steps": 200, "log_every": 10}, times=(1,)),
    "tables": Group(
        tuple(dict.fromkeys(name for rows in TABLES.values() for name in rows)),
        {"source": "text"},
        train={"steps": 300, "warmup": 50},
        times=(1, 8),
        ropes=("none",),
        rereads=False,
    ),
    # The models of the group length, trained again: their checkpoints are not kept.
    "looking": Group(
        ("softmax", "softmax_entropy", "lssa", "lssar_p15"), {"source": "text"}, documents=64, looks=True
    ),
}


@dataclasses.dataclass(frozen=True)
class Spec:
    """One run; an Item of evidence_files."""

    group: str
    attention: str
    seed: int

    is_alone = False

    @property
    def name(self) -> str:
        return f"{self.group}_{self.attention}_{self.seed}"

    @property
    def file(self) -> str:
        return f"{self.group}/seed_{self.seed}/{self.attention}.json"

    @property
    def reads_text(self) -> bool:
        return bool(GROUPS[self.group].data["source"] == "text")

    def is_of(self, run: dict[str, Any], quick: bool) -> bool:
        if not quick and self.reads_text and run["sha256"] != _TEXTS:
            return False
        return has_config(run, configs.from_json(self.config(quick)))

    def make(self, quick: bool) -> dict[str, Any]:
        return make(self, quick)

    def config(self, quick: bool) -> dict[str, Any]:
        """The config as JSON; `quick` trains for four steps, to try the program."""
        group = GROUPS[self.group]
        attention, p = ATTENTIONS[self.attention]
        values = {
            "model": {**_MODEL, **group.model, "attention": attention, "p": p},
            "data": {**group.data, "seed": self.seed},
            "train": {**_TRAIN, **group.train, "seed": self.seed, "device": "cpu"},
        }
        if self.reads_text:
            values["data"].update(train="train.txt", validation="validation.txt")
        if quick:
            values["train"].update(steps=4, warmup=1, batch=4, log_every=1, evaluate_sequences=4)
        return values


def specs(quick: bool = False) -> Iterator[Spec]:
    """Every run; with `quick` one seed and the first attention of each group."""
    for seed in SEEDS[:1] if quick else SEEDS:  # a seed of everything before the next seed
        for name, group in GROUPS.items():
            for attention in group.attentions[:1] if quick else group.attentions:
                yield Spec(name, attention, seed)


def make(spec: Spec, quick: bool = False) -> dict[str, Any]:
    """Trains and reads a model; what the run's JSON file holds."""
    values = spec.config(quick)
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        sums = _make_texts(here) if spec.reads_text else {}
        if sums and not quick:
            _check_texts(sums)
        placed = {name: dict(section) for name, section in values.items()}
        placed["data"].update({name: str(here / f"{name}.txt") for name in sums})
        placed["train"]["out"] = str(here / "out")
        config = configs.from_json(placed)
        run = train.Run(config)
        run.run()
        rows = Log(config.train.out, run.step).rows()
        curve = [[float(row[x]) for x in ("step", "loss", "gradient_norm")] for row in rows]
        _, model = evaluate.load_model(config.train.out)
        found = _found(spec, config, model, quick)
    return {
        "name": spec.name,
        **dataclasses.asdict(spec),
        "config": values,
        "sha256": sums,
        "train_seconds": round(run.seconds, 1),
        "threads": torch.get_num_threads(),
        **software(),
        "curve": curve,
        **found,
    }


def _make_texts(folder: pathlib.Path) -> dict[str, str]:
    """Makes train.txt and validation.txt; their checksums."""
    script = ROOT / "examples" / "gpt" / "text.sh"
    subprocess.run(["sh", str(script), str(folder)], check=True, stdout=subprocess.DEVNULL)
    names = ("train", "validation")
    return {x: hashlib.sha256((folder / f"{x}.txt").read_bytes()).hexdigest() for x in names}


def _check_texts(sums: dict[str, str]) -> None:
    """Runs of other texts may not stand among the kept ones. Runs with --quick are no evidence."""
    for name, found in sums.items():
        if found != _TEXTS[name]:
            raise ConfigError(
                f"{name}.txt: its SHA-256 is {found}; must be {_TEXTS[name]}, that of the other runs. "
                "examples/gpt/text.sh makes it of Debian 12's /usr/share/common-licenses; the variable "
                "LICENCES may name another folder"
            )


def _found(spec: Spec, config: configs.Config, model: models.Model, quick: bool) -> dict[str, Any]:
    """What is seen in a trained model."""
    group = GROUPS[spec.group]
    if not group.looks:
        return {"readings": list(_readings(spec, config, model, quick))}
    documents = 2 if quick else group.documents
    return {"points": looking.look(config, model, group.times, documents=documents, cells=0)["points"]}


def _readings(
    spec: Spec, config: configs.Config, model: models.Model, quick: bool
) -> Iterator[dict[str, Any]]:
    """The model at every length: as trained, with NTK, and with powers that it was not trained with."""
    group = GROUPS[spec.group]
    times, documents = group.times, 2 if quick else group.documents
    is_long = len(times) > 1
    powers = (None, *REREAD.get(spec.attention, ())) if is_long and group.rereads else (None,)
    for p in powers:
        if p is not None:
            models.read_with(model, p=p)
        for rope in group.ropes if is_long else ("none",):
            points = evaluate.read(config, model, times, rope, documents)
            for point in points:
                point.update({name: round(point[name], 5) for name in ("loss", "accuracy")})
            yield {"p": p, "rope": rope, "points": points}
