"""torch.func, forward mode and second derivatives: right, or refused; and float64, the reference."""

import unittest

import torch
from torch import func
from torch.autograd import forward_ad

import lssar
from definition import attention as definition, random_inputs
from lssar import _op


@unittest.skipUnless(_op.HAS_OPERATORS, "torch is older than 2.5")
class Transforms(unittest.TestCase):
    def setUp(self):
        self.q, self.k, self.v = (x.detach() for x in random_inputs(len_q=5, dim=8))
        generator = torch.Generator().manual_seed(3)
        self.many = [torch.randn(3, 1, 2, 5, 8, generator=generator) for _ in range(3)]

    def check(self, transform):
        """transform(attention) gives the same for lssar.attention and for the definition."""

        def reference(q, k, v, **options):
            return definition(q.double(), k.double(), v.double(), **options).float()

        result, wanted = transform(lssar.attention), transform(reference)
        torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-4)

    def loss(self, attention):
        return lambda q, k, v: attention(q, k, v, causal=True).square().sum()

    def test_grad(self):
        self.check(lambda a: func.grad(self.loss(a), (0, 1, 2))(self.q, self.k, self.v))

    def test_vjp(self):
        self.check(lambda a: func.vjp(lambda x: a(x, self.k, self.v), self.q)[1](self.v)[0])

    def test_jacrev(self):
        self.check(lambda a: func.jacrev(lambda x: a(x, self.k, self.v))(self.q))

    def test_vmap(self):
        q, k, v = self.many
        self.check(lambda a: func.vmap(a)(q, k, v))
        in_dims = (None, 1, 3)
        self.check(lambda a: func.vmap(a, in_dims)(self.q, k.movedim(0, 1), v.movedim(0, 3)))

    def test_vmap_of_grad(self):
        self.check(lambda a: func.vmap(func.grad(self.loss(a), (0, 1, 2)))(*self.many))

    def test_vmap_of_grad_in_bfloat16(self):
        """The same entries one by one: what the rounding of o took has a batch, too."""
        many = [x.bfloat16() for x in self.many]
        gradients = func.grad(self.loss(lssar.attention), (0, 1, 2))
        one_by_one = [gradients(*entry) for entry in zip(*many)]
        for result, parts in zip(func.vmap(gradients)(*many), zip(*one_by_one)):
            self.assertTrue(torch.equal(result, torch.stack(parts)))

    def test_vmap_of_vmap_of_grad(self):
        inner = lambda a: func.vmap(func.grad(self.loss(a)), (0, None, None))  # noqa: E731
        self.check(lambda a: func.vmap(inner(a), (None, 0, 0))(*self.many))

    def test_vmap_of_jacrev(self):
        self.check(lambda a: func.vmap(func.jacrev(lambda *x: a(*x).sum(3)))(*self.many))

    def test_grad_of_vmap(self):
        def loss(attention):
            return lambda x: func.vmap(attention, (0, None, 0))(x, self.k, x).square().sum()

        self.check(lambda a: func.grad(loss(a))(self.many[0]))

    def test_grad_of_a_value_beside_a_grad(self):
        """The outer level differentiates what the inner one computes, though not its gradient."""

        def value(attention):
            loss = self.loss(attention)
            return lambda x: func.grad_and_value(lambda y: loss(x * y, self.k, self.v))(self.q)[1]

        self.check(lambda a: func.grad(value(a))(self.q))

    def test_of_operators(self):
        def operator(q, k, v, causal=False):
            return torch.ops.lssar.forward(q, k, v, causal, 15, 1.0, 0)

        result = func.grad(self.loss(operator))(self.q, self.k, self.v)
        wanted = func.grad(self.loss(lssar.attention))(self.q, self.k, self.v)
        self.assertTrue(torch.equal(result, wanted))

    def test_compiled(self):
        compiled = torch.compile(
            lambda *x: func.vmap(func.grad(self.loss(lssar.attention)))(*x), backend="aot_eager"
        )
        wanted = func.vmap(func.grad(self.loss(lssar.attention)))(*self.many)
        torch.testing.assert_close(compiled(*self.many), wanted)

    def test_batches_of_grad_o(self):
        """The call is a plain one; its backward is the first to see batches."""

        def gradients(attention):
            q = self.q.clone().requires_grad_()
            o, grads = attention(q, self.k, self.v), self.many[0]
            return torch.autograd.grad(o, q, grads, is_grads_batched=True)[0]

        self.check(gradients)

    def assert_refused(self, pattern, function):
        with self.assertRaisesRegex(NotImplementedError, pattern):
            function()

    def test_forward_mode_is_refused(self):
        q, k, v = self.q, self.k, self.v

        def dual(requires_grad):
            with forward_ad.dual_level():
                x = forward_ad.make_dual(q.clone().requires_grad_(requires_grad), v)
                return lssar.attention(x, k, v)

        def of_values():
            return func.jvp(lambda x: lssar.attention(q, k, x), (v,), (v,))

        def loss(x):
            return lssar.attention(x, k, v).sum()

        for function in (
            lambda: func.jvp(loss, (q,), (v,)),
            of_values,
            lambda: func.jvp(lambda x: torch.ops.lssar.forward(x, k, v, True, 15, 1.0, 0), (q,), (v,)),
            lambda: func.jacfwd(loss)(q),
            lambda: func.hessian(loss)(q),
            lambda: func.vmap(lambda t: func.jvp(loss, (q,), (t,)))(self.many[0]),
            lambda: dual(False),
            lambda: dual(True),
        ):
            self.assert_refused("forward-mode differentiation .* use reverse mode", function)

    def test_no_tangent_is_no_error(self):
        """What is not differentiated may be computed inside."""
        q, k, v = self.q, self.k, self.v
        result = func.jvp(lambda x: x * lssar.attention(q, k, v), (q,), (v,))[1]
        torch.testing.assert_close(result, v * lssar.attention(q, k, v))

    def test_second_derivatives_are_refused(self):
        def loss(x):
            return lssar.attention(x, self.k, self.v).sum()

        q = self.q
        for function in (
            lambda: func.grad(lambda x: func.grad(loss)(x).sum())(q),
            lambda: func.jacrev(func.jacrev(loss))(q),
            lambda: torch.autograd.functional.jvp(loss, q, q),
            lambda: torch.autograd.functional.hessian(loss, q),
        ):
            self.assert_refused("gradient of the gradient", function)


