"""Contexts (one per device) and plans (one per problem) of liblssar.so, kept for the process.

Used by _launch. Any thread may call anything here. Nothing is destroyed: at exit the driver may be
gone before Python's objects are.
"""

import ctypes
import os
import threading

import torch

from . import _structs
from ._library import library

DTYPES = {
    torch.float16: _structs.DTYPE_FP16,
    torch.bfloat16: _structs.DTYPE_BF16,
    torch.float32: _structs.DTYPE_FP32,
}
MAX_SIZES_KEPT = 4096  # per plan: a bound for programs whose lengths never repeat


class Plan:
    """Kernels for one problem and any sizes. `needs` says what memory a call takes."""

    def __init__(self, context, problem):
        self._library = library()
        self._lock = threading.Lock()
        self._prepared = False
        self._needs = {}
        self.handle = ctypes.c_void_p()
        self._library.check(
            self._library.plan_create(
                context.handle, ctypes.byref(problem), None, ctypes.byref(self.handle)
            )
        )

    def prepare(self, device):
        """Compiles and loads the kernels, or waits for another thread that does."""
        if self._prepared:
            return
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "lssar.attention: this problem has no kernels yet, and they cannot be loaded while "
                "a CUDA graph is captured: call it once, forward and backward, before the capture"
            )
        with self._lock:
            if not self._prepared:
                self._library.check(self._library.plan_prepare(self.handle))
                self._prepared = True

    def needs(self, sizes):
        """Bytes of (saved_o, saved_stats, saved_x, workspace) for sizes = (batch, heads, kv_heads,
        seq_q, seq_k)."""
        needs = self._needs.get(sizes)
        if needs is None:
            c_sizes = _structs.Sizes(*sizes)
            saved = _structs.SavedSizes()
            workspace = ctypes.c_size_t()
            api = self._library
            api.check(api.plan_saved_sizes(self.handle, ctypes.byref(c_sizes), ctypes.byref(saved)))
            api.check(
                api.plan_workspace_size(self.handle, ctypes.byref(c_sizes), ctypes.byref(workspace))
            )
            needs = (saved.o, saved.stats, saved.x, workspace.value)
            if len(self._needs) >= MAX_SIZES_KEPT:
                self._needs.clear()
            self._needs[sizes] = needs
        return needs


class Context:
    def __init__(self, device, kind):
        self._library = library()
        self._lock = threading.Lock()
        self._plans = {}
        self.handle = ctypes.c_void_p()
        options = _structs.sized(
            _structs.ContextOptions, device=kind, device_ordinal=device.index or 0
        )
        self._library.check(
            self._library.context_create(ctypes.byref(options), ctypes.byref(self.handle))
        )

    def plan(self, key):
        """The plan of key = (training, dtype, head_dim, head_dim_v, heads, kv_heads, causal, p,
        offset, alignment); not prepared."""
        plan = self._plans.get(key)
        if plan is None:
            with self._lock:
                plan = self._plans.get(key)
                if plan is None:
                    plan = Plan(self, _problem(*key))
                    self._plans[key] = plan
        return plan

    def info(self):
        info = _structs.sized(_structs.ContextInfo)
        self._library.check(self._library.context_get_info(self.handle, ctypes.byref(info)))
        values = {name: getattr(info, name) for name, _ in _structs.ContextInfo._fields_[1:]}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}


def _problem(
    training, dtype, head_dim, head_dim_v, heads, kv_heads, causal, p, offset, alignment
):
    return _structs.sized(
        _structs.Problem,
        passes=_structs.PASS_FORWARD_TRAIN | _structs.PASS_BACKWARD
        if training
        else _structs.PASS_FORWARD,
        dtype=DTYPES[dtype],
        head_dim=head_dim,
        head_dim_v=head_dim_v,
        heads=heads,
        kv_heads=kv_heads,
        causal=int(causal),
        p=p,
        offset=offset,
        alignment=alignment,
    )


_contexts = {}
_lock = threading.Lock()
_KINDS = {"cpu": _structs.DEVICE_VIRTUAL, "cuda": _structs.DEVICE_CUDA}


def context(device):
    """The context of a torch.device "cpu" or "cuda:N"."""
    found = _contexts.get(device)
    if found is None:
        with _lock:
            found = _contexts.get(device)
            if found is None:
                found = Context(device, _KINDS[device.type])
                _contexts[device] = found
    return found


def _forget_after_fork():
    """The child of a fork has none of the threads of the virtual device, nor a usable driver: it
    opens what it needs anew. What the parent opened is left alone."""
    global _lock
    _lock = threading.Lock()
    _contexts.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
