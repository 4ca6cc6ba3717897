#!/usr/bin/env python3
"""headers.py FOLDER: the package nvidia-cutlass there, whose headers the witness programs include.

Does nothing where the pinned version is there. Exit code 0, or 1 with pip's output: the tests that
need the headers then fail, they are never skipped for want of them.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

PACKAGE = "nvidia-cutlass==4.2.0"
VERSION_HEADER = "cutlass_library/source/include/cutlass/version.h"


def install(folder):
    """By pip of a virtual environment: Debian's own Python has none."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        environment = pathlib.Path(scratch) / "environment"
        venv.create(environment, with_pip=True)
        pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet"]
        target = pathlib.Path(scratch) / "package"
        # What the package depends on is for its Python part.
        options = ["--no-deps", "--no-compile", "--progress-bar", "off", "--target", target]
        status = subprocess.call([*pip, *options, PACKAGE])
        if status == 0:
            shutil.rmtree(folder, ignore_errors=True)
            target.rename(folder)
        return status


def main(folder):
    folder = pathlib.Path(folder).resolve()
    stamp = folder / "package.txt"
    if stamp.is_file() and stamp.read_text() == PACKAGE:
        return 0
    folder.parent.mkdir(parents=True, exist_ok=True)
    if install(folder) != 0:
        print(f"{PACKAGE} could not be installed", file=sys.stderr)
        return 1
    if not (folder / VERSION_HEADER).is_file():
        print(f"{PACKAGE} has no {VERSION_HEADER}", file=sys.stderr)
        return 1
    stamp.write_text(PACKAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
