"""ALiBi beyond lssar.attention and varlen_attention: caches, nested tensors and modules against
softmax in torch's own operations, in float64, and models of transformers against its own attention.
The device is the environment's: two tests run this file."""

import importlib.util
import unittest

import torch

import lssar
from definition import FLOOR, TOLERANCES, assert_close
from lssar import _op
from lssar._reference import attention
from lssar.nn import KVCache, LSSARAttention
from test_changed_scores import ALIBI, formula

SLOPES = torch.tensor([0.5, 0.125, -0.25, 0.01])
REWEIGHTED = "lssar,alibi=per_head"  # the same, with p


def random(*shape, seed, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


class Caches(unittest.TestCase):
    def check(self, o, q, k, v, lengths, function=formula, **options):
        """`o`: of caches that hold so many keys. All are [batch, rows, heads, dim]."""
        tolerance = TOLERANCES[q.dtype][0]
        for b, length in enumerate(lengths):
            one = (q[b], k[b, :length], v[b, :length])
            rows = (x.transpose(0, 1)[None].double() for x in one)
            wanted = function(*rows, **options)[0].transpose(0, 1)
            allowed = tolerance * wanted.norm().item() + FLOOR * wanted.numel() ** 0.5
            error = (o[b].double() - wanted).norm().item()
            self.assertTrue(error <= allowed, f"entry {b}: |error| {error}, allowed {allowed}")

    def test_query_i_of_n_stands_at_length_minus_n_plus_i(self):
        q, k, v = (random(3, n, heads, 16, seed=n) for n, heads in ((3, 4), (40, 2), (40, 2)))
        lengths = [3, 40, 17]
        used = torch.tensor(lengths, dtype=torch.int32)
        for causal in (True, False):
            with self.subTest(causal=causal):
                options = {"causal": causal, "alibi_slopes": SLOPES, "cache_seqlens": used}
                o = lssar.attention_with_kv_cache(q, k, v, score=ALIBI, **options)
                slopes = SLOPES.double()
                self.check(o, q, k, v, lengths, causal=causal, slopes=slopes)
                o = lssar.attention_with_kv_cache(q, k, v, score=REWEIGHTED, p=3, **options)
                more = {"score": REWEIGHTED, "p": 3, "alibi_slopes": slopes}
                self.check(o, q, k, v, lengths, attention, causal=causal, **more)

    def test_keys_that_are_appended_count(self):
        """And queries before the first key have positions below 0."""
        q, k, v = (random(2, 4, heads, 16, seed=heads) for heads in (4, 2, 1))
        v = v.expand(-1, -1, 2, -1).contiguous()
        caches = [random(2, 9, 2, 16, seed=seed) for seed in (7, 8)]
        for new, used in ((4, [0, 5]), (1, [0, 8])):
            with self.subTest(new=new):
                o = lssar.attention_with_kv_cache(
                    *(q, *caches, k[:, :new], v[:, :new]),
                    torch.tensor(used, dtype=torch.int32),
                    score=ALIBI,
                    alibi_slopes=SLOPES,
                )
                self.check(o, q, *caches, [n + new for n in used], slopes=SLOPES.double())

    def test_few_queries_against_many_keys(self):
        """On a GPU blocks divide the keys among them."""
        q, k, v = (
            random(2, n, heads, 16, seed=n + heads, dtype=torch.bfloat16)
            for n, heads in ((2, 4), (600, 2), (600, 2))
        )
        for lengths, causal in (([600, 519], True), ([7, 600], False)):
            with self.subTest(lengths=lengths):
                used = torch.tensor(lengths, dtype=torch.int32)
                options = {"causal": causal, "alibi_slopes": SLOPES / 16, "cache_seqlens": used}
                o = lssar.attention_with_kv_cache(q, k, v, score=ALIBI, **options)
                self.check(o, q, k, v, lengths, causal=causal, slopes=SLOPES.double() / 16)

    def test_what_is_wrong_is_said(self):
        q, k, v = (random(1, 2, 4, 16, seed=1) for _ in range(3))
        for message, slopes, score in (
            (r"^alibi_slopes: None; must be torch.float32 \[heads\], \(4,\)", None, ALIBI),
            (r"^alibi_slopes: shape \(4,\); must be None", SLOPES, "softmax"),
            (r"^alibi_slopes: shape \(3,\); must be \(4,\)", SLOPES[:3], ALIBI),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, message):
                lssar.attention_with_kv_cache(q, k, v, score=score, alibi_slopes=slopes)


@unittest.skipUnless(hasattr(torch.nested, "nested_tensor_from_jagged"), "needs torch 2.4")
class Jagged(unittest.TestCase):
    """Entries stand alone: position 0 is an entry's first key."""

    def inputs(self, lengths_q, lengths_k):
        """Entries of q, k and v, [heads, length, dim], leaves."""
        counts = ((lengths_q, 4), (lengths_k, 2), (lengths_k, 2))
        return [
            [random(heads, n, 16, seed=10 * i + j).requires_grad_() for i, n in enumerate(lengths)]
            for j, (lengths, heads) in enumerate(counts)
        ]

    def nested(self, entries):
        rows = [x.transpose(0, 1) for x in entries]
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged).transpose(1, 2)

    def results(self, o, inputs):
        """o's entries, and the gradients of q, k and v, each as one tensor."""
        weights = [random(*x.shape, seed=i) for i, x in enumerate(o)]
        loss = sum((x * w.to(x.dtype)).sum() for x, w in zip(o, weights))
        grads = iter(torch.autograd.grad(loss, [x for part in inputs for x in part]))
        parts = [o, *([next(grads) for _ in part] for part in inputs)]
        return [torch.cat([x.detach().flatten() for x in part]) for part in parts]

    def check(self, lengths_q, lengths_k, **options):
        inputs = self.inputs(lengths_q, lengths_k)
        nested = (self.nested(x) for x in inputs)
        o = lssar.attention(*nested, score=ALIBI, alibi_slopes=SLOPES, **options)
        ours = self.results(o.unbind(), inputs)
        wide = [[x.detach().double().requires_grad_() for x in part] for part in inputs]
        entries = [[x[None] for x in one] for one in zip(*wide)]
        wanted = [formula(*one, slopes=SLOPES.double(), **options)[0] for one in entries]
        assert_close(self, ours, self.results(wanted, wide), torch.float32)

    def test_forward_and_gradients(self):
        lengths = [5, 33, 1, 3]
        for causal in (True, False):
            with self.subTest(causal=causal):
                self.check(lengths, lengths, causal=causal)
        self.check([5, 2, 1, 3], [7, 20, 2, 3], causal=True)

    def test_the_other_layout_and_a_window(self):
        q, k, v = (self.nested(x) for x in self.inputs([5, 9], [5, 9]))
        options = {"score": ALIBI, "alibi_slopes": SLOPES, "causal": True, "window_size": (3, 0)}
        o = lssar.attention(q, k, v, **options)
        by_rows = (x.transpose(1, 2) for x in (q, k, v))
        turned = lssar.attention(*by_rows, layout="blhd", **options).transpose(1, 2)
        for x, y, *one in zip(o.unbind(), turned.unbind(), *(x.unbind() for x in (q, k, v))):
            self.assertTrue(torch.equal(x, y))
            wanted = lssar.attention(*(x[None] for x in one), **options)[0]
            torch.testing.assert_close(x, wanted, rtol=1e-4, atol=1e-5)

    def test_compiled(self):
        offsets = torch.tensor([0, 5, 14])
        rows = [random(14, heads, 16, seed=heads) for heads in (4, 2)]
        q, k = (torch.nested.nested_tensor_from_jagged(x, offsets).transpose(1, 2) for x in rows)

        def function(q, k, v):
            return lssar.attention(q, k, v, score=ALIBI, alibi_slopes=SLOPES)

        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        for x, y in zip(compiled(q, k, k).unbind(), function(q, k, k).unbind()):
            torch.testing.assert_close(x, y)

    def test_what_is_wrong_is_said(self):
        q, k, v = (self.nested(x) for x in self.inputs([5, 9], [5, 9]))
        with self.assertRaisesRegex(ValueError, "^alibi_slopes: None; must be torch.float32"):
            lssar.attention(q, k, v, score=ALIBI)
        with self.assertRaisesRegex(ValueError, r"^alibi_slopes: shape \(4,\); must be None"):
            lssar.attention(q, k, v, alibi_slopes=SLOPES)


