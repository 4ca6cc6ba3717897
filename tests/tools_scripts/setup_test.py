"""tools/setup.sh with stand-ins for what it calls: what it installs, builds and runs."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SETUP = pathlib.Path(sys.argv.pop())

# Writes its name and arguments to $CALLS. ctest also answers how many tests are long.
STAND_IN = """#!/bin/sh
name=${0##*/}
[ "$name" = dpkg-query ] || echo "$name $*" >>"$CALLS"
case $name in
  dpkg-query) case " $INSTALLED " in *" $3 "* | " all ") echo installed ;; *) exit 1 ;; esac ;;
  nproc) echo 2 ;;
  id) echo 0 ;;
  ctest) case $* in *--show-only*) echo "Total Tests: 17" ;; *) exit "${CTEST_STATUS:-0}" ;; esac ;;
  cmake) exit "${CMAKE_STATUS:-0}" ;;
esac
"""
CALLED = "dpkg-query apt-get sudo cmake ctest nproc id python3"
NEEDED = "sh env sed cut date dirname grep"  # the system's own


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for name in CALLED.split():
            (self.bin / name).write_text(STAND_IN)
            (self.bin / name).chmod(0o755)
        for name in NEEDED.split():
            (self.bin / name).symlink_to(shutil.which(name))
        project = self.root / "project"
        (project / "tools").mkdir(parents=True)
        shutil.copy(SETUP, project / "tools" / "setup.sh")
        (project / "tools" / "demo.sh").write_text('echo "demo.sh $*" >>"$CALLS"\n')
        (project / "build" / "release").mkdir(parents=True)
        self.project = project

    def run_setup(self, *words, **environment):
        calls = self.root / "calls"
        calls.write_text("")
        environment.setdefault("INSTALLED", "all")
        done = subprocess.run(
            ["sh", self.project / "tools" / "setup.sh", *words],
            env={"PATH": str(self.bin), "CALLS": str(calls), **environment},
            capture_output=True,
            text=True,
        )
        called = [x for x in calls.read_text().splitlines() if x.split()[0] not in ("nproc", "id")]
        return done, called

    def configured(self, sanitizer_tests):
        build = self.project / "build" / "release"
        (build / "build.ninja").touch()
        (build / "CMakeCache.txt").write_text(f"LSSAR_SANITIZER_TESTS:BOOL={sanitizer_tests}\n")

    def test_other_words_are_errors(self):
        for words in ((), ("tests",), ("demo", "test"), ("",)):
            done, called = self.run_setup(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("test-all", done.stderr)
            self.assertEqual(called, [])

    def test_demo_builds_no_tests(self):
        done, called = self.run_setup("demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        configure, build, demo = called
        self.assertIn("-DLSSAR_BUILD_TESTS=OFF", configure)
        self.assertIn("-DLSSAR_NATIVE_SIMD=ON", configure)
        self.assertRegex(build, "^cmake --build .*--target lssar lssar_command lssar_tune_worker lssar_llvm")
        self.assertEqual(demo, "demo.sh build/release/bin/lssar")
        self.assertIn("compiling", done.stdout)

    def test_demo_leaves_a_configured_folder_as_it_is(self):
        self.configured("ON")
        _, called = self.run_setup("demo")
        self.assertNotIn("--preset release -D", " ".join(called))

    def test_test_leaves_out_the_long_tests_and_says_how_many(self):
        done, called = self.run_setup("test")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("17 tests are long", done.stdout)
        self.assertRegex(called[-1], r"^ctest .*--label-exclude \^long\$$")
        self.assertFalse([x for x in called if x.startswith("python3")])  # no torch from PyPI

    def test_test_all_runs_all_in_one_run(self):
        _, called = self.run_setup("test-all")
        runs = [x for x in called if x.startswith("ctest")]
        self.assertEqual(len(runs), 1)
        self.assertNotIn("label", runs[0])
        self.assertTrue(any(x.startswith("python3 tests/python/environment.py") for x in called))

    def test_tests_after_demo_configure_again(self):
        self.configured("OFF")
        _, called = self.run_setup("test")
        self.assertIn("-DLSSAR_BUILD_TESTS=ON", called[0])
        self.assertIn("-DLSSAR_NATIVE_SIMD=OFF", called[0])
        self.configured("ON")
        _, called = self.run_setup("test")
        self.assertNotIn("-DLSSAR_BUILD_TESTS=ON", called[0])

    def test_missing_packages_alone_are_installed(self):
        _, called = self.run_setup("demo", INSTALLED="g++ cmake ninja-build libfmt-dev")
        install = next(x for x in called if "install" in x)
        self.assertIn(" nlohmann-json3-dev ", install)
        self.assertNotIn("g++", install)
        self.assertNotIn("chromium", install)
        _, called = self.run_setup("test", INSTALLED="g++")
        self.assertIn("python3-torch", next(x for x in called if "install" in x))

    def test_without_apt_it_says_what_is_missing(self):
        (self.bin / "apt-get").unlink()
        done, called = self.run_setup("demo", INSTALLED="g++ cmake")
        self.assertEqual(done.returncode, 3)
        self.assertIn("missing: ninja-build", done.stderr)
        self.assertEqual(called, [])

    def test_the_last_line_has_the_time_of_each_step(self):
        for command, last in (("demo", "demonstration"), ("test", "tests"), ("test-all", "tests")):
            done, _ = self.run_setup(command)
            steps = f"packages \\d+ s, configuring \\d+ s, compiling \\d+ s, {last} \\d+ s"
            self.assertRegex(done.stdout.splitlines()[-1], f"^setup: {steps}$")
        self.configured("ON")
        done, _ = self.run_setup("demo")
        self.assertNotIn("configuring", done.stdout.splitlines()[-1])

    def test_a_build_that_fails_ends_it(self):
        done, called = self.run_setup("demo", CMAKE_STATUS="1")
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("demo.sh", " ".join(called))

    def test_the_exit_code_is_that_of_the_tests(self):
        done, _ = self.run_setup("test", CTEST_STATUS="8")
        self.assertEqual(done.returncode, 8)


if __name__ == "__main__":
    unittest.main()
