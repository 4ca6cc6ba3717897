"""Batches: which sequences a step trains on is a function of the step alone, so a run can resume.

    data = make(config)
    inputs, targets = data.batch(step, first=0, count=16)      # rows of the step's batch
    inputs, targets = data.validation(first=0, count=16)

Targets have IGNORED where no loss is taken. Each row of a task has as many targets as the others, so
that the mean over a batch is the mean of the means over its parts.
"""

import functools
import itertools
import pathlib
from typing import Callable, Union

import numpy as np
import torch

from . import made, orbits
from .config import Config
from .fields import ConfigError
from .shards import Shards, count_windows

Batch = tuple[torch.Tensor, torch.Tensor]
_TRAIN, _VALIDATION = 0, 1


class Data:
    """`row(split, number)` gives inputs and targets; numbers of a split never end."""

    def __init__(self, row: Callable[[int, int], tuple[np.ndarray, np.ndarray]], batch: int) -> None:
        self.row, self.size = row, batch

    def batch(self, step: int, first: int, count: int) -> Batch:
        return self._rows(_TRAIN, step * self.size + first, count)

    def validation(self, first: int, count: int) -> Batch:
        return self._rows(_VALIDATION, first, count)

    def _rows(self, split: int, first: int, count: int) -> Batch:
        rows = [self.row(split, first + i) for i in range(count)]
        inputs, targets = (np.stack(column) for column in zip(*rows))
        return torch.from_numpy(inputs), torch.from_numpy(targets)


@functools.lru_cache(maxsize=2)
def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    return np.random.RandomState([seed, epoch]).permutation(count)


class _Text:
    """The bytes of a file as Shards gives its tokens."""

    def __init__(self, path: str, length: int, stride: int) -> None:
        try:
            self.tokens = np.frombuffer(pathlib.Path(path).read_bytes(), dtype=np.uint8)
        except OSError as error:
            raise ConfigError(f"{path!r}: {error.strerror}; must be a file of text") from None
        self.length, self.stride = length, stride or length
        if len(self.tokens) <= length:
            raise ConfigError(f"{path!r}: {len(self.tokens)} bytes; must have more than {length}")

    def __len__(self) -> int:
        return count_windows(len(self.tokens), self.length, self.stride)

    def window(self, index: int) -> np.ndarray:
        start = index * self.stride
        return self.tokens[start : start + self.length + 1].astype(np.int64)


class _Windows:
    """Windows of shards, shuffled anew in each epoch; those of validation in order."""

    def __init__(self, train: Union[Shards, _Text], validation: Union[Shards, _Text], seed: int) -> None:
        self.sources, self.seed = (train, validation), seed

    def __call__(self, split: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        source = self.sources[split]
        epoch, index = divmod(number, len(source))
        if split == _TRAIN:
            index = int(_order(self.seed, epoch, len(source))[index])
        tokens = source.window(index)
        return tokens[:-1], tokens[1:]


def stages(config: Config) -> list[tuple[int, int]]:
    """The lengths that training has in turn, each with the step before which it ends.

    They double from data.shortest to model.length, and each has the same number of tokens.
    """
    lengths = [config.model.length]
    while 0 < config.data.shortest < lengths[0]:
        lengths.insert(0, lengths[0] // 2)
    parts = list(itertools.accumulate(config.model.length // x for x in lengths))
    return [(x, config.train.steps * part // parts[-1]) for x, part in zip(lengths, parts)]


def count_tokens(config: Config, steps: int) -> int:
    """The tokens of the first steps, of all processes."""
    total, begin = 0, 0
    for length, end in stages(config):
        total += length * max(0, min(steps, end) - begin)
        begin = end
    return total * config.train.batch


def _length_at(config: Config, step: int) -> int:
    return next((length for length, end in stages(config) if step < end), config.model.length)


def _made_row(config: Config, length: int, split: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    if split == _TRAIN and config.data.shortest:
        length = _length_at(config, number // config.train.batch)
    random = np.random.RandomState([config.data.seed, split, number])
    source, vocab = config.data.source, config.model.vocab
    if source == "passkey":
        return made.passkey(random, vocab, length)
    if source == "recall":
        return made.recall(random, vocab, length, config.data.pairs, config.data.queries)
    if source == "orbits":
        return orbits.row(random, length)
    if source == "shapes":
        image, kind = made.shape(random, config.model.image)
        return image, np.asarray(kind)
    # Every row is of a document of its own.
    tokens = made.language(random, vocab, length + 1)
    return tokens[:-1], tokens[1:]


def _check(config: Config, length: int) -> None:
    data, vocab = config.data, config.model.vocab
    if data.source == "text" and vocab < 256:
        raise ConfigError(f"model.vocab: {vocab}; must be at least 256 for bytes, data.source text")
    if data.source == "shapes" and vocab != made.SHAPES:
        raise ConfigError(f"model.vocab: {vocab}; must be {made.SHAPES}, the classes of shapes")
    if data.source in ("made", "passkey") and vocab < 8:
        raise ConfigError(f"model.vocab: {vocab}; must be at least 8 for data.source {data.source}")
    if data.source == "passkey" and length < 4:
        raise ConfigError(f"model.length: {length}; must be at least 4 for data.source passkey")
    if data.source == "recall":
        if data.queries >= length:
            raise ConfigError(f"data.queries: {data.queries}; must be below the length, {length}")
        most = min((vocab - 1) // 2, (length - data.queries) // 2)
        if data.pairs > most:
            raise ConfigError(
                f"data.pairs: {data.pairs}; must be at most {most} with this vocab and length"
            )


def make(config: Config, length: int = 0, stride: int = 0) -> Data:
    """The data of a config. `length`: of sequences, if not that of training; `stride`: from the start
    of a window of text or shards to that of the next, if not `length`."""
    length = length or config.model.length
    for used in (length, config.data.shortest or config.model.length):
        _check(config, used)
    data, batch, vocab = config.data, config.train.batch, config.model.vocab
    if data.source not in ("shards", "text"):
        return Data(functools.partial(_made_row, config, length), batch)

    def opened(path: str) -> Union[Shards, _Text]:
        if data.source == "shards":
            return Shards(path, length, vocab, stride)
        return _Text(path, length, stride)

    return Data(_Windows(opened(data.train), opened(data.validation), data.seed), batch)