class PaperSlopes(unittest.TestCase):
    def test_powers_of_two_and_numbers_between(self):
        for heads, exponents in (
            (1, [8]),
            (2, [4, 8]),
            (8, [1, 2, 3, 4, 5, 6, 7, 8]),
            (3, [4, 8, 2]),
            (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
        ):
            with self.subTest(heads=heads):
                slopes = lssar.alibi_slopes(heads)
                self.assertEqual(slopes.dtype, torch.float32)
                wanted = torch.tensor([2.0**-x for x in exponents])
                torch.testing.assert_close(slopes, wanted, rtol=1e-7, atol=0)

    def test_what_is_wrong_is_said(self):
        for heads in (0, -1, 2.0, True, None):
            with self.assertRaisesRegex(ValueError, "^num_heads: .*; must be an int, at least 1"):
                lssar.alibi_slopes(heads)


class Module(unittest.TestCase):
    def module(self, **more):
        torch.manual_seed(3)
        options = {"num_kv_heads": 2, "causal": True, "score": ALIBI, **more}
        return LSSARAttention(32, 4, **options)

    def plain(self, module, x):
        """What a module computes, in float64."""
        qkv = torch.nn.functional.linear(x, module.qkv.weight.double(), module.qkv.bias.double())
        heads = qkv.unflatten(-1, (8, 8)).transpose(1, 2)
        options = {"causal": module.causal, "slopes": module.alibi_slopes.double()}
        o = formula(*heads.split((4, 2, 2), dim=1), **options).transpose(1, 2).flatten(2)
        return torch.nn.functional.linear(o, module.out.weight.double(), module.out.bias.double())

    def test_forward_and_gradients(self):
        for more in ({}, {"alibi_slopes": SLOPES}, {"causal": False}):
            with self.subTest(**more):
                module = self.module(**more)
                given = more.get("alibi_slopes", torch.tensor([0.25, 2**-4, 2**-6, 2**-8]))
                self.assertTrue(torch.equal(module.alibi_slopes, given))
                results = []
                x = random(2, 11, 32, seed=5)
                for run, like in ((module, x), (lambda x: self.plain(module, x), x.double())):
                    x_leaf = like.clone().requires_grad_()
                    y = run(x_leaf)
                    weights = random(*y.shape, seed=6).to(y.dtype)
                    leaves = (x_leaf, module.qkv.weight)
                    results.append((y, *torch.autograd.grad((y * weights).sum(), leaves)))
                for ours, wanted in zip(*results):
                    torch.testing.assert_close(ours.double(), wanted.double(), rtol=1e-4, atol=1e-4)

    def test_a_cache_gives_what_one_call_gives(self):
        for more in ({}, {"score": REWEIGHTED, "p": 3}):  # softmax alone forgets a wrong position
            module = self.module(**more).requires_grad_(False)
            x, cache = random(2, 13, 32, seed=4), KVCache()
            parts = [module(part, cache=cache) for part in x.split([5, 1, 1, 4, 1, 1], dim=1)]
            torch.testing.assert_close(torch.cat(parts, dim=1), module(x))

    @unittest.skipUnless(_op.HAS_OPERATORS, "operators need torch 2.5")
    def test_compiled(self):
        module = self.module()
        x = random(2, 11, 32, seed=5)
        compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), module(x))

    def test_slopes_are_saved_and_not_learned(self):
        module, other = self.module(alibi_slopes=SLOPES), self.module()
        self.assertNotIn("alibi_slopes", dict(module.named_parameters()))
        other.load_state_dict(module.state_dict())
        self.assertTrue(torch.equal(other.alibi_slopes, SLOPES))
        plain = self.module(score="softmax")
        self.assertIsNone(plain.alibi_slopes)
        self.assertNotIn("alibi_slopes", plain.state_dict())

    def test_dtypes(self):
        x = random(1, 3, 32, seed=1)
        for dtype, kept in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
            module = self.module(dtype=dtype, alibi_slopes=SLOPES)
            self.assertEqual(module.alibi_slopes.dtype, kept)
            self.assertEqual(module(x.to(dtype)).dtype, dtype)
            self.assertEqual(self.module().to(dtype)(x.to(dtype)).dtype, dtype)

    def test_what_is_wrong_is_said(self):
        for error, message, slopes, score in (
            (ValueError, r"^alibi_slopes: shape \(4,\); must be None", SLOPES, "softmax"),
            (ValueError, r"^alibi_slopes: shape \(3,\); must be \(4,\)", SLOPES[:3], ALIBI),
            (TypeError, "^alibi_slopes: list; must be a torch.Tensor", [0.5] * 4, ALIBI),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(error, message):
                self.module(score=score, alibi_slopes=slopes)


@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
class Transformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lssar.register_transformers("lssar_alibi", score=ALIBI, alibi_slopes=SLOPES)
        lssar.register_transformers("lssar_alibi_of_call", score=ALIBI)
        # Distances from a wrong position change no softmax, but these weights.
        lssar.register_transformers("lssar_alibi_p3", score=REWEIGHTED, p=3, alibi_slopes=SLOPES)
        lssar.register_transformers("lssar_softmax", score="softmax")

    def model(self, attention):
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(1)
        config = LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            attn_implementation=attention,
            pad_token_id=0,
            eos_token_id=None,
        )
        return LlamaForCausalLM(config).eval()

    def test_it_is_a_bias_of_transformers_own_attention(self):
        """With gradients, and after other keys in a cache."""
        tokens = torch.randint(1, 64, (2, 13), generator=torch.Generator().manual_seed(2))
        distance = (torch.arange(13)[:, None] - torch.arange(13)).abs()
        bias = -SLOPES[None, :, None, None] * distance
        results = []
        for attention, more in (
            ("sdpa", {"position_bias": bias}),
            ("lssar_alibi", {}),
            ("lssar_alibi_of_call", {"alibi_slopes": SLOPES.bfloat16()}),
        ):
            model = self.model(attention)
            logits = model(tokens, use_cache=False, **more).logits
            weights = [x.self_attn.q_proj.weight for x in model.model.layers]
            loss = (logits * random(*logits.shape, seed=3)).sum()
            results.append((logits, *torch.autograd.grad(loss, weights)))
        without = self.model("sdpa")(tokens, use_cache=False).logits
        self.assertGreater((without - results[0][0]).abs().max(), 1e-3)
        for ours in results[1:]:
            for x, wanted in zip(ours, results[0]):
                torch.testing.assert_close(x, wanted, rtol=1e-3, atol=1e-4)

    def test_generation_counts_tokens_and_no_padding(self):
        model = self.model("lssar_alibi_p3")
        prompts = [torch.arange(1, 1 + n) for n in (9, 3, 6)]
        options = {"max_new_tokens": 5, "do_sample": False}
        alone = [model.generate(x[None], use_cache=False, **options)[0, len(x) :] for x in prompts]
        tokens = torch.stack([torch.nn.functional.pad(x, (9 - len(x), 0)) for x in prompts])
        mask = (tokens != 0).long()
        for cache in ({"use_cache": False}, {}, {"cache_implementation": "static"}):
            with self.subTest(**cache):
                new = model.generate(tokens, attention_mask=mask, **options, **cache)[:, 9:]
                self.assertEqual(new.tolist(), [x.tolist() for x in alone])

    def test_logits_of_padded_and_packed_sequences(self):
        model = self.model("lssar_alibi_p3")
        parts = [torch.arange(1, 8), torch.arange(5, 9)]
        with torch.no_grad():
            alone = [model(x[None], use_cache=False).logits[0] for x in parts]
            tokens = torch.stack([parts[0], torch.nn.functional.pad(parts[1], (3, 0))])
            padded = model(tokens, attention_mask=(tokens != 0).long()).logits
            positions = torch.cat([torch.arange(len(x)) for x in parts])[None]
            packed = model(torch.cat(parts)[None], position_ids=positions, use_cache=False).logits[0]
        torch.testing.assert_close(packed, torch.cat(alone), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(padded[0], alone[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(padded[1, 3:], alone[1], rtol=1e-4, atol=1e-5)

    def test_models_that_compute_attention_themselves_are_refused(self):
        from transformers import BloomConfig, BloomForCausalLM, MptConfig, MptForCausalLM

        bloom = BloomConfig(vocab_size=64, hidden_size=32, n_layer=1, n_head=4)
        mpt = MptConfig(vocab_size=64, d_model=32, n_layers=1, n_heads=4, max_seq_len=16)
        tokens = torch.arange(1, 9)[None]
        for kind, config in ((BloomForCausalLM, bloom), (MptForCausalLM, mpt)):
            model = kind._from_config(config, attn_implementation="lssar_softmax")
            message = f"^attn_implementation: lssar; must be another for .* '{config.model_type}'"
            for mask in (None, torch.ones_like(tokens)):
                with self.assertRaisesRegex(ValueError, message):
                    model(tokens, attention_mask=mask, use_cache=False)

    def test_what_is_wrong_is_said(self):
        tokens = torch.arange(1, 9)[None]
        for message, attention, more in (
            ("^alibi_slopes: None; lssar_alibi_of_call has a", "lssar_alibi_of_call", {}),
            ("^alibi_slopes: given; lssar_softmax has a", "lssar_softmax", {"alibi_slopes": SLOPES}),
            (r"^alibi_slopes: shape \(3,\); must", "lssar_alibi", {"alibi_slopes": SLOPES[:3]}),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(ValueError, message):
                self.model(attention)(tokens, **more)
        for error, message, slopes, score in (
            (ValueError, r"^alibi_slopes: shape \(4,\); must be None", SLOPES, "softmax"),
            (ValueError, r"^alibi_slopes: shape \(\); must be \[heads\]", torch.tensor(1.0), ALIBI),
            (TypeError, "^alibi_slopes: list; must be a torch.Tensor", [0.5] * 4, ALIBI),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(error, message):
                lssar.register_transformers("lssar_wrong", score=score, alibi_slopes=slopes)


if __name__ == "__main__":
    unittest.main()
