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
        self.assertTrue(self.has_plan(2, True))

    def test_turned_packed_rows(self):
        lengths = [7, 513, 530]
        cu_q = torch.tensor([0, 2, 4, 6], dtype=torch.int32)
        cu_k = torch.tensor([0, 7, 520, 1050], dtype=torch.int32)
        k, v = (torch.cat([x[b, :n] for b, n in enumerate(lengths)]) for x in (self.k, self.v))
        cos, sin = lssar.rotary_tables(ROOM, rotary_dim=DIM)
        rotary = {"rotary_cos": cos, "rotary_sin": sin}
        o = lssar.varlen_attention(
            self.q.flatten(0, 1), k, v, cu_q, cu_k, 2, ROOM, causal=True, **rotary
        )
        for b, n in enumerate(lengths):
            rows = (self.q[b : b + 1], self.k[b : b + 1, :n], self.v[b : b + 1, :n])
            alone = lssar.attention(*rows, causal=True, layout="blhd", **rotary)
            error = (o[2 * b : 2 * b + 2].double() - alone[0].double()).norm().item()
            self.assertLessEqual(error, 2 * TOLERANCES[torch.bfloat16][0] * alone.double().norm())
        plans = _plans.context("virtual")._plans
        self.assertTrue(any(few == 2 and key[11:] and key[11] and key[14:] for key, few in plans))

    def test_a_whole_cache(self):
        o = lssar.attention_with_kv_cache(self.q, self.k, self.v, causal=True)
        for b in range(BATCH):
            self.assert_right(o[b : b + 1], b, ROOM, p=15)
        self.assertTrue(self.has_plan(2, False) or self.has_plan(2, True))

    def test_one_length(self):
        q, k, v = (x.transpose(1, 2) for x in (self.q, self.k, self.v))
        o = lssar.attention(q, k, v, causal=True).transpose(1, 2)
        for b in range(BATCH):
            self.assert_right(o[b : b + 1], b, ROOM, p=15)
        self.assertTrue(self.has_plan(2, False))


if __name__ == "__main__":
    unittest.main()
