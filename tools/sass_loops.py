#!/usr/bin/env python3
"""Instruction slots of the loops of a kernel, read from its machine code.

    nvcc -cubin -arch=sm_90 forward.cu -o forward.cubin      (forward.cu: `lssar emit`)
    tools/sass_loops.py forward.cubin --scores-per-thread 32

Disassembles a cubin with NVIDIA's nvdisasm, finds the loops of each kernel (natural loops of its
control flow), and counts their instructions by class: those of every iteration, which no branch
can go around, and all there are ("at most": rare paths, such as masks, too). "Other slots" are all
but tensor and mufu. Where an iteration may take several ways (evaluators, say), also what each
takes: ways with as many tensor, mufu and fma instructions are one. Instructions of a nested loop
count for that loop only. With --scores-per-thread also per score.

The input may also be a listing that `nvdisasm -c` wrote.

exit codes: 0 done; 2 wrong options or input; 3 nvdisasm was not found; 4 nvdisasm failed.
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

DONE, WRONG_USAGE, MISSING, FAILED = 0, 2, 3, 4
HOW_TO_GET = "install a CUDA toolkit, or NVIDIA's wheel: pip install nvidia-cuda-nvdisasm"

# Class: opcodes without their suffixes. The first match wins; a U in front (uniform datapath) is
# looked up with and without it.
CLASSES = {
    "tensor": "HMMA HGMMA QMMA QGMMA IMMA IGMMA BMMA BGMMA DMMA OMMA UTCHMMA UTCQMMA UTCIMMA",
    "mufu": "MUFU",
    "fma": "FFMA FFMA2 FFMA32I HFMA2 DFMA",
    "float": (
        "FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FMNMX FMNMX3 FSEL FSET FSETP FCHK FSWZADD HADD2 "
        "HADD2_32I HMUL2 HMUL2_32I HMNMX2 HSET2 HSETP2 DADD DMUL DSETP"
    ),
    "convert": "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND",
    "move": "MOV MOV32I CS2R S2R S2UR R2UR UR2UP P2R R2P LDC",
    "integer": (
        "PRMT SEL SGXT IADD IADD3 IADD32I IMAD IMUL IMNMX IABS ISETP ICMP ISCADD LEA LOP LOP3 "
        "LOP32I PLOP3 SHF SHL SHR BMSK BREV FLO POPC XMAD VIADD VIADDMNMX VIMNMX VIMNMX3 "
        "VABSDIFF IDP IDP4A PSETP VHMNMX"
    ),
    "shared": "LDS STS LDSM STSM LDSLK ATOMS REDS MOVM",
    "exchange": "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT",
    "global": (
        "LDG STG LD ST ATOM ATOMG RED REDG LDGSTS BLKCP BLKRED BLKPF TMALDG TMASTG TMAREDG "
        "TMAPF TMACCTL CCTL CCTLL CCTLT"
    ),
    "local": "LDL STL",
    "wait": (
        "BAR DEPBAR LDGDEPBAR SYNCS WARPSYNC WARPGROUP WARPGROUPSET ERRBAR MEMBAR FENCE "
        "NANOSLEEP YIELD ARRIVES CGABAR_ARV CGABAR_WAIT CGABAR_GET CGABAR_SET CGAERRBAR ACQBULK "
        "SETMAXREG TMACMDFLUSH PREEXIT"
    ),
    "control": (
        "BRA BRX BRXU JMP JMX JMXU CALL RET EXIT BSSY BSYNC BREAK BMOV BPT KILL RTT NOP WARPS "
        "LEPC RPCMOV"
    ),
}
CLASS_OF = {op: name for name, ops in CLASSES.items() for op in ops.split()}
INDIRECT = ("BRX", "BRXU", "JMX", "JMXU")
BRANCHES = ("BRA", "JMP") + INDIRECT
ENDS = ("EXIT", "RET", "KILL")
SLOTS_BESIDE = ("tensor", "mufu")  # not counted in "other slots"
WAY_CLASSES = ("tensor", "mufu", "fma")  # distinguish ways
MOST_WAYS = 24  # with more ways, such as a loop around everything, they are not listed

_INSTRUCTION = re.compile(
    r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[T0-9]+)\s+)?([A-Z][A-Za-z0-9_.]*)(.*?);"
)
_LABEL = re.compile(r"^(\.L_[\w.]+|\$?[\w$.]+):\s*$")
_LABEL_OPERAND = re.compile(r"`\((\.L_[\w.]+)\)")
_INDIRECT = re.compile(r"BRANCH_TARGETS([^\"*]*)")


class Problem(Exception):
    """`code` is the exit code, the text one line for the user."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def instruction_class(instruction):
    opcode, base = instruction.opcode, instruction.base()
    # Registers and constants are copied by whichever unit is idle.
    if opcode.startswith("IMAD.MOV") or (base == "HFMA2" and "-RZ, RZ" in instruction.operands):
        return "move"
    if opcode.startswith("HADD2.F32"):  # how a 16-bit number becomes a float
        return "convert"
    return CLASS_OF.get(base) or CLASS_OF.get(base[1:] if base.startswith("U") else "", "other")


