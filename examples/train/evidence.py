"""Makes what is missing of the evidence, and its pages: docs/extrapolation.md and docs/newton.md.

    python -m examples.train.evidence                 all that is missing, two runs at a time
    python -m examples.train.evidence --group passkey newton --minutes 60
    python -m examples.train.evidence --page          the pages alone, from the runs that there are
    python -m examples.train.evidence --quick --output trial    a few steps of a few runs, to try it

Each finished run is a JSON file, docs/evidence/GROUP/seed_N/ATTENTION.json, and each measurement is
docs/evidence/GROUP/cpu.json. A run whose config has changed in the list is made again. A run takes one
thread, so its numbers do not depend on how many run at once. Measurements come after the runs, one by one.

Exit codes: 0 done; 1 a run failed; 2 wrong options; 130 interrupted: finished runs are kept.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, Optional

from .evidence_files import ROOT, Item, read_run, write_run
from .evidence_list import GROUPS, items
from .evidence_page import write_pages


def kept_run(folder: pathlib.Path, item: Item, quick: bool) -> Optional[dict[str, Any]]:
    """The finished run, or None. Files of measurements have neither name nor group, and the oldest of
    newton no group and a shorter name."""
    run = read_run(folder / item.file)
    if run is None or not item.is_of(run, quick):
        return None
    return {**run, "name": item.name, "group": item.group}


def kept_runs(folder: pathlib.Path, listed: list[Item], quick: bool) -> list[dict[str, Any]]:
    """The finished runs of the list."""
    found = (kept_run(folder, item, quick) for item in listed)
    return [run for run in found if run]


def run_here(folder: pathlib.Path, item: Item, quick: bool) -> None:
    """Makes one run in this process and writes its file."""
    began = time.monotonic()
    run = item.make(quick)
    write_run(folder / item.file, {**run, "seconds": round(time.monotonic() - began, 1)})


def _start(output: pathlib.Path, item: Item) -> Optional[str]:
    """Makes one run in a process of its own; its last words if it fails."""
    command = [sys.executable, "-m", "examples.train.evidence", "--output", str(output), "--one", item.name]
    environment = dict(os.environ) if item.is_alone else {**os.environ, "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    # Its steps are not shown: several runs print at once.
    made = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    print(f"{item.name}: exit code {made.returncode}, {time.monotonic() - began:.0f} s", flush=True)
    return made.stderr[-2000:] or "no message" if made.returncode else None


def make_missing(output: pathlib.Path, missing: list[Item], jobs: int, minutes: float) -> bool:
    """Makes the runs, and starts none after so many minutes. False if one failed."""
    end, failed = time.monotonic() + 60 * minutes, []

    def unless_late(item: Item) -> None:
        said = _start(output, item) if time.monotonic() < end else None
        if said:
            failed.append(item.name)
            print(said, file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(unless_late, (item for item in missing if not item.is_alone)))
    for item in missing:
        if item.is_alone:
            unless_late(item)
    return not failed


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS), help="which runs")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default 2)")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after so long")
    parser.add_argument("--page", action="store_true", help="make no run")
    parser.add_argument("--quick", action="store_true", help="a trial; needs --output")
    parser.add_argument("--output", type=pathlib.Path, help="folder of pages and evidence (default docs)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs: {options.jobs}; must be 1 or more")
    if options.quick and options.output is None:
        parser.error("--quick: its runs are no evidence; --output must name a folder for them")
    return options


def main(arguments: Optional[list[str]] = None) -> int:
    options = parse(arguments)
    output = (options.output or ROOT / "docs").resolve()
    folder = output / "evidence"
    folder.mkdir(parents=True, exist_ok=True)
    listed = items(options.quick)
    if options.one:
        run_here(folder, {item.name: item for item in listed}[options.one], options.quick)
        return 0
    chosen = [item for item in listed if item.group in options.group]
    missing = [item for item in chosen if kept_run(folder, item, options.quick) is None]
    print(f"{len(chosen) - len(missing)} of {len(chosen)} runs are there", flush=True)
    is_good = True
    if options.quick and not options.page:
        for item in missing:  # most of the time of such a run would be the start of its process
            run_here(folder, item, quick=True)
    elif not options.page:
        is_good = make_missing(output, missing, options.jobs, options.minutes)
    write_pages(output, listed, kept_runs(folder, listed, options.quick))
    return 0 if is_good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
