"""Looks into the attention of trained models, and writes figures for a page of lssar report.

    python -m examples.train.looking run_softmax run_lssar --output figures.json
    lssar report --attention figures.json -o page.html

The last queries of each sequence are looked at, a quarter as many as the training length. In texts they
are the same at every length, with ever more keys before them, and their targets are the scored ones of
examples.train.evaluate. The tasks passkey and recall have new sequences for each length, and only the
answers among these queries are scored.

At every length each head has the means of lssar.attention_stats: entropy, share of the first token, share
of live weights. At the shortest and at the longest length it has a map of one document, in cells of several
queries and keys where the document is long.
"""

import argparse
import collections
import contextlib
import json
import math
import pathlib
import sys
from typing import Any, Callable, Iterator, Optional

import lssar
import torch

from . import attention, config as configs, evaluate, model as models, rope as ropes
from .checkpoint import write_whole
from .fields import ConfigError

FORMAT = 1
_ROWS_AT_ONCE = 256  # of a map
_FIGURES = ("entropy", "first", "live")
# (q, k, rows, weights) -> what lssar.attention_stats says about rows of a layer's attention.
_Stats = Callable[[torch.Tensor, torch.Tensor, range, bool], Any]


def map_of(q: torch.Tensor, k: torch.Tensor, cells: int, stats: _Stats) -> torch.Tensor:
    """The attention of the first sequence, [heads, cells, cells]: queries down, keys across.

    A cell is the weight of its keys together, over the sum of |weight| of a query, as the mean over
    its queries. Computed some queries at a time: memory is linear in the length.
    """
    length = q.shape[2]
    cells = min(cells, length)
    cell = torch.arange(length) * cells // length
    sums = torch.zeros(q.shape[1], cells, cells, dtype=torch.float64)
    for first in range(0, length, _ROWS_AT_ONCE):
        rows = range(first, min(first + _ROWS_AT_ONCE, length))
        size = stats(q[:1], k[:1], rows, True).weights[0].double().abs()
        total = size.sum(dim=-1, keepdim=True)
        share = size / torch.where(total == 0, 1.0, total)
        of_keys = torch.zeros(*share.shape[:2], cells, dtype=torch.float64).index_add_(2, cell, share)
        sums.index_add_(1, cell[first : rows.stop], of_keys)
    return sums / torch.bincount(cell)[:, None]


class _Looker:
    """Stands in for a layer's attention: attends as it does, and looks at q and k."""

    def __init__(self, config: configs.ModelConfig, layer: int, attend: attention.Attend) -> None:
        self.attend, self.layer = attend, layer
        self.score, self.p = attention.score_of(config, layer)
        self.offset = config.offset
        self.start(rows=0, cells=0)

    def start(self, rows: int, cells: int) -> None:
        """Look at the last `rows` queries of the next calls; if cells is not 0, map the first call."""
        self.rows, self.cells = rows, cells
        self.sums, self.queries = torch.zeros(len(_FIGURES), 1, dtype=torch.float64), 0
        self.map: Optional[torch.Tensor] = None

    def stats(self, q: torch.Tensor, k: torch.Tensor, rows: range, weights: bool) -> Any:
        options: Any = {"score": self.score, "p": self.p, "offset": self.offset}
        return lssar.attention_stats(q, k, True, rows=rows, weights=weights, **options)

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[2]
        found = self.stats(q, k, range(length - self.rows, length), False)
        figures = torch.stack([getattr(found, name) for name in _FIGURES]).double()
        self.sums = self.sums + figures.sum(dim=(1, 3))
        self.queries += q.shape[0] * self.rows
        if self.cells and self.map is None:
            self.map = map_of(q, k, self.cells, self.stats)
        return self.attend(q, k, v)

    def means(self) -> dict[str, list[float]]:
        """Each figure for every head."""
        means = self.sums / self.queries
        if not means.isfinite().all():
            raise ConfigError(f"layer {self.layer + 1}: its weights are not finite; the model is broken")
        return {name: [round(x, 6) for x in of.tolist()] for name, of in zip(_FIGURES, means)}


@contextlib.contextmanager
def _looking(model: models.Transformer) -> Iterator[list[_Looker]]:
    """Lookers in the place of the model's attentions."""
    layers: list[Any] = [block.attention for block in model.blocks]
    lookers = [_Looker(model.config, i, layer.attend) for i, layer in enumerate(layers)]
    try:
        for layer, looker in zip(layers, lookers):
            layer.attend = looker
        yield lookers
    finally:
        for layer, looker in zip(layers, lookers):
            layer.attend = looker.attend


