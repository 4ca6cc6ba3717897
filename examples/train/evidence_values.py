"""What the finished runs say, by group and attention: the numbers of tables, plots and claims."""

import math
import statistics
from typing import Any, Optional

from . import newton
from .evidence_runs import GROUPS


class Runs:
    """The finished runs and measurements."""

    def __init__(self, runs: list[dict[str, Any]]) -> None:
        self.runs = runs

    def of(self, group: str, attention: Optional[str] = None) -> list[dict[str, Any]]:
        """The runs of a group; with an attention, its seeds."""
        of_group = [run for run in self.runs if run["group"] == group]
        return [run for run in of_group if attention in (None, run.get("attention"))]

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

    def at(
        self, times: int, attention: str, p: Optional[int] = None, group: str = "length", key: str = "loss"
    ) -> list[float]:
        """For each seed the value at a length, in training lengths."""
        column = GROUPS[group].times.index(times)
        return [row[column] for row in self.values(group, attention, key, p)]

    def growth(self, times: int, attention: str, group: str = "length") -> list[float]:
        """For each seed by how much the loss grows from the training length on."""
        ends = (self.at(x, attention, group=group) for x in (1, times))
        return [last - first for first, last in zip(*ends)]

    def norms(self, attention: str) -> list[list[float]]:
        """For each seed the norms of the gradient. The warm-up has its own: the last two thirds count."""
        curves = [run["curve"] for run in self.of("stability", attention)]
        return [[row[2] for row in curve[len(curve) // 3 :]] for curve in curves]

    def largest_norms(self, attention: str) -> list[float]:
        """For each seed the largest of these norms."""
        return [max(of_seed) for of_seed in self.norms(attention)]

    def last_losses(self, attention: str) -> list[float]:
        """For each seed of the group stability the loss of the last step."""
        return [run["curve"][-1][1] for run in self.of("stability", attention)]

    def looked(self, attention: str, key: str) -> list[list[list[float]]]:
        """For each seed and length the figure of looking.py for every head."""
        return [
            [[x for layer in point[key] for x in layer] for point in run["points"]]
            for run in self.of("looking", attention)
        ]

    def entropy_growth(self, attention: str) -> list[float]:
        """For each seed the nats of entropy, mean over the heads, per nat of log N."""
        found = []
        for run, figures in zip(self.of("looking", attention), self.looked(attention, "entropy")):
            logs = [math.log(point["keys"]) for point in run["points"]]
            found.append(statistics.linear_regression(logs, list(map(statistics.fmean, figures))).slope)
        return found

    def most_on_first(self, attention: str, times: int) -> list[float]:
        """For each seed the mean weight of the first token in the head that gives it most."""
        column = GROUPS["looking"].times.index(times)
        return [max(of_lengths[column]) for of_lengths in self.looked(attention, "first")]

    def live(self, attention: str, times: int) -> list[float]:
        """For each seed the share of live weights, mean over the heads."""
        column = GROUPS["looking"].times.index(times)
        return [statistics.fmean(of_lengths[column]) for of_lengths in self.looked(attention, "live")]

    def orbits(self, attention: str, key: str) -> list[float]:
        """For each seed of the group newton a figure of new orbits of the kind of training; inf where the
        reading has none."""
        readings = [run["readings"][newton.SAME] for run in self.of(newton.GROUP, attention)]
        return [math.inf if reading[key] is None else reading[key] for reading in readings]
