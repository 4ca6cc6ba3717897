"""Tensor products: their definition, positions, gradients, and standard attention as a case of them."""

import dataclasses
import unittest

import torch
from small import small

from examples.train import model as models, predict, projection, train
from examples.train.rope import Rope

FACTORED = {"model_projection": "tensor_product", "model_q_rank": 3, "model_k_rank": 2, "model_v_rank": 1}
GROUPED = {"model_heads": 4, "model_kv_heads": 2}


def made_projection(**changes):
    config = small(**FACTORED, **changes).model
    torch.manual_seed(1)
    made = projection.make(config).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 5, config.width, dtype=torch.float64)
    return config, made, x


class Definition(unittest.TestCase):
    def test_sum_of_outer_products(self):
        """Token by token and head by head, with loops; without positions."""
        for changes in (GROUPED, {"model_family": "llama"}):
            config, made, x = made_projection(**changes)
            heads = (config.heads, config.num_kv_heads, config.num_kv_heads)
            weight, bias = made.factors.weight, made.factors.bias
            sizes = [r * h for r, h in zip(config.ranks, heads)] + [r * config.dim for r in config.ranks]
            for i, got in enumerate(made(x, torch.nn.Identity())):
                self.assertEqual(got.shape, (2, heads[i], 5, config.dim))
                first = [sum(sizes[:n]) for n in (i, i + 3)]
                for batch, head, token in ((0, 0, 0), (1, heads[i] - 1, 4), (0, 1, 3)):
                    rows = weight @ x[batch, token] + (0 if bias is None else bias)
                    wanted = torch.zeros(config.dim, dtype=torch.float64)
                    for r in range(config.ranks[i]):
                        b = first[1] + r * config.dim
                        wanted += rows[first[0] + r * heads[i] + head] * rows[b : b + config.dim]
                    torch.testing.assert_close(got[batch, head, token], wanted / config.ranks[i])

    def test_positions_turn_whole_heads(self):
        """Factors that are turned give q and k that are turned, and v as it was."""
        config, made, x = made_projection(**GROUPED)
        rope = Rope(config.dim, config.rope_base, config.length)
        plain = made(x, torch.nn.Identity())
        wanted = (rope(plain[0]), rope(plain[1]), plain[2])
        for got, whole in zip(made(x, rope), wanted):
            torch.testing.assert_close(got, whole, rtol=1e-5, atol=1e-5)  # rope computes in float32
        self.assertGreater((made(x, rope)[0] - plain[0]).abs().max(), 0.1)

    def test_gradients(self):
        """Beside finite differences in float64, for the input and for the factors' matrix."""
        config, made, x = made_projection(model_width=16, model_heads=2)

        def results(x, weight, bias):
            parameters = {"factors.weight": weight, "factors.bias": bias}
            return torch.func.functional_call(made, parameters, (x[:, :2], torch.nn.Identity()))

        inputs = [x[:1], made.factors.weight, made.factors.bias]
        self.assertTrue(torch.autograd.gradcheck(results, [y.detach().requires_grad_() for y in inputs]))


class StandardAttention(unittest.TestCase):
    def test_is_a_case(self):
        """Ranks as heads, a the unit vectors times the rank: b is q, k and v, and the models agree."""
        config = small(model_attention="sdpa", **GROUPED).model
        ranks = {"q_rank": config.heads, "k_rank": config.kv_heads, "v_rank": config.kv_heads}
        torch.manual_seed(1)
        plain = models.make(config)
        factored = models.make(dataclasses.replace(config, projection="tensor_product", **ranks))
        state = plain.state_dict()
        for i in range(config.layers):
            name = f"blocks.{i}.attention.project"
            weight, bias = state.pop(f"{name}.qkv.weight"), state.pop(f"{name}.qkv.bias")
            heads = (config.heads, config.kv_heads, config.kv_heads)
            units = torch.cat([n * torch.eye(n).flatten() for n in heads])
            none = torch.zeros(len(units), config.width)
            state[f"{name}.factors.weight"] = torch.cat((none, weight))
            state[f"{name}.factors.bias"] = torch.cat((units, bias))
        factored.load_state_dict(state)
        tokens = torch.arange(32).reshape(2, 16)
        with torch.no_grad():
            torch.testing.assert_close(factored(tokens), plain(tokens), rtol=1e-5, atol=1e-6)


class Training(unittest.TestCase):
    def test_learns(self):
        """In every family; the loss of one batch falls."""
        sizes = {"model_image": 8, "model_patch": 2, "model_vocab": 10}
        families = (  # our attention once: each kind of kernel costs a compile
            {},
            {"model_family": "llama", "model_attention": "sdpa", **GROUPED},
            {"model_family": "vit", "model_attention": "sdpa", "data_source": "shapes", **sizes},
        )
        for family in families:
            run = train.Run(small(train_learning_rate=0.01, train_steps=12, **FACTORED, **family))
            batch = run.data.batch(0, 0, 4)
            before = run._loss(*batch).item()
            moved = run.model.blocks[0].attention.project.factors.weight.detach().clone()
            row = run.data.row
            run.data.row = lambda split, number: row(split, number % 4)  # one batch, again and again
            for _ in range(12):
                run.take_step()
            self.assertLess(run._loss(*batch).item(), before - 0.3, family)
            self.assertTrue((run.model.blocks[0].attention.project.factors.weight != moved).any())

    def test_new_heads_are_of_order_one(self):
        """Products of factors do not vanish, as they would with weights of 0.02."""
        for width in (64, 512):
            torch.manual_seed(1)
            config = small(model_width=width, **FACTORED).model
            project = models.make(config).blocks[0].attention.project
            for x in project(torch.randn(1, 16, width), torch.nn.Identity()):
                self.assertTrue(0.3 < x.std().item() < 2, x.std())

    def test_weights_are_counted_right(self):
        for changes in (GROUPED, {"model_family": "llama"}):
            config = small(**FACTORED, **changes).model
            count = sum(x.numel() for x in models.make(config).parameters())
            self.assertEqual(predict.parameters(config), count)


if __name__ == "__main__":
    unittest.main()
