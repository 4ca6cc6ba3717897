"""invariant: one sequence's rows have the same bits in a prefill, in chunks, one by one with a cache,
in batches and packed with others."""

import os
import unittest

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

import lssar
from lssar import _op

HEADS, KV_HEADS, DIM, LENGTH = 4, 2, 16, 530


def sequence(seed, length=LENGTH, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(seed)
    heads = (HEADS, KV_HEADS, KV_HEADS)
    return [torch.randn(length, n, DIM, generator=generator).to(dtype) for n in heads]


def prefill(q, k, v, **options):
    """[length, heads, dim]."""
    q, k, v = (x[None] for x in (q, k, v))
    options = {"causal": True, "layout": "blhd", "invariant": True, **options}
    return lssar.attention(q, k, v, **options)[0]


class Invariant(unittest.TestCase):
    def assert_same(self, a, b):
        bits = torch.int32 if a.dtype == torch.float32 else torch.int16
        self.assertTrue(torch.equal(a.view(bits), b.view(bits)))

    def test_chunked_prefill_and_decoding_with_a_cache(self):
        q, k, v = sequence(1)
        wanted = prefill(q, k, v)
        k_cache, v_cache = (torch.full((2, 700, KV_HEADS, DIM), float("nan")).bfloat16() for _ in "kv")
        others = sequence(2)
        begin = 0
        for count in (300, 7, 200, *(1,) * (LENGTH - 507)):
            rows = slice(begin, begin + count)
            q2, k2, v2 = (torch.stack([x[rows], y[rows]]) for x, y in zip((q, k, v), others))
            used = torch.tensor([begin, begin // 2], dtype=torch.int32)  # the other entry is shorter
            o = lssar.attention_with_kv_cache(
                q2, k_cache, v_cache, k2, v2, used, causal=True, invariant=True
            )
            self.assert_same(o[0], wanted[rows])
            begin += count

    def test_packed_with_others_and_threads(self):
        q, k, v = sequence(1)
        wanted = prefill(q, k, v)
        lengths = (5, 0, LENGTH, 33)
        parts = [sequence(seed, n) for seed, n in enumerate(lengths, 10)]
        parts[2] = (q, k, v)
        cu = torch.tensor([0, 5, 5, 535, 568], dtype=torch.int32)
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(1 if before > 1 else 2)
            packed = (torch.cat(x) for x in zip(*parts))
            o = lssar.varlen_attention(*packed, cu, cu, causal=True, invariant=True)
        finally:
            torch.set_num_threads(before)
        self.assert_same(o[5:535], wanted)

    def test_without_it_decoding_differs(self):
        q, k, v = sequence(1, dtype=torch.float32)
        alone = prefill(q[-1:], k, v, invariant=False)
        self.assertFalse(torch.equal(prefill(q, k, v, invariant=False)[-1:], alone))
        self.assert_same(prefill(q, k, v)[-1:], prefill(q[-1:], k, v))

    def test_gradients_and_operators(self):
        q, k, v = (x.float().requires_grad_() for x in sequence(3, 40))
        grads = torch.autograd.grad(prefill(q, k, v).square().sum(), (q, k, v))
        wanted = torch.autograd.grad(prefill(q, k, v, invariant=False).square().sum(), (q, k, v))
        for grad, other in zip(grads, wanted):
            torch.testing.assert_close(grad, other, rtol=1e-3, atol=1e-4)
        if _op.HAS_OPERATORS:
            compiled = torch.compile(prefill, backend="aot_eager", fullgraph=True)
            with torch.no_grad():
                self.assertTrue(torch.equal(compiled(q, k, v), prefill(q, k, v)))

    def test_errors(self):
        q, k, v = sequence(1, 3)
        with self.assertRaisesRegex(TypeError, "^invariant: 1; must be True or False"):
            prefill(q, k, v, invariant=1)
        with self.assertRaisesRegex(TypeError, "^invariant: 'no'; must be True or False"):
            prefill(q, k, v, invariant="no", window_size=(3, 0))
        with self.assertRaisesRegex(TypeError, "^q: dtype torch.float64; .* with invariant"):
            prefill(*(x.double() for x in (q, k, v)))


if __name__ == "__main__":
    unittest.main()