@dataclass
class Instruction:
    address: int
    guard: str  # "@P0", or ""
    opcode: str
    operands: str

    def base(self):
        return self.opcode.split(".")[0]

    def always(self):
        return self.guard in ("", "@PT", "@UPT")


@dataclass
class Block:
    instructions: list = field(default_factory=list)
    successors: list = field(default_factory=list)


@dataclass
class Kernel:
    name: str
    lines: list = field(default_factory=list)  # Instruction, or a label as str


def parse_listing(text):
    """(target, kernels) of what `nvdisasm -c` prints: one Kernel per code section."""
    target = re.search(r"\.target\s+(\w+)", text)
    kernels = []
    for line in text.splitlines():
        section = re.search(r"\.section\s+\.text\.([^\s,]+)", line)
        if section:
            kernels.append(Kernel(section.group(1)))
        elif kernels:
            found = _INSTRUCTION.match(line)
            label = _LABEL.match(line)
            if found:
                address, guard, opcode, operands = found.groups()
                kernels[-1].lines.append(
                    Instruction(int(address, 16), guard or "", opcode, operands)
                )
            elif label:
                kernels[-1].lines.append(label.group(1))
    return target.group(1) if target else "unknown", kernels


def targets_of(instruction):
    indirect = _INDIRECT.search(instruction.operands)
    if indirect:
        return re.findall(r"\.L_[\w.]+", indirect.group(1))
    return _LABEL_OPERAND.findall(instruction.operands)


def is_conditional(instruction):
    """Whether a branch may fall through: a guard, or a condition before the target."""
    if not instruction.always() or ".DIV" in instruction.opcode:
        return True
    if instruction.base() in INDIRECT:
        return False
    return instruction.operands.split("`")[0].strip(" ,") not in ("", "PT", "UPT")


def successor_labels(instruction):
    """(labels, falls through). A BSYNC is right before the label of its BSSY: it falls through."""
    if instruction.base() in BRANCHES:
        return targets_of(instruction), is_conditional(instruction)
    return [], instruction.base() not in ENDS or not instruction.always()


def control_flow(kernel):
    """(blocks, entries): the kernel's own entry first, then those of functions in its section."""
    blocks, block_of, entries = [Block()], {}, [0]
    for line in kernel.lines:
        if isinstance(line, str):
            if blocks[-1].instructions:
                blocks.append(Block())
            block_of[line] = len(blocks) - 1
            if line.startswith("$"):
                entries.append(len(blocks) - 1)
            continue
        blocks[-1].instructions.append(line)
        if line.base() in BRANCHES + ENDS:
            blocks.append(Block())
    for number, block in enumerate(blocks):
        labels, falls = [], True
        if block.instructions:
            labels, falls = successor_labels(block.instructions[-1])
        block.successors = [block_of[label] for label in labels if label in block_of]
        if falls and number + 1 < len(blocks):
            block.successors.append(number + 1)
    return blocks, list(dict.fromkeys(entries))


