"""The operators: torch.compile, tracing, torch's own checks, and the path without them."""

import unittest
import warnings
from unittest import mock

import torch

import lssar
from definition import TOLERANCES, assert_close, check, expected, random_inputs, with_gradients
from lssar import _launch, _op, _structs
from lssar._library import library


needs_operators = unittest.skipUnless(_op.HAS_OPERATORS, "torch is older than 2.5")


@needs_operators
class Compile(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def compiled(self, function, backend, **options):
        return torch.compile(function, fullgraph=True, backend=backend, **options)

    def test_whole_graph_by_inductor(self):
        """With g++, as torch.compile is used."""

        def block(q, k, v):
            return torch.tanh(lssar.attention(2 * q, k, v, p=3)) + q

        inputs = random_inputs(heads=4, kv_heads=2, len_q=20)
        wanted = with_gradients(block, *inputs)
        results = with_gradients(self.compiled(block, "inductor"), *inputs)
        for result, reference in zip(results, wanted):
            torch.testing.assert_close(result, reference)

    def test_gradients(self):
        attention = self.compiled(lssar.attention, "aot_eager")
        for dtype in (torch.float32, torch.bfloat16):
            inputs = random_inputs(batch=2, heads=4, kv_heads=2, dim_v=24, dtype=dtype)
            check(self, *inputs, function=attention)

    def test_changed_o_is_noticed(self):
        """Within a graph, as without the compiler."""
        doubled = self.compiled(lambda *x: lssar.attention(*x).mul_(2), "aot_eager")
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            doubled(*random_inputs(len_q=9)).sum().backward()

    def test_every_dtype_and_no_gradient(self):
        attention = self.compiled(lssar.attention, "aot_eager")
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            with self.subTest(dtype=dtype), torch.no_grad():
                inputs = random_inputs(dtype=dtype)
                self.assertTrue(torch.equal(attention(*inputs), lssar.attention(*inputs)))

    def test_lengths_that_change(self):
        attention = self.compiled(lssar.attention, "aot_eager", dynamic=True)
        for length in (11, 20, 33):
            check(self, *random_inputs(len_q=length), function=attention)

    def test_layout_is_kept(self):
        def packed(x):
            q, k, v = (y.transpose(1, 2) for y in x.unbind(2))
            return lssar.attention(q, k, v, p=0).transpose(1, 2).flatten(2)

        x = torch.randn(2, 9, 3, 2, 16, requires_grad=True)
        wanted = packed(x)
        result = self.compiled(packed, "inductor")(x)
        torch.testing.assert_close(result, wanted)
        torch.testing.assert_close(
            *(torch.autograd.grad(o.square().sum(), x)[0] for o in (result, wanted))
        )

    def test_autocast(self):
        attention = self.compiled(lssar.attention, "aot_eager")
        inputs = random_inputs(len_q=9)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = attention(*inputs)
            self.assertTrue(torch.equal(o, lssar.attention(*inputs)))
        self.assertEqual(o.dtype, torch.bfloat16)

    def test_module(self):
        module = lssar.nn.LSSARAttention(32, 2)
        x = torch.randn(2, 9, 32)
        torch.testing.assert_close(self.compiled(module, "inductor")(x), module(x))


@needs_operators
class Tracing(unittest.TestCase):
    def test_torch_checks_the_operators(self):
        """Schema, fake shapes and strides, autograd registration, and AOT with dynamic shapes."""
        q, k, v = random_inputs(batch=2, heads=4, kv_heads=2, len_q=7, dim_v=24)
        scalars = (True, 15, 1.0, 5)
        torch.library.opcheck(torch.ops.lssar.forward_train.default, (q, k, v, *scalars))
        q, k, v = (x.detach() for x in (q, k, v))
        torch.library.opcheck(torch.ops.lssar.forward.default, (q, k, v, *scalars))
        results = torch.ops.lssar.forward_train(q, k, v, *scalars)
        grad_o = torch.ones_like(results[0])
        torch.library.opcheck(
            torch.ops.lssar.backward.default, (grad_o, q, k, v, *results, *scalars)
        )

    def test_fake_results_have_the_real_shapes(self):
        """Where they depend on the problem: p 0 and offset 0 save less."""
        for dtype, p, offset in (
            (torch.float32, 15, 1.0),
            (torch.bfloat16, 15, 1.0),
            (torch.bfloat16, 15, 0.0),
            (torch.float16, 0, 1.0),
        ):
            q, k, v = random_inputs(batch=2, dtype=dtype, dim_v=24)
            scalars = (True, p, offset, 0)
            real = torch.ops.lssar.forward_train(q, k, v, *scalars)
            meta = torch.ops.lssar.forward_train(*(x.to("meta") for x in (q, k, v)), *scalars)
            for a, b in zip(real, meta, strict=True):
                self.assertEqual((a.shape, a.stride(), a.dtype), (b.shape, b.stride(), b.dtype))
            # What a plain call saves, in one tensor, is the same.
            plain = _launch.run_forward_train(_launch.signature_of(q, k, v, *scalars[:3]), q, k, v)
            parts = _launch.split_saved(plain[1], q, v, p, offset)
            for a, b in zip(real[1:3], parts):
                self.assertTrue(torch.equal(a, b))
            self.assertEqual(real[3].shape, parts[2].shape)

    def test_meta_tensors(self):
        q, k, v = (x.detach().to("meta").requires_grad_() for x in random_inputs(heads=4, kv_heads=2))
        o = lssar.attention(q, k, v)
        o.sum().backward()
        for x, like in ((o, q), (q.grad, q), (k.grad, k), (v.grad, v)):
            self.assertEqual((x.shape, x.device), (like.shape, like.device))

    def test_meta_of_a_gpu_needs_none(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            q = torch.empty(2, 4, 100, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            o = lssar.attention(q, q, q)
            # Not by autograd, which asks the driver for the device.
            scalars = (True, 15, 1.0, 0)
            results = torch.ops.lssar.forward_train(q, q, q, *scalars)
            grads = torch.ops.lssar.backward(o, q, q, q, *results, *scalars)
        for x in (o, *grads):
            self.assertEqual((x.shape, x.device.type), (q.shape, "cuda"))

    def test_export(self):
        class Model(torch.nn.Module):
            def forward(self, q, k, v):
                return lssar.attention(q, k, v)

        inputs = tuple(x.detach() for x in random_inputs())
        program = torch.export.export(Model(), inputs)
        self.assertIn("lssar.forward", program.graph_module.code)
        self.assertTrue(torch.equal(program.module()(*inputs), lssar.attention(*inputs)))


@needs_operators
class WithoutCompile(unittest.TestCase):
    """Operators called as they are, which plain calls do not do."""

    def setUp(self):
        def attention(q, k, v, causal=False, p=15, offset=1.0):
            return _op.attention_by_operator(q, k, v, causal, p, offset)

        self.attention = attention

    def test_values_and_gradients(self):
        for dtype in (torch.float32, torch.bfloat16):
            inputs = random_inputs(batch=2, heads=4, kv_heads=2, dtype=dtype)
            causal = {"causal": True}
            results = with_gradients(self.attention, *inputs, **causal)
            assert_close(self, results, expected(*inputs, **causal), dtype)
            for a, b in zip(results, with_gradients(lssar.attention, *inputs, **causal)):
                self.assertTrue(torch.equal(a, b))

    def test_modes_see_operators(self):
        from torch.utils._python_dispatch import TorchDispatchMode

        class Names(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                names.append(str(function))
                return function(*args, **(kwargs or {}))

        names = []
        q, k, v = random_inputs(len_q=5)
        with Names():
            lssar.attention(q, k, v).sum().backward()
        self.assertIn("lssar.forward_train.default", names)
        self.assertIn("lssar.backward.default", names)

    def test_what_the_rounding_of_o_took(self):
        """It is less than o's last bit, and gradients of scores need it."""
        for dtype, bits in ((torch.float16, 11), (torch.bfloat16, 8)):
            q, k, v = (x.detach() for x in random_inputs(dim_v=24, dtype=dtype))
            q = k + q / 10  # a row attends to its own key: what its gradient sums nearly cancels
            wanted = expected(q, k, v, causal=True)
            scalars = (True, 15, 1.0, 0)
            o, saved_o, *others = torch.ops.lssar.forward_train(q, k, v, *scalars)
            half = 2.0**-bits * o.double().abs() + 2.0**-25  # of a last bit, and of float16's smallest
            self.assertTrue((saved_o.double().abs() <= half).all())
            grad_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(7)).to(dtype)
            errors = []
            for taken in (saved_o, torch.zeros_like(saved_o)):
                tensors = (grad_o, q, k, v, o, taken, *others)
                grads = torch.ops.lssar.backward(*tensors, *scalars)
                errors.append((grads[0].double() - wanted[1]).norm() / wanted[1].norm())
            self.assertLess(errors[0], TOLERANCES[dtype][1])
            self.assertGreater(errors[1], 5 * TOLERANCES[dtype][1])

    def test_changed_o_is_noticed(self):
        o = self.attention(*random_inputs(len_q=5))
        o.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            o.sum().backward()

    def test_without_gradient(self):
        q, k, v = random_inputs()
        with torch.no_grad():
            self.assertTrue(torch.equal(self.attention(q, k, v), lssar.attention(q, k, v)))

    def test_second_derivative_is_refused(self):
        q, k, v = random_inputs(len_q=5)
        (dq,) = torch.autograd.grad(self.attention(q, k, v).sum(), q, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "gradient of the gradient"):
            dq.sum().backward()


@needs_operators
class Tracers(unittest.TestCase):
    """Whatever looks at operators sees them, and replays what lssar.attention gives."""

    def setUp(self):
        self.inputs = [x.detach() for x in random_inputs(len_q=5, dim=8)]

    def attend(self, q, k, v):
        return lssar.attention(q, k, v, causal=True, p=3)

    def check_replay(self, traced):
        others = [x.detach() for x in random_inputs(len_q=5, dim=8, seed=2)]
        self.assertTrue(torch.equal(traced(*others), self.attend(*others)))
        results = with_gradients(traced, *(x.clone().requires_grad_() for x in others))
        assert_close(self, results, expected(*others, causal=True, p=3), torch.float32)

    def test_jit_trace(self):
        for wants_gradient in (False, True):
            inputs = tuple(x.clone().requires_grad_(wants_gradient) for x in self.inputs)
            with warnings.catch_warnings():
                warnings.simplefilter("error", torch.jit.TracerWarning)
                traced = torch.jit.trace(self.attend, inputs)
            self.assertIn("lssar::forward", str(traced.graph))
            self.check_replay(traced)

    def test_jit_script(self):
        self.check_replay(torch.jit.script(scripted))

    def test_make_fx(self):
        from torch.fx.experimental.proxy_tensor import make_fx

        for options in ({}, {"tracing_mode": "symbolic"}, {"pre_dispatch": True}):
            with self.subTest(**options):
                graph = make_fx(lambda *x: self.attend(*x), **options)(*self.inputs)
                self.assertIn("lssar.forward", graph.code)
                self.assertTrue(torch.equal(graph(*self.inputs), self.attend(*self.inputs)))

    def test_symbolic_trace(self):
        class Model(torch.nn.Module):
            def forward(self, q, k, v):
                return lssar.attention(q, k, v, causal=True, p=3)

        graph = torch.fx.symbolic_trace(Model())
        self.assertIn(lssar.attention, [node.target for node in graph.graph.nodes])
        self.check_replay(graph)

    def test_function_modes(self):
        class Names(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(function)
                return function(*args, **(kwargs or {}))

        seen = []
        with Names():
            o = self.attend(*self.inputs)
        self.assertEqual(seen, [lssar.attention])
        self.assertTrue(torch.equal(o, self.attend(*self.inputs)))

    def test_subclass_of_tensor(self):
        class Named(torch.Tensor):
            pass

        o = self.attend(*(x.as_subclass(Named) for x in self.inputs))
        self.assertIs(type(o), Named)
        self.assertTrue(torch.equal(o.as_subclass(torch.Tensor), self.attend(*self.inputs)))

    def test_profiler(self):
        q, k, v = (x.requires_grad_() for x in self.inputs)
        o = self.attend(q, k, v)
        with torch.profiler.profile() as profile:
            self.attend(q, k, v)
            o.sum().backward()  # of a call that was not profiled
        events = {event.name: event for event in profile.events()}
        for call, operator in (
            ("lssar.attention", "lssar::forward_train"),
            ("lssar.attention.backward", "lssar::backward"),
        ):
            whole, part = events[call].time_range, events[operator].time_range
            self.assertTrue(whole.start <= part.start and part.end <= whole.end, call)
        with torch.profiler.profile() as profile:
            self.attend(*(x.double() for x in (q, k, v)))  # no operator of ours
        self.assertIn("lssar.attention", {event.name for event in profile.events()})

    def test_count_of_operations(self):
        from torch.utils.flop_counter import FlopCounterMode

        for causal, pairs in ((False, 5 * 7), (True, 3 + 4 + 5 + 6 + 7)):
            q, k, v = random_inputs(batch=2, heads=4, kv_heads=2, len_q=5, len_k=7, dim=8, dim_v=16)
            with FlopCounterMode(display=False) as counter:
                lssar.attention(q, k, v, causal=causal).sum().backward()
            rows = 2 * 4 * pairs
            wanted = 2 * rows * (8 + 16) + 2 * rows * (3 * 8 + 2 * 16)
            self.assertEqual(counter.get_total_flops(), wanted)
        self.assertEqual(_op.num_scores(7, 5, True), 1 + 2 + 3 + 4 + 5)
        self.assertEqual(_op.num_scores(3, 0, True), 0)

    def test_negative_views(self):
        """Memory that holds -x: an address alone does not say so."""
        q, k, v = (x.requires_grad_() for x in self.inputs)
        wanted = torch.autograd.grad(self.attend(q, -k, v), q, -v)
        k, grad_o = torch._neg_view(k), torch._neg_view(v)
        self.assertTrue(torch.equal(torch.autograd.grad(self.attend(q, k, v), q, grad_o)[0], wanted[0]))

    def test_zeros_without_memory(self):
        """Some derivatives of torch are such."""
        zeros = torch._efficientzerotensor((1, 2, 5, 8))
        q, k, v = (x.requires_grad_() for x in self.inputs)
        self.assertFalse(self.attend(q, k, zeros).any())
        self.assertTrue(torch.equal(self.attend(zeros, k, v), self.attend(zeros + 0.0, k, v)))
        o = self.attend(q, k, v)
        self.assertFalse(any(x.any() for x in torch.autograd.grad(o, (q, k, v), zeros)))


def scripted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor):
    return lssar.attention(q, k, v, causal=True, p=3)


def scripted_with_sink(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sink: torch.Tensor):
    return lssar.attention(q, k, v, causal=True, score="softmax,sink=per_head", sink=sink)


@needs_operators
class Sinks(unittest.TestCase):
    """Operators with a sink, which is an argument behind the others."""

    SCALARS = (True, 0, 1.0, 0, "softmax,sink=per_head")

    def setUp(self):
        torch._dynamo.reset()
        q, k, v = random_inputs(batch=2, heads=4, kv_heads=2, len_q=7, dim_v=24)
        self.inputs = (q, k, v, torch.linspace(-1, 2, 4, requires_grad=True))

    def attend(self, q, k, v, sink):
        return lssar.attention(q, k, v, causal=True, score="softmax,sink=per_head", sink=sink)

    def gradients(self, function, inputs=None):
        inputs = self.inputs if inputs is None else inputs
        o = function(*inputs)
        return (o.detach(), *torch.autograd.grad(o, inputs, torch.ones_like(o).cumsum(-1)))

    def assert_same(self, function, is_exact=True):
        for a, b in zip(self.gradients(function), self.gradients(self.attend), strict=True):
            if is_exact:
                self.assertTrue(torch.equal(a, b))
            torch.testing.assert_close(a, b)

    def test_torch_checks_the_operators(self):
        q, k, v, sink = self.inputs
        scalars = (True, 0, 1.0, 5, "softmax,sink=per_head")
        torch.library.opcheck(torch.ops.lssar.forward_train.default, (q, k, v, *scalars, sink))
        q, k, v, sink = (x.detach() for x in self.inputs)
        torch.library.opcheck(torch.ops.lssar.forward.default, (q, k, v, *scalars, sink))
        results = torch.ops.lssar.forward_train(q, k, v, *scalars, sink)
        arguments = (torch.ones_like(results[0]), q, k, v, *results, *scalars, sink)
        torch.library.opcheck(torch.ops.lssar.backward_with_sink.default, arguments)

    def test_values_and_gradients(self):
        """Through the operators, eagerly: as plain calls."""
        self.assert_same(
            lambda q, k, v, sink: torch.ops.lssar.forward(q, k, v, *self.SCALARS, sink=sink)
        )

    def test_sink_alone(self):
        """Which of the inputs wants a gradient decides which operator runs."""
        *others, sink = self.inputs
        others = [x.detach() for x in others]
        o = torch.ops.lssar.forward(*others, *self.SCALARS, sink)
        (grad_sink,) = torch.autograd.grad(o, sink, torch.ones_like(o).cumsum(-1))
        self.assertTrue(torch.equal(grad_sink, self.gradients(self.attend)[4]))

    def test_fake_results_have_the_real_shapes(self):
        tensors = [x.detach() for x in self.inputs]
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v, sink = (*(x.to(dtype) for x in tensors[:3]), tensors[3])
            results = []
            for device in ("cpu", "meta"):
                q, k, v, sink = (x.to(device) for x in (q, k, v, sink))
                saved = torch.ops.lssar.forward_train(q, k, v, *self.SCALARS, sink)
                inputs = (saved[0], q, k, v, *saved, *self.SCALARS, sink)
                results.append((*saved, *torch.ops.lssar.backward_with_sink(*inputs)))
            for a, b in zip(*results, strict=True):
                self.assertEqual((a.shape, a.stride(), a.dtype), (b.shape, b.stride(), b.dtype))

    def test_compiled(self):
        def block(q, k, v, sink):
            return torch.tanh(self.attend(2 * q, k, v, 3 * sink))

        compiled = torch.compile(block, fullgraph=True, backend="inductor")
        for a, b in zip(self.gradients(compiled), self.gradients(block), strict=True):
            torch.testing.assert_close(a, b)
        options = {"fullgraph": True, "backend": "aot_eager", "dynamic": True}
        self.assert_same(torch.compile(self.attend, **options))

    def test_tracers(self):
        from torch.fx.experimental.proxy_tensor import make_fx

        class Model(torch.nn.Module):
            def forward(self, q, k, v, sink):
                return lssar.attention(q, k, v, True, score="softmax,sink=per_head", sink=sink)

        self.assert_same(torch.jit.trace(self.attend, self.inputs))
        self.assert_same(torch.jit.script(scripted_with_sink))
        self.assert_same(torch.fx.symbolic_trace(Model()))
        plain = tuple(x.detach() for x in self.inputs)
        made = make_fx(lambda *x: self.attend(*x))(*plain)
        exported = torch.export.export(Model(), plain).module()
        for graph in (made, exported):
            self.assertTrue(torch.equal(graph(*plain), self.attend(*plain)))

    def test_negative_view_of_a_sink(self):
        q, k, v, sink = self.inputs
        (wanted,) = torch.autograd.grad(self.attend(q, k, v, -sink).sum(), q)
        o = self.attend(q, k, v, torch._neg_view(sink))
        self.assertTrue(torch.equal(torch.autograd.grad(o.sum(), q)[0], wanted))

    def test_second_derivatives_are_refused(self):
        q, k, v, sink = self.inputs
        o = torch.ops.lssar.forward(q, k, v, *self.SCALARS, sink)
        (grad_sink,) = torch.autograd.grad(o.sum(), sink, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "gradient of the gradient"):
            grad_sink.sum().backward()

    def test_nothing_waits(self):
        from torch.utils._python_dispatch import TorchDispatchMode

        class Names(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                names.add(function.name())
                return function(*args, **(kwargs or {}))

        q, k, v, sink = (x.detach() for x in self.inputs)
        saved = _launch.forward_train(q, k, v, *self.SCALARS, sink)
        names = set()
        with Names():
            _launch.forward(q, k, v, *self.SCALARS, sink)
            _launch.forward_train(q, k, v, *self.SCALARS, sink)
            _launch.backward_with_sink(saved[0], q, k, v, *saved, *self.SCALARS, sink)
        self.assertEqual(names, {"aten::new_empty", "aten::new_empty_strided"})


class NothingWaits(unittest.TestCase):
    """A call allocates and enqueues: no torch operator that reads a result on the host, copies or
    computes, and no function of the library but execute_*."""

    def test_operators_of_torch_are_allocations(self):
        from torch.utils._python_dispatch import TorchDispatchMode

        class Names(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                names.add(function.name())
                return function(*args, **(kwargs or {}))

        for inputs in (
            random_inputs(heads=4, kv_heads=2, len_q=9, dim_v=24),
            [x.transpose(1, 2) for x in torch.randn(3, 1, 9, 2, 16, dtype=torch.bfloat16)],
        ):
            q, k, v = (x.detach() for x in inputs)
            scalars = (True, 15, 1.0, _launch.layout_of(q, k, v))
            saved = _launch.forward_train(q, k, v, *scalars)
            grad_o = torch.ones_like(saved[0])
            for _ in range(2):  # calls of a new signature, and of one that is known
                names = set()
                with Names():
                    _launch.forward(q, k, v, *scalars)
                    _launch.forward_train(q, k, v, *scalars)
                    _launch.backward(grad_o, q, k, v, *saved, *scalars)
                allocations = {"aten::new_empty", "aten::new_empty_strided"}
                self.assertEqual(names, allocations)

    def test_functions_of_the_library(self):
        inputs = random_inputs(len_q=9)
        with_gradients(lssar.attention, *inputs)  # has kernels from here on
        with mock.patch.dict(library().__dict__):
            for name in _structs.PROTOTYPES:
                if not name.startswith("lssar_execute_"):
                    setattr(library(), name[len("lssar_") :], None)
            with_gradients(lssar.attention, *inputs)
            with torch.no_grad():
                with self.assertRaises(TypeError):  # another pass, which is not prepared
                    lssar.attention(*inputs, p=13)


if __name__ == "__main__":
    unittest.main()
