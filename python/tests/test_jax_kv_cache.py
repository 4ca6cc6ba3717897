"""lssar.jax.attention_with_kv_cache on the cpu device, beside the package's function for torch."""

import functools
import importlib.util
import os
import unittest

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

HAS_JAX = importlib.util.find_spec("jax") is not None
if HAS_JAX:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import lssar
    import lssar.jax
    from lssar.jax import attention_with_kv_cache


def to_jax(x):
    name = str(x.dtype).split(".")[1]
    return jnp.asarray((x.float() if x.is_floating_point() else x).numpy(), dtype=name)


def to_torch(x, dtype):
    return torch.from_numpy(np.array(x, np.float64)).to(dtype)


def inputs(new=2, dtype=torch.float32, queries=2):
    """q, the caches, and new keys and values; caches have room for 50 keys."""
    generator = torch.Generator().manual_seed(5)
    shapes = ((queries, 4, 16), (50, 2, 16), (50, 2, 24), (new, 2, 16), (new, 2, 24))
    return [torch.randn((3, *s), generator=generator).to(dtype) for s in shapes]


USED = torch.tensor([0, 48, 17], dtype=torch.int32)


@unittest.skipUnless(HAS_JAX, "JAX is not installed: pip install jax")
class JaxCaches(unittest.TestCase):
    def check_equal(self, ours, dtype, *arguments, **options):
        """The bits of torch's function, which writes into its caches."""
        results = ours(*(to_jax(x) for x in arguments), to_jax(USED))
        o = lssar.attention_with_kv_cache(*arguments, cache_seqlens=USED, **options)
        for x, y in zip(results, (o, *arguments[1:3])):
            self.assertTrue(torch.equal(to_torch(x, dtype), y))

    def test_new_keys_are_in_the_caches_that_are_returned(self):
        options = {"causal": True, "p": 3}
        for dtype in (torch.float32, torch.bfloat16):
            for queries in (2, 40):
                with self.subTest(dtype=dtype, queries=queries):
                    function = functools.partial(attention_with_kv_cache, **options)
                    arguments = inputs(dtype=dtype, queries=queries)
                    self.check_equal(jax.jit(function), dtype, *arguments, **options)

    def test_arrays_that_were_given_keep_their_values(self):
        q, k_cache, v_cache, k, v = (to_jax(x) for x in inputs())
        before = np.array(k_cache), np.array(v_cache)
        _, after_k, after_v = attention_with_kv_cache(q, k_cache, v_cache, k, v, to_jax(USED))
        for old, new, kept in zip((k_cache, v_cache), (after_k, after_v), before):
            np.testing.assert_array_equal(old, kept)
            self.assertFalse(np.array_equal(old, new))

    def test_without_new_keys(self):
        q, k_cache, v_cache, *_ = inputs()
        ours = attention_with_kv_cache(*(to_jax(x) for x in (q, k_cache, v_cache)), causal=True)
        o = lssar.attention_with_kv_cache(q, k_cache, v_cache, causal=True)
        for x, y in zip(ours, (o, k_cache, v_cache)):
            self.assertTrue(torch.equal(to_torch(x, torch.float32), y))

    def test_a_loop_of_tokens_is_one_program_and_attends_as_one_call(self):
        tokens = 9
        q, _, _, k, v = (to_jax(x) for x in inputs(new=tokens, queries=tokens))
        traces = []

        @functools.partial(jax.jit, donate_argnums=(0, 1))
        def step(k_cache, v_cache, used, *token):
            traces.append(used)
            q, k, v = token
            return attention_with_kv_cache(q, k_cache, v_cache, k, v, used, causal=True)

        caches = (jnp.full((3, 50, 2, n), jnp.nan, jnp.float32) for n in (16, 24))
        parts, addresses = [], set()
        for i in range(tokens):
            token = (x[:, i : i + 1] for x in (q, k, v))
            o, *caches = step(*caches, jnp.full((3,), i, jnp.int32), *token)
            parts.append(o)
            addresses = {*addresses, caches[0].unsafe_buffer_pointer()}
        self.assertEqual(len(addresses), 1)  # in place
        whole = lssar.jax.attention(q, k, v, causal=True, layout="blhd")
        np.testing.assert_allclose(jnp.concatenate(parts, 1), whole, rtol=2e-5, atol=1e-6)
        self.assertEqual(len(traces), 1)

        def scanned(carry, token):
            used, k_cache, v_cache = carry
            o, *caches = attention_with_kv_cache(
                token[0], k_cache, v_cache, *token[1:], used, causal=True
            )
            return (used + 1, *caches), o

        rooms = jnp.zeros((3, 50, 2, 16)), jnp.zeros((3, 50, 2, 24))
        by_token = [jnp.swapaxes(x, 0, 1)[:, :, None] for x in (q, k, v)]
        _, o = jax.lax.scan(scanned, (jnp.zeros(3, jnp.int32), *rooms), by_token)
        np.testing.assert_array_equal(jnp.swapaxes(o[:, :, 0], 0, 1), jnp.concatenate(parts, 1))

    def test_windows_sinks_and_invariant_calls(self):
        score = {"score": "softmax,sink=per_head", "window_size": (9, 0), "window_sinks": 2}
        options = {"causal": True, "invariant": True, **score}
        sink = torch.linspace(-1, 2, 4)
        function = functools.partial(attention_with_kv_cache, sink=to_jax(sink), **options)
        self.check_equal(function, torch.float32, *inputs(), sink=sink, **options)

    def test_slopes_are_those_of_calls_of_one_length(self):
        q, _, _, k, v = (to_jax(x) for x in inputs(new=20, queries=20))
        options = {"causal": True, "score": "softmax,alibi=per_head,sink=per_head"}
        options |= {"alibi_slopes": jnp.linspace(0.01, 0.5, 4), "sink": jnp.linspace(-1, 2, 4)}
        rooms = [jnp.zeros((3, 50, *x.shape[2:])) for x in (k, v)]
        o, *_ = attention_with_kv_cache(q, *rooms, k, v, **options)
        wanted = lssar.jax.attention(q, k, v, layout="blhd", **options)
        np.testing.assert_allclose(o, wanted, rtol=2e-5, atol=1e-6)

    def test_rotary_positions(self):
        tables = dict(zip(("rotary_cos", "rotary_sin"), lssar.rotary_tables(50, 12)))
        of_jax = {name: to_jax(x) for name, x in tables.items()}
        for interleaved in (False, True):
            options = {"causal": True, "p": 3, "rotary_interleaved": interleaved}
            arguments = inputs(queries=5)  # more than there are new keys
            arrays = [to_jax(x) for x in (*arguments, USED)]
            ours = attention_with_kv_cache(*arrays, **options, **of_jax)
            o = lssar.attention_with_kv_cache(*arguments, USED, **options, **tables)
            for x, y in zip(ours, (o, *arguments[1:3])):
                np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-5)

    def test_there_is_no_gradient(self):
        q, *others = (to_jax(x) for x in inputs())
        with self.assertRaisesRegex(ValueError, "cannot be differentiated"):
            jax.grad(lambda x: attention_with_kv_cache(x, *others, to_jax(USED))[0].sum())(q)

    def test_vmap_and_export(self):
        arrays = [to_jax(x) for x in inputs()]
        lengths = jnp.stack([to_jax(USED), to_jax(USED) // 2])
        function = functools.partial(attention_with_kv_cache, causal=True)
        wanted = [function(*arrays, used) for used in lengths]
        for i, x in enumerate(jax.vmap(lambda used: function(*arrays, used))(lengths)):
            np.testing.assert_array_equal(x, np.stack([one[i] for one in wanted]))
        checks = {"disabled_checks": lssar.jax.EXPORT_CHECKS}
        exported = jax.export.export(jax.jit(function), **checks)(*arrays, lengths[0])
        for x, y in zip(exported.call(*arrays, lengths[1]), wanted[1]):
            np.testing.assert_array_equal(x, y)

    def test_wrong_arguments_are_named(self):
        q, k_cache, v_cache, k, v = good = [to_jax(x) for x in inputs()]
        tables = {"rotary_cos": jnp.ones((49, 4)), "rotary_sin": jnp.ones((49, 4))}
        for error, pattern, arguments, options in (
            (ValueError, r"^q: shape \(2, 4, 16\); must be \[batch", (q[0], k_cache, v_cache), {}),
            (TypeError, "^k_cache: dtype int32|^k: dtype int32", (q, k_cache.astype(int), v_cache), {}),
            (TypeError, "^k and v: one is None", (q, k_cache, v_cache, k), {}),
            (ValueError, r"^v: float32 \(3, 2, 2, 16\); must be float32 \(3, 2, 2, 24\)", (*good[:4], k), {}),
            (ValueError, "^cache_seqlens: 49; must be from 0 to 48", good, {"cache_seqlens": 49}),
            (ValueError, "^cache_seqlens: -1; must be from 0 to 50", good[:3], {"cache_seqlens": -1}),
            (TypeError, "^cache_seqlens: dtype float32", good, {"cache_seqlens": jnp.ones(3)}),
            (ValueError, r"^cache_seqlens: shape \(2,\)", good, {"cache_seqlens": to_jax(USED)[:2]}),
            (ValueError, "^rotary_cos: 49 positions; must be at least 50", good, tables),
        ):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(error, pattern):
                attention_with_kv_cache(*arguments, **options)

    def test_wrong_lengths_are_errors_of_the_computation(self):
        arrays = [to_jax(x) for x in inputs()]
        for used, text in (([0, 49, 1], "from 0 to 49"), ([0, -1, 1], "from -1 to 1")):
            with self.assertRaisesRegex(Exception, f"lssar: cache_seqlens: {text}; must be from 0 to 48"):
                jax.block_until_ready(attention_with_kv_cache(*arrays, jnp.asarray(used, jnp.int32)))


if __name__ == "__main__":
    unittest.main()
