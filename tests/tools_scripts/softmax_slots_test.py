"""Softmax's forward for sm_90a beside FlashAttention-3's: instruction slots per score.

docs/performance.md says how FlashAttention-3's were counted. Ours may be 15 % more.
"""

import subprocess
import tempfile
import unittest

import machine_code
import sass_loops
from machine_code import LSSAR, NVCC

MOST = 1.15


def slots(dim, causal, keys):
    """Slots of the loop over whole key tiles of `keys` keys. A warp has 16 rows of a tile."""
    mask = "--causal" if causal else "--no-causal"
    problem = f"--pass forward --score softmax --p 0 --head-dim {dim} {mask} --target sm_90a"
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = f"{folder}/forward.cu", f"{folder}/forward.cubin"
        subprocess.run([LSSAR, "emit", *problem.split(), "-o", source], check=True)
        subprocess.run([NVCC, "-cubin", "-arch=sm_90a", source, "-o", cubin], check=True)
        report = sass_loops.analyse(sass_loops.read_listing(cubin, None), {None: keys // 2})
    (kernel,) = [k for k in report["kernels"] if k["name"] == "lssar_forward"]
    # Loops around it have products too, before and after it.
    loop = max(
        (loop for loop in kernel["loops"] if loop["every_iteration"].get("tensor")),
        key=lambda loop: loop["depth"],
    )
    scores = loop["opcodes_every_iteration"]["MUFU.EX2"] - 2  # two more for the two rows' factors
    assert scores == keys // 2, f"{scores} scores: the default tile is another one"
    assert "local" not in loop["at_most"], "spills"
    return loop["per_score_every_iteration"]["other_slots"]


class SoftmaxSlots(unittest.TestCase):
    def test_d64(self):
        self.assertLessEqual(slots(64, False, 192), MOST * 5.25)

    def test_d128(self):
        self.assertLessEqual(slots(128, False, 176), MOST * 5.35)

    def test_d128_causal(self):
        self.assertLessEqual(slots(128, True, 128), MOST * 5.83)


if __name__ == "__main__":
    machine_code.main()
