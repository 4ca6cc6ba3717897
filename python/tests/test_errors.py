"""Each wrong argument is named with its value and what is allowed; and the library is found."""

import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import torch

import lssar
from definition import random_inputs
from lssar import _check, _launch, _library, _op, _structs

HEADER = pathlib.Path(__file__).resolve().parents[2] / "include"


class Arguments(unittest.TestCase):
    def assert_refused(self, error, pattern, *inputs, **options):
        with self.assertRaisesRegex(error, pattern):
            lssar.attention(*inputs, **options)

    def test_scalars(self):
        inputs = random_inputs(len_q=3)
        for error, pattern, options in (
            (ValueError, "^p: 1025; must be from 1 to 1024, or 0", {"p": 1025}),
            (ValueError, "^p: -1; must be", {"p": -1}),
            (TypeError, "^p: 2.5; must be an int", {"p": 2.5}),
            (TypeError, "^p: True; must be an int", {"p": True}),
            (ValueError, "^offset: -1; must be from 0 to 1000000", {"offset": -1}),
            (ValueError, "^offset: 10{400}; must be from 0 to", {"offset": 10**400}),
            (ValueError, "^offset: 1000000.1; must be", {"offset": 1000000.1}),
            (ValueError, "^offset: nan; must be from 0", {"offset": math.nan}),
            (TypeError, "^offset: '1'; must be a number", {"offset": "1"}),
            (TypeError, "^causal: 1; must be True or False", {"causal": 1}),
            (ValueError, "^scale: 0.125; must be None: .* log", {"scale": 0.125}),
            (
                ValueError,
                r"^scale: 0.125; must be None: a score function has its own, as in lssar.Score\(",
                {"scale": 0.125, "score": "softmax"},
            ),
            (ValueError, "^layout: 'bhdl'; must be 'bhld' or 'blhd'", {"layout": "bhdl"}),
        ):
            with self.subTest(**options):
                self.assert_refused(error, pattern, *inputs, **options)

    def test_after_right_arguments_that_are_equal_to_them(self):
        """1 == True == 1.0: a call like an earlier one is not checked again."""
        q, k, v = random_inputs(len_q=3)
        with torch.no_grad():
            lssar.attention(q, k, v, p=1, offset=1.0)
        for pattern, options in (
            ("^causal: 1; must be", {"causal": 1}),
            ("^p: True; must be", {"p": True}),
            ("^p: 1.0; must be", {"p": 1.0}),
            ("^offset: True; must be", {"offset": True}),
            (r"^p: \[1\]; must be", {"p": [1]}),
        ):
            with self.subTest(**options):
                self.assert_refused(TypeError, pattern, q, k, v, **{"p": 1, **options})
        self.assert_refused(TypeError, "^v: dtype torch.float16", q, k, v.half(), p=1)
        self.assert_refused(TypeError, "^q: layout torch.sparse_coo", q.to_sparse(), k, v, p=1)

    def test_types(self):
        q, k, v = random_inputs(len_q=3)
        self.assert_refused(TypeError, "^k: list; must be a torch.Tensor", q, [1], v)
        self.assert_refused(TypeError, "^q: dtype torch.int32; must be", *(3 * [q.int()]))
        self.assert_refused(TypeError, "^k: dtype torch.float32; must be", q.double(), k, v)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a prototype, torch says
            nested = torch.nested.nested_tensor([q[0], q[0]])
        self.assert_refused(TypeError, "^q: a nested tensor; must be", nested, k, v)
        self.assert_refused(TypeError, "^v: dtype torch.float16; must be that of q", q, k, v.half())

    def test_sparse_gradient(self):
        q, k, v = random_inputs(len_q=3)
        o = lssar.attention(q, k, v)
        with self.assertRaisesRegex(TypeError, "^grad_o: layout torch.sparse_coo; must be"):
            torch.autograd.grad(o, q, o.detach().to_sparse())

    def test_shapes(self):
        q, k, v = random_inputs(batch=2, heads=4, kv_heads=2, len_q=3)
        for pattern, inputs in (
            (r"^q: shape \(4, 3, 16\); must be \[batch", (q[0], k, v)),
            ("^q: dim 12; must be a multiple of 8", (q[..., :12], k, v)),
            ("^q: dim 264; must be a multiple of 8 from 8 to 256", (q.new_ones(2, 4, 3, 264), k, v)),
            ("^k: dim 8; must be that of q, 16", (q, k[..., :8], v)),
            ("^k: batch 1; must be that of q, 2", (q, k[:1], v)),
            (r"^v: heads and length \(2, 2\); must be those of k, \(2, 3\)", (q, k, v[:, :, :2])),
            ("^k: 3 heads; must divide the heads of q, 4", (q, q[:, :3], q[:, :3])),
            ("^k: 0 heads; must divide", (q, q[:, :0], q[:, :0])),
            ("^q: 0 heads; must be 1 or more", (q[:, :0], k, v)),
        ):
            with self.subTest(pattern=pattern):
                self.assert_refused(ValueError, pattern, *inputs)

    def test_shape_says_the_layout_asked_for(self):
        q, k, v = random_inputs(len_q=3)
        pattern = r"^k: shape \(2, 3, 16\); must be \[batch, length, heads, dim\]"
        self.assert_refused(ValueError, pattern, q, k[0], v, layout="blhd")

    def test_devices(self):
        q, k, v = (x.detach() for x in random_inputs(len_q=3))
        away = q.to("meta")
        self.assert_refused(ValueError, "^k: on device 'meta'; must be on that of q", q, away, v)
        self.assert_refused(ValueError, "^k: on device 'cpu'; must be on that of q", away, k, v)
        with self.assertRaisesRegex(ValueError, "^q: on device 'xla'; must be on a CUDA"):
            _check.check_device(mock.Mock(device=torch.device("xla")))
        with self.assertRaisesRegex(ValueError, "^device: 'meta'; must be"):
            lssar.device_info("meta")


