"""Wrong configs: each message has the field, its value and what is allowed."""

import contextlib
import io
import unittest

from small import CONFIGS, InFolder, small

from examples.train import config as configs, data, model, parallel, train
from examples.train.fields import ConfigError

WRONG = (
    (["model.layers=0"], "model.layers: 0; must be a whole number from 1 to 1024"),
    (["model.layers=true"], "model.layers: True; must be a whole number"),
    (["model.heads=3"], "model.heads: 3; must divide model.width, 64"),
    (["model.kv_heads=4", "model.heads=2"], "model.kv_heads: 4; must divide model.heads, 2"),
    (["model.width=24"], "model.head_dim: 12; must be a multiple of 8 from 8 to 256"),
    (["model.family=gpt3"], "model.family: 'gpt3'; must be one of gpt2, llama, vit"),
    (["model.projection=tucker"], "model.projection: 'tucker'; must be one of linear, tensor_product"),
    (["model.projection=tensor_product", "model.qk_norm=true"], "model.qk_norm: true; must be false with"),
    (["model.v_rank=0"], "model.v_rank: 0; must be a whole number from 1 to 1024"),
    (["model.p=[1]"], "model.p: [1]; must have 2 entries, as model.layers"),
    (["model.p=1025"], "model.p: 1025; must be null, a whole number from 0 to 1024, or a list"),
    (["model.depth=3"], "model.depth: 3; there is no such field; must be one of family, vocab"),
    (["data.source=orbits"], "data.source: 'orbits'; model.points true needs orbits, and false another"),
    (["model.points=true"], "data.source: 'made'; model.points true needs orbits, and false another"),
    (["data.source=web"], "data.source: 'web'; must be one of made, text, shards"),
    (["data.source=text"], "data.train: ''; data.source text needs a file's name"),
    (["train.warmup=9999"], "train.warmup: 9999; must be at most train.steps, 1500"),
    (["train.dtype=int8"], "train.dtype: 'int8'; must be one of float32, bfloat16"),
    (["optimizer.kind=sgd"], "optimizer: there is no such section; must be one of model, data, train"),
    (["steps=3"], "'steps=3'; an override must be section.field=value"),
)


class Errors(InFolder):
    def test_of_fields(self):
        for overrides, message in WRONG:
            with self.subTest(overrides), self.assertRaises(ConfigError) as caught:
                configs.load(CONFIGS / "tiny.json", overrides)
            self.assertIn(message, str(caught.exception))

    def test_of_attention(self):
        cases = (
            ({"model_attention": "softplux"}, "model.attention: 'softplux' with model.p None"),
            ({"model_attention": "phi=relu("}, "model.attention: 'phi=relu('"),
            ({"model_attention": "sdpa", "model_p": 3}, "model.p: 3; must be null or 0"),
        )
        for changes, message in cases:
            with self.subTest(changes), self.assertRaises(ConfigError) as caught:
                model.make(small(**changes).model)
            self.assertIn(message, str(caught.exception))

    def test_flex_does_not_train_on_the_cpu(self):
        with self.assertRaises(ConfigError) as caught:
            train.Run(small(model_attention="flex")).take_step()
        self.assertIn("'flex'; FlexAttention has no backward on the CPU; must be sdpa", str(caught.exception))

    def test_of_tasks(self):
        with self.assertRaisesRegex(ConfigError, "data.queries: 16; must be below the length, 16"):
            data.make(small(data_source="recall", data_queries=16))
        with self.assertRaises(ConfigError) as caught:
            data.make(small(data_source="recall", data_pairs=9))
        self.assertIn("data.pairs: 9; must be at most 6", str(caught.exception))

    def test_of_lengths_that_grow(self):
        recall = {"data_source": "recall", "data_pairs": 4, "data_queries": 8, "model_length": 48}
        for shortest in (0, 24, 48):
            data.make(small(**recall, data_shortest=shortest))
        for shortest, changes, message in (
            (16, recall, "data.shortest: 16; must be model.length, 48, over a power of 2"),
            (96, recall, "data.shortest: 96; must be model.length, 48, over a power of 2"),
            (12, recall, "data.pairs: 4; must be at most 2 with this vocab and length"),
            (8, {"data_source": "orbits", "model_points": True}, "data.shortest: 8; must be 0 where"),
        ):
            with self.subTest(message), self.assertRaises(ConfigError) as caught:
                data.make(small(**changes, data_shortest=shortest))
            self.assertIn(message, str(caught.exception))

    def test_of_processes(self):
        with self.assertRaises(ConfigError) as caught:
            train.Run(small(train_micro_batch=3))
        self.assertIn("train.micro_batch: 3; must divide 4", str(caught.exception))
        if not parallel.torch.cuda.is_available():
            with self.assertRaises(ConfigError) as caught:
                train.Run(small(train_device="cuda"))
            self.assertIn("train.device: 'cuda'; torch sees no GPU", str(caught.exception))

    def test_of_the_program(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = train.main([str(CONFIGS / "tiny.json"), "model.heads=5"])
        self.assertEqual(code, 2)
        self.assertEqual(said.getvalue(), "train: model.heads: 5; must divide model.width, 64\n")

    def test_shipped_configs_are_right(self):
        names = sorted(path.stem for path in CONFIGS.glob("*.json"))
        self.assertEqual(names, ["124M", "1B", "newton", "tiny", "tiny_llama", "tiny_vit"])
        for name in names:
            configs.load(CONFIGS / f"{name}.json", [])


if __name__ == "__main__":
    unittest.main()
