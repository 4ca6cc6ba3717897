"""Expressions of score functions in the float64 reference: values, derivatives at kinks and beside
them, and the functions whose maximum is taken out."""

import math
import unittest

import torch

import lssar
from definition import random_inputs
from lssar import _expression, _reference


def at(text, x, derivatives=1, **names):
    """[value, derivative, second derivative, ...] of the expression at the number x."""
    x = torch.tensor([float(x)], dtype=torch.float64, requires_grad=True)
    names = {n: torch.tensor([float(value)], dtype=torch.float64) for n, value in names.items()}
    result = [_expression.evaluate(text, x, **names)]
    for _ in range(derivatives):
        (slope,) = torch.autograd.grad(result[-1] + 0 * x, x, create_graph=True)
        result.append(slope)
    return [y.item() for y in result]


class Values(unittest.TestCase):
    def test_grammar(self):
        for text, wanted in (
            ("007 * x", 21),
            ("-x^2", -9),
            ("2^-x^2", 2**-9),
            ("2^x^2", 2**9),
            ("(x + 1) / x / 2", 4 / 6),
            ("x - 1 - 1", 1),
            ("1e-3*x + .5e1 - 2.", 3.003),
            ("+-+x", -3),
            ("pi * x + e", 3 * math.pi + math.e),
            ("where(x >= 3, 2, x)", 2),
            ("where(x != 3, 2, x)", 3),
            ("where(1 < 2, x, 0)", 3),
            ("min(x, 2) + max(2, x) + relu(-x)", 5),
            ("log1p(x) + erf(x) + abs(-x)", math.log1p(3) + math.erf(3) + 3),
            ("softplus(x) - log(1 + exp(x))", 0),
            ("sigmoid(x) * tanh(softplus(2)) * sqrt(4)", 2 / (1 + math.exp(-3)) * math.tanh(math.log1p(math.exp(2)))),
            ("b * x - N", -1),
            ("7", 7),
        ):
            with self.subTest(text=text):
                self.assertAlmostEqual(at(text, 3, 0, b=2, N=7)[0], wanted, places=12)

    def test_hundreds_of_terms(self):
        terms = [f"{i} * x^{i}" for i in range(1, 240)]
        wanted = sum(i * 0.5**i for i in range(1, 240))
        self.assertAlmostEqual(at(" + ".join(terms), 0.5, 0)[0], wanted, places=12)
        nested = "abs(" * 90 + "x" + ")" * 90
        self.assertEqual(at(nested, -2), [2, -1])

    def test_nan_goes_through(self):
        for text in ("min(x, 1)", "max(1, x)", "relu(x)", "where(x < 0, 1, 2)", "where(1 < x, 1, 2)"):
            with self.subTest(text=text):
                self.assertTrue(math.isnan(at(text, math.nan, 0)[0]))


class Derivatives(unittest.TestCase):
    def test_at_kinks(self):
        """docs/math.md: max and min have the second operand's derivative. A constant counts as second."""
        for text, x, slope in (
            ("relu(x)", 0, 0),
            ("max(x, 0)", 0, 0),
            ("max(0, x)", 0, 0),
            ("min(relu(x), 6)", 6, 0),
            ("min(6, x)", 6, 0),
            ("abs(x)", 0, 0),
            ("max(2*x, x)", 0, 1),
            ("where(x < 0, -x, 3*x)", 0, 3),
            ("where(x <= 0, -x, 3*x)", 0, -1),
        ):
            with self.subTest(text=text):
                self.assertEqual(at(text, x)[1], slope)

    def test_what_is_not_chosen_has_no_part(self):
        """Its own derivative, here infinite or NaN, is not multiplied by 0."""
        for text, x, wanted in (
            ("where(x > 0, sqrt(x), x^2)", -3, [9, -6, 2]),
            ("where(x > 0, sqrt(x), x^2)", 4, [2, 0.25, -1 / 32]),
            ("where(x > 0, log(x), where(x > -1, sqrt(x + 1), 5*x^3))", -2, [-40, 60, -60]),
            ("max(log(x), -5)", 0, [-5, 0, 0]),
            ("min(1 / x, 2) * x", 0, [0, 2, 0]),
            ("where(abs(x) < 1, exp(-1 / (1 - x^2)), 0)", 1, [0, 0, 0]),
        ):
            with self.subTest(text=text, x=x):
                for got, value in zip(at(text, x, 2), wanted):
                    self.assertAlmostEqual(got, value, places=12)

    def test_gradcheck(self):
        x = torch.tensor([-2.3, -0.7, 0.4, 1.7, 5.1], dtype=torch.float64, requires_grad=True)
        for text in (
            "relu(x)^2 + 0.01*x",
            "x * tanh(softplus(x)) + erf(x / 2)",
            "where(x > 1, sqrt(x), min(x^3, max(abs(x), exp(x))))",
            "sigmoid(2*x)^3 / (1 + x^2) + log1p(exp(x))",
            "max(2^x, relu(-x)^1.5)",
        ):
            with self.subTest(text=text):
                function = lambda x: _expression.evaluate(text, x)  # noqa: B023, E731
                self.assertTrue(torch.autograd.gradcheck(function, x, check_forward_ad=True))
                self.assertTrue(torch.autograd.gradgradcheck(function, x))


