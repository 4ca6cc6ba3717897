"""Folders include each other's headers in one direction, and none grows past what a reader overlooks."""
import collections
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import include_graph  # noqa: E402

MOST_FILES = 42


class Sources(unittest.TestCase):
    def test_no_circle(self):
        self.assertIsNone(include_graph.find_circle(include_graph.include_graph(ROOT)))

    def test_every_folder_of_sources_is_looked_at(self):
        others = {"examples", "python", "tests"}  # use the house, or test it; cmake: a probe of the machine
        folders = {path.relative_to(ROOT).parts[0] for kind in ("*/*.cpp", "*/*/*.cpp") for path in ROOT.glob(kind)
                   if path.relative_to(ROOT).parts[0] not in others | {"build"}}
        self.assertEqual(folders - {"include", "cmake"}, set(include_graph.FOLDERS))

    def test_small_folders(self):
        files = collections.Counter()
        for folder in include_graph.FOLDERS + ("docs", "examples", "python", "templates", "tests"):
            for path in (ROOT / folder).rglob("*"):
                parent = path.parent.relative_to(ROOT).as_posix()
                is_made = "__pycache__" in parent
                if path.is_file() and not is_made:
                    files[parent] += 1
        self.assertEqual({folder: n for folder, n in files.items() if n > MOST_FILES}, {})


class Circle(unittest.TestCase):
    def test_is_found(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for folder, other in (("base", "cache"), ("cache", "codegen"), ("codegen", "base")):
                (root / folder).mkdir()
                (root / folder / "a.h").write_text(f'#include "{other}/a.h"\n')
            circle = include_graph.find_circle(include_graph.include_graph(root))
        self.assertEqual(sorted(circle), ["base", "cache", "codegen"])

    def test_chain_is_none(self):
        self.assertIsNone(include_graph.find_circle({"a": {"b": 1, "c": 1}, "b": {"c": 2}}))


class Picture(unittest.TestCase):
    def test_of_the_docs_shows_the_sources(self):
        picture = include_graph.svg(include_graph.include_graph(ROOT))
        self.assertEqual((ROOT / "docs" / "include_graph.svg").read_text(encoding="utf-8"), picture,
                         "python3 tools/include_graph.py --svg > docs/include_graph.svg makes it anew")
        self.assertNotIn('class="up"', picture)

    def test_has_an_arrow_up_for_a_circle(self):
        picture = include_graph.svg({"base": {"codegen": 1}, "codegen": {"base": 16, "templates": 1}})
        self.assertEqual(picture.count('class="up"'), 1)
        self.assertEqual(picture.count('class="plain"'), 1)

    def test_implied_arrows_are_pale(self):
        picture = include_graph.svg({"a": {"b": 1, "c": 1}, "b": {"c": 1}, "c": {}})
        self.assertEqual((picture.count('class="plain"'), picture.count('class="pale"')), (2, 1))


class Command(unittest.TestCase):
    def run_it(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "tools" / "include_graph.py", *arguments],
                              capture_output=True, text=True, check=False)

    def test_text_and_dot(self):
        self.assertIn("\nruntime -> base:", self.run_it().stdout)
        self.assertIn('"runtime" -> "base";', self.run_it("--dot").stdout)

    def test_unknown_option(self):
        result = self.run_it("--png")
        self.assertEqual(result.returncode, 2)
        self.assertIn("allowed is --dot", result.stderr)


if __name__ == "__main__":
    unittest.main()
