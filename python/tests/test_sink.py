"""Sinks: a learned logit of each head in the sum of softmax, through PyTorch."""

import copy
import math
import unittest

import torch

import lssar
from definition import TOLERANCES, assert_close, random_inputs, with_gradients
from lssar import _op, _plans

SOFTMAX = "softmax,sink=per_head"
NO_SINK = "softmax"
needs_operators = unittest.skipUnless(_op.HAS_OPERATORS, "operators need torch 2.5")


def weights(q, k, sink, causal):
    """exp(s - m) of the keys and of the sink over r = sum_j exp(s - m) + exp(t - m)."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        len_q, len_k = s.shape[-2:]
        hidden = torch.ones(len_q, len_k, dtype=torch.bool).triu(1 + len_k - len_q)
        s = s.masked_fill(hidden, -math.inf)
    t = sink[None, :, None, None].expand(*s.shape[:3], 1)
    m = torch.cat([s, t], dim=-1).detach().amax(dim=-1, keepdim=True)
    a, b = torch.exp(s - m), torch.exp(t - m)
    r = a.sum(dim=-1, keepdim=True) + b
    return a / r, b / r


def formula(q, k, v, sink, causal=False):
    prob, _ = weights(q, k, sink, causal)
    return prob @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)


def with_all_gradients(function, q, k, v, sink, **options):
    """(o, dq, dk, dv, dsink), for the same random grad_o each time."""
    o = function(q, k, v, sink=sink, **options)
    grad_o = random_grad(o.shape, q.dtype).to(o.dtype)
    return (o.detach(), *torch.autograd.grad(o, (q, k, v, sink), grad_o))


def random_grad(shape, dtype):
    return torch.randn(shape, generator=torch.Generator().manual_seed(7)).to(dtype)


def random_sink(heads, seed=5):
    sink = 2 * torch.randn(heads, generator=torch.Generator().manual_seed(seed))
    return sink.requires_grad_()


def attend(q, k, v, score=SOFTMAX, **options):
    return lssar.attention(q, k, v, score=score, **options)


class Kernels(unittest.TestCase):
    def assert_all_equal(self, a, b):
        for x, y in zip(a, b, strict=True):
            self.assertTrue(torch.equal(x, y))

    def check(self, q, k, v, sink, causal):
        """All results against the formula in float64."""
        results = with_all_gradients(attend, q, k, v, sink, causal=causal)
        wide = [x.detach().double().requires_grad_() for x in (q, k, v, sink)]
        o = formula(*wide, causal=causal)
        grad_o = random_grad(o.shape, q.dtype).double()
        wanted = (o.detach(), *torch.autograd.grad(o, wide, grad_o))
        assert_close(self, results[:4], wanted[:4], q.dtype)
        self.assertEqual(results[4].dtype, torch.float32)
        dtype = q.dtype
        # docs/accuracy.md: a head's gradient sums terms of all rows, which err independently.
        with torch.no_grad():
            q, k, v, sink = wide
            prob, of_sink = weights(q, k, sink, causal)
            group = q.shape[1] // v.shape[1]
            grad_prob = grad_o @ v.repeat_interleave(group, dim=1).transpose(-1, -2)
            terms = of_sink * (prob * grad_prob.abs()).sum(dim=-1, keepdim=True)
        error = (results[4].double() - wanted[4]).norm().item()
        self.assertLessEqual(error, TOLERANCES[dtype][1] * terms.norm().item())

    def test_every_dtype(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for causal in (False, True):
                with self.subTest(dtype=dtype, causal=causal):
                    inputs = random_inputs(batch=2, heads=4, kv_heads=2, dtype=dtype)
                    self.check(*inputs, random_sink(4), causal)

    def test_sizes(self):
        for sizes in (
            {"heads": 3, "kv_heads": 1, "dim": 24, "dim_v": 40},
            {"len_q": 1, "len_k": 37},
            {"len_q": 37, "len_k": 5},  # the first rows see no keys
            {"len_q": 67},
        ):
            with self.subTest(**sizes):
                q, k, v = random_inputs(**sizes)
                self.check(q, k, v, random_sink(q.shape[1]), True)

    def test_with_a_second_stage(self):
        """Re-weighting and psi, and LSSAR's own scale; against the reference in float64."""
        for score, p in (
            (SOFTMAX, 3),
            (lssar.Score("exp", sink="per_head"), 15),
            (lssar.Score("exp(x)", sink="per_head", psi="relu(x - b)", psi_normalizer="sum"), None),
        ):
            with self.subTest(score=score, p=p):
                q, k, v = random_inputs(len_q=20)
                sink = random_sink(2)
                results = with_all_gradients(attend, q, k, v, sink, score=score, p=p)
                wide = [x.detach().double().requires_grad_() for x in (q, k, v, sink)]
                wanted = with_all_gradients(attend, *wide, score=score, p=p)
                assert_close(self, results, wanted, torch.float32)
                torch.testing.assert_close(results[4].double(), wanted[4], rtol=1e-4, atol=1e-5)

    def test_a_sink_of_minus_infinity_is_none(self):
        q, k, v = random_inputs(heads=4, kv_heads=2)
        sink = torch.full((4,), -math.inf, requires_grad=True)
        *results, grad_sink = with_all_gradients(attend, q, k, v, sink, causal=True)
        wanted = with_gradients(lssar.attention, q, k, v, causal=True, score=NO_SINK)
        self.assert_all_equal(results, wanted)
        self.assertFalse(grad_sink.any())

    def test_large_sinks_take_all(self):
        q, k, v = random_inputs(heads=4)
        sink = torch.tensor([1e3, 1e4, 3e38, 0.0], requires_grad=True)
        results = with_all_gradients(attend, q, k, v, sink)
        for x in results[:4]:
            self.assertFalse(x[:, :3].any())
            self.assertTrue(x[:, 3].any())
        self.assertTrue(torch.equal(results[4] != 0, torch.tensor([False] * 3 + [True])))

    def test_sinks_of_small_weight(self):
        q, k, v = random_inputs(heads=2)
        sink = torch.tensor([-1e3, -3e38], requires_grad=True)
        *results, grad_sink = with_all_gradients(attend, q, k, v, sink)
        self.assert_all_equal(results, with_gradients(lssar.attention, q, k, v, score=NO_SINK))
        self.assertFalse(grad_sink.any())

    def test_nan_and_infinity_stay_in_their_head(self):
        for value in (math.nan, math.inf):
            q, k, v = random_inputs(heads=4, len_q=9, len_k=7)  # rows 0 and 1 see no keys
            sink = torch.tensor([0.5, value, -0.5, 1.0], requires_grad=True)
            results = with_all_gradients(attend, q, k, v, sink, causal=True)
            finite = torch.tensor([0.5, 0.0, -0.5, 1.0], requires_grad=True)
            wanted = with_all_gradients(attend, q, k, v, finite, causal=True)
            others = [0, 2, 3]
            with self.subTest(value=value):
                for x, y in zip(results[:4], wanted[:4]):
                    self.assertTrue(torch.equal(x[:, others], y[:, others]))
                self.assertTrue(torch.equal(results[4][others], wanted[4][others]))
                for x in (*(x[:, 1, 2:] for x in results[:2]), *(x[:, 1] for x in results[2:4])):
                    self.assertTrue(x.isnan().all())
                for x in results[:2]:
                    self.assertFalse(x[:, 1, :2].any())
                self.assertTrue(results[4][1].isnan())

    def test_no_queries_no_keys_no_batch(self):
        for sizes in ({"len_q": 0, "len_k": 5}, {"len_q": 5, "len_k": 0}, {"batch": 0}):
            with self.subTest(**sizes):
                for x in with_all_gradients(attend, *random_inputs(**sizes), random_sink(2)):
                    self.assertFalse(x.bool().any())

    def test_only_what_is_asked_for(self):
        q, k, v = (x.detach() for x in random_inputs(len_q=9))
        sink = random_sink(2)
        wanted = with_all_gradients(attend, *(x.clone().requires_grad_() for x in (q, k, v)), sink)
        o = attend(q, k, v, sink=sink)
        o.backward(random_grad(o.shape, o.dtype))
        self.assertTrue(torch.equal(sink.grad, wanted[4]))
        x = q.clone().requires_grad_()
        o = attend(x, k, v, sink=sink.detach())
        o.backward(random_grad(o.shape, o.dtype))
        self.assertTrue(torch.equal(x.grad, wanted[1]))
        with torch.no_grad():
            o = attend(q, k, v, sink=sink)
        self.assertIsNone(o.grad_fn)
        self.assertTrue(torch.equal(o, wanted[0]))

    def test_repeatable_bitwise(self):
        inputs = (*random_inputs(batch=2, len_q=70), random_sink(2))
        first = with_all_gradients(attend, *inputs)
        self.assert_all_equal(first, with_all_gradients(attend, *inputs))

    def test_any_strides_of_a_sink(self):
        q, k, v = random_inputs(heads=4, len_q=9)
        table = torch.randn(4, 3)
        for sink in (table[:, 1], table[0, :1].expand(4)):
            leaf = sink.detach().requires_grad_()
            results = with_all_gradients(attend, q, k, v, leaf)
            wanted = with_all_gradients(attend, q, k, v, sink.clone().requires_grad_())
            self.assert_all_equal(results, wanted)

    def test_layout(self):
        q, k, v = random_inputs(heads=4, kv_heads=2, len_q=7)
        sink = random_sink(4)
        wanted = with_all_gradients(attend, q, k, v, sink)
        o = attend(*(x.transpose(1, 2) for x in (q, k, v)), sink=sink, layout="blhd")
        self.assertTrue(torch.equal(o.transpose(1, 2), wanted[0]))
        grad_o = random_grad(wanted[0].shape, o.dtype).transpose(1, 2)
        self.assertTrue(torch.equal(torch.autograd.grad(o, sink, grad_o)[0], wanted[4]))

    def test_autocast_leaves_the_sink(self):
        q, k, v = random_inputs(len_q=9)
        sink = random_sink(2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = attend(q, k, v, sink=sink)
        self.assertTrue(torch.equal(o, attend(*(x.bfloat16() for x in (q, k, v)), sink=sink)))

    def test_room_for_what_is_saved(self):
        """Room is left whatever the schedule: a sink needs no more."""
        context = _plans.context("virtual")
        for p in (0, 3):
            key = (True, 2, 16, 16, 2, 2, False, p, 1.0, SOFTMAX, 16)
            o, stats, x, _ = context.plan(key).needs((2, 2, 2, 33, 33))
            room = 4 * 2 * 2 * 33 * _plans.saved_words_per_row(True, 16, p, 1.0)
            self.assertLessEqual(o + stats + x, room)
            self.assertEqual((o, stats), (0, 4 * 2 * 2 * 33 * 4))

    def test_changed_sink_is_noticed(self):
        q, k, v = random_inputs(len_q=5)
        sink = random_sink(2)
        o = attend(q, k, v, sink=sink)
        with torch.no_grad():
            sink.zero_()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            o.sum().backward()

    def test_second_derivatives_are_refused(self):
        q, k, v = random_inputs(len_q=5)
        sink = random_sink(2)
        o = attend(q, k, v, sink=sink)
        (grad_sink,) = torch.autograd.grad(o.sum(), sink, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "gradient of the gradient"):
            grad_sink.sum().backward()


class Float64(unittest.TestCase):
    """The reference, differentiable any number of times."""

    def inputs(self, **sizes):
        inputs = [x.detach().double().requires_grad_() for x in random_inputs(dim=8, **sizes)]
        return *inputs, random_sink(inputs[0].shape[1]).detach().double().requires_grad_()

    def test_is_the_formula(self):
        for causal in (False, True):
            inputs = self.inputs(heads=4, kv_heads=2, len_q=9, len_k=7)
            results = with_all_gradients(attend, *inputs, causal=causal)
            wanted = with_all_gradients(
                lambda q, k, v, sink, causal: formula(q, k, v, sink, causal), *inputs, causal=causal
            )
            for x, y in zip(results, wanted):
                torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)

    def test_derivatives(self):
        for score, options in (
            (SOFTMAX, {"causal": True}),
            (SOFTMAX, {"p": 3, "offset": 0.0}),
            (lssar.Score("exp", sink="per_head", psi="x^2", psi_normalizer="sum"), {}),
        ):
            # 2 of 6 rows see no key.
            inputs = self.inputs(heads=2, kv_heads=1, len_q=6, len_k=4)

            def attention(q, k, v, sink):
                return attend(q, k, v, score=score, sink=sink, **options)  # noqa: B023

            with self.subTest(score=score, **options):
                check = torch.autograd.gradcheck
                self.assertTrue(check(attention, inputs, check_forward_ad=True, fast_mode=True))
                self.assertTrue(torch.autograd.gradgradcheck(attention, inputs, fast_mode=True))

    def test_edges(self):
        q, k, v, _ = self.inputs(heads=4, len_q=9, len_k=7)
        sink = torch.tensor([-math.inf, 1e9, math.nan, math.inf], dtype=torch.float64)
        results = with_all_gradients(attend, q, k, v, sink.requires_grad_(), causal=True)
        plain = with_gradients(lssar.attention, q, k, v, causal=True, score=NO_SINK)
        for x, y in zip(results[:4], plain):
            torch.testing.assert_close(x[:, 0], y[:, 0], rtol=1e-12, atol=1e-12)
            self.assertFalse(x[:, 1].any())
        for x in results[:2]:
            self.assertTrue(x[:, 2:, 2:].isnan().all())
            self.assertFalse(x[:, 2:, :2].any())
        self.assertEqual(results[4][:2].tolist(), [0, 0])
        self.assertTrue(results[4][2:].isnan().all())

    @needs_operators
    def test_is_compiled_whole(self):
        inputs = self.inputs(len_q=9)
        compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
        results = with_all_gradients(compiled, *inputs, causal=True)
        for x, y in zip(results, with_all_gradients(attend, *inputs, causal=True)):
            torch.testing.assert_close(x, y)


