#!/usr/bin/env python3
"""LSSAR attention of liblssar.so beside PyTorch's softmax attention, in one run on one GPU, or with
--device cpu on the CPU.

Contenders, in turns (one timed call of each per round; cold L2 on a GPU):
  cudnn, flash   torch's softmax attention with that backend: the price of switching
  math           the same without a fused kernel (not timed unless asked for)
  ours-softmax   liblssar.so's own softmax attention, a score function like any other
  ours-pN        liblssar.so, power N; ours-pN/NAME with a schedule given by --schedule NAME=...,
                 ours-pN@NAME of another liblssar.so given by --against NAME=...
  flex-pN        LSSAR by torch's FlexAttention, in one call for p 0 and two for others, compiled
  eager          LSSAR written plainly from the definition in PyTorch, with the first --p
  compile        the same through torch.compile. Quadratic in memory: only where that fits
On the CPU flash is the price of switching, there is no cudnn, and FlexAttention has forwards only,
of which LSSAR's first call is not compiled.

Passes: forward, forward_train (what the backward needs is kept), backward, forward_backward.
TFLOP/s count 4 L^2 d per head forward, half when causal, and 2.5 times that backward, for all.
Errors are relative, in L2 norms, against float64 on whole heads; softmax against softmax. "same
bits": two runs of ours were equal bit by bit.

With --decode a run also times decodes, which have one query. With --device cpu it does so by
default, and has several dtypes and numbers of threads; with --sequences it has packed sequences,
too. On the CPU a timed call is repeated until 20 ms have passed, with warm caches, and a decode
runs once, with cold ones.
Beside each pass stands what nothing but FMA of float32 reaches on as many threads, measured before
and after it, and beside a decode the rate of copying memory. "MiB beyond" is the peak of memory
without inputs, results and, of ours, what is saved for the backward.

Needs torch, a GPU (not with --device cpu) and liblssar.so; compiles nothing but liblssar's kernels
and torch.compile's. Never changes clocks or any other setting of the GPU. Writes compare.json and
compare.svg in --output-dir after each case, so that an interrupted run keeps what it has.
"""

import argparse
import json
import os
import pathlib
import signal
import sys

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

