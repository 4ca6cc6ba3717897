"""lssar.attention_stats against the weights that lssar.attention sums values with."""

import itertools
import math
import unittest
from unittest import mock

import torch

import lssar
from definition import random_inputs
from lssar import _reference, _stats

SCORES = (
    {"p": 15},
    {"p": 0},
    {"p": 3, "offset": 0.5},
    {"score": "softmax"},
    {"score": "sigmoid"},
    {"score": "phi=relu(x)^2 - 0.1*x,normalizer=sum_abs"},
    {"score": "softmax,psi=(x-b)/N"},
)


def dense_weights(q, k, causal, **options):
    """The weights: attention with each key's own unit vector as its value, in float64."""
    length, columns = k.shape[2], []
    if "alibi_slopes" in options:
        options["alibi_slopes"] = options["alibi_slopes"].double()
    for start in range(0, max(1, length), 8):
        v = torch.zeros(*k.shape[:2], length, 8, dtype=torch.float64)
        for i in range(start, min(start + 8, length)):
            v[:, :, i, i - start] = 1
        columns.append(lssar.attention(q.double(), k.double(), v, causal=causal, **options))
    return torch.cat(columns, dim=-1)[..., :length]


def dense_stats(weight, seen):
    """By the formulas, row by row."""
    result = torch.zeros(3, *weight.shape[:3], dtype=torch.float64)
    for place in itertools.product(*map(range, weight.shape[:3])):
        row = weight[place].abs().tolist()
        total, largest = sum(row), max(row, default=0)
        if total == 0:
            continue
        shares = [x / total for x in row]
        result[(0, *place)] = -sum(x * math.log(x) for x in shares if x > 0)
        result[(1, *place)] = shares[0]
        result[(2, *place)] = sum(x >= 2**-24 * largest and x > 0 for x in row) / seen[place[2]]
    return result


