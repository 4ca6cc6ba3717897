"""Windows: lssar.attention, varlen_attention and attention_with_kv_cache against the definition."""

import os
import unittest

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

import lssar
from definition import assert_close, random_inputs, with_gradients
from lssar import _op, _rules
from lssar._reference import attention as definition, keys_in_window

SLIDING = {"window_size": (9, -1), "window_sinks": 2, "causal": True}
WINDOWS = (
    SLIDING,
    {"window_size": (3, 4)},
    {"prefix": 6, "causal": True},
    {"chunk": 8, "window_size": (-1, 2), "score": "softmax"},
)
needs_operators = unittest.skipUnless(_op.HAS_OPERATORS, "operators need torch 2.5")


def in_float64(q, k, v, window_size=(-1, -1), window_sinks=0, prefix=0, chunk=0, **options):
    """The definition, of tensors [batch, heads, length, dim]."""
    window = _rules.window_of(window_size, window_sinks, prefix, chunk)
    options["score"], options["p"] = _rules.score_of(options.get("score"), options.get("p"))
    return definition(q, k, v, window=window, **options)


def expected(q, k, v, **options):
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    return with_gradients(in_float64, *wide, **options)


class Definition(unittest.TestCase):
    def test_keys_of_rows(self):
        """Three queries at positions 3, 4 and 5 of six keys."""
        for window, causal, wanted in (
            ((1, -1, 0, 0, 0), True, ("..xx..", "...xx.", "....xx")),
            ((1, 1, 0, 0, 0), False, ("..xxx.", "...xxx", "....xx")),
            ((0, -1, 1, 0, 0), True, ("x..x..", "x...x.", "x....x")),
            ((-1, -1, 0, 5, 0), True, ("xxxxx.", "xxxxx.", "xxxxxx")),
            ((-1, -1, 1, 0, 4), False, ("xxxx..", "x...xx", "x...xx")),
        ):
            sees = keys_in_window(3, 6, causal, window)
            self.assertEqual(["".join(".x"[x] for x in row) for row in sees.tolist()], list(wanted))

    def test_float64(self):
        q, k, v = (x.detach().double() for x in random_inputs(len_q=12))
        wanted = in_float64(q, k, v, **SLIDING)
        self.assertTrue(torch.equal(lssar.attention(q, k, v, **SLIDING), wanted))
        blhd = (x.transpose(1, 2) for x in (q, k, v))
        found = lssar.attention(*blhd, layout="blhd", **SLIDING).transpose(1, 2)
        self.assertTrue(torch.equal(found, wanted))


class Windows(unittest.TestCase):
    def test_forward_and_gradients(self):
        inputs = random_inputs(batch=2, heads=4, kv_heads=2, len_q=33, len_k=40)
        for window in WINDOWS:
            with self.subTest(**window):
                results = with_gradients(lssar.attention, *inputs, **window)
                wanted = expected(*inputs, **window)
                assert_close(self, results, wanted, torch.float32)
                with torch.no_grad():
                    alone = lssar.attention(*inputs, **window)
                assert_close(self, [alone], wanted, torch.float32)

    def test_layouts(self):
        q, k, v = random_inputs(heads=2, len_q=20)
        with torch.no_grad():
            o = lssar.attention(q, k, v, **SLIDING)
            self.assertTrue(o.is_contiguous())
            q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
            other = lssar.attention(q, k, v, layout="blhd", **SLIDING)
            self.assertTrue(other.is_contiguous())
            self.assertTrue(torch.equal(other.transpose(1, 2), o))
            views = lssar.attention(*(x.transpose(1, 2) for x in (q, k, v)), **SLIDING)
            self.assertEqual(views.stride(), o.transpose(1, 2).contiguous().transpose(1, 2).stride())

    def test_no_limit_is_no_window(self):
        q, k, v = random_inputs(len_q=20)
        with torch.no_grad():
            wanted = lssar.attention(q, k, v, causal=True)
            found = lssar.attention(q, k, v, causal=True, window_size=[-1, -1])
        self.assertTrue(torch.equal(found, wanted))

    def test_sequences(self):
        q, k, v = (x[0].transpose(0, 1) for x in random_inputs(heads=4, kv_heads=2, len_q=45))
        cu = torch.tensor([0, 33, 33, 34, 45], dtype=torch.int32)
        results = with_gradients(
            lambda *x, **options: lssar.varlen_attention(*x, cu, cu, 33, 33, **options), q, k, v, **SLIDING
        )

        def one_by_one(q, k, v, **options):
            parts = zip(*(x.split(cu.diff().tolist()) for x in (q, k, v)))
            heads_first = ([x.transpose(0, 1)[None] for x in part] for part in parts)
            return torch.cat([in_float64(*x, **options)[0].transpose(0, 1) for x in heads_first])

        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        assert_close(self, results, with_gradients(one_by_one, *wide, **SLIDING), torch.float32)

    def test_cache(self):
        """Keys before the window may be anything but the first two."""
        q, k, v = (x.detach() for x in random_inputs(heads=4, kv_heads=2, len_q=2, len_k=700))
        wanted = in_float64(q.double(), k.double(), v.double(), **SLIDING)
        k[:, :, 2:600] = v[:, :, 2:600] = float("nan")
        rows = (x.transpose(1, 2) for x in (q, k, v))
        o = lssar.attention_with_kv_cache(*rows, **SLIDING).transpose(1, 2)
        assert_close(self, [o], [wanted], torch.float32)

    def test_gradients_are_laid_out_as_their_tensors(self):
        for layout in ("bhld", "blhd"):
            inputs = random_inputs(batch=2, heads=4, kv_heads=2, len_q=33, len_k=40)
            if layout == "blhd":
                inputs = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in inputs]
            _, *grads = with_gradients(lssar.attention, *inputs, layout=layout, **SLIDING)
            for x, grad in zip(inputs, grads):
                self.assertEqual(grad.stride(), x.stride())

    @needs_operators
    def test_compiled(self):
        inputs = random_inputs(batch=2, heads=4, kv_heads=2, len_q=33, len_k=40)

        def function(q, k, v):
            return lssar.attention(q, k, v, **SLIDING)

        wanted = with_gradients(function, *inputs)
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        for x, y in zip(with_gradients(compiled, *inputs), wanted):
            self.assertTrue(torch.equal(x, y))

    def test_errors_name_the_argument(self):
        inputs = random_inputs(len_q=3)
        for what, options in (
            ("^window_size: 3; must be a pair of ints", {"window_size": 3}),
            ("^window_size\\[0\\]: -2; must be from -1 to", {"window_size": (-2, 0)}),
            ("^window_size\\[1\\]: 1.5; must be an int", {"window_size": (1, 1.5)}),
            ("^window_sinks: -1; must be from 0", {"window_sinks": -1}),
            ("^window_sinks: None; must be an int", {"window_sinks": None}),
            ("^prefix: True; must be an int", {"prefix": True}),
            ("^chunk: 2147483648; must be from 0 to 2147483647", {"chunk": 2**31}),
            ("^p: 2000; must be", {"p": 2000, "chunk": 2}),
            ("^layout: 'x'", {"layout": "x", "chunk": 2}),
        ):
            with self.subTest(what=what):
                with self.assertRaisesRegex((TypeError, ValueError), what):
                    lssar.attention(*inputs, **options)
        with self.assertRaisesRegex(TypeError, "^k: list; must be a torch.Tensor"):
            lssar.attention(inputs[0], [1], inputs[2], chunk=2)


if __name__ == "__main__":
    unittest.main()
