"""Whether each function of templates/ptx/assembler.cuh still helps with the installed ptxas.

A kernel for sm_90a is compiled as it is emitted, and with one use taken out of its source. The
loops with products must get longer, or the assembler must complain (advisory C75xx) or spill.
"""

import functools
import pathlib
import re
import subprocess
import tempfile
import unittest

import machine_code
import sass_loops
from machine_code import LSSAR, NVCC

TRAIN = "--pass forward-train --head-dim 128 --causal"
BACKWARD = "--pass backward --dtype fp16 --head-dim 256"
DQ = "--pass backward --dtype fp16 --head-dim 128 --causal"
SCALER = "--pass backward --dtype fp16 --head-dim 64"
ORDERED = """--pass backward --head-dim 64 --causal --schedule {"dq_mode":"ordered"}"""


def compiled(source):
    """(instructions of an iteration of all loops with products, advisories, bytes of spills)"""
    with tempfile.TemporaryDirectory() as folder:
        path, cubin = pathlib.Path(folder, "kernel.cu"), f"{folder}/kernel.cubin"
        path.write_text(source)
        command = [NVCC, "-std=c++17", "-cubin", "-arch=sm_90a", "-Xptxas=-v", str(path), "-o", cubin]
        log = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True).stderr
        report = sass_loops.analyse(sass_loops.read_listing(cubin, None), {})
    loops = [loop["at_most"] for kernel in report["kernels"] for loop in kernel["loops"]]
    slots = sum(sum(loop.values()) for loop in loops if loop.get("tensor"))
    spills = sum(int(count) for count in re.findall(r"(\d+) bytes spill", log))
    return slots, re.findall(r"C75\d\d", log), spills


@functools.lru_cache(None)
def emitted(problem):
    command = [LSSAR, "emit", "--untuned", "-q", "--target", "sm_90a", *problem.split()]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@functools.lru_cache(None)
def as_it_is(problem):
    return compiled(emitted(problem))


class Assembler(unittest.TestCase):
    def without(self, problem, use, pattern, replacement=""):
        source, count = re.subn(pattern, replacement, emitted(problem), flags=re.DOTALL)
        self.assertGreater(count, 0, f"the kernel of '{problem}' has no {use}: name another kernel")
        return compiled(source)

    def check_saves(self, problem, use, pattern, replacement=""):
        slots, _, _ = as_it_is(problem)
        slots_without, _, _ = self.without(problem, use, pattern, replacement)
        self.assertGreater(
            slots_without,
            slots,
            f"with this ptxas {use} no longer helps ('{problem}'): remove it",
        )

    def check_pin_saves(self, problem, values):
        self.check_saves(problem, f"pin_register({values})", rf"pin_register\(({values})\);")

    def check_uniform_saves(self, problem):
        body = r"(int uniform\(int x\) \{).*?\n\}"
        self.check_saves(problem, "uniform()", body, r"\1 return x; }")

    def test_uniform_in_the_forward(self):
        self.check_uniform_saves(TRAIN)

    def test_uniform_in_the_backward(self):
        self.check_uniform_saves(BACKWARD)

    def test_rows_that_are_computed_again(self):
        self.check_pin_saves(TRAIN, r"work\.first_row")

    def test_work_tile_after_its_loop(self):  # DkdvWork::renew
        self.check_pin_saves(BACKWARD, "head|batch|first_key")

    def test_addresses_of_row_constants(self):
        self.check_pin_saves(BACKWARD, "lane_part")

    def test_addresses_of_dq(self):
        self.check_pin_saves(ORDERED, "stride")

    def test_addresses_of_the_scaler(self):
        problem = SCALER
        self.assertEqual(as_it_is(problem)[2], 0)
        _, _, spills = self.without(problem, "pin_register(shared.base)", r"pin_register\(shared\.base\);")
        self.assertGreater(spills, 0, "with this ptxas pin_register(shared.base) no longer helps: remove it")

    def test_order_of_accumulators_and_fences(self):
        self.assertEqual(as_it_is(DQ)[1], [])
        _, advisories, _ = self.without(
            DQ, "pin() of accumulators", r"pin_register\(x\.at\[n\]\[e\]\);", ";"
        )
        self.assertTrue(
            advisories,
            "with this ptxas pin() before wgmma.fence no longer helps: remove it, unless a "
            "kernel of clang needs it (docs/hopper_assembler.md). PTX asks for this order",
        )


if __name__ == "__main__":
    machine_code.main()