class Stats(unittest.TestCase):
    def check(self, q, k, causal, **options):
        weight = dense_weights(q, k, causal, **options)
        seen = _reference.visible_keys(q.shape[2], k.shape[2], causal).tolist()
        found = lssar.attention_stats(q, k, causal, weights=True, **options)
        torch.testing.assert_close(found.weights.double(), weight, atol=1e-6, rtol=1e-6)
        for name, one, wanted in zip(found._fields, found, dense_stats(weight, seen)):
            self.assertEqual(one.dtype, torch.float32)
            torch.testing.assert_close(one.double(), wanted, atol=1e-6, rtol=1e-6, msg=f"{name} {options}")
        return found

    def inputs(self, **options):
        q, k, _ = (x.detach() for x in random_inputs(**options))
        return q, k

    def test_every_score(self):
        q, k = self.inputs(batch=2, heads=4, kv_heads=2, len_q=19, len_k=23)
        for options in SCORES:
            for causal in (False, True):
                with self.subTest(causal=causal, **options):
                    self.check(q, k, causal, **options)

    def test_sink(self):
        q, k = self.inputs()
        sink = torch.tensor([0.5, -2.0])
        found = lssar.attention_stats(q, k, True, score="softmax,sink=per_head", sink=sink, weights=True)
        plain = lssar.attention_stats(q, k, True, score="softmax")
        torch.testing.assert_close(found.entropy, plain.entropy)  # shares of the keys alone
        self.assertTrue((found.weights.sum(dim=-1) < 1).all())

    def test_alibi(self):
        """Distances of some rows are those of all."""
        q, k = self.inputs(batch=2, heads=4, kv_heads=2, len_q=9, len_k=13)
        slopes = torch.tensor([0.5, 0.125, -0.25, 0.01])
        for score, p in (("softmax,alibi=per_head", 0), ("lssar,alibi=per_head", 3)):
            for causal in (False, True):
                with self.subTest(causal=causal, score=score):
                    options = {"score": score, "p": p, "alibi_slopes": slopes}
                    found = self.check(q, k, causal, **options)
                    with mock.patch.object(_stats, "_NUMBERS_AT_ONCE", 2 * 2 * 4 * 13):
                        some = lssar.attention_stats(q, k, causal, rows=[8, 0, 5], **options)
                    torch.testing.assert_close(some.entropy, found.entropy[:, :, [8, 0, 5]])

    def test_lengths(self):
        """No keys, one, more queries than keys."""
        for len_q, len_k in ((1, 1), (3, 0), (0, 3), (9, 4), (1, 17)):
            with self.subTest(len_q=len_q, len_k=len_k):
                self.check(*self.inputs(len_q=len_q, len_k=len_k), causal=True)

    def test_parts_are_the_whole(self):
        q, k = self.inputs(len_q=31)
        whole = lssar.attention_stats(q, k, True, weights=True)
        with mock.patch.object(_stats, "_NUMBERS_AT_ONCE", 5 * 2 * 31):
            for one, two in zip(whole, lssar.attention_stats(q, k, True, weights=True)):
                self.assertTrue(torch.equal(one, two))

    def test_rows(self):
        q, k = self.inputs(len_q=12, len_k=15)
        whole = lssar.attention_stats(q, k, True, weights=True)
        some = lssar.attention_stats(q, k, True, rows=[11, 0, 5], weights=True)
        for one, two in zip(whole, some):
            self.assertTrue(torch.equal(one[:, :, [11, 0, 5]], two))
        self.assertIsNone(lssar.attention_stats(q, k, rows=[1]).weights)

    def test_even_and_single(self):
        """Equal keys: entropy log N, every key live. LSSAR gives 0 then."""
        q, k = torch.ones(1, 1, 6, 8), torch.ones(1, 1, 6, 8)
        even = lssar.attention_stats(q, k, True, p=0)
        wanted = torch.tensor([math.log(n) for n in range(1, 7)])
        torch.testing.assert_close(even.entropy[0, 0], wanted)
        torch.testing.assert_close(even.first[0, 0], 1 / torch.arange(1.0, 7))
        self.assertTrue((even.live == 1).all())
        dead = lssar.attention_stats(q, k, True, p=15)
        self.assertEqual(dead.live[0, 0, 3:].tolist(), [0, 0, 0])

    def test_nan_is_seen(self):
        q, k = self.inputs(len_q=5)
        k[0, 0, 2, 0] = math.nan
        entropy = lssar.attention_stats(q, k, True).entropy
        self.assertEqual(entropy.isnan()[0].tolist(), [[False, False, True, True, True], [False] * 5])

    def test_layout_and_dtypes(self):
        q, k = self.inputs(len_q=9)
        wanted = lssar.attention_stats(q, k, True)
        turned = lssar.attention_stats(q.transpose(1, 2), k.transpose(1, 2), True, layout="blhd")
        self.assertTrue(torch.equal(wanted.entropy, turned.entropy))
        self.check(q.bfloat16(), k.bfloat16(), True)

    def test_errors(self):
        q, k = self.inputs(len_q=9)
        cases = (
            ({"rows": [9]}, "rows: 9; must be whole numbers from 0 to 8"),
            ({"rows": [True]}, "rows: True; must be whole numbers"),
            ({"p": -1}, "p: -1"),
            ({"score": "phi=relu("}, "phi"),
            ({"score": "softmax,sink=per_head"}, "sink"),
            ({"score": "softmax,alibi=per_head"}, "alibi_slopes: None; must be torch.float32"),
            ({"layout": "lbhd"}, "layout: 'lbhd'"),
        )
        for options, message in cases:
            errors = (ValueError, TypeError, lssar.LssarError)
            with self.subTest(**options), self.assertRaises(errors) as caught:
                lssar.attention_stats(q, k, **options)
            self.assertIn(message, str(caught.exception))
        with self.assertRaisesRegex(TypeError, "k: list; must be a torch.Tensor"):
            lssar.attention_stats(q, [1])
        with self.assertRaisesRegex(ValueError, "q: on device 'meta', which has no values"):
            lssar.attention_stats(q.to("meta"), k.to("meta"))


if __name__ == "__main__":
    unittest.main()
