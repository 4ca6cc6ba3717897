"""One pass of attention over torch tensors: allocates results and workspace, enqueues the kernels.

Used by _op. All memory is torch's. On CUDA everything is allocated on, and the kernels run on, the
current stream of the tensors' device, so that the caching allocator may reuse the workspace as soon
as the function returns: whatever gets its memory next on this stream runs after our kernels.
Nothing here waits for the device. On the CPU the functions return when the work is done.

`layout` says how results are laid out, bit 0: o and grad_q, bit 1: grad_k, bit 2: grad_v; 0 is
[batch, heads, length, dim], 1 [batch, length, heads, dim] seen as the former.

`saved`, what the forward hands to the backward, is one float32 tensor: the three saved tensors of
lssar.h behind one another.
"""

import torch

from . import _plans, _structs
from ._library import library

Q_BIT, K_BIT, V_BIT = 1, 2, 4
_FAST_ALIGNMENT = 16


def heads_last(tensor):
    """Whether [batch, heads, length, dim] is a view of [batch, length, heads, dim]."""
    return tensor.stride(1) < tensor.stride(2)


def layout_of(q, k, v):
    return Q_BIT * heads_last(q) + K_BIT * heads_last(k) + V_BIT * heads_last(v)


def new_tensor(like, batch, heads, length, dim, is_heads_last):
    if is_heads_last:
        return like.new_empty((batch, length, heads, dim)).transpose(1, 2)
    return like.new_empty((batch, heads, length, dim))


def saved_floats_per_row(training_plan):
    """Size of `saved` divided by batch * heads * seq_q."""
    return sum(training_plan.needs((1, 1, 1, 1, 1))[:3]) // 4


def rows_contiguous(tensor):
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


class _Operand:
    """What a Call needs of a tensor, and the lowest bits of its address and strides."""

    __slots__ = ("fields", "bits")

    def __init__(self, tensor):
        batch, head, row, _ = tensor.stride()
        data = tensor.data_ptr()
        self.fields = (data, batch, head, row)
        self.bits = data | (batch | head | row) * tensor.element_size()
        if self.bits % _FAST_ALIGNMENT:
            # Strides of sizes of 1 are not looked at, and may be anything.
            sizes = tensor.shape
            used = [s for s, size in zip((batch, head, row), sizes) if size > 1]
            self.bits = data
            for stride in used:
                self.bits |= stride * tensor.element_size()


def _stream(device):
    if device.type != "cuda":
        return 0
    return torch.cuda.current_stream(device).cuda_stream


def sizes_of(q, k):
    batch, heads, seq_q, _ = q.shape
    return (batch, heads, k.shape[1], seq_q, k.shape[2])


def find_plan(device, training, q, k, v, causal, p, offset, alignment):
    return _plans.context(device).plan(
        (
            training,
            q.dtype,
            q.shape[3],
            v.shape[3],
            q.shape[1],
            k.shape[1],
            causal,
            p,
            offset,
            alignment,
        )
    )


class _Pass:
    """A call in the making: q, k, v, their plan, and the memory it needs."""

    def __init__(self, training, q, k, v, others, causal, p, offset):
        self.device = q.device
        self.inputs = [_Operand(tensor) for tensor in (q, k, v, *others)]
        bits = 0
        for operand in self.inputs:
            bits |= operand.bits
        # Results are torch's allocations with rows of 8 elements or more: aligned. 0: the plan has
        # kernels for every alignment.
        alignment = 0 if bits % _FAST_ALIGNMENT else _FAST_ALIGNMENT
        self.sizes = sizes_of(q, k)
        self.plan = find_plan(
            self.device, training, q, k, v, causal, p, offset, alignment
        )
        self.plan.prepare(self.device)
        self.needs = self.plan.needs(self.sizes)

    def run(self, execute, results, saved):
        """`results`: the fields of o, grad_o, grad_q, grad_k, grad_v."""
        saved_o_bytes, stats_bytes, _, workspace_bytes = self.needs
        saved_o = stats = x = 0
        if saved is not None:
            saved_o = saved.data_ptr()
            stats = saved_o + saved_o_bytes
            x = stats + stats_bytes
        workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device=self.device)
        q, k, v = self.inputs[:3]
        call = _structs.CALL.pack(
            _structs.CALL_BYTES,
            *self.sizes,
            *q.fields,
            *k.fields,
            *v.fields,
            *(field for tensor in results for field in tensor),
            saved_o,
            stats,
            x,
            workspace.data_ptr(),
            workspace_bytes,
            _stream(self.device),
        )
        status = execute(self.plan.handle, call)
        if status:
            library().check(status)


_NONE = _structs.NO_TENSOR


def forward(q, k, v, causal, p, offset, layout):
    """o."""
    q, k, v = rows_contiguous(q), rows_contiguous(k), rows_contiguous(v)
    step = _Pass(False, q, k, v, (), causal, p, offset)
    o = new_tensor(q, *q.shape[:3], v.shape[3], layout & Q_BIT)
    results = (_Operand(o).fields, _NONE, _NONE, _NONE, _NONE)
    step.run(library().execute_forward, results, None)
    return o


def forward_train(q, k, v, causal, p, offset, layout):
    """o, saved."""
    q, k, v = rows_contiguous(q), rows_contiguous(k), rows_contiguous(v)
    step = _Pass(True, q, k, v, (), causal, p, offset)
    o = new_tensor(q, *q.shape[:3], v.shape[3], layout & Q_BIT)
    saved = torch.empty(sum(step.needs[:3]) // 4, dtype=torch.float32, device=q.device)
    results = (_Operand(o).fields, _NONE, _NONE, _NONE, _NONE)
    step.run(library().execute_forward_train, results, saved)
    return o, saved


def backward(grad_o, q, k, v, saved, causal, p, offset, layout):
    """grad_q, grad_k, grad_v."""
    q, k, v = rows_contiguous(q), rows_contiguous(k), rows_contiguous(v)
    grad_o = rows_contiguous(grad_o)
    step = _Pass(True, q, k, v, (grad_o,), causal, p, offset)
    grads = (
        new_tensor(q, *q.shape, layout & Q_BIT),
        new_tensor(k, *k.shape, layout & K_BIT),
        new_tensor(v, *v.shape, layout & V_BIT),
    )
    results = (_NONE, step.inputs[3].fields, *(_Operand(grad).fields for grad in grads))
    step.run(library().execute_backward, results, saved)
    return grads
