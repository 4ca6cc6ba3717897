"""The shapes that are compared, and how much work each is."""

import os
import random
from dataclasses import asdict, dataclass

PASSES = ("forward", "forward_train", "backward", "forward_backward")
DATA = ("gauss", "peaky")
# What a pass writes.
RESULTS = {
    "forward": ("o",),
    "forward_train": ("o",),
    "backward": ("dq", "dk", "dv"),
    "forward_backward": ("o", "dq", "dk", "dv"),
}
# Work over that of the forward, as FlashAttention counts.
WORK = {"forward": 1.0, "forward_train": 1.0, "backward": 2.5, "forward_backward": 3.5}
CPU_OPTIONS = ("threads", "sequences", "seconds")  # that other devices do not have
CPU_LENGTHS = [512 << i for i in range(6)]
# Longer cases take minutes each. They are compared only with a causal mask and on the largest number
# of threads.
CPU_ALL_VARIANTS_UP_TO = 4096


def count(threads):
    return "1 thread" if threads == 1 else f"{threads} threads"


@dataclass(frozen=True)
class Case:
    """One shape with one kind of inputs. All contenders of a case run in turns."""

    dim: int
    length: int
    batch: int
    heads: int
    causal: bool
    data: str
    # On the CPU, where a run has several of them.
    dtype: str = None
    threads: int = None
    num_queries: int = None  # of a decode; None: as many as keys
    kv_heads: int = None  # None: as many as heads
    lengths: tuple = None  # of sequences of their own lengths; `length` is then their mean

    def shape(self):
        return (self.batch, self.heads, self.length, self.dim)

    def queries(self):
        return self.num_queries or self.length

    def num_scores(self):
        """All pairs, masked ones too: what a quadratic implementation stores."""
        if self.lengths:
            return self.heads * sum(length**2 for length in self.lengths)
        return self.batch * self.heads * self.queries() * self.length

    def flop(self, pass_name):
        """4 L^2 d per head forward, half when causal; backward 2.5 times that."""
        return 4 * self.num_scores() * self.dim / (2 if self.causal else 1) * WORK[pass_name]

    def text(self):
        cpu = f"{self.dtype}, {count(self.threads)}, " if self.threads else ""
        queries = f"{self.num_queries} query, " if self.num_queries else ""
        kv_heads = f" for {self.kv_heads} of keys" if self.kv_heads else ""
        length = f"length {self.length}, batch {self.batch}"
        if self.lengths:
            length = f"{self.batch} sequences of {min(self.lengths)} to {max(self.lengths)}"
        return (
            f"{cpu}d {self.dim}, {queries}{length}, {self.heads} heads{kv_heads}, "
            f"{'causal' if self.causal else 'not causal'}, {self.data}"
        )

    def to_json(self):
        found = {name: value for name, value in asdict(self).items() if value is not None}
        if found.pop("lengths", None):
            found["longest"] = max(self.lengths)
        return found


def make_cases(dims, lengths, causal, data, heads, tokens):
    """All combinations. The batch, at least 1, is chosen to give `tokens` tokens."""
    return [
        Case(dim, length, max(1, tokens // length), heads, is_causal, kind)
        for dim in dims
        for is_causal in causal
        for length in lengths
        for kind in data
    ]


def shared_heads(options):
    """The numbers of kv heads of decodes. None in the list: as many as heads."""
    wanted = options.kv_heads or [options.heads]
    return [None if kv_heads == options.heads else kv_heads for kv_heads in wanted]


def make_decodes(options):
    """Decodes of one query. The batch, at least 1, is chosen to give `tokens` keys."""
    if "forward" not in options.passes:
        return []
    return [
        Case(
            *(dim, length, max(1, options.tokens // length), options.heads, False, "gauss"),
            num_queries=1,
            kv_heads=kv_heads,
        )
        for length in filter(None, options.decode)
        for dim in options.dims
        for kv_heads in shared_heads(options)
    ]


def all_cpus():
    """How many CPUs this process may run on."""
    return len(os.sched_getaffinity(0))


def sequence_cases(options):
    count, mean = options.sequences
    lengths = draw_lengths(count, mean, options.seed)
    return [
        Case(dim, mean, count, options.heads, True, "gauss", dtype, threads, lengths=lengths)
        for dim in options.dims
        for dtype in options.dtype
        for threads in options.threads
    ]


def draw_lengths(count, mean, seed):
    """`count` lengths from 1 to 2 mean - 1, all as likely, in pairs whose mean is `mean`."""
    draw = random.Random(seed)
    lengths = [draw.randint(1, 2 * mean - 1) for _ in range(count // 2)]
    lengths += [2 * mean - length for length in lengths] + [mean] * (count % 2)
    draw.shuffle(lengths)
    return tuple(lengths)


def make_cpu_cases(options):
    """The decodes first, then the shortest first, so that an interrupted run has what is cheap.
    Thread counts are next to each other, because they share their inputs and references."""

    def variants(dim, length, causal, data, *more):
        batch = max(1, options.tokens // length)
        return [
            Case(dim, length, batch, options.heads, causal, data, dtype, threads, *more)
            for dtype in options.dtype
            for threads in options.threads
        ]

    cases = []
    if "forward" in options.passes:
        for length in filter(None, options.decode):
            for dim in options.dims:
                for kv_heads in shared_heads(options):
                    cases += variants(dim, length, False, "gauss", 1, kv_heads)
    if options.sequences:
        cases += sequence_cases(options)
    for length in sorted(options.lengths):
        for dim in options.dims:
            for causal in options.causal:
                for data in options.data:
                    cases += variants(dim, length, causal == "yes", data)
    if options.lengths != CPU_LENGTHS:
        return cases
    return [
        case
        for case in cases
        if case.num_queries
        or case.lengths
        or case.length <= CPU_ALL_VARIANTS_UP_TO
        or (case.causal and case.threads == max(options.threads))
    ]
