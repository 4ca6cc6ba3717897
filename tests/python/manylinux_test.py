#!/usr/bin/env python3
"""The wheel of tools/wheel.sh: made, installed elsewhere, and the package's tests run on it.

    manylinux_test.py make SOURCE BUILD FOLDER              makes it and installs it in FOLDER/site
    manylinux_test.py run SOURCE BUILD FOLDER PYTHON TEST   python/tests/test_TEST.py on that, by PYTHON

Exit code 77 where PYTHON has no torch.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

MAX_MB = 20


def check(condition, message):
    if not condition:
        sys.exit(f"the wheel: {message}")


def make(source, build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    environment = {**os.environ, "LSSAR_BUILD_DIR": str(build)}
    script = source / "tools" / "wheel.sh"
    subprocess.run(["sh", script, folder], env=environment, check=True)
    (wheel,) = folder.glob("*.whl")
    check(re.fullmatch(r"lssar-[\d.]+-py3-none-manylinux_2_34_x86_64\.whl", wheel.name), wheel.name)
    check(wheel.stat().st_size < MAX_MB << 20, f"has more than {MAX_MB} MB")
    libraries = {n for n in zipfile.ZipFile(wheel).namelist() if re.match(r"lssar(\.libs|/lib)/.", n)}
    expected = {"lssar/lib/liblssar.so", "lssar/lib/lssar-tune-worker"}
    check(libraries == expected, f"its libraries are {libraries}")
    python = source / "build" / "wheel_environment" / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", folder / "site", wheel]
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *install], check=True)


def run(source, build, folder, python, test):
    hidden = ("LSSAR_LIBRARY", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
    environment = {name: x for name, x in os.environ.items() if name not in hidden}
    environment["PYTHONPATH"] = str(folder / "site")
    environment["PYTHONPYCACHEPREFIX"] = str(build / "python_cache")
    environment["LSSAR_DEVICE"] = "virtual"  # as tests/python/CMakeLists.txt
    # What the wheel does not bring, where there is no NVRTC.
    environment["LSSAR_LLVM_PATH"] = str(build / "lib" / "liblssar_llvm.so")
    probe = "import torch, lssar; print(lssar.__file__, torch.__version__)"
    found = subprocess.run([python, "-c", probe], env=environment, capture_output=True, text=True)
    if "No module named 'torch'" in found.stderr:
        print(f"skipped: {python} has no torch (Debian: python3-torch)")
        return 77
    print(found.stdout, found.stderr, flush=True)
    check(found.stdout.startswith(str(folder)), "another package was imported")
    file = source / "python" / "tests" / f"test_{test}.py"
    return subprocess.run([python, file], env=environment).returncode


def main():
    what, *paths = sys.argv[1:]
    source, build, folder = (pathlib.Path(path).resolve() for path in paths[:3])
    return {"make": make, "run": run}[what](source, build, folder, *paths[3:])


if __name__ == "__main__":
    sys.exit(main())