def _map(lookers: list[_Looker], length: int) -> dict[str, Any]:
    """The maps of all heads: rows of [layer][head], without the keys that no query sees."""
    layers = []
    for looker in lookers:
        assert looker.map is not None
        heads = [[row[: i + 1] for i, row in enumerate(head)] for head in looker.map.tolist()]
        layers.append([[[round(x, 5) for x in row] for row in head] for head in heads])
    return {"length": length, "cells": len(layers[0][0]), "layers": layers}


def look(
    config: configs.Config,
    model: models.Model,
    times: tuple[int, ...] = evaluate.TIMES,
    rope: str = "none",
    documents: int = 64,
    cells: int = 64,
) -> dict[str, Any]:
    """The figures of a model, without its name; without maps if cells is 0."""
    model = evaluate.text_model(model)
    model.eval()
    trained, rows = config.model.length, evaluate.count_scored(config)
    times = tuple(sorted(set(times)))
    points, maps = [], []
    with _looking(model) as lookers:
        for factor in times:
            length, is_drawn = factor * trained, cells > 0 and factor in (times[0], times[-1])
            for looker in lookers:
                looker.start(rows, cells if is_drawn else 0)
            windows = evaluate.windows_of(config, times[-1] * trained, length)
            with model.rope.stretched(rope, factor):
                found = evaluate.score(model, windows, length, documents)
            points.append({**_point(length, rows), "loss": round(found["loss"], 5), **_means(lookers)})
            maps += [_map(lookers, length)] if is_drawn else []
    return {
        "attention": _name_of(config.model),
        "model": _text_of(config),
        "layers": config.model.layers,
        "heads": config.model.heads,
        "trained": trained,
        "rope": rope,
        "documents": documents,
        "queries": rows,
        "points": points,
        "maps": maps,
    }


def _point(length: int, rows: int) -> dict[str, Any]:
    """The keys that the queries see on average, and the entropy if these had equal weights."""
    seen = range(length - rows + 1, length + 1)
    uniform = sum(map(math.log, seen)) / rows
    return {"length": length, "keys": sum(seen) / rows, "uniform": round(uniform, 6)}


def _means(lookers: list[_Looker]) -> dict[str, list[list[float]]]:
    means = [looker.means() for looker in lookers]
    return {name: [of_layer[name] for of_layer in means] for name in _FIGURES}


def _name_of(config: configs.ModelConfig) -> str:
    return config.attention if config.p is None else f"{config.attention}, p = {config.p}"


def _text_of(config: configs.Config) -> str:
    model = config.model
    heads = "head" if model.heads == 1 else "heads"
    return (
        f"{model.family}, {model.layers} layers of {model.heads} {heads}, width {model.width}, trained for "
        f"{config.train.steps} steps on sequences of {model.length} (data.source {config.data.source})"
    )


def _parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("runs", type=pathlib.Path, nargs="+", metavar="run", help="train.out of a run")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, help="the figures, as JSON")
    parser.add_argument("--names", nargs="+", help="names on the page (default: the folders')")
    parser.add_argument(
        "--times", type=int, nargs="+", default=evaluate.TIMES, help="lengths, in training lengths"
    )
    parser.add_argument("--rope", choices=ropes.SCALINGS, default="none", help="how positions are stretched")
    parser.add_argument("--documents", type=int, default=64, help="sequences (default 64)")
    parser.add_argument("--cells", type=int, default=64, help="cells along a side of a map (default 64)")
    options = parser.parse_args(arguments)
    options.names = options.names or [run.resolve().name for run in options.runs]
    if min(*options.times, options.documents, options.cells) < 1:
        parser.error("--times, --documents and --cells: must be 1 or more")
    if len(options.names) != len(options.runs):
        parser.error(f"--names: {len(options.names)} names; must be {len(options.runs)}, one for each run")
    twice = [name for name, n in collections.Counter(options.names).items() if n > 1]
    if twice:
        parser.error(f"two models are named {twice[0]!r}; --names must give each a name of its own")
    return options


def main(arguments: Optional[list[str]] = None) -> int:
    options = _parse(arguments)
    found = []
    try:
        for name, run in zip(options.names, options.runs):
            config, model = evaluate.load_model(run)
            how = (tuple(options.times), options.rope, options.documents, options.cells)
            found.append({"name": name, **look(config, model, *how)})
        text = json.dumps({"format": FORMAT, "models": found}, separators=(",", ":")) + "\n"
        write_whole(options.output, lambda file: file.write(text.encode()))
    except (ConfigError, OSError) as error:
        print(f"looking: {error}", file=sys.stderr)
        return 2
    print(f"{options.output}; lssar report --attention {options.output} -o page.html draws it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
