"""lssar.attention of nested tensors with the layout torch.jagged: each entry against the definition of
it alone."""

import os
import unittest
from unittest import mock

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

import lssar
from definition import FLOOR, TOLERANCES
from lssar import _varlen
from test_varlen import cumulative, one_by_one, packed_inputs, random_grad

LENGTHS = ((5, 5), (33, 33), (1, 1), (3, 3))
CROSS = ((5, 7), (33, 20), (1, 2), (3, 3))


def jagged(rows, offsets, lengths=None):
    """[batch, heads, j, dim] of packed rows, as a model makes it."""
    return torch.nested.nested_tensor_from_jagged(rows, offsets, lengths).transpose(1, 2)


@unittest.skipUnless(hasattr(torch.nested, "nested_tensor_from_jagged"), "needs torch 2.4")
class Jagged(unittest.TestCase):
    def inputs(self, pairs=LENGTHS, **more):
        """Packed leaves, their nested tensors, cu_seqlens."""
        *rows, cu_q, cu_k = packed_inputs(lengths=pairs, **more)
        offsets_q, offsets_k = cu_q.long(), cu_k.long()
        if pairs is LENGTHS:
            offsets_k = offsets_q
        tensors = [jagged(x, at) for x, at in zip(rows, (offsets_q, offsets_k, offsets_k))]
        return rows, tensors, (cu_q, cu_k)

    def check(self, o, rows, cu, **options):
        """The rows of o, [total, heads, dim], and gradients of `rows`."""
        grads = torch.autograd.grad(o, rows, random_grad(o))
        wide = [x.detach().double().requires_grad_() for x in rows]
        wanted = one_by_one(*wide, *cu, **options)
        expected = torch.autograd.grad(wanted, wide, random_grad(o).double())
        for i, (ours, theirs) in enumerate(zip((o, *grads), (wanted, *expected))):
            self.assert_close(ours, theirs, TOLERANCES[torch.float32][i > 0])

    def assert_close(self, ours, theirs, tolerance):
        self.assertEqual(ours.shape, theirs.shape)
        allowed = tolerance * theirs.norm().item() + FLOOR * theirs.numel() ** 0.5
        error = (ours.double() - theirs).norm().item()
        self.assertTrue(error <= allowed, f"|error| {error}, allowed {allowed}")

    def test_a_window_within_each_entry(self):
        rows, (q, k, v), cu = self.inputs(CROSS)
        window = {"window_size": (2, 1), "window_sinks": 1}
        wanted = lssar.varlen_attention(*rows, *cu, **window)
        ours = lssar.attention(q, k, v, **window)
        self.assertTrue(torch.equal(ours.transpose(1, 2).values(), wanted))
        by_rows = (x.transpose(1, 2) for x in (q, k, v))
        ours = lssar.attention(*by_rows, layout="blhd", **window)
        self.assertTrue(torch.equal(ours.values(), wanted))

    def test_entries_of_their_own_lengths(self):
        for pairs in (LENGTHS, CROSS):
            for causal in (False, True):
                with self.subTest(pairs=pairs, causal=causal):
                    rows, (q, k, v), cu = self.inputs(pairs, dim_v=24)
                    o = lssar.attention(q, k, v, causal=causal)
                    self.assertIs(o.layout, torch.jagged)
                    self.assertEqual(o.shape, (4, 4, q.shape[2], 24))
                    self.check(o.transpose(1, 2).values(), rows, cu, causal=causal)

    def test_heads_behind_lengths(self):
        rows, tensors, cu = self.inputs()
        o = lssar.attention(*(x.transpose(1, 2) for x in tensors), layout="blhd", p=3)
        self.check(o.values(), rows, cu, p=3)

    def test_in_a_model(self):
        """From one projection to the next, and added to what came in."""
        x = torch.nested.nested_tensor(
            [torch.randn(n, 32) for n in (4, 9)], layout=torch.jagged, requires_grad=True
        )
        project, out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
        heads = [y.unflatten(-1, (4, 8)).transpose(1, 2) for y in project(x).chunk(3, dim=-1)]
        o = lssar.attention(*heads, causal=True)
        y = x + out(o.transpose(1, 2).flatten(-2))
        for ours, one in zip(y.unbind(), x.unbind()):
            parts = project(one).unflatten(-1, (3, 4, 8)).permute(1, 2, 0, 3)[:, None]
            wanted = lssar.attention(*parts, causal=True)[0].transpose(0, 1).flatten(-2)
            torch.testing.assert_close(ours, one + out(wanted), rtol=1e-4, atol=1e-5)
        y.values().sum().backward()
        self.assertEqual(x.grad.shape, x.shape)

    def test_nothing_is_copied(self):
        _, (q, k, v), _ = self.inputs()
        function = _varlen.varlen_attention
        with mock.patch.object(_varlen, "varlen_attention", wraps=function) as called:
            lssar.attention(q, k, v)
        for x, rows in zip((q, k, v), called.call_args.args):
            self.assertEqual(x.values().data_ptr(), rows.data_ptr())
        self.assertIs(called.call_args.args[3], called.call_args.args[4])

    def test_rows_between_entries(self):
        """Tensors with lengths beside their offsets have them."""
        *rows, cu, _ = packed_inputs(lengths=((6, 6), (8, 8), (3, 3)))
        used = torch.tensor([4, 8, 0])
        q, k, v = (jagged(x, cu.long(), used) for x in rows)
        o = lssar.attention(q, k, v)
        lengths = {"seqused_q": used.int(), "seqused_k": used.int()}
        wanted = lssar.varlen_attention(*rows, cu, cu, **lengths)
        for ours, theirs in zip(o.unbind(), jagged(wanted, cu.long(), used).unbind()):
            self.assertTrue(torch.equal(ours, theirs))
        grads = torch.autograd.grad(sum(x.sum() for x in o.unbind()), rows)
        self.assertTrue((grads[0][4:6] == 0).all() and grads[0][:3].any())

    def test_equal_lengths_made_one_by_one(self):
        rows, (q, k, v), cu = self.inputs()
        other = jagged(rows[2], cu[1].long())
        self.assertNotEqual(other.shape[2], k.shape[2])
        o = lssar.attention(q, k, other, causal=True)
        self.check(o.transpose(1, 2).values(), rows, cu, causal=True)

    def test_sinks_and_autocast(self):
        rows, (q, k, v), cu = self.inputs()
        sink = torch.linspace(-1, 2, 4, requires_grad=True)
        options = {"score": "softmax,sink=per_head", "p": 0}
        o = lssar.attention(q, k, v, sink=sink, **options).transpose(1, 2).values()
        (grad,) = torch.autograd.grad(o, sink, random_grad(o))
        wide = [x.detach().double() for x in rows]
        sink = sink.detach().double().requires_grad_()
        wanted = one_by_one(*wide, *cu, sink=sink, **options)
        (expected,) = torch.autograd.grad(wanted, sink, random_grad(o).double())
        self.assert_close(grad, expected, TOLERANCES[torch.float32][1])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(lssar.attention(q, k, v).dtype, torch.bfloat16)

    def test_compiled(self):
        rows, tensors, cu = self.inputs()
        function = torch.compile(
            lambda q, k, v: lssar.attention(q, k, v, causal=True), backend="aot_eager", fullgraph=True
        )
        o = function(*tensors)
        self.check(o.transpose(1, 2).values(), rows, cu, causal=True)

    def test_errors_name_the_argument(self):
        _, (q, k, v), _ = self.inputs()
        _, (_, other, _), _ = self.inputs(CROSS)
        dense, short = torch.ones(4, 4, 5, 16), jagged(torch.ones(5, 2, 16), cumulative([2, 3]).long())
        strided = torch.nested.nested_tensor([torch.ones(2, 5, 16)] * 4)
        turned = [x.transpose(1, 2) for x in (q, k, v)]
        for error, pattern, inputs, options in (
            (TypeError, "^k: a tensor of layout torch.strided; q, k and v must all", (q, dense, v), {}),
            (TypeError, "^q: a tensor of layout torch.strided; q, k and v must all", (dense, k, v), {}),
            (TypeError, "^v: a tensor of layout torch.strided; q, k and v must all", (q, k, strided), {}),
            (TypeError, "^v: list; q, k and v must all", (q, k, []), {}),
            (ValueError, r"^q: shape \(4, j\d+, 4, 16\); must be \[batch, heads, j, dim\]", turned, {}),
            (ValueError, "^k: batch 2; must be that of q, 4", (q, short, short), {}),
            (ValueError, "^v: entries begin or end at other rows", (q, k, other), {}),
            (TypeError, "^q: dtype torch.float64", [x.double() for x in (q, k, v)], {}),
            (ValueError, "^p: 2000", (q, k, v), {"p": 2000}),
            (ValueError, "^scale: 0.5; must be None", (q, k, v), {"scale": 0.5}),
        ):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(error, pattern):
                lssar.attention(*inputs, **options)


if __name__ == "__main__":
    unittest.main()
