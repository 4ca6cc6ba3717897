"""liblssar.so through ctypes, as far as a comparison needs it: what the Python package, python/lssar,
knows of include/lssar/lssar.h, and plans with given schedules.

Pointers are plain integers (torch's data_ptr()); the caller keeps the memory alive until the work
is done. Every failure raises LssarError with the library's own line.
"""

import ctypes
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from lssar import LssarError, _library
from lssar._structs import (  # noqa: F401
    ABI_VERSION,
    DEVICE_CPU,
    DEVICE_CUDA,
    DEVICE_VIRTUAL,
    DTYPE_BF16,
    DTYPE_FP16,
    DTYPE_FP32,
    LOG_CALLBACK,
    LOG_DEBUG,
    ORIGINS,
    PASS_BACKWARD,
    PASS_FORWARD,
    PASS_FORWARD_TRAIN,
    STATUS_MISSING,
    STATUS_UNSUPPORTED,
    Call,
    ContextInfo,
    ContextOptions,
    PlanOptions,
    Problem,
    SavedSizes,
    ScheduleInfo,
    Sizes,
    Tensor,
    sized,
)

DTYPES = {"fp16": DTYPE_FP16, "bf16": DTYPE_BF16, "fp32": DTYPE_FP32}


def library_candidates(tools_folder):
    """Where liblssar.so may lie, best first: in a bundle, in a build, where the loader looks."""
    root = pathlib.Path(tools_folder).parent
    folders = [root / "lib"] + [root / "build" / name / "lib" for name in ("release", "portable")]
    return [str(folder / "liblssar.so") for folder in folders] + [f"liblssar.so.{ABI_VERSION}"]


def tensor_argument(tensor):
    """A torch tensor [batch, heads, length, dim] whose last dimension is contiguous."""
    if tensor.stride(3) != 1:
        raise ValueError(f"the last dimension has stride {tensor.stride(3)}; it must be 1")
    return Tensor(tensor.data_ptr(), (ctypes.c_int64 * 3)(*tensor.stride()[:3]))


_opened = []  # compilers: the library opens one once per process


# A global: the library calls it for as long as the process lives.
@LOG_CALLBACK
def _on_log(level, message, user):
    found = re.match(r"compiler (\S+ \S+) from ", message.decode(errors="replace"))
    if found:
        _opened.append(found.group(1))


class Library(_library.Library):
    """`path` None: the first of library_candidates that opens."""

    def __init__(self, path, tools_folder):
        super().__init__(*self._open(path, tools_folder))
        self.check(self.set_log_callback(_on_log, None, LOG_DEBUG))

    @staticmethod
    def _open(path, tools_folder):
        candidates = [path] if path else library_candidates(tools_folder)
        tried = []
        for candidate in candidates:
            if os.sep in candidate and not os.path.exists(candidate):
                tried.append(f"{candidate}: no such file")
                continue
            try:
                return ctypes.CDLL(candidate), candidate
            except OSError as error:
                tried.append(str(error))
        raise LssarError(
            "liblssar.so was not found: build it (cmake --preset release && cmake --build --preset "
            "release --target lssar) or name it with --library. Tried:\n  " + "\n  ".join(tried)
        )

    def compiler(self):
        """ "nvrtc 13.0.88"; None before one was opened."""
        return _opened[-1] if _opened else None

    def call(self, function, *arguments):
        self.check(getattr(self, function)(*arguments))


class Context:
    def __init__(self, library, device, ordinal=0, target=None, cache_directory=None):
        self.library = library
        self._handle = ctypes.c_void_p()
        options = sized(ContextOptions, device=device, device_ordinal=ordinal)
        options.target = target.encode() if target else None
        options.cache_directory = cache_directory.encode() if cache_directory else None
        library.call("context_create", ctypes.byref(options), ctypes.byref(self._handle))

    def info(self):
        info = sized(ContextInfo)
        self.library.call("context_get_info", self._handle, ctypes.byref(info))
        values = {name: getattr(info, name) for name, _ in ContextInfo._fields_[1:]}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}

    def plan(self, problem, schedule_json=None):
        """A plan that is prepared: its kernels are compiled and loaded."""
        return Plan(self.library, self._handle, problem, schedule_json)

    def close(self):
        self.library.context_destroy(self._handle)
        self._handle = ctypes.c_void_p()


class Plan:
    _EXECUTE = {
        PASS_FORWARD: "execute_forward",
        PASS_FORWARD_TRAIN: "execute_forward_train",
        PASS_BACKWARD: "execute_backward",
    }

    def __init__(self, library, context_handle, problem, schedule_json):
        self.library = library
        self._handle = ctypes.c_void_p()
        options = sized(PlanOptions)
        options.schedule_json = schedule_json.encode() if schedule_json else None
        library.call(
            "plan_create",
            context_handle,
            ctypes.byref(problem),
            ctypes.byref(options),
            ctypes.byref(self._handle),
        )
        try:
            library.call("plan_prepare", self._handle)
        except LssarError:
            self.close()
            raise

    def workspace_bytes(self, sizes):
        size = ctypes.c_size_t()
        self.library.call(
            "plan_workspace_size", self._handle, ctypes.byref(sizes), ctypes.byref(size)
        )
        return size.value

    def saved_sizes(self, sizes):
        saved = SavedSizes()
        self.library.call(
            "plan_saved_sizes", self._handle, ctypes.byref(sizes), ctypes.byref(saved)
        )
        return saved

    def varlen_needs(self, sizes, total):
        """Bytes of the workspace, and of what is saved, of sequences with `total` rows."""
        size, saved = ctypes.c_size_t(), SavedSizes()
        self.library.call(
            "plan_varlen_sizes",
            self._handle,
            ctypes.byref(sizes),
            total,
            total,
            ctypes.byref(size),
            ctypes.byref(saved),
        )
        return size.value, saved

    def schedule(self, pass_bit):
        """Which schedule runs, where it comes from, and why that one: plain values, for JSON."""
        info = sized(ScheduleInfo)
        self.library.call("plan_get_schedule", self._handle, pass_bit, ctypes.byref(info))
        return {
            "origin": ORIGINS[info.origin],
            "reason": info.reason.decode(),
            "schedule": json.loads(info.schedule_json),
        }

    def execute(self, pass_bit, call):
        self.library.call(self._EXECUTE[pass_bit], self._handle, ctypes.byref(call))

    def close(self):
        self.library.plan_destroy(self._handle)
        self._handle = ctypes.c_void_p()
