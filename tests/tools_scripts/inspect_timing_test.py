"""`lssar inspect --timing` of a real kernel: the softmax forward for sm_90a at head dimension 64.

What its loop computes is known, so some of the prediction can be counted without machine code: an SM
multiplies 2048 pairs of 16-bit numbers in a clock, and a score takes 64 of them with k, 64 with v, and one
exponential.
"""

import json
import os
import subprocess
import unittest

import machine_code
import sass_loops
from machine_code import LSSAR, NVCC

HEAD_DIM = 64
PAIRS_PER_CLOCK = 2048
LANES = 128  # threads of a warp group


def inspected(*options, target="sm_90a", problem=f"--head-dim {HEAD_DIM} --score softmax"):
    problem = f"{problem} --target {target} --device virtual".split()
    environment = dict(os.environ, LSSAR_NVDISASM=sass_loops.find_nvdisasm(None))
    return subprocess.run(
        [LSSAR, "inspect", *problem, "--timing", "--no-count", *options],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


class SoftmaxForward(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = inspected("--json")
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.said = json.loads(done.stdout)
        cls.loops = cls.said["timing"]

    def ways(self):
        return [(loop, way) for loop in self.loops for way in loop["ways"]]

    def test_its_loop_is_timed(self):
        self.assertEqual([loop["kernel"] for loop in self.loops], ["lssar_forward"])
        self.assertEqual(len(self.loops[0]["ways"]), 1)  # softmax has one evaluator

    def test_products_are_those_of_the_scores(self):
        for _, way in self.ways():
            expected = way["scores"] * 2 * HEAD_DIM / PAIRS_PER_CLOCK
            self.assertGreaterEqual(way["bounds"]["tensor"], expected)
            # Row sums may be small products, too.
            self.assertLess(way["bounds"]["tensor"], 1.2 * expected)

    def test_one_exponential_per_score(self):
        for loop, way in self.ways():
            scores = way["scores"] / LANES / loop["warps_per_scheduler"]
            self.assertGreaterEqual(way["special"], scores)
            self.assertLess(way["special"], 1.1 * scores)

    def test_no_resource_is_faster_than_its_rate_and_the_order_costs_less_than_twice(self):
        for _, way in self.ways():
            bound = max(way["bounds"].values())
            # Warps are averaged over a few iterations, so a bound may be missed by a little.
            self.assertGreaterEqual(way["predicted_clocks"], 0.99 * bound)
            self.assertLess(way["predicted_clocks"], 2 * bound)

    def test_every_clock_went_somewhere(self):
        for _, way in self.ways():
            self.assertAlmostEqual(sum(way["uses"].values()), way["predicted_clocks"], places=3)
            self.assertAlmostEqual(way["uses"]["issue"], way["instructions"], places=3)

    def test_the_sum_of_both_models_has_more_than_the_loops(self):
        both = self.said["sum_of_both"]
        self.assertGreater(both["ms"], both["loops_ms"])
        self.assertLess(abs(both["ms"] / self.said["estimate_ms"] - 1), 0.5)

    def test_text(self):
        done = inspected()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Timing, predicted from machine code", done.stdout)
        self.assertIn(f"({self.loops[0]['ways'][0]['scores']} scores)", done.stdout)
        self.assertIn(f"all else: {self.said['sum_of_both']['ms']:.4g} ms (predicted)", done.stdout)

    def test_a_portable_kernel_is_refused(self):
        done = inspected(target="sm_80")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("only Hopper kernels (sm_90a) have it", done.stderr)

    def test_a_cubin_can_only_be_timed(self):
        for options, said in (
            ([], "other.cubin: of a cubin only --timing is possible; give that option"),
            (["--timing"], "/nowhere/other.cubin"),
        ):
            done = subprocess.run(
                [LSSAR, "inspect", "/nowhere/other.cubin", *options], capture_output=True, text=True, check=False
            )
            self.assertIn(said, done.stderr)
            self.assertNotEqual(done.returncode, 0)

    def test_not_with_another_view(self):
        done = inspected("--view", "sass")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--timing: it is shown with the summary", done.stderr)


class OrderOfHotLoops(unittest.TestCase):
    """Special functions in a row keep one unit busy while the others idle. The assembler chooses
    their order, so a change of the source can bring them together unseen."""

    ASSEMBLER = "nvrtc 13.0."  # another one has another order
    # The longest runs that default schedules may have in any way of each loop with matrix products:
    # first of special functions, then of float32 multiply-adds, products and sums.
    MOST = {
        "--head-dim 64": [(2, 90), (2, 580)],  # pass 1, pass 2
        "--head-dim 64 --causal": [(2, 90), (2, 390)],
        "--head-dim 128": [(2, 60), (2, 390)],
        "--head-dim 128 --pass forward-train": [(2, 60), (3, 160)],
        "--head-dim 128 --pass backward": [(4, 560), (4, 560)],
        "--head-dim 128 --score softmax": [(4, 110)],
    }

    def test_no_run_grows(self):
        for problem, most in self.MOST.items():
            done = inspected("--json", problem=problem)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)
            if not found["compiler"].startswith(self.ASSEMBLER):
                self.skipTest(found["compiler"])
            with self.subTest(problem):
                self.assertEqual(len(found["timing"]), len(most))
                for loop, (special, fma) in zip(found["timing"], most):
                    runs = [way["longest_special_run"] for way in loop["ways"]]
                    self.assertLessEqual(max(run["length"] for run in runs), special, runs)
                    runs = [way["longest_fma_run"] for way in loop["ways"]]
                    self.assertLessEqual(max(run["length"] for run in runs), fma, runs)


if __name__ == "__main__":
    machine_code.main()