class Modules(unittest.TestCase):
    def test_two_steps_of_training(self):
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(1)
            module = lssar.nn.LSSARAttention(32, 2, causal=True, score=SOFTMAX, dtype=dtype)
            self.assertEqual((module.sink.shape, module.sink.dtype), ((2,), torch.float32))
            optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
            x, wanted = torch.randn(2, 2, 30, 32).to(dtype)
            sinks, losses = [module.sink.detach().clone()], []
            for _ in range(3):
                loss = (module(x) - wanted).float().square().mean()
                losses.append(loss.item())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                sinks.append(module.sink.detach().clone())
            self.assertTrue(losses[0] > losses[1] > losses[2], losses)
            self.assertFalse(sinks[0].any())
            for before, after in zip(sinks, sinks[1:]):
                self.assertTrue((before != after).all() and after.isfinite().all())

    def test_is_the_function_with_its_sink(self):
        torch.manual_seed(2)
        module = lssar.nn.LSSARAttention(32, 4, num_kv_heads=2, score=SOFTMAX)
        with torch.no_grad():
            module.sink.copy_(random_sink(4))
        x = torch.randn(2, 11, 32)
        q, k, v = module.qkv(x).split([32, 16, 16], dim=-1)
        q = q.reshape(2, 11, 4, 8).transpose(1, 2)
        k, v = (y.reshape(2, 11, 2, 8).transpose(1, 2) for y in (k, v))
        o = formula(q, k, v, module.sink)
        torch.testing.assert_close(module(x), module.out(o.transpose(1, 2).flatten(2)))

    def test_module_in_other_dtypes(self):
        """module.to(dtype) takes the sink with it."""
        module = lssar.nn.LSSARAttention(16, 2, score=SOFTMAX)
        for dtype in (torch.bfloat16, torch.float64, torch.float32):
            y = module.to(dtype)(torch.ones(1, 3, 16, dtype=dtype))
            y.sum().backward()
            self.assertEqual((y.dtype, module.sink.grad.dtype), (dtype, dtype))
            module.zero_grad()
        double = lssar.nn.LSSARAttention(16, 2, score=SOFTMAX, dtype=torch.float64)
        self.assertEqual(double.sink.dtype, torch.float64)

    def test_state(self):
        module = lssar.nn.LSSARAttention(16, 2, score=lssar.Score("exp", sink="per_head"))
        with torch.no_grad():
            module.sink.fill_(3)
        other = copy.deepcopy(module)
        self.assertEqual(other.sink.tolist(), [3, 3])
        other = lssar.nn.LSSARAttention(16, 2, score=SOFTMAX)
        other.load_state_dict(module.state_dict())
        self.assertEqual(other.sink.tolist(), [3, 3])
        plain = lssar.nn.LSSARAttention(16, 2, score=NO_SINK)
        self.assertIsNone(plain.sink)
        self.assertNotIn("sink", plain.state_dict())

    @needs_operators
    def test_compiled(self):
        module = lssar.nn.LSSARAttention(32, 2, causal=True, score=SOFTMAX)
        x = torch.randn(2, 9, 32)
        torch._dynamo.reset()
        results = []
        for function in (module, torch.compile(module, fullgraph=True, backend="aot_eager")):
            y = function(x)
            results.append((y, *torch.autograd.grad(y.square().sum(), list(module.parameters()))))
        for a, b in zip(*results):
            torch.testing.assert_close(a, b)


