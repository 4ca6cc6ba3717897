"""Looking into attention: the figures against the definition, computed here; what the program writes."""

import contextlib
import io
import json
import math
import unittest
from unittest import mock

import torch
from small import ROOT, InFolder, made_model

from examples.train import checkpoint, evaluate, looking
from examples.train.fields import ConfigError

SAMPLE = ROOT / "tests" / "inspect" / "attention_figures.json"


def weights_of(q, k, p):
    """Causal weights by the formulas, in float64. p: None is softmax, a number LSSAR."""
    q, k = q.double(), k.double()
    length, dim = q.shape[-2:]
    n = torch.arange(1.0, length + 1, dtype=torch.float64)[:, None]
    sees = torch.arange(length) < n
    if p is None:
        score = (q @ k.transpose(-1, -2) / math.sqrt(dim)).masked_fill(~sees, -math.inf)
        return torch.softmax(score, dim=-1)
    q, k = (x / x.norm(dim=-1, keepdim=True) for x in (q, k))
    a = torch.log1p(torch.exp(math.log(dim) * n.log() * (q @ k.transpose(-1, -2)))) * sees
    offset = torch.where(n <= 3, 0.0, 1.0)
    u = (n * a / a.sum(dim=-1, keepdim=True) - offset).clamp(min=0) * sees
    w = (u / u.amax(dim=-1, keepdim=True)) ** p
    return w / w.sum(dim=-1, keepdim=True)


def weights_in(model, inputs, p):
    """The weights of every layer, [layers, batch, heads, length, length]."""
    seen = []
    layers = [block.attention for block in model.blocks]
    with contextlib.ExitStack() as stack, torch.no_grad():
        for layer in layers:
            attend = layer.attend
            spy = lambda q, k, v, attend=attend: seen.append((q, k)) or attend(q, k, v)
            stack.enter_context(mock.patch.object(layer, "attend", spy))
        model(inputs)
    heads = model.config.heads // model.config.num_kv_heads
    return torch.stack([weights_of(q, k.repeat_interleave(heads, dim=1), p) for q, k in seen])


