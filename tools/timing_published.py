#!/usr/bin/env python3
"""The timing model beside published speeds: FlashAttention-3's kernels, compiled here from their sources.

    tools/timing_published.py --flash-attention DIR --cutlass DIR --cubins DIR [--lssar PROGRAM] [--nvcc PROGRAM]

DIR of --flash-attention is a checkout of Dao-AILab/flash-attention, that of --cutlass one of NVIDIA/cutlass
(4.2.0 here). Compiles each instance once into --cubins (minutes and gigabytes each, one at a time), times its hot
loop by `lssar inspect FILE.cubin --timing`, and prints a table of docs/performance.md: predicted and published
TFLOP/s. One number is fitted, to the first row alone: the GPU's clock under load.

One row is a variant: products and softmax of a warp group take turns instead of overlapping. The sources have a
constant for it, which is changed in a copy of them (in --cubins). A variant without warps that only move data is
published, too. It is left out, because the sources have no such kernel for sm_90a.

exit codes: 0 done; 1 a program failed; 2 wrong options.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import sys

DONE, FAILED, WRONG_USAGE = 0, 1, 2

LENGTH = 16384
NUM_SMS = 132
# Clocks for the end of a work tile and the start of the next one: CostConstants::tile_clocks.
TILE_CLOCKS = 3800
ROWS_OF_PRODUCT = 64

# What the kernels leave out: these features are other kernels, or branches that these calls do not take.
FEATURES = "LOCAL SOFTCAP PAGEDKV SPLIT APPENDKV PACKGQA VARLEN CLUSTER SM8x"
OPTIONS = (
    "-cubin -arch=sm_90a -O3 -std=c++17 --use_fast_math --expt-relaxed-constexpr --expt-extended-lambda "
    "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DCUTLASS_ENABLE_GDC_FOR_SM90 -DCUTLASS_DEBUG_TRACE_LEVEL=0 -DNDEBUG"
)


@dataclasses.dataclass
class Row:
    instance: str  # of hopper/instantiations, and of the cubin
    head_dim: int
    is_causal: bool
    published: float  # TFLOP/s on H100
    length: int = LENGTH  # keys
    is_sequential: bool = False  # no product runs beside a warp group's own softmax

    @property
    def is_backward(self):
        return self.instance.startswith("bwd")

    def name(self):
        kind = "backward" if self.is_backward else "forward"
        mask = ", causal" if self.is_causal else ""
        keys = f", {self.length} keys" if self.length != LENGTH else ""
        return f"{kind}, d {self.head_dim}{mask}{keys}{', sequential' if self.is_sequential else ''}"


# Read off figure 5 (forward) of arXiv 2407.08608, and transcribed from its figure 6 (backward), as in the table of
# docs/performance.md. The rows of 8448 keys are of its table 2 (in fp16; the kernels here are those in bf16). The first
# row is fitted.
ROWS = [
    Row("fwd_hdim128_bf16", 128, False, 648),
    Row("fwd_hdim64_bf16", 64, False, 497),
    Row("fwd_hdim256_bf16", 256, False, 756),
    Row("fwd_hdim64_bf16", 64, True, 473),
    Row("fwd_hdim128_bf16", 128, True, 616),
    Row("fwd_hdim256_bf16", 256, True, 642),
    Row("bwd_hdim64_bf16", 64, False, 474),
    Row("bwd_hdim128_bf16", 128, False, 561),
    Row("fwd_hdim128_bf16", 128, False, 661, 8448),
    Row("fwd_hdim128_bf16", 128, False, 582, 8448, is_sequential=True),
]


class Problem(Exception):
    """One line for the user."""


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def sequential_copy(hopper, options):
    """A copy of the kernels' folder in which no forward overlaps a warp group's products with its softmax."""
    copy = options.cubins / "sequential"
    if not copy.exists():
        shutil.copytree(hopper, copy, ignore=shutil.ignore_patterns("test*", "*.py"))
    header = copy / "flash_fwd_launch_template.h"
    text, num_changes = re.subn(r"(constexpr bool IntraWGOverlap = )[^;]*;", r"\1false;", header.read_text())
    if num_changes != 1:
        raise Problem(f"{header}: IntraWGOverlap is defined {num_changes} times, and should be once")
    header.write_text(text)
    return copy


def cubin_of(row, options):
    suffix = "_sequential" if row.is_sequential else ""
    cubin = options.cubins / f"{row.instance}{suffix}.cubin"
    if not cubin.exists():
        hopper = options.flash_attention / "hopper"
        if row.is_sequential:
            hopper = sequential_copy(hopper, options)
        command = [options.nvcc, *OPTIONS.split(), "-I", hopper, "-I", options.cutlass / "include"]
        command += [f"-DFLASHATTENTION_DISABLE_{feature}" for feature in FEATURES.split()]
        source = hopper / "instantiations" / f"flash_{row.instance}_sm90.cu"
        run([*command, source, "-o", cubin])
    return cubin


def loops_of(row, options):
    """[(kernel, way)] of every kernel of the row's file whose loops have products."""
    direction = "backward" if row.is_backward else "forward"
    command = [options.lssar, "inspect", cubin_of(row, options), "--timing", "--json", "--pass", direction]
    loops = json.loads(run(command))["timing"]
    return [(loop["kernel"], loop, way) for loop in loops for way in loop["ways"]]


