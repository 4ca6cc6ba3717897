"""Reading beyond the training length: what is scored, and what changes only at inference."""

import contextlib
import io
import unittest

import torch
import torch.nn.functional as F
from small import InFolder, made_model, small

from examples.train import data, evaluate, model as models, train
from examples.train.fields import ConfigError
from examples.train.made import IGNORED


class Scored(InFolder):
    def check(self, config):
        """The scored targets, and the tokens before them, are the same at every length."""
        ends = []
        for length in (16, 32, 64):
            inputs, targets = evaluate.windows_of(config, 64, length).validation(0, 3)
            self.assertEqual(inputs.shape, (3, length))
            self.assertTrue((targets[:, :-4] == IGNORED).all())
            self.assertTrue(torch.equal(inputs[:, -3:], targets[:, -4:-1]))
            ends.append((inputs[:, -16:], targets[:, -4:]))
        for other in ends[1:]:
            self.assertTrue(all(map(torch.equal, ends[0], other)))

    def test_tokens_of_made_documents(self):
        self.check(small())

    def test_bytes_of_text_each_scored_in_one_window(self):
        text = torch.randint(256, (200,), generator=torch.Generator().manual_seed(1))
        name = str(self.folder / "text")
        (self.folder / "text").write_bytes(bytes(text.tolist()))
        config = small(data_source="text", model_vocab=256, data_train=name, data_validation=name)
        self.check(config)
        windows = evaluate.windows_of(config, 64, 16)
        targets = windows.validation(0, 9)[1][:, -4:]  # (200 - 65) // 16 + 1 windows
        wanted = torch.stack([text[61 + 16 * i : 65 + 16 * i] for i in range(9)])
        self.assertTrue(torch.equal(targets, wanted))

    def test_figures_are_those_of_the_definition(self):
        config, model = made_model(model_attention="sdpa")
        inputs, targets = data.make(config, 32).validation(0, 5)
        with torch.no_grad():
            logits = model(inputs)[:, -4:].flatten(0, 1)
        wanted = targets[:, -4:].flatten()
        loss = F.cross_entropy(logits, wanted).item()
        right = (logits.argmax(dim=-1) == wanted).double().mean().item()
        found = evaluate.read(config, model, (1, 2), documents=5)
        self.assertEqual([(x["times"], x["length"]) for x in found], [(1, 16), (2, 32)])
        self.assertAlmostEqual(found[1]["loss"], loss, places=5)
        self.assertAlmostEqual(found[1]["accuracy"], right)

    def test_answers_of_tasks(self):
        config, model = made_model(data_source="passkey", model_attention="sdpa")
        inputs, targets = data.make(config, 64).validation(0, 6)
        with torch.no_grad():
            loss = F.cross_entropy(model(inputs)[:, -1], targets[:, -1]).item()
        self.assertAlmostEqual(evaluate.read(config, model, (4,), documents=6)[0]["loss"], loss, places=5)


class OnlyAtInference(unittest.TestCase):
    def test_power(self):
        """Weights of LSSA read with p 15 are a model with p 15 of these weights."""
        config, model = made_model(model_attention="lssar", model_p=0)
        other_config, other = made_model(model_attention="lssar", model_p=15)
        plain = evaluate.read(config, model, (1, 2), documents=3)
        models.read_with(model, p=15)
        found = evaluate.read(config, model, (1, 2), documents=3)
        self.assertEqual(found, evaluate.read(other_config, other, (1, 2), documents=3))
        self.assertNotEqual(found, plain)

    def test_positions(self):
        config, model = made_model(model_attention="sdpa")
        plain, ntk, yarn = (
            evaluate.read(config, model, (1, 4), rope, documents=3) for rope in ("none", "ntk", "yarn")
        )
        self.assertEqual((model.rope.scaling, model.rope.factor), ("none", 1))
        self.assertEqual(ntk[0], plain[0])
        self.assertEqual(len({x[1]["loss"] for x in (plain, ntk, yarn)}), 3)
        self.assertEqual(evaluate.read(config, model, (1, 4), documents=3), plain)


class Program(InFolder):
    def run_program(self, *arguments):
        said, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            code = evaluate.main([str(self.folder), *arguments])
        return code, said.getvalue(), errors.getvalue()

    def test_reads_a_run(self):
        config = small(model_attention="sdpa", train_out=str(self.folder), train_steps=2)
        with contextlib.redirect_stdout(io.StringIO()):
            run = train.Run(config)
            run.run()
        code, said, _ = self.run_program("--times", "1", "2", "--documents", "4")
        self.assertEqual(code, 0)
        wanted = evaluate.read(config, run.model, (1, 2), documents=4)
        lines = [f"{x['length']:6}  {x['loss']:6.3f}  {x['accuracy']:5.3f}" for x in wanted]
        self.assertEqual(said.splitlines()[1:], lines)
        code, _, errors = self.run_program("--p", "3")
        self.assertEqual((code, errors[:22]), (2, "evaluate: model.p: 3; "))

    def test_errors(self):
        code, _, errors = self.run_program()
        self.assertEqual(code, 2)
        self.assertIn("no checkpoint; must be the train.out of a run", errors)
        sizes = {"model_image": 8, "model_patch": 2, "model_vocab": 10, "model_attention": "sdpa"}
        config = small(model_family="vit", data_source="shapes", **sizes)
        with self.assertRaisesRegex(ConfigError, "model.family: 'vit'; must be gpt2 or llama"):
            evaluate.read(config, models.make(config.model))


if __name__ == "__main__":
    unittest.main()
