#!/usr/bin/env python3
"""Compares how the models rank schedules with an H100's times, and prints the table of docs/timing_model.md.

    tools/rank_schedules.py [MEASURED] --kept FILE [--lssar PROGRAM] [--detail]

MEASURED is a schedules.json of docs/measurements (default: that of the H100). For each forward of it, every schedule
is predicted (`lssar inspect --timing`) by the cost model, by the timing model (its loops alone), and by a sum of both:
the loops from the timing model, all else from the cost model. --kept keeps what lssar said, a line for each schedule,
so that an interrupted run goes on. Delete it after changes to the kernels or the models.

exit codes: 0 done; 1 a program failed; 2 wrong options.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys

DONE, FAILED = 0, 1

MEASURED = "docs/measurements/2026-11-26-h100-a9232fdf8697/schedules.json"
# The name of the default in it, and the fields whose defaults have changed since, for (pass, head dim, is causal).
DEFAULT = "a9232fdf"
DEFAULTS_THEN = {("forward", 64, False): {"hopper": {"score_cols": 160}, "forward": {"block_cols": 128}}}

# Pairs whose measured times are nearer are not compared, and predictions that are nearer are a tie.
LEAST_APART, TIE = 1.03, 1.001


class Problem(Exception):
    """One line for the user."""


def merged(below, above):
    result = dict(below)
    for key, value in above.items():
        result[key] = merged(result.get(key, {}), value) if isinstance(value, dict) else value
    return result


def ask(options, *arguments):
    command = [options.lssar, *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def what_lssar_says(case, contender, options):
    key = (case["pass"], case["dim"], case["causal"])
    schedule = merged(DEFAULTS_THEN.get(key, {}), contender.get("schedule") or {})
    problem = ["--pass", case["pass"].replace("_", "-"), "--head-dim", str(case["dim"])]
    problem += ["--seq", str(case["length"]), "--batch", str(case["batch"]), "--heads", str(case["heads"])]
    problem += ["--target", "sm_90a", "--device", "virtual", "--schedule", json.dumps(schedule)]
    problem += ["--causal"] if case["causal"] else []
    said = ask(options, "inspect", *problem, "--timing", "--no-count")
    return {"estimate_ms": said["estimate_ms"], "sum_of_both": said.get("sum_of_both")}


@dataclasses.dataclass
class Schedule:
    name: str
    measured: float  # ms
    cost: float  # ms
    timing: float  # ms of the loops alone
    both: float  # ms

    def predicted(self, model):
        return getattr(self, model)


MODELS = {"cost": "cost model", "timing": "timing model", "both": "sum of both"}


def schedule_of(contender, kept):
    """None if its loops do not add up to its time: the staggered forward runs one pass beside the other."""
    both = kept["sum_of_both"]
    if both is None:
        return None
    return Schedule(contender["name"], contender["median_ms"], kept["estimate_ms"], both["loops_ms"], both["ms"])


def pairs_in_order(schedules, model):
    """(pairs that are apart, those of them that the model has in the measured order)"""
    num_pairs, in_order = 0, 0.0
    for i, one in enumerate(schedules):
        for other in schedules[:i]:
            fast, slow = sorted((one, other), key=lambda s: s.measured)
            if slow.measured <= LEAST_APART * fast.measured:
                continue
            num_pairs += 1
            ratio = slow.predicted(model) / fast.predicted(model)
            in_order += 1 if ratio > TIE else 0.5 if ratio >= 1 / TIE else 0
    return num_pairs, in_order


def over_the_fastest(schedules, model):
    first = min(schedules, key=lambda s: s.predicted(model))
    return first.measured / min(s.measured for s in schedules)


def number(value):
    return f"{value:g}"


def name_of(case):
    kind = "forward for training" if case["pass"] == "forward_train" else "forward"
    return f"{kind}, d {case['dim']}{', causal' if case['causal'] else ''}"


def detail_of(case, schedules):
    default = next(s for s in schedules if s.name == DEFAULT)
    lines = [f"{name_of(case)}: times over the default's, measured, {', '.join(MODELS.values())}"]
    for s in schedules:
        ratios = [s.measured / default.measured] + [s.predicted(m) / default.predicted(m) for m in MODELS]
        lines.append("  " + " ".join(f"{ratio:.2f}" for ratio in ratios) + f"  {s.name}")
    return lines


def table(cases, options):
    header = ["case", "schedules", "pairs", *MODELS.values(), *(f"{name}'s first" for name in MODELS.values())]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    num_schedules, num_pairs, totals = 0, 0, dict.fromkeys(MODELS, 0.0)
    details = []
    for case, schedules in cases:
        ranks = {model: pairs_in_order(schedules, model) for model in MODELS}
        pairs = ranks["cost"][0]
        cells = [name_of(case), len(schedules), pairs, *(number(ranks[m][1]) for m in MODELS)]
        cells += [f"{over_the_fastest(schedules, m):.2f}" for m in MODELS]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
        num_schedules, num_pairs = num_schedules + len(schedules), num_pairs + pairs
        for model in MODELS:
            totals[model] += ranks[model][1]
        details += detail_of(case, schedules)
    cells = ["all", num_schedules, num_pairs, *(number(totals[m]) for m in MODELS)]
    lines.append("| " + " | ".join(str(cell) for cell in cells) + " |" + " |" * len(MODELS))
    return lines + ([""] + details if options.detail else [])


def predicted_cases(options):
    kept = {}
    if options.kept.exists():
        kept = {tuple(line["key"]): line for line in map(json.loads, options.kept.read_text().splitlines())}
    cases = []
    for case in json.loads(options.measured.read_text()):
        if case["pass"] == "forward_backward":  # sums of dq are not modelled
            continue
        schedules = []
        for contender in case["contenders"]:
            # The others are softmax, kernels of another commit, and experiments whose kernels are gone.
            if contender["name"] != DEFAULT and not contender.get("schedule"):
                continue
            key = (case["pass"], case["dim"], case["causal"], contender["name"])
            if key not in kept:
                kept[key] = {"key": key, **what_lssar_says(case, contender, options)}
                with options.kept.open("a") as file:
                    file.write(json.dumps(kept[key]) + "\n")
            schedules.append(schedule_of(contender, kept[key]))
        cases.append((case, [s for s in schedules if s is not None]))
    return sorted(cases, key=lambda item: item[0]["pass"])


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=pathlib.Path, nargs="?", default=MEASURED, metavar="MEASURED")
    parser.add_argument("--kept", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--lssar", default="build/release/bin/lssar", metavar="PROGRAM")
    parser.add_argument("--detail", action="store_true", help="also each schedule's times over the default's")
    options = parser.parse_args(arguments)
    try:
        print("\n".join(table(predicted_cases(options), options)))
    except (Problem, OSError) as problem:
        print(f"rank_schedules: {problem}", file=sys.stderr)
        return FAILED
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
