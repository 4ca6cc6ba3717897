"""Memory layouts: what is read without a copy, and how results lie in memory."""

import unittest
from unittest import mock

import torch

import definition
import lssar
from definition import assert_close, check, expected, random_inputs, with_gradients
from lssar import _launch, _plans, _structs
from lssar._library import library


class ReadInPlace(unittest.TestCase):
    """Tests that look at the addresses which the library got."""

    def setUp(self):
        self.calls = []
        for name in ("execute_forward", "execute_forward_train", "execute_backward"):
            patch = mock.patch.object(library(), name, self.recorded(getattr(library(), name)))
            patch.start()
            self.addCleanup(patch.stop)
        _launch._signatures.clear()  # they know the functions
        self.addCleanup(_launch._signatures.clear)

    def recorded(self, execute):
        def record(plan, call):
            self.calls.append(_structs.Call.from_buffer_copy(call))
            return execute(plan, call)

        return record

    def assert_read_in_place(self, *tensors):
        """By every call, forward and backward."""
        self.assertTrue(self.calls)
        for call in self.calls:
            read = (call.q.data, call.k.data, call.v.data)
            for tensor in tensors:
                self.assertIn(tensor.data_ptr(), read)

    def test_contiguous(self):
        q, k, v = random_inputs()
        check(self, q, k, v)
        self.assertEqual(len(self.calls), 2)
        for call in self.calls:
            for got, tensor in ((call.q, q), (call.k, k), (call.v, v)):
                self.assertEqual(got.data, tensor.data_ptr())
                self.assertEqual(tuple(got.strides), tensor.stride()[:3])

    def test_heads_behind_length(self):
        for dtype in (torch.float32, torch.bfloat16):
            with self.subTest(dtype=dtype):
                self.calls.clear()
                made = [torch.randn(2, 19, 3, 16).to(dtype) for _ in range(3)]
                leaves = [x.requires_grad_() for x in made]
                q, k, v = (x.transpose(1, 2) for x in leaves)
                o, dq, dk, dv = check(self, q, k, v)
                self.assert_read_in_place(*leaves)
                for x in (o, dq, dk, dv):
                    self.assertTrue(x.transpose(1, 2).is_contiguous())

    def test_o_is_read_where_it_was_written(self):
        for dtype in (torch.float32, torch.bfloat16):
            for axis in (1, 2):  # of the heads
                self.calls.clear()
                made = [torch.randn(2, 19, 19, 16).to(dtype) for _ in range(3)]
                leaves = [x.requires_grad_() for x in made]
                q, k, v = (x.transpose(1, axis) for x in leaves)
                o = lssar.attention(q, k, v)
                o.backward(torch.ones_like(o).contiguous())
                self.assertEqual(len(self.calls), 2)
                for call in self.calls:
                    self.assertEqual(call.o.data, o.data_ptr())
                    self.assertEqual(tuple(call.o.strides), o.stride()[:3])

    def test_packed_qkv(self):
        packed = torch.randn(2, 19, 3, 4, 16, requires_grad=True)
        q, k, v = (x.transpose(1, 2) for x in packed.unbind(2))
        o = check(self, q, k, v)[0]
        self.assert_read_in_place(q, k, v)
        self.assertTrue(o.transpose(1, 2).is_contiguous())

    def test_gradient_of_packed_qkv(self):
        packed = torch.randn(1, 19, 3, 2, 16, requires_grad=True)
        q, k, v = (x.transpose(1, 2) for x in packed.unbind(2))
        o = lssar.attention(q, k, v)
        grad_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(7))
        o.backward(grad_o)
        wanted = expected(*(x.transpose(1, 2) for x in packed.detach().unbind(2)))
        got = (o, *(x.transpose(1, 2) for x in packed.grad.unbind(2)))
        assert_close(self, got, wanted, torch.float32)

    def test_broadcast_keys(self):
        """Strides of 0 are read in place; the gradient is summed by autograd."""
        q, _, _ = random_inputs(batch=3)
        k, v = (torch.randn(1, 2, 33, 16, requires_grad=True) for _ in range(2))
        check(self, q, k.expand(3, -1, -1, -1), v.expand(3, -1, -1, -1))
        self.assert_read_in_place(k, v)

    def test_slices_of_a_cache(self):
        cache = torch.randn(2, 2, 64, 16)
        q, _, _ = random_inputs(batch=2, len_q=3)
        k, v = cache[:, :, :21], cache[:, :, 30:51]
        check(self, q, k.requires_grad_(), v.requires_grad_())
        self.assert_read_in_place(k, v)

    def test_one_copy_of_a_strided_last_dimension(self):
        q, k, v = random_inputs(dim=16)
        strided = torch.randn(1, 2, 16, 33).transpose(2, 3).requires_grad_()
        check(self, strided, k, v)
        read = [call.q.data for call in self.calls]
        self.assertEqual(read[0], read[1])  # the backward reads the forward's copy
        self.assertNotIn(strided.data_ptr(), read)