DONE, WRONG_NUMBERS, WRONG_USAGE, MISSING, DEVICE_ERROR, INTERRUPTED = 0, 1, 2, 3, 4, 130
CONTENDERS = ("cudnn", "flash", "math", "ours-softmax", "ours", "flex", "compile", "eager")
DTYPES = ("bf16", "fp16", "fp32")
QUICK = {"dims": [128], "lengths": [4096, 16384], "data": ["gauss"], "minutes": 4}
QUICK_CPU = {
    **{"dims": [64], "lengths": [512, 2048], "causal": ["yes"], "seconds": 1.0, "minutes": 3},
    "contenders": ["flash", "ours-softmax", "ours", "eager"],
}
SMALL = {"dims": [64], "lengths": [96], "heads": 2, "tokens": 96, "rounds": 2, "warmup": 1}
EXIT_CODES = """
exit codes: 0 done; 1 our o, or a gradient of Gaussian inputs, is less exact than docs/accuracy.md
allows; 2 wrong options; 3 torch, the device, liblssar.so or its compiler is missing; 4 the device
failed, or one of ours did not run; 130 interrupted. What was measured is written all the same.
"""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--output-dir", default=".", help="made if it is not there (default: here)")
    add("--overwrite", action="store_true", help="replace the results of an earlier run there")
    add("--library", help="liblssar.so (default: of the bundle or the build beside this script)")
    add(
        "--against",
        action="append",
        default=[],
        metavar="NAME=LIBRARY",
        help="another liblssar.so, whose contenders ours-softmax@NAME and ours-pN@NAME run beside "
        "the first one's; may be repeated",
    )
    add(
        "--jobs",
        type=int,
        help="processes that compile our kernels before the first case (default: on a GPU one for "
        "each core, at most 16; else none)",
    )
    add(
        "--device",
        choices=("cuda", "cpu", "virtual"),
        default="cuda",
        help="virtual: a trial on the virtual device; its times mean nothing",
    )
    add("--target", help="architecture of our kernels (default: the device's own)")
    add("--gpu", type=int, default=0, help="which GPU, as torch counts (default 0)")
    add(
        "--quick",
        action="store_true",
        help="d 128, 4K and 16K, Gaussian; --minutes 4. On the CPU: d 64, 512 and 2048, causal, "
        "nothing compiled by torch; --minutes 3",
    )
    add("--minutes", type=float, help="start no case after so long (default: no limit)")
    add("--small", action="store_true", help="one tiny shape; the default with --device virtual")
    add("--dims", type=int, nargs="+", help="head dimensions (default 64 128 256; CPU 64 128)")
    add(
        "--lengths",
        type=int,
        nargs="*",
        help="default 1K to 32K, doubling; CPU 512 to 16K, above 4K causal on most threads only. "
        "Without a number: only decodes and sequences",
    )
    add("--causal", nargs="+", choices=("yes", "no"), help="default: no yes")
    add("--passes", nargs="+", help="default: all; CPU: forward forward_backward")
    add("--data", nargs="+", help="gauss, peaky (default: both; CPU gauss)")
    add("--p", type=int, nargs="+", help="powers (default 15 3; CPU 15 0)")
    add("--offset", type=float, default=1.0, help="of the re-weighting (default 1)")
    add("--dtype", nargs="+", choices=DTYPES, help="default bf16; CPU, one or more: fp32 bf16")
    add("--heads", type=int, help="default 16; CPU 8")
    add("--tokens", type=int, help="length times batch (default 16384; CPU: batch 1)")
    add("--contenders", nargs="+", choices=CONTENDERS, help="default: all but math; CPU nor cudnn")
    add("--threads", type=numbers, help="CPU only: one count or more, 1,2 (default 1 and all)")
    add(
        "--decode",
        type=int,
        nargs="+",
        help="keys of one query, one number or more; 0: no decodes (default 0; CPU 4096)",
    )
    add(
        "--kv-heads",
        type=int,
        nargs="+",
        help="heads of keys and values that decodes have (default: as many as heads)",
    )
    add(
        "--sequences",
        type=numbers,
        metavar="COUNT,MEAN",
        help="CPU only: also packed causal sequences, with random lengths of 1 to 2 MEAN - 1. There "
        "flash is a call for each, and flash-padded one call with all of them padded",
    )
    add(
        "--seconds",
        type=float,
        help="CPU only: a contender that took so long in a pass is not timed again, once it has "
        "3 times (default 3)",
    )
    add(
        "--schedule",
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="one more of ours with these schedule fields, as text or as a file; may be repeated",
    )
    add(
        "--fixed-lengths",
        action="store_true",
        help="kernels of ours made for each length; default: for any length",
    )
    add("--rounds", type=int, help="timed calls of each contender (default 30; CPU 15)")
    add("--warmup", type=int, help="rounds before them (default 5; CPU 0)")
    add(
        "--check-heads",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="heads that are compared with float64 (default 1)",
    )
    add("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    fill_defaults(options)
    check_options(parser, options)
    return options


def numbers(text):
    """"1,2" -> [1, 2]"""
    return [int(number) for number in text.split(",")]


def fill_defaults(options):
    from compare.cases import CPU_LENGTHS, all_cpus

    defaults = {
        "dims": [64, 128, 256],
        "lengths": [1024 << i for i in range(6)],
        "causal": ["no", "yes"],
        "passes": ["forward", "forward_train", "backward", "forward_backward"],
        "data": ["gauss", "peaky"],
        "p": [15, 3],
        "dtype": ["bf16"],
        "heads": 16,
        "tokens": 16384,
        "rounds": 30,
        "warmup": 5,
        "minutes": None,
        "contenders": [name for name in CONTENDERS if name != "math"],
        "decode": [0],
    }
    on_cpu = options.device == "cpu"
    if on_cpu:
        defaults.update(dims=[64, 128], lengths=CPU_LENGTHS, data=["gauss"], p=[15, 0])
        defaults.update(passes=["forward", "forward_backward"], dtype=["fp32", "bf16"])
        defaults.update(heads=8, tokens=1, rounds=15, warmup=0)
        defaults.update(threads=sorted({1, all_cpus()}), decode=[4096], seconds=3.0)
        defaults["contenders"].remove("cudnn")
    if options.device == "virtual":
        defaults["contenders"] = ["math", "ours-softmax", "ours", "eager"]
    defaults.update((QUICK_CPU if on_cpu else QUICK) if options.quick else {})
    defaults.update(SMALL if options.small or options.device == "virtual" else {})
    if on_cpu and options.small:
        defaults.update(decode=[96])
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)