@unittest.skipUnless(_op.HAS_OPERATORS, "torch is older than 2.5")
class Sinks(unittest.TestCase):
    """Entries of a vmap may have sinks, and have gradients of them, of their own."""

    def setUp(self):
        generator = torch.Generator().manual_seed(3)
        draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
        self.many = (draw(3, 2, 4, 5, 8), draw(3, 2, 2, 5, 8), draw(3, 2, 2, 5, 8), draw(3, 4))
        self.one = tuple(x[0] for x in self.many)

    def attend(self, q, k, v, sink):
        return lssar.attention(q, k, v, causal=True, score="softmax,sink=per_head", sink=sink)

    def loss(self, *inputs):
        return self.attend(*inputs).square().sum()

    def one_by_one(self, function, in_dims):
        inputs = list(zip(self.chosen(in_dims), in_dims))
        results = [
            function(*(x if d is None else x.select(d, i) for x, d in inputs)) for i in range(3)
        ]
        if isinstance(results[0], tuple):
            return tuple(torch.stack(x) for x in zip(*results))
        return torch.stack(results)

    def chosen(self, in_dims):
        """All entries along dimension d, or the first one."""
        return [
            one if d is None else many.movedim(0, d)
            for one, many, d in zip(self.one, self.many, in_dims)
        ]

    def test_vmap(self):
        gradient = func.grad(self.loss, (0, 1, 2, 3))
        for in_dims in ((0, 0, 0, 0), (0, 0, 0, None), (None, None, None, 1), (None, 2, 4, 0)):
            for function in (self.attend, gradient):
                with self.subTest(in_dims=in_dims, function=function):
                    results = func.vmap(function, in_dims)(*self.chosen(in_dims))
                    torch.testing.assert_close(results, self.one_by_one(function, in_dims))

    def test_grad_of_vmap(self):
        """The sink that entries share has the sum of their gradients."""
        q, k, v, _ = self.many
        sink = self.one[3]
        result = func.grad(lambda t: func.vmap(self.loss, (0, 0, 0, None))(q, k, v, t).sum())(sink)
        wanted = self.one_by_one(func.grad(self.loss, 3), (0, 0, 0, None)).sum(0)
        torch.testing.assert_close(result, wanted)

    def test_batches_of_grad_o(self):
        q, k, v, sink = (x.clone().requires_grad_() for x in self.one)
        o = self.attend(q, k, v, sink)
        grads = torch.randn(3, *o.shape, generator=torch.Generator().manual_seed(4))
        result = torch.autograd.grad(o, (q, sink), grads, is_grads_batched=True, retain_graph=True)
        wanted = zip(*(torch.autograd.grad(o, (q, sink), g, retain_graph=True) for g in grads))
        for x, y in zip(result, wanted):
            torch.testing.assert_close(x, torch.stack(y))

    def test_jacrev(self):
        q, k, v, sink = self.one
        result = func.jacrev(lambda t: self.attend(q, k, v, t).sum((0, 2, 3)))(sink)
        self.assertTrue(torch.equal(result, result.diag().diag()))  # heads are independent
        wanted = func.grad(lambda t: self.attend(q, k, v, t).sum())(sink)
        torch.testing.assert_close(result.diag(), wanted)

    def test_forward_mode_is_refused(self):
        q, k, v, sink = self.one
        with self.assertRaisesRegex(NotImplementedError, "forward-mode differentiation"):
            func.jvp(lambda t: self.attend(q, k, v, t), (sink,), (sink,))


