"""lssar.jax on CPU arrays, against the definition in float64."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch

import definition
from definition import assert_close, expected, random_inputs

HAS_JAX = importlib.util.find_spec("jax") is not None
if HAS_JAX:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import lssar
    import lssar.jax
    from lssar import _xla
    from lssar._library import library


def to_jax(tensor):
    return jnp.asarray(tensor.detach().float().numpy(), dtype=str(tensor.dtype).split(".")[1])


def to_torch(array):
    return torch.from_numpy(np.array(array, np.float32))


@unittest.skipUnless(HAS_JAX, "JAX is not installed: pip install jax")
class Jax(unittest.TestCase):
    def check(self, q, k, v, function=None, **options):
        """Values and gradients of a function of q, k, v against the definition; causal unless told
        otherwise."""
        options = {"causal": True, **options}
        function = function or (lambda *x: lssar.jax.attention(*x, **options))
        o, pull = jax.vjp(function, *(to_jax(x) for x in (q, k, v)))
        grad_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(7)).to(q.dtype)
        results = (o, *pull(to_jax(grad_o)))
        self.assertEqual({x.dtype.name for x in results}, {str(q.dtype).split(".")[1]})
        wanted = expected(q, k, v, **options)
        assert_close(self, [to_torch(x) for x in results], wanted, q.dtype)

    def test_values_and_gradients(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                self.check(*random_inputs(batch=2, dtype=dtype))

    def test_shapes_and_options(self):
        for sizes, options in (
            ({"heads": 4, "kv_heads": 2, "dim_v": 24}, {}),
            ({"len_q": 5, "len_k": 37}, {"causal": False}),
            ({}, {"p": 0}),
            ({}, {"p": 3, "offset": 0.5}),
        ):
            with self.subTest(**sizes, **options):
                self.check(*random_inputs(**sizes), **options)

    def test_score_functions(self):
        text = "phi=relu(x)^2 + 0.01*x,normalizer=sum_abs"
        for dtype, score, options in (
            (torch.float32, "softmax", {}),
            (torch.bfloat16, "softmax", {}),
            (torch.float32, text, {}),
            (torch.float32, lssar.Score("sigmoid", scale="inv_sqrt_dim", qk_norm=False), {"p": 3}),
            (torch.float32, lssar.Score("exp", psi="x - b", psi_normalizer="sum_abs"), {"offset": 0.5}),
        ):
            with self.subTest(score=score, dtype=dtype):
                self.check(*random_inputs(len_q=12, dtype=dtype), score=score, **options)
        relu = lssar.Score(phi="relu(x)^2 + 0.01*x", normalizer="sum_abs")
        x = to_jax(random_inputs(len_q=12)[0])
        wanted = lssar.jax.attention(x, x, x, score=text)
        np.testing.assert_array_equal(lssar.jax.attention(x, x, x, score=relu), wanted)
        turned = jnp.swapaxes(x, 1, 2)
        o = lssar.jax.attention(turned, turned, turned, layout="blhd", score=relu)
        np.testing.assert_array_equal(jnp.swapaxes(o, 1, 2), wanted)
        plain = lssar.jax.attention(x, x, x)
        self.assertFalse(np.array_equal(wanted, plain))
        for same in ({"score": "lssar"}, {"p": 15}, {"score": lssar.Score(), "p": 15}):
            np.testing.assert_array_equal(lssar.jax.attention(x, x, x, **same), plain)

    def test_score_functions_in_transforms(self):
        """jit, vmap of grad, and a program that was exported, in another process."""
        softmax = lambda y: lssar.jax.attention(y, y, y, score="softmax")  # noqa: E731
        gradient = jax.grad(lambda y: (softmax(y[None]) ** 2).sum())
        x = to_jax(random_inputs(batch=2, len_q=9)[0])
        wanted = np.stack([gradient(y) for y in x])
        np.testing.assert_array_equal(jax.jit(jax.vmap(gradient))(x), wanted)
        checks = {"disabled_checks": lssar.jax.EXPORT_CHECKS}
        exported = jax.export.export(jax.jit(softmax), **checks)(x)
        o, gradient = self.run_elsewhere(exported, x)
        np.testing.assert_array_equal(o, softmax(x))
        np.testing.assert_array_equal(gradient, jax.grad(lambda y: softmax(y).sum())(x))

    def test_sinks(self):
        """Values and all gradients against the definition, of each way to call it."""
        score = "softmax,sink=per_head"

        def attend(q, k, v, sink):
            return lssar.jax.attention(q, k, v, causal=True, score=score, sink=sink)

        for dtype in (torch.float32, torch.bfloat16):
            inputs = random_inputs(batch=2, heads=4, kv_heads=2, len_q=9, dtype=dtype)
            sink = torch.linspace(-1, 2, 4)
            wide = [x.detach().double().requires_grad_() for x in (*inputs, sink)]
            o = definition.attention(*wide[:3], causal=True, p=0, score=score, sink=wide[3])
            grad_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(7)).to(dtype)
            wanted = (o.detach(), *torch.autograd.grad(o, wide, grad_o.double()))
            arrays = [to_jax(x) for x in (*inputs, sink)]
            for function in (attend, jax.jit(attend), jax.checkpoint(attend)):
                with self.subTest(dtype=dtype, function=function):
                    o, pull = jax.vjp(function, *arrays)
                    results = [to_torch(x) for x in (o, *pull(to_jax(grad_o)))]
                    assert_close(self, results[:4], wanted[:4], dtype)
                    error = (results[4] - wanted[4]).norm() / wanted[4].norm()
                    self.assertLess(error, 5e-2 if dtype == torch.bfloat16 else 1e-4)
            np.testing.assert_array_equal(function(*arrays), attend(*arrays))

    def test_sinks_in_transforms(self):
        """vmap over sinks, a sink of minus infinity, and an exported program in another process."""
        q, k, v = (to_jax(x) for x in random_inputs(heads=2, len_q=9))
        sinks = jnp.linspace(-2, 2, 6).reshape(3, 2)
        score = lssar.Score("exp", scale="inv_sqrt_dim", qk_norm=False, sink="per_head")
        attend = lambda t: lssar.jax.attention(q, k, v, score=score, sink=t)  # noqa: E731
        gradient = jax.grad(lambda t: (attend(t) ** 2).sum())
        for function in (attend, gradient):
            wanted = np.stack([function(t) for t in sinks])
            np.testing.assert_array_equal(jax.jit(jax.vmap(function))(sinks), wanted)
        plain = lssar.jax.attention(q, k, v, score="softmax")
        np.testing.assert_array_equal(attend(jnp.full(2, -jnp.inf)), plain)
        export = jax.export.export(jax.jit(attend), disabled_checks=lssar.jax.EXPORT_CHECKS)
        exported = export(sinks[0])
        o, result = self.run_elsewhere(exported, sinks[0])
        np.testing.assert_array_equal(o, attend(sinks[0]))
        np.testing.assert_array_equal(result, jax.grad(lambda t: attend(t).sum())(sinks[0]))

    def test_wrong_sinks_are_named_by_the_call(self):
        x, sink, softmax = jnp.ones((1, 2, 3, 8)), jnp.zeros(2), "softmax,sink=per_head"
        half, three = sink.astype(jnp.bfloat16), jnp.zeros(3)
        for error, pattern, given, score in (
            (ValueError, r"^sink: None; must be float32 \[heads\], \(2,\)", None, softmax),
            (ValueError, r"^sink: shape \(2,\); must be None, because", sink, "softmax"),
            (ValueError, r"^sink: shape \(2,\); must be None, because", sink, None),
            (TypeError, "^sink: dtype bfloat16; must be float32", half, softmax),
            (TypeError, "^sink: dtype int32; must be float32", [0, 0], softmax),
            (ValueError, r"^sink: shape \(3,\); must be \(2,\), a number for each", three, softmax),
            (ValueError, r"^sink: shape \(\); must be \(2,\)", 0.0, softmax),
        ):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(error, pattern):
                lssar.jax.attention(x, x, x, score=score, sink=given)

    def test_wrong_score_functions_are_named_by_the_call(self):
        x = jnp.ones((1, 1, 3, 8))
        for error, pattern, score in (
            (lssar.LssarError, "softmx.*allowed are lssar, softmax", "softmx"),
            (lssar.LssarError, "score.phi: character 6", lssar.Score("relu(")),
            (TypeError, "^score: 3; must be a str or an lssar.Score", 3),
            (ValueError, "^score: has the character '.u03c3'; must be of ASCII", "phi=\u03c3(x)"),
        ):
            with self.subTest(score=score), self.assertRaisesRegex(error, pattern):
                jax.jit(lambda y: lssar.jax.attention(y, y, y, score=score))(x)  # noqa: B023

    def test_in_jit(self):
        attention = jax.jit(lambda *x: lssar.jax.attention(*x, causal=True))
        self.check(*random_inputs(), function=attention)

    def test_in_a_scan_with_remat(self):
        """As the layers of a model: twice the same, which the definition does in a loop."""
        q, k, v = random_inputs(len_q=12)

        def layer(x, _):
            return lssar.jax.attention(x, k_jax, v_jax, causal=True), None

        k_jax, v_jax = to_jax(k), to_jax(v)
        gradient = jax.grad(
            lambda x: jax.lax.scan(jax.checkpoint(layer), x, None, length=2)[0].sum()
        )(to_jax(q))
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        o = wide[0]
        for _ in range(2):
            o = definition.attention(o, *wide[1:], causal=True)
        (wanted,) = torch.autograd.grad(o.sum(), wide[0])
        torch.testing.assert_close(to_torch(gradient).double(), wanted, rtol=1e-3, atol=1e-4)

    def test_not_causal_by_default(self):
        q, k, v = (to_jax(x) for x in random_inputs(len_q=9))
        np.testing.assert_array_equal(
            lssar.jax.attention(q, k, v), lssar.jax.attention(q, k, v, causal=False)
        )

    def test_heads_behind_length(self):
        q, k, v = (to_jax(x) for x in random_inputs(len_q=9, heads=4, kv_heads=2))
        o = lssar.jax.attention(*(jnp.swapaxes(x, 1, 2) for x in (q, k, v)), layout="blhd")
        np.testing.assert_array_equal(jnp.swapaxes(o, 1, 2), lssar.jax.attention(q, k, v))

    def test_export(self):
        """Refused without EXPORT_CHECKS, by JAX; with them it gives what the function gives."""
        x = to_jax(random_inputs(len_q=9)[0])
        gradient = jax.jit(jax.grad(lambda y: lssar.jax.attention(y, y, y).sum()))
        with self.assertRaisesRegex(ValueError, "lssar_forward_train"):
            jax.export.export(gradient)(x)
        checks = {"disabled_checks": lssar.jax.EXPORT_CHECKS}
        exported = jax.export.export(gradient, **checks)(x)
        np.testing.assert_array_equal(exported.call(x), gradient(x))

    def run_elsewhere(self, exported, x):
        """o and its sum's gradient, of an exported program in another process."""
        code = (
            "import sys, jax, numpy, lssar.jax\n"
            "program, x, o, gradient = sys.argv[1:]\n"
            "program = jax.export.deserialize(bytearray(open(program, 'rb').read()))\n"
            "x = numpy.load(x)\n"
            "numpy.save(o, program.call(x))\n"
            "numpy.save(gradient, jax.grad(lambda y: program.call(y).sum())(x))"
        )
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{name}.npy" for name in ("program", "x", "o", "gradient")]
            pathlib.Path(files[0]).write_bytes(exported.serialize(vjp_order=1))
            np.save(files[1], x)
            run = subprocess.run([sys.executable, "-c", code, *files], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            o, gradient = np.load(files[2]), np.load(files[3])
        return o, gradient

    def test_exported_program_runs_in_another_process(self):
        """Of any batch, serialised with its gradient."""
        (batch,) = jax.export.symbolic_shape("batch")
        shape = jax.ShapeDtypeStruct((batch, 2, 9, 16), jnp.float32)
        attention = jax.jit(lambda y: lssar.jax.attention(y, y, y, causal=True))
        exported = jax.export.export(attention, disabled_checks=lssar.jax.EXPORT_CHECKS)(shape)
        x = to_jax(random_inputs(batch=3, len_q=9)[0])
        o, gradient = self.run_elsewhere(exported, x)
        np.testing.assert_array_equal(o, attention(x))
        np.testing.assert_array_equal(gradient, jax.grad(lambda y: attention(y).sum())(x))

    def test_torch_is_not_imported(self):
        """In a process of its own; nor does `import lssar`, until something needs it."""
        code = (
            "import sys, jax.numpy, lssar.jax\n"
            "x = jax.numpy.ones((1, 1, 3, 8))\n"
            "lssar.jax.attention(x, x, x).block_until_ready()\n"
            "print('torch' in sys.modules)\n"
            "lssar.attention\n"
            "print('torch' in sys.modules)"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(run.stdout, "False\nTrue\n", run.stderr)

    def test_in_vmap(self):
        q, k, v = (to_jax(x) for x in random_inputs(batch=3, len_q=9))
        one_by_one = jax.vmap(lambda *x: lssar.jax.attention(*(y[None] for y in x))[0])(q, k, v)
        np.testing.assert_array_equal(one_by_one, lssar.jax.attention(q, k, v))

    def test_no_queries(self):
        q = jnp.zeros((2, 1, 0, 8))
        k = jnp.ones((2, 1, 3, 8))
        gradient = jax.grad(lambda k: lssar.jax.attention(q, k, k).sum())(k)
        self.assertFalse(gradient.any())

    def test_wrong_arguments_are_named(self):
        x, three_heads = jnp.ones((1, 2, 3, 16)), jnp.ones((1, 3, 3, 16))
        for error, pattern, inputs, options in (
            (ValueError, "^p: 1025; must be", (x, x, x), {"p": 1025}),
            (TypeError, "^causal: 1; must be", (x, x, x), {"causal": 1}),
            (ValueError, "^offset: -1; must be", (x, x, x), {"offset": -1}),
            (TypeError, "^k: dtype int32; must be that of q, float32", (x, x.astype(int), x), {}),
            (ValueError, "^scale: 0.5; must be None: .* log", (x, x, x), {"scale": 0.5}),
            (ValueError, "^layout: 'bh'; must be", (x, x, x), {"layout": "bh"}),
            (ValueError, "^q: dim 12; must be", (x[..., :12], x, x), {}),
            (ValueError, r"^v: heads and length \(1, 3\); must be those of k, \(2, 3\)", (x, x, x[:, :1]), {}),
            (ValueError, "^k: 3 heads; must divide", (x, three_heads, three_heads), {}),
        ):
            with self.subTest(pattern=pattern), self.assertRaisesRegex(error, pattern):
                lssar.jax.attention(*inputs, **options)

    def test_failure_of_the_library_is_an_error_of_the_computation(self):
        x = jnp.ones((1, 1, 3, 8))
        with mock.patch.object(library(), "execute_forward", lambda plan, call: 5):
            with self.assertRaisesRegex(Exception, "lssar: device error: "):
                lssar.jax.attention(x, x, x).block_until_ready()

    def test_structs_are_those_of_the_header(self):
        """The installed jaxlib's header, as a C compiler sees it."""
        lines = []
        wanted = [f"version {_xla.API_VERSION[0]} {_xla.API_VERSION[1]}"]
        for name, struct in _xla.STRUCTS.items():
            for field in (field[0] for field in struct._fields_):
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
                wanted.append(f"{name}.{field} {getattr(struct, field).offset}")
        source = (
            "#include <stdio.h>\n#include <xla/ffi/api/c_api.h>\n"
            "int main(void) {\n"
            'printf("version %d %d\\n", XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR);\n'
            + "\n".join(lines)
            + "\nreturn 0; }\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "layout"
            build = ["c++", "-x", "c++", "-I", jax.ffi.include_dir(), "-", "-o", str(program)]
            subprocess.run(build, input=source, text=True, check=True)
            output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(output.splitlines(), wanted)


if __name__ == "__main__":
    unittest.main()
