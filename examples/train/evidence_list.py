"""The list of everything that the evidence is made of: runs, and measurements of this machine."""

import dataclasses
import functools
from typing import Any, Callable

from . import evidence_runs, newton, precision, step_time
from .evidence_files import Item

MEASUREMENTS = ("precision", "step_time")
GROUPS = (*evidence_runs.GROUPS, newton.GROUP, *MEASUREMENTS)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """An Item of evidence_files. It has all threads of the machine for itself."""

    group: str
    settings: dict[str, Any]  # fields of the file; with others it is another measurement
    measure: Callable[[], dict[str, Any]]
    attention = None
    is_alone = True

    @property
    def name(self) -> str:
        return self.group

    @property
    def file(self) -> str:
        return f"{self.group}/cpu.json"

    def is_of(self, run: dict[str, Any], quick: bool) -> bool:
        return {name: run.get(name) for name in self.settings} == self.settings

    def make(self, quick: bool) -> dict[str, Any]:
        return self.measure()


def _measurements(quick: bool) -> list[Measurement]:
    keys = precision.KEYS[:2] if quick else precision.KEYS
    steps = (step_time.LENGTHS[:1], 2, (1,)) if quick else (step_time.LENGTHS, step_time.ROUNDS, (1, 2))
    return [
        Measurement("precision", precision.settings(keys), functools.partial(precision.measure, keys)),
        Measurement("step_time", step_time.settings(*steps), functools.partial(step_time.measure, *steps)),
    ]


def items(quick: bool = False) -> list[Item]:
    """In the order in which they are made: a seed of every run, then the next seed, then measurements.
    `quick`: few and small, to try the program."""
    runs = [*evidence_runs.specs(quick), *newton.specs(quick)]
    return [*sorted(runs, key=lambda spec: spec.seed), *_measurements(quick)]
