#!/usr/bin/env python3
"""docs/training_example.md is true: its table and plot are those of the kept runs, and LSSAR's run of
one seed, made again, has the losses that are kept.

    training_example.py PROGRAM LLVM_COMPILER SOURCE_FOLDER

Every validation loss may be 0.03 off. LSSAR_UPDATE_DOCS=1 makes the runs of all seeds, and writes them,
the table and the plot. Exit code 77, with the reason, where they cannot be made: without the LLVM compiler or AVX2, or
where the licences that this machine has are not the page's.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ATTENTIONS = {"lssar": "LSSAR, p = 15", "lssa": "LSSA", "softmax": "softmax"}
SEEDS = (1, 2, 3)
# A kernel that rounds otherwise changes the losses of every run, so one is enough to see it.
REPEATED = ("lssar", 1)
TOLERANCE = 0.03
BEGIN, END = "<!-- written by tests/examples/training_example.py -->\n", "<!-- end -->\n"

# What decides the last bit of a kernel's results: the compiler, and how the virtual device rounds
# what is approximate. AVX2 and AVX-512 round alike, plain code does not.
ARITHMETIC = {"LSSAR_NVRTC_PATH": "none", "LSSAR_VIRTUAL_SIMD": "avx2"}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def train(program, texts, attention, seed, path):
    command = [program, "--device", "virtual", "--attention", attention, "--seed", str(seed)]
    for name in ("train", "validation"):
        command += [f"--{name}", str(texts / f"{name}.txt")]
    subprocess.run(
        [*command, "--json", str(path)],
        env={**os.environ, **ARITHMETIC},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    run = json.loads(path.read_text())
    print(f"{attention}, seed {seed}: {losses(run)}", flush=True)
    return run


def losses(run):
    return [point["loss"] for point in run["validation"]]


def table(runs):
    """runs: {attention: [run of each seed]}"""
    points = next(iter(runs.values()))[0]["validation"]
    first = points[0]["length"]
    lengths = [f"{p['length']} ({p['length'] // first} x)" for p in points]
    columns = [*lengths, f"{points[-1]['length'] // first} x minus 1 x"]
    lines = ["| | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    for attention, of_seeds in runs.items():
        rows = [[*losses(run), losses(run)[-1] - losses(run)[0]] for run in of_seeds]
        cells = [
            f"{sum(column) / len(column):.3f} ({min(column):.3f} to {max(column):.3f})"
            for column in zip(*rows)
        ]
        lines.append(f"| {ATTENTIONS[attention]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def split_page(page):
    before, rest = page.read_text().split(BEGIN)
    old, after = rest.split(END)
    return before, old, after


def plot(source, paths, output):
    script = source / "examples" / "gpt" / "plot.py"
    subprocess.run([sys.executable, "-B", script, "-o", output, *paths], check=True)


def compare(made, shown, name):
    wrong = [
        f"{name}, length {a['length']}: {a['loss']:.3f}, not {b['loss']:.3f}"
        for a, b in zip(made["validation"], shown["validation"], strict=True)
        if not abs(a["loss"] - b["loss"]) <= TOLERANCE
    ]
    results = ("runs_on", "validation", "training")
    if any(made[key] != shown[key] for key in made if key not in results):
        wrong.append(f"{name}: not a run of these options")
    return wrong


def claims(runs):
    """What the page's text says of the means; the reason where one is not so."""
    mean = {a: [sum(x) / len(x) for x in zip(*map(losses, r))] for a, r in runs.items()}
    growth = {a: m[-1] - m[0] for a, m in mean.items()}
    facts = {
        "softmax is best at the training length": min(mean, key=lambda a: mean[a][0]) == "softmax",
        "LSSAR is last there": max(mean, key=lambda a: mean[a][0]) == "lssar",
        "LSSAR loses least with length": min(growth, key=growth.get) == "lssar",
        "LSSAR is best at 8 x": min(mean, key=lambda a: mean[a][-1]) == "lssar",
    }
    return [f"the page says that {fact}: no longer" for fact, is_so in facts.items() if not is_so]


def main():
    program, compiler, source = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    page = source / "docs" / "training_example.md"
    folder = source / "docs" / "training_example"
    updates = os.environ.get("LSSAR_UPDATE_DOCS") == "1"
    if not compiler.exists():
        skip(f"there is no {compiler}")
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        skip("this machine has no AVX2")
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        subprocess.run(
            ["sh", source / "examples" / "gpt" / "text.sh", work],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        names = {(a, s): f"{a}_{s}.json" for a in ATTENTIONS for s in SEEDS}
        shown = {}
        if not updates:
            shown = {key: json.loads((folder / file).read_text()) for key, file in names.items()}
            sizes = [(work / f"{kind}.txt").stat().st_size for kind in ("train", "validation")]
            first = shown["lssar", 1]
            if sizes != [first["train_bytes"], first["validation_bytes"]]:
                skip("the licences of this machine are not those of docs/training_example.md")
        made = {
            key: train(program, work, *key, work / file)
            for key, file in names.items()
            if updates or key == REPEATED
        }
        of_page = made if updates else shown
        runs = {a: [of_page[a, seed] for seed in SEEDS] for a in ATTENTIONS}
        wrong = claims(runs)
        if updates:
            for file in names.values():
                (folder / file).write_bytes((work / file).read_bytes())
            before, _, after = split_page(page)
            page.write_text(before + BEGIN + table(runs) + END + after)
            paths = [folder / file for file in names.values()]
            plot(source, paths, folder / "loss_by_length.svg")
        else:
            for key, run in made.items():
                wrong += compare(run, shown[key], f"{key[0]}, seed {key[1]}")
            if split_page(page)[1] != table(runs):
                wrong.append(f"the table of {page} is not that of its runs")
            plot(source, [folder / file for file in names.values()], work / "plot.svg")
            if (work / "plot.svg").read_bytes() != (folder / "loss_by_length.svg").read_bytes():
                wrong.append("the plot is not that of its runs")
    if wrong:
        print("\n".join([*wrong, "LSSAR_UPDATE_DOCS=1 writes runs, table and plot anew"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
