"""Few queries against many keys on the kernels of a GPU, whose blocks divide the keys: against the
definition, in float64."""

import os
import unittest

os.environ["LSSAR_DEVICE"] = "virtual"  # before the first call

import torch

import lssar
from definition import FLOOR, TOLERANCES
from lssar import _plans
from lssar._reference import attention

BATCH, HEADS, KV_HEADS, DIM, ROOM = 3, 4, 2, 32, 530


def random(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


class FewQueries(unittest.TestCase):
    def setUp(self):
        self.q = random(BATCH, 2, HEADS, DIM, seed=1)
        self.k = random(BATCH, ROOM, KV_HEADS, DIM, seed=2)
        self.v = random(BATCH, ROOM, KV_HEADS, DIM, seed=3)

    def assert_right(self, o, b, keys, **options):
        """`o`: of batch entry b, which sees so many keys."""
        rows = (self.q[b : b + 1], self.k[b : b + 1, :keys], self.v[b : b + 1, :keys])
        q, k, v = (x.transpose(1, 2).double() for x in rows)
        wanted = attention(q, k, v, causal=True, offset=1.0, **options).transpose(1, 2)
        allowed = TOLERANCES[torch.bfloat16][0] * wanted.norm().item()
        error = (o.double() - wanted).norm().item()
        self.assertLessEqual(error, allowed + FLOOR * wanted.numel() ** 0.5)

    def has_plan(self, few_queries, is_varlen):
        """Whether a plan was made for so few queries."""
        plans = _plans.context("virtual")._plans
        return any(few == few_queries and (len(key) > 11 and key[11]) == is_varlen
                   for key, few in plans)

    def test_caches_of_different_lengths(self):
        for p in (15, 3):
            used = torch.tensor([7, 513, 530], dtype=torch.int32)
            o = lssar.attention_with_kv_cache(
                self.q, self.k, self.v, cache_seqlens=used, causal=True, p=p
            )
            for b in range(BATCH):
                self.assert_right(o[b : b + 1], b, int(used[b]), p=p)
        self.assertTrue(self.has_plan(1, True))

    def test_a_whole_cache(self):
        o = lssar.attention_with_kv_cache(self.q, self.k, self.v, causal=True)
        for b in range(BATCH):
            self.assert_right(o[b : b + 1], b, ROOM, p=15)
        self.assertTrue(self.has_plan(2, False) or self.has_plan(1, True))

    def test_one_length(self):
        q, k, v = (x.transpose(1, 2) for x in (self.q, self.k, self.v))
        o = lssar.attention(q, k, v, causal=True).transpose(1, 2)
        for b in range(BATCH):
            self.assert_right(o[b : b + 1], b, ROOM, p=15)
        self.assertTrue(self.has_plan(2, False))


if __name__ == "__main__":
    unittest.main()