def check_options(parser, options):
    from compare.cases import DATA, PASSES

    for name, allowed in (("passes", PASSES), ("data", DATA)):
        for value in getattr(options, name):
            if value not in allowed:
                parser.error(f"--{name}: '{value}'; allowed: {', '.join(allowed)}")
    for name in ("dims", "lengths", "p"):
        for value in getattr(options, name):
            if value < (0 if name == "p" else 1):
                parser.error(f"--{name}: {value} is too small")
    for name in ("heads", "tokens", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: {getattr(options, name)}; must be at least 1")
    if options.minutes is not None and not options.minutes > 0:
        parser.error(f"--minutes: {options.minutes}; must be above 0")
    check_cpu_options(parser, options)
    decodes = any(options.decode) and "forward" in options.passes
    if not (options.lengths or decodes or options.sequences):
        parser.error("--lengths: none; must have a number where there are no decodes or sequences")
    if options.jobs is not None and not 0 <= options.jobs <= 1024:
        parser.error(f"--jobs: {options.jobs}; must be 0 to 1024")
    options.libraries = {}
    for text in options.against:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            parser.error(f"--against: '{text}'; must be NAME=LIBRARY")
        if not os.path.exists(path):
            parser.error(f"--against {name}: {path}: no such file")
        if name in options.libraries:
            parser.error(f"--against {name}: given twice; each library must have its own name")
        options.libraries[name] = path
    if options.warmup < 0:
        parser.error(f"--warmup: {options.warmup}; must not be negative")
    options.schedules = {}
    for text in options.schedule:
        name, equals, value = text.partition("=")
        if not equals or not name:
            parser.error(f"--schedule: '{text}'; must be NAME=JSON or NAME=FILE")
        try:
            options.schedules[name] = json.dumps(
                json.loads(
                    value if value.lstrip().startswith("{") else pathlib.Path(value).read_text()
                )
            )
        except (OSError, ValueError) as error:
            parser.error(f"--schedule {name}: {error}")


def check_cpu_options(parser, options):
    """Checks --decode, --kv-heads and the options for the CPU alone. For a GPU it replaces the list
    of dtypes by its one dtype."""
    for keys in options.decode:
        if keys < 0:
            parser.error(f"--decode: {keys}; must not be negative")
    for kv_heads in options.kv_heads or []:
        if kv_heads < 1 or options.heads % kv_heads != 0:
            parser.error(f"--kv-heads: {kv_heads}; must divide --heads {options.heads}")
    if options.device == "cpu":
        for threads in options.threads:
            if not 1 <= threads <= 1024:
                parser.error(f"--threads: {threads}; must be 1 to 1024")
        if options.sequences is not None and (
            len(options.sequences) != 2 or min(options.sequences) < 1
        ):
            parser.error("--sequences: must be COUNT,MEAN, both at least 1")
        if not options.seconds > 0:
            parser.error(f"--seconds: {options.seconds}; must be above 0")
        return
    from compare.cases import CPU_OPTIONS

    for name in CPU_OPTIONS:
        if getattr(options, name) is not None:
            parser.error(f"--{name.replace('_', '-')}: is for --device cpu")
    if len(options.dtype) != 1 or options.dtype == ["fp32"]:
        parser.error(f"--dtype: {' '.join(options.dtype)}; must be bf16 or fp16 but on the CPU")
    options.dtype = options.dtype[0]


def compile_ahead(options, tools):
    """Kernels of ours for all cases, in processes of their own: forked, because torch is loaded,
    and before this one opens the device. A process that fails leaves its share to the cases."""
    from compare.cases import all_cpus
    from compare.session import Session

    jobs = options.jobs
    if jobs is None:
        jobs = min(16, all_cpus()) if options.device == "cuda" else 0
    children = []
    for index in range(jobs):
        child = os.fork()
        if child == 0:
            try:
                Session(options, tools, writes=False).compile_share(index, jobs)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def fail(code, text):
    print(f"compare_torch: {text}", file=sys.stderr)
    return code


def main(arguments):
    options = parse_arguments(arguments)
    try:
        import torch
    except ImportError as error:
        return fail(MISSING, f"torch cannot be imported ({error}): pip install torch")
    if options.device == "cuda" and not torch.cuda.is_available():
        return fail(
            MISSING,
            "torch finds no GPU (or was built without CUDA); --device cpu compares on the CPU, "
            "--device virtual --small tries everything out on the virtual device",
        )
    if options.device == "cuda" and not 0 <= options.gpu < torch.cuda.device_count():
        return fail(WRONG_USAGE, f"--gpu {options.gpu}: there are {torch.cuda.device_count()}")
    from compare import capi
    from compare.session import Session

    if not options.overwrite and os.path.exists(os.path.join(options.output_dir, "compare.json")):
        return fail(
            WRONG_USAGE,
            f"--output-dir {options.output_dir}: has a compare.json; --overwrite replaces it",
        )
    try:
        os.makedirs(options.output_dir, exist_ok=True)
        compile_ahead(options, TOOLS)
        session = Session(options, TOOLS)
    except OSError as error:
        return fail(WRONG_USAGE, f"--output-dir: {error}")
    except capi.LssarError as error:
        return fail(MISSING, str(error))
    # A batch system that runs out of time: as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = session.run()
    except KeyboardInterrupt:
        session.stopped = "interrupted"
        code = INTERRUPTED
    session.finish()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
