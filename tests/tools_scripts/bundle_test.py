"""What tools/bundle.sh packs of the Python side: compare_torch.py must run in the bundle alone.

The script itself, with stand-ins for the build and for what edits binaries, in a copy of what it
packs. Needs torch for the run.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCES, LIBRARY = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
del sys.argv[1:3]
SKIPPED = 77
COMMIT = "0123456789abcdef"
STAND_INS = {
    "cmake": "exit 0",
    "ninja": "exit 0",
    "patchelf": "exit 0",
    "strip": "exit 0",
    "ldd": "exit 0",
    "git": f'case $1 in rev-parse) echo {COMMIT} ;; esac',
}


def write_program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def make_bundle(folder):
    """Runs bundle.sh of a source tree in `folder`, without what it has no use for."""
    root = folder / "tree"
    shutil.copytree(SOURCES / "tools", root / "tools")
    shutil.copytree(SOURCES / "include", root / "include")
    shutil.copytree(SOURCES / "python/lssar", root / "python/lssar")
    (root / "tests/golden/data").mkdir(parents=True)
    for name in ("README.md", "LICENSE"):
        shutil.copy(SOURCES / name, root)
    build = root / "build/portable"
    (build / "bin").mkdir(parents=True)
    (build / "lib").mkdir()
    for name in ("build.ninja", "tests.txt"):
        (build / name).write_text("")
    write_program(build / "bin/lssar", "exit 0")
    (build / "lib/liblssar.so").symlink_to(LIBRARY.resolve())
    programs = folder / "programs"
    programs.mkdir()
    for name, text in STAND_INS.items():
        write_program(programs / name, text)
    bundle = folder / "moved here"
    path = f"{programs}:{os.environ['PATH']}"
    subprocess.run(
        ["sh", root / "tools/bundle.sh", bundle],
        env={**os.environ, "PATH": path},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    shutil.rmtree(root)
    return bundle


class Bundle(unittest.TestCase):
    def test_compare_torch_runs_in_it_alone(self):
        with tempfile.TemporaryDirectory() as name:
            bundle = make_bundle(pathlib.Path(name))
            options = "--device virtual --contenders ours --passes forward --data gauss --causal no"
            hidden = ("PYTHONPATH", "LSSAR_LIBRARY")
            run = subprocess.run(
                [sys.executable, "tools/compare_torch.py", *options.split()],
                env={key: value for key, value in os.environ.items() if key not in hidden},
                cwd=bundle,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            document = json.loads((bundle / "compare.json").read_text())
            self.assertEqual(document["commit"], COMMIT)
            status = {r["contender"]: r["status"] for r in document["records"]}
            self.assertEqual(status["ours-p15"], "ok")


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print("SKIPPED: no torch")
        sys.exit(SKIPPED)
    unittest.main()
