"""What arguments lssar.attention and the operators torch.ops.lssar take: one set of rules.

Used by _attention and _op; _launch asks before it takes an address. Sizes may be symbolic. The rules
that JAX has too are in _rules.
"""

import torch

from . import _plans, _rules, _sharding

KERNEL_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
DEVICES = ("cpu", "cuda", "meta")

try:
    from torch.fx.experimental.symbolic_shapes import guard_or_false as _is_surely
except ImportError:  # before torch 2.7
    _is_surely = bool


def _refuse(condition, message):
    """A symbolic condition that cannot be decided while a graph is traced is decided by the kernels'
    own check, when the graph runs."""
    _rules.refuse(condition, message, _is_surely)


def check_is_tensor(name, x):
    """That an argument which may be left out is a tensor, or None."""
    if x is not None and not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: {type(x).__name__}; must be a torch.Tensor, or None")


def check_device(q):
    if q.device.type not in DEVICES:
        raise ValueError(f"q: on device '{q.device}'; must be on a CUDA device or the CPU")


def check_like_q(name, x, q):
    if x.dtype != q.dtype:
        raise TypeError(f"{name}: dtype {x.dtype}; must be that of q, {q.dtype}")
    _check_place(name, x, q, "[batch, heads, length, dim]")


def _check_place(name, x, q, dims):
    if x.device != q.device:
        raise ValueError(f"{name}: on device '{x.device}'; must be on that of q, '{q.device}'")
    if x.layout != torch.strided:
        raise TypeError(f"{name}: layout {x.layout}; must be torch.strided")
    if x.is_nested:
        raise TypeError(f"{name}: a nested tensor; must be one of {dims}")


def check_tensors(q, k, v, dtypes=KERNEL_DTYPES, names=_rules.NAMES):
    check_device(q)
    if q.dtype not in dtypes:
        allowed = ", ".join(str(x) for x in dtypes)
        raise TypeError(f"q: dtype {q.dtype}; must be one of {allowed}")
    for name, x in zip(names, (q, k, v)):
        check_like_q(name, x, q)
        _rules.check_rank(name, x.shape)
    _rules.check_shapes(q.shape, k.shape, v.shape, _is_surely, names)


def whole_o(o, q, shape):
    """The o of a plain call. Hooks of saved tensors may have given back something else."""
    if o.dtype != q.dtype or o.shape != shape or o.device != q.device:
        raise ValueError(
            f"o: {o.dtype} {tuple(o.shape)} on device '{o.device}'; must be {q.dtype} {tuple(shape)} on "
            f"'{q.device}', which the forward gave: a hook of saved tensors changed it"
        )


def whole_saved(saved, q, size):
    """What a plain call saved. Hooks of saved tensors may have given back something else."""
    if saved.dtype != torch.int32 or saved.shape != (size,) or saved.device != q.device:
        raise ValueError(
            f"saved: {saved.dtype} {tuple(saved.shape)} on device '{saved.device}'; must be torch.int32 "
            f"{(size,)} on '{q.device}', which the forward saved: a hook of saved tensors changed it"
        )
    return saved


def sink_dtype(dtype):
    """That of a sink beside q of `dtype`."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_sink(sink, q, score, p, offset, slopes=None):
    """The sink of a call, or None, and the slopes of ALiBi. The score function is checked too."""
    if sink is None and slopes is None and not score:
        return
    wanted = sink_dtype(q.dtype)
    check_is_tensor("sink", sink)
    if sink is not None:
        _check_place("sink", sink, q, "[heads]")  # first, because nested tensors have no shape
    heads = q.shape[1]
    shape = None if sink is None else sink.shape
    _rules.check_is_due("sink", "sink", shape, _plans.has_sink(score, p, offset), heads, wanted)
    _check_slopes(slopes, q, heads, score)
    if sink is None:
        return
    if sink.dtype != wanted:
        raise TypeError(f"sink: dtype {sink.dtype}; must be {wanted}")
    _rules.check_per_head("sink", shape, heads, _is_surely)
    if _sharding.is_distributed(q) != _sharding.is_distributed(sink):
        kinds = ["a plain tensor", "a DTensor"]
        if _sharding.is_distributed(sink):
            kinds.reverse()
        raise TypeError(f"sink: {kinds[0]}; must be {kinds[1]}, as q is")


def _check_slopes(slopes, q, heads, score):
    wanted = sink_dtype(q.dtype)
    check_is_tensor("alibi_slopes", slopes)
    if slopes is not None:
        _check_place("alibi_slopes", slopes, q, "[heads]")
    shape = None if slopes is None else slopes.shape
    _rules.check_is_due("alibi_slopes", "alibi", shape, _plans.has_alibi(score), heads, wanted)
    if slopes is None:
        return
    if slopes.dtype != wanted:
        raise TypeError(f"alibi_slopes: dtype {slopes.dtype}; must be {wanted}")
    _rules.check_per_head("alibi_slopes", shape, heads)
    if slopes.requires_grad:
        raise ValueError("alibi_slopes: requires_grad is True; must be False: they have no gradient")


def check_operator(q, k, v, causal, p, offset, layout, score="", sink=None):
    """The arguments of torch.ops.lssar.*, which any code may call."""
    _rules.check_scalars(causal, p, offset)
    _rules.check_text("score", score)
    if not 0 <= layout < 8:
        raise ValueError(f"layout: {layout}; must be from 0 to 7: a bit each for q, k and v")
    check_tensors(q, k, v)
    check_sink(sink, q, score, p, offset)


def check_backward(grad_o, q, k, v, o, saved, saved_shapes, saved_dtypes):
    """What the backward takes beyond the forward's arguments. `saved_shapes` and `saved_dtypes` as
    `saved`: of forward_train's results behind o."""
    check_like_q("grad_o", grad_o, q)
    check_like_q("o", o, q)
    names = ("grad_o", "o", "saved_o", "saved_stats", "saved_x")
    shape_of_o = (*q.shape[:3], v.shape[3])
    wanted = (shape_of_o, shape_of_o, *saved_shapes)
    for name, x, shape in zip(names, (grad_o, o, *saved), wanted):
        _refuse(
            x.dim() != len(shape) or any(_is_surely(a != b) for a, b in zip(x.shape, shape)),
            lambda: f"{name}: shape {tuple(x.shape)}; must be {tuple(shape)}",  # noqa: B023
        )
    for name, x, dtype in zip(names[2:], saved, saved_dtypes):
        if x.dtype != dtype:
            raise TypeError(f"{name}: dtype {x.dtype}; must be {dtype}")
        if x.device != q.device:
            raise ValueError(f"{name}: on device '{x.device}'; must be on that of q, '{q.device}'")
