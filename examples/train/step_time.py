"""Measures a training step on this machine's CPU, with LSSAR and with PyTorch's SDPA, by length.

    python -m examples.train.step_time                   writes docs/evidence/step_time/cpu.json
    python -m examples.train.step_time --lengths 64 256 --rounds 5 --output cpu.json

The model is that of configs/tiny.json. A step has the same number of tokens at every length, and is
whole: the batch, forward, backward, clipping and AdamW. The attentions take turns, step by step.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time
from typing import Any, Optional, Sequence

import torch

from . import config as configs, train
from .evidence_files import ROOT, software, table as made_table, write_run

LENGTHS = (64, 256, 1024, 4096)
TOKENS, ROUNDS, UNTIMED = 4096, 15, 2
ATTENTIONS = {"sdpa": None, "softmax": 0, "lssar": 15}  # model.attention and model.p
TITLES = {"sdpa": "SDPA", "softmax": "lssar's softmax", "lssar": "LSSAR, p = 15"}


def _run(attention: str, length: int) -> train.Run:
    batch = max(1, TOKENS // length)
    named = {"model.attention": attention, "model.p": ATTENTIONS[attention], "model.length": length,
             "train.batch": batch, "train.device": "cpu"}  # fmt: skip
    overrides = [f"{name}={json.dumps(value)}" for name, value in named.items()]
    return train.Run(configs.load(ROOT / "examples" / "train" / "configs" / "tiny.json", overrides))


def _step(run: train.Run) -> float:
    """Takes a step, and returns its milliseconds."""
    begin = time.perf_counter()
    run.take_step()
    return 1e3 * (time.perf_counter() - begin)


def steps_at(length: int, rounds: int, attentions: Sequence[str]) -> dict[str, list[float]]:
    """For each attention the quartiles of its steps; the second is the median."""
    runs = {name: _run(name, length) for name in attentions}
    times: dict[str, list[float]] = {name: [] for name in attentions}
    for number in range(UNTIMED + rounds):
        for name, run in runs.items():
            took = _step(run)
            if number >= UNTIMED:
                times[name].append(took)
    return {
        name: [round(x, 2) for x in statistics.quantiles(took, n=4, method="inclusive")]
        for name, took in times.items()
    }


def settings(lengths: Sequence[int], rounds: int, threads: Sequence[int]) -> dict[str, Any]:
    """What says which measurement the JSON file has."""
    return {"tokens": TOKENS, "rounds": rounds, "lengths": list(lengths), "threads": list(threads)}


def measure(lengths: Sequence[int], rounds: int, threads: Sequence[int]) -> dict[str, Any]:
    """What the JSON file holds: for each number of threads and length the quartiles."""
    before, found = torch.get_num_threads(), []
    for count in threads:
        torch.set_num_threads(count)
        found.append([steps_at(length, rounds, tuple(ATTENTIONS)) for length in lengths])
    torch.set_num_threads(before)
    return {**settings(lengths, rounds, threads), **software(), "milliseconds": found}


def _cell(quartiles: Sequence[float]) -> str:
    low, middle, high = quartiles
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def table(found: dict[str, Any]) -> str:
    """A row for each number of threads and length: medians, quartiles, and SDPA's time over LSSAR's."""
    names, rows = list(found["milliseconds"][0][0]), []
    for threads, of_lengths in zip(found["threads"], found["milliseconds"]):
        for length, steps in zip(found["lengths"], of_lengths):
            ratio = f"{steps['sdpa'][1] / steps['lssar'][1]:.2f}"
            rows.append([str(threads), str(length), *(_cell(steps[name]) for name in names), ratio])
    return made_table(["threads", "length", *(TITLES[x] for x in names), "SDPA's / LSSAR's"], rows)


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="of the sequences")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"timed steps (default {ROUNDS})")
    parser.add_argument("--threads", type=int, nargs="+", default=(1, 2), help="numbers of threads")
    parser.add_argument(
        "--output", type=pathlib.Path, default=ROOT / "docs" / "evidence" / "step_time" / "cpu.json"
    )
    options = parser.parse_args(arguments)
    if min(*options.lengths, *options.threads) < 1:
        parser.error("--lengths and --threads: must be 1 or more")
    if options.rounds < 2:
        parser.error(f"--rounds: {options.rounds}; must be 2 or more, since quartiles are shown")
    found = measure(options.lengths, options.rounds, options.threads)
    write_run(options.output, found)
    print(table(found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
