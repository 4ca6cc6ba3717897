"""Sequences of their own lengths: each against the definition, in float64, of that sequence alone."""

import os
import unittest
from unittest import mock

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

import lssar
from definition import FLOOR, TOLERANCES
from lssar import _kv_cache, _op, _plans
from lssar._reference import attention

LENGTHS = ((5, 7), (0, 4), (33, 33), (1, 20), (3, 0))  # of queries and keys
needs_operators = unittest.skipUnless(_op.HAS_OPERATORS, "operators need torch 2.5")


def cumulative(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def packed_inputs(heads=4, kv_heads=2, dim=16, dim_v=16, dtype=torch.float32, lengths=LENGTHS):
    """q, k, v, leaves; cu_seqlens_q, cu_seqlens_k."""
    generator = torch.Generator().manual_seed(11)
    total_q, total_k = (sum(pair[i] for pair in lengths) for i in range(2))
    shapes = ((total_q, heads, dim), (total_k, kv_heads, dim), (total_k, kv_heads, dim_v))
    q, k, v = (torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes)
    return q, k, v, *(cumulative([pair[i] for pair in lengths]) for i in range(2))


def random_grad(o):
    return torch.randn(o.shape, generator=torch.Generator().manual_seed(7)).to(o.dtype)


def with_gradients(function, q, k, v, *lengths, **options):
    o = function(q, k, v, *lengths, **options)
    return (o.detach(), *torch.autograd.grad(o, (q, k, v), random_grad(o)))


def one_by_one(q, k, v, cu_q, cu_k, causal=False, p=15, **options):
    """The definition of each sequence, packed again."""
    parts = []
    for b in range(len(cu_q) - 1):
        rows = (q[cu_q[b] : cu_q[b + 1]], k[cu_k[b] : cu_k[b + 1]], v[cu_k[b] : cu_k[b + 1]])
        one = [x.transpose(0, 1)[None] for x in rows]
        o = attention(*one, causal=causal, p=p, offset=1.0, **options)
        parts.append(o[0].transpose(0, 1))
    return torch.cat(parts)


class Sequences(unittest.TestCase):
    def assert_close(self, results, wanted, dtype):
        for i, (x, y) in enumerate(zip(results, wanted)):
            self.assertEqual(x.shape, y.shape)
            allowed = TOLERANCES[dtype][i > 0] * y.norm().item() + FLOOR * y.numel() ** 0.5
            error = (x.double() - y).norm().item()
            self.assertTrue(error <= allowed, f"result {i}: |error| {error}, allowed {allowed}")

    def check(self, q, k, v, *lengths, **options):
        results = with_gradients(lssar.varlen_attention, q, k, v, *lengths, **options)
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        o = one_by_one(*wide, *lengths[:2], **options)
        wanted = (o.detach(), *torch.autograd.grad(o, wide, random_grad(results[0]).double()))
        self.assert_close(results, wanted, q.dtype)
        with torch.no_grad():
            alone = lssar.varlen_attention(q, k, v, *lengths, **options)
        self.assert_close([alone], wanted[:1], q.dtype)

    def test_forward_and_gradients(self):
        for dtype in (torch.float32, torch.bfloat16):
            for causal in (False, True):
                with self.subTest(dtype=dtype, causal=causal):
                    self.check(*packed_inputs(dtype=dtype), 33, 33, causal=causal)
        self.check(*packed_inputs(dim=24, dim_v=40, dtype=torch.float16), 33, 33)

    def test_changed_o_is_noticed(self):
        q, k, v, *cu = packed_inputs()
        o = lssar.varlen_attention(q, k, v, *cu)
        o[2:4].zero_()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            o.sum().backward()

    def test_longest_is_looked_up(self):
        self.check(*packed_inputs(), causal=True)

    def test_score_functions(self):
        self.check(*packed_inputs(dim_v=24), causal=True, p=0, score="softmax")

    def test_views_of_one_tensor(self):
        qkv = torch.randn(41, 3, 4, 16, generator=torch.Generator().manual_seed(2))
        cu = cumulative([40, 1])
        q, k, v = (x.requires_grad_() for x in qkv.unbind(1))
        self.check(q, k, v, cu, cu, causal=True)

    def test_a_sink(self):
        q, k, v, *cu = packed_inputs()
        sink = torch.randn(4, requires_grad=True)
        options = {"causal": True, "score": "softmax,sink=per_head", "p": 0}
        o = lssar.varlen_attention(q, k, v, *cu, sink=sink, **options)
        (grad,) = torch.autograd.grad(o, sink, random_grad(o))
        wide = [x.detach().double().requires_grad_() for x in (q, k, v, sink)]
        wanted = one_by_one(*wide[:3], *cu, sink=wide[3], **options)
        (wanted_grad,) = torch.autograd.grad(wanted, wide[3], random_grad(o).double())
        self.assert_close([o.detach(), grad], [wanted.detach(), wanted_grad], torch.float32)

    def test_rows_of_no_sequence_are_zeros(self):
        q, k, v, cu_q, cu_k = packed_inputs()
        options = {"causal": True, "seqused_q": (cu_q.diff() - 1).clamp(min=0).to(torch.int32)}
        options["seqused_k"] = (cu_k.diff() - 2).clamp(min=0).to(torch.int32)
        o, *grads = with_gradients(lssar.varlen_attention, q, k, v, cu_q, cu_k, **options)
        for x in (o, grads[0]):
            self.assertTrue((x[cu_q[1:][cu_q.diff() > 0].long() - 1] == 0).all())
        for x in grads[1:]:
            self.assertTrue((x[cu_k[1:][cu_k.diff() > 0].long() - 1] == 0).all())
        self.assertTrue(o.isfinite().all())

    def test_a_padded_batch_needs_no_packing(self):
        lengths, room = (20, 0, 7), 24
        generator = torch.Generator().manual_seed(4)
        shapes = ((3, room, heads, 16) for heads in (4, 2, 2))
        tensors = [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]
        begins = torch.arange(4, dtype=torch.int32) * room
        used = torch.tensor(lengths, dtype=torch.int32)

        def padded(*tensors):
            rows = (x.flatten(0, 1) for x in tensors)
            options = {"causal": True, "seqused_q": used, "seqused_k": used}
            o = lssar.varlen_attention(*rows, begins, begins, room, room, **options)
            return o.unflatten(0, (3, room))

        results = with_gradients(padded, *tensors)
        is_used = torch.arange(room) < used[:, None]
        wide = [x.detach().double()[is_used].requires_grad_() for x in tensors]
        o = one_by_one(*wide, cumulative(lengths), cumulative(lengths), causal=True)
        grad_o = random_grad(results[0])[is_used].double()
        wanted = (o.detach(), *torch.autograd.grad(o, wide, grad_o))
        self.assert_close([x[is_used] for x in results], wanted, torch.float32)
        for x in results:
            self.assertTrue((x[~is_used] == 0).all())

    def test_sinks_of_any_stride(self):
        q, k, v, *cu = packed_inputs()
        options = {"causal": True, "score": "softmax,sink=per_head", "p": 0}
        for sink in (torch.randn(8)[::2], torch.randn(1).expand(4)):
            results = [
                lssar.varlen_attention(q, k, v, *cu, sink=x, **options)
                for x in (sink, sink.contiguous())
            ]
            self.assertTrue(torch.equal(*results))

    def test_hooks_of_saved_tensors(self):
        q, k, v, *cu = packed_inputs()

        def grad(unpack):
            with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
                o = lssar.varlen_attention(q, k, v, *cu, causal=True)
            return torch.autograd.grad(o, q, random_grad(o))[0]

        wanted = grad(lambda x: x)
        turned = grad(lambda x: x.mT.contiguous().mT if x.dim() == 3 else x)
        self.assertTrue(torch.equal(turned, wanted))
        with self.assertRaisesRegex(TypeError, "q: dtype torch.bfloat16"):
            grad(lambda x: x.bfloat16() if x.dim() == 3 else x)
        with self.assertRaisesRegex(ValueError, "^o: torch.float32 \\(1, 4, 16\\) on"):
            grad(lambda x: x[:1] if x.dim() == 3 and x.grad_fn is not None else x)
        with self.assertRaisesRegex(ValueError, "saved: torch.int32 \\(1,\\)"):
            grad(lambda x: x[:1] if x.dtype == torch.int32 and x.numel() > 100 else x)

    @needs_operators
    def test_gradients_without_plain_memory(self):
        q, k, v, *cu = packed_inputs()
        o = lssar.varlen_attention(q, k, v, *cu, causal=True)
        grad_o = random_grad(o)
        wanted = torch.autograd.grad(o, q, grad_o, retain_graph=True)[0]
        of_negative = torch.autograd.grad(o, q, torch._neg_view(grad_o), retain_graph=True)[0]
        self.assertTrue(torch.equal(of_negative, -wanted))
        batch = torch.stack([grad_o, 2 * grad_o])
        both = torch.autograd.grad(o, q, batch, is_grads_batched=True)[0]
        self.assertTrue(torch.allclose(both, torch.stack([wanted, 2 * wanted])))

    def test_autocast(self):
        q, k, v, *cu = packed_inputs()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = lssar.varlen_attention(q, k, v, *cu, causal=True)
        self.assertEqual(o.dtype, torch.bfloat16)

    @needs_operators
    def test_forward_mode_is_refused(self):
        q, k, v, *cu = packed_inputs()
        with self.assertRaisesRegex(NotImplementedError, "forward-mode"):
            torch.func.jvp(
                lambda x: lssar.varlen_attention(x, k, v, *cu, 33, 33), (q.detach(),), (q.detach(),)
            )

    @needs_operators
    def test_compiled(self):
        q, k, v, *cu = packed_inputs()

        def function(q, k, v):
            return lssar.varlen_attention(q, k, v, *cu, 33, 33, causal=True)

        wanted = with_gradients(function, q, k, v)
        for x, y in zip(with_gradients(torch.compile(function, backend="aot_eager"), q, k, v), wanted):
            self.assertTrue(torch.equal(x, y))

    def test_errors_name_the_argument(self):
        q, k, v, cu_q, cu_k = packed_inputs()
        falling = torch.tensor([0, 5, 3, 38, 39, 42], dtype=torch.int32)
        for what, arguments, options in (
            ("q: shape", (q[None], k, v, cu_q, cu_k), {}),
            ("cu_seqlens_q: dtype torch.int64", (q, k, v, cu_q.long(), cu_k), {}),
            ("cu_seqlens_k: shape", (q, k, v, cu_q, cu_k[:-1]), {}),
            ("seqused_k: shape", (q, k, v, cu_q, cu_k), {"seqused_k": cu_k}),
            ("max_seqlen_q: -1", (q, k, v, cu_q, cu_k, -1), {}),
            ("cu_seqlens_q\\[2\\] = 3", (q, k, v, falling, cu_k, 40), {}),
            ("cu_seqlens_q\\[3\\] = 38.* max_seqlen_q is 32", (q, k, v, cu_q, cu_k, 32), {}),
            ("cu_seqlens_k\\[3\\] = 44.* max_seqlen_k is 32", (q, k, v, cu_q, cu_k, 33, 32), {}),
            ("p: 2000", (q, k, v, cu_q, cu_k), {"p": 2000}),
        ):
            with self.subTest(what=what):
                with self.assertRaisesRegex((TypeError, ValueError, lssar.LssarError), what):
                    lssar.varlen_attention(*arguments, **options)


class Documents(unittest.TestCase):
    def test_where_they_begin(self):
        ids = torch.tensor([[7, 7, 7, 2, 2], [2, 0, 0, 0, 7]])
        positions = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 1, 2, 0]])
        wanted = torch.tensor([0, 3, 5, 6, 9, 10], dtype=torch.int32)
        for cu in (
            lssar.cu_seqlens_of_documents(ids),
            lssar.cu_seqlens_of_documents(position_ids=positions),
            lssar.cu_seqlens_of_documents(position_ids=positions.flatten()),
        ):
            self.assertEqual(cu.dtype, torch.int32)
            self.assertEqual(cu.tolist(), wanted.tolist())
        self.assertEqual(lssar.cu_seqlens_of_documents(ids.flatten()).tolist(), [0, 3, 6, 9, 10])
        self.assertEqual(lssar.cu_seqlens_of_documents(ids[:0]).tolist(), [0])
        q = torch.randn(10, 1, 8)
        lssar.varlen_attention(q, q, q, wanted, wanted, causal=True)

    def test_errors_name_the_argument(self):
        ids = torch.zeros(4, dtype=torch.long)
        for pattern, arguments, options in (
            ("^document_ids and position_ids: must be one", (), {}),
            ("^document_ids and position_ids: must be one", (ids,), {"position_ids": ids}),
            ("^document_ids: torch.float32; must be a torch.Tensor of integers", (ids.float(),), {}),
            ("^position_ids: list; must be a torch.Tensor", (), {"position_ids": [0]}),
            (r"^document_ids: shape \(1, 1, 4\); must be \[total\]", (ids[None, None],), {}),
        ):
            with self.subTest(pattern=pattern), self.assertRaisesRegex((TypeError, ValueError), pattern):
                lssar.cu_seqlens_of_documents(*arguments, **options)


