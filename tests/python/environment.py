#!/usr/bin/env python3
"""environment.py FOLDER [REQUIREMENTS]: a virtual environment there with what the file lists;
default: python/tests/requirements.txt.

environment.py FOLDER REQUIREMENTS PYTHON: the packages that the file lists, and none that these need, in
the folder itself, for the interpreter PYTHON with this folder in PYTHONPATH.

uv installs it, which takes a fifth of pip's time. pip does where uv cannot.

Does nothing where it is up to date; several at once make one. Exit code 0, or 1 with pip's output:
the tests of the Python package then fail, they are never skipped for want of torch.
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

REQUIREMENTS = pathlib.Path(__file__).resolve().parents[2] / "python/tests/requirements.txt"
UV = "uv==0.13.9"


def install_beside(folder, requirements, python):
    """Whether the packages alone were installed into the folder, by the uv of this interpreter or pip."""
    uv = pathlib.Path(python).parent / "uv"
    cache = folder.with_name(folder.name + "_uv_cache")
    index = os.environ.get("PIP_INDEX_URL")
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    if uv.is_file():
        command = [uv, "pip", "install", "--quiet", "--no-progress", "--python", python, "--cache-dir", cache]
        command += ["--default-index", index] if index else []
    status = subprocess.call([*command, "--no-deps", "--target", folder, "--requirements", requirements])
    shutil.rmtree(cache, ignore_errors=True)
    return status == 0


def install_by_uv(folder, pip, requirements):
    """Whether uv installed them. Its cache is in the folder, so that files are linked, not copied."""
    if subprocess.call([*pip, UV]) != 0:
        return False
    uv = [folder / "bin" / "uv", "pip", "install", "--quiet", "--no-progress"]
    cache = folder / "uv_cache"
    # pip's own package source, which uv does not look for.
    index = os.environ.get("PIP_INDEX_URL")
    source = ["--default-index", index] if index else []
    where = ["--python", folder / "bin" / "python", "--cache-dir", cache]
    status = subprocess.call([*uv, *source, *where, "--requirements", requirements])
    shutil.rmtree(cache, ignore_errors=True)
    return status == 0


def main(folder, requirements=REQUIREMENTS, python=None):
    folder = pathlib.Path(folder).resolve()
    stamp = folder / "requirements.sha256"
    wanted = hashlib.sha256(pathlib.Path(requirements).read_bytes()).hexdigest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_text() == wanted:
            return 0
        shutil.rmtree(folder, ignore_errors=True)
        size = ": about 5 GB, mostly torch" if requirements == REQUIREMENTS else ""
        print(f"installing {requirements} into {folder}{size}", flush=True)
        if python:
            if not install_beside(folder, requirements, python):
                return 1
            stamp.write_text(wanted)
            return 0
        venv.create(folder, with_pip=True)
        pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install"]
        pip += ["--quiet", "--no-compile", "--progress-bar", "off"]
        if not install_by_uv(folder, pip, requirements):
            print("uv could not install them; pip tries", flush=True)
            if subprocess.call([*pip, "-r", requirements]) != 0:
                explain_failure(requirements)
                return 1
        stamp.write_text(wanted)
    return 0


def explain_failure(requirements):
    if requirements == REQUIREMENTS:
        print(
            "torch could not be installed. Name an interpreter that has it with "
            "-DLSSAR_TEST_PYTHON=..., or do without these tests: -DLSSAR_PYTHON_TESTS=OFF",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