def reverse_postorder(blocks, entries):
    order, seen = [], set()
    for entry in entries:
        stack = [(entry, iter(blocks[entry].successors))] if entry not in seen else []
        seen.add(entry)
        while stack:
            number, successors = stack[-1]
            following = next((s for s in successors if s not in seen), None)
            if following is None:
                order.append(number)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(blocks[following].successors)))
    return order[::-1]


def dominators(blocks, entries):
    """{block: set of the blocks on every way from an entry to it}."""
    order = reverse_postorder(blocks, entries)
    before = collections.defaultdict(list)
    for number in order:
        for successor in blocks[number].successors:
            before[successor].append(number)
    dominating = {number: None for number in order}
    for entry in entries:
        dominating[entry] = {entry}
    changed = True
    while changed:
        changed = False
        for number in order:
            if number in entries:
                continue
            known = [dominating[b] for b in before[number] if dominating[b] is not None]
            now = set.intersection(*known) | {number}
            if now != dominating[number]:
                dominating[number] = now
                changed = True
    return dominating, before


@dataclass
class Loop:
    header: int
    blocks: set
    latches: list
    parent: object = None
    depth: int = 1
    nested: list = field(default_factory=list)


def find_loops(blocks, entries):
    """Natural loops in the order of their headers; those of one header are one loop."""
    dominating, before = dominators(blocks, entries)
    loops = {}
    for number in dominating:
        for header in blocks[number].successors:
            if header not in dominating[number]:
                continue
            loop = loops.setdefault(header, Loop(header, {header}, []))
            loop.latches.append(number)
            stack = [number]
            while stack:
                inside = stack.pop()
                if inside not in loop.blocks:
                    loop.blocks.add(inside)
                    stack += before[inside]
    ordered = sorted(loops.values(), key=lambda loop: loop.header)
    for loop in ordered:
        around = [o for o in ordered if o is not loop and loop.header in o.blocks]
        around = [o for o in around if loop.blocks < o.blocks]
        loop.depth = len(around) + 1
        if around:
            loop.parent = min(around, key=lambda o: len(o.blocks))
            loop.parent.nested.append(loop)
    return ordered, dominating


def count(blocks, numbers):
    """Counter of classes, counter of opcodes."""
    classes, opcodes = collections.Counter(), collections.Counter()
    for number in numbers:
        for instruction in blocks[number].instructions:
            classes[instruction_class(instruction)] += 1
            opcodes[".".join(instruction.opcode.split(".")[:2])] += 1
    return classes, opcodes


def ordered_classes(counter):
    names = list(CLASSES) + ["other"]
    return {name: counter[name] for name in names if counter[name]}


def find_ways(loop, blocks, dominating, own):
    """What an iteration may take: WAY_CLASSES, and the fewest and the most other slots."""
    known = {}

    def ways_from(number):
        if number in known:
            return known[number]
        ways = known[number] = {}
        counts, _ = count(blocks, own & {number})
        key = [counts[name] for name in WAY_CLASSES]
        others = sum(counts.values()) - sum(counts[name] for name in SLOTS_BESIDE)
        following = blocks[number].successors
        tails = [((0,) * len(key), (0, 0))] if loop.header in following else []
        for successor in loop.blocks.intersection(following) - dominating[number]:
            tails += ways_from(successor).items()
        for tail, (fewest, most) in tails:
            whole = tuple(a + b for a, b in zip(key, tail))
            least, largest = ways.get(whole, (fewest + others, 0))
            ways[whole] = (min(least, fewest + others), max(largest, most + others))
        return ways

    found = sorted(ways_from(loop.header).items())
    if not 1 < len(found) <= MOST_WAYS:
        return []
    return [dict(zip(WAY_CLASSES, key), other_slots=list(others)) for key, others in found]