@unittest.skipUnless(_op.HAS_OPERATORS, "torch is older than 2.5")
class Operators(unittest.TestCase):
    """torch.ops.lssar.* check what lssar.attention checks, on tensors with memory and without."""

    def setUp(self):
        self.q, self.k, self.v = (x.detach() for x in random_inputs(heads=4, kv_heads=2, len_q=5))
        self.scalars = (True, 15, 1.0, 0)

    def assert_refused(self, name, error, pattern, tensors, scalars=None):
        for device in ("cpu", "meta"):
            operator = getattr(torch.ops.lssar, name)
            with self.subTest(name=name, pattern=pattern, device=device):
                with self.assertRaisesRegex(error, pattern):
                    operator(*(x.to(device) for x in tensors), *(scalars or self.scalars))

    def test_forward(self):
        q, k, v = self.q, self.k, self.v
        for name in ("forward", "forward_train"):
            for error, pattern, tensors in (
                (ValueError, "^v: heads and length", (q, k[:, :, :3], v)),
                (TypeError, "^k: dtype torch.float64; must be that of q", (q, k.double(), v)),
                (TypeError, "^q: dtype torch.float64; must be one of", (x.double() for x in (q, k, v))),
                (ValueError, "^k: dim 8; must be that of q, 16", (q, k[..., :8], v)),
                (ValueError, "^q: dim 12; must be a multiple", (q[..., :12], k, v)),
                (ValueError, "^k: 4 heads; must divide", (q[:, :3], q, q)),
                (ValueError, r"^q: shape \(4, 5, 16\)", (q[0], k, v)),
                (ValueError, "^k: batch 2; must be", (q, k.expand(2, -1, -1, -1), v)),
            ):
                self.assert_refused(name, error, pattern, tuple(tensors))
            for pattern, scalars in (
                ("^p: 1025; must be", (True, 1025, 1.0, 0)),
                ("^score: 'x.x00'; must not have a NUL", (True, 0, 1.0, 0, "x\0")),
                ("^offset: nan; must be", (True, 15, math.nan, 0)),
                ("^layout: 8; must be", (True, 15, 1.0, 8)),
            ):
                self.assert_refused(name, ValueError, pattern, (q, k, v), scalars)

    def test_backward(self):
        q, k, v = self.q, self.k, self.v
        o, saved_o, stats, x = torch.ops.lssar.forward_train(q, k, v, *self.scalars)
        right = {"grad_o": o, "q": q, "k": k, "v": v, "o": o}
        right |= {"saved_o": saved_o, "saved_stats": stats, "saved_x": x}
        for error, pattern, wrong in (
            (ValueError, r"^grad_o: shape \(1, 4, 4, 16\); must be", {"grad_o": o[:, :, 1:]}),
            (TypeError, "^grad_o: dtype torch.float64", {"grad_o": o.double()}),
            (ValueError, r"^o: shape \(1, 4, 4, 16\); must be", {"o": o[:, :, 1:]}),
            (TypeError, "^o: dtype torch.bfloat16; must be that of q", {"o": o.bfloat16()}),
            (ValueError, "^saved_o: shape .*; must be .* 0", {"saved_o": o.bfloat16()}),
            (TypeError, "^saved_o: dtype torch.float32; must be torch.b", {"saved_o": saved_o.float()}),
            (ValueError, "^saved_stats: shape", {"saved_stats": stats[1:]}),
            (ValueError, "^saved_x: shape", {"saved_x": x[..., :0]}),
            (TypeError, "^saved_x: dtype torch.float16; must be", {"saved_x": x.half()}),
            (ValueError, "^v: heads and length", {"k": k[:, :, 1:]}),
        ):
            self.assert_refused("backward", error, pattern, {**right, **wrong}.values())

    def test_score(self):
        scalars = (False, 0, 1.0, 0, "softmx")
        tensors = (self.q, self.k, self.v)
        pattern = 'score = "softmx": allowed are'
        for name in ("forward", "forward_train"):
            self.assert_refused(name, lssar.LssarError, pattern, tensors, scalars)

    def test_device_of_each(self):
        q, k, v = self.q, self.k, self.v
        with self.assertRaisesRegex(ValueError, "^v: on device 'meta'; must be on that of q"):
            torch.ops.lssar.forward(q, k, v.to("meta"), *self.scalars)

    def test_any_layout_of_what_was_saved(self):
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v = (x.to(dtype) for x in (self.q, self.k, self.v))
            o, *saved = torch.ops.lssar.forward_train(q, k, v, *self.scalars)
            tensors = (q, k, v, o, *saved)
            wanted = torch.ops.lssar.backward(o, *tensors, *self.scalars)
            strided = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in tensors]
            heads_last = o.transpose(1, 2).contiguous().transpose(1, 2)
            unaligned = [torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape) for x in saved]
            for result in (
                torch.ops.lssar.backward(o, *strided, *self.scalars),
                torch.ops.lssar.backward(o, q, k, v, heads_last, *unaligned, *self.scalars),
            ):
                for a, b in zip(result, wanted):
                    self.assertTrue(torch.equal(a, b))


