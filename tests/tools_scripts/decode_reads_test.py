"""tools/decode_reads.py: the rule by which a decode of the CPU device reads values."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

try:
    import numpy as np
except ImportError:
    sys.exit(77)

sys.path.insert(0, sys.argv.pop(1))  # the tools folder
import decode_reads


def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = decode_reads.main(list(arguments))
    return code, out.getvalue(), err.getvalue()


class Rule(unittest.TestCase):
    def test_a_chunk_with_three_of_four_live_keys_is_read_whole(self):
        live = np.zeros(1000, bool)
        live[:383] = True
        self.assertEqual(decode_reads.read_values(live), 383)
        live[383] = True
        self.assertEqual(decode_reads.read_values(live), 512)
        live[512:514] = True
        self.assertEqual(decode_reads.read_values(live), 514)

    def test_the_cut_bounds_what_is_left_out(self):
        self.assertEqual(decode_reads.cut(1 << 20, "fp32"), 2.0**-44)
        self.assertEqual(decode_reads.cut(100, "bf16"), 2.0**-24)
        self.assertEqual(decode_reads.cut(1 << 20, "fp16"), 2.0**-32)

    def test_weights(self):
        k = np.array([[3.0, 0], [0, 1], [-1, 0], [1, 1], [0, -2]])
        w = decode_reads.weights(np.array([[2.0, 0]]), k, 1)
        self.assertEqual(w[0].argmax(), 0)
        self.assertEqual(w[0][0], 1)
        self.assertEqual(w[0][2], 0)
        equal = np.ones((7, 2))
        self.assertTrue((decode_reads.weights(np.array([[1.0, 2]]), equal, 3) == 0).all())


class Command(unittest.TestCase):
    def test_prints_a_row_for_every_case(self):
        code, out, _ = run("--lengths", "64", "200", "--heads", "1", "--data", "gauss")
        self.assertEqual(code, 0)
        self.assertEqual(len(out.splitlines()), 1 + 2 * 2 * 2)

    def test_takes_tensors(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [str(pathlib.Path(folder) / name) for name in ("q.npy", "k.npy")]
            np.save(files[0], np.ones((4, 3, 8)))
            np.save(files[1], np.eye(8)[None].repeat(2, axis=0))
            code, out, _ = run("--tensors", *files, "--p", "15")
            self.assertEqual(code, 0)
            self.assertEqual(len(out.splitlines()), 3)
            np.save(files[1], np.ones((3, 8, 8)))
            code, _, err = run("--tensors", *files)
            self.assertEqual(code, 2)
            self.assertIn("shapes (4, 3, 8) and (3, 8, 8); must be", err)

    def test_takes_a_trained_model(self):
        """Its last queries, one of each layer, head and document."""
        try:
            import torch
        except ImportError:
            self.skipTest("no torch")
        root = pathlib.Path(decode_reads.__file__).resolve().parents[1]
        sys.path[:0] = [str(root), str(root / "python")]
        from examples.train import checkpoint, config, model

        of_model = {"vocab": 64, "layers": 2, "width": 32, "heads": 2, "length": 16}
        made = config.from_json({"model": {**of_model, "attention": "sdpa"}})
        torch.manual_seed(1)
        state = {"config": made.to_json(), "model": model.make(made.model).state_dict(), "step": 1}
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
            checkpoint, "read_last", lambda name: state if name == folder else None
        ):
            q, k = decode_reads.trained_tensors(folder, 40, 3)
            self.assertEqual((q.shape, k.shape), ((2 * 2 * 3, 1, 16), (2 * 2 * 3, 40, 16)))
            self.assertFalse(np.array_equal(k[0], k[4]))
            code, out, _ = run("--trained", folder, "--lengths", "16", "40", "--p", "15")
            self.assertEqual((code, len(out.splitlines())), (0, 1 + 2 * 2))
            code, _, err = run("--trained", folder + "/nothing")
            self.assertEqual(code, 2)
            self.assertIn("no checkpoint", err)


if __name__ == "__main__":
    unittest.main()
