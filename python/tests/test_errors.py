"""Each wrong argument is named with its value and what is allowed; and the library is found."""

import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch

import lssar
from definition import random_inputs
from lssar import _launch, _library, _structs

HEADER = pathlib.Path(__file__).resolve().parents[2] / "include"


class Arguments(unittest.TestCase):
    def assert_refused(self, error, pattern, *inputs, **options):
        with self.assertRaisesRegex(error, pattern):
            lssar.attention(*inputs, **options)

    def test_scalars(self):
        inputs = random_inputs(len_q=3)
        for error, pattern, options in (
            (ValueError, "^p: 65; must be from 1 to 64, or 0", {"p": 65}),
            (ValueError, "^p: -1; must be", {"p": -1}),
            (TypeError, "^p: 2.5; must be an int", {"p": 2.5}),
            (TypeError, "^p: True; must be an int", {"p": True}),
            (ValueError, "^offset: -1; must be finite and not negative", {"offset": -1}),
            (ValueError, "^offset: nan; must be finite", {"offset": math.nan}),
            (TypeError, "^offset: '1'; must be a number", {"offset": "1"}),
            (TypeError, "^causal: 1; must be True or False", {"causal": 1}),
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
        self.assert_refused(TypeError, "^q: dtype torch.float64; must be", *(3 * [q.double()]))
        self.assert_refused(TypeError, "^v: dtype torch.float16; must be that of q", q, k, v.half())

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
        ):
            with self.subTest(pattern=pattern):
                self.assert_refused(ValueError, pattern, *inputs)

    def test_devices(self):
        q, k, v = (x.detach() for x in random_inputs(len_q=3))
        away = q.to("meta")
        self.assert_refused(ValueError, "^k: on device 'meta'; must be on that of q", q, away, v)
        self.assert_refused(ValueError, "^q: on device 'meta'; must be on a CUDA", away, k, v)
        with self.assertRaisesRegex(ValueError, "^device: 'meta'; must be"):
            lssar.device_info("meta")


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
        for packed in (_launch._FORWARD, _launch._BACKWARD):
            self.assertEqual(packed.size, _structs.CALL_BYTES)


if __name__ == "__main__":
    unittest.main()
