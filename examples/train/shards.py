"""Token shards: files of uint16 tokens, with llm.c's header or without one, as nanoGPT's.

    write("train_000000.bin", tokens)
    shards = Shards("train_*.bin", length=1024)
    shards.window(5)        # tokens 5 * 1024 to 6 * 1024, and the one behind them
"""

import glob
import os
import pathlib
from typing import Union

import numpy as np

from .fields import ConfigError

MAGIC, VERSION, HEADER_WORDS = 20240520, 1, 256  # the header: 256 int32; magic, version, tokens


def write(path: Union[str, pathlib.Path], tokens: np.ndarray, header: bool = True) -> None:
    """Writes tokens, 0 to 65535, as one shard."""
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) <= 65535:
        raise ValueError(f"tokens: {tokens.min()} to {tokens.max()}; must be from 0 to 65535")
    with open(path, "wb") as file:
        if header:
            words = np.zeros(HEADER_WORDS, dtype="<i4")
            words[:3] = MAGIC, VERSION, len(tokens)
            file.write(words.tobytes())
        file.write(np.asarray(tokens, dtype="<u2").tobytes())


def read(path: str) -> np.ndarray:
    """The tokens of a shard, mapped, not read."""
    size = os.path.getsize(path)
    if size == 0 or size % 2 != 0:
        raise ConfigError(f"{path}: {size} bytes; a shard must be uint16 tokens, not none")
    magic, version, count = 0, 0, 0
    if size >= 4 * HEADER_WORDS:
        magic, version, count = np.fromfile(path, dtype="<i4", count=3).tolist()
    if magic != MAGIC:
        return np.memmap(path, dtype="<u2", mode="r")
    wanted = 4 * HEADER_WORDS + 2 * count
    if version != VERSION or size != wanted:
        raise ConfigError(
            f"{path}: version {version}, {size} bytes; its header needs version {VERSION}, {wanted} bytes"
        )
    return np.memmap(path, dtype="<u2", mode="r", offset=4 * HEADER_WORDS)


def count_windows(tokens: int, length: int, stride: int) -> int:
    """Windows of length + 1 tokens that start every `stride` tokens."""
    return max(0, (tokens - length - 1) // stride + 1)


class Shards:
    """Windows of `length` + 1 tokens, one every `stride` tokens (0: `length`). None crosses files."""

    def __init__(self, pattern: str, length: int, vocab: int = 65536, stride: int = 0) -> None:
        paths = sorted(glob.glob(pattern))
        if not paths:
            raise ConfigError(f"{pattern!r}: no such file; must be a pattern that some file fits")
        self.length, self.stride, self.vocab, self.paths = length, stride or length, vocab, paths
        self.files = [read(path) for path in paths]
        counts = [count_windows(len(file), length, self.stride) for file in self.files]
        self.ends = np.cumsum(counts)
        if self.ends[-1] == 0:
            raise ConfigError(f"{pattern!r}: no file has {length + 1} tokens, which a window needs")

    def __len__(self) -> int:
        return int(self.ends[-1])

    def window(self, index: int) -> np.ndarray:
        file = int(np.searchsorted(self.ends, index, side="right"))
        start = (index - (int(self.ends[file - 1]) if file else 0)) * self.stride
        tokens = np.asarray(self.files[file][start : start + self.length + 1], dtype=np.int64)
        if tokens.max() >= self.vocab:
            raise ConfigError(
                f"{self.paths[file]}: token {tokens.max()}; must be below model.vocab, {self.vocab}"
            )
        return tokens
