#!/usr/bin/env python3
"""Which orders of an instruction's modifiers ptxas takes: makes data/modifier_orders.txt.

  build/release/bin/ptx_seeds SEEDS
  tests/virtual/conformance/modifier_orders.py SEEDS [PTXAS] > tests/virtual/data/modifier_orders.txt

Takes one instruction of every kind from the texts that ptx_seeds writes for the rows of the opcode
table, has ptxas read it with its modifiers in other orders, and writes those that it takes. The
test ModifierOrderTest loads all of them.
"""
import glob
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile

MOST_ORDERS = 10  # of one instruction
CHUNK = 20000  # instructions of one run
COMPARISONS = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan".split()
DIGITS = "0123456789abcdef"
# Where the operands or modifiers that the seeds draw are none that ptxas takes.
FORMS = """\
atom.acquire.gpu.global.cas.b32 %r5, [%l0], %r3, %r1;
atom.acq_rel.cluster.shared::cluster.add.u32 %r5, [%r2], %r3;
atom.relaxed.gpu.global.add.noftz.bf16x2 %r5, [%l0], %r3;
atom.relaxed.gpu.global.add.v2.f32 {%r5, %r6}, [%l0], {%r3, %r4};
atom.global.add.noftz.v2.f16x2 {%r5, %r6}, [%l0], {%r3, %r4};
atom.global.add.noftz.v4.bf16 {%h4, %h5, %h6, %h7}, [%l0], {%h0, %h1, %h2, %h3};
bar.cta.arrive 1, 128;
bar.cta.red.and.pred %p2, 1, %p1;
bar.red.popc.u32 %r7, 1, %p1;
barrier.cta.arrive.aligned 1, 128;
barrier.cta.red.or.aligned.pred %p2, 1, %p1;
barrier.cta.red.popc.aligned.u32 %r7, 1, %p1;
barrier.cluster.arrive.release.aligned;
cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%l2, {%r4, %r4}];
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r2], [%l2, {%r4, %r4}], [%r4], %h0, %l5;
cp.async.cg.shared.global.L2::cache_hint.L2::128B [%r2], [%l0], 16, %l5;
createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %l11, 0f3F000000;
cvt.rna.satfinite.tf32.f32 %r7, %r4;
cvt.rn.satfinite.relu.e4m3x2.f32 %h7, %r4, %r5;
cvt.rzi.ftz.sat.s32.f32 %r7, %r4;
fence.acq_rel.gpu;
fence.mbarrier_init.release.cluster;
fence.proxy.async.shared::cta;
fence.proxy.tensormap::generic.acquire.gpu [%l0], 128;
fence.proxy.tensormap::generic.release.gpu;
fma.rn.ftz.relu.f16x2 %r4, %r2, %r3, %r1;
ld.acquire.gpu.global.L2::256B.v2.u32 {%r4, %r6}, [%l0];
ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.f32 {%r4, %r5, %r6, %r7}, [%l0], %l5;
ld.relaxed.cluster.shared::cluster.u32 %r4, [%r2];
ld.volatile.global.v2.b64 {%l4, %l6}, [%l0];
mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r2], %r3;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2], %r3;
mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %l4, [%r2], %r3;
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r2], %r3;
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], %r3;
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r2], %r3, %r1;
mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [%r2], %l4;
prefetch.param.tensormap [map];
red.release.gpu.global.add.s32 [%l0], %r3;
red.relaxed.gpu.global.add.v4.f32 [%l0], {%r3, %r4, %r5, %r6};
red.global.max.noftz.v4.bf16x2 [%l0], {%r3, %r4, %r5, %r6};
red.release.gpu.global.min.noftz.v8.f16 [%l0], {%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7};
redux.sync.min.s32 %r3, %r4, %r6;
setmaxnreg.dec.sync.aligned.u32 24;
setmaxnreg.inc.sync.aligned.u32 240;
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r2], {%r3, %r3, %r3, %r3}, [%r4];
st.global.L1::no_allocate.L2::cache_hint.v4.f32 [%l0], {%r4, %r5, %r6, %r7}, %l5;
st.release.gpu.global.v2.u32 [%l0], {%r4, %r6};
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%l0], [%r2], 128;
tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r2], 3;
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r2], 4, %r3;
tensormap.replace.tile.global_stride.global.b1024.b64 [%l0], 3, %l2;
wgmma.commit_group.sync.aligned;
wgmma.fence.sync.aligned;
wgmma.wait_group.sync.aligned 0;
"""