class Mistakes(unittest.TestCase):
    def test_arguments(self):
        q, k, v = (x.detach() for x in random_inputs(heads=4, kv_heads=2, len_q=3))
        sink = torch.zeros(4)
        none = {"score": NO_SINK}
        nested = torch.nested.nested_tensor([sink])
        due = r"^sink: None; must be torch.float32 \[heads\], \(4,\), because .* sink=per_head"
        not_due = r"^sink: shape \(4,\); must be None, because .* score=\"softmax,sink=per_head\""
        short = r"^sink: shape \(2,\); must be \(4,\), a number for each head of q"
        sigmoid = {"score": "sigmoid,sink=per_head"}
        per_row = {"score": lssar.Score("exp", sink="per_row")}
        elsewhere = "^sink: on device 'meta'; must be on that of q, 'cpu'"
        for error, pattern, given, options in (
            (ValueError, due, None, {}),
            (ValueError, not_due, sink, none),
            (ValueError, not_due, sink, {"score": None}),
            (ValueError, not_due, sink, {"score": "softmax,sink=none"}),
            (TypeError, "^sink: list; must be a torch.Tensor, or None", [0.0] * 4, {}),
            (TypeError, "^sink: float; must be a torch.Tensor, or None", 0.0, {"score": None}),
            (TypeError, "^sink: dtype torch.bfloat16; must be torch.float32", sink.bfloat16(), {}),
            (TypeError, "^sink: dtype torch.float64; must be torch.float32", sink.double(), {}),
            (ValueError, short, sink[:2], {}),
            (ValueError, r"^sink: shape \(\); must be \(4,\)", sink[0], {}),
            (ValueError, r"^sink: shape \(1, 4\); must be \(4,\)", sink[None], {}),
            (ValueError, elsewhere, sink.to("meta"), {}),
            (TypeError, "^sink: layout torch.sparse_coo; must be", sink.to_sparse(), {}),
            (TypeError, r"^sink: a nested tensor; must be one of \[heads\]", nested, {}),
            (lssar.LssarError, "score.sink = per_head with score.phi = sigmoid", sink, sigmoid),
            (lssar.LssarError, 'score.sink = "per_row"', sink, per_row),
        ):
            options = {"score": SOFTMAX, **options}
            for _ in range(2):  # what is wrong is not remembered as right
                with self.subTest(pattern=pattern), self.assertRaisesRegex(error, pattern):
                    lssar.attention(q, k, v, sink=given, **options)
        wide = [x.double() for x in (q, k, v)]
        with self.assertRaisesRegex(TypeError, "^sink: dtype torch.float32; must be torch.float64"):
            attend(*wide, sink=sink)
        with self.assertRaisesRegex(ValueError, r"^sink: None; must be torch.float64 \[heads\]"):
            attend(*wide)

    def test_after_a_right_call(self):
        q, k, v = (x.detach() for x in random_inputs(heads=4, len_q=3))
        attend(q, k, v, sink=torch.zeros(4))
        with self.assertRaisesRegex(ValueError, "^sink: None; must be"):
            attend(q, k, v)
        with self.assertRaisesRegex(ValueError, r"^sink: shape \(3,\); must be \(4,\)"):
            attend(q, k, v, sink=torch.zeros(3))

    def test_fields(self):
        text = lssar.Score("exp", sink="per_head").text
        self.assertEqual(text, '{"phi": "exp", "sink": "per_head"}')
        with self.assertRaisesRegex(TypeError, "^sink: True; must be a str"):
            lssar.Score("exp", sink=True)

    @needs_operators
    def test_operators(self):
        q, k, v = (x.detach() for x in random_inputs(heads=4, len_q=3))
        sink, scalars = torch.zeros(4), (False, 0, 1.0, 0, SOFTMAX)
        saved = torch.ops.lssar.forward_train(q, k, v, *scalars, sink)
        arguments = (saved[0], q, k, v, *saved)
        backward = torch.ops.lssar.backward_with_sink
        for device in ("cpu", "meta"):
            to = lambda *tensors: [x.to(device) for x in tensors]  # noqa: B023, E731
            for operator in (torch.ops.lssar.forward, torch.ops.lssar.forward_train):
                with self.assertRaisesRegex(ValueError, "^sink: None; must be"):
                    operator(*to(q, k, v), *scalars)
                with self.assertRaisesRegex(ValueError, r"^sink: shape \(4,\); must be None"):
                    operator(*to(q, k, v), *scalars[:4], NO_SINK, *to(sink))
            with self.assertRaisesRegex(ValueError, "^sink: None; must be"):
                torch.ops.lssar.backward(*to(*arguments), *scalars)
            with self.assertRaisesRegex(TypeError, "^sink: dtype torch.float16; must be"):
                backward(*to(*arguments), *scalars, *to(sink.half()))
            with self.assertRaisesRegex(ValueError, r"^sink: shape \(2,\); must be \(4,\)"):
                backward(*to(*arguments), *scalars, *to(sink[:2]))


if __name__ == "__main__":
    unittest.main()
