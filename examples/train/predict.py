"""Predicts memory and step time of a config on GPUs. Its figures were never compared with a GPU's.

    python -m examples.train.predict examples/train/configs/124M.json --processes 8

Memory: 4 bytes for each weight, its gradient and its two moments, 2 for its bf16 copy; what the
backward reads; the logits. Time: products at PRODUCTS_REACH of the GPU's peak, and the attention as
`lssar explain` estimates it (for an H200). Communication, the optimizer and what is read and written
between products are left out, so a real step takes longer.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any, Optional

from . import attention, config as configs, data
from .fields import ConfigError

PEAK = 989e12  # FLOP/s of an H100 or H200, dense bf16
PRODUCTS_REACH = 0.6  # assumed
ROOT = pathlib.Path(__file__).resolve().parents[2]


def parameters(model: configs.ModelConfig) -> int:
    """Weights of model.Transformer."""
    width, hidden, dim = model.width, model.hidden_width, model.dim
    rows = model.projected
    of_attention = width * rows + model.heads * dim * width + (2 * dim if model.qk_norm else 0)
    if model.family == "llama":
        of_layer, norm = of_attention + 3 * width * hidden, width
    else:
        of_layer, norm = of_attention + rows + width + 2 * width * hidden + hidden + width, 2 * width
    matrices = model.vocab * width * (1 if model.tied else 2)
    return matrices + model.layers * (of_layer + 2 * norm) + norm


def activation_bytes(model: configs.ModelConfig) -> int:
    """What a token leaves for the backward: the residual in float32, the rest in bf16."""
    width, hidden, dim = model.width, model.hidden_width, model.dim
    q, kv = model.heads * dim, 2 * model.num_kv_heads * dim
    norms = 2 * (4 + 2) * width
    # q, k, v and o; lssar keeps what rounding took from o and X, too.
    of_attention = 2 * (q + kv + q) + (2 + 2) * q
    if model.projection == "tensor_product":
        of_attention += 2 * model.projected
    mlp = 2 * (4 if model.family == "llama" else 2) * hidden
    logits = (2 + 4 + 4) * model.vocab
    return model.layers * (norms + of_attention + mlp) + logits


def product_flops(model: configs.ModelConfig) -> int:
    """FLOP of a token in the products with weights, forward and backward."""
    embedding = 0 if model.tied else model.vocab * model.width
    return 6 * (parameters(model) - embedding)


def find_command() -> str:
    found = os.environ.get("LSSAR_COMMAND") or shutil.which("lssar")
    built = ROOT / "build" / "release" / "bin" / "lssar"
    if not found and built.exists():
        found = str(built)
    if not found:
        raise ConfigError("the command lssar: not in PATH nor build/release; LSSAR_COMMAND must name it")
    return found


def attention_ms(command: str, model: configs.ModelConfig, layer: int, sequences: int) -> float:
    """A layer's attention, forward and backward, by `lssar explain`."""
    text, p = attention.SCORES.get(model.attention, (model.attention, None))
    if text in ("sdpa", "flex"):
        text = "softmax"  # estimated as our own
    power = model.power(layer) if model.power(layer) is not None else p
    options = {
        "--head-dim": model.dim, "--heads": model.heads, "--kv-heads": model.num_kv_heads,
        "--batch": sequences, "--seq": model.length, "--offset": model.offset, "--score": text,
        "--target": "sm_90a", "--device": "virtual",
    }  # fmt: skip
    if power is not None:
        options["--p"] = power
    arguments = [str(x) for option in options.items() for x in option] + ["--table", "none"]
    total = 0.0
    for name in ("forward-train", "backward"):
        line = [command, "explain", "-q", "--json", "--no-compile", "--causal", "--pass", name]
        made = subprocess.run([*line, *arguments], capture_output=True, text=True)
        if made.returncode != 0:
            raise ConfigError(f"lssar explain: {made.stderr.strip()}")
        total += json.loads(made.stdout)["estimate"]["ms"]
    return total


def parts_of_step(config: configs.Config, processes: int, command: str, length: int) -> tuple[float, float]:
    """The milliseconds of products and of attention in a step with sequences of a length."""
    model = dataclasses.replace(config.model, length=length)
    rows, micro = config.train.shares(processes)
    products = 1e3 * rows * length * product_flops(model) / (PEAK * PRODUCTS_REACH)
    layers = {model.power(i): attention_ms(command, model, i, micro) for i in _one_of_each(model)}
    return products, sum(layers[model.power(i)] for i in range(model.layers)) * (rows // micro)


def predict(config: configs.Config, processes: int, command: Optional[str] = None) -> dict[str, Any]:
    """Memory and steps are those of model.length; the hours have the shorter sequences of data.shortest."""
    model, train = config.model, config.train
    _, micro = train.shares(processes)
    weights = parameters(model)
    sharded = processes if train.parallel == "fsdp" else 1
    memory = 16 * weights / sharded + 2 * weights + micro * model.length * activation_bytes(model)
    command, total, begin = command or find_command(), 0.0, 0
    for length, end in data.stages(config):  # the last one has model.length
        products, of_attention = parts_of_step(config, processes, command, length)
        total, begin = total + (products + of_attention) * (end - begin), end
    return {
        "weights": weights,
        "memory_GiB": memory / 2**30,
        "products_ms": products,
        "attention_ms": of_attention,
        "step_ms": products + of_attention,
        "hours": total / 3.6e6,
    }


def _one_of_each(model: configs.ModelConfig) -> list[int]:
    """One layer for every p."""
    return list({model.power(i): i for i in range(model.layers)}.values())


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("config", help="a JSON file")
    parser.add_argument("overrides", nargs="*", help="section.field=value")
    parser.add_argument("--processes", type=int, default=8, help="GPUs (default 8)")
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error(f"--processes: {options.processes}; must be 1 or more")
    try:
        config = configs.load(options.config, options.overrides)
        if config.model.family == "vit":
            raise ConfigError("model.family: 'vit'; must be gpt2 or llama for a prediction")
        if config.model.points:
            raise ConfigError("model.points: true; must be false for a prediction")
        found = predict(config, options.processes)
    except (ConfigError, OSError) as error:
        print(f"predict: {error}", file=sys.stderr)
        return 2
    print(f"Predicted for each of {options.processes} H200, not measured:")
    for name, value in found.items():
        print(f"  {name:13} {value:,.0f}" if name == "weights" else f"  {name:13} {value:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