def read_seeds(folder):
    """The text before the instruction, and the instructions of all texts: opcode to operands."""
    instructions = {}
    head = None
    for mode in "fast", "strict":
        for path in sorted(glob.glob(os.path.join(folder, "row_*_%s.ptx" % mode))):
            with open(path) as file:
                before, body = file.read().split("BEGIN:\n")
            head = head or before.split("\n", 1)[1].replace(".version 8.5", ".version 9.0")
            statement = body.split("\nret;")[0].replace("\n", " ").strip()
            match = re.fullmatch(r"(?:@!?%p\d+ )?([a-z][\w.:]*)([^;]*;)", statement)
            if match and not match[1].startswith("call"):
                instructions.setdefault(match[1], match[2])
    for form in FORMS.splitlines():
        match = re.match(r"([\w.:]+)(.*)", form)
        instructions[match[1]] = match[2]
    return head, instructions


def taken(ptxas, head, lines):
    """Whether ptxas reads each line without an error. A syntax error ends a run."""
    results = []
    first = head.count("\n") + 1
    with tempfile.TemporaryDirectory() as folder:
        while len(results) < len(lines):
            part = lines[len(results):len(results) + CHUNK]
            text = head + "\n".join(part) + "\nno.such %r1;\nret;\n}\n"
            run = subprocess.run([ptxas, "-arch=sm_90a", "-o", folder + "/out", "-"], input=text,
                                 capture_output=True, text=True)
            bad, end = set(), len(part)
            for line, fatal in re.findall(r"line (\d+); (fatal)?", run.stderr):
                bad.add(int(line) - first)
                if fatal:
                    end = int(line) - first + 1
            if end == len(part) and len(part) not in bad:
                sys.exit("ptxas did not find the error it was given:\n" + run.stderr[-2000:])
            results += [i not in bad for i in range(end)]
    return results


def kind_of(opcode):
    """What instructions that differ only in types, sizes and comparisons have in common."""
    words = []
    for word in opcode.split("."):
        if word in COMPARISONS:
            word = "lt"
        words.append(re.sub(r"^(b|u|s|f|bf|tf|e)(\d+)(x\d|m\d|m\dx\d)?$", "type",
                            re.sub(r"(?<=[mnk])\d+", "#", word)))
    return ".".join(words)


def orders_of(count, draw):
    """Orders of the words behind the first: all of few, else moves, exchanges and drawn ones."""
    own = tuple(range(1, count))
    if count <= 5:
        found = set(itertools.permutations(own))
    else:
        found = {own[::-1]}
        for i, j in itertools.product(range(count - 1), repeat=2):
            moved = list(own)
            moved.insert(j, moved.pop(i))
            swapped = list(own)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            found |= {tuple(moved), tuple(swapped)}
        found |= {tuple(draw.sample(own, count - 1)) for _ in range(20)}
    found.discard(own)
    return sorted(found)


def main():
    folder, ptxas = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "ptxas"
    version = re.search(r"release \S+, (\S+)", subprocess.run(
        [ptxas, "--version"], capture_output=True, text=True).stdout)[1]
    draw = random.Random(1)
    head, instructions = read_seeds(folder)
    opcodes = list(instructions)
    good = taken(ptxas, head, [opcode + instructions[opcode] for opcode in opcodes])
    kinds = {}
    for opcode, ok in zip(opcodes, good):
        if ok and opcode.count(".") > 1:
            kinds.setdefault(kind_of(opcode), opcode)
    tries = []
    for opcode in kinds.values():
        words = opcode.split(".")
        for order in orders_of(len(words), draw):
            tries.append((opcode, order, ".".join([words[0]] + [words[i] for i in order])))
    found = {}
    lines = [spelled + instructions[opcode] for opcode, _, spelled in tries]
    for (opcode, order, _), ok in zip(tries, taken(ptxas, head, lines)):
        if ok:
            found.setdefault(opcode, []).append("".join(DIGITS[i] for i in order))
    print("# Made by modifier_orders.py with ptxas %s: an instruction, and orders of the words" % version)
    print("# behind its first that ptxas takes as well. First, the text before the instructions.")
    for line in head.strip().split("\n"):
        print("| " + line)
    for opcode, orders in sorted(found.items()):
        chosen = sorted(draw.sample(orders, min(MOST_ORDERS, len(orders))))
        print(opcode + instructions[opcode] + " " + " ".join(chosen))


if __name__ == "__main__":
    main()
