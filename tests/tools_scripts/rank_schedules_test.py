"""tools/rank_schedules.py with a program that stands in for lssar."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1))

# Says what the schedule's forward.block_cols is: {columns: (estimate, what the loops take)}.
LSSAR = f"#!{sys.executable} -SE\n" + """
import json, sys
words = sys.argv[1:]
schedule = json.loads(words[words.index("--schedule") + 1])
cols = schedule.get("forward", {}).get("block_cols", 64)
ms, clocks = {64: (1.0, 0.2), 32: (1.5, 0.3), 96: (0.9, 0.25), 16: (9, 9)}[cols]
open(sys.argv[0] + ".calls", "a").write(words[0] + "\\n")
said = {"estimate_ms": ms}
if cols != 16:
    said["sum_of_both"] = {"loops_ms": clocks, "ms": 2 * clocks + 0.1}
print(json.dumps(said))
"""


def contender(cols, ms):
    return {"name": f"cols {cols}", "median_ms": ms, "schedule": {"forward": {"block_cols": cols}}}


CONTENDERS = [
    {"name": "cudnn", "median_ms": 0.5},
    {"name": "a9232fdf", "median_ms": 2.0},
    contender(32, 3.0),
    contender(96, 2.5),
    contender(16, 1.0),  # without a sum: left out
]


class Ranks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.lssar = self.folder / "lssar"
        self.lssar.write_text(LSSAR)
        self.lssar.chmod(0o755)

    def run_tool(self, *more):
        case = {"pass": "forward", "dim": 128, "causal": False, "length": 8192, "batch": 1, "heads": 1}
        measured = self.folder / "schedules.json"
        cases = [{**case, "contenders": CONTENDERS}, {**case, "pass": "forward_backward"}]
        measured.write_text(json.dumps(cases))
        command = [sys.executable, TOOLS / "rank_schedules.py", measured, "--kept", self.folder / "kept"]
        command += ["--lssar", self.lssar, *more]
        return subprocess.run([str(x) for x in command], capture_output=True, text=True, check=False)

    def test_counts_pairs_in_the_measured_order(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        row = [cell.strip() for cell in done.stdout.splitlines()[2].split("|")[1:-1]]
        # The cost model puts 96 columns before the default, which was faster.
        self.assertEqual(row, ["forward, d 128", "3", "3", "2", "3", "3", "1.25", "1.00", "1.00"])

    def test_detail_has_what_lssar_said(self):
        done = self.run_tool("--detail")
        self.assertIn(f"1.50 1.50 1.50 {0.7 / 0.5:.2f}  cols 32", done.stdout)

    def test_asks_lssar_once(self):
        first, second = self.run_tool(), self.run_tool()
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(first.stdout, second.stdout)
        self.assertEqual(len((self.folder / "lssar.calls").read_text().splitlines()), 4)

    def test_says_what_failed(self):
        self.lssar.write_text("#!/bin/sh\necho no compiler >&2\nexit 3\n")
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 3: no compiler", done.stderr)


if __name__ == "__main__":
    unittest.main()
