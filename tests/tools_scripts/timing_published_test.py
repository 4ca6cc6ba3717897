"""tools/timing_published.py with programs that stand in for nvcc and lssar."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1))

# Parts of mangled names: of the first release's forward, and of later ones.
FULL, CAUSAL, VARLEN = (
    f"Flash_fwd_kernel_traitsILi128E10bfloat16_tEELb{causal}ENS_12SeqLenTraitsILb{varlen}EE"
    for causal, varlen in ((0, 0), (1, 0), (0, 1))
)
LATER, LATER_LOCAL = "4Sm90ELb0ELb0ELb0ELb1E", "4Sm90ELb0ELb1ELb0ELb1E"


def loop(kernel, per_score, scores=1024):
    way = {"predicted_clocks_per_score": per_score, "scores": scores, "bounds": {"tensor": 64.0, "issue": 32.0}}
    return {"kernel": kernel, "warps_per_scheduler": 2, "ways": [way]}


LOOPS = [
    loop(FULL, 0.125),
    loop(VARLEN, 0.1),
    loop(CAUSAL, 0.2),
    loop(CAUSAL, 0.125),
    loop(CAUSAL, 0.01, scores=0),
    loop(LATER, 0.125),
    loop(LATER_LOCAL, 0.1),
]


class Published(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("nvcc", 'echo "$@" > "${@: -1}"')
        (self.folder / "timing.json").write_text(json.dumps({"timing": LOOPS}))
        self.repository(
            "fa",
            "hopper/flash_fwd_launch_template.h",
            "static constexpr bool IntraWGOverlap = get<3>(tile);\n",
            ("bafe2530", "0251105a"),
        )
        self.repository("cutlass", "include/cute.hpp", "", ("756c351b", "v4.2.0"))
        self.cubins = self.folder / "cubins"
        self.program("lssar", f'echo "$@" >> {self.folder}/calls; cat {self.folder}/timing.json')

    def program(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def repository(self, name, path, text, commits):
        """A clone with one file, in which tags stand for the commits."""
        folder = self.folder / name
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        author = ("-c", "user.name=test", "-c", "user.email=test@example.com")
        steps = [("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "test")]
        for step in steps + [("tag", commit) for commit in commits]:
            subprocess.run(["git", "-C", str(folder), *step], check=True)

    def run_tool(self):
        options = ["--flash-attention", self.folder / "fa", "--cutlass", self.folder / "cutlass"]
        options += ["--cubins", self.cubins]
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
        cubin = self.cubins / "fwd_hdim128_bf16-bafe2530.cubin"
        command = cubin.read_text()
        self.assertIn(f"{self.cubins}/fa-bafe2530/hopper/flash_fwd_hdim128_bf16_sm90.cu", command)
        self.assertIn(f"-I {self.cubins}/cutlass-756c351b/include", command)
        self.assertNotIn("FLASHATTENTION_DISABLE", command)
        later = (self.cubins / "fwd_hdim128_bf16-0251105a.cubin").read_text()
        self.assertIn(f"{self.cubins}/fa-0251105a/hopper/instantiations/flash_fwd_hdim128_bf16_sm90.cu", later)
        self.assertIn(f"-I {self.cubins}/cutlass-v4.2.0/include", later)
        self.assertIn("-DFLASHATTENTION_DISABLE_CLUSTER", later)
        cubin.write_text("kept")
        self.run_tool()
        self.assertEqual(cubin.read_text(), "kept")
        self.assertIn("--timing --json --pass forward", (self.folder / "calls").read_text())

    def test_turns_the_overlap_off_in_a_copy_of_the_sources(self):
        self.assertEqual(self.run_tool().returncode, 0)
        command = (self.cubins / "fwd_hdim128_bf16-0251105a_sequential.cubin").read_text()
        copy = self.cubins / "sequential"
        self.assertIn(f"{copy}/instantiations/flash_fwd_hdim128_bf16_sm90.cu", command)
        self.assertNotIn("0251105a/hopper", command)
        header = "flash_fwd_launch_template.h"
        self.assertEqual((copy / header).read_text(), "static constexpr bool IntraWGOverlap = false;\n")
        self.assertIn("get<3>", (self.cubins / "fa-0251105a" / "hopper" / header).read_text())

    def test_says_that_the_constant_is_missing(self):
        shutil.rmtree(self.folder / "fa")
        self.repository("fa", "hopper/flash_fwd_launch_template.h", "", ("bafe2530", "0251105a"))
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("IntraWGOverlap is defined 0 times", done.stderr)

    def test_says_that_a_commit_is_missing(self):
        subprocess.run(["git", "-C", str(self.folder / "fa"), "tag", "-d", "bafe2530"], check=True, capture_output=True)
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("git ended with 128", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_says_what_failed(self):
        self.program("nvcc", "echo no memory >&2; exit 3")
        done = self.run_tool()
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 3: no memory", done.stderr)


if __name__ == "__main__":
    unittest.main()
