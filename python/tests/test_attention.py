"""Values and gradients of lssar.attention on CPU tensors against float64 autograd."""

import unittest
import warnings

import torch

import definition
import lssar
from definition import check, random_inputs


class Values(unittest.TestCase):
    def test_every_dtype(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                o, dq, dk, dv = check(self, *random_inputs(batch=2, dtype=dtype))
                self.assertEqual({x.dtype for x in (o, dq, dk, dv)}, {dtype})

    def test_powers_and_offsets(self):
        for p, offset in ((0, 1.0), (1, 0.0), (3, 0.5), (15, 1), (15, 0.0)):
            with self.subTest(p=p, offset=offset):
                check(self, *random_inputs(), p=p, offset=offset)

    def test_without_a_mask(self):
        check(self, *random_inputs(len_q=29), causal=False)

    def test_not_causal_by_default(self):
        """As torch's own attention and others."""
        q, k, v = random_inputs(len_q=7)
        self.assertTrue(
            torch.equal(lssar.attention(q, k, v), lssar.attention(q, k, v, causal=False))
        )

    def test_layout(self):
        q, k, v = random_inputs(heads=4, kv_heads=2, len_q=7, dim_v=24)
        turned = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in (q, k, v)]
        wanted = definition.with_gradients(lssar.attention, q, k, v)
        o = lssar.attention(*turned, layout="blhd")
        self.assertTrue(o.is_contiguous())
        grad_o = torch.randn(wanted[0].shape, generator=torch.Generator().manual_seed(7))
        o.backward(grad_o.transpose(1, 2))
        for x, y in zip((o, *(t.grad for t in turned)), wanted):
            self.assertTrue(torch.equal(x.transpose(1, 2), y))
        self.assertTrue(torch.equal(lssar.attention(q, k, v, layout="bhld"), wanted[0]))

    def test_query_heads_that_share_kv_heads(self):
        check(self, *random_inputs(batch=2, heads=6, kv_heads=2))
        check(self, *random_inputs(heads=4, kv_heads=1))

    def test_other_dimension_of_v(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                check(self, *random_inputs(dim=24, dim_v=40, dtype=dtype))

    def test_different_numbers_of_queries_and_keys(self):
        for len_q, len_k in ((1, 37), (5, 37), (37, 5)):
            for causal in (True, False):
                with self.subTest(len_q=len_q, len_k=len_k, causal=causal):
                    check(self, *random_inputs(len_q=len_q, len_k=len_k), causal=causal)

    def test_lengths_1_and_primes(self):
        for length in (1, 2, 3, 67, 131):
            with self.subTest(length=length):
                check(self, *random_inputs(len_q=length))

    def test_no_queries_no_keys_no_batch(self):
        for sizes in ({"len_q": 0, "len_k": 5}, {"len_q": 5, "len_k": 0}, {"batch": 0}):
            with self.subTest(**sizes):
                q, k, v = random_inputs(**sizes)
                o = lssar.attention(q, k, v)
                self.assertEqual(o.shape, q.shape)
                o.sum().backward()
                for x in (o, q.grad, k.grad, v.grad):
                    self.assertFalse(x.bool().any())

    def test_last_rows_continue_a_sequence(self):
        """Causal attention is bottom-right aligned: the last queries alone give the last rows."""
        q, k, v = random_inputs(len_q=20)
        with torch.no_grad():
            last = lssar.attention(q[:, :, 17:], k, v, causal=True)
            whole = lssar.attention(q, k, v, causal=True)
            self.assertTrue(torch.equal(whole[:, :, 17:], last))

    def test_zero_vectors_are_data(self):
        q, k, v = random_inputs()
        with torch.no_grad():
            q[:, :, 4] = 0
            k[:, :, 7] = 0
        _, dq, dk, _ = check(self, q, k, v)
        self.assertFalse(dq[:, :, 4].bool().any() or dk[:, :, 7].bool().any())


class Gradients(unittest.TestCase):
    def setUp(self):
        # gradcheck doubts float32; with this eps and atol it is precise enough.
        warnings.filterwarnings("ignore", message="Input #.*not a double precision")
    def test_gradcheck_in_float32(self):
        for options in (
            {"p": 3, "offset": 0.0},
            {"p": 0},
            {"p": 2, "causal": False, "offset": 0.0},
        ):
            with self.subTest(**options):
                inputs = random_inputs(heads=2, kv_heads=1, len_q=5, dim=8)
                self.assertTrue(
                    torch.autograd.gradcheck(
                        lambda q, k, v: lssar.attention(q, k, v, **options),  # noqa: B023
                        inputs,
                        eps=1e-3,
                        atol=1e-2,
                    )
                )

    def test_gradcheck_of_the_defaults(self):
        inputs = random_inputs(heads=1, len_q=6, dim=8, seed=3)
        self.assertTrue(torch.autograd.gradcheck(lssar.attention, inputs, eps=1e-3, atol=1e-2))

    def test_only_what_is_asked_for(self):
        q, k, v = random_inputs()
        wanted = definition.with_gradients(lssar.attention, q, k, v)
        for which in range(3):
            inputs = [x.detach().requires_grad_(i == which) for i, x in enumerate((q, k, v))]
            o = lssar.attention(*inputs)
            grad_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(7))
            o.backward(grad_o)
            for i, x in enumerate(inputs):
                if i == which:
                    self.assertTrue(torch.equal(x.grad, wanted[1 + i]))
                else:
                    self.assertIsNone(x.grad)

    def test_expanded_gradient(self):
        """sum() gives a grad_o whose strides are all 0."""
        q, k, v = random_inputs()
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        definition.attention(*wide).sum().backward()
        lssar.attention(q, k, v).sum().backward()
        results = (torch.zeros(()), q.grad, k.grad, v.grad)
        wanted = (torch.zeros(()), *(x.grad for x in wide))
        definition.assert_close(self, results, wanted, torch.float32)

    def test_repeatable_bitwise(self):
        inputs = random_inputs(len_q=70)
        first = definition.with_gradients(lssar.attention, *inputs)
        second = definition.with_gradients(lssar.attention, *inputs)
        for a, b in zip(first, second):
            self.assertTrue(torch.equal(a, b))

    def test_changed_input_is_noticed(self):
        q, k, v = random_inputs()
        o = lssar.attention(q, k, v)
        with torch.no_grad():
            k.zero_()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            o.sum().backward()

    def test_changed_o_is_noticed(self):
        """The backward reads it. A view of it shares its memory, a copy does not."""
        q, k, v = random_inputs()
        changes = (
            lambda o: o.mul_(2),
            lambda o: o.detach().zero_(),
            lambda o: o.transpose(1, 2)[0].add_(1),
        )
        for window in ((-1, -1), (4, 0)):
            for change in changes:
                o = lssar.attention(q, k, v, window_size=window, layout="blhd")
                change(o)
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    o.sum().backward()
            o = lssar.attention(q, k, v, window_size=window, layout="blhd")
            (o * 1.0).mul_(2).sum().backward()

    def test_second_derivative_is_refused(self):
        q, k, v = random_inputs(len_q=5)
        (dq,) = torch.autograd.grad(lssar.attention(q, k, v).sum(), q, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "gradient of the gradient"):
            dq.sum().backward()

    def test_without_gradient_nothing_is_kept(self):
        q, k, v = random_inputs(len_q=5)
        with torch.no_grad():
            self.assertIsNone(lssar.attention(q, k, v).grad_fn)
        self.assertIsNone(lssar.attention(q.detach(), k.detach(), v.detach()).grad_fn)
        self.assertIsNotNone(lssar.attention(q, k.detach(), v.detach()).grad_fn)

    def test_same_values_with_and_without_gradient(self):
        q, k, v = random_inputs(len_q=40, dtype=torch.bfloat16)
        with torch.no_grad():
            o = lssar.attention(q, k, v)
        self.assertTrue(torch.equal(lssar.attention(q, k, v), o))


