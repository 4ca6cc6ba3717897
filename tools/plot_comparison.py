#!/usr/bin/env python3
"""Draws some of the records of a compare.json (tools/compare_torch.py) again, as one SVG file.

    python3 tools/plot_comparison.py compare.json --dims 64 --causal yes --threads 1 -o plot.svg

An option that is not given leaves out nothing.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from compare.plot import plot


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("comparison", type=pathlib.Path, help="compare.json")
    add("-o", "--output", type=pathlib.Path, required=True, help="the SVG file; replaced if there")
    add("--title", help="default: the model of the GPU or CPU")
    add("--dims", type=int, nargs="+")
    add("--causal", nargs="+", choices=("yes", "no"))
    add("--passes", nargs="+")
    add("--dtype", nargs="+")
    add("--threads", type=int, nargs="+", help="of records of a CPU")
    add("--contenders", nargs="+", help="as the file names them: flash, ours-p15, ...")
    return parser.parse_args(arguments)


def is_chosen(record, options):
    """Whether every option that was given allows the record's value."""
    values = {
        "dims": record["dim"],
        "causal": "yes" if record["causal"] else "no",
        "passes": record["pass"],
        "dtype": record.get("dtype"),
        "threads": record.get("threads"),
        "contenders": record["contender"],
    }
    allowed = vars(options)
    return all(allowed[name] is None or value in allowed[name] for name, value in values.items())


def machine_name(machine):
    return machine["gpu"] or machine["cpu"]["model"]


def main(arguments):
    options = parse_arguments(arguments)
    try:
        comparison = json.loads(options.comparison.read_text())
        records = [r for r in comparison["records"] if is_chosen(r, options)]
        title = options.title or machine_name(comparison["machine"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{options.comparison}: not a compare.json ({error})", file=sys.stderr)
        return 2
    if not records:
        print(f"{options.comparison}: no record has these values", file=sys.stderr)
        return 2
    options.output.write_text(plot(records, title))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
