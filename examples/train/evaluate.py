"""Reads a checkpoint at lengths beyond that of its training.

    python -m examples.train.evaluate run --times 1 2 4 8 16 --rope ntk
    python -m examples.train.evaluate run --attention lssar --p 15

The same targets are scored at every length: as many as a quarter of the training length, at the end
of ever longer windows. In the tasks passkey and recall they are the answers, of new sequences for
each length. --attention and --p read weights with an attention that they were not trained with.
"""

import argparse
import dataclasses
import pathlib
import sys
from typing import Any, Optional

import torch
import torch.nn.functional as F

from . import checkpoint, config as configs, data, model as models, rope as ropes
from .fields import ConfigError
from .made import IGNORED

TIMES = (1, 2, 4, 8, 16)
_TOKENS_AT_ONCE = 16384


def load_model(folder: str) -> tuple[configs.Config, models.Model]:
    """The config and the model of the last checkpoint of train.out."""
    state = checkpoint.read_last(folder)
    if state is None:
        raise ConfigError(f"{folder}: no checkpoint; must be the train.out of a run")
    config = configs.from_json(state["config"])
    model = models.make(config.model)
    model.load_state_dict(state["model"])
    return config, model


def text_model(model: models.Model) -> models.Transformer:
    """The model, if it reads sequences of tokens of any length."""
    if isinstance(model, models.Tracker):
        raise ConfigError("model.points: true; must be false: newton.py reads models of points")
    if not isinstance(model, models.Transformer):
        raise ConfigError("model.family: 'vit'; must be gpt2 or llama, which read any length")
    return model


def count_scored(config: configs.Config) -> int:
    """The targets at the end of a window that are scored, where they are not a task's answers."""
    return max(1, config.model.length // 4)


def windows_of(config: configs.Config, longest: int, length: int) -> data.Data:
    """Sequences of `length` whose scored targets are the same as in sequences of `longest`."""
    if config.data.source in ("passkey", "recall"):
        return data.make(config, length)
    scored = count_scored(config)
    whole = data.make(config, longest, stride=config.model.length)

    def row(split: int, number: int) -> tuple[Any, Any]:
        inputs, targets = (x[longest - length :].copy() for x in whole.row(split, number))
        targets[: length - scored] = IGNORED
        return inputs, targets

    return data.Data(row, whole.size)


@torch.no_grad()
def read(
    config: configs.Config,
    model: models.Model,
    times: tuple[int, ...] = TIMES,
    rope: str = "none",
    documents: int = 128,
) -> list[dict[str, float]]:
    """At each length the loss in nats per scored target, and the share of targets guessed right."""
    model = text_model(model)
    model.eval()
    points = []
    for factor in times:
        length = factor * config.model.length
        windows = windows_of(config, max(times) * config.model.length, length)
        with model.rope.stretched(rope, factor):
            found = score(model, windows, length, documents)
        points.append({"times": factor, "length": length, **found})
    return points


def score(model: models.Model, windows: data.Data, length: int, documents: int) -> dict[str, float]:
    """The loss in nats per scored target, and the share of targets guessed right."""
    rows = max(1, _TOKENS_AT_ONCE // length)
    loss, right, count = 0.0, 0, 0
    for first in range(0, documents, rows):
        inputs, targets = windows.validation(first, min(rows, documents - first))
        is_scored = targets != IGNORED
        logits, wanted = model(inputs)[is_scored].float(), targets[is_scored]
        loss += F.cross_entropy(logits, wanted, reduction="sum").item()
        right += int((logits.argmax(dim=-1) == wanted).sum())
        count += len(wanted)
    return {"loss": loss / count, "accuracy": right / count}


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("run", type=pathlib.Path, help="train.out of a run")
    parser.add_argument("--times", type=int, nargs="+", default=TIMES, help="lengths, in training lengths")
    parser.add_argument("--rope", choices=ropes.SCALINGS, default="none", help="how positions are stretched")
    parser.add_argument("--documents", type=int, default=128, help="sequences (default 128)")
    parser.add_argument("--attention", help="instead of model.attention")
    parser.add_argument("--p", type=int, help="instead of model.p")
    options = parser.parse_args(arguments)
    if min(*options.times, options.documents) < 1:
        parser.error("--times and --documents: must be 1 or more")
    changes = {"attention": options.attention, "p": options.p}
    changes = {name: value for name, value in changes.items() if value is not None}
    try:
        config, model = load_model(options.run)
        models.read_with(model, **changes)
        config = dataclasses.replace(config, model=model.config)
        points = read(config, model, tuple(options.times), options.rope, options.documents)
    except (ConfigError, OSError) as error:
        print(f"evaluate: {error}", file=sys.stderr)
        return 2
    print("length    loss  right")
    for point in points:
        print(f"{point['length']:6}  {point['loss']:6.3f}  {point['accuracy']:5.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
