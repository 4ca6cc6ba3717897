#!/usr/bin/env python3
"""Which libraries `pip install .` bundles: those of build/release where they are of these sources,
else it compiles; cmake/prebuilt.cmake decides.

    prebuilt_test.py SOURCE_FOLDER
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
FOLDERS = "autotune base cache cmake codegen include runtime templates".split()


class Prebuilt(unittest.TestCase):
    """A copy of the sources, as if they had been built."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "source tree"
        for name in FOLDERS:
            shutil.copytree(SOURCE / name, self.root / name)
        for name in ("CMakeLists.txt", "python/CMakeLists.txt"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(SOURCE / name, self.root / name)
        self.release = self.root / "build" / "release"
        self.stamp = self.release / "bundled" / "sources.sha256"

    def build(self):
        self.cmake("cmake/source_digest.cmake", f"-DOUTPUT={self.stamp}")

    def cmake(self, script, *definitions):
        command = ["cmake", f"-DSOURCE={self.root}", *definitions, "-P", str(self.root / script)]
        done = subprocess.run(
            command, cwd=self.root, check=True, text=True, stdout=-1, stderr=subprocess.STDOUT
        )
        return done.stdout

    def decide(self, prebuilt="AUTO", by_pip=True):
        definitions = [f"-DLSSAR_PREBUILT={prebuilt}", *["-DSKBUILD=2"] * by_pip]
        return self.cmake("cmake/prebuilt.cmake", *definitions)

    def bundles(self, folder):
        return f"lssar: bundles what was built in {folder}\n"

    def test_what_was_built_of_these_sources_is_bundled(self):
        self.build()
        for prebuilt in ("AUTO", ""):
            self.assertEqual(self.decide(prebuilt), self.bundles(self.release))

    def test_nothing_built(self):
        why = f"lssar: compiles the library, for the target lssar_python was not built in {self.release}"
        self.assertIn(why, self.decide())

    def test_other_sources(self):
        for name in ("runtime/engine.cpp", "templates/kernels/forward.cuh", "CMakeLists.txt"):
            self.build()
            with open(self.root / name, "a") as file:
                file.write("\n")
            self.assertIn(f"{self.release} was built of other sources", self.decide(), name)
        self.build()
        (self.root / "base" / "log.h").rename(self.root / "base" / "logs.h")
        self.assertIn("was built of other sources", self.decide())

    def test_python_files_are_not_compiled(self):
        self.build()
        (self.root / "python" / "lssar").mkdir()
        (self.root / "python" / "lssar" / "new.py").write_text("")
        self.assertEqual(self.decide(), self.bundles(self.release))

    def test_asked_for(self):
        self.build()
        self.assertEqual(self.decide("OFF"), "")
        self.assertEqual(self.decide("/other/build"), self.bundles("/other/build"))
        self.assertEqual(self.decide("build/mine"), self.bundles(self.root / "build" / "mine"))

    def test_a_build_of_the_project_itself_compiles(self):
        self.build()
        self.assertEqual(self.decide(by_pip=False), "")


if __name__ == "__main__":
    unittest.main()
