#!/usr/bin/env python3
"""The wheels of tools/wheel.sh and tools/llvm_wheel.sh: made, installed elsewhere, and the package's
tests run on them.

    manylinux_test.py make SOURCE BUILD FOLDER                makes them and installs them in FOLDER/site
    manylinux_test.py run SOURCE BUILD FOLDER PYTHON TEST...  each python/tests/test_TEST.py on that, by
                                                              one process of PYTHON
    manylinux_test.py shipped SOURCE BUILD FOLDER PYTHON      the CPU device without a compiler

Exit code 77 where PYTHON has no torch.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

MAX_MB = 20
MAX_LLVM_MB = 40
# One shape, and not all of tools/ship_kernels/common.jsonl: each kernel is a compile.
SHIPPED = [
    {"pass": name, "dtype": "fp32", "head_dim": 64, "seq_q": 0, "causal": True}
    for name in ("forward", "forward-train", "backward")
]
WITHOUT_COMPILER = """
import os, torch, lssar
from definition import assert_close, expected, random_inputs, with_gradients
import unittest

class Shipped(unittest.TestCase):
    def test_a_shipped_shape(self):
        for length in (1, 67):
            q, k, v = random_inputs(dim=64, len_q=length)
            results = with_gradients(lssar.attention, q, k, v, causal=True)
            assert_close(self, results, expected(q, k, v, causal=True), q.dtype)
            with torch.no_grad():
                self.assertTrue(torch.equal(lssar.attention(q, k, v, causal=True), results[0]))

    def test_another_shape(self):
        q, k, v = (x.detach() for x in random_inputs(dim=32))
        with self.assertRaisesRegex(lssar.LssarError, "not among the shipped kernels .*lssar-llvm"):
            lssar.attention(q, k, v, causal=True)

unittest.main()
"""

PROBE = """
from importlib.util import find_spec
print("no torch" if find_spec("torch") is None else find_spec("lssar").origin)
"""


def check(condition, message):
    if not condition:
        sys.exit(f"the wheel: {message}")


def make(source, build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    problems = folder / "problems.jsonl"
    problems.write_text("".join(json.dumps(problem) + "\n" for problem in SHIPPED))
    environment = {**os.environ, "LSSAR_BUILD_DIR": str(build)}
    for script in (["wheel.sh", folder, problems], ["llvm_wheel.sh", folder]):
        subprocess.run(["sh", source / "tools" / script[0], *script[1:]], env=environment, check=True)
    (lssar,), (llvm,) = folder.glob("lssar-*.whl"), folder.glob("lssar_llvm-*.whl")
    check_files(lssar, r"lssar-[\d.]+-py3-none-manylinux_2_34_x86_64\.whl", MAX_MB, r"lssar(\.libs|/lib)/.",
                {"lssar/lib/liblssar.so", "lssar/lib/liblssar_kernels.so", "lssar/lib/lssar-tune-worker"})
    check_files(llvm, r"lssar_llvm-[\d.]+-py3-none-manylinux_2_36_x86_64\.whl", MAX_LLVM_MB,
                r"lssar_llvm(\.libs|/lib)/.", {"lssar_llvm/lib/liblssar_llvm.so"})
    python = source / "build" / "wheel_environment" / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", folder / "site", lssar, llvm]
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *install], check=True)


def check_files(wheel, name, max_mb, pattern, expected):
    check(re.fullmatch(name, wheel.name), wheel.name)
    check(wheel.stat().st_size < max_mb << 20, f"{wheel.name} has more than {max_mb} MB")
    libraries = {n for n in zipfile.ZipFile(wheel).namelist() if re.match(pattern, n)}
    check(libraries == expected, f"the libraries of {wheel.name} are {libraries}")


def prepared_environment(build, folder, python):
    """What finds the installed wheels and nothing else; None if `python` has no torch."""
    hidden = ("LSSAR_LIBRARY", "LSSAR_LLVM_PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {name: x for name, x in os.environ.items() if name not in hidden}
    environment["PYTHONPATH"] = str(folder / "site")
    environment["PYTHONPYCACHEPREFIX"] = str(build / "python_cache")
    # It imports nothing: torch takes seconds.
    found = subprocess.run([python, "-c", PROBE], env=environment, capture_output=True, text=True)
    print(found.stdout, found.stderr, flush=True)
    if found.stdout.startswith("no torch"):
        print(f"skipped: {python} has no torch (Debian: python3-torch)")
        return None
    check(found.stdout.startswith(str(folder)), "another package would be imported")
    return environment


def run(source, build, folder, python, *tests):
    environment = prepared_environment(build, folder, python)
    if environment is None:
        return 77
    environment["LSSAR_DEVICE"] = "virtual"  # as tests/python/CMakeLists.txt
    command = [python, "-m", "unittest", *(f"test_{test}" for test in tests)]
    return subprocess.run(command, cwd=source / "python" / "tests", env=environment).returncode


def shipped(source, build, folder, python):
    environment = prepared_environment(build, folder, python)
    if environment is None:
        return 77
    environment |= {"LSSAR_DEVICE": "cpu", "LSSAR_LLVM_PATH": "none", "LSSAR_CACHE_DIR": "none"}
    environment["PYTHONPATH"] += f":{source / 'python' / 'tests'}"
    return subprocess.run([python, "-c", WITHOUT_COMPILER], env=environment).returncode


def main():
    what, *paths = sys.argv[1:]
    source, build, folder = (pathlib.Path(path).resolve() for path in paths[:3])
    return {"make": make, "run": run, "shipped": shipped}[what](source, build, folder, *paths[3:])


if __name__ == "__main__":
    sys.exit(main())
