"""liblssar.so through ctypes: include/lssar/lssar.h in Python, as far as a comparison needs it.

Pointers are plain integers (torch's data_ptr()); the caller keeps the memory alive until the work
is done. Every failure raises LssarError with the library's own line.
"""

import ctypes
import os
import pathlib
import re

DEVICE_CUDA = 1
DEVICE_VIRTUAL = 2
DTYPES = {"fp16": 0, "bf16": 1, "fp32": 2}
PASS_FORWARD = 1
PASS_FORWARD_TRAIN = 2
PASS_BACKWARD = 4
LOG_DEBUG = 3
STATUS_MISSING = 3
STATUS_OUT_OF_MEMORY = 8
ABI_VERSION = 1  # of the header that the structs below mirror


class ContextOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("device_ordinal", ctypes.c_int32),
        ("compiler", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("target", ctypes.c_char_p),
        ("cache_directory", ctypes.c_char_p),
        ("cache_max_bytes", ctypes.c_uint64),
        ("tuning_table", ctypes.c_char_p),
    ]


class ContextInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("num_sms", ctypes.c_int32),
        ("device_name", ctypes.c_char_p),
        ("driver", ctypes.c_char_p),
        ("target", ctypes.c_char_p),
        ("cache_directory", ctypes.c_char_p),
        ("cache_problem", ctypes.c_char_p),
        ("cache_memory_hits", ctypes.c_uint64),
        ("cache_disk_hits", ctypes.c_uint64),
        ("cache_misses", ctypes.c_uint64),
    ]


