"""The models: every attention trains, positions, grouped heads, the ViT; predicted sizes."""

import contextlib
import dataclasses
import io
import unittest
from unittest import mock

import torch
from small import CONFIGS, small

from examples.train import config as configs, model as models, predict, train
from examples.train.rope import Rope

# Each score costs the compile of its kernels.
ATTENTIONS = (
    {"model_attention": "sdpa"},
    {"model_attention": "lssar", "model_p": [0, 15]},
    {"model_attention": "softmax_entropy"},
    {"model_attention": "phi=relu(x)^2 + 0.01*x,normalizer=sum_abs", "model_p": 3},
)


def losses(config, steps=2):
    run = train.Run(config)
    return [run.take_step()[0].item() for _ in range(steps)]


class Attentions(unittest.TestCase):
    def test_each_trains(self):
        for changes in ATTENTIONS:
            with self.subTest(**changes):
                first, second, third = losses(small(train_learning_rate=0.01, **changes), 3)
                self.assertAlmostEqual(first, 3.5, delta=0.2)  # log(32): nothing is known yet
                self.assertNotEqual(second, third)

    def test_our_softmax_is_torchs(self):
        """In every family, with grouped heads and norms of q and k."""
        families = ({}, {"model_family": "llama", "model_kv_heads": 1, "model_qk_norm": True})
        for family in families:
            ours = losses(small(model_attention="softmax", **family))
            theirs = losses(small(model_attention="sdpa", **family))
            for a, b in zip(ours, theirs):
                self.assertAlmostEqual(a, b, delta=2e-6)

    def test_flex_is_torchs_softmax(self):
        tokens = torch.arange(16).reshape(1, 16)
        torch.manual_seed(1)
        model = models.make(small(model_attention="sdpa", model_heads=4, model_kv_heads=2).model)
        with torch.no_grad():
            wanted = model(tokens)
            models.read_with(model, attention="flex")
            torch.testing.assert_close(model(tokens), wanted)

    def test_p_of_each_layer(self):
        """A list of powers gives each layer its own: [0, 15] is neither [15, 0] nor 15."""
        first = [losses(small(model_p=p), 2)[1] for p in ([0, 15], [15, 0], 15)]
        self.assertEqual(len(set(first)), 3)

    def test_attention_is_causal(self):
        torch.manual_seed(1)
        model = models.make(small().model)
        tokens = torch.arange(16).reshape(1, 16)
        changed = tokens.clone()
        changed[0, 9] = 31
        with torch.no_grad():
            differ = (model(tokens) != model(changed)).any(dim=-1)[0].tolist()
        self.assertEqual(differ, [False] * 9 + [True] * 7)


class Vit(unittest.TestCase):
    def config(self, **changes):
        sizes = {"model_image": 8, "model_patch": 2, "model_vocab": 10}
        return small(model_family="vit", data_source="shapes", **sizes, **changes)

    def test_trains(self):
        first, second = losses(self.config())
        self.assertAlmostEqual(first, 2.3, delta=0.3)
        self.assertNotEqual(first, second)

    def test_patches_are_patches(self):
        torch.manual_seed(1)
        model = models.make(self.config().model)
        seen = []
        model.embedding.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
        image = torch.arange(64.0).reshape(1, 8, 8)
        model(image)
        self.assertEqual(seen[0][0, 5].tolist(), image[0, 2:4, 2:4].flatten().tolist())


