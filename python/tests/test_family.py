"""The score functions of the golden cases (tests/golden/family) in float64: the cases' results and
gradients, and derivatives against finite differences."""

import json
import pathlib
import unittest

import numpy as np
import torch

import lssar
from definition import random_inputs

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "family"
# Floats are stored as float32.
TOLERANCE = 2.0**-23


def cases():
    """(name, spec, folder) of each."""
    for folder in sorted(FOLDER.iterdir()):
        yield folder.name, json.loads((folder / "spec.json").read_text()), folder


def members():
    """The spec of each score function, by its name."""
    found = {}
    for _, spec, _ in cases():
        found.setdefault(spec["name"], spec)
    return found


def options_of(spec):
    return {"p": spec["p"], "offset": spec["offset"], "score": json.dumps(spec["score"])}


class Float64(unittest.TestCase):
    def test_golden_cases(self):
        names = [name for name, _, _ in cases()]
        self.assertEqual(len(names), 105)
        for name, spec, folder in cases():
            with self.subTest(case=name):
                wanted = {
                    n: torch.from_numpy(np.load(folder / f"{n}.npy")).double()
                    for n in ("q", "k", "v", "do", "o", "dq", "dk", "dv")
                }
                inputs = [wanted[n].clone().requires_grad_() for n in "qkv"]
                o = lssar.attention(*inputs, causal=spec["causal"], **options_of(spec))
                grads = torch.autograd.grad(o, inputs, wanted["do"])
                for n, x in zip(("o", "dq", "dk", "dv"), (o.detach(), *grads)):
                    error = (x - wanted[n]).norm().item()
                    self.assertLessEqual(error, TOLERANCE * wanted[n].norm().item(), n)

    def test_gradcheck(self):
        found = members()
        self.assertEqual(len(found), 34)
        for i, (name, spec) in enumerate(found.items()):
            inputs = [x.double() for x in random_inputs(heads=1, len_q=4, len_k=5, dim=8, seed=3)]
            inputs = [x.detach().requires_grad_() for x in inputs]
            options = {"causal": i % 2 == 0, **options_of(spec)}
            # A slope of p = 1000 needs a smaller step.
            step = 1e-6 / max(1, spec["p"] / 15)
            with self.subTest(name=name):
                function = lambda *x: lssar.attention(*x, **options)  # noqa: B023, E731
                self.assertTrue(
                    torch.autograd.gradcheck(function, inputs, eps=step, check_forward_ad=True, fast_mode=True)
                )
                self.assertTrue(torch.autograd.gradgradcheck(function, inputs, eps=step, fast_mode=True))


if __name__ == "__main__":
    unittest.main()