class Autocast(unittest.TestCase):
    def test_float32_is_cast(self):
        q, k, v = random_inputs(len_q=20)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = lssar.attention(q, k, v)
        self.assertEqual(o.dtype, torch.bfloat16)
        o.sum().backward()
        self.assertEqual(q.grad.dtype, torch.float32)
        with torch.no_grad():
            self.assertTrue(torch.equal(o, lssar.attention(*(x.bfloat16() for x in (q, k, v)))))

    def test_mixed_inputs_meet_in_its_dtype(self):
        q, k, v = random_inputs(len_q=5)
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            o = lssar.attention(q.bfloat16(), k, v)
        self.assertEqual(o.dtype, torch.bfloat16)

    def test_a_call_that_was_right_without_it_is_cast(self):
        q, k, v = random_inputs(len_q=6)
        with torch.no_grad():
            plain = [lssar.attention(q, k, v) for _ in range(2)]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                cast = [lssar.attention(q, k, v) for _ in range(2)]
        self.assertEqual({o.dtype for o in plain}, {torch.float32})
        self.assertEqual({o.dtype for o in cast}, {torch.bfloat16})

    def test_off_changes_nothing(self):
        with torch.autocast("cpu", enabled=False), torch.no_grad():
            self.assertEqual(lssar.attention(*random_inputs(len_q=5)).dtype, torch.float32)


if __name__ == "__main__":
    unittest.main()