class Float64(unittest.TestCase):
    """Any number of derivatives, of torch's own operations."""

    def inputs(self, **sizes):
        return [x.detach().double().requires_grad_() for x in random_inputs(dim=8, **sizes)]

    def test_gradcheck(self):
        for options in ({}, {"causal": True}, {"p": 0}, {"p": 2, "offset": 0.0}):
            inputs = self.inputs(heads=2, kv_heads=1, len_q=4, len_k=5)

            def attention(q, k, v):
                return lssar.attention(q, k, v, **options)  # noqa: B023

            with self.subTest(**options):
                self.assertTrue(
                    torch.autograd.gradcheck(
                        attention, inputs, check_forward_ad=True, check_batched_grad=True
                    )
                )

    def test_gradgradcheck(self):
        inputs = self.inputs(heads=1, len_q=3)
        for p in (0, 3):
            self.assertTrue(
                torch.autograd.gradgradcheck(
                    lambda *x: lssar.attention(*x, causal=True, p=p), inputs  # noqa: B023
                )
            )

    def test_is_what_the_kernels_compute(self):
        inputs = self.inputs(heads=4, kv_heads=2, len_q=9, len_k=12)
        o = lssar.attention(*inputs, causal=True)
        self.assertEqual(o.dtype, torch.float64)
        torch.testing.assert_close(
            lssar.attention(*(x.float() for x in inputs), causal=True).double(),
            o,
            rtol=1e-4,
            atol=1e-5,
        )

    def test_layout_and_autocast(self):
        q, k, v = self.inputs(len_q=4)
        wanted = lssar.attention(q, k, v)
        turned = (x.transpose(1, 2) for x in (q, k, v))
        self.assertTrue(torch.equal(lssar.attention(*turned, layout="blhd").transpose(1, 2), wanted))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(lssar.attention(q, k, v).dtype, torch.float64)

    def test_zero_vectors_and_no_keys(self):
        q, k, v = self.inputs(len_q=4)
        with torch.no_grad():
            q[:, :, 1] = 0
            k[:, :, 2] = 0
        grads = torch.autograd.grad(lssar.attention(q, k, v).sum(), (q, k, v), create_graph=True)
        second = torch.autograd.grad(sum(x.square().sum() for x in grads), (q, k, v))
        for x in (*grads, *second):
            self.assertTrue(x.isfinite().all())
        q, k, v = self.inputs(len_q=3, len_k=0)
        self.assertFalse(lssar.attention(q, k, v).bool().any())


if __name__ == "__main__":
    unittest.main()
