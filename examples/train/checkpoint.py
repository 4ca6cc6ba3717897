"""Checkpoints: one file per step, the same for one process and for many.

A file is written under another name, flushed to the disk and renamed, so that a crash at any moment
leaves the checkpoints that were there.
"""

import os
import pathlib
import re
from typing import Any, Optional, Union

import torch

from .fields import ConfigError

_NAME = re.compile(r"step_(\d{8})\.pt")
Folder = Union[str, pathlib.Path]


def write_whole(path: Folder, write: Any) -> None:
    """Calls write(file) and puts what it wrote in the place of `path`, all of it or nothing."""
    path = pathlib.Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name
    finally:
        os.close(folder)


def steps(folder: Folder) -> list[int]:
    """The steps that have a checkpoint, in order."""
    names = (_NAME.fullmatch(path.name) for path in pathlib.Path(folder).glob("step_*.pt"))
    return sorted(int(name.group(1)) for name in names if name)


def path_of(folder: Folder, step: int) -> pathlib.Path:
    return pathlib.Path(folder) / f"step_{step:08}.pt"


def save(folder: Folder, step: int, state: dict[str, Any], keep: int) -> None:
    """Writes state and removes all but the last `keep` checkpoints."""
    write_whole(path_of(folder, step), lambda file: torch.save(state, file))
    for old in steps(folder)[:-keep]:
        path_of(folder, old).unlink(missing_ok=True)


def read(path: Folder) -> dict[str, Any]:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; must be a checkpoint") from None
    except Exception as error:  # torch.load raises many kinds
        raise ConfigError(f"{path}: not a checkpoint of examples.train: {error}") from None


def read_last(folder: Folder) -> Optional[dict[str, Any]]:
    found = steps(folder)
    return read(path_of(folder, found[-1])) if found else None
