"""Rotary positions: lssar.attention and attention_with_kv_cache against the definition of q and k that
torch has rotated, and the tables."""

import math
import os
import unittest

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

import lssar
from definition import assert_close, random_inputs, with_gradients
from lssar import _op, _rules
from lssar._reference import attention as definition
from test_varlen import packed_inputs, random_grad

needs_operators = unittest.skipUnless(_op.HAS_OPERATORS, "operators need torch 2.5")


def rotate(x, cos, sin, first, interleaved):
    """By complex numbers. x: [batch, heads, rows, dim]."""
    pairs = cos.shape[1]
    angles = torch.complex(cos.double(), sin.double())[first : first + x.shape[2]]
    turned = x[..., : 2 * pairs]
    order = (-1, 2) if interleaved else (2, -1)
    parts = turned.unflatten(-1, order)
    a, b = parts.unbind(-1 if interleaved else -2)
    product = torch.complex(a, b) * angles
    parts = torch.stack((product.real, product.imag), dim=-1 if interleaved else -2)
    return torch.cat((parts.flatten(-2), x[..., 2 * pairs :]), dim=-1)


def in_float64(q, k, v, rotary_cos, rotary_sin, rotary_interleaved=False, **options):
    tables = (rotary_cos, rotary_sin)
    q = rotate(q, *tables, k.shape[2] - q.shape[2], rotary_interleaved)
    k = rotate(k, *tables, 0, rotary_interleaved)
    window = _rules.window_of(options.pop("window_size", (-1, -1)), 0, 0, 0)
    options["score"], options["p"] = _rules.score_of(options.get("score"), options.get("p"))
    return definition(q, k, v, window=window, **options)


def expected(q, k, v, **options):
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    return with_gradients(in_float64, *wide, **options)


def tables(positions=50, dim=16, **more):
    cos, sin = lssar.rotary_tables(positions, dim, **more)
    return {"rotary_cos": cos, "rotary_sin": sin}


class Attention(unittest.TestCase):
    def test_forward_and_gradients(self):
        inputs = random_inputs(batch=2, heads=4, kv_heads=2, len_q=33, len_k=40, dim=24)
        for options in (
            {**tables(dim=24), "causal": True},
            {**tables(dim=16), "rotary_interleaved": True},
            {**tables(dim=6), "score": "softmax", "causal": True, "window_size": (9, -1)},
        ):
            with self.subTest(**options):
                results = with_gradients(lssar.attention, *inputs, **options)
                wanted = expected(*inputs, **options)
                assert_close(self, results, wanted, torch.float32)
                with torch.no_grad():
                    alone = lssar.attention(*inputs, **options)
                assert_close(self, [alone], wanted, torch.float32)

    def test_layout(self):
        q, k, v = (x.detach() for x in random_inputs(heads=2, len_q=20))
        o = lssar.attention(q, k, v, **tables())
        rows = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        other = lssar.attention(*rows, layout="blhd", **tables())
        self.assertTrue(torch.equal(other.transpose(1, 2), o))

    def test_float64(self):
        inputs = [x.detach().double().requires_grad_() for x in random_inputs(len_q=5, len_k=7)]
        wanted = with_gradients(in_float64, *inputs, **tables())
        for x, y in zip(with_gradients(lssar.attention, *inputs, **tables()), wanted):
            self.assertLess((x - y).abs().max().item(), 1e-12)

    def test_tables_need_not_be_contiguous(self):
        q, k, v = (x.detach() for x in random_inputs(len_q=20))
        spread = {name: x.t().contiguous().t() for name, x in tables().items()}
        o = lssar.attention(q, k, v, **tables())
        self.assertTrue(torch.equal(lssar.attention(q, k, v, **spread), o))

    @needs_operators
    def test_compiled(self):
        inputs = random_inputs(batch=2, heads=4, kv_heads=2, len_q=33, len_k=40)
        angles = tables()

        def function(q, k, v):
            return lssar.attention(q, k, v, causal=True, **angles)

        wanted = with_gradients(function, *inputs)
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        for x, y in zip(with_gradients(compiled, *inputs), wanted):
            self.assertTrue(torch.equal(x, y))

    def test_errors_name_the_argument(self):
        inputs = random_inputs(len_q=9)
        cos, sin = lssar.rotary_tables(9, 16)
        for error, what, changes in (
            (TypeError, "^rotary_sin: NoneType", {"rotary_sin": None}),
            (TypeError, "^rotary_cos: NoneType",
             {"rotary_cos": None, "rotary_sin": None, "rotary_interleaved": True}),
            (TypeError, "^rotary_cos: dtype torch.float64", {"rotary_cos": cos.double()}),
            (ValueError, "^rotary_cos: shape \\(9, 9\\)", {"rotary_cos": torch.ones(9, 9)}),
            (ValueError, "^rotary_sin: shape \\(9, 4\\); must be \\(9, 8\\)",
             {"rotary_sin": sin[:, :4]}),
            (ValueError, "^rotary_cos: 8 positions; must be at least 9",
             {"rotary_cos": cos[:8], "rotary_sin": sin[:8]}),
            (ValueError, "^rotary_cos: requires a gradient",
             {"rotary_cos": cos.clone().requires_grad_()}),
            (TypeError, "^rotary_interleaved: 1; must be True or False", {"rotary_interleaved": 1}),
        ):  # fmt: skip
            with self.assertRaisesRegex(error, what):
                lssar.attention(*inputs, **{"rotary_cos": cos, "rotary_sin": sin, **changes})
        q, k, v = inputs
        with self.assertRaisesRegex(ValueError, "^q: length 9; must be at most that of k, 8"):
            lssar.attention(q, k[:, :, :8], v[:, :, :8], rotary_cos=cos, rotary_sin=sin)