class Caches(unittest.TestCase):
    def setUp(self):
        generator = torch.Generator().manual_seed(5)
        self.cache_k, self.cache_v, self.q, self.k, self.v = (
            torch.randn(s, generator=generator)
            for s in ((3, 50, 2, 16), (3, 50, 2, 16), (3, 2, 4, 16), (3, 2, 2, 16), (3, 2, 2, 16))
        )
        self.used = torch.tensor([0, 48, 17], dtype=torch.int32)

    def test_new_keys_are_appended(self):
        before = self.cache_k.clone()
        o = lssar.attention_with_kv_cache(
            self.q, self.cache_k, self.cache_v, self.k, self.v, self.used, causal=True
        )
        for b, used in enumerate(self.used.tolist()):
            self.assertTrue(torch.equal(self.cache_k[b, used : used + 2], self.k[b]))
            self.assertTrue(torch.equal(self.cache_k[b, :used], before[b, :used]))
            self.assertTrue(torch.equal(self.cache_k[b, used + 2 :], before[b, used + 2 :]))
            inputs = (self.q[b], self.cache_k[b, : used + 2], self.cache_v[b, : used + 2])
            one = [x.transpose(0, 1)[None].double() for x in inputs]
            wanted = attention(*one, causal=True, p=15, offset=1.0)[0].transpose(0, 1)
            self.assertTrue((o[b] - wanted).norm() <= 1e-5 * wanted.norm())

    def test_caches_of_any_strides_are_written_in_place(self):
        wanted_k, wanted_v = self.cache_k.clone(), self.cache_v.clone()
        more = {"cache_seqlens": self.used, "causal": True}
        new = (self.k[:1].expand(3, -1, -1, -1), self.v.transpose(1, 2).contiguous().transpose(1, 2))
        wanted = lssar.attention_with_kv_cache(self.q, wanted_k, wanted_v, *new, **more)
        caches = (self.cache_k, self.cache_v)
        both = torch.stack(caches, 3)  # keys beside values
        heads_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in caches]
        for caches in ([both[..., 0, :], both[..., 1, :]], heads_first):
            o = lssar.attention_with_kv_cache(self.q, *caches, *new, **more)
            for x, y in zip((o, *caches), (wanted, wanted_k, wanted_v)):
                self.assertTrue(torch.equal(x, y))

    def test_the_call_writes_and_tells_autograd(self):
        version = self.cache_k._version
        with mock.patch.object(_kv_cache, "_append", side_effect=AssertionError):
            lssar.attention_with_kv_cache(
                self.q, self.cache_k, self.cache_v, self.k, self.v, self.used
            )
            with torch.inference_mode():
                inputs = [x.clone() for x in (self.q, self.cache_k, self.cache_v, self.k, self.v)]
                lssar.attention_with_kv_cache(*inputs, self.used)
        if hasattr(torch.autograd.graph, "increment_version"):
            self.assertGreater(self.cache_k._version, version)

    @needs_operators
    def test_modes_see_operations_that_write(self):
        class Mode(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                names.append(str(function))
                return function(*args, **(kwargs or {}))

        names = []
        caches = [self.cache_k.clone(), self.cache_v.clone()]
        wanted = lssar.attention_with_kv_cache(
            self.q, self.cache_k, self.cache_v, self.k, self.v, self.used, causal=True
        )
        with Mode():
            o = lssar.attention_with_kv_cache(
                self.q, *caches, self.k, self.v, self.used, causal=True
            )
        self.assertTrue(any("index_put" in name for name in names), names)
        torch.testing.assert_close(o, wanted)
        for x, y in zip(caches, (self.cache_k, self.cache_v)):
            self.assertTrue(torch.equal(x, y))

    def _with_norms(self, key_norms, steps):
        """What calls give that begin with empty caches, and the caches."""
        generator = torch.Generator().manual_seed(6)
        caches = [torch.zeros_like(x) for x in (self.cache_k, self.cache_v)]
        used, results = torch.zeros(3, dtype=torch.int32), []
        for new in steps:
            shapes = [(3, new, heads, 16) for heads in (4, 2, 2)]
            q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
            k[0, 0, 0] = 0
            o = lssar.attention_with_kv_cache(
                q, *caches, k, v, used, causal=True, key_norms=key_norms
            )
            used, results = used + new, [*results, o]
        return results, caches[0]

    def test_norms_of_keys_are_kept(self):
        steps = (5, 1, 2, 20)
        norms = torch.full((3, 2, 50), -1.0)
        version = norms._version
        wanted, k = self._with_norms(None, steps)
        results, _ = self._with_norms(norms, steps)
        for x, y in zip(results, wanted):
            self.assertTrue(torch.equal(x, y))
        keys = k[:, :28].transpose(1, 2).double()
        lengths = keys.norm(dim=-1)
        expected = torch.where(lengths == 0, 0.0, 1 / lengths).float()
        torch.testing.assert_close(norms[..., :28], expected, rtol=1e-6, atol=0)
        self.assertTrue((norms[..., 28:] == -1).all())
        if hasattr(torch.autograd.graph, "increment_version"):
            self.assertGreater(norms._version, version)
        more = {"cache_seqlens": 28, "key_norms": norms}
        lssar.attention_with_kv_cache(self.q, k, self.cache_v, **more)  # no new keys

    @needs_operators
    def test_modes_see_norms_written(self):
        class Mode(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))

        norms, wanted = torch.zeros(3, 2, 50), torch.zeros(3, 2, 50)
        results, _ = self._with_norms(wanted, (5, 1, 20))
        with Mode():
            others, _ = self._with_norms(norms, (5, 1, 20))
        torch.testing.assert_close(norms, wanted)
        torch.testing.assert_close(others, results)

    def test_no_entries(self):
        empty = [x[:0] for x in (self.q, self.cache_k, self.cache_v)]
        self.assertEqual(lssar.attention_with_kv_cache(*empty).shape, (0, 2, 4, 16))

    def test_keys_beyond_are_not_read(self):
        self.cache_k[1, 48:] = self.cache_v[1, 48:] = float("nan")
        o = lssar.attention_with_kv_cache(
            self.q, self.cache_k, self.cache_v, cache_seqlens=self.used
        )
        self.assertTrue(o.isfinite().all())

    def test_the_workspace_is_for_the_keys_that_are_there(self):
        self.used[:] = 1
        plans = []
        needs = _plans.Plan.varlen_needs

        def spy(plan, sizes, total_q, total_k):
            plans.append(total_k)
            return needs(plan, sizes, total_q, total_k)

        with mock.patch.object(_plans.Plan, "varlen_needs", spy):
            lssar.attention_with_kv_cache(self.q, self.cache_k, self.cache_v, cache_seqlens=self.used)
        self.assertEqual(plans, [3])

    def test_a_number_for_all(self):
        one = torch.full((3,), 9, dtype=torch.int32)
        results = [
            lssar.attention_with_kv_cache(self.q, self.cache_k, self.cache_v, cache_seqlens=n)
            for n in (9, one)
        ]
        self.assertTrue(torch.equal(*results))

    def test_errors_name_the_argument(self):
        good = (self.q, self.cache_k, self.cache_v)
        many = torch.tensor([0, 51, 17], dtype=torch.int32)
        for what, arguments, options in (
            ("cache_seqlens: from 0 to 51", good, {"cache_seqlens": many}),
            ("cache_seqlens: 49; must be from 0 to 48", (*good, self.k, self.v), {"cache_seqlens": 49}),
            ("cache_seqlens: 1099511627776", good, {"cache_seqlens": 2**40}),
            ("k and v", (*good, self.k), {}),
            ("key_norms: list; must be a torch.Tensor", good, {"key_norms": []}),
            ("key_norms: torch.float32 \\(3, 50, 2\\)", good, {"key_norms": torch.zeros(3, 50, 2)}),
            (
                "key_norms: a nested tensor",
                good,
                {"key_norms": torch.nested.nested_tensor([torch.zeros(2, 50)] * 3)},
            ),
            ("key_norms: torch.float64", good, {"key_norms": torch.zeros(3, 2, 50).double()}),
            (
                "key_norms: must be None with score 'softmax'",
                good,
                {"key_norms": torch.zeros(3, 2, 50), "score": "softmax"},
            ),
            ("k: torch.float32 \\(3, 2, 2, 8\\)", (*good, self.k[..., :8], self.v), {}),
            ("q: shape", (self.q[0], *good[1:]), {}),
            ("k_cache: shape", (self.q, self.cache_k[0], self.cache_v), {}),
            ("k_cache: dtype", (self.q, self.cache_k.half(), self.cache_v), {}),
            ("v_cache: heads and length .* of k_cache", (self.q, self.cache_k, self.cache_v[:, 1:]), {}),
        ):
            with self.subTest(what=what):
                with self.assertRaisesRegex((TypeError, ValueError), f"^{what}"):
                    lssar.attention_with_kv_cache(*arguments, **options)

    def test_memory_that_is_shared_is_named_as_the_arguments_are(self):
        k, v = self.cache_k, self.cache_v
        new = (self.k, self.v)
        for what, tensors in (
            ("v_cache overlaps k_cache:", (k, k, *new)),
            ("k_cache overlaps k:", (k, v, k[:, :2], self.v)),
            ("k_cache: strides 0,", (k[:1].expand_as(k), v, *new)),
        ):
            with self.subTest(what=what):
                with self.assertRaisesRegex(lssar.LssarError, f"invalid argument: {what}"):
                    lssar.attention_with_kv_cache(self.q, *tensors, cache_seqlens=4)


if __name__ == "__main__":
    unittest.main()