class Problem(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("passes", ctypes.c_uint32),
        ("dtype", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("head_dim_v", ctypes.c_int32),
        ("seq_q", ctypes.c_int64),
        ("seq_k", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("causal", ctypes.c_int32),
        ("p", ctypes.c_int32),
        ("offset", ctypes.c_double),
        ("alignment", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("schedule_json", ctypes.c_char_p),
        ("tuning", ctypes.c_int32),
        ("determinism", ctypes.c_int32),
        ("tune", ctypes.c_void_p),
    ]


class Sizes(ctypes.Structure):
    _fields_ = [
        ("batch", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("seq_q", ctypes.c_int64),
        ("seq_k", ctypes.c_int64),
    ]


class SavedSizes(ctypes.Structure):
    _fields_ = [
        ("o", ctypes.c_size_t),
        ("stats", ctypes.c_size_t),
        ("x", ctypes.c_size_t),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("strides", ctypes.c_int64 * 3)]


class Range(ctypes.Structure):
    _fields_ = [
        ("first_key", ctypes.c_int64),
        ("num_keys", ctypes.c_int64),
        ("first_query", ctypes.c_int64),
        ("num_queries", ctypes.c_int64),
    ]


class Call(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("sizes", Sizes),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("o", Tensor),
        ("grad_o", Tensor),
        ("grad_q", Tensor),
        ("grad_k", Tensor),
        ("grad_v", Tensor),
        ("saved_o", ctypes.c_void_p),
        ("saved_stats", ctypes.c_void_p),
        ("saved_x", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("range", Range),
        ("row_stats", ctypes.c_void_p),
        ("partial_o", ctypes.c_void_p),
    ]


# The structs of the header by their C names: for the test that compares layouts.
STRUCTS = {
    "lssar_context_options": ContextOptions,
    "lssar_context_info": ContextInfo,
    "lssar_problem": Problem,
    "lssar_plan_options": PlanOptions,
    "lssar_sizes": Sizes,
    "lssar_saved_sizes": SavedSizes,
    "lssar_tensor": Tensor,
    "lssar_range": Range,
    "lssar_call": Call,
}

LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

_POINTER = ctypes.c_void_p
_PROTOTYPES = {
    "lssar_abi_version": (ctypes.c_int, []),
    "lssar_build_info": (ctypes.c_char_p, []),
    "lssar_status_string": (ctypes.c_char_p, [ctypes.c_int]),
    "lssar_last_error_detail": (ctypes.c_char_p, []),
    "lssar_set_log_callback": (ctypes.c_int, [LOG_CALLBACK, _POINTER, ctypes.c_int]),
    "lssar_context_create": (ctypes.c_int, [_POINTER, _POINTER]),
    "lssar_context_destroy": (None, [_POINTER]),
    "lssar_context_get_info": (ctypes.c_int, [_POINTER, _POINTER]),
    "lssar_plan_create": (ctypes.c_int, [_POINTER, _POINTER, _POINTER, _POINTER]),
    "lssar_plan_destroy": (None, [_POINTER]),
    "lssar_plan_prepare": (ctypes.c_int, [_POINTER]),
    "lssar_plan_workspace_size": (ctypes.c_int, [_POINTER, _POINTER, _POINTER]),
    "lssar_plan_saved_sizes": (ctypes.c_int, [_POINTER, _POINTER, _POINTER]),
    "lssar_execute_forward": (ctypes.c_int, [_POINTER, _POINTER]),
    "lssar_execute_forward_train": (ctypes.c_int, [_POINTER, _POINTER]),
    "lssar_execute_backward": (ctypes.c_int, [_POINTER, _POINTER]),
}


class LssarError(Exception):
    """A call that failed: `status` is the lssar_status, or None where there is no library."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


def library_candidates(tools_folder):
    """Where liblssar.so may lie, best first: in a bundle, in a build, where the loader looks."""
    root = pathlib.Path(tools_folder).parent
    folders = [root / "lib"] + [root / "build" / name / "lib" for name in ("release", "portable")]
    return [str(folder / "liblssar.so") for folder in folders] + ["liblssar.so.1"]


def sized(struct_class, **fields):
    struct = struct_class(**fields)
    struct.struct_size = ctypes.sizeof(struct_class)
    return struct


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


class Library:
    """`path` None: the first of library_candidates that opens."""

    def __init__(self, path, tools_folder):
        self._api, self.path = self._open(path, tools_folder)
        for name, (result, arguments) in _PROTOTYPES.items():
            try:
                function = getattr(self._api, name)
            except AttributeError:
                raise LssarError(f"{self.path}: no function {name}: not lssar's library") from None
            function.restype = result
            function.argtypes = arguments
        abi = self._api.lssar_abi_version()
        if abi != ABI_VERSION:
            raise LssarError(f"{self.path}: ABI version {abi}; this script needs {ABI_VERSION}")
        self.check(self._api.lssar_set_log_callback(_on_log, None, LOG_DEBUG))

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

    def check(self, status):
        if status != 0:
            name = self._api.lssar_status_string(status).decode()
            detail = self._api.lssar_last_error_detail().decode(errors="replace")
            raise LssarError(f"{name}: {detail}", status)

    def build_info(self):
        return self._api.lssar_build_info().decode()

    def call(self, function, *arguments):
        self.check(getattr(self._api, function)(*arguments))

    def destroy(self, function, handle):
        getattr(self._api, function)(handle)


class Context:
    def __init__(self, library, device, ordinal=0, target=None, cache_directory=None):
        self.library = library
        self._handle = ctypes.c_void_p()
        options = sized(ContextOptions, device=device, device_ordinal=ordinal)
        options.target = target.encode() if target else None
        options.cache_directory = cache_directory.encode() if cache_directory else None
        library.call("lssar_context_create", ctypes.byref(options), ctypes.byref(self._handle))

    def info(self):
        info = sized(ContextInfo)
        self.library.call("lssar_context_get_info", self._handle, ctypes.byref(info))
        values = {name: getattr(info, name) for name, _ in ContextInfo._fields_[1:]}
        return {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}

    def plan(self, problem, schedule_json=None):
        """A plan that is prepared: its kernels are compiled and loaded."""
        return Plan(self.library, self._handle, problem, schedule_json)

    def close(self):
        self.library.destroy("lssar_context_destroy", self._handle)
        self._handle = ctypes.c_void_p()


class Plan:
    _EXECUTE = {
        PASS_FORWARD: "lssar_execute_forward",
        PASS_FORWARD_TRAIN: "lssar_execute_forward_train",
        PASS_BACKWARD: "lssar_execute_backward",
    }

    def __init__(self, library, context_handle, problem, schedule_json):
        self.library = library
        self._handle = ctypes.c_void_p()
        options = sized(PlanOptions)
        options.schedule_json = schedule_json.encode() if schedule_json else None
        library.call(
            "lssar_plan_create",
            context_handle,
            ctypes.byref(problem),
            ctypes.byref(options),
            ctypes.byref(self._handle),
        )
        try:
            library.call("lssar_plan_prepare", self._handle)
        except LssarError:
            self.close()
            raise

    def workspace_bytes(self, sizes):
        size = ctypes.c_size_t()
        self.library.call(
            "lssar_plan_workspace_size", self._handle, ctypes.byref(sizes), ctypes.byref(size)
        )
        return size.value

    def saved_sizes(self, sizes):
        saved = SavedSizes()
        self.library.call(
            "lssar_plan_saved_sizes", self._handle, ctypes.byref(sizes), ctypes.byref(saved)
        )
        return saved

    def execute(self, pass_bit, call):
        self.library.call(self._EXECUTE[pass_bit], self._handle, ctypes.byref(call))

    def close(self):
        self.library.destroy("lssar_plan_destroy", self._handle)
        self._handle = ctypes.c_void_p()
