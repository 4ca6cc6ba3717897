"""Makes the runs behind docs/extrapolation.md that are missing, and the page.

    python -m examples.train.evidence                 all that is missing, two at a time
    python -m examples.train.evidence --group passkey stability --minutes 60
    python -m examples.train.evidence --page          the page alone, from the runs that there are
    python -m examples.train.evidence --quick --output trial    a few steps of a few runs, to try it

Each finished run is a JSON file, docs/evidence/GROUP/seed_N/ATTENTION.json. A run whose config has changed in the list is made
again. A run takes one thread, so its numbers do not depend on how many run at once.

Exit codes: 0 done; 1 a run failed; 2 wrong options; 130 interrupted: finished runs are kept.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any, Optional

from .checkpoint import write_whole
from .evidence_page import write_page
from .evidence_runs import GROUPS, ROOT, Spec, make, specs


def kept_run(folder: pathlib.Path, spec: Spec, quick: bool) -> Optional[dict[str, Any]]:
    """The finished run, or None."""
    path = folder / spec.file
    if not path.exists():
        return None
    run = json.loads(path.read_text(encoding="utf-8"))
    return run if run["config"] == spec.config(quick) else None


def run_here(folder: pathlib.Path, spec: Spec, quick: bool) -> None:
    """Makes one run in this process and writes its file."""
    run = make(spec, quick)
    fields = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in run.items())
    text = "{\n" + ",\n".join(fields) + "\n}\n"
    path = folder / spec.file
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: file.write(text.encode()))


def _start(folder: pathlib.Path, spec: Spec) -> Optional[str]:
    """Makes one run in a process of its own; its last words if it fails."""
    command = [sys.executable, "-m", "examples.train.evidence", "--output", str(folder), "--one", spec.name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    # Its steps are not shown: several runs print at once.
    made = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    print(f"{spec.name}: exit code {made.returncode}, {time.monotonic() - began:.0f} s", flush=True)
    return made.stderr[-2000:] or "no message" if made.returncode else None


def make_missing(folder: pathlib.Path, missing: list[Spec], jobs: int, minutes: float) -> bool:
    """Makes the runs, and starts none after so many minutes. False if one failed."""
    end, failed = time.monotonic() + 60 * minutes, []

    def unless_late(spec: Spec) -> None:
        said = _start(folder, spec) if time.monotonic() < end else None
        if said:
            failed.append(spec.name)
            print(said, file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(unless_late, missing))
    return not failed


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS), help="which runs")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default 2)")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no run after so long")
    parser.add_argument("--page", action="store_true", help="make no run")
    parser.add_argument("--quick", action="store_true", help="a trial; needs --output")
    parser.add_argument("--output", type=pathlib.Path, help="folder of the runs (default docs/evidence)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs: {options.jobs}; must be 1 or more")
    if options.quick and options.output is None:
        parser.error("--quick: its runs are no evidence; --output must name a folder for them")
    return options


def main(arguments: Optional[list[str]] = None) -> int:
    options = parse(arguments)
    docs = ROOT / "docs"
    folder = (options.output or docs / "evidence").resolve()
    page = docs / "extrapolation.md" if options.output is None else folder / "extrapolation.md"
    folder.mkdir(parents=True, exist_ok=True)
    listed = list(specs(options.quick))
    if options.one:
        run_here(folder, {spec.name: spec for spec in listed}[options.one], options.quick)
        return 0
    chosen = [spec for spec in listed if spec.group in options.group]
    missing = [spec for spec in chosen if kept_run(folder, spec, options.quick) is None]
    print(f"{len(chosen) - len(missing)} of {len(chosen)} runs are there", flush=True)
    is_good = True
    if options.quick and not options.page:
        for spec in missing:  # most of the time of such a run would be the start of its process
            run_here(folder, spec, quick=True)
    elif not options.page:
        is_good = make_missing(folder, missing, options.jobs, options.minutes)
    runs = [kept_run(folder, spec, options.quick) for spec in listed]
    write_page(page, listed, [run for run in runs if run])
    return 0 if is_good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