class Library(unittest.TestCase):
    def assert_does_not_open(self, path, pattern):
        with mock.patch.dict(os.environ, {"LSSAR_LIBRARY": str(path)}):
            with self.assertRaisesRegex(lssar.LssarError, pattern):
                _library._open()

    def test_wrong_path_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in ("/nowhere", folder):
                self.assert_does_not_open(path, f"^LSSAR_LIBRARY = '{path}': there is no such file")

    def test_another_library_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder) / "liblssar.so"
            build = ["cc", "-shared", "-x", "c", "/dev/null", "-o", str(other)]
            subprocess.run(build, check=True)
            self.assert_does_not_open(folder, "no function lssar_.*: not lssar's library")

    def test_what_is_no_library_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "liblssar.so").write_text("text")
            self.assert_does_not_open(folder, "(?s)liblssar.so was not found.*Tried:")

    def test_it_says_what_it_runs_on(self):
        self.assertIn(f"lssar {lssar.__version__},", lssar.build_info())
        self.assertIn("virtual", lssar.device_info()["device_name"])

    def test_no_compiler_is_an_error_that_says_how_to_get_one(self):
        """In a process of its own, which opens nothing when it imports the package."""
        code = (
            "import torch, lssar, lssar._library\n"
            "print(lssar._library._opened)\n"
            "x = torch.ones(1, 1, 2, 8)\n"
            "try: lssar.attention(x, x, x)\n"
            "except lssar.LssarError as error: print(error.status, error)"
        )
        hidden = ("LSSAR_NVRTC_PATH", "LSSAR_LLVM_PATH", "LSSAR_CACHE_DIR")
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **{name: "none" for name in hidden}},
            capture_output=True,
            text=True,
        )
        self.assertTrue(run.stdout.startswith("None\n3 missing: "), run.stdout + run.stderr)

    def test_structs_are_those_of_the_header(self):
        """Offsets and sizes, as a C compiler sees them. A struct that begins with its size may have
        more fields in the header: the library takes those that are not passed as 0."""
        lines = []
        expected = []
        for name, struct in _structs.STRUCTS.items():
            fields = [field[0] for field in struct._fields_]
            for field in fields:
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
                expected.append(f"{name}.{field} {getattr(struct, field).offset}")
            if fields[0] != "struct_size":
                lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
                expected.append(f"{name} {_structs.ctypes.sizeof(struct)}")
        source = (
            "#include <stddef.h>\n#include <stdio.h>\n#include <lssar/lssar.h>\n"
            "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            program = f"{folder}/layout"
            build = ["cc", "-x", "c", "-I", HEADER, "-", "-o", program]
            subprocess.run(build, input=source, text=True, check=True)
            output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        self.assertEqual(output.splitlines(), expected)

    def test_packed_calls_are_the_struct(self):
        """What _launch packs lies where the struct, and with it the header, has it."""
        more = ("saved_o", "saved_stats", "saved_x", "workspace", "workspace_bytes", "stream")
        for packer, names, last in (
            (_launch._FORWARD, ("q", "k", "v", "o"), ("num_threads", "sink")),
            (
                _launch._BACKWARD,
                ("q", "k", "v", "o", "grad_o", "grad_q", "grad_k", "grad_v"),
                ("num_threads", "sink", "grad_sink"),
            ),
        ):
            wanted = _structs.sized(_structs.Call, sizes=_structs.Sizes(1, 2, 3, 4, 5))
            values = [_structs.CALL_BYTES, bytes(wanted.sizes)]
            for i, name in enumerate(names, start=1):
                strides = _structs.Strides(10 * i, 20 * i, 30 * i)
                setattr(wanted, name, _structs.Tensor(i << 40, strides))
                values += [i << 40, bytes(strides)]
            for i, name in enumerate((*more, *last), start=100):
                setattr(wanted, name, i)
                values.append(i)
            self.assertEqual(packer.pack(*values), bytes(wanted))


if __name__ == "__main__":
    unittest.main()
