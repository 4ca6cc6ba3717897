"""One pass of attention over torch tensors: allocates results and workspace, enqueues the kernels.

Used by _op and _attention. All memory is torch's. On CUDA everything is allocated on, and the
kernels run on, the current stream of the tensors' device, so that the caching allocator may reuse
the workspace as soon as the function returns: whatever gets its memory next on this stream runs
after our kernels. Nothing here waits for the device. On the CPU the functions return when the work
is done.

What calls of the same shapes, strides and options have in common is worked out once, and kept: a
Signature. That is what keeps a call in the microseconds; the rest of it is torch's allocations.

`layout` says how results are laid out, bit 0: o and grad_q, bit 1: grad_k, bit 2: grad_v; 0 is
[batch, heads, length, dim], 1 [batch, length, heads, dim] seen as the former.

What the forward hands to the backward is o, and the three saved tensors of lssar.h. These are three
tensors where operators are called, each with batch and heads among its dimensions, so that it can be
sharded and batched. Plain calls allocate one int32 tensor, `saved`, with the bits of the three behind
one another: hooks of saved tensors that round floats leave it alone.
"""

import math
import os

import torch

from . import _check, _plans, _structs
from ._library import library

Q_BIT, K_BIT, V_BIT = 1, 2, 4
DTYPES = {
    torch.float16: _structs.DTYPE_FP16,
    torch.bfloat16: _structs.DTYPE_BF16,
    torch.float32: _structs.DTYPE_FP32,
}
_FAST_ALIGNMENT = 16
_MAX_KEPT = 1024  # signatures, a few KiB each: a bound for programs whose lengths never repeat
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_stream(device_type, ordinal):
    if device_type != "cuda":
        return 0
    if _raw_stream is not None:
        return _raw_stream(ordinal)
    return torch.cuda.current_stream(ordinal).cuda_stream


def layout_of(q, k, v):
    """A bit for each that is a view of [batch, length, heads, dim]."""
    return (
        Q_BIT * (q.stride(1) < q.stride(2))
        + K_BIT * (k.stride(1) < k.stride(2))
        + V_BIT * (v.stride(1) < v.stride(2))
    )


def new_tensor(like, batch, heads, length, dim, is_heads_last):
    if is_heads_last:
        return like.new_empty((batch, length, heads, dim)).transpose(1, 2)
    return like.new_empty((batch, heads, length, dim))


def saved_shapes(q, v, p, offset):
    """The shapes of saved_o, saved_stats and saved_x."""
    rows = tuple(q.shape[:3])
    dim_o = 0 if q.dtype == torch.float32 else v.shape[3]
    dim_x = v.shape[3] if _plans.saves_x(p, offset) else 0
    return (*rows, dim_o), (4, *rows), (*rows, dim_x)


def saved_dtypes(dtype):
    """Those of saved_o, saved_stats and saved_x beside q of `dtype`."""
    return torch.bfloat16, torch.float32, dtype


