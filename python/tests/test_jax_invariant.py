"""invariant in JAX: a sequence's rows have the same bits computed at once, in chunks, one by one, in
batches and packed with others. Needs JAX, and not torch."""

import functools
import importlib.util
import os
import unittest

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

HAS_JAX = importlib.util.find_spec("jax") is not None
if HAS_JAX:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import lssar.jax

HEADS, KV_HEADS, DIM, LENGTH = 4, 2, 16, 530


def sequence(seed, length=LENGTH, dtype="bfloat16"):
    random = np.random.default_rng(seed)
    shapes = ((length, heads, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
    return [jnp.asarray(random.standard_normal(shape), dtype) for shape in shapes]


def prefill(q, k, v, **options):
    """[length, heads, dim]."""
    options = {"causal": True, "layout": "blhd", "invariant": True, **options}
    return lssar.jax.attention(*(x[None] for x in (q, k, v)), **options)[0]


@unittest.skipUnless(HAS_JAX, "JAX is not installed: pip install jax")
class JaxInvariant(unittest.TestCase):
    def assert_same(self, a, b):
        self.assertEqual(a.dtype, b.dtype)
        self.assertEqual(np.asarray(a).tobytes(), np.asarray(b).tobytes())

    def test_chunks_and_single_rows(self):
        q, k, v = sequence(1)
        wanted = prefill(q, k, v)
        for begin, end in ((0, 300), (300, 307), (511, 512), (LENGTH - 1, LENGTH)):
            self.assert_same(prefill(q[begin:end], k[:end], v[:end]), wanted[begin:end])

    def test_batches_and_packed_sequences(self):
        q, k, v = sequence(1)
        wanted = prefill(q, k, v)
        both = [jnp.stack(pair) for pair in zip(sequence(2), (q, k, v))]
        options = {"causal": True, "invariant": True}
        o = jax.jit(functools.partial(lssar.jax.attention, layout="blhd", **options))(*both)
        self.assert_same(o[1], wanted)
        parts = [sequence(3, 5), (q, k, v), sequence(4, 33)]
        cu = jnp.asarray([0, 5, 535, 568], jnp.int32)
        packed = [jnp.concatenate(x) for x in zip(*parts)]
        packed_attention = functools.partial(lssar.jax.varlen_attention, **options)
        self.assert_same(jax.jit(packed_attention)(*packed, cu, cu)[5:535], wanted)

    def test_windows_have_it_too(self):
        q, k, v = sequence(5, 90)
        wanted = prefill(q, k, v, window_size=(20, 0), window_sinks=2)
        o = prefill(q[-1:], k, v, window_size=(20, 0), window_sinks=2)
        self.assert_same(o, wanted[-1:])

    def test_without_it_single_rows_differ(self):
        q, k, v = sequence(1, dtype="float32")
        whole = prefill(q, k, v, invariant=False)
        self.assertFalse(jnp.array_equal(prefill(q[-1:], k, v, invariant=False), whole[-1:]))
        self.assert_same(prefill(q[-1:], k, v), prefill(q, k, v)[-1:])

    def test_gradients(self):
        inputs = sequence(3, 40, "float32")

        def gradients(function):
            return jax.grad(lambda *x: jnp.square(function(*x)).sum(), (0, 1, 2))(*inputs)

        ours = gradients(prefill)
        for x, y in zip(ours, gradients(functools.partial(prefill, invariant=False))):
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)
        cu = jnp.asarray([0, 40], jnp.int32)
        packed = gradients(
            lambda *x: lssar.jax.varlen_attention(*x, cu, cu, causal=True, invariant=True)
        )
        for x, y in zip(ours, packed):
            self.assert_same(x, y)

    def test_errors(self):
        q, k, v = sequence(1, 3)
        with self.assertRaisesRegex(TypeError, "^invariant: 1; must be True or False"):
            prefill(q, k, v, invariant=1)
        cu = jnp.asarray([0, 3], jnp.int32)
        with self.assertRaisesRegex(TypeError, "^invariant: None; must be True or False"):
            lssar.jax.varlen_attention(q, k, v, cu, cu, invariant=None)


if __name__ == "__main__":
    unittest.main()