class Exponentials(unittest.TestCase):
    def test_forms(self):
        for text, wanted in (
            ("exp(x)", (1, 1)),
            ("-3 * exp(x)", (-1, 1)),
            ("exp(2*x + 1) * exp(-x)", (1, 1)),
            ("1 / exp(x)", (1, -1)),
            ("2^x", (1, math.log(2))),
            ("e^x", (1, 1)),
            ("exp(x)^3", (1, 3)),
            ("sqrt(exp(x))", (1, 0.5)),
            ("(2*exp(x))^0.5", (1, 0.5)),
            ("exp(x) + 2*exp(x)", (1, 1)),
            ("2*exp(x) - 3*exp(x)", (-1, 1)),
            ("exp((x + 1) / 4)", (1, 0.25)),
            ("exp(x) + 0", (1, 1)),
            ("exp(x) - exp(x)", None),
            ("exp(x) * exp(-x)", None),
            ("exp(x) + 1", None),
            ("exp(x^2)", None),
            ("x * exp(x)", None),
            ("exp(x) + exp(2*x)", None),
            ("exp(softplus(x))", None),
            ("exp(erf(1) * x)", (1, math.erf(1))),
            ("where(x < 0, exp(x), exp(x))", None),
            ("exp(1000 + x)", None),
            ("3", None),
            ("2*x + 1", None),
        ):
            with self.subTest(text=text):
                form = _expression.exponential(text)
                if wanted is None:
                    self.assertIsNone(form)
                else:
                    self.assertEqual(form[0], wanted[0])
                    self.assertAlmostEqual(form[1], wanted[1], places=12)

    def test_large_scores(self):
        """The maximum of an exponential is taken out however it is written. No other function's is."""
        q, k, v = (x.detach().double() for x in random_inputs(len_q=3, dim=8))
        q *= 1e5
        names = [lssar.Score(t, qk_norm=False) for t in ("exp", "2*e^x", "exp(2*x)/exp(x)")]
        first, *others = (lssar.attention(q, k, v, score=score) for score in names)
        self.assertTrue(first.isfinite().all())
        for o in others:
            torch.testing.assert_close(o, first)
        o = lssar.attention(q, k, v, score=lssar.Score("exp(x) + 1", qk_norm=False))
        self.assertTrue(o.isnan().any())


class NotFinite(unittest.TestCase):
    def test_rows_of_the_kernels(self):
        """Rows of o that see a row of q or k that is not finite are NaN, as the kernels' are."""
        for score in (None, "softmax", "sigmoid"):
            for bad in (math.nan, math.inf):
                for which, rows in ((0, [2]), (1, [2, 3, 4, 5])):
                    inputs = [x.detach() for x in random_inputs(heads=1, len_q=6, dim=8)]
                    inputs[which][0, 0, 2, 3] = bad
                    wide = [x.double() for x in inputs]
                    for x in (inputs, wide):
                        o = lssar.attention(*x, causal=True, score=score)
                        found = o[0, 0].isnan().all(-1).nonzero().flatten().tolist()
                        with self.subTest(score=score, bad=bad, which=which, dtype=o.dtype):
                            self.assertEqual(found, rows)
                            self.assertEqual(o.isnan().sum(), len(rows) * 8)


class Fields(unittest.TestCase):
    def test_texts(self):
        fields = _reference.score_fields
        softmax = fields("softmax")
        for text in (
            " softmax ",
            "softmax,qk_norm=false",
            "scale=inv_sqrt_dim, qk_norm=false, phi=exp",
            "scale=inv_sqrt_dim,qk_norm=false,phi=exp(x)",
            "activation=exp,qk_norm=false,scale=inv_sqrt_dim",
            '{"scale": "inv_sqrt_dim", "qk_norm": false, "activation": "exp"}',
            lssar.Score("exp(x)", scale="inv_sqrt_dim", qk_norm=False).text,
        ):
            with self.subTest(text=text):
                self.assertEqual(fields(text), softmax)
        self.assertEqual(fields("lssar,scale=0x10,phi=max(x, 1)"), {**fields("lssar"), "scale": 16.0, "phi": "max(x, 1)"})
        self.assertEqual(fields("sigmoid,bias=-2.5")["bias"], -2.5)


if __name__ == "__main__":
    unittest.main()
