#!/usr/bin/env python3
"""Prints which folder includes headers of which: one line per folder, or a Graphviz graph.

    python3 tools/include_graph.py          text: folder -> folder:number of includes ...
    python3 tools/include_graph.py --dot    for `dot -Tsvg`

Exit code: 1 where folders include each other in a circle, which is printed.
"""
import collections
import pathlib
import re
import sys

FOLDERS = ("autotune", "base", "cache", "capi", "codegen", "compile", "device", "inspect", "reference",
           "runtime", "tools", "virtual")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def include_graph(root):
    """{folder: {folder whose headers it includes: how often}}, without includes within a folder."""
    graph = collections.defaultdict(collections.Counter)
    for name in FOLDERS:
        for path in sorted((root / name).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            folder = path.parent.relative_to(root).as_posix()
            graph[folder]  # a folder without includes is shown too
            for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
                other = pathlib.PurePosixPath(include).parent.as_posix()
                if other != folder:
                    graph[folder][other] += 1
    return {folder: dict(others) for folder, others in graph.items()}


def find_circle(graph):
    """A list of folders, each of which includes the next one, and the last the first; or None."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder):]
        if folder in done:
            return None
        path.append(folder)
        for other in sorted(graph.get(folder, ())):
            circle = visit(other)
            if circle:
                return circle
        path.pop()
        done.add(folder)
        return None

    for folder in sorted(graph):
        circle = visit(folder)
        if circle:
            return circle
    return None


def main(arguments):
    if arguments not in ([], ["--dot"]):
        print(f"include_graph.py: {' '.join(arguments)}: allowed is --dot", file=sys.stderr)
        return 2
    graph = include_graph(pathlib.Path(__file__).resolve().parent.parent)
    if arguments:
        print("digraph includes {")
        for folder, others in sorted(graph.items()):
            for other in sorted(others):
                print(f'  "{folder}" -> "{other}";')
        print("}")
    else:
        for folder, others in sorted(graph.items()):
            print(folder, "->", " ".join(f"{other}:{count}" for other, count in sorted(others.items())))
    circle = find_circle(graph)
    if circle:
        print("include_graph.py: a circle: " + " -> ".join(circle + circle[:1]), file=sys.stderr)
    return 1 if circle else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