class Positions(unittest.TestCase):
    def test_scores_depend_on_distance_only(self):
        rope = Rope(16, 10000.0, 64)
        q, k = torch.randn(2, 1, 1, 1, 16, generator=torch.Generator().manual_seed(1))
        for scaling in (("none", 1), ("ntk", 4), ("yarn", 1)):
            rope.stretch(*scaling)
            score = rope(q.expand(1, 1, 40, 16)) @ rope(k.expand(1, 1, 40, 16)).transpose(2, 3)
            for distance in (0, 1, 17):
                near = score[0, 0].diagonal(-distance)
                torch.testing.assert_close(near, near[:1].expand_as(near), atol=1e-5, rtol=0)

    def test_ntk(self):
        plain, rope = Rope(16, 10000.0, 64).frequencies(), Rope(16, 10000.0, 64)
        rope.stretch("ntk", 8.0)
        ratio = plain / rope.frequencies()
        self.assertAlmostEqual(ratio[0].item(), 1.0)
        self.assertAlmostEqual(ratio[-1].item(), 8.0, delta=1e-9)

    def test_yarn(self):
        plain, rope = Rope(64, 10000.0, 1024).frequencies(), Rope(64, 10000.0, 1024)
        rope.stretch("yarn", 4.0)
        turns, ratio = plain * 1024 / 6.283185307179586, plain / rope.frequencies()
        self.assertTrue((ratio[turns >= 32] == 1).all() and (turns >= 32).sum() > 3)
        torch.testing.assert_close(ratio[turns <= 1], torch.full_like(ratio[turns <= 1], 4.0))
        self.assertGreater((turns <= 1).sum(), 3)
        x = torch.ones(1, 1, 3, 64)
        self.assertAlmostEqual((rope(x).norm() / x.norm()).item(), 1.1386294, places=5)


class Predictions(unittest.TestCase):
    def test_weights_are_counted_right(self):
        cases = [small(), small(model_tied=False, model_hidden=40)]
        cases.append(small(model_family="llama", model_heads=4, model_kv_heads=2, model_qk_norm=True))
        for config in cases:
            model = models.make(config.model)
            count = sum(x.numel() for x in model.parameters())
            self.assertEqual(predict.parameters(config.model), count)

    def test_of_the_big_configs(self):
        sizes = {"124M": (123.6e6, 124.5e6), "1B": (1.0e9, 1.1e9)}
        for name, (low, high) in sizes.items():
            config = configs.load(CONFIGS / f"{name}.json", [])
            self.assertTrue(low < predict.parameters(config.model) < high, name)

    def test_attention_is_of_the_cost_model(self):
        config = configs.load(CONFIGS / "124M.json", [])
        command = predict.find_command()
        one = predict.predict(config, 8, command)
        mixed = dataclasses.replace(config.model, p=[0] * 6 + [15] * 6)
        two = predict.predict(dataclasses.replace(config, model=mixed), 8, command)
        self.assertTrue(0 < two["attention_ms"] < one["attention_ms"] < one["products_ms"])
        self.assertAlmostEqual(one["step_ms"], one["attention_ms"] + one["products_ms"])
        self.assertAlmostEqual(one["hours"], one["step_ms"] * 18865 / 3.6e6)

    def test_processes_that_cannot_share_a_step(self):
        tiny = str(CONFIGS / "tiny.json")
        cases = {
            ("--processes", "0"): "--processes: 0; must be 1 or more",
            ("--processes", "3"): "train.batch: 16; must be a multiple of the 3 processes",
            ("--processes", "32"): "train.batch: 16; must be a multiple of the 32 processes",
            ("train.micro_batch=3", "--processes", "2"): "train.micro_batch: 3; must divide 8",
        }
        for arguments, wanted in cases.items():
            with contextlib.redirect_stderr(io.StringIO()) as said, mock.patch.object(predict, "find_command"):
                try:
                    code = predict.main([tiny, *arguments])
                except SystemExit as ended:
                    code = ended.code
            self.assertEqual(code, 2)
            self.assertIn(wanted, said.getvalue())

    def test_sequences_that_grow(self):
        """Half of the tokens are in sequences of 128, so two thirds of the steps are."""
        config = small(model_length=256, data_shortest=128, train_steps=300)
        with mock.patch.object(predict, "attention_ms", lambda command, model, layer, rows: model.length):
            found = predict.predict(config, 1, "lssar")
        layers = config.model.layers
        self.assertEqual(found["attention_ms"], 256 * layers)
        short = found["products_ms"] / 2 + 128 * layers
        self.assertAlmostEqual(found["hours"], (200 * short + 100 * found["step_ms"]) / 3.6e6)


if __name__ == "__main__":
    unittest.main()
