"""tools/timing_published.py with programs that stand in for nvcc and lssar."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1))

FULL, CAUSAL = "4Sm90ELb0ELb0ELb1E", "4Sm90ELb1ELb0ELb1E"  # parts of mangled names


def loop(kernel, per_score, scores=1024):
    way = {"predicted_clocks_per_score": per_score, "scores": scores, "bounds": {"tensor": 64.0, "issue": 32.0}}
    return {"kernel": kernel, "warps_per_scheduler": 2, "ways": [way]}


LOOPS = [loop(FULL, 0.125), loop(CAUSAL, 0.2), loop(CAUSAL, 0.125), loop(CAUSAL, 0.01, scores=0)]


class Published(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("nvcc", 'echo "$@" > "${@: -1}"')
        (self.folder / "timing.json").write_text(json.dumps({"timing": LOOPS}))
        hopper = self.folder / "fa" / "hopper"
        hopper.mkdir(parents=True)
        (hopper / "flash_fwd_launch_template.h").write_text("static constexpr bool IntraWGOverlap = get<3>(tile);\n")
        self.program("lssar", f'echo "$@" >> {self.folder}/calls; cat {self.folder}/timing.json')

    def program(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def run_tool(self):
        options = ["--flash-attention", self.folder / "fa", "--cutlass", "/cutlass", "--cubins", self.folder / "cubins"]
        options += ["--lssar", self.folder / "lssar", "--nvcc", self.folder / "nvcc", "--only", "fwd_hdim128_bf16"]
        command = [sys.executable, TOOLS / "timing_published.py", *options]
        return subprocess.run([str(x) for x in command], capture_output=True, text=True, check=False)

    def test_the_first_row_is_fitted_and_the_others_follow(self):
        done = self.run_tool()
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
        names = ["", ", causal", ", 8448 keys", ", 8448 keys, sequential"]
        self.assertEqual([row[0] for row in rows], ["forward, d 128" + name for name in names])
        fitted, causal, short, sequential = rows
        self.assertEqual(fitted[3:], ["648", "648", "+0 %"])
        # 3800 clocks for 128 x 16384 and 128 x 8192 scores, the loop's fewest clocks beside them.
        full_clocks, causal_clocks = 0.125 + 3800 / (128 * 16384), 0.125 + 3800 / (128 * 8192)
        self.assertEqual(causal[1], f"{causal_clocks:.4f}")
        self.assertEqual(causal[3], f"{648 * full_clocks / causal_clocks:.0f}")
        self.assertEqual(causal[2], "tensor 0.0625")
        self.assertEqual(short[1], f"{0.125 + 3800 / (128 * 8448):.4f}")
        self.assertEqual([short[4], sequential[4]], ["661", "582"])

    def test_compiles_each_instance_once(self):
        self.run_tool()
        cubin = self.folder / "cubins" / "fwd_hdim128_bf16.cubin"
        command = cubin.read_text()
        self.assertIn(f"{self.folder}/fa/hopper/instantiations/flash_fwd_hdim128_bf16_sm90.cu", command)
        self.assertIn("-DFLASHATTENTION_DISABLE_CLUSTER", command)
        cubin.write_text("kept")
        self.run_tool()
        self.assertEqual(cubin.read_text(), "kept")
        self.assertIn("--timing --json --pass forward", (self.folder / "calls").read_text())

    def test_turns_the_overlap_off_in_a_copy_of_the_sources(self):
        self.assertEqual(self.run_tool().returncode, 0)
        command = (self.folder / "cubins" / "fwd_hdim128_bf16_sequential.cubin").read_text()
        copy = self.folder / "cubins" / "sequential"
        self.assertIn(f"{copy}/instantiations/flash_fwd_hdim128_bf16_sm90.cu", command)
        self.assertNotIn(f"{self.folder}/fa/hopper", command)
        header = "flash_fwd_launch_template.h"
        self.assertEqual((copy / header).read_text(), "static constexpr bool IntraWGOverlap = false;\n")
        self.assertIn("get<3>", (self.folder / "fa" / "hopper" / header).read_text())

    def test_says_that_the_constant_is_missing(self):
        (self.folder / "fa" / "hopper" / "flash_fwd_launch_template.h").write_text("")
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("IntraWGOverlap is defined 0 times", done.stderr)

    def test_says_what_failed(self):
        self.program("nvcc", "echo no memory >&2; exit 3")
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 3: no memory", done.stderr)


if __name__ == "__main__":
    unittest.main()
