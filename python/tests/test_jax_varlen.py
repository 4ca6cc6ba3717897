"""lssar.jax.varlen_attention on the cpu device: each sequence against the definition of it alone."""

import functools
import importlib.util
import os
import unittest

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

from test_varlen import cumulative, one_by_one, packed_inputs, random_grad

HAS_JAX = importlib.util.find_spec("jax") is not None
if HAS_JAX:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import lssar
    import lssar.jax
    from lssar.jax import varlen_attention

RELATIVE = {torch.float32: 2e-5, torch.bfloat16: 5e-3}  # docs/accuracy.md


def to_jax(x):
    name = str(x.dtype).split(".")[1]
    return jnp.asarray((x.detach().float() if x.is_floating_point() else x).numpy(), dtype=name)


def to_torch(x):
    return torch.from_numpy(np.array(x, np.float64))


def arrays(*tensors):
    return [to_jax(x) for x in tensors]


@unittest.skipUnless(HAS_JAX, "JAX is not installed: pip install jax")
class JaxVarlen(unittest.TestCase):
    def assert_close(self, results, wanted, dtype):
        for i, (x, y) in enumerate(zip(results, wanted)):
            self.assertEqual(x.shape, y.shape)
            allowed = RELATIVE[dtype] * y.norm().item() + 2.0**-20 * y.numel() ** 0.5
            error = (to_torch(x) - y).norm().item()
            self.assertTrue(error <= allowed, f"result {i}: |error| {error}, allowed {allowed}")

    def test_values_and_gradients(self):
        for dtype in (torch.float32, torch.bfloat16):
            for causal in (False, True):
                q, k, v, *cu = packed_inputs(dtype=dtype)
                o, pull = jax.vjp(
                    lambda *x: varlen_attention(*x, *arrays(*cu), 33, 33, causal=causal),  # noqa: B023
                    *arrays(q, k, v),
                )
                grad_o = random_grad(torch.empty(o.shape, dtype=dtype))
                wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
                wanted = one_by_one(*wide, *cu, causal=causal)
                grads = torch.autograd.grad(wanted, wide, grad_o.double())
                with self.subTest(dtype=dtype, causal=causal):
                    self.assertEqual(o.dtype.name, str(dtype).split(".")[1])
                    self.assert_close((o, *pull(to_jax(grad_o))), (wanted.detach(), *grads), dtype)

    def test_windows_are_those_of_the_package_for_torch(self):
        window = {"window_size": (9, 2), "window_sinks": 2, "prefix": 3, "causal": True}
        q, k, v, *cu = packed_inputs()
        ours = functools.partial(varlen_attention, **window)
        theirs = lssar.varlen_attention(q, k, v, *cu, **window)
        self.check_equal(lambda *x: ours(*x, *arrays(*cu)), theirs, q, k, v)
        q, k, v = (x.detach()[:30].view(2, 15, *x.shape[1:]).requires_grad_() for x in (q, k, v))
        ours = functools.partial(lssar.jax.attention, layout="blhd", **window)
        self.check_equal(ours, lssar.attention(q, k, v, layout="blhd", **window), q, k, v)

    def test_rotary_positions_are_those_of_the_package_for_torch(self):
        q, k, v, *cu = packed_inputs(lengths=((5, 7), (0, 4), (30, 33), (1, 20)))
        tables = dict(zip(("rotary_cos", "rotary_sin"), lssar.rotary_tables(33, 12)))
        options = {"causal": True, "rotary_interleaved": True}
        ours = {**options, **{name: to_jax(x) for name, x in tables.items()}}
        theirs = lssar.varlen_attention(q, k, v, *cu, **options, **tables)
        function = functools.partial(varlen_attention, **ours)
        self.check_equal(lambda *x: function(*x, *arrays(*cu)), theirs, q, k, v)
        q, k, v = (x.detach()[:30].view(2, 15, *x.shape[1:]).requires_grad_() for x in (q, k, v))
        theirs = lssar.attention(q, k, v, layout="blhd", **options, **tables)
        function = functools.partial(lssar.jax.attention, layout="blhd", **ours)
        self.check_equal(function, theirs, q, k, v)

    def test_rotary_tables_with_a_sink_may_be_traced_and_have_no_gradient(self):
        q, k, v, *cu = packed_inputs(lengths=((9, 9), (12, 12)))
        inputs, lengths = arrays(q, k, v), arrays(*cu)
        cos, sin = arrays(*lssar.rotary_tables(21, 16))
        score = {"score": "softmax,sink=per_head", "p": 0, "sink": jnp.linspace(-1, 2, 4)}

        def of_sequences(cos, sin, x):
            tables = {"rotary_cos": cos, "rotary_sin": sin}
            o = varlen_attention(x, *inputs[1:], *lengths, causal=True, **score, **tables)
            return (o**2).sum()

        def of_one_length(cos, sin, x):
            rows = [y[None] for y in (x, *inputs[1:])]
            tables = {"rotary_cos": cos, "rotary_sin": sin}
            o = lssar.jax.attention(*rows, causal=True, layout="blhd", **score, **tables)
            return (o**2).sum()

        for function in (of_sequences, of_one_length):
            gradient = jax.grad(function, argnums=(0, 1, 2))
            *of_tables, of_q = jax.jit(gradient)(cos, sin, inputs[0])
            np.testing.assert_array_equal(of_q, gradient(cos, sin, inputs[0])[2])
            self.assertTrue(np.asarray(of_q).any())
            for x in of_tables:
                self.assertFalse(np.asarray(x).any())
            batch = jnp.stack([inputs[0], 2 * inputs[0]])
            of_q = jax.vmap(jax.grad(lambda x: function(cos, sin, x)))(batch)  # noqa: B023
            wanted = [gradient(cos, sin, x)[2] for x in batch]
            np.testing.assert_array_equal(of_q, np.stack(wanted))

    def test_slopes_are_those_of_the_package_for_torch(self):
        """Beside a sink and rotary positions, whose operands lie on both sides."""
        q, k, v, *cu = packed_inputs(lengths=((5, 7), (0, 4), (30, 33), (1, 20)))
        score = {"score": "softmax,soft_cap=2,alibi=per_head,sink=per_head", "causal": True}
        of_torch = {
            "sink": torch.linspace(-1, 2, 4),
            "alibi_slopes": torch.tensor([0.5, 0.125, -0.25, 0.01]),
            **dict(zip(("rotary_cos", "rotary_sin"), lssar.rotary_tables(33, 12))),
        }
        of_jax = {name: to_jax(x) for name, x in of_torch.items()}
        theirs = lssar.varlen_attention(q, k, v, *cu, **score, **of_torch)
        function = functools.partial(varlen_attention, **score, **of_jax)
        self.check_equal(lambda *x: function(*x, *arrays(*cu)), theirs, q, k, v)
        q, k, v = (x.detach()[:30].view(2, 15, *x.shape[1:]).requires_grad_() for x in (q, k, v))
        theirs = lssar.attention(q, k, v, layout="blhd", **score, **of_torch)
        function = functools.partial(lssar.jax.attention, layout="blhd", **score, **of_jax)
        self.check_equal(function, theirs, q, k, v)

    def test_slopes_may_be_traced_and_have_no_gradient(self):
        q, k, v, *cu = packed_inputs(lengths=((9, 9), (12, 12)))
        inputs, lengths = arrays(q, k, v), arrays(*cu)
        slopes = jnp.linspace(0.01, 0.5, 4)
        options = {"score": "softmax,alibi=per_head", "causal": True}

        def of_sequences(slopes):
            return (varlen_attention(*inputs, *lengths, alibi_slopes=slopes, **options) ** 2).sum()

        def of_one_length(slopes):
            rows = [x[None] for x in inputs]
            options["layout"] = "blhd"
            return (lssar.jax.attention(*rows, alibi_slopes=slopes, **options) ** 2).sum()

        for function in (of_sequences, of_one_length):
            value, gradient = jax.jit(jax.value_and_grad(function))(slopes)
            self.assertFalse(np.asarray(gradient).any())
            np.testing.assert_allclose(value, function(slopes), rtol=1e-5)
            self.assertNotEqual(value, function(2 * slopes))
            batch = jnp.stack([slopes, 2 * slopes])
            wanted = [function(x) for x in batch]
            np.testing.assert_allclose(jax.vmap(function)(batch), np.stack(wanted), rtol=1e-5)

    def test_wrong_slopes_are_named(self):
        q, k, v, *cu = arrays(*packed_inputs())
        rows = [x[None] for x in (q, k, v)]
        with_alibi = {"score": "softmax,alibi=per_head"}
        slopes = jnp.ones(4)
        for error, text, given, options in (
            (ValueError, r"^alibi_slopes: None; must be float32 \[heads\], \(4,\)", None, with_alibi),
            (ValueError, r"^alibi_slopes: shape \(4,\); must be None", slopes, {}),
            (TypeError, "^alibi_slopes: dtype float16", slopes.astype("float16"), with_alibi),
            (ValueError, r"^alibi_slopes: shape \(2,\); must be \(4,\)", slopes[:2], with_alibi),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                varlen_attention(q, k, v, *cu, alibi_slopes=given, **options)
            with self.subTest(text), self.assertRaisesRegex(error, text):
                lssar.jax.attention(*rows, layout="blhd", alibi_slopes=given, **options)

    def test_rotary_positions_of_any_length_are_exported(self):
        cos, sin = arrays(*lssar.rotary_tables(20, 16))

        def function(*x):
            return lssar.jax.attention(*x, causal=True, rotary_cos=cos, rotary_sin=sin)

        (n,) = jax.export.symbolic_shape("n")
        shapes = [jax.ShapeDtypeStruct((1, 2, n, 16), jnp.float32)] * 3
        checks = {"disabled_checks": lssar.jax.EXPORT_CHECKS}
        exported = jax.export.export(jax.jit(function), **checks)(*shapes)
        inputs = jax.random.normal(jax.random.key(0), (3, 1, 2, 20, 16))
        np.testing.assert_array_equal(exported.call(*inputs), function(*inputs))
        longer = jnp.ones((3, 1, 2, 21, 16))
        with self.assertRaisesRegex(Exception, "lssar: .*rotary_positions = 20: allowed are seq_k = 21"):
            exported.call(*longer).block_until_ready()

    def test_wrong_rotary_tables_are_named(self):
        q, k, v, *cu = arrays(*packed_inputs())
        cos, sin = arrays(*lssar.rotary_tables(33, 16))
        batch = [x[None].swapaxes(1, 2) for x in (q, k, v)]
        for error, pattern, changes in (
            (TypeError, "^rotary_sin: None; must be an array", {"rotary_sin": None}),
            (TypeError, "^rotary_cos: dtype int32", {"rotary_cos": cos.astype(int)}),
            (ValueError, r"^rotary_cos: shape \(33, 9\)", {"rotary_cos": jnp.ones((33, 9))}),
            (ValueError, r"^rotary_sin: shape \(32, 8\); must be", {"rotary_sin": sin[1:]}),
            (ValueError, "^rotary_cos: 33 positions; must be at least 34", {"max_seqlen_k": 34}),
        ):
            options = {"rotary_cos": cos, "rotary_sin": sin, **changes}
            with self.subTest(pattern=pattern), self.assertRaisesRegex(error, pattern):
                varlen_attention(q, k, v, *cu, **options)
        with self.assertRaisesRegex(ValueError, "^rotary_cos: 33 positions; must be at least 64"):
            lssar.jax.attention(*batch, rotary_cos=cos, rotary_sin=sin)
        with self.assertRaisesRegex(Exception, "lssar: .*sequence 4 has 3 queries and 0 keys"):
            varlen_attention(q, k, v, *cu, rotary_cos=cos, rotary_sin=sin).block_until_ready()

    def check_equal(self, ours, theirs, *inputs):
        """The same kernels: the same bits, and those of gradients."""
        grad_o = random_grad(theirs)
        o, pull = jax.vjp(jax.jit(ours), *arrays(*inputs))
        wanted = (theirs.detach(), *torch.autograd.grad(theirs, inputs, grad_o))
        for x, y in zip((o, *pull(to_jax(grad_o))), wanted):
            self.assertTrue(torch.equal(to_torch(x), y.double()))

    def test_lengths_are_values_of_a_compiled_program(self):
        q, k, v, *cu = packed_inputs()
        traces = []

        @jax.jit
        def gradients(q, k, v, cu_q, cu_k):
            traces.append(q)

            def total(*x):
                return (varlen_attention(*x, cu_q, cu_k, causal=True) ** 2).sum()

            return jax.value_and_grad(total, argnums=(0, 1, 2))(q, k, v)

        others = [cumulative([2, 10, 0, 20, 10]), cumulative([30, 1, 1, 31, 1])]
        for lengths in (cu, others):
            value, grads = gradients(*arrays(q, k, v, *lengths))
            wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
            wanted = (one_by_one(*wide, *lengths, causal=True) ** 2).sum()
            expected = torch.autograd.grad(wanted, wide)
            self.assert_close((value, *grads), (wanted.detach(), *expected), torch.float32)
        self.assertEqual(len(traces), 1)

    def test_rows_of_no_sequence_are_zeros(self):
        """And are not read."""
        q, k, v, cu_q, cu_k = packed_inputs()
        used_q = (cu_q.diff() - 1).clamp(min=0).to(torch.int32)
        used_k = (cu_k.diff() - 2).clamp(min=0).to(torch.int32)
        last_q = cu_q[1:][cu_q.diff() > 0].long() - 1
        last_k = cu_k[1:][cu_k.diff() > 0].long() - 1
        with torch.no_grad():
            q[last_q] = k[last_k] = v[last_k] = float("nan")
        options = {"seqused_q": to_jax(used_q), "seqused_k": to_jax(used_k), "causal": True}
        o, pull = jax.vjp(
            lambda *x: varlen_attention(*x, *arrays(cu_q, cu_k), **options), *arrays(q, k, v)
        )
        results = [to_torch(x) for x in (o, *pull(jnp.ones_like(o)))]
        for x, rows in zip(results, (last_q, last_q, last_k, last_k)):
            self.assertTrue((x[rows] == 0).all())
            self.assertTrue(x.isfinite().all() and x.any())

    def test_sinks(self):
        q, k, v, *cu = packed_inputs()
        sink = torch.linspace(-1, 2, 4)
        options = {"causal": True, "score": "softmax,sink=per_head", "p": 0}
        grad = jax.jit(
            jax.grad(
                lambda s: varlen_attention(*arrays(q, k, v, *cu), sink=s, **options).sum()
            )
        )(to_jax(sink))
        wide = [x.detach().double() for x in (q, k, v)]
        sink = sink.double().requires_grad_()
        wanted = torch.autograd.grad(one_by_one(*wide, *cu, sink=sink, **options).sum(), sink)
        self.assert_close([grad], wanted, torch.float32)

    def test_vmap_and_export(self):
        q, k, v, *cu = packed_inputs()
        inputs, lengths = arrays(q, k, v), arrays(*cu)

        def gradient(x):
            return jax.grad(lambda y: (varlen_attention(y, *inputs[1:], *lengths) ** 2).sum())(x)

        batch = jnp.stack([inputs[0], 2 * inputs[0]])
        wanted = np.stack([gradient(x) for x in batch])
        np.testing.assert_array_equal(jax.vmap(gradient)(batch), wanted)
        checks = {"disabled_checks": lssar.jax.EXPORT_CHECKS}
        exported = jax.export.export(jax.jit(gradient), **checks)(inputs[0])
        np.testing.assert_array_equal(exported.call(inputs[0]), wanted[0])

    def test_wrong_arguments_are_named(self):
        good = q, k, v, cu_q, cu_k = arrays(*packed_inputs())
        for error, pattern, inputs, options in (
            (ValueError, r"^q: shape \(1, 42, 4, 16\); must be \[total", (q[None], k, v, cu_q, cu_k), {}),
            (TypeError, "^k: dtype int32; must be", (q, k.astype(int), v, cu_q, cu_k), {}),
            (TypeError, "^cu_seqlens_q: dtype float32", (q, k, v, cu_q.astype(float), cu_k), {}),
            (ValueError, "^cu_seqlens_k: None; must be int32", (q, k, v, cu_q, None), {}),
            (ValueError, r"^cu_seqlens_k: shape \(5,\); must be \(6,\)", (q, k, v, cu_q, cu_k[1:]), {}),
            (ValueError, r"^seqused_k: shape \(6,\); must be \(5,\)", good, {"seqused_k": cu_k}),
            (ValueError, "^max_seqlen_q: -1; must be an int", (q, k, v, cu_q, cu_k, -1), {}),
            (ValueError, "^p: 2000; must be", good, {"p": 2000}),
        ):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(error, pattern):
                varlen_attention(*inputs, **options)

    def test_wrong_lengths_are_errors_of_the_computation(self):
        q, k, v, cu_q, cu_k = arrays(*packed_inputs())
        with self.assertRaisesRegex(Exception, r"lssar: .*cu_seqlens_q\[3\] = 38.* max_seqlen_q is 32"):
            varlen_attention(q, k, v, cu_q, cu_k, 32).block_until_ready()


if __name__ == "__main__":
    unittest.main()
