"""fuzz.sh with a stand-in for libFuzzer: what it finds comes into the packed corpus, what fails does not.

    fuzz_script_test.py BIN_FOLDER        has fuzz_corpus and reader_seeds
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(sys.argv.pop(1)).resolve()

# libFuzzer's arguments are options and then folders: the first gets what is new. This one finds two
# inputs, of which a merge keeps one.
STAND_IN = """#!/bin/sh
merge=
for word; do
  case $word in
    -merge=1) merge=1 ;;
    -*) ;;
    *) folders="${folders-} $word" ;;
  esac
done
set -- $folders
if [ -n "$merge" ]; then cp "$2/kept" "$1"; exit; fi
[ -e "$3/one" ] && [ -n "$(ls "$2")" ] || exit 3
printf new >"$1/kept"
printf old >"$1/dropped"
"""


class FuzzScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        self.build = root / "build"
        (self.build / "bin").mkdir(parents=True)
        for program in ("fuzz_corpus", "reader_seeds"):
            (self.build / "bin" / program).symlink_to(BIN / program)
        self.corpus = root / "fuzz" / "corpora" / "table.corpus"
        self.corpus.parent.mkdir(parents=True)
        self.corpus.write_bytes(b"1 inputs\none 3\none\n")
        self.script = shutil.copy(SOURCE / "fuzz.sh", root / "fuzz")

    def fuzz(self, stand_in, *words):
        fuzzer = self.build / "bin" / "table_fuzzer"
        fuzzer.write_text(stand_in)
        fuzzer.chmod(0o755)
        return subprocess.run(["sh", self.script, *(words or (self.build, "table", "1"))], capture_output=True,
                              text=True, check=False)

    def test_adds_what_the_merge_keeps(self):
        done = self.fuzz(STAND_IN)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.corpus.read_bytes(), b"2 inputs\nkept 3\nnew\none 3\none\n")
        self.assertIn("1 added, 2 inputs now", done.stdout)

    def test_failing_input_adds_nothing(self):
        before = self.corpus.read_bytes()
        done = self.fuzz("#!/bin/sh\nexit 77\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("table failed", done.stderr)
        self.assertEqual(self.corpus.read_bytes(), before)

    def test_damaged_corpus_is_named(self):
        self.corpus.write_bytes(b"1 inputs\none 4\none\n")
        done = self.fuzz(STAND_IN)
        self.assertEqual(done.returncode, 1)
        self.assertIn('table.corpus: byte 9: "one" has 4 bytes and a line end, and 4 bytes are left', done.stderr)

    def test_usage_names_the_corpora(self):
        done = self.fuzz(STAND_IN, self.build, "tables", "1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("corpora: table", done.stderr)


if __name__ == "__main__":
    unittest.main()