def describe_loop(number, loop, blocks, dominating, ids):
    own = loop.blocks - set().union(*(inner.blocks for inner in loop.nested), set())
    every = {b for b in own if all(b in dominating[latch] for latch in loop.latches)}
    addresses = [i.address for b in loop.blocks for i in blocks[b].instructions]
    every_classes, every_opcodes = count(blocks, every)
    all_classes, all_opcodes = count(blocks, own)
    return {
        "loop": number,
        "first_address": min(addresses),
        "last_address": max(addresses),
        "depth": loop.depth,
        "inside": ids.get(id(loop.parent)),
        "nested": [ids[id(inner)] for inner in loop.nested],
        "every_iteration": ordered_classes(every_classes),
        "at_most": ordered_classes(all_classes),
        "ways": find_ways(loop, blocks, dominating, own),
        "opcodes_every_iteration": dict(sorted(every_opcodes.items())),
        "opcodes_at_most": dict(sorted(all_opcodes.items())),
    }


def add_per_score(loop, scores):
    """Slots per score of one thread; `other_slots` is what tensor cores and MUFU do not do."""
    loop["scores_per_thread"] = scores
    for name in ("every_iteration", "at_most"):
        counts = loop[name]
        per_score = {key: value / scores for key, value in counts.items()}
        per_score["slots"] = sum(counts.values()) / scores
        per_score["other_slots"] = (
            sum(v for k, v in counts.items() if k not in SLOTS_BESIDE) / scores
        )
        loop["per_score_" + name] = per_score


def analyse(text, scores):
    """The report as plain values. `scores`: a loop's number (or None for all) -> scores."""
    target, kernels = parse_listing(text)
    report = {"target": target, "kernels": []}
    for kernel in kernels:
        blocks, entries = control_flow(kernel)
        loops, dominating = find_loops(blocks, entries)
        ids = {id(loop): number for number, loop in enumerate(loops, 1)}
        described = [describe_loop(ids[id(loop)], loop, blocks, dominating, ids) for loop in loops]
        for loop in described:
            per_thread = scores.get(loop["loop"], scores.get(None))
            if per_thread:
                add_per_score(loop, per_thread)
        num = sum(not isinstance(line, str) for line in kernel.lines)
        report["kernels"].append({"name": kernel.name, "instructions": num, "loops": described})
    return report


def table_rows(loop):
    """(label, every iteration, at most): the classes, then their sums."""
    every = loop["every_iteration"]
    rows = [(name, every.get(name, 0), most) for name, most in loop["at_most"].items()]
    beside = [row for row in rows if row[0] not in SLOTS_BESIDE]
    for label, summed in (("all slots", rows), ("other slots", beside)):
        rows = rows + [(label, sum(row[1] for row in summed), sum(row[2] for row in summed))]
    return rows


def only_waits(loop):
    """Whether the loop only polls a barrier until it is complete."""
    return set(loop["at_most"]) <= {"wait", "control"}


