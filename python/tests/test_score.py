"""Score functions beside LSSAR's, through PyTorch."""

import copy
import json
import math
import pickle
import unittest
import weakref

import lssar
import torch
from lssar import _op, _plans


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator)


def softmax_attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v


def relu_attention(q, k, v):
    """phi = relu(x)^2 + 0.01 x over the sum of magnitudes, with LSSAR's scale."""
    q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    x = math.log(q.shape[-1]) * math.log(k.shape[-2]) * (q @ k.transpose(-1, -2))
    a = torch.relu(x) ** 2 + 0.01 * x
    return a / a.abs().sum(-1, keepdim=True) @ v


RELU = lssar.Score(phi="relu(x)^2 + 0.01*x", normalizer="sum_abs")


class Score(unittest.TestCase):
    def setUp(self):
        self.tensors = [draw(1, 2, 40, 32, seed=i).requires_grad_() for i in range(3)]

    def assert_same(self, a, b, tolerance=1e-5):
        self.assertLess(((a - b).norm() / b.norm()).item(), tolerance)

    def test_results_and_gradients(self):
        for score, wanted in (("softmax", softmax_attention), (RELU, relu_attention)):
            results = []
            for function in (lambda *x: lssar.attention(*x, score=score), wanted):
                o = function(*self.tensors)
                o.backward(draw(*o.shape, seed=9))
                results.append([o.detach(), *(x.grad.clone() for x in self.tensors)])
                for x in self.tensors:
                    x.grad = None
            for got, expected in zip(*results):
                self.assert_same(got, expected, 2e-5)
            with torch.no_grad():
                self.assert_same(lssar.attention(*self.tensors, score=score), results[1][0])

    def test_ways_to_say_it(self):
        q, k, v = (x.detach() for x in self.tensors)
        wanted = lssar.attention(q, k, v, score=RELU)
        text = "phi=relu(x)^2 + 0.01*x,normalizer=sum_abs"
        self.assertTrue(torch.equal(lssar.attention(q, k, v, score=text), wanted))
        turned = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
        o = lssar.attention(*turned, layout="blhd", score=text)
        self.assertTrue(torch.equal(o.transpose(1, 2), wanted))
        plain = lssar.attention(q, k, v)
        self.assertTrue(torch.equal(lssar.attention(q, k, v, score="lssar"), plain))
        self.assertTrue(torch.equal(lssar.attention(q, k, v, p=15), plain))
        self.assertFalse(torch.equal(lssar.attention(q, k, v, p=3, score=text), wanted))

    def test_values_of_score(self):
        self.assertEqual(RELU, lssar.Score("relu(x)^2 + 0.01*x", normalizer="sum_abs"))
        self.assertEqual(hash(RELU), hash(lssar.Score("relu(x)^2 + 0.01*x", normalizer="sum_abs")))
        self.assertEqual(repr(lssar.Score("x", qk_norm=False)), "lssar.Score(qk_norm=False, phi='x')")
        for change in (lambda: setattr(RELU, "text", "{}"), lambda: delattr(RELU, "text")):
            with self.assertRaisesRegex(AttributeError, "cannot be changed"):
                change()

    def test_copies(self):
        copies = [copy.copy(RELU), copy.deepcopy(RELU), weakref.ref(RELU)()]
        copies += [pickle.loads(pickle.dumps(RELU, i)) for i in range(pickle.HIGHEST_PROTOCOL + 1)]
        module = lssar.nn.LSSARAttention(32, 2, score=RELU)
        module.score = RELU
        copies += [copy.deepcopy(module).score, pickle.loads(pickle.dumps(module)).score]
        for other in copies:
            self.assertEqual(other, RELU)
        self.assertEqual({RELU: 1}[copies[1]], 1)

    def test_text(self):
        for phi in ("x", 'a"b', "a\\b\\", "a\tb\n"):
            self.assertEqual(json.loads(lssar.Score(phi, scale=1, qk_norm=False).text), {"scale": 1.0, "qk_norm": False, "phi": phi})

    def test_values_of_fields(self):
        for error, pattern, fields in (
            (TypeError, "^phi: 3; must be a str", {"phi": 3}),
            (TypeError, "^scale: True; must be a number or a str", {"scale": True}),
            (TypeError, r"^bias: \[1\]; must be a number or a str", {"bias": [1]}),
            (TypeError, "^normalizer_gain: '2'; must be a number", {"normalizer_gain": "2"}),
            (TypeError, "^qk_norm: 1; must be True or False", {"qk_norm": 1}),
            (ValueError, "^scale: nan; must be a finite number", {"scale": math.nan}),
            (ValueError, "^bias: 10{400}; must be a finite number", {"bias": 10**400}),
            (ValueError, "^psi: 'x.x00'; must not have a NUL", {"psi": "x\0"}),
            (ValueError, "^phi: has the character '.xd7'; must be of ASCII", {"phi": "x\xd72"}),
        ):
            with self.subTest(**fields), self.assertRaisesRegex(error, pattern):
                lssar.Score(**fields)

    def test_modules_name_what_is_wrong_when_they_are_made(self):
        for error, pattern, options in (
            (lssar.LssarError, 'score = "softmx": allowed', {"score": "softmx"}),
            (ValueError, "^p: 2000; must be", {"p": 2000}),
            (ValueError, "^offset: -1; must be", {"offset": -1}),
            (TypeError, "^causal: 1; must be", {"causal": 1}),
        ):
            with self.subTest(**options), self.assertRaisesRegex(error, pattern):
                lssar.nn.LSSARAttention(32, 2, **options)
        with self.assertRaisesRegex(lssar.LssarError, 'score = "softmx": allowed'):
            lssar.register_transformers(score="softmx")

    def test_mistakes(self):
        q, k, v = self.tensors
        for error, pattern, score in (
            (lssar.LssarError, "softmx.*allowed are lssar, softmax", "softmx"),
            (lssar.LssarError, "score.phi: character 6", lssar.Score("relu(")),
            (lssar.LssarError, "score.normalizer = \"max\"", lssar.Score("x", normalizer="max")),
            (lssar.LssarError, 'score.phi: character 3: "N" is not known', "phi=x*N"),
            (TypeError, "score: 3; must be a str or an lssar.Score", 3),
            (ValueError, "^score: 'softmax.x00x'; must not have a NUL", "softmax\0x"),
            (ValueError, "^score: has the character '.u03c3'; must be of ASCII", "phi=\u03c3(x)"),
            (lssar.LssarError, '^invalid argument: score: .*"phi": .* twice', '{"phi": "x", "phi": "exp"}'),
        ):
            with self.assertRaisesRegex(error, pattern):
                lssar.attention(q, k, v, score=score)

    def test_many_in_float64_keep_no_plans(self):
        x = [x.detach().double() for x in self.tensors]
        before = len(_plans.context("record")._plans)
        for i in range(20):
            lssar.attention(*x, score=lssar.Score("exp", scale=1 + i))
        self.assertEqual(len(_plans.context("record")._plans), before)

    def test_two_steps_of_training(self):
        torch.manual_seed(1)
        module = lssar.nn.LSSARAttention(32, 2, causal=True, score=RELU)
        self.assertIn("score=", repr(module))
        self.assertEqual(module.p, 0)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        x, wanted = draw(2, 30, 32, seed=2), draw(2, 30, 32, seed=3)
        losses = []
        for _ in range(3):
            loss = (module(x) - wanted).square().mean()
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.assertTrue(losses[0] > losses[1] > losses[2], losses)

    @unittest.skipUnless(_op.HAS_OPERATORS, "operators need torch 2.5")
    def test_operators(self):
        q, k, v = self.tensors
        scalars = (False, 0, 1.0, 0, "softmax")
        torch.library.opcheck(torch.ops.lssar.forward_train.default, (q, k, v, *scalars))
        compiled = torch.compile(
            lambda q, k, v: lssar.attention(q, k, v, score=RELU), fullgraph=True, backend="aot_eager"
        )
        o = compiled(q, k, v)
        self.assertTrue(torch.equal(o, lssar.attention(q, k, v, score=RELU)))
        grads = torch.autograd.grad(o.sum(), (q, k, v))
        wanted = torch.autograd.grad(lssar.attention(q, k, v, score=RELU).sum(), (q, k, v))
        for got, expected in zip(grads, wanted):
            self.assertTrue(torch.equal(got, expected))

    @unittest.skipUnless(_op.HAS_OPERATORS, "operators need torch 2.5")
    def test_float64_is_compiled_whole(self):
        text = "phi=where(x > 0, sqrt(x), max(x, -1)) + relu(x)^2,normalizer=sum_abs"
        x = [x.detach().double().requires_grad_() for x in self.tensors]
        for score in (None, text, lssar.Score("exp", psi="x - b", psi_normalizer="sum_abs")):
            with self.subTest(score=score):
                attention = lambda *x: lssar.attention(*x, score=score)  # noqa: B023, E731
                compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
                o, wanted = compiled(*x), attention(*x)
                torch.testing.assert_close(o, wanted)
                for pair in zip(*(torch.autograd.grad(y.sum(), x) for y in (o, wanted))):
                    torch.testing.assert_close(*pair)

    @unittest.skipUnless(_op.HAS_OPERATORS, "operators need torch 2.5")
    def test_compiled_with_scores_that_change(self):
        def made_inside(q, k, v, scale):
            score = lssar.Score("exp", scale=scale, qk_norm=False)
            return lssar.attention(q, k, v, score=score)

        x = [x.detach() for x in self.tensors]
        compiled = torch.compile(made_inside, fullgraph=True, backend="aot_eager")
        for scale in ("inv_sqrt_dim", "log_length_inv_sqrt_dim", "inv_sqrt_dim"):
            self.assertTrue(torch.equal(compiled(*x, scale), made_inside(*x, scale)))
        given = torch.compile(
            lambda *x, score: lssar.attention(*x, score=score), fullgraph=True, backend="aot_eager"
        )
        for score in ("softmax", RELU, None, lssar.Score("exp", scale="inv_sqrt_dim", qk_norm=False)):
            self.assertTrue(torch.equal(given(*x, score=score), lssar.attention(*x, score=score)))


if __name__ == "__main__":
    unittest.main()
