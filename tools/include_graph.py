#!/usr/bin/env python3
"""Prints which folder includes headers of which: one line per folder, a Graphviz graph, or a picture.

    python3 tools/include_graph.py          text: folder -> folder:number of includes ...
    python3 tools/include_graph.py --dot    for `dot -Tsvg`
    python3 tools/include_graph.py --svg    a picture, docs/include_graph.svg: folders stand above those
                                            that they include

Exit code: 1 where folders include each other in a circle, which is printed.
"""
import collections
import pathlib
import re
import sys

FOLDERS = ("autotune", "base", "cache", "capi", "codegen", "compile", "device", "inspect", "reference",
           "runtime", "score", "tools", "virtual")
# Sizes of the picture. Arrows are drawn in this order: implied by others, not implied, against the others.
BOX_WIDTH, BOX_HEIGHT, COLUMN_WIDTH, ROW_HEIGHT = 160, 28, 180, 84
ARROW_COLOURS = {"pale": "#ccd5dd", "plain": "#44586a", "up": "#d02020"}
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


def upward_arrows(graph):
    """Arrows without which the graph has no circle: from each circle the one with the fewest includes."""
    graph, upward = {folder: dict(others) for folder, others in graph.items()}, set()
    while circle := find_circle(graph):
        arrows = list(zip(circle, circle[1:] + circle[:1]))
        folder, other = min(arrows, key=lambda arrow: (graph[arrow[0]][arrow[1]], arrow))
        del graph[folder][other]
        upward.add((folder, other))
    return upward


def rows_of(graph):
    """The folders in rows, top row first; each stands above what it includes. The graph has no circle."""
    heights = {}

    def height(folder):
        if folder not in heights:
            heights[folder] = 1 + max(map(height, graph[folder]), default=-1)
        return heights[folder]

    rows = [[] for _ in range(1 + max(map(height, graph)))]
    for folder in sorted(graph):
        rows[-1 - heights[folder]].append(folder)
    return rows


def is_implied(graph, folder, other):
    """Whether `folder` reaches `other` through a third folder, too."""
    new, seen = set(graph[folder]) - {other}, set()
    while new:
        seen |= new
        new = {far for near in new for far in graph[near]} - seen
    return other in seen


def order_rows(graph, rows):
    """Sets folders of a row below those that include them, so that arrows cross less."""
    places = {folder: (column + 0.5) / len(row) for row in rows for column, folder in enumerate(row)}
    near = {folder: set(others) for folder, others in graph.items()}
    for folder, others in graph.items():
        for other in others:
            near[other].add(folder)
    for _ in range(8):
        for row in rows:
            means = {folder: sum(places[n] for n in near[folder]) / max(1, len(near[folder]))
                     for folder in row}
            row.sort(key=lambda folder: (means[folder], folder))
            for column, folder in enumerate(row):
                places[folder] = (column + 0.5) / len(row)


def svg_box(folder, place):
    x, y = place
    return (f'<rect class="box" x="{x - BOX_WIDTH / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}" width="{BOX_WIDTH}" '
            f'height="{BOX_HEIGHT}" rx="4"/><text x="{x:.0f}" y="{y + 5:.0f}">{folder}</text>')


def svg_arrow(kind, begin, end):
    (x1, y1), (x2, y2) = begin, end
    sign = 1 if y2 > y1 else -1
    y1, y2 = y1 + sign * BOX_HEIGHT / 2, y2 - sign * (BOX_HEIGHT / 2 + 5)  # 5: the marker's length
    middle = (y1 + y2) / 2
    return (f'<path class="{kind}" d="M{x1:.0f} {y1:.0f}C{x1:.0f} {middle:.0f} '
            f'{x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}" marker-end="url(#{kind})"/>')


def svg(graph):
    """The picture. Red arrows go up; pale ones say what the others imply."""
    known = {folder: {other: n for other, n in others.items() if other in graph}
             for folder, others in graph.items()}
    upward = upward_arrows(known)
    down = {folder: {other for other in others if (folder, other) not in upward}
            for folder, others in known.items()}
    rows = rows_of(down)
    order_rows(down, rows)
    width, height = COLUMN_WIDTH * max(map(len, rows)), ROW_HEIGHT * len(rows)
    places = {folder: (width * (column + 0.5) / len(row), ROW_HEIGHT * (line + 0.5))
              for line, row in enumerate(rows) for column, folder in enumerate(row)}
    paths = {kind: [] for kind in ARROW_COLOURS}
    for folder, others in sorted(known.items()):
        for other in sorted(others):
            implied = is_implied(down, folder, other)
            kind = "up" if (folder, other) in upward else "pale" if implied else "plain"
            paths[kind].append(svg_arrow(kind, places[folder], places[other]))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
             "<style>text{font:13px sans-serif;text-anchor:middle;fill:#102030}",
             "rect.box{fill:#eef3f8;stroke:#44586a}"]
    lines += [f"path.{kind}{{fill:none;stroke:{colour}}}" for kind, colour in ARROW_COLOURS.items()]
    lines += ["</style>", "<defs>"]
    lines += [f'<marker id="{kind}" viewBox="0 0 6 6" refX="1" refY="3" markerWidth="6" markerHeight="6" '
              f'orient="auto"><path d="M0 0L6 3L0 6z" fill="{colour}"/></marker>'
              for kind, colour in ARROW_COLOURS.items()]
    lines += ["</defs>", f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    lines += [path for kind in ARROW_COLOURS for path in paths[kind]]
    lines += [svg_box(folder, place) for folder, place in sorted(places.items())]
    return "\n".join(lines + ["</svg>"]) + "\n"


def main(arguments):
    if arguments not in ([], ["--dot"], ["--svg"]):
        print(f"include_graph.py: {' '.join(arguments)}: allowed is --dot or --svg", file=sys.stderr)
        return 2
    graph = include_graph(pathlib.Path(__file__).resolve().parent.parent)
    if arguments == ["--svg"]:
        print(svg(graph), end="")
    elif arguments:
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
