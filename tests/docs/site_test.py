"""tools/docs_site.py builds the site; no link in it is dead, and it finds what is missing.

    site_test.py SOURCE_FOLDER

Skipped (exit code 77) without mkdocs.
"""

import contextlib
import html.parser
import io
import pathlib
import shutil
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
import docs_site


class Page(html.parser.HTMLParser):
    """The ids and links of a page, and what a browser would load for it from another host."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.foreign = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        target = attrs.get("href") or attrs.get("src")
        if target is None:
            return
        if "//" not in target:
            self.links.append(target)
        elif tag != "a":
            self.foreign.append(target)


def dead_links(site):
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            target, anchor = urllib.parse.urldefrag(link)
            file = (path.parent / urllib.parse.unquote(target)).resolve() if target else path
            if not file.is_file():
                yield f"{path.relative_to(site)}: no {link}"
            elif anchor and file in pages and urllib.parse.unquote(anchor) not in pages[file].ids:
                yield f"{path.relative_to(site)}: no heading of {link}"
        for target in page.foreign:
            yield f"{path.relative_to(site)}: loads {target}"


class Site(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def build(self, root):
        """Whether it was built, and what was said."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            built = docs_site.build(root, self.folder / "out")
        return built, said.getvalue()

    def small_tree(self, readme, nav):
        root = self.folder / "tree"
        for page in ("CHANGELOG.md", "python/README.md", "docs/math.md"):
            (root / page).parent.mkdir(parents=True, exist_ok=True)
            (root / page).write_text("# Page\n\ntext\n")
        (root / "README.md").write_text(readme)
        head = (ROOT / "mkdocs.yml").read_text().split("nav:")[0]
        (root / "mkdocs.yml").write_text(head + "nav:\n" + "".join(f"  - {p}: {p}\n" for p in nav))
        return root

    ALL = ("README.md", "CHANGELOG.md", "python/README.md", "docs/math.md")

    def test_has_every_page_and_no_dead_link(self):
        built, said = self.build(ROOT)
        self.assertTrue(built, said)
        site = self.folder / "out" / "site"
        for page in docs_site.pages(ROOT):
            name = "index.html" if page.name == "README.md" else page.stem + ".html"
            self.assertTrue((site / page.parent / name).is_file(), page)
        self.assertEqual(list(dead_links(site)), [])

    def test_builds_a_small_tree(self):
        self.assertEqual(self.build(self.small_tree("[m](docs/math.md)\n", self.ALL)), (True, ""))

    def test_a_dead_link_is_an_error(self):
        built, said = self.build(self.small_tree("[m](docs/maths.md)\n", self.ALL))
        self.assertFalse(built)
        self.assertIn("docs/maths.md", said)

    def test_a_dead_link_to_a_source_file_is_an_error(self):
        built, said = self.build(self.small_tree("[m](include/none.h)\n", self.ALL))
        self.assertFalse(built)
        self.assertIn("include/none.h", said)

    def test_a_page_that_is_not_in_the_nav_is_an_error(self):
        built, said = self.build(self.small_tree("text\n", self.ALL[:3]))
        self.assertFalse(built)
        self.assertIn("docs/math.md is not in the nav", said)

    def test_a_page_of_the_nav_that_is_missing_is_an_error(self):
        built, said = self.build(self.small_tree("text\n", (*self.ALL, "docs/none.md")))
        self.assertFalse(built)
        self.assertIn("docs/none.md", said)

    def test_a_dead_heading_is_found(self):
        built, said = self.build(self.small_tree("[m](docs/math.md#none)\n", self.ALL))
        self.assertTrue(built, said)  # mkdocs does not look at headings
        self.assertEqual(len(list(dead_links(self.folder / "out" / "site"))), 1)


if __name__ == "__main__":
    if shutil.which("mkdocs") is None:
        print("SKIPPED: no mkdocs (tools/setup.sh installs it)")
        sys.exit(77)
    unittest.main()