def split_saved(saved, q, v, p, offset):
    """Views of a plain call's `saved` as an operator's three."""
    shapes = saved_shapes(q, v, p, offset)
    dtypes = saved_dtypes(q.dtype)
    words = [math.prod(s) * d.itemsize // 4 for s, d in zip(shapes, dtypes)]
    parts = _check.whole_saved(saved, q, sum(words)).split(words)
    return tuple(x.view(d).view(s) for x, d, s in zip(parts, dtypes, shapes))


def _rows_contiguous(tensor):
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _packed(strides):
    return bytes(_structs.Strides(*strides[:3]))


def _stride_bits(shape, strides, element_size):
    """The lowest bits of the strides in bytes; strides of sizes of 1 are not looked at."""
    bits = 0
    for size, stride in zip(shape[:3], strides[:3]):
        if size > 1:
            bits |= stride * element_size
    return bits


class _Result:
    """Shape and strides of a tensor that is written, as torch and as the library take them."""

    __slots__ = ("shape", "strides", "packed")

    def __init__(self, batch, heads, length, dim, is_heads_last):
        self.shape = (batch, heads, length, dim)
        # As new_tensor's, whose strides count sizes of 0 as 1.
        rows, columns = max(length, 1), max(heads, 1)
        head, row = (dim, columns * dim) if is_heads_last else (rows * dim, dim)
        self.strides = (rows * columns * dim, head, row, 1)
        self.packed = _packed(self.strides)

    def new(self, like):
        return like.new_empty_strided(self.shape, self.strides)


def prepare(plan, device_type):
    """Gets the plan's kernels, unless that would be within the capture of a CUDA graph."""
    is_capturing = device_type == "cuda" and torch.cuda.is_current_stream_capturing()
    if not plan.prepared and is_capturing:
        raise RuntimeError(
            "lssar.attention: this problem has no kernels yet, and they cannot be loaded while "
            "a CUDA graph is captured: call it once, forward and backward, before the capture"
        )
    plan.prepare()


class _Pass:
    """The plan of a signature's pass, prepared, and the memory it needs."""

    __slots__ = ("handle", "execute", "saved", "workspace", "workspace_size")

    def __init__(self, signature, name, alignment):
        plan = signature.plan(name != "forward", alignment)
        prepare(plan, signature.device_type)
        self.handle = plan.handle
        self.execute = getattr(library(), f"execute_{name}")
        *self.saved, self.workspace = plan.needs(signature.sizes)
        self.workspace_size = -(-self.workspace // signature.element_size)


class Signature:
    """What calls with the same shapes, strides, dtype, device and options have in common."""

    def __init__(self, q, k, v, causal, p, offset, layout, score):
        batch, heads, seq_q, dim = q.shape
        kv_heads, seq_k, dim_v = v.shape[1:]
        self.device = q.device
        self.device_type = q.device.type
        self.ordinal = q.device.index or 0
        self.dtype = q.dtype
        self.element_size = q.element_size()
        self.scalars = (causal, p, offset, layout, score)
        per_row = _plans.saved_words_per_row(q.dtype == torch.float32, dim_v, p, offset)
        self.saved_size = batch * heads * seq_q * per_row
        self.saved_shapes = saved_shapes(q, v, p, offset)
        self.sizes = (batch, heads, kv_heads, seq_q, seq_k)
        self.packed_sizes = bytes(_structs.Sizes(*self.sizes))
        self.bits = 0
        for x in (q, k, v):
            self.bits |= _stride_bits(x.shape, x.stride(), self.element_size)
        self.q, self.k, self.v = (_packed(x.stride()) for x in (q, k, v))
        self.o = _Result(batch, heads, seq_q, dim_v, layout & Q_BIT)
        self.grad_q = _Result(batch, heads, seq_q, dim, layout & Q_BIT)
        self.grad_k = _Result(batch, kv_heads, seq_k, dim, layout & K_BIT)
        self.grad_v = _Result(batch, kv_heads, seq_k, dim_v, layout & V_BIT)
        self._problem = (DTYPES[q.dtype], dim, dim_v, heads, kv_heads, causal, p, offset, score)
        self._passes = {}  # by pass, and whether every pointer and stride is aligned

    def plan(self, training, alignment):
        few = 0 if training else _plans.few_queries(*self.sizes[3:])
        key = (training, *self._problem, alignment)
        return _plans.plan(self.device_type, self.ordinal, key, few)

    def stream(self):
        return current_stream(self.device_type, self.ordinal)

    def find_pass(self, name, bits):
        """`bits`: of the pointers and of strides that are not the signature's."""
        # Results are torch's allocations with rows of 8 elements or more: aligned.
        is_aligned = (bits | self.bits) % _FAST_ALIGNMENT == 0
        found = self._passes.get((name, is_aligned))
        if found is None:
            # A plan for 0 has kernels for every alignment.
            found = _Pass(self, name, _FAST_ALIGNMENT if is_aligned else 0)
            self._passes[name, is_aligned] = found
        return found


_signatures = {}
os.register_at_fork(after_in_child=_signatures.clear)  # as _plans' contexts


def _key(q, k, v, causal, p, offset, layout, score, sink):
    """Every property of the arguments that a check or a call depends on, but for the addresses."""
    return (
        q.shape,
        q.stride(),
        k.shape,
        k.stride(),
        v.shape,
        v.stride(),
        q.dtype,
        k.dtype,
        v.dtype,
        q.device,
        k.device,
        v.device,
        causal,
        p,
        offset,
        layout,
        score,
        sink if sink is None else (sink.shape, sink.stride(), sink.dtype, sink.device),
        # 1 == True == 1.0
        causal.__class__,
        p.__class__,
        offset.__class__,
    )


def known_signature(q, k, v, causal, p, offset, score="", sink=None):
    """The signature of arguments that were right once; None for any others. Takes torch.Tensors."""
    try:
        return _signatures.get(_key(q, k, v, causal, p, offset, None, score, sink))
    except (RuntimeError, TypeError):  # tensors without strides, scalars without a hash
        return None


def signature_of(q, k, v, causal, p, offset, score="", sink=None):
    """The signature of arguments that are right, their rows contiguous; with the layout they have."""
    key = _key(q, k, v, causal, p, offset, None, score, sink)
    found = _signatures.get(key)
    if found is None:
        found, *_ = _with_signature(
            q, k, v, causal, p, float(offset), layout_of(q, k, v), score, sink
        )
        _signatures[key] = found
    return found


def _with_signature(q, k, v, *scalars_and_sink):
    """The signature of q, k, v, causal, p, offset, layout, score, sink; and q, k, v, sink with
    contiguous rows."""
    *scalars, sink = scalars_and_sink
    found = _signatures.get(_key(q, k, v, *scalars, sink))
    if found is None:
        _check.check_operator(q, k, v, *scalars, sink)
        q, k, v = _rows_contiguous(q), _rows_contiguous(k), _rows_contiguous(v)
        sink = None if sink is None else sink.contiguous()
        found = Signature(q, k, v, *scalars)
        if len(_signatures) >= _MAX_KEPT:
            _signatures.clear()
        _signatures[_key(q, k, v, *scalars, sink)] = found
    return found, q, k, v, sink


def _tensors(*names):
    return [path for name in names for path in (f"{name}.data", f"{name}.strides")]


_SAVED_AND_MORE = (
    *("saved_o", "saved_stats", "saved_x", "workspace", "workspace_bytes", "stream"),
    *("num_threads", "sink"),
)
_HEAD = ("struct_size", "sizes")
_FORWARD = _structs.packer(_structs.Call, *_HEAD, *_tensors("q", "k", "v", "o"), *_SAVED_AND_MORE)
_BACKWARD = _structs.packer(
    _structs.Call,
    *_HEAD,
    *_tensors("q", "k", "v", "o", "grad_o", "grad_q", "grad_k", "grad_v"),
    *_SAVED_AND_MORE,
    "grad_sink",
)


def _run_forward(signature, name, q, k, v, sink, allocate_saved=None):
    at_q, at_k, at_v = q.data_ptr(), k.data_ptr(), v.data_ptr()
    step = signature.find_pass(name, at_q | at_k | at_v)
    o = signature.o.new(q)
    saved = None
    saved_o = stats = x = at_workspace = 0
    if allocate_saved is not None:
        saved, saved_o, stats, x = allocate_saved(signature, q, step)
    if step.workspace:
        workspace = q.new_empty(step.workspace_size)
        at_workspace = workspace.data_ptr()
    call = _FORWARD.pack(
        _structs.CALL_BYTES,
        signature.packed_sizes,
        at_q,
        signature.q,
        at_k,
        signature.k,
        at_v,
        signature.v,
        o.data_ptr(),
        signature.o.packed,
        saved_o,
        stats,
        x,
        at_workspace,
        step.workspace,
        signature.stream(),
        torch.get_num_threads(),
        0 if sink is None else sink.data_ptr(),
    )
    status = step.execute(step.handle, call)
    if status:
        library().check(status)
    return o, saved


def run_forward(signature, q, k, v, sink=None):
    """o."""
    return _run_forward(signature, "forward", q, k, v, sink)[0]


def _one_saved(signature, q, step):
    saved = q.new_empty(signature.saved_size, dtype=torch.int32)
    at = saved.data_ptr()
    stats = at + step.saved[0]
    return saved, at, stats, stats + step.saved[1]


def _three_saved(signature, q, step):
    parts = zip(signature.saved_shapes, saved_dtypes(signature.dtype))
    saved = [q.new_empty(shape, dtype=dtype) for shape, dtype in parts]
    return saved, *(x.data_ptr() for x in saved)


def run_forward_train(signature, q, k, v, sink=None):
    """o, saved."""
    return _run_forward(signature, "forward_train", q, k, v, sink, _one_saved)


def forward(q, k, v, causal, p, offset, layout, score="", sink=None):
    """o."""
    return run_forward(*_with_signature(q, k, v, causal, p, offset, layout, score, sink))


def forward_train(q, k, v, causal, p, offset, layout, score="", sink=None):
    """o, saved_o, saved_stats, saved_x."""
    found = _with_signature(q, k, v, causal, p, offset, layout, score, sink)
    o, saved = _run_forward(found[0], "forward_train", *found[1:], _three_saved)
    return o, *saved


def _aligned(saved):
    saved = saved.contiguous()
    if saved.data_ptr() % _FAST_ALIGNMENT == 0:
        return saved
    return saved.clone(memory_format=torch.contiguous_format)


def backward(
    grad_o, q, k, v, o, saved_o, saved_stats, saved_x, causal, p, offset, layout, score=""
):
    """grad_q, grad_k, grad_v."""
    saved = (saved_o, saved_stats, saved_x)
    return _backward(grad_o, q, k, v, o, saved, causal, p, offset, layout, score, None)


def backward_with_sink(
    grad_o, q, k, v, o, saved_o, saved_stats, saved_x, causal, p, offset, layout, score, sink
):
    """grad_q, grad_k, grad_v, grad_sink."""
    saved = (saved_o, saved_stats, saved_x)
    return _backward(grad_o, q, k, v, o, saved, causal, p, offset, layout, score, sink)


def _backward(grad_o, q, k, v, o, saved, *scalars_and_sink):
    signature, q, k, v, sink = _with_signature(q, k, v, *scalars_and_sink)
    dtypes = saved_dtypes(q.dtype)
    _check.check_backward(grad_o, q, k, v, o, saved, signature.saved_shapes, dtypes)
    saved = [_aligned(x) for x in saved]
    return _run_backward(signature, grad_o, q, k, v, o, sink, *(x.data_ptr() for x in saved))


def run_backward(grad_o, q, k, v, o, saved, causal, p, offset, layout, score="", sink=None):
    """As backward, or with a sink as backward_with_sink, of what a plain call saved."""
    signature, q, k, v, sink = _with_signature(q, k, v, causal, p, offset, layout, score, sink)
    _check.whole_o(o, q, signature.o.shape)
    saved = _aligned(_check.whole_saved(saved, q, signature.saved_size))
    return _run_backward(signature, grad_o, q, k, v, o, sink, saved.data_ptr())


def _like_o(signature, name, x, q):
    """x, of o's shape, with contiguous rows; its strides as the library takes them; their bits, none
    where they are those of o as the forward laid it out."""
    if x.layout is torch.strided and x.stride() == signature.o.strides:
        return x, signature.o.packed, 0
    _check.check_like_q(name, x, q)
    x = _rows_contiguous(x)
    return x, _packed(x.stride()), _stride_bits(x.shape, x.stride(), signature.element_size)


def _run_backward(signature, grad_o, q, k, v, o, sink, saved_o, stats=None, x=None):
    """The addresses of what was saved; without the last two, one behind the other."""
    grad_o, strides_of_grad, bits_of_grad = _like_o(signature, "grad_o", grad_o, q)
    o, strides_of_o, bits_of_o = _like_o(signature, "o", o, q)
    at_q, at_k, at_v = q.data_ptr(), k.data_ptr(), v.data_ptr()
    at_o, at_grad_o = o.data_ptr(), grad_o.data_ptr()
    bits = at_q | at_k | at_v | at_o | at_grad_o | bits_of_o | bits_of_grad
    step = signature.find_pass("backward", bits)
    grad_q = signature.grad_q.new(q)
    grad_k = signature.grad_k.new(k)
    grad_v = signature.grad_v.new(v)
    at_workspace = 0
    if step.workspace:
        workspace = q.new_empty(step.workspace_size)
        at_workspace = workspace.data_ptr()
    if stats is None:
        stats = saved_o + step.saved[0]
        x = stats + step.saved[1]
    at_sink = at_grad_sink = 0
    grads = (grad_q, grad_k, grad_v)
    if sink is not None:
        grad_sink = sink.new_empty(sink.shape)
        at_sink, at_grad_sink = sink.data_ptr(), grad_sink.data_ptr()
        grads = (*grads, grad_sink)
    call = _BACKWARD.pack(
        _structs.CALL_BYTES,
        signature.packed_sizes,
        at_q,
        signature.q,
        at_k,
        signature.k,
        at_v,
        signature.v,
        at_o,
        strides_of_o,
        at_grad_o,
        strides_of_grad,
        grad_q.data_ptr(),
        signature.grad_q.packed,
        grad_k.data_ptr(),
        signature.grad_k.packed,
        grad_v.data_ptr(),
        signature.grad_v.packed,
        saved_o,
        stats,
        x,
        at_workspace,
        step.workspace,
        signature.stream(),
        torch.get_num_threads(),
        at_sink,
        at_grad_sink,
    )
    status = step.execute(step.handle, call)
    if status:
        library().check(status)
    return grads
