"""Contexts (one per device) and plans (one per problem) of liblssar.so, kept for the process. Also
chooses the device that computes CPU tensors.

Used by _check, _launch and jax; needs neither torch nor JAX. Any thread may call anything here.
Nothing is destroyed: at exit the driver may be gone before Python's objects are.
"""

import ctypes
import functools
import os
import threading
import warnings

from . import _structs
from ._library import LssarError, library
from ._rules import at_compile_time
from ._score_text import score_fields

_ALIGNMENT = 16


class Plan:
    """Kernels for one problem, and for all sizes that it leaves open."""

    def __init__(self, context, problem):
        self._library = library()
        self._lock = threading.Lock()
        self.prepared = False
        self.is_for_cpu_device = context.kind == _structs.DEVICE_CPU
        handle = ctypes.c_void_p()
        self._library.check(
            self._library.plan_create(
                context.handle, ctypes.byref(problem), None, ctypes.byref(handle)
            )
        )
        self.handle = handle.value

    def prepare(self):
        """Compiles and loads the kernels, or waits for another thread that does."""
        if self.prepared:
            return
        with self._lock:
            if not self.prepared:
                self._library.check(self._library.plan_prepare(self.handle))
                self.prepared = True

    def needs(self, sizes):
        """Bytes of (saved_o, saved_stats, saved_x, workspace) for sizes = (batch, heads, kv_heads,
        seq_q, seq_k)."""
        c_sizes = _structs.Sizes(*sizes)
        saved = _structs.SavedSizes()
        workspace = ctypes.c_size_t()
        api = self._library
        api.check(api.plan_saved_sizes(self.handle, ctypes.byref(c_sizes), ctypes.byref(saved)))
        api.check(
            api.plan_workspace_size(self.handle, ctypes.byref(c_sizes), ctypes.byref(workspace))
        )
        return saved.o, saved.stats, saved.x, workspace.value

    def varlen_needs(self, sizes, total_q, total_k):
        """The same for a plan for sequences; total_q, total_k: rows of all sequences together."""
        c_sizes = _structs.Sizes(*sizes)
        saved = _structs.SavedSizes()
        workspace = ctypes.c_size_t()
        self._library.check(
            self._library.plan_varlen_sizes(
                self.handle,
                ctypes.byref(c_sizes),
                total_q,
                total_k,
                ctypes.byref(workspace),
                ctypes.byref(saved),
            )
        )
        return saved.o, saved.stats, saved.x, workspace.value


def check_sequences(status):
    """Library.check for a call of sequences. Its errors name sizes as callers do."""
    try:
        library().check(status)
    except LssarError as error:
        text = str(error)
        for which in "qk":
            text = text.replace(f"sizes.seq_{which}", f"max_seqlen_{which}")
        raise LssarError(text, error.status) from None


class Context:
    """`kind`: _structs.DEVICE_*."""

    def __init__(self, kind, ordinal):
        self.kind = kind
        self._library = library()
        self._lock = threading.Lock()
        self._plans = {}
        self.handle = ctypes.c_void_p()
        options = _structs.sized(_structs.ContextOptions, device=kind, device_ordinal=ordinal)
        self._library.check(
            self._library.context_create(ctypes.byref(options), ctypes.byref(self.handle))
        )

    def plan(self, key, few_queries=0):
        """The plan of key = (training, dtype, head_dim, head_dim_v, heads, kv_heads, causal, p,
        offset, score, alignment), and behind it for calls of sequences True, the window, whether it
        is invariant, and the dimension and the order of rotary positions; dtype one of
        _structs.DTYPE_*, score and window as _rules.score_of and window_of say; not prepared.

        few_queries: 0, or the number of queries, for calls of sequences the most that one has, for
        which a GPU's blocks divide the keys. The CPU ignores it."""
        if self.kind == _structs.DEVICE_CPU:
            few_queries = 0  # the CPU's plan for any lengths has these kernels
        which = (key, few_queries)
        plan = self._plans.get(which)
        if plan is None:
            with self._lock:
                plan = self._plans.get(which)
                if plan is None:
                    problem = _problem(*key)
                    problem.seq_q = few_queries
                    plan = self._plans[which] = Plan(self, problem)
        return plan

    def info(self):
        info = _structs.sized(_structs.ContextInfo)
        self._library.check(self._library.context_get_info(self.handle, ctypes.byref(info)))
        values = {name: getattr(info, name) for name, _ in _structs.ContextInfo._fields_[1:]}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}


def saves_x(p, offset):
    """Whether the forward may hand X to the backward: where there is an offset."""
    return p != 0 and ctypes.c_float(offset).value != 0


