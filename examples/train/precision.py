"""Measures how precise the kernels of this machine's CPU are, from a few keys to a million.

    python -m examples.train.precision                       writes docs/evidence/precision/cpu.json
    python -m examples.train.precision --keys 256 1024 --output cpu.json

One block of rows of LSSAR attention with p 15 reads N keys, forward and backward. The reference is the
definition in float64 on the same rounded inputs. Errors are relative, in L2 norms.
"""

import argparse
import pathlib
import sys
from typing import Any, Optional, Sequence

import lssar
import torch

from .evidence_files import ROOT, SEEDS, table as made_table, write_run

KEYS = tuple(2**i for i in range(8, 21, 2))
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
TENSORS = ("o", "dq", "dk", "dv")
ROWS, DIM, P = 8, 32, 15


def _results(inputs: list[torch.Tensor], grad_o: torch.Tensor) -> list[torch.Tensor]:
    """o and the gradients of q, k and v."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    o = lssar.attention(*inputs, p=P)
    return [o.detach(), *torch.autograd.grad(o, inputs, grad_o)]


def errors(keys: int, dtype: torch.dtype, seed: int) -> list[float]:
    """The relative errors of o, dq, dk and dv."""
    random = torch.Generator().manual_seed(seed)
    shapes = ((ROWS, DIM), (keys, DIM), (keys, DIM), (ROWS, DIM))
    made = [torch.randn(1, 1, *shape, generator=random).to(dtype) for shape in shapes]
    got = _results(made[:3], made[3])
    wanted = _results([x.double() for x in made[:3]], made[3].double())
    return [((a.double() - b).norm() / b.norm()).item() for a, b in zip(got, wanted)]


def settings(keys: Sequence[int]) -> dict[str, Any]:
    """What says which measurement the JSON file has."""
    return {"rows": ROWS, "head_dim": DIM, "p": P, "keys": list(keys), "seeds": list(SEEDS)}


def measure(keys: Sequence[int]) -> dict[str, Any]:
    """What the JSON file holds: for each type, tensor and number of keys the errors of every seed."""
    found: dict[str, Any] = {}
    for name, dtype in DTYPES.items():
        of_keys = [[errors(n, dtype, seed) for seed in SEEDS] for n in keys]
        found[name] = {
            tensor: [[float(f"{error[i]:.3g}") for error in of_seeds] for of_seeds in of_keys]
            for i, tensor in enumerate(TENSORS)
        }
    return {**settings(keys), "target": lssar.device_info("cpu")["target"], "errors": found}


def table(found: dict[str, Any]) -> str:
    """A row for each number of keys: the largest error of the seeds."""
    columns = [(name, tensor) for name in found["errors"] for tensor in TENSORS]
    rows = (
        [str(keys), *(f"{max(found['errors'][name][tensor][i]):.1e}" for name, tensor in columns)]
        for i, keys in enumerate(found["keys"])
    )
    return made_table(["keys", *(f"{tensor}, {name}" for name, tensor in columns)], rows)


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--keys", type=int, nargs="+", default=KEYS, help="numbers of keys")
    parser.add_argument(
        "--output", type=pathlib.Path, default=ROOT / "docs" / "evidence" / "precision" / "cpu.json"
    )
    options = parser.parse_args(arguments)
    if min(options.keys) < 1:
        parser.error("--keys: must be 1 or more")
    found = measure(tuple(options.keys))
    write_run(options.output, found)
    print(table(found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