class Sequences(unittest.TestCase):
    """Packed sequences, and entries of nested tensors: each turned from position 0 on."""

    LENGTHS = ((5, 7), (0, 4), (33, 33), (1, 20), (0, 0))

    def check(self, *inputs, dtype=torch.float32, **options):
        q, k, v, cu_q, cu_k = inputs
        o = lssar.varlen_attention(*inputs, **options)
        results = (o, *torch.autograd.grad(o, (q, k, v), random_grad(o)))
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        parts = []
        for b in range(len(cu_q) - 1):
            ends = ((x, at[b], at[b + 1]) for x, at in zip(wide, (cu_q, cu_k, cu_k)))
            one = [x[first:end].transpose(0, 1)[None] for x, first, end in ends]
            parts.append(in_float64(*one, **options)[0].transpose(0, 1))
        wanted = torch.cat(parts)
        grads = torch.autograd.grad(wanted, wide, random_grad(o).double())
        assert_close(self, results, (wanted.detach(), *grads), dtype)

    def test_forward_and_gradients(self):
        inputs = packed_inputs(lengths=self.LENGTHS)
        self.check(*inputs, causal=True, **tables(33))
        self.check(*inputs, rotary_interleaved=True, window_size=(4, 3), **tables(40, 6))

    @needs_operators
    def test_compiled(self):
        q, k, v, *cu = packed_inputs(lengths=self.LENGTHS)
        angles = tables()

        def function(q, k, v):
            return lssar.varlen_attention(q, k, v, *cu, 33, 33, **angles)

        wanted = function(q, k, v)
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(q, k, v), wanted))
        grads = torch.autograd.grad(compiled(q, k, v), (q, k, v), random_grad(wanted))
        for x, y in zip(grads, torch.autograd.grad(wanted, (q, k, v), random_grad(wanted))):
            self.assertTrue(torch.equal(x, y))

    @unittest.skipUnless(hasattr(torch.nested, "nested_tensor_from_jagged"), "needs torch 2.4")
    def test_nested_tensors(self):
        q, k, v, *cu = packed_inputs(lengths=self.LENGTHS)
        wanted = lssar.varlen_attention(q, k, v, *cu, **tables(33))
        starts = (cu[0].long(), cu[1].long(), cu[1].long())
        nested = [torch.nested.nested_tensor_from_jagged(x, at) for x, at in zip((q, k, v), starts)]
        o = lssar.attention(*nested, layout="blhd", **tables(33))
        self.assertTrue(torch.equal(o.values(), wanted))

    def test_errors_name_the_argument(self):
        q, k, v, cu_q, cu_k = packed_inputs(lengths=self.LENGTHS)
        with self.assertRaisesRegex(ValueError, "^rotary_cos: 32 positions; must be at least 33"):
            lssar.varlen_attention(q, k, v, cu_q, cu_k, **tables(32))
        with self.assertRaisesRegex(TypeError, "^rotary_sin: NoneType"):
            lssar.varlen_attention(q, k, v, cu_q, cu_k, rotary_cos=tables()["rotary_cos"])
        fewer = torch.tensor([7, 4, 32, 20, 0], dtype=torch.int32)
        with self.assertRaisesRegex(lssar.LssarError, "sequence 2 has 33 queries and 32 keys"):
            lssar.varlen_attention(q, k, v, cu_q, cu_k, seqused_k=fewer, **tables())


