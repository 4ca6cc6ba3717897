#!/usr/bin/env python3
"""Times lssar.attention on the cpu device with and without invariant, in turns (docs/invariance.md).

LSSAR_LIBRARY names the library, and PYTHONPATH the folder python, where lssar is not installed.
"""

import argparse
import os
import statistics
import time

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

import lssar


def inputs(queries, keys, dim, dtype):
    return [torch.randn(1, 8, n, dim).to(dtype) for n in (queries, keys, keys)]


def medians(tensors, rounds, evict):
    """Milliseconds without and with invariant. `evict` is overwritten before each call."""
    times = {False: [], True: []}
    for turn in range(-2, rounds):  # two to warm up
        for invariant, of in times.items():
            evict.fill_(turn % 2)
            start = time.perf_counter()
            lssar.attention(*tensors, causal=True, invariant=invariant)
            if turn >= 0:
                of.append(1e3 * (time.perf_counter() - start))
    return [statistics.median(of) for of in times.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--keys", type=int, nargs="+", default=[4096, 65536], help="of decodes")
    options = parser.parse_args()
    torch.manual_seed(1)
    cold, warm = torch.empty(64 << 20, dtype=torch.uint8), torch.empty(1, dtype=torch.uint8)
    for threads in options.threads:
        torch.set_num_threads(threads)
        for dtype in (torch.float32, torch.bfloat16):
            cases = [(1, keys, dim) for dim in (64, 128) for keys in options.keys]
            for queries, keys, dim in cases + [(2048, 2048, 64)]:
                is_decode = queries == 1
                rounds = 21 if keys < 10000 and is_decode else 9 if is_decode else 5
                without, of_invariant = medians(
                    inputs(queries, keys, dim, dtype), rounds, cold if is_decode else warm
                )
                print(
                    f"{dtype}, {threads} threads, d {dim}, {queries} x {keys}: {without:.2f} ms, "
                    f"invariant {of_invariant:.2f} ms, {of_invariant / without:.2f} x",
                    flush=True,
                )


if __name__ == "__main__":
    main()
