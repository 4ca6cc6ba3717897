"""What the tests of examples/train share: small configs and folders that go away."""

import os
import pathlib
import sys
import tempfile
import unittest

os.environ.setdefault("LSSAR_DEVICE", "cpu")  # before the first call

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

import torch

from examples.train import config as configs, model as models

torch.set_num_threads(1)  # small problems, and processes that are forked

CONFIGS = ROOT / "examples" / "train" / "configs"


def small(**changes):
    """A config of two layers and 16 tokens; changes by name: model_attention="softmax"."""
    values = {
        "model": {"vocab": 32, "layers": 2, "width": 32, "heads": 2, "length": 16},
        "data": {"source": "made"},
        "train": {"steps": 6, "batch": 4, "warmup": 2, "log_every": 1, "device": "cpu"},
    }
    for name, value in changes.items():
        section, _, field = name.partition("_")
        values[section][field] = value
    return configs.from_json(values)


def made_model(**changes):
    """A config and a model whose weights are large, so that scores differ."""
    config = small(**changes)
    torch.manual_seed(1)
    model = models.make(config.model)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            parameter.data *= 10
    return config, model


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