class Cache(unittest.TestCase):
    def test_new_keys_are_rotated_and_kept(self):
        """In two steps, entry by entry, as in one."""
        for interleaved in (False, True):
            options = {**tables(dim=8), "rotary_interleaved": interleaved, "causal": True}
            q, k, v = (x.detach() for x in random_inputs(batch=2, heads=4, kv_heads=2, len_q=12))
            wanted = in_float64(q.double(), k.double(), v.double(), **options)
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            k_cache, v_cache = (x.new_zeros(2, 40, *x.shape[2:]) for x in (k, v))
            parts = []
            for first, end in ((0, 9), (9, 12)):
                rows = (x[:, first:end] for x in (q, k, v))
                q_part, *new = rows
                lengths = torch.full((2,), first, dtype=torch.int32)
                caches = (k_cache, v_cache, *new, lengths)
                parts.append(lssar.attention_with_kv_cache(q_part, *caches, **options))
            o = torch.cat(parts, dim=1).transpose(1, 2)
            assert_close(self, [o], [wanted], torch.float32)

    def test_tables_cover_the_room(self):
        q, k, v = (x.detach().transpose(1, 2) for x in random_inputs(len_q=12))
        with self.assertRaisesRegex(ValueError, "^rotary_cos: 11 positions; must be at least 12"):
            lssar.attention_with_kv_cache(q, k, v, **tables(11))


class Tables(unittest.TestCase):
    def test_angles(self):
        cos, sin = lssar.rotary_tables(7, 8, 100.0)
        self.assertEqual((cos.dtype, cos.shape), (torch.float32, (7, 4)))
        self.assertAlmostEqual(cos[3, 1].item(), math.cos(3 * 100 ** (-2 / 8)), places=6)
        self.assertAlmostEqual(sin[6, 3].item(), math.sin(6 * 100 ** (-6 / 8)), places=6)

    def test_ntk_slows_the_last_pair_by_its_factor(self):
        plain, _ = lssar.rotary_tables(2, 8)
        scaled, _ = lssar.rotary_tables(2, 8, scaling=("ntk", 4))
        self.assertEqual(scaled[1, 0], plain[1, 0])
        self.assertAlmostEqual(scaled[1, -1].item(), math.cos(10000 ** (-6 / 8) / 4), places=6)

    def test_yarn_has_a_ramp_between_fast_and_slow_pairs(self):
        """By hand: of 64 pairs that turn 2048 positions, the ramp begins at pair floor(16.1), where 32
        turns are, and ends at pair ceil(40.2), where one is."""
        _, plain = lssar.rotary_tables(2, 128)
        _, scaled = lssar.rotary_tables(2, 128, scaling=("yarn", 8.0, 2048))
        ratio = (plain[1].double().asin() / scaled[1].double().asin()).tolist()
        for c in range(64):
            slowed = min(max((c - 16) / (41 - 16), 0), 1)
            self.assertAlmostEqual(ratio[c], 1 / (1 - slowed * 7 / 8), places=3)

    def test_errors_name_the_argument(self):
        for what, arguments in (
            ("^positions: -1; must be an int from 0 to", (-1, 8)),
            ("^rotary_dim: 7; must be even", (3, 7)),
            ("^rotary_dim: 0; must be an int from 2 to 256", (3, 0)),
            ("^base: 1; must be above 1", (3, 8, 1)),
            ("^base: nan; must be a finite number", (3, 8, math.nan)),
            ("^scaling: 'ntk'; must be None, ", (3, 8, 10000.0, "ntk")),
            ("^scaling: \\('yarn', 2\\); must be None, ", (3, 8, 10000.0, ("yarn", 2))),
            ("^scaling\\[1\\]: 0.5; must be a finite number from 1", (3, 8, 10000.0, ("ntk", 0.5))),
            ("^scaling\\[2\\]: 0; must be an int from 1", (3, 8, 10000.0, ("yarn", 2, 0))),
        ):
            with self.assertRaisesRegex(ValueError, what):
                lssar.rotary_tables(*arguments)


if __name__ == "__main__":
    unittest.main()
