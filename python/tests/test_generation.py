"""Padded batches and caches through Hugging Face transformers, on the cpu device: what a batch gives is
what its entries give one by one."""

import importlib.util
import os
import unittest

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

import lssar
from lssar import _padding
from lssar._reference import attention

torch.set_num_threads(1)  # the models are tiny
VOCABULARY, PERIOD, END = 24, 5, 1
OPTIONS = {"p": 3, "offset": 0.5}


def config_of_model(**more):
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="lssar_generation",
        pad_token_id=0,
        eos_token_id=END,
        **more,
    )


def periodic(count, length, seed):
    """Tokens that repeat after PERIOD: what comes next is found by looking back."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(2, VOCABULARY, (count, PERIOD), generator=generator)
    return words.repeat(1, -(-length // PERIOD))[:, :length]


def trained_model():
    from transformers import LlamaForCausalLM

    torch.manual_seed(1)
    model = LlamaForCausalLM(config_of_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(80):
        tokens = periodic(32, 20, step)
        loss = model(tokens, labels=tokens, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), loss.item()


def padded(prompts, side):
    """Tokens and attention_mask of a batch."""
    longest = max(len(x) for x in prompts)
    rows = [torch.zeros(longest - len(x), dtype=torch.long) for x in prompts]
    pairs = [(pad, x) if side == "left" else (x, pad) for pad, x in zip(rows, prompts)]
    tokens = torch.stack([torch.cat(pair) for pair in pairs])
    return tokens, (tokens != 0).long()


@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
class Generation(unittest.TestCase):
    NEW = 9

    @classmethod
    def setUpClass(cls):
        lssar.register_transformers("lssar_generation", **OPTIONS)
        cls.model, cls.loss = trained_model()
        tokens = periodic(4, 17, 1000)
        cls.prompts = [x[:n] for x, n in zip(tokens, (17, 3, 11, 8))]
        cls.one_by_one = [cls.generate(x[None], use_cache=False)[0] for x in cls.prompts]

    @classmethod
    def generate(cls, tokens, **more):
        """The new tokens."""
        options = {"max_new_tokens": cls.NEW, "do_sample": False, **more}
        return cls.model.generate(tokens, **options)[:, tokens.shape[1] :]

    def test_the_model_has_learned(self):
        self.assertLess(self.loss, 1.5)  # without looking back: log(22) = 3.1
        for prompt, new in zip(self.prompts, self.one_by_one):
            self.assertGreaterEqual(len(set(new.tolist())), 3)
            if len(prompt) > 2 * PERIOD:
                wanted = [prompt[(len(prompt) + i) % PERIOD] for i in range(self.NEW)]
                self.assertEqual(new.tolist(), [int(x) for x in wanted])

    def test_batches_with_padding_equal_one_by_one(self):
        tokens, mask = padded(self.prompts, "left")
        for options in ({"use_cache": False}, {}, {"cache_implementation": "static"}):
            with self.subTest(**options):
                new = self.generate(tokens, attention_mask=mask, **options)
                for row, wanted in zip(new, self.one_by_one):
                    self.assertEqual(row.tolist(), wanted.tolist())

    def test_prompts_in_parts(self):
        tokens, mask = padded(self.prompts, "left")
        for options in ({}, {"cache_implementation": "static"}):
            with self.subTest(**options):
                new = self.generate(tokens, attention_mask=mask, prefill_chunk_size=4, **options)
                for row, wanted in zip(new, self.one_by_one):
                    self.assertEqual(row.tolist(), wanted.tolist())

    def test_padding_on_the_right(self):
        """The masks of later steps have padding between tokens."""
        from transformers import DynamicCache, StaticCache

        tokens, mask = padded(self.prompts, "right")
        room = tokens.shape[1] + self.NEW
        for cache in (
            DynamicCache(config=self.model.config),
            StaticCache(config=self.model.config, max_cache_len=room),
        ):
            with self.subTest(cache=type(cache).__name__):
                new = self.greedy(tokens, mask, cache)
                for row, wanted in zip(new, self.one_by_one):
                    self.assertEqual(row.tolist(), wanted.tolist())

    @torch.no_grad()
    def greedy(self, tokens, mask, cache):
        count = mask.sum(1)
        position = (mask.cumsum(1) - 1).clamp(min=0)
        options = {"past_key_values": cache, "use_cache": True}
        logits = self.model(tokens, attention_mask=mask, position_ids=position, **options).logits
        new = [logits[torch.arange(len(count)), count - 1].argmax(-1)]
        for i in range(self.NEW - 1):
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            options["position_ids"] = (count + i)[:, None]
            logits = self.model(new[-1][:, None], attention_mask=mask, **options).logits
            new.append(logits[:, -1].argmax(-1))
        return torch.stack(new, dim=1)

    def test_gradients_of_a_padded_batch(self):
        """The sum of those of its entries, whatever the side of the padding."""
        parameters = list(self.model.parameters())

        def gradients(tokens, mask):
            logits = self.model(tokens, attention_mask=mask, use_cache=False).logits
            # Positions follow RoPE, which is relative: the side does not matter.
            weights = torch.linspace(-1, 1, VOCABULARY)
            return torch.autograd.grad((logits * weights * mask[..., None]).sum(), parameters)

        alone = [gradients(x[None], torch.ones(1, len(x))) for x in self.prompts]
        wanted = [sum(parts) for parts in zip(*alone)]
        for side in ("left", "right"):
            tokens, mask = padded(self.prompts, side)
            for ours, sums in zip(gradients(tokens, mask), wanted):
                torch.testing.assert_close(ours, sums, rtol=1e-3, atol=1e-4)

    def test_packed_sequences(self):
        """Several in each batch entry, told apart by their positions."""
        long, *short = self.prompts
        rows = [torch.cat([*short, long[:2]]), torch.cat([long, long[:7]])]
        lengths = [[len(x) for x in short] + [2], [17, 7]]
        positions = [torch.cat([torch.arange(n) for n in row]) for row in lengths]
        logits = self.model(
            torch.stack(rows), position_ids=torch.stack(positions), use_cache=False
        ).logits
        grads = torch.autograd.grad(logits.square().sum(), list(self.model.parameters()))
        documents = [x for row, sizes in zip(rows, lengths) for x in row.split(sizes)]
        alone = [self.model(x[None], use_cache=False).logits[0] for x in documents]
        wanted = torch.cat(alone)
        torch.testing.assert_close(logits.flatten(0, 1), wanted, rtol=1e-4, atol=1e-4)
        expected = torch.autograd.grad(wanted.square().sum(), list(self.model.parameters()))
        for ours, theirs in zip(grads, expected):
            error = (ours - theirs).norm()
            self.assertTrue(error <= 1e-4 * theirs.norm(), error)

    def test_a_compiled_step_with_a_static_cache(self):
        """As generate compiles it on GPUs: a graph without breaks takes the mask."""
        from transformers import StaticCache

        tokens, mask = padded(self.prompts, "left")
        steps = []
        for compiled in (False, True):
            cache = StaticCache(config=self.model.config, max_cache_len=tokens.shape[1] + 2)
            options = {"past_key_values": cache, "use_cache": True}
            with torch.no_grad():
                self.model(tokens, attention_mask=mask, **options)
                mask_now = torch.cat([mask, mask[:, -1:]], dim=1)
                inputs = self.model.prepare_inputs_for_generation(
                    tokens[:, -1:], attention_mask=mask_now, position_ids=mask.sum(1)[:, None], **options
                )
                forward = self.model.forward
                if compiled:
                    forward = torch.compile(forward, backend="aot_eager", fullgraph=True)
                steps.append(forward(**inputs).logits)
        torch.testing.assert_close(*steps, rtol=1e-4, atol=1e-5)  # the forward for training runs

    def test_an_encoder_and_its_decoder(self):
        """Bidirectional attention, and attention to another model's tokens."""
        from transformers import BartConfig, BartForConditionalGeneration

        torch.manual_seed(2)
        config = BartConfig(
            vocab_size=VOCABULARY,
            d_model=32,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            max_position_embeddings=64,
            attn_implementation="lssar_generation",
            pad_token_id=0,
            eos_token_id=END,
            bos_token_id=2,
            decoder_start_token_id=2,
        )
        model = BartForConditionalGeneration(config).eval()
        tokens, mask = padded(self.prompts, "right")
        start = periodic(4, 6, 7)
        with torch.no_grad():
            batch = model(tokens, attention_mask=mask, decoder_input_ids=start).logits
            for row, prompt, first in zip(batch, self.prompts, start):
                alone = model(prompt[None], decoder_input_ids=first[None]).logits[0]
                torch.testing.assert_close(row, alone, rtol=1e-4, atol=1e-5)

    def test_other_masks_are_refused(self):
        tokens = periodic(2, 8, 3)
        for mask in (torch.zeros(2, 1, 8, 8), torch.ones(2, 1, 8, 8, dtype=torch.bool)):
            pattern = r"^attention_mask: torch.\w+ \(2, 1, 8, 8\); lssar_generation takes padding masks"
            with self.assertRaisesRegex(ValueError, pattern):
                self.model(tokens, attention_mask=mask)

    def test_what_other_versions_ask_for(self):
        """Other arguments of the same call, and other orders. The tests run with one version only."""
        from transformers import AttentionMaskInterface, masking_utils

        make, causal = AttentionMaskInterface()["lssar_generation"], masking_utils.causal_mask_function
        padding = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
        more = {"batch_size": 2, "kv_length": 5, "mask_function": causal, "attention_mask": padding}
        wanted = make(q_length=2, q_offset=3, **more)
        self.assertTrue(torch.equal(make(cache_position=torch.tensor([3, 4]), **more), wanted))
        ids = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]])
        packed = masking_utils.packed_sequence_mask_function(ids)
        more = {**more, "attention_mask": None, "cache_position": torch.arange(5)}
        found = make(**{**more, "mask_function": masking_utils.and_masks(causal, packed)})
        self.assertEqual(found[0, 0, 0].tolist(), [0, 2, 5, 6, 8, 10])
        window = masking_utils.sliding_window_causal_mask_function(3)
        found = make(**{**more, "mask_function": masking_utils.and_masks(window, packed)})
        self.assertEqual(found[0, 0, 0].tolist(), [0, 2, 5, 6, 8, 10])
        # Transformers 5.24 has the parts in another order.
        positions = torch.tensor([[0, 1, 0, 1, 2], [0, 0, 1, 0, 1]])
        for within in (causal, window):
            remapped = masking_utils.remap_positions_for_packed_sequence(within, positions)
            for parts in ((remapped, packed), (packed, remapped)):
                found = make(**{**more, "mask_function": masking_utils.and_masks(*parts)})
                self.assertEqual(found[0, 0, 0].tolist(), [0, 2, 5, 6, 8, 10])
        chunks = masking_utils.chunked_causal_mask_function(3, torch.zeros(2, dtype=torch.long))
        for other in (chunks, masking_utils.and_masks(chunks, packed), lambda *x: True):
            with self.assertRaisesRegex(ValueError, "this model asks for another mask"):
                make(**{**more, "mask_function": other})

    def test_queries_beyond_the_cache_are_refused(self):
        from transformers import StaticCache

        cache = StaticCache(config=self.model.config, max_cache_len=6)
        with self.assertRaisesRegex(ValueError, "^cache: 6 keys from position 0 on, for queries 0 to 8"):
            self.model(periodic(1, 8, 3), past_key_values=cache, use_cache=True)


