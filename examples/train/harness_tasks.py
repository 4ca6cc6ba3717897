"""Tasks for lm-evaluation-harness that are made of a text, without a download.

    text_choice   which of four passages follows? Three of them are from elsewhere in the text
    text_loss     bits per byte of passages as long as the window
"""

import pathlib
import random
from typing import Any

import datasets

from .fields import ConfigError

TASKS = ("text_choice", "text_loss")
CHOICES, DOCUMENTS = 4, 200


def _read(path: str) -> str:
    if not path:
        raise ConfigError("--text: ''; must name the file that the tasks are made of")
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--text: {path!r}; must be a file of UTF-8 text: {error}") from None


def choices(text: str, window: int) -> list[dict[str, Any]]:
    """Documents of text_choice: a context of half a window, and passages of a quarter."""
    before, after = window // 2, window // 4
    last = len(text) - before - after
    if after < 1 or last < CHOICES * window:
        least = (CHOICES + 1) * window
        raise ConfigError(f"--text: {len(text)} characters; must be at least {least} for this window")
    draw = random.Random(1)
    made = []
    for _ in range(DOCUMENTS):
        start = draw.randrange(last)
        right = text[start + before : start + before + after]
        drawn = (draw.randrange(len(text) - after) for _ in range(100))
        others = list(dict.fromkeys(text[at : at + after] for at in drawn if text[at : at + after] != right))
        if len(others) < CHOICES - 1:
            raise ConfigError(f"--text: has too few different passages of {after} characters")
        place = draw.randrange(CHOICES)
        passages = [*others[:place], right, *others[place : CHOICES - 1]]
        made.append({"context": text[start : start + before], "choices": passages, "right": place})
    return made


def passages(text: str, window: int) -> list[dict[str, Any]]:
    """Documents of text_loss, one after the other through the text, at most DOCUMENTS."""
    found = [{"text": text[i : i + window]} for i in range(0, len(text), window)]
    return found[:DOCUMENTS]


def make(name: str, path: str, window: int) -> dict[str, Any]:
    """The config of a task; `window` is the model's, in tokens."""
    text = _read(path)
    documents = choices(text, window) if name == "text_choice" else passages(text, window)

    def dataset(**_: Any) -> datasets.DatasetDict:
        return datasets.DatasetDict(test=datasets.Dataset.from_list(documents))

    config: dict[str, Any] = {"task": name, "custom_dataset": dataset, "test_split": "test"}
    config["metadata"] = {"version": 1}
    if name == "text_choice":
        return {
            **config,
            "output_type": "multiple_choice",
            "doc_to_text": lambda document: document["context"],
            "doc_to_choice": lambda document: document["choices"],
            "doc_to_target": lambda document: document["right"],
            "target_delimiter": "",
            "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        }
    return {
        **config,
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": lambda document: document["text"],
        "metric_list": [
            {"metric": "bits_per_byte", "aggregation": "bits_per_byte", "higher_is_better": False}
        ],
    }
