"""What a type checker says of programs that use the package: mypy, with all its strictness.

torch is what mypy reads longest, so that all programs are checked in one run, which reads of torch
what makes its tensors and modules.
"""

import inspect
import pathlib
import subprocess
import sys
import tempfile
import typing
import unittest

import torch

import lssar
import lssar.jax

PACKAGE = pathlib.Path(lssar.__file__).resolve().parent.parent
RIGHT = """
from typing import Any
from typing_extensions import assert_type
import torch
import lssar
import lssar.nn

q = torch.ones(1, 2, 3, 8)
assert_type(lssar.attention(q, q, q), torch.Tensor)
assert_type(lssar.attention(q, q, q, True, 3, 1, "blhd", None), torch.Tensor)
sink = torch.zeros(2)
assert_type(lssar.attention(q, q, q, score="softmax,sink=per_head", sink=sink), torch.Tensor)
lssar.attention(q, q, q, score=lssar.Score("exp", sink="per_head"), sink=sink)
stats = lssar.attention_stats(q, q, p=3, rows=[0, 2], weights=True)
assert_type(stats.entropy, torch.Tensor)
assert_type(lssar.build_info(), str)
assert_type(lssar.saved_bytes(q, q, 3, score=lssar.Score()), int)
assert_type(lssar.device_info("cpu"), dict[str, Any])
assert_type(lssar.LssarError("text").args, tuple[Any, ...])
lssar.register_transformers()
slopes = lssar.alibi_slopes(2)
assert_type(slopes, torch.Tensor)
alibi = "softmax,alibi=per_head"
lssar.register_transformers("lssar_alibi", score=alibi, alibi_slopes=slopes)
lssar.nn.LSSARAttention(16, 2, score=alibi, alibi_slopes=slopes)
rows = q.transpose(1, 2)
o = lssar.attention_with_kv_cache(rows, rows, rows, score=alibi, alibi_slopes=slopes)
assert_type(o, torch.Tensor)
module = lssar.nn.LSSARAttention(16, 2, num_kv_heads=1, causal=True, dtype=torch.float32)
cache = lssar.nn.KVCache()
module.forward(torch.ones(1, 3, 16), None, cache)
assert_type(lssar.nn.KVCache().append(q, q), tuple[torch.Tensor, torch.Tensor])
assert_type(cache.length, int)
"""
# Each line is refused, by this rule of mypy.
WRONG = """
lssar.attention(q, q)  # call-arg
lssar.attention(q, q, q, p=1.5)  # arg-type
lssar.attention(q, q, q, scale="1")  # arg-type
lssar.attention(q, q, q, is_causal=True)  # call-arg
lssar.attention([1], q, q)  # arg-type
lssar.attention(q, q, q, sink=[0.0, 0.0])  # arg-type
lssar.nothing  # attr-defined
lssar.nn.LSSARAttention(16)  # call-arg
lssar.nn.nothing  # attr-defined
"""
# What is skipped is of any type to mypy; a tensor or a module that were so would fail `RIGHT`.
CONFIGURATION = """
[mypy]
[mypy-numpy.*,sympy.*,torch.*]
follow_imports = skip
[mypy-torch,torch._C.*,torch._tensor,torch.nn,torch.nn.modules,torch.nn.modules.module,torch.types]
follow_imports = silent
[mypy-torch.autograd,torch.autograd.grad_mode,torch.utils,torch.utils._contextlib]
follow_imports = silent
"""


class Types(unittest.TestCase):
    def test_programs(self):
        lines = (RIGHT + WRONG.lstrip()).splitlines()
        wanted = [
            f"program.py:{i}: {line.split('# ')[1]}"
            for i, line in enumerate(lines, start=1)
            if "  # " in line
        ]
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.py"
            program.write_text("\n".join(lines) + "\n")
            pathlib.Path(folder, "mypy.ini").write_text(CONFIGURATION)
            run = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--no-error-summary",
                 "--no-incremental", "--follow-imports=silent", "--config-file=mypy.ini", program.name],
                cwd=folder,
                env={"MYPYPATH": str(PACKAGE), "PATH": ""},
                capture_output=True,
                text=True,
            )  # fmt: skip
        found = []
        for line in run.stdout.splitlines():
            at, error, rule = line.partition(": error: ")
            if error:
                found.append(f"{at}: {rule.rpartition('[')[2].rstrip(']')}")
        self.assertEqual(found, wanted, run.stdout + run.stderr)

    def test_right_program_runs(self):
        """What the type checker takes is what there is."""
        with torch.no_grad():
            exec(compile(RIGHT, "program.py", "exec"), {})

    def test_annotations_are_of_the_values(self):
        """Each public function is annotated, and a default has the type of its parameter."""
        for module in (lssar, lssar.nn, lssar.jax):
            for name in getattr(module, "__all__", ("KVCache", "LSSARAttention")):
                value = getattr(module, name)
                functions = [value] if inspect.isfunction(value) else []
                if inspect.isclass(value) and not issubclass(value, Exception):
                    methods = vars(value).items()
                    public = [f for n, f in methods if n == "__init__" or n[0] != "_"]
                    functions = [f for f in public if inspect.isfunction(f)]
                for function in functions:
                    with self.subTest(function=f"{module.__name__}.{function.__qualname__}"):
                        self.check_annotations(function)

    def check_annotations(self, function):
        types = typing.get_type_hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            if name == "self":
                continue
            self.assertIn(name, types)
            default = parameter.default
            if default is not inspect.Parameter.empty:
                is_union = typing.get_origin(types[name]) is typing.Union
                allowed = typing.get_args(types[name]) if is_union else (types[name],)
                fits = any(x is typing.Any or isinstance(default, typing.get_origin(x) or x) for x in allowed)
                self.assertTrue(fits, f"{name} = {default!r} is no {types[name]}")
        self.assertIn("return", types)


if __name__ == "__main__":
    unittest.main()
