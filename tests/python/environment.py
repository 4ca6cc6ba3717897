#!/usr/bin/env python3
"""environment.py FOLDER [REQUIREMENTS]: a virtual environment there with what the file lists;
default: python/tests/requirements.txt.

Does nothing where it is up to date; several at once make one. Exit code 0, or 1 with pip's output:
the tests of the Python package then fail, they are never skipped for want of torch.
"""

import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys
import venv

REQUIREMENTS = pathlib.Path(__file__).resolve().parents[2] / "python/tests/requirements.txt"


def main(folder, requirements=REQUIREMENTS):
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
        venv.create(folder, with_pip=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
        status = subprocess.call([*pip, "--progress-bar", "off", "-r", requirements])
        if status != 0 and requirements == REQUIREMENTS:
            print(
                "torch could not be installed. Name an interpreter that has it with "
                "-DLSSAR_TEST_PYTHON=..., or do without these tests: -DLSSAR_PYTHON_TESTS=OFF",
                file=sys.stderr,
            )
        if status != 0:
            return 1
        stamp.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