def loop_text(loop, with_opcodes):
    where = f"/*{loop['first_address']:04x}*/ to /*{loop['last_address']:04x}*/"
    inside = f", in loop {loop['inside']}" if loop["inside"] else ""
    nested = f", around {', '.join(map(str, loop['nested']))}" if loop["nested"] else ""
    lines = [f"  loop {loop['loop']}: {where}{inside}{nested}"]
    if only_waits(loop):
        return lines[0] + ": only waits"
    scores = loop.get("scores_per_thread")
    heading = f"{'':4}{'':14}{'every':>7}{'at most':>9}"
    lines.append(heading + (f"{'a score':>10}{'at most':>9}" if scores else ""))
    for label, every, most in table_rows(loop):
        line = f"    {label:14}{every:>7}{most:>9}"
        lines.append(line + (f"{every / scores:>10.2f}{most / scores:>9.2f}" if scores else ""))
    for way in loop["ways"]:
        least, most = way["other_slots"]
        kind = ", ".join(f"{way[name]} {name}" for name in WAY_CLASSES)
        a_score = f": {least / scores:.2f} to {most / scores:.2f} a score" if scores else ""
        lines.append(f"      way of {kind}: {least} to {most} other slots{a_score}")
    if with_opcodes:
        for name, most in sorted(loop["opcodes_at_most"].items(), key=lambda item: -item[1]):
            every = loop["opcodes_every_iteration"].get(name, 0)
            lines.append(f"      {name:20}{every:>6}{most:>7}")
    return "\n".join(lines)


def report_text(report, only_tensor, with_opcodes):
    lines = []
    for kernel in report["kernels"]:
        loops = kernel["loops"]
        if only_tensor:
            loops = [loop for loop in loops if loop["at_most"].get("tensor")]
        lines.append(
            f"{kernel['name']} ({report['target']}): {kernel['instructions']} instructions, "
            f"{len(kernel['loops'])} loops"
        )
        lines += [loop_text(loop, with_opcodes) for loop in loops]
    return "\n".join(lines)


def find_nvdisasm(given):
    if given:
        if not os.access(given, os.X_OK):
            raise Problem(MISSING, f"--nvdisasm {given}: no such program; {HOW_TO_GET}")
        return given
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [os.path.join(root, "bin", "nvdisasm") for root in roots if root]
    for folder in sys.path:
        places += glob.glob(os.path.join(folder, "nvidia", "*", "bin", "nvdisasm"))
    for place in [shutil.which("nvdisasm")] + places:
        if place and os.access(place, os.X_OK):
            return place
    raise Problem(MISSING, f"nvdisasm was not found; {HOW_TO_GET}, or name it with --nvdisasm")


def read_listing(path, nvdisasm):
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise Problem(WRONG_USAGE, str(error)) from None
    if not data.startswith(b"\x7fELF"):
        text = data.decode(errors="replace")
        if ".section" not in text:
            raise Problem(WRONG_USAGE, f"{path}: neither a cubin nor a listing of nvdisasm")
        return text
    program = find_nvdisasm(nvdisasm)
    done = subprocess.run([program, "-c", path], capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise Problem(FAILED, f"nvdisasm failed on {path}: {said}")
    return done.stdout.decode(errors="replace")


def parse_scores(texts):
    scores = {}
    for text in texts:
        loop, equals, number = text.rpartition("=")
        try:
            scores[int(loop) if equals else None] = int(number)
        except ValueError:
            raise Problem(WRONG_USAGE, f"--scores-per-thread {text}: must be N or LOOP=N") from None
        if int(number) < 1:
            raise Problem(WRONG_USAGE, f"--scores-per-thread {text}: must be at least 1")
    return scores


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("file", help="a cubin, or a listing by nvdisasm -c")
    add("--scores-per-thread", action="append", default=[], metavar="[LOOP=]N",
        help="scores one thread handles per iteration: of all loops, or of one")  # fmt: skip
    add("--nvdisasm", help="the program (default: the toolkit's, else that of the PyPI wheel)")
    add("--tensor", action="store_true", help="only loops with tensor instructions")
    add("--opcodes", action="store_true", help="the opcodes too, not only their classes")
    add("--json", action="store_true", help="everything, as JSON")
    options = parser.parse_args(arguments)
    try:
        scores = parse_scores(options.scores_per_thread)
        report = analyse(read_listing(options.file, options.nvdisasm), scores)
    except Problem as problem:
        print(f"sass_loops: {problem}", file=sys.stderr)
        return problem.code
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        print(report_text(report, options.tensor, options.opcodes))
    return DONE


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:  # into `head`, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DONE)