class Layouts(unittest.TestCase):
    def test_addresses_and_strides_that_are_not_aligned(self):
        for dtype in (torch.float32, torch.bfloat16):
            with self.subTest(dtype=dtype):
                memory = torch.randn(3, 1, 2, 33, 17).to(dtype)
                q, k, v = (x[..., 1:].requires_grad_() for x in memory)
                check(self, q, k, v)

    def test_gradient_that_is_not_aligned(self):
        """The backward takes other kernels than the forward then."""
        q, k, v = random_inputs(dtype=torch.bfloat16)
        aligned = with_gradients(lssar.attention, q, k, v)
        o = lssar.attention(q, k, v)
        memory = torch.empty((*o.shape[:3], o.shape[3] + 1), dtype=o.dtype)
        grad_o = memory[..., 1:]
        grad_o.copy_(torch.randn(o.shape, generator=torch.Generator().manual_seed(7)))
        grads = torch.autograd.grad(o, (q, k, v), grad_o)
        assert_close(self, (o, *grads), expected(q, k, v), torch.bfloat16)
        self.assertTrue(torch.equal(o, aligned[0]))

    def test_strides_of_sizes_of_one_do_not_matter(self):
        q, k, v = random_inputs(heads=1, len_q=1, len_k=9)
        with torch.no_grad():
            wanted = lssar.attention(q, k, v)
            odd = q.as_strided(q.shape, (16, 3, 5, 1))
            self.assertTrue(torch.equal(lssar.attention(odd, k, v), wanted))

    def test_a_call_like_an_earlier_one_brings_its_own_alignment(self):
        """Same shapes and strides, which the package remembers, at another address."""
        memory = torch.randn(3, 2 * 33 * 16 + 1)
        for start in (0, 1, 0):
            shape = (3, 1, 2, 33, 16)
            strides = (memory.stride(0), 2 * 33 * 16, 33 * 16, 16, 1)
            q, k, v = memory.as_strided(shape, strides, start).unbind()
            with torch.no_grad():
                wanted = definition.attention(q.double(), k.double(), v.double()).float()
                o = lssar.attention(q, k, v)
            torch.testing.assert_close(o, wanted, rtol=1e-4, atol=1e-5)

    def test_saved_tensors_may_come_back_laid_out_otherwise(self):
        """As hooks of saved tensors do that offload them."""
        x = torch.randn(2, 3, 33, 2, 16)
        q, k, v = (y.transpose(1, 2).detach().requires_grad_() for y in x.unbind(1))
        wanted = with_gradients(lssar.attention, q, k, v)
        with torch.autograd.graph.saved_tensors_hooks(lambda y: y.contiguous(), lambda y: y):
            results = with_gradients(lssar.attention, q, k, v)
        for result, reference in zip(results, wanted):
            self.assertTrue(torch.equal(result, reference))

    def gradients_with_hook(self, pack, inputs):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            return with_gradients(lssar.attention, *inputs)

    def test_hooks_that_round_floats_leave_what_was_saved_alone(self):
        """It is bits of 16-bit numbers, too, which are no floats when they are seen as float32."""
        inputs = random_inputs(dtype=torch.bfloat16)
        wanted = with_gradients(lssar.attention, *inputs)
        rounded = lambda x: x.half().float() if x.dtype == torch.float32 else x  # noqa: E731
        for result, reference in zip(self.gradients_with_hook(rounded, inputs), wanted):
            self.assertTrue(torch.equal(result, reference))

    def test_hooks_that_change_what_was_saved_are_noticed(self):
        """An address alone does not say so, and memory behind a shorter tensor would be read."""
        inputs = random_inputs(len_k=32, dim_v=24)

        def is_o(x):
            return x.shape == (1, 2, 33, 24)

        for change in (lambda x: x.half(), lambda x: x[:8], lambda x: x[::2], lambda x: x.view(2, -1).t()):

            def pack(x):
                return change(x) if x.dim() == 1 else x  # noqa: B023

            with self.assertRaisesRegex(ValueError, "^saved: torch.*; must be torch.int32"):
                self.gradients_with_hook(pack, inputs)

        for change in (lambda x: x.half(), lambda x: x[..., :8], lambda x: x.transpose(1, 2)):

            def pack_o(x):
                return change(x) if is_o(x) else x  # noqa: B023

            with self.assertRaisesRegex(ValueError, "^o: torch.*; must be torch.float32"):
                self.gradients_with_hook(pack_o, inputs)

        def strided(x):
            x = x.transpose(2, 3).contiguous().transpose(2, 3) if is_o(x) else x
            return torch.stack([x, x], 1)[:, 0] if x.dim() == 1 else x

        wanted = with_gradients(lssar.attention, *inputs)
        for result, reference in zip(self.gradients_with_hook(strided, inputs), wanted):
            self.assertTrue(torch.equal(result, reference))


