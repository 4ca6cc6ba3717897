#!/usr/bin/env python3
"""The timing model beside published speeds: FlashAttention-3's kernels, compiled here from their sources.

    tools/timing_published.py --flash-attention DIR --cutlass DIR --cubins DIR [--lssar PROGRAM] [--nvcc PROGRAM]

DIR of --flash-attention is a git clone of Dao-AILab/flash-attention, that of --cutlass one of NVIDIA/cutlass, each with
its history. Compiles each instance once into --cubins (minutes and gigabytes each, one at a time), times its hot loop
by `lssar inspect FILE.cubin --timing`, and prints a table of docs/performance.md: predicted and published TFLOP/s. One
number is fitted, to the first row alone: the GPU's clock under load.

The kernels are those of the first commit that has the forward and the backward, three weeks after the paper, with the
tiles that the paper measured. Later commits have other tiles. Two rows are of a later commit, because it has a constant
for a variant that the paper measured, too: products and softmax of a warp group take turns instead of overlapping. The
constant is changed in a copy. A variant without warps that only move data is published as well. It is left out, because
the sources have no such kernel for sm_90a.

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

OPTIONS = (
    "-cubin -arch=sm_90a -O3 -std=c++17 --use_fast_math --expt-relaxed-constexpr --expt-extended-lambda "
    "-DCUTLASS_DEBUG_TRACE_LEVEL=0 -DNDEBUG"
)
# What the later kernels leave out: these features are other kernels, or branches that these calls do not take.
FEATURES = "LOCAL SOFTCAP PAGEDKV SPLIT APPENDKV PACKGQA VARLEN CLUSTER SM8x"


@dataclasses.dataclass(frozen=True)
class Release:
    commit: str
    cutlass: str  # its commit
    sources: str  # folder of the instances within hopper
    options: str = ""


FIRST = Release("bafe2530", "756c351b", ".")
LATER = Release(
    "0251105a",
    "v4.2.0",
    "instantiations",
    "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DCUTLASS_ENABLE_GDC_FOR_SM90 "
    + " ".join(f"-DFLASHATTENTION_DISABLE_{feature}" for feature in FEATURES.split()),
)

# The first release includes headers of PyTorch for what launches kernels. These stand in for them.
TORCH_HEADERS = {
    "ATen/CUDAGeneratorImpl.h": "",
    "ATen/cuda/CUDAGeneratorImpl.h": "",
    "ATen/cuda/CUDAGraphsUtils.cuh": "namespace at { struct PhiloxCudaState {}; }\n",
    "ATen/cuda/CUDAContext.h": "#pragma once\n"
    "#define C10_CUDA_CHECK(call) (void)(call)\n"
    "#define C10_CUDA_KERNEL_LAUNCH_CHECK() (void)0\n",
}


@dataclasses.dataclass
class Row:
    instance: str  # a source file's part, and the cubin's
    head_dim: int
    is_causal: bool
    published: float  # TFLOP/s on H100
    length: int = LENGTH  # keys
    release: Release = FIRST
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
    Row("fwd_hdim128_bf16", 128, False, 661, 8448, LATER),
    Row("fwd_hdim128_bf16", 128, False, 582, 8448, LATER, is_sequential=True),
]


class Problem(Exception):
    """One line for the user."""


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def sources_of(repository, commit, folder, options):
    """That folder of the commit, extracted once into the cubins' folder."""
    place = options.cubins / f"{repository.name}-{commit}"
    if not (place / folder).exists():
        place.mkdir(exist_ok=True)
        archive = options.cubins / "sources.tar"
        run(["git", "-C", repository, "archive", "-o", archive, commit, folder])
        run(["tar", "-x", "-f", archive, "-C", place])
        archive.unlink()
    return place / folder


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


def torch_headers(options):
    folder = options.cubins / "torch_headers"
    for name, text in TORCH_HEADERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def cubin_of(row, options):
    release = row.release
    suffix = "_sequential" if row.is_sequential else ""
    cubin = options.cubins / f"{row.instance}-{release.commit}{suffix}.cubin"
    if not cubin.exists():
        hopper = sources_of(options.flash_attention, release.commit, "hopper", options)
        cutlass = sources_of(options.cutlass, release.cutlass, "include", options)
        if row.is_sequential:
            hopper = sequential_copy(hopper, options)
        command = [options.nvcc, *OPTIONS.split(), *release.options.split()]
        for folder in (hopper, cutlass, torch_headers(options)):
            command += ["-I", folder]
        source = hopper / release.sources / f"flash_{row.instance}_sm90.cu"
        run([*command, source, "-o", cubin])
    return cubin


def loops_of(row, options):
    """[(kernel, way)] of every kernel of the row's file whose loops have products."""
    direction = "backward" if row.is_backward else "forward"
    command = [options.lssar, "inspect", cubin_of(row, options), "--timing", "--json", "--pass", direction]
    loops = json.loads(run(command))["timing"]
    return [(loop["kernel"], loop, way) for loop in loops for way in loop["ways"]]


def is_kernel_of(row, kernel):
    """By template arguments in the mangled name: Is_causal, and that there is no window and no variable length."""
    causal = int(row.is_causal)
    if "Flash_fwd_kernel_traits" in kernel:  # the first release's forward
        return f"bfloat16_tEELb{causal}E" in kernel and "SeqLenTraitsILb0E" in kernel
    return f"4Sm90ELb{causal}ELb0ELb0E" in kernel


def way_of(row, options):
    """The loop over whole key tiles: of those of the row's kernel, the one that takes fewest clocks a score."""
    ways = [
        (way["predicted_clocks_per_score"], loop, way)
        for kernel, loop, way in loops_of(row, options)
        if is_kernel_of(row, kernel) and way["scores"] > 0
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
