"""A soft cap of scores, and ALiBi, through PyTorch."""

import math
import unittest

import torch

import lssar
from definition import assert_close, random_inputs, with_gradients

ALIBI = "softmax,alibi=per_head"


def formula(q, k, v, causal=False, cap=None, slopes=None):
    """Softmax of changed scores in torch's own operations."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    len_q, len_k = s.shape[-2:]
    if cap is not None:
        s = cap * torch.tanh(s / cap)
    if slopes is not None:
        position = torch.arange(len_q)[:, None] + len_k - len_q
        s = s - slopes[:, None, None] * (position - torch.arange(len_k)).abs()
    if causal:
        hidden = torch.ones(len_q, len_k, dtype=torch.bool).triu(1 + len_k - len_q)
        s = s.masked_fill(hidden, -math.inf)
    return torch.softmax(s, dim=-1) @ v


def wide_leaves(*tensors):
    return [x.detach().double().requires_grad_() for x in tensors]


class ChangedScores(unittest.TestCase):
    slopes = torch.tensor([0.5, 0.125, -0.25, 0.01])

    def check(self, inputs, cap=None, slopes=None, dtype=torch.float32, **options):
        score = "softmax" + ("" if cap is None else f",soft_cap={cap}")
        if slopes is not None:
            score += ",alibi=per_head"
        results = with_gradients(
            lssar.attention, *inputs, score=score, alibi_slopes=slopes, **options
        )
        wanted = with_gradients(
            formula,
            *wide_leaves(*inputs),
            cap=cap,
            slopes=None if slopes is None else slopes.double(),
            **options,
        )
        assert_close(self, results, wanted, dtype)

    def test_a_soft_cap_is_torchs_own_operations(self):
        for dtype in (torch.float32, torch.bfloat16):
            with self.subTest(dtype=dtype):
                inputs = random_inputs(heads=4, kv_heads=2, len_k=70, dtype=dtype)
                self.check(inputs, cap=0.75, dtype=dtype, causal=True)

    def test_slopes_are_torchs_own_operations(self):
        inputs = random_inputs(batch=2, heads=4, kv_heads=2, len_k=70)
        for causal in (False, True):
            with self.subTest(causal=causal):
                self.check(inputs, slopes=self.slopes, causal=causal)
                self.check(inputs, cap=1.5, slopes=self.slopes, causal=causal)

    def test_float64_has_all_derivatives(self):
        q, k, v = wide_leaves(*random_inputs(heads=2, len_q=4, dim=8))
        for options in (
            {"score": lssar.Score("exp", qk_norm=False, scale=0.5, soft_cap=0.8)},
            {"score": ALIBI + ",soft_cap=2", "alibi_slopes": self.slopes[:2].double()},
        ):

            def attention(q, k, v):
                return lssar.attention(q, k, v, causal=True, **options)  # noqa: B023

            self.assertTrue(torch.autograd.gradcheck(attention, (q, k, v)))

    def test_within_a_window_and_in_the_other_layout(self):
        inputs = random_inputs(heads=4, len_q=50)
        options = {"score": ALIBI + ",soft_cap=3", "window_size": (9, 0), "causal": True}
        wanted = with_gradients(
            lssar.attention, *wide_leaves(*inputs), alibi_slopes=self.slopes.double(), **options
        )
        options["alibi_slopes"] = self.slopes
        assert_close(self, with_gradients(lssar.attention, *inputs, **options), wanted, torch.float32)

        def turned(q, k, v):
            rows = (x.transpose(1, 2) for x in (q, k, v))
            return lssar.attention(*rows, layout="blhd", **options).transpose(1, 2)

        assert_close(self, with_gradients(turned, *inputs), wanted, torch.float32)

    def test_sequences_have_positions_of_their_own(self):
        q, k, v = random_inputs(heads=4, kv_heads=2, len_q=40, len_k=52)
        lengths = ((10, 12), (1, 30), (29, 10))
        cu_q = torch.tensor([0, 10, 11, 40], dtype=torch.int32)
        cu_k = torch.tensor([0, 12, 42, 52], dtype=torch.int32)
        options = {"score": ALIBI + ",soft_cap=2", "causal": True, "alibi_slopes": self.slopes}

        def packed(q, k, v):
            rows = (x[0].transpose(0, 1) for x in (q, k, v))
            o = lssar.varlen_attention(*rows, cu_q, cu_k, **options)
            return o.transpose(0, 1)[None]

        def apart(q, k, v):
            parts_q = q.split([n for n, _ in lengths], dim=2)
            parts_k = k.split([n for _, n in lengths], dim=2)
            parts_v = v.split([n for _, n in lengths], dim=2)
            return torch.cat(
                [lssar.attention(*x, **options) for x in zip(parts_q, parts_k, parts_v)], dim=2
            )

        results = with_gradients(packed, q, k, v)
        assert_close(self, results, [x.double() for x in with_gradients(apart, q, k, v)], q.dtype)

    def test_what_is_wrong_is_said(self):
        q, k, v = random_inputs(heads=4, kv_heads=2)
        due = r"^alibi_slopes: None; must be torch.float32 \[heads\], \(4,\)"
        not_due = r"^alibi_slopes: shape \(4,\); must be None"
        with_alibi = {"score": ALIBI}
        for error, message, slopes, options in (
            (ValueError, due, None, with_alibi),
            (ValueError, not_due, self.slopes, {"score": "softmax"}),
            (ValueError, not_due, self.slopes, {}),
            (TypeError, "^alibi_slopes: list; must be a torch.Tensor", [0.5] * 4, with_alibi),
            (TypeError, "^alibi_slopes: dtype torch.float64", self.slopes.double(), with_alibi),
            (ValueError, r"^alibi_slopes: shape \(2,\); must be \(4,\)", self.slopes[:2], with_alibi),
            (
                ValueError,
                "^alibi_slopes: requires_grad is True",
                self.slopes.clone().requires_grad_(),
                with_alibi,
            ),
            (lssar.LssarError, "score.soft_cap = -1", None, {"score": "softmax,soft_cap=-1"}),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(error, message):
                lssar.attention(q, k, v, alibi_slopes=slopes, **options)


if __name__ == "__main__":
    unittest.main()
