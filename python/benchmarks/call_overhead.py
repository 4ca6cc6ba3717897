#!/usr/bin/env python3
"""What a call of lssar.attention costs the CPU, without the kernels.

    PYTHONPATH=python python3 python/benchmarks/call_overhead.py [--device record|cuda] [--json]

record: the library's recording device, which computes nothing; the time is the calling thread's own,
so that other programs disturb it little. cuda: wall time in which calls are enqueued, for a problem
whose kernels are shorter than that; the device is waited for between rounds only.

Medians of rounds, in microseconds. "torch alone" is the same with an autograd.Function that allocates
o and does nothing else: the part that no package in Python can save. "in a graph" is one of 20 calls,
each with keys and values of its own, that one backward goes through, as in a model; "alone" is a
torch.autograd.grad for one call.
"""

import argparse
import json
import os
import statistics
import sys
import time

import torch

import lssar
from lssar import _plans, _structs

ROUNDS = 25
CALLS = 400  # of a round
CALLS_IN_GRAPH = 20
SHAPE = (1, 4, 64, 64)


class TorchAlone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        ctx.set_materialize_grads(False)
        return q.new_empty(SHAPE)

    @staticmethod
    def backward(ctx, grad_o):
        return grad_o, grad_o, grad_o


def torch_alone(q, k, v):
    if not torch.is_grad_enabled():
        return q.new_empty(SHAPE)
    return TorchAlone.apply(q, k, v)


class Bench:
    def __init__(self, device):
        self.on_gpu = device == "cuda"
        self.clock = time.perf_counter if self.on_gpu else time.thread_time
        self.device = device if self.on_gpu else "cpu"

    def tensor(self):
        return torch.randn(SHAPE, device=self.device, dtype=torch.bfloat16, requires_grad=True)

    def median_us(self, work, calls=1):
        """Per call, of `work`, which makes so many."""
        times = []
        for _ in range(ROUNDS):
            if self.on_gpu:
                torch.cuda.synchronize()
            start = self.clock()
            for _ in range(CALLS // calls):
                work()
            times.append((self.clock() - start) / CALLS * 1e6)
        return statistics.median(times)

    def measure(self, attention):
        q, k, v, grad_o = (self.tensor() for _ in range(4))
        grad_o = grad_o.detach()
        with torch.no_grad():
            forward = self.median_us(lambda: attention(q, k, v))
        forward_train = self.median_us(lambda: attention(q, k, v))
        o = attention(q, k, v)
        alone = self.median_us(
            lambda: torch.autograd.grad(o, (q, k, v), grad_o, retain_graph=True)
        )
        leaves = [q] + [self.tensor() for _ in range(2 * CALLS_IN_GRAPH)]
        o = q
        for i in range(CALLS_IN_GRAPH):
            o = attention(o, leaves[1 + 2 * i], leaves[2 + 2 * i])
        in_graph = self.median_us(
            lambda: torch.autograd.grad(o, leaves, grad_o, retain_graph=True), CALLS_IN_GRAPH
        )
        return {
            "forward": forward,
            "forward for training": forward_train,
            "backward, in a graph": in_graph,
            "backward, alone": alone,
        }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("record", "cuda"), default="record")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args()
    if options.device == "record":
        os.environ["LSSAR_DEVICE"] = "cpu"  # or the environment might send the calls elsewhere
        _plans.KINDS["cpu"] = _structs.DEVICE_RECORD
    elif not torch.cuda.is_available():
        print("call_overhead: torch sees no GPU", file=sys.stderr)
        return 3
    bench = Bench(options.device)
    ours, floor = bench.measure(lssar.attention), bench.measure(torch_alone)
    if options.json:
        about = {"torch": torch.__version__, "device": options.device, "lssar": lssar.build_info()}
        print(json.dumps({**about, "us": ours, "torch_alone_us": floor}))
        return 0
    print(f"{'microseconds per call':24} {'lssar':>8} {'torch alone':>12}")
    for name, us in ours.items():
        print(f"{name:24} {us:8.1f} {floor[name]:12.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
