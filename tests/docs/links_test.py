"""Every link of the Markdown pages, as GitHub shows them, leads to a file and to a heading that are there.

    links_test.py SOURCE_FOLDER
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
import docs_site

LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)|<img src=\"([^\"]+)\"")


def without_code(text):
    """The text without blocks and spans of code, which have no links."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """What GitHub makes of a page's headings."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
    return found


def dead_links(root, page):
    """Links of a page that lead nowhere, as lines."""
    text = (root / page).read_text(encoding="utf-8")
    for match in LINK.finditer(without_code(text)):
        target, anchor = match.group(1) or match.group(3) or "", match.group(2)
        if "://" in target:
            continue
        path = (root / page.parent / target).resolve() if target else root / page
        if not path.exists() or not path.is_relative_to(root):
            yield f"{page}: no file {target}"
        elif anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
            yield f"{page}: no heading #{anchor} in {target or page}"


class Links(unittest.TestCase):
    def test_lead_to_files_and_headings(self):
        pages = docs_site.pages(ROOT)
        self.assertGreater(len(pages), 15)
        self.assertEqual([line for page in pages for line in dead_links(ROOT, page)], [])

    def test_pages_are_linked_from_readme(self):
        """Each page of docs is reached from README in one or more steps."""
        reached, new = set(), {pathlib.Path("README.md")}
        while new:
            page = new.pop()
            reached.add(page)
            linked = docs_site.linked_files(ROOT, page)
            new.update(file for file in linked if file.suffix == ".md" and file not in reached)
        self.assertEqual(sorted(set(docs_site.pages(ROOT)) - reached), [])


if __name__ == "__main__":
    unittest.main()
