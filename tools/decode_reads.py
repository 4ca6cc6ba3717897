#!/usr/bin/env python3
"""What a decode of the CPU device reads of its keys and values.

    tools/decode_reads.py --lengths 4096 65536 --p 15 3 --dtype fp32 bf16
    tools/decode_reads.py --tensors q.npy k.npy
    tools/decode_reads.py --trained run --lengths 1024 4096 --p 15

Computes weights in float64, applies the rule of docs/cpu.md (the cut, chunks of 512 keys, and all
values of a chunk if three of four are live), and prints, as shares of all of them, the weights
above the cut, the values that are read, and the bytes of keys and values together.

Random heads have --group queries each, the mean of --heads heads. Tensors are .npy files,
[heads, queries, d] and [kv_heads, keys, d]; all queries are taken as decodes of their own. `run` is
the train.out of an examples.train run (docs/train.md). Its model reads --documents documents of
each length, and the last query of each head is a decode. Needs torch and lssar.

exit codes: 0 done; 2 wrong options or input.
"""

import argparse
import pathlib
import sys

import numpy as np

DONE, WRONG_USAGE = 0, 2
CHUNK = 512  # keys: kCpuFewKeys of codegen/cpu/cpu_shapes.h
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


def cut(num_keys, dtype):
    """The least weight whose value is read: least_weight of templates/cpu/few_values.h."""
    return 2.0**-24 / num_keys if dtype == "fp32" else min(2.0**-24, 2.0**-12 / num_keys)


def weights(q, k, p, offset=1.0):
    """[queries, keys], of which the largest of a row is 1. A dead row has zeros."""
    num_keys, dim = k.shape
    unit_q = q / np.maximum(np.linalg.norm(q, axis=1, keepdims=True), 1e-12)
    unit_k = k / np.maximum(np.linalg.norm(k, axis=1, keepdims=True), 1e-12)
    scores = np.log(dim) * np.log(num_keys) * (unit_q @ unit_k.T)
    activations = np.logaddexp(0, scores)
    shares = num_keys * activations / activations.sum(axis=1, keepdims=True)
    u = np.maximum(shares - (offset if num_keys > 3 else 0), 0)
    largest = u.max(axis=1, keepdims=True)
    return np.where(largest > 2.0**-16, (u / np.maximum(largest, 2.0**-16)) ** p, 0)


def read_values(live):
    """How many values are read. live: a flag for each key, whether some row needs its value."""
    total = 0
    for first in range(0, len(live), CHUNK):
        chunk = live[first : first + CHUNK]
        total += len(chunk) if 4 * chunk.sum() >= 3 * len(chunk) else int(chunk.sum())
    return total


def shares_of(q, k, p, dtype):
    """The shares of a kv head that the rows of q share: live weights, values, bytes."""
    live = weights(q, k, p) >= cut(len(k), dtype)
    values = read_values(live.any(axis=0)) / len(k)
    return live.mean(), values, (1 + values) / 2


def random_head(kind, group, num_keys, dim, rng):
    k = rng.standard_normal((num_keys, dim))
    if kind == "gauss":
        return rng.standard_normal((group, dim)), k
    # Every query is near one key, three times as long.
    near = rng.integers(0, num_keys, group)
    return 3 * k[near] + rng.standard_normal((group, dim)), k


def trained_tensors(run, length, documents):
    """q and k of all heads of a model that read documents of `length` tokens: one query each."""
    root = pathlib.Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root), str(root / "python")]
    import torch
    from examples.train import data, evaluate

    config, model = evaluate.load_model(run)
    seen = []

    def looking(attend):
        def attention(q, k, v):
            seen.append([x[0].double().numpy() for x in (q[:, :, -1:], k)])
            return attend(q, k, v)

        return attention

    for block in model.blocks:
        block.attention.attend = looking(block.attention.attend)
    with torch.no_grad():
        for number in range(documents):
            model.eval()(data.make(config, length).validation(number, 1)[0])
    return [np.concatenate(x) for x in zip(*seen)]


def tensor_heads(q, k):
    if q.ndim != 3 or k.ndim != 3 or q.shape[2] != k.shape[2] or len(q) % max(len(k), 1) != 0:
        raise ValueError(
            f"--tensors: shapes {q.shape} and {k.shape}; must be [heads, queries, d] and "
            "[kv_heads, keys, d], with heads a multiple of kv_heads"
        )
    group = len(q) // len(k)
    for head in range(len(k)):
        for query in range(q.shape[1]):
            yield q[head * group : (head + 1) * group, query], k[head]


def given_tensors(options):
    """(name, q, k) of what is not random."""
    if options.tensors:
        return [("tensors", *(np.load(name).astype(np.float64) for name in options.tensors))]
    if not options.trained:
        return []
    return [
        ("trained", *trained_tensors(options.trained, length, options.documents))
        for length in options.lengths
    ]


def print_row(name, num_keys, p, dtype, shares):
    live, values, read = (100 * np.mean([s[i] for s in shares]) for i in range(3))
    print(f"{name:<8} {num_keys:>8} {p:>4} {dtype:>5} {live:>8.1f} % {values:>8.1f} % {read:>8.1f} %")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--lengths", type=int, nargs="+", default=[4096, 16384, 65536])
    add("--p", type=int, nargs="+", default=[15, 3])
    add("--dtype", nargs="+", choices=BYTES, default=["fp32", "bf16"])
    add("--data", nargs="+", choices=("gauss", "peaky"), default=["gauss", "peaky"])
    add("--head-dim", type=int, default=64)
    add("--heads", type=int, default=8)
    add("--group", type=int, default=1, help="queries that share keys (default 1)")
    add("--tensors", nargs=2, metavar=("Q", "K"), help="instead of random ones")
    add("--trained", metavar="RUN", help="instead of random ones: those of a trained model")
    add("--documents", type=int, default=4, help="that a trained model reads (default 4)")
    add("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.documents < 1:
        parser.error(f"--documents: {options.documents}; must be at least 1")
    print("data         keys    p dtype  weights      values  keys + values")
    try:
        given = given_tensors(options)
        for p in options.p:
            for dtype in options.dtype:
                for name, q, k in given:
                    heads = list(tensor_heads(q, k))
                    shares = [shares_of(q, k, p, dtype) for q, k in heads]
                    print_row(name, k.shape[1], p, dtype, shares)
                if given:
                    continue
                for kind in options.data:
                    for length in options.lengths:
                        rng = np.random.default_rng(options.seed)
                        shares = [
                            shares_of(
                                *random_head(kind, options.group, length, options.head_dim, rng),
                                p,
                                dtype,
                            )
                            for _ in range(options.heads)
                        ]
                        print_row(kind, length, p, dtype, shares)
    except (ImportError, OSError, ValueError) as error:
        print(f"decode_reads: {error}", file=sys.stderr)
        return WRONG_USAGE
    return DONE


if __name__ == "__main__":
    sys.exit(main())