class Saved(unittest.TestCase):
    """How many bytes the forward keeps for the backward beside q, k, v and o."""

    def kept(self, *inputs, **options):
        """Bytes of the saved tensors that are neither an input nor o."""
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda x: x):
            o = lssar.attention(*inputs, **options)
        known = {x.data_ptr() for x in (*inputs, o)}
        return sum(x.numel() * x.element_size() for x in kept if x.data_ptr() not in known)

    def test_bytes_of_a_row_and_head(self):
        """The first of them: 2 bytes for each of 128 numbers of o, 16 of statistics, and X."""
        for dtype, p, offset, wanted in (
            (torch.bfloat16, 15, 1.0, 2 * 128 + 16 + 2 * 128),
            (torch.float16, 15, 0.0, 2 * 128 + 16),
            (torch.float32, 15, 1.0, 16 + 4 * 128),
            (torch.float32, 15, 0.0, 16),
        ):
            with self.subTest(dtype=dtype, p=p, offset=offset):
                key = (True, _launch.DTYPES[dtype], 128, 128, 2, 2, True, p, offset, "", 16)
                *saved, _ = _plans.context("virtual").plan(key).needs((3, 2, 2, 5, 5))
                self.assertEqual(sum(saved), 3 * 2 * 5 * wanted)
                q = torch.zeros(3, 2, 5, 128, dtype=dtype, device="meta")
                self.assertEqual(lssar.saved_bytes(q, q, p, offset), 3 * 2 * 5 * wanted)

    def test_no_more_is_kept(self):
        for window in ((-1, -1), (4, 0)):
            for dtype in (torch.float32, torch.bfloat16):
                q, k, v = (x.transpose(1, 2) for x in random_inputs(dim_v=24, dtype=dtype))
                for options in ({"p": 15}, {"p": 0}):
                    kept = self.kept(q, k, v, window_size=window, layout="blhd", **options)
                    self.assertEqual(kept, lssar.saved_bytes(q, v, **options))

    def test_wrong_arguments_are_named(self):
        q = torch.ones(1, 1, 2, 8)
        for error, pattern, arguments in (
            (TypeError, "^q: dtype torch.float64; must be a tensor of float16", (q.double(), q)),
            (TypeError, "^v: list; must be a tensor", (q, [1])),
            (ValueError, "^p: 1025; must be", (q, q, 1025)),
        ):
            with self.assertRaisesRegex(error, pattern):
                lssar.saved_bytes(*arguments)


if __name__ == "__main__":
    unittest.main()