def is_causal_kernel(kernel):
    """By the first truth value of the main loop's template arguments (Is_causal), as the mangled name has it."""
    after = kernel.split("4Sm90", 1)[-1]
    return "Lb1" in after[: after.find("Lb") + 4]


def way_of(row, options):
    """The loop over whole key tiles: of those of the row's kernel, the one that takes fewest clocks a score."""
    ways = [
        (way["predicted_clocks_per_score"], loop, way)
        for kernel, loop, way in loops_of(row, options)
        if is_causal_kernel(kernel) == row.is_causal and way["scores"] > 0
    ]
    if not ways:
        raise Problem(f"{row.instance}: no loop of it was timed")
    return min(ways, key=lambda entry: entry[0])


def clocks_of(row, options):
    """Clocks of an SM per score, with its share of a work tile's ends."""
    per_score, loop, way = way_of(row, options)
    rows = ROWS_OF_PRODUCT * loop["warps_per_scheduler"]
    keys = row.length / 2 if row.is_causal else row.length
    return per_score + TILE_CLOCKS / (rows * keys), way


def table(options):
    lines = ["| kernel | clocks per score | bound | predicted | published | error |", "|" + " --- |" * 6]
    clock = None
    for row in ROWS:
        if options.only and row.instance not in options.only:
            continue
        clocks, way = clocks_of(row, options)
        flop = (10 if row.is_backward else 4) * row.head_dim
        if clock is None:
            clock = row.published * 1e12 * clocks / (flop * NUM_SMS)
            print(f"fitted clock: {clock / 1e9:.3f} GHz", file=sys.stderr)
        predicted = flop * NUM_SMS * clock / clocks / 1e12
        name, bound = max(way["bounds"].items(), key=lambda item: item[1])
        lines.append(
            f"| {row.name()} | {clocks:.4f} | {name} {bound / way['scores']:.4f} | {predicted:.0f} | "
            f"{row.published:.0f} | {100 * (predicted / row.published - 1):+.0f} % |"
        )
    return "\n".join(lines)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--flash-attention", "--cutlass", "--cubins"):
        parser.add_argument(name, type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--lssar", default="build/release/bin/lssar", metavar="PROGRAM")
    parser.add_argument("--nvcc", default="nvcc", metavar="PROGRAM")
    parser.add_argument("--only", action="append", metavar="INSTANCE", help="rows of this instance: fwd_hdim128_bf16")
    options = parser.parse_args(arguments)
    options.cubins.mkdir(parents=True, exist_ok=True)
    try:
        print(table(options))
    except (Problem, OSError) as problem:
        print(f"timing_published: {problem}", file=sys.stderr)
        return FAILED
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