class Masks(unittest.TestCase):
    """The functions behind it, against the definition of each entry's visible tokens."""

    PADDING = torch.tensor(
        [[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]]
    )
    HOLES = torch.tensor(
        [[1, 0, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 1]]
    )

    def inputs(self, q_length, is_cache):
        generator = torch.Generator().manual_seed(3)
        q = torch.randn(4, q_length, 4, 8, generator=generator).transpose(1, 2)
        k, v = torch.randn(2, 4, 7, 2, 8, generator=generator).transpose(2, 3).unbind(0)
        return (q, k.contiguous(), v.contiguous()) if is_cache else (q, k, v)

    def check(self, q, k, v, padding, causal):
        """With gradients, and without."""
        q_length = q.shape[2]
        places = _padding.Places(q_length, 7 - q_length, 7, 0)
        mask = _padding.mask_of(places, causal, padding, 4, "cpu")
        self.assertTrue(_padding.is_mask(mask, q, k))
        inputs = [x.detach().clone(memory_format=torch.preserve_format) for x in (q, k, v)]
        leaves = [x.requires_grad_() for x in inputs]
        o = _padding.attention(*leaves, mask, **OPTIONS)
        alone = _padding.attention(q, k, v, mask, **OPTIONS)
        torch.testing.assert_close(alone, o.detach(), rtol=1e-4, atol=1e-5)
        grad_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(4))
        wide = [x.detach().double().requires_grad_() for x in leaves]
        wanted = torch.zeros(o.shape, dtype=torch.float64)
        parts = []
        for b, seen in enumerate(padding.bool()):
            rows = seen[7 - q_length :] if causal else torch.ones(q_length, dtype=torch.bool)
            one = (wide[0][b, :, rows], wide[1][b, :, seen], wide[2][b, :, seen])
            one_o = attention(*(x[None] for x in one), causal=causal, **OPTIONS)[0].transpose(0, 1)
            wanted[b, rows] = one_o.detach()
            parts.append((one_o * grad_o[b, rows].double()).sum())
        grads = torch.autograd.grad(o, leaves, grad_o)
        expected = torch.autograd.grad(sum(parts), wide)
        for ours, theirs in zip((o, *grads), (wanted, *expected)):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)

    def test_against_the_definition(self):
        kinds = ((7, True, False), (3, True, True), (1, True, True), (5, False, False))
        for padding in (self.PADDING, self.HOLES):
            for q_length, causal, is_cache in kinds:
                with self.subTest(padding=padding[0], q_length=q_length, causal=causal):
                    self.check(*self.inputs(q_length, is_cache), padding, causal)

    def test_no_mask_where_none_is_needed(self):
        ones = torch.ones(4, 7)
        for q_length, q_first, causal, padding, is_none in (
            (7, 0, True, ones, True),
            (1, 6, True, None, True),
            (1, torch.tensor(6), True, ones, True),
            (3, 0, False, ones, True),
            (3, 0, True, None, False),  # a static cache
            (1, torch.tensor(2), True, ones, False),
        ):
            places = _padding.Places(q_length, q_first, 7, 0)
            mask = _padding.mask_of(places, causal, padding, 4, "cpu")
            self.assertEqual(mask is None, is_none, (q_length, q_first, causal))

    def test_caches_are_read_in_place(self):
        for padding, n in ((self.PADDING, 2), (self.HOLES, 8)):
            mask = _padding.mask_of(_padding.Places(1, 6, 7, 0), True, padding, 4, "cpu")
            self.assertEqual(mask.shape, (4, 1, 2, n))
        _, k, v = self.inputs(1, is_cache=True)
        step = _padding._common_step(k, v)
        self.assertEqual(step, 14)
        rows, _ = _padding._packed(k, step)
        self.assertEqual(rows.data_ptr(), k.data_ptr())
        self.assertTrue(torch.equal(rows[step : step + 7], k[1].transpose(0, 1)))


if __name__ == "__main__":
    unittest.main()
