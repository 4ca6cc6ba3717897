"""The kernels' errors by length: the tool on few keys, and what docs/evidence says of many."""

import contextlib
import io
import json
import unittest

from small import ROOT, InFolder

from examples.train import precision

# docs/accuracy.md, for p 15.
ALLOWED = {"fp32": {"o": 1e-5, "dq": 2e-5, "dk": 2e-5, "dv": 2e-5},
           "bf16": {"o": 3e-3, "dq": 5e-3, "dk": 5e-3, "dv": 5e-3}}  # fmt: skip


class Precision(InFolder):
    def check(self, found):
        for dtype, tensors in ALLOWED.items():
            for tensor, allowed in tensors.items():
                for keys, of_seeds in zip(found["keys"], found["errors"][dtype][tensor], strict=True):
                    self.assertEqual(len(of_seeds), 3)
                    for error in of_seeds:
                        self.assertTrue(0 < error <= allowed, f"{tensor}, {dtype}, {keys} keys: {error}")

    def test_few_keys(self):
        path = self.folder / "cpu.json"
        with contextlib.redirect_stdout(io.StringIO()) as said:
            arguments = ("--keys", "61", "2048", "--output", str(path))
            self.assertEqual(precision.main(list(arguments)), 0)
        found = json.loads(path.read_text())
        self.assertEqual(found["keys"], [61, 2048])
        self.check(found)
        self.assertEqual(said.getvalue(), precision.table(found))
        self.assertIn("| keys | o, fp32 | dq, fp32 |", said.getvalue())

    def test_kept_errors(self):
        found = json.loads((ROOT / "docs" / "evidence" / "precision" / "cpu.json").read_text())
        self.assertEqual(found["keys"], list(precision.KEYS))
        self.check(found)


if __name__ == "__main__":
    unittest.main()