def saved_words_per_row(is_float32, head_dim_v, p, offset):
    """Words of 4 bytes for a query and head of what the forward hands to the backward beside o: what
    its rounding took, in bfloat16, four statistics, and X. Room for X is left whatever the schedule,
    which may do without: traces ask for the size where the device, and with it the schedule, is not
    known."""
    o = 0 if is_float32 else head_dim_v // 2
    x = (head_dim_v if is_float32 else head_dim_v // 2) if saves_x(p, offset) else 0
    return o + 4 + x


def _problem(
    training,
    dtype,
    head_dim,
    head_dim_v,
    heads,
    kv_heads,
    causal,
    p,
    offset,
    score,
    alignment,
    varlen=False,
    window=(),
    invariant=False,
    rotary_dim=0,
    rotary_interleaved=False,
):
    left, right, sinks, prefix, chunk = window or (0,) * 5
    return _structs.sized(
        _structs.Problem,
        passes=_structs.PASS_FORWARD_TRAIN | _structs.PASS_BACKWARD
        if training
        else _structs.PASS_FORWARD,
        dtype=dtype,
        head_dim=head_dim,
        head_dim_v=head_dim_v,
        heads=heads,
        kv_heads=kv_heads,
        causal=int(causal),
        p=p,
        offset=offset,
        alignment=alignment,
        score=score.encode() or None,
        varlen=int(varlen),
        has_window=int(bool(window)),
        window_left=left,
        window_right=right,
        window_sinks=sinks,
        prefix=prefix,
        chunk=chunk,
        invariant=int(invariant),
        rotary_dim=rotary_dim,
        rotary_interleaved=int(rotary_interleaved),
    )


@at_compile_time
def check_score(score, p, offset):
    """Raises the library's error for a wrong score function before any call is made."""
    if score:
        _check_score(score, p, offset)


@functools.lru_cache(maxsize=1024)
def _check_score(score, p, offset):
    """Creates a plan, but does not prepare it, which is cheap. None is kept: scores may be many."""
    dims = (_structs.DTYPE_FP32, 64, 64, 1, 1)
    # The recording device takes every problem, and needs no compiler for that.
    plan = Plan(context("record"), _problem(False, *dims, False, p, offset, score, _ALIGNMENT))
    library().plan_destroy(plan.handle)


def has_sink(score, p, offset):
    """Whether calls with a score function take a sink. Raises as check_score."""
    check_score(score, p, offset)
    return bool(score) and score_fields(score)["sink"] != "none"


def has_alibi(score):
    """Whether calls with a score function, which check_score knows, take slopes."""
    return bool(score) and score_fields(score)["alibi"] != "none"


KINDS = {
    "cpu": _structs.DEVICE_CPU,  # the benchmark of calls puts the recording device here
    "cuda": _structs.DEVICE_CUDA,
    "record": _structs.DEVICE_RECORD,
    "virtual": _structs.DEVICE_VIRTUAL,
}
_contexts = {}
_lock = threading.Lock()


def context(kind, ordinal=0):
    """The context of a device of KINDS; `ordinal` says which GPU."""
    found = _contexts.get((kind, ordinal))
    if found is None:
        with _lock:
            found = _contexts.get((kind, ordinal))
            if found is None:
                found = Context(KINDS[kind], ordinal)
                _contexts[kind, ordinal] = found
    return found


def few_queries(seq_q, seq_k):
    """seq_q, if the library's default for these lengths divides the keys among blocks of a GPU;
    else 0."""
    return seq_q if 1 <= seq_q <= 16 and seq_k > 512 else 0


def plan(device_type, ordinal, key, few_queries=0):
    """The plan of Context.plan, not prepared. `device_type`: the tensors', "cpu" or "cuda"."""
    if device_type != "cpu":
        return context(device_type, ordinal).plan(key, few_queries)
    return context(_kind_for_cpu(key)).plan(key, few_queries)


def info_for_cpu():
    """What is known of the device that CPU tensors go to if it has kernels for them."""
    kind = _wanted()
    if kind == "auto":
        kind = "virtual" if _why_no_cpu() else "cpu"
    return context(kind).info()


# ---- Which device computes CPU tensors: LSSAR_DEVICE, read by the first call

@functools.lru_cache(maxsize=1)  # a backward must run where its forward did
def _wanted():
    wanted = os.environ.get("LSSAR_DEVICE") or "auto"
    if wanted not in ("auto", "cpu", "virtual"):
        raise LssarError(
            f"LSSAR_DEVICE = '{wanted}': allowed for CPU tensors are auto, cpu and virtual"
        )
    return wanted


# What auto has chosen, by a key's problem. The forward for training and its backward have one key.
# So both run on one device, which knows what was saved.
_kinds = {}
_ALIGNMENT_IN_KEY = 10
_has_warned = False


def _kind_for_cpu(key):
    wanted = _wanted()
    if wanted != "auto":
        return wanted
    # Without the alignment: calls of one problem run on one device.
    problem = key[:_ALIGNMENT_IN_KEY] + key[_ALIGNMENT_IN_KEY + 1 :]
    kind = _kinds.get(problem)
    if kind is None:
        why = _why_no_cpu() or _why_no_plan(key)
        if why:
            _warn(why)
        kind = _kinds.setdefault(problem, "virtual" if why else "cpu")
    return kind


_NOT_SERVED = (_structs.STATUS_UNSUPPORTED, _structs.STATUS_MISSING)


def _why_not(attempt):
    """The message if `attempt` fails for want of something or of support, else None."""
    try:
        attempt()
    except LssarError as error:
        if error.status not in _NOT_SERVED:
            raise
        return str(error)
    return None


@functools.lru_cache(maxsize=1)
def _why_no_cpu():
    """Why there is no cpu device, or None."""
    return _why_not(lambda: context("cpu"))


def _why_no_plan(key):
    """Why the cpu device does not compute this problem, or None: what its plan says. Preparing it
    shows whether its kernels were shipped, where there is no compiler."""
    return _why_not(lambda: context("cpu").plan(key).prepare())


def _warn(why):
    global _has_warned
    with _lock:
        if _has_warned:
            return
        _has_warned = True
    warnings.warn(
        f"lssar: the virtual device, which is slow, computes these CPU tensors: {why}. "
        "LSSAR_DEVICE=virtual asks for it, and LSSAR_DEVICE=cpu makes this an error. This warning "
        "comes once, although other problems may go there, too",
        RuntimeWarning,
        stacklevel=2,
    )


def _forget_after_fork():
    """The child of a fork has none of the threads of the cpu and virtual devices, and no usable
    driver: it opens what it needs anew. What the parent opened is left alone."""
    global _lock
    _lock = threading.Lock()
    _contexts.clear()
    _kinds.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
