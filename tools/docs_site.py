#!/usr/bin/env python3
"""Builds the documentation as a site, with mkdocs.

    python3 tools/docs_site.py [FOLDER]     default build/docs; the site is FOLDER/site/index.html

mkdocs wants all pages in one folder, but README.md, CHANGELOG.md and python/README.md lie outside docs/. So
the pages, and the files that they link to, are copied into FOLDER/source with the paths they have in the
source tree: links stay as they are.

Exit code: 0 done; 1 a link is dead or a page is not in mkdocs.yml's nav; 3 mkdocs is not installed.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)|<img src=\"([^\"]+)\"")


def pages(root):
    """The Markdown files of the site, with paths relative to root."""
    outside = [root / "README.md", root / "CHANGELOG.md", root / "python" / "README.md"]
    return sorted(path.relative_to(root) for path in [*outside, *(root / "docs").rglob("*.md")])


def linked_files(root, page):
    """The files within root that a page links to. mkdocs reports links to missing files."""
    for match in LINK.finditer((root / page).read_text(encoding="utf-8")):
        target = match.group(1) or match.group(2)
        if "://" in target:
            continue
        path = (root / page.parent / target).resolve()
        if path.is_file() and path.is_relative_to(root):
            yield path.relative_to(root)


def stage(root, source):
    """Copies pages and linked files into an empty folder."""
    shutil.rmtree(source, ignore_errors=True)
    files = set(pages(root))
    for page in pages(root):
        files.update(linked_files(root, page))
    for file in files:
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, source / file)


def not_in_nav(root):
    """Pages that mkdocs.yml's nav lacks. mkdocs only mentions them."""
    nav = set(re.findall(r": (\S+\.md)$", (root / "mkdocs.yml").read_text(), re.MULTILINE))
    return [page for page in pages(root) if page.as_posix() not in nav]


def build(root, folder):
    """Builds root's site in folder. Returns True if nothing is missing; prints what is."""
    folder.mkdir(parents=True, exist_ok=True)
    stage(root, folder / "source")
    shutil.copyfile(root / "mkdocs.yml", folder / "mkdocs.yml")
    missing = not_in_nav(root)
    for page in missing:
        print(f"docs_site: {page} is not in the nav of mkdocs.yml", file=sys.stderr)
    # NOTE: not --quiet, with which --strict does not see the warnings.
    command = ["mkdocs", "build", "--strict", "-f", str(folder / "mkdocs.yml")]
    made = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if made.returncode != 0:
        print(made.stderr, end="", file=sys.stderr)
    return made.returncode == 0 and not missing


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return 2
    if shutil.which("mkdocs") is None:
        print("docs_site: no mkdocs: install Debian's package mkdocs (tools/setup.sh does)", file=sys.stderr)
        return 3
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").resolve()
    if not build(ROOT, folder):
        return 1
    print(folder / "site" / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
