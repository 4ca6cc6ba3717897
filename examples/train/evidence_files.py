"""What all evidence shares: a run is a JSON file, a page is a template that is filled with tables."""

import json
import pathlib
import re
import statistics
from typing import Any, Iterable, Mapping, Optional, Protocol, Sequence

import lssar
import torch

from . import config as configs
from .checkpoint import write_whole

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3)
NO_RUN = "No run is done yet.\n"


class Item(Protocol):
    """A run, or a measurement."""

    @property
    def group(self) -> str: ...

    @property
    def attention(self) -> Optional[str]:
        """None: a measurement, of no single attention."""

    @property
    def name(self) -> str: ...

    @property
    def file(self) -> str:
        """Relative to the folder evidence."""

    @property
    def is_alone(self) -> bool:
        """Whether nothing else may run at the same time, because it measures time."""

    def is_of(self, run: dict[str, Any], quick: bool) -> bool:
        """Whether a file's run is this one, with the settings that the list has now."""

    def make(self, quick: bool) -> dict[str, Any]:
        """What the file holds."""


def read_run(path: pathlib.Path) -> Optional[dict[str, Any]]:
    """The finished run, or None."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_run(path: pathlib.Path, run: dict[str, Any]) -> None:
    """A line for each field."""
    fields = (f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in run.items())
    text = "{\n" + ",\n".join(fields) + "\n}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: file.write(text.encode()))


def has_config(run: dict[str, Any], config: configs.Config) -> bool:
    """Whether a run was made with a config. A field that is younger than the run has its default in it."""
    try:
        return configs.from_json(run["config"]) == config
    except configs.ConfigError:  # a field that there is no more
        return False


def software() -> dict[str, str]:
    """What computed a run."""
    target = lssar.device_info("cpu")["target"]
    return {"torch": torch.__version__, "lssar": lssar.__version__, "target": target}


def cell(values: Sequence[Optional[float]]) -> str:
    """Mean, and the least and the largest; "none" if a seed has no value."""
    known = [x for x in values if x is not None]
    if len(known) < len(values):
        return "none"
    mean = f"{statistics.fmean(known):.3f}"
    return mean if len(known) == 1 else f"{mean} ({min(known):.3f} to {max(known):.3f})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    top = f"| {' | '.join(head)} |".replace("|  |", "| |")
    return "\n".join([top, "| --- " * len(head) + "|", *lines]) + "\n" if lines else NO_RUN


def fill(template: str, parts: Mapping[str, str]) -> str:
    """A template of this folder with each @name@ replaced."""
    text = (pathlib.Path(__file__).parent / template).read_text(encoding="utf-8")
    return re.sub(r"@([a-z_0-9]+)@", lambda found: parts[found[1]].rstrip("\n"), text)
