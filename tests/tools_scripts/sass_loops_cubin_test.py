"""tools/sass_loops.py on the portable forward of sm_90, whose instructions can be counted by hand.

Head dimension 64, 64 x 64 tiles, 4 warps of 16 rows. Per tile of 64 keys one warp makes

    scores        16 x 64 x 64    4 steps of depth 16 x 8 tiles of 8 columns    32 mma
    row sums      16 x 64 by ones                 4 steps of depth 16            4 mma (pass 2)
    weights by v  16 x 64 x 64                                                  32 mma (pass 2)

and a thread has 16 * 64 / 32 = 32 scores, each with one exponential in either pass.
"""

import pathlib
import subprocess
import tempfile
import unittest

import machine_code
import sass_loops
from machine_code import LSSAR, NVCC

SCORES = 32


def loops_with_tensor_cores():
    with tempfile.TemporaryDirectory() as folder:
        schedule = pathlib.Path(folder, "schedule.json")
        schedule.write_text('{"forward": {"block_rows": 64, "block_cols": 64}}')
        source, cubin = f"{folder}/forward.cu", f"{folder}/forward.cubin"
        problem = "--pass forward --head-dim 64 --p 15 --no-causal --target sm_90".split()
        subprocess.run(
            [LSSAR, "emit", *problem, "--schedule", str(schedule), "-o", source], check=True
        )
        subprocess.run([NVCC, "-cubin", "-arch=sm_90", source, "-o", cubin], check=True)
        report = sass_loops.analyse(sass_loops.read_listing(cubin, None), {None: SCORES})
    (kernel,) = [k for k in report["kernels"] if k["name"] == "lssar_forward"]
    return [loop for loop in kernel["loops"] if loop["at_most"].get("tensor")]


class PortableForward(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.loops = loops_with_tensor_cores()

    def test_two_passes(self):
        self.assertEqual(len(self.loops), 2)

    def test_products(self):
        self.assertEqual([loop["every_iteration"]["tensor"] for loop in self.loops], [32, 68])
        self.assertEqual([loop["at_most"]["tensor"] for loop in self.loops], [32, 68])

    def test_one_exponential_per_score(self):
        for loop in self.loops:
            self.assertEqual(loop["opcodes_every_iteration"]["MUFU.EX2"], SCORES)
            self.assertEqual(loop["per_score_every_iteration"]["mufu"], 1.0)

    def test_nothing_unknown(self):
        for loop in self.loops:
            self.assertNotIn("other", loop["at_most"])

    def test_no_spills(self):
        for loop in self.loops:
            self.assertNotIn("local", loop["at_most"])


if __name__ == "__main__":
    machine_code.main()
