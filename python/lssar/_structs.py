"""The structs of include/lssar/lssar.h for ctypes, and the functions of it that the package calls.

Used by _library and _plans, and by tools/compare. Tests compare this file with the header, whose
structs may have more fields behind those here: the library takes what is not passed as 0.
"""

import ctypes
import struct

ABI_VERSION = 1  # of the header that this file mirrors

DEVICE_CUDA = 1
DEVICE_VIRTUAL = 2
DEVICE_RECORD = 3
DEVICE_CPU = 4
DTYPE_FP16 = 0
DTYPE_BF16 = 1
DTYPE_FP32 = 2
PASS_FORWARD = 1
PASS_FORWARD_TRAIN = 2
PASS_BACKWARD = 4
# Where a schedule comes from (lssar_schedule_origin), by its value.
ORIGINS = ("given", "exact", "nearest", "architecture", "predicted", "default")
LOG_DEBUG = 3
STATUS_UNSUPPORTED = 2
STATUS_MISSING = 3


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
        ("parallel_for", ctypes.c_void_p),
        ("parallel_for_user", ctypes.c_void_p),
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
        ("score", ctypes.c_char_p),
        ("varlen", ctypes.c_int32),
        ("reserved2", ctypes.c_int32),
        ("has_window", ctypes.c_int32),
        ("reserved3", ctypes.c_int32),
        ("window_left", ctypes.c_int64),
        ("window_right", ctypes.c_int64),
        ("window_sinks", ctypes.c_int64),
        ("prefix", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("invariant", ctypes.c_int32),
        ("reserved4", ctypes.c_int32),
        ("rotary_dim", ctypes.c_int32),
        ("rotary_interleaved", ctypes.c_int32),
    ]


class PlanOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("schedule_json", ctypes.c_char_p),
        ("tuning", ctypes.c_int32),
        ("determinism", ctypes.c_int32),
        ("tune", ctypes.c_void_p),
    ]


class ScheduleInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("origin", ctypes.c_int32),
        ("unaligned_origin", ctypes.c_int32),
        ("reason", ctypes.c_char_p),
        ("schedule_json", ctypes.c_char_p),
        ("unaligned_reason", ctypes.c_char_p),
        ("unaligned_schedule_json", ctypes.c_char_p),
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


Strides = ctypes.c_int64 * 3


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("strides", Strides)]


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
        ("range", ctypes.c_int64 * 4),
        ("row_stats", ctypes.c_void_p),
        ("partial_o", ctypes.c_void_p),
        ("num_threads", ctypes.c_int64),
        ("sink", ctypes.c_void_p),
        ("grad_sink", ctypes.c_void_p),
        ("cu_seqlens_q", ctypes.c_void_p),
        ("cu_seqlens_k", ctypes.c_void_p),
        ("seqused_q", ctypes.c_void_p),
        ("seqused_k", ctypes.c_void_p),
        ("total_q", ctypes.c_int64),
        ("total_k", ctypes.c_int64),
        ("rotary_cos", ctypes.c_void_p),
        ("rotary_sin", ctypes.c_void_p),
        ("rotary_positions", ctypes.c_int64),
        ("alibi_slopes", ctypes.c_void_p),
        ("k_new", Tensor),
        ("v_new", Tensor),
        ("seq_new", ctypes.c_int64),
        ("cu_seqlens_new", ctypes.c_void_p),
        ("total_new", ctypes.c_int64),
        ("key_norms", ctypes.c_void_p),
    ]


# The structs by their C names: for the test.
STRUCTS = {
    "lssar_context_options": ContextOptions,
    "lssar_context_info": ContextInfo,
    "lssar_problem": Problem,
    "lssar_plan_options": PlanOptions,
    "lssar_schedule_info": ScheduleInfo,
    "lssar_sizes": Sizes,
    "lssar_saved_sizes": SavedSizes,
    "lssar_tensor": Tensor,
    "lssar_call": Call,
}

CALL_BYTES = ctypes.sizeof(Call)
_PACKED_AS = {ctypes.c_size_t: "Q", ctypes.c_void_p: "Q", ctypes.c_int64: "q"}


def packer(struct_class, *paths):
    """A struct.Struct that makes the bytes of a struct from the values of some of its fields, in the
    order of memory ("q.strides": of a struct in it): ints, and bytes for structs and arrays. The other
    fields are zero. Calls take it because it is faster than filling a ctypes.Structure."""
    form, at = "=", 0
    for path in paths:
        kind, offset = struct_class, 0
        for name in path.split("."):
            offset += getattr(kind, name).offset
            kind = dict(kind._fields_)[name]
        form += f"{offset - at}x" + _PACKED_AS.get(kind, f"{ctypes.sizeof(kind)}s")
        at = offset + ctypes.sizeof(kind)
    return struct.Struct(form + f"{ctypes.sizeof(struct_class) - at}x")


LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

_POINTER = ctypes.c_void_p
PROTOTYPES = {
    "lssar_version_string": (ctypes.c_char_p, []),
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
    "lssar_plan_get_schedule": (ctypes.c_int, [_POINTER, ctypes.c_int32, _POINTER]),
    "lssar_plan_workspace_size": (ctypes.c_int, [_POINTER, _POINTER, _POINTER]),
    "lssar_plan_saved_sizes": (ctypes.c_int, [_POINTER, _POINTER, _POINTER]),
    "lssar_plan_varlen_sizes": (
        ctypes.c_int,
        [_POINTER, _POINTER, ctypes.c_int64, ctypes.c_int64, _POINTER, _POINTER],
    ),
    "lssar_execute_forward": (ctypes.c_int, [_POINTER, _POINTER]),
    "lssar_execute_forward_train": (ctypes.c_int, [_POINTER, _POINTER]),
    "lssar_execute_backward": (ctypes.c_int, [_POINTER, _POINTER]),
}


def sized(struct_class, **fields):
    """A struct with its struct_size filled in."""
    filled = struct_class(**fields)
    filled.struct_size = ctypes.sizeof(struct_class)
    return filled
