"""lssar.nn, and the registration with transformers where that is installed."""

import importlib.util
import math
import unittest

import torch

import lssar
from lssar.nn import KVCache, LSSARAttention


def rotary(q, k, first):
    """RoPE, plainly."""
    length, dim = q.shape[2], q.shape[3]
    frequency = 100.0 ** (-torch.arange(0, dim, 2) / dim)
    angle = torch.arange(first, first + length)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()

    def rotate(x):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(3)

    return rotate(q), rotate(k)


class Attention(unittest.TestCase):
    def test_is_the_function_between_two_projections(self):
        torch.manual_seed(1)
        module = LSSARAttention(32, 4, num_kv_heads=2, causal=True, p=3, offset=0.5)
        x = torch.randn(2, 11, 32)
        q, k, v = module.qkv(x).split([32, 16, 16], dim=-1)
        q = q.reshape(2, 11, 4, 8).transpose(1, 2)
        k, v = (y.reshape(2, 11, 2, 8).transpose(1, 2) for y in (k, v))
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        o = lssar.attention(q, k, v, causal=True, p=3, offset=0.5)
        torch.testing.assert_close(module(x), module.out(o.transpose(1, 2).flatten(2)))

    def test_learns(self):
        """What the token two before was, which only attention can know, for one batch."""
        torch.manual_seed(1)
        embedding = torch.nn.Embedding(8, 32)
        attention = LSSARAttention(32, 2, causal=True)
        readout = torch.nn.Linear(32, 8)
        modules = torch.nn.ModuleList([embedding, attention, readout])
        optimizer = torch.optim.Adam(modules.parameters(), lr=1e-2)
        losses = []
        tokens = torch.randint(8, (2, 24))
        for _ in range(40):
            logits = readout(attention(embedding(tokens), position=rotary))
            loss = torch.nn.functional.cross_entropy(
                logits[:, 2:].flatten(0, 1), tokens[:, :-2].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertTrue(all(map(math.isfinite, losses)), losses)
        self.assertLess(losses[-1], 0.5 * losses[0], losses)

    def test_cache_gives_what_one_call_gives(self):
        torch.manual_seed(2)
        module = LSSARAttention(32, 4, num_kv_heads=2, causal=True).requires_grad_(False)
        x = torch.randn(2, 13, 32)
        whole = module(x, position=rotary)
        cache = KVCache()
        parts = [
            module(part, position=rotary, cache=cache)
            for part in x.split([5, 1, 1, 4, 1, 1], dim=1)
        ]
        torch.testing.assert_close(torch.cat(parts, dim=1), whole)
        self.assertEqual(cache.length, 13)

    def test_cache_refuses_gradients_and_other_shapes(self):
        module = LSSARAttention(16, 1, causal=True)
        with self.assertRaisesRegex(RuntimeError, "no_grad"):
            module(torch.randn(1, 2, 16), cache=KVCache())
        cache = KVCache()
        with torch.no_grad():
            module(torch.randn(1, 2, 16), cache=cache)
            with self.assertRaisesRegex(ValueError, r"\(2, 1, 16\); must be \(1, 1, 16\)"):
                module(torch.randn(2, 2, 16), cache=cache)
            with self.assertRaisesRegex(ValueError, "v is torch.float64 .* must be torch.float32"):
                cache.append(torch.ones(1, 1, 1, 16), torch.ones(1, 1, 1, 16).double())
            with self.assertRaisesRegex(ValueError, r"v has batch, heads, length \(1, 1, 2\)"):
                cache.append(torch.ones(1, 1, 1, 16), torch.ones(1, 1, 2, 16))
            self.assertEqual(cache.length, 2)  # errors leave it as it was
            with self.assertRaisesRegex(ValueError, "^cache: needs causal=True"):
                LSSARAttention(16, 1)(torch.randn(1, 2, 16), cache=cache)

    def test_not_causal_by_default(self):
        torch.manual_seed(3)
        module = LSSARAttention(16, 1)
        self.assertIn("causal=False", repr(module))
        x = torch.randn(1, 5, 16)
        changed = x.clone()
        changed[0, 4] = 0
        self.assertFalse(torch.allclose(module(x)[0, 0], module(changed)[0, 0]))

    def test_compiled_cache_is_not_recompiled_for_each_token(self):
        """Kept in a module, as models keep it, where torch.compile takes ints as constants."""

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = LSSARAttention(16, 1, causal=True)
                self.cache = KVCache()

            def forward(self, x):
                return self.attention(x, cache=self.cache)

        torch.manual_seed(4)
        model = Model().requires_grad_(False)
        x = torch.randn(1, 24, 16)
        wanted = model.attention(x)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        parts = x.split([5] + [1] * 19, dim=1)
        torch.testing.assert_close(torch.cat([compiled(part) for part in parts], dim=1), wanted)
        # Empty, one token, room for it, no room for it.
        self.assertLessEqual(torch._dynamo.utils.counters["stats"]["unique_graphs"], 4)

    def test_wrong_sizes_are_named(self):
        for pattern, arguments in (
            ("^num_kv_heads: 3; must divide num_heads, 4", (32, 4, 3)),
            ("^num_heads: 5; must divide embed_dim, 32", (32, 5)),
            ("^head_dim: 12; must be a multiple of 8", (24, 2)),
        ):
            with self.assertRaisesRegex(ValueError, pattern):
                LSSARAttention(*arguments)
        with self.assertRaisesRegex(ValueError, r"^x: shape \(5, 16\); must be \[batch"):
            LSSARAttention(16, 1)(torch.randn(5, 16))

    def test_no_bias_and_dtype(self):
        module = LSSARAttention(16, 2, bias=False, dtype=torch.bfloat16)
        self.assertEqual({p.dtype for p in module.parameters()}, {torch.bfloat16})
        self.assertEqual(len(list(module.parameters())), 2)
        self.assertEqual(module(torch.ones(1, 3, 16, dtype=torch.bfloat16)).dtype, torch.bfloat16)
        self.assertIn("p=15", repr(module))


@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
class Transformers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lssar.register_transformers()

    def model(self, attention="lssar", **more):
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
            **more,
        )
        return LlamaForCausalLM(config)

    def test_stock_model_trains(self):
        model = self.model()
        tokens = torch.randint(64, (2, 24))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(10):
            loss = model(tokens, labels=tokens).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.9 * losses[0], losses)

    def test_it_is_ours_that_runs(self):
        tokens = torch.randint(64, (2, 24))
        with torch.no_grad():
            ours, softmax = self.model()(tokens).logits, self.model("sdpa")(tokens).logits
        self.assertGreater((ours - softmax).abs().max().item(), 1e-3)

    def test_generation_with_a_cache(self):
        model = self.model().eval()
        tokens = torch.randint(1, 64, (2, 9))  # 0 would be padding
        options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
        cached = model.generate(tokens, **options)
        torch.testing.assert_close(model.generate(tokens, use_cache=False, **options), cached)

    def test_a_mask_of_ones_is_no_mask(self):
        model, tokens = self.model(), torch.randint(64, (2, 9))
        with torch.no_grad():
            masked = model(tokens, attention_mask=torch.ones_like(tokens)).logits
            self.assertTrue(torch.equal(masked, model(tokens).logits))

    def test_ready_made_mask_is_refused(self):
        tokens = torch.randint(64, (1, 9))
        with self.assertRaisesRegex(ValueError, r"\(1, 1, 9, 9\); lssar takes padding masks"):
            self.model()(tokens, attention_mask=torch.zeros(1, 1, 9, 9))

    def test_dropout_is_refused(self):
        with self.assertRaisesRegex(ValueError, "^dropout: 0.1; lssar has none"):
            self.model(attention_dropout=0.1).train()(torch.randint(64, (1, 8)))

    def test_other_scale_than_the_models_is_refused(self):
        """A model's weights belong to its scale. LSSAR's own depends on N: no model has it."""
        from transformers import AttentionInterface

        q = torch.randn(1, 2, 5, 16)
        for score, scaling in (("softmax", 0.25), ("softmax,scale=0.5", 0.5), (None, 0.5), ("softmax", None)):
            lssar.register_transformers("lssar_scaled", score=score)
            attend = AttentionInterface()["lssar_scaled"]
            o, _ = attend(torch.nn.Module(), q, q, q, None, scaling=scaling)
            wanted = lssar.attention(q, q, q, causal=True, score=score)
            self.assertTrue(torch.equal(o.transpose(1, 2), wanted))
            if score is None:
                continue
            with self.assertRaisesRegex(ValueError, r"^scaling: 0.1; lssar_scaled .*softmax,scale=0.1"):
                attend(torch.nn.Module(), q, q, q, None, scaling=0.1)

    def test_sinks_of_the_model(self):
        """GPT-OSS's eager attention is softmax with sinks. One of its layers has a window."""
        from transformers import GptOssConfig, GptOssForCausalLM

        lssar.register_transformers("lssar_sink", score="softmax,sink=per_head")

        def model(attention):
            torch.manual_seed(1)
            config = GptOssConfig(
                vocab_size=64,
                hidden_size=32,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=8,
                num_local_experts=2,
                num_experts_per_tok=1,
                layer_types=["sliding_attention", "full_attention"],
                sliding_window=4,
                attn_implementation=attention,
            )
            made = GptOssForCausalLM(config)
            for layer in made.model.layers:
                torch.nn.init.normal_(layer.self_attn.sinks)
            return made

        tokens, results = torch.randint(64, (2, 9)), []
        for made in (model("eager"), model("lssar_sink")):
            logits = made(tokens).logits
            logits.square().sum().backward()
            results.append((logits, *(x.self_attn.sinks.grad for x in made.model.layers)))
        for ours, theirs in zip(*results):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
        without = r"^s_aux: \(4,\); lssar has a score without a sink"
        with self.assertRaisesRegex(ValueError, without):
            model("lssar")(tokens)
        needs_one = "^s_aux: None; lssar_sink has a score with sink=per_head, which needs the model's"
        with self.assertRaisesRegex(ValueError, needs_one):
            self.model("lssar_sink")(tokens)

    def test_a_soft_cap_is_the_models(self):
        """Gemma 2's attention, with its gradients, is transformers' own."""
        from transformers import Gemma2Config, Gemma2ForCausalLM

        lssar.register_transformers("lssar_capped", score="softmax,scale=0.25,soft_cap=0.5")

        def model(attention):
            torch.manual_seed(1)
            config = Gemma2Config(
                vocab_size=64,
                hidden_size=32,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=8,
                query_pre_attn_scalar=16,
                sliding_window=4,
                attn_logit_softcapping=0.5,
                attn_implementation=attention,
                pad_token_id=0,
            )
            made = Gemma2ForCausalLM(config)
            for layer in made.model.layers:  # scores beyond the cap
                torch.nn.init.normal_(layer.self_attn.q_proj.weight)
            return made

        tokens, results = torch.randint(1, 64, (2, 9)), []
        for made in (model("eager"), model("lssar_capped")):
            logits = made(tokens).logits
            logits.square().sum().backward()
            results.append((logits, *(x.self_attn.q_proj.weight.grad for x in made.model.layers)))
        for ours, theirs in zip(*results):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
        lssar.register_transformers("lssar_uncapped", score="softmax,scale=0.25")
        with self.assertRaisesRegex(ValueError, "^softcap: 0.5; lssar_uncapped has the soft cap 0.0"):
            model("lssar_uncapped")(tokens)

    def test_arguments_that_would_change_the_result_are_refused(self):
        from transformers import AttentionInterface

        lssar.register_transformers()
        q = torch.randn(1, 2, 5, 16)
        ends = torch.tensor([0, 2, 5])
        for name, value in (
            ("cu_seq_lens_q", ends),
            ("cu_seq_lens_k", ends),
            ("layer_head_mask", torch.ones(2)),
            ("softcap", 30.0),
            ("output_attentions", True),
        ):
            with self.subTest(name=name), self.assertRaisesRegex(ValueError, f"^{name}: "):
                AttentionInterface()["lssar"](torch.nn.Module(), q, q, q, None, **{name: value})

    def windowed(self, attention, **more):
        from transformers import MistralConfig, MistralForCausalLM

        torch.manual_seed(1)
        config = MistralConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            sliding_window=4,
            attn_implementation=attention,
            pad_token_id=0,
            eos_token_id=None,
            **more,
        )
        return MistralForCausalLM(config).eval()

    def test_sliding_windows(self):
        """Softmax's are transformers' own: plain, padded on the left, packed, and with caches."""
        lssar.register_transformers("lssar_softmax", score="softmax")
        ours, theirs = (self.windowed(name) for name in ("lssar_softmax", "eager"))
        tokens = torch.randint(1, 64, (2, 13))
        padding = torch.ones_like(tokens)
        padding[1, :6] = 0
        ends = torch.tensor([[*range(7), *range(6)], [*range(2), *range(11)]])
        packed = {"position_ids": ends, "use_cache": False}
        for options in ({}, {"attention_mask": padding}, packed):
            o, wanted = (model(tokens, **options).logits for model in (ours, theirs))
            is_seen = padding.bool() if "attention_mask" in options else slice(None)
            torch.testing.assert_close(o[is_seen], wanted[is_seen], rtol=1e-3, atol=1e-4)
        for cache in ({}, {"cache_implementation": "static"}, {"use_cache": False}):
            options = {"max_new_tokens": 9, "do_sample": False, "attention_mask": padding, **cache}
            new, wanted = (model.generate(tokens, **options) for model in (ours, theirs))
            self.assertEqual(new.tolist(), wanted.tolist(), cache)

    def test_windows_that_are_not_causal_are_refused(self):
        from transformers import AttentionInterface

        lssar.register_transformers()
        q, module = torch.randn(1, 2, 5, 16), torch.nn.Module()
        attend = AttentionInterface()["lssar"]
        with self.assertRaisesRegex(ValueError, "^sliding_window: 4; lssar has it in causal layers only"):
            attend(module, q, q, q, None, is_causal=False, sliding_window=4)
        with self.assertRaisesRegex(ValueError, "^sliding_window: 0; must be at least 1"):
            attend(module, q, q, q, None, sliding_window=0)


if __name__ == "__main__":
    unittest.main()
