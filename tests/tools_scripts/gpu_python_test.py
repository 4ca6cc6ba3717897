"""tools/gpu_python.py on the virtual device: its checks pass there, and find what is wrong."""

import os
import pathlib
import sys
import unittest
from unittest import mock

TOOLS, LIBRARY = sys.argv[1:3]
del sys.argv[1:3]
SKIPPED = 77
try:
    import torch
except ImportError as error:
    print(f"SKIPPED: no torch: {error}")
    sys.exit(SKIPPED)
sys.path[:0] = [TOOLS, str(pathlib.Path(TOOLS).parent / "python")]
os.environ.update(LSSAR_LIBRARY=LIBRARY, LSSAR_DEVICE="virtual")
import gpu_python
import lssar


def run(name):
    return gpu_python.main([name, "--device", "cpu"])


class OnTheVirtualDevice(unittest.TestCase):
    def test_checks_pass(self):
        for name in ("layouts", "gradients", "kv_cache", "varlen", "threads"):
            with self.subTest(name):
                self.assertEqual(run(name), gpu_python.PASSED)

    def test_a_wrong_result_fails(self):
        right = lssar.attention

        def wrong(q, k, v, **options):
            o = right(q, k, v, **options)
            return o if q.dtype == torch.float64 else o * 1.01

        with mock.patch.object(lssar, "attention", wrong):
            self.assertEqual(run("layouts"), gpu_python.FAILED)

    def test_what_needs_a_gpu_is_not_here(self):
        for name in ("streams", "graphs"):
            self.assertEqual(run(name), gpu_python.NOT_HERE)
        if not torch.cuda.is_available():
            self.assertEqual(gpu_python.main(["gradients"]), gpu_python.NOT_HERE)

    def test_a_package_that_cannot_be_imported_is_an_error(self):
        with mock.patch.dict(sys.modules, {"lssar": None}):
            with self.assertRaises(ImportError):
                run("layouts")

    def test_names(self):
        self.assertIn("jax", gpu_python.CHECKS)
        self.assertEqual(gpu_python.main(["nothing"]), 2)


if __name__ == "__main__":
    unittest.main()