def shape_of(value):
    """The fields and kinds of JSON: of a list those of its first element."""
    if isinstance(value, dict):
        return {name: shape_of(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape_of(inner) for inner in value[:1]]
    return type(value).__name__ if isinstance(value, str) else "number"


class Figures(unittest.TestCase):
    def check(self, p, **changes):
        config, model = made_model(**changes)
        with mock.patch.object(looking, "_ROWS_AT_ONCE", 7):
            found = looking.look(config, model, (1, 3), documents=3, cells=5)
        self.assertEqual([x["length"] for x in found["points"]], [16, 48])
        for point, drawn in zip(found["points"], found["maps"]):
            length = point["length"]
            inputs, _ = evaluate.windows_of(config, 48, length).validation(0, 3)
            weights = weights_in(model, inputs, p)
            self.check_point(point, weights[..., -4:, :])
            self.check_map(drawn, weights[:, 0])

    def check_point(self, point, weights):
        """The last four queries."""
        length = weights.shape[-1]
        seen = torch.arange(length - 3.0, length + 1)
        entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)
        live = (weights >= 2**-24 * weights.amax(dim=-1, keepdim=True)) & (weights > 0)
        wanted = {"entropy": entropy, "first": weights[..., 0], "live": live.sum(dim=-1) / seen}
        for name, values in wanted.items():
            means = values.double().mean(dim=(1, 3))
            torch.testing.assert_close(torch.tensor(point[name]).double(), means, atol=3e-6, rtol=0)
        self.assertAlmostEqual(point["keys"], seen.mean().item())
        self.assertAlmostEqual(point["uniform"], seen.double().log().mean().item(), places=6)

    def check_map(self, drawn, weights):
        length = weights.shape[-1]
        self.assertEqual((drawn["length"], drawn["cells"]), (length, 5))
        cell = [i * 5 // length for i in range(length)]
        for layer, heads in enumerate(drawn["layers"]):
            for head, rows in enumerate(heads):
                self.assertEqual([len(row) for row in rows], [1, 2, 3, 4, 5])
                for i, row in enumerate(rows):
                    queries = [x for x in range(length) if cell[x] == i]
                    for j, value in enumerate(row):
                        keys = [x for x in range(length) if cell[x] == j]
                        of = weights[layer, head][queries][:, keys].sum().item() / len(queries)
                        self.assertAlmostEqual(value, of, delta=6e-6)

    def test_softmax_of_torch(self):
        self.check(None, model_attention="sdpa")

    def test_softmax_of_groups(self):
        self.check(None, model_attention="sdpa", model_heads=4, model_kv_heads=2)

    def test_reweighted(self):
        self.check(15, model_attention="lssar", model_p=15)

    def test_loss_is_that_of_evaluate(self):
        config, model = made_model(model_attention="sdpa")
        wanted = evaluate.read(config, model, (1, 2), "ntk", documents=3)
        found = looking.look(config, model, (2, 1), "ntk", documents=3)["points"]
        for point, one in zip(found, wanted):
            self.assertAlmostEqual(point["loss"], one["loss"], places=5)


class TheModel(unittest.TestCase):
    def test_is_left_as_it_was(self):
        config, model = made_model(model_attention="sdpa")
        before = [block.attention.attend for block in model.blocks]
        looking.look(config, model, (1, 2), "ntk", documents=1)
        self.assertEqual([block.attention.attend for block in model.blocks], before)
        self.assertEqual((model.rope.scaling, model.rope.factor), ("none", 1))

    def test_that_is_broken_is_an_error(self):
        config, model = made_model(model_attention="sdpa")
        model.blocks[1].attention.project.qkv.weight.data.fill_(math.nan)
        before = [block.attention.attend for block in model.blocks]
        with self.assertRaisesRegex(ConfigError, "layer 2.*not finite"):
            looking.look(config, model, (2,), "ntk", documents=1)
        self.assertEqual([block.attention.attend for block in model.blocks], before)
        self.assertEqual((model.rope.scaling, model.rope.factor), ("none", 1))

    def test_has_its_positions_back_after_an_error(self):
        config, model = made_model(model_attention="sdpa")
        broken = mock.patch.object(evaluate, "score", side_effect=MemoryError)
        with broken, self.assertRaises(MemoryError):
            evaluate.read(config, model, (2,), "ntk", documents=1)
        self.assertEqual((model.rope.scaling, model.rope.factor), ("none", 1))

    def test_without_maps(self):
        config, model = made_model(model_attention="sdpa")
        found = looking.look(config, model, (1, 2), documents=1, cells=0)
        self.assertEqual((len(found["points"]), found["maps"]), (2, []))


class Program(InFolder):
    def made_run(self, name, **changes):
        config, model = made_model(**changes)
        (self.folder / name).mkdir()
        state = {"config": config.to_json(), "model": model.state_dict()}
        checkpoint.save(self.folder / name, 6, state, keep=1)
        return str(self.folder / name)

    def run_program(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            try:
                code = looking.main([*arguments, "--documents", "1", "--times", "1", "2"])
            except SystemExit as end:
                code = end.code
        return code, said.getvalue()

    def test_writes_what_the_page_reads(self):
        """The sample is what the tests of `lssar report --attention` read; this program wrote it."""
        runs = [self.made_run(name, model_attention=name) for name in ("sdpa", "lssa")]
        output = self.folder / "figures.json"
        code, said = self.run_program(*runs, "-o", str(output), "--cells", "8")
        self.assertEqual(code, 0, said)
        self.assertIn("lssar report --attention", said)
        found = json.loads(output.read_text())
        self.assertEqual([x["name"] for x in found["models"]], ["sdpa", "lssa"])
        self.assertEqual(shape_of(found), shape_of(json.loads(SAMPLE.read_text())))

    def test_errors(self):
        run, output = self.made_run("run", model_attention="sdpa"), str(self.folder / "figures.json")
        vit = self.made_run(
            "vit", model_family="vit", data_source="shapes", model_vocab=10, model_image=16
        )
        cases = [
            ((run, run), "'run'; --names must"),
            ((run, "--names", "a", "b"), "2 names; must be 1"),
            ((run, "--cells", "0"), "must be 1 or more"),
            ((str(self.folder / "none"),), "no checkpoint"),
            ((vit,), "model.family: 'vit'"),
        ]
        for arguments, wanted in cases:
            code, said = self.run_program(*arguments, "-o", output)
            self.assertEqual(code, 2, arguments)
            self.assertIn(wanted, said)


if __name__ == "__main__":
    unittest.main()
