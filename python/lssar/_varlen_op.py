"""Calls of sequences of their own lengths, differentiable: the library's "Sequences" (lssar.h). Also
calls of one length within a window, with rotary positions, and those that are invariant.

As in _op there are two ways to the same kernels: an autograd.Function for plain calls, and operators,
for torch 2.5 and later, where something looks at operators: torch.compile, modes, torch.func.vmap.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch

from . import _check, _launch, _op, _plans, _structs
from ._library import LssarError, library


class Options(NamedTuple):
    causal: bool
    p: int
    offset: float
    score: str
    window: Sequence[int] = ()  # as _rules.window_of says
    invariant: bool = False
    rotary_interleaved: bool = False


class Lengths(NamedTuple):
    """What a call says of its sequences. A tensor is int32 on the device of q, or None."""

    batch: int
    max_q: int
    max_k: int
    cu_q: Optional[torch.Tensor]
    cu_k: Optional[torch.Tensor]
    used_q: Optional[torch.Tensor]
    used_k: Optional[torch.Tensor]
    # Tables of rotary positions, float32, for at least max_k positions.
    cos: Optional[torch.Tensor] = None
    sin: Optional[torch.Tensor] = None
    alibi_slopes: Optional[torch.Tensor] = None  # float32 [heads]

    def of_sequences(self):
        return self[3:7]

    def tables(self):
        """Rotary tables and slopes."""
        return self[7:]

    def are_given(self):
        """If not, all sequences have the lengths of the tensors."""
        return any(x is not None for x in self.of_sequences())

    def leave_rows(self, x, cu, used):
        """Whether some rows of x are in no sequence, or may be: a look at a GPU's memory waits."""
        if cu is None and used is None:
            return False
        if x.device.type != "cpu":
            return True
        return used is not None or cu is not None and not (cu[0] == 0 and cu[-1] == x.shape[0])


# ---- Calls of the library

_TENSORS = ("q", "k", "v", "o", "grad_o", "grad_q", "grad_k", "grad_v")
_CALL = _structs.packer(
    _structs.Call,
    *("struct_size", "sizes"),
    *(path for name in _TENSORS for path in (f"{name}.data", f"{name}.strides")),
    *("saved_o", "saved_stats", "saved_x", "workspace", "workspace_bytes", "stream"),
    *("num_threads", "sink", "grad_sink"),
    *("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "total_q", "total_k"),
    *("rotary_cos", "rotary_sin", "rotary_positions", "alibi_slopes"),
    *("k_new.data", "k_new.strides", "v_new.data", "v_new.strides", "seq_new"),
    "key_norms",
)


def _address(x):
    return 0 if x is None else x.data_ptr()


def _strides(x):
    """Of batch, head and row."""
    if x is None:
        return bytes(_structs.Strides(0, 0, 0))
    if x.dim() == 3:
        return bytes(_structs.Strides(0, x.stride(1), x.stride(0)))
    return bytes(_structs.Strides(x.stride(0), x.stride(2), x.stride(1)))


def _alignment(tensors):
    """16 if all pointers and strides are multiples of 16 bytes; else 0, for any alignment."""
    bits = 0
    for x in tensors:
        bits |= x.data_ptr()
        for stride in x.stride()[:-1]:
            bits |= stride * x.element_size()
    return 16 if bits % 16 == 0 else 0


def _rows(x):
    """Rows of all sequences together."""
    return x.shape[0] if x.dim() == 3 else x.shape[0] * x.shape[1]


def _problem(q, k, v, options):
    heads, kv_heads = q.shape[-2], k.shape[-2]
    dims = (q.shape[-1], v.shape[-1], heads, kv_heads)
    return (_launch.DTYPES[q.dtype], *dims, options.causal, options.p, options.offset, options.score)


def _keys_in_use(plan, k, used):
    """What the workspace must have room for. On the cpu device lengths can be looked at, and then the
    room of a cache that holds less needs none. Wrong lengths are found by the call."""
    if not plan.is_for_cpu_device or used is None:
        return _rows(k)
    return min(int(used.clamp(min=0).sum()), _rows(k))


def _run(name, q, k, v, lengths, options, sink, saved=None, key_norms=None, **more):
    """Runs one pass and returns what it saved, or `saved`.

    `saved`: for the backward, what the forward for training saved; else None.
    """
    alignment = _alignment((q, k, v, *more.values()))
    varlen, window = lengths.are_given(), tuple(options.window)
    key = (name != "forward", *_problem(q, k, v, options), alignment, varlen, window)
    key += (options.invariant,)
    if lengths.cos is not None:
        key += (2 * lengths.cos.shape[1], options.rotary_interleaved)
    few = 0
    if name == "forward" and not options.invariant:
        few = _plans.few_queries(lengths.max_q, lengths.max_k)
    plan = _plans.plan(q.device.type, q.device.index or 0, key, few)
    _launch.prepare(plan, q.device.type)
    sizes = (lengths.batch, q.shape[-2], k.shape[-2], lengths.max_q, lengths.max_k)
    totals = (_rows(q), _rows(k)) if varlen else (0, 0)
    if varlen:
        needs = plan.varlen_needs(sizes, _rows(q), _keys_in_use(plan, k, lengths.used_k))
    else:
        needs = plan.needs(sizes)
    bytes_o, bytes_stats, bytes_x, workspace_bytes = needs
    if saved is None and name == "forward_train":
        saved = q.new_empty(_saved_size(q, v, options), dtype=torch.int32)
    at = _address(saved)
    workspace = q.new_empty(workspace_bytes, dtype=torch.uint8)
    tensors = {"q": q, "k": k, "v": v, **more}
    *rotary, slopes = (
        x if x is None else plain_rows(x).contiguous() for x in lengths.tables()
    )
    parts = [f(tensors.get(n)) for n in _TENSORS for f in (_address, _strides)]
    call = _CALL.pack(
        _structs.CALL_BYTES,
        bytes(_structs.Sizes(*sizes)),
        *parts,
        *((at, at + bytes_o, at + bytes_o + bytes_stats) if at else (0, 0, 0)),
        workspace.data_ptr(),
        workspace_bytes,
        _launch.current_stream(q.device.type, q.device.index or 0),
        torch.get_num_threads(),
        _address(sink),
        _address(more.get("grad_sink")),
        *(_address(x) for x in lengths.of_sequences()),
        *totals,
        *(_address(x) for x in rotary),
        0 if lengths.cos is None else lengths.cos.shape[0],
        _address(slopes),
        *(f(more.get(name)) for name in ("k_new", "v_new") for f in (_address, _strides)),
        more["k_new"].shape[1] if "k_new" in more else 0,
        _address(key_norms),
    )
    # The other calls have no max_seqlen_*, which check_sequences names.
    check = _plans.check_sequences if lengths.cu_q is not None else library().check
    check(getattr(library(), f"execute_{name}")(plan.handle, call))
    return saved


def plain_rows(x):
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 else x.contiguous()


def _with_plain_rows(*tensors):
    return tuple(None if x is None else plain_rows(x) for x in tensors)


def _new(like, shape, has_holes):
    return like.new_zeros(shape) if has_holes else like.new_empty(shape)


def _new_gradient(x, has_holes):
    """Laid out in memory as x is."""
    return torch.zeros_like(x) if has_holes else torch.empty_like(x)


def _forward(name, q, k, v, lengths, options, sink, **new):
    """o, and what the forward for training saves. `new`: k_new and v_new, which the call writes into k
    and v, and key_norms; or nothing."""
    q, k, v, sink = _with_plain_rows(q, k, v, sink)
    holes = lengths.leave_rows(q, lengths.cu_q, lengths.used_q)
    # A GPU computes nothing if a length is bad.
    holes = holes or (q.device.type != "cpu" and lengths.are_given())
    o = _new(q, (*q.shape[:-1], v.shape[-1]), holes)
    return o, _run(name, q, k, v, lengths, options, sink, o=o, **new)


def _backward(grad_o, q, k, v, o, saved, lengths, options, sink):
    """Gradients of q, k, v, and of the sink if there is one. Hooks of saved tensors may have given
    back something else than the forward saved."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype != grad_o.dtype:
            raise TypeError(
                f"{name}: dtype {x.dtype}; must be {grad_o.dtype}, as in the forward: a hook of saved "
                "tensors changed it"
            )
    _check.whole_o(o, q, (*q.shape[:-1], v.shape[-1]))
    _check.whole_saved(saved, q, _saved_size(q, v, options))
    q, k, v, sink = _with_plain_rows(q, k, v, sink)
    holes_q = lengths.leave_rows(q, lengths.cu_q, lengths.used_q)
    holes_k = lengths.leave_rows(k, lengths.cu_k, lengths.used_k)
    grads = {
        "grad_q": _new_gradient(q, holes_q),
        "grad_k": _new_gradient(k, holes_k),
        "grad_v": _new_gradient(v, holes_k),
    }
    if sink is not None:
        grads["grad_sink"] = torch.empty_like(sink)
    o, grad_o = _with_plain_rows(o, grad_o)
    _run("backward", q, k, v, lengths, options, sink, saved, o=o, grad_o=grad_o, **grads)
    return tuple(grads.values())


# ---- Autograd


class _Varlen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, sink, lengths, options):
        o, saved = _forward("forward_train", q, k, v, lengths, options, sink)
        ctx.save_for_backward(q, k, v, o, saved, sink, *lengths[3:])
        ctx.sizes, ctx.options = lengths[:3], options
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_o):
        q, k, v, o, saved, sink, *tensors = ctx.saved_tensors
        lengths = Lengths(*ctx.sizes, *tensors)
        is_plain = _op.is_plain_tensor(grad_o) and _op.is_plain_tensor(o)
        if is_plain and _op.is_plain_call(q, k, v, sink):
            grads = _backward(grad_o, q, k, v, o, saved, lengths, ctx.options, sink)
        else:  # grads of a batch, tensors without memory, modes
            _op.need_operators("the backward")
            tensors = (*lengths.of_sequences(), *lengths[:3])
            tables = lengths.tables()
            grads = _backward_operator(
                grad_o, q, k, v, o, saved, sink, *tensors, *ctx.options, *tables
            )
        return (*grads[:3], grads[3] if sink is not None else None, None, None)


def _saved_size(q, v, options):
    """Numbers of 4 bytes. There is room for X, whatever the schedule saves: traces ask without one."""
    is_float32 = q.dtype == torch.float32
    per_row = _plans.saved_words_per_row(is_float32, v.shape[-1], options.p, options.offset)
    return _rows(q) * q.shape[-2] * per_row


def _define_operators():
    """lssar::varlen_forward_train and lssar::varlen_backward, with shapes and autograd."""
    Tensors = Tuple[torch.Tensor, torch.Tensor]
    Grads = Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
    Maybe = Optional[torch.Tensor]

    @torch.library.custom_op("lssar::varlen_forward_train", mutates_args=())
    def forward_train(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sink: Maybe, cu_q: Maybe, cu_k: Maybe,
        used_q: Maybe, used_k: Maybe, batch: int, max_q: int, max_k: int, causal: bool, p: int,
        offset: float, score: str, window: List[int], invariant: bool = False,
        rotary_interleaved: bool = False, cos: Maybe = None, sin: Maybe = None,
        alibi_slopes: Maybe = None,
    ) -> Tensors:  # fmt: skip
        tensors = (cu_q, cu_k, used_q, used_k, cos, sin, alibi_slopes)
        lengths = Lengths(batch, max_q, max_k, *tensors)
        options = Options(causal, p, offset, score, window, invariant, rotary_interleaved)
        return _forward("forward_train", q, k, v, lengths, options, sink)

    @forward_train.register_fake
    def _(q, k, v, sink, cu_q, cu_k, used_q, used_k, batch, max_q, max_k, *options):
        options = Options(*options[: len(Options._fields)])
        saved = q.new_empty(_saved_size(q, v, options), dtype=torch.int32)
        return q.new_empty((*q.shape[:-1], v.shape[-1])), saved

    @torch.library.custom_op("lssar::varlen_backward", mutates_args=())
    def backward(
        grad_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor,
        saved: torch.Tensor, sink: Maybe, cu_q: Maybe, cu_k: Maybe, used_q: Maybe, used_k: Maybe,
        batch: int, max_q: int, max_k: int, causal: bool, p: int, offset: float, score: str,
        window: List[int], invariant: bool = False, rotary_interleaved: bool = False,
        cos: Maybe = None, sin: Maybe = None, alibi_slopes: Maybe = None,
    ) -> Grads:  # fmt: skip
        tensors = (cu_q, cu_k, used_q, used_k, cos, sin, alibi_slopes)
        lengths = Lengths(batch, max_q, max_k, *tensors)
        options = Options(causal, p, offset, score, window, invariant, rotary_interleaved)
        grads = _backward(grad_o, q, k, v, o, saved, lengths, options, sink)
        return grads if sink is not None else (*grads, q.new_empty(0))

    @backward.register_fake
    def _(grad_o, q, k, v, o, saved, sink, *others):
        grads = [torch.empty_like(plain_rows(x)) for x in (q, k, v)]
        return (*grads, q.new_empty(0) if sink is None else sink.new_empty(sink.shape))

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:3], *output, *inputs[3:8], *inputs[-3:])
        ctx.scalars = inputs[8:-3]
        ctx.mark_non_differentiable(output[1])

    def differentiate(ctx, grad_o, _):
        *tensors, sink, cu_q, cu_k, used_q, used_k, cos, sin, slopes = ctx.saved_tensors
        lengths = (cu_q, cu_k, used_q, used_k)
        grads = backward(grad_o, *tensors, sink, *lengths, *ctx.scalars, cos, sin, slopes)
        of_sink = None if sink is None else grads[3]
        return (*grads[:3], of_sink, *(None,) * (7 + len(ctx.scalars)))

    forward_train.register_autograd(differentiate, setup_context=setup_context)
    return forward_train, backward


_by_operator, _backward_operator = _define_operators() if _op.HAS_OPERATORS else (None, None)


def attend_with_caches(q, k, v, new, lengths, options, sink, key_norms):
    """Writes `new`, k and v, each [batch, new, kv_heads, dim], over the last keys of each entry of k
    and v, and their norms into key_norms, if it is not None. Attends to all, in one call. `new` may be
    empty. No gradient. REQUIRES: _op.is_plain_call of all tensors."""
    named = {name: plain_rows(x) for name, x in zip(("k_new", "v_new"), new)}
    try:
        o = _forward("forward", q, k, v, lengths, options, sink, key_norms=key_norms, **named)[0]
    except LssarError as error:
        raise LssarError(_named_as_caches(str(error)), error.status) from None
    for x in (k, v, key_norms) if new else ():
        if x is not None and not x.is_inference():
            _increment_version(x)
    return o


# The library's names of the tensors, and attention_with_kv_cache's.
_NAMES_OF_CACHES = {"k": "k_cache", "v": "v_cache", "k_new": "k", "v_new": "v"}
_IS_TENSOR = re.compile(r"\b[kv](_new)?(?=:| overlaps )")


def _named_as_caches(text):
    return _IS_TENSOR.sub(lambda found: _NAMES_OF_CACHES[found[0]], text)


# Tells autograd that a tensor was written. torch has it from 2.1 on.
_increment_version = getattr(torch.autograd.graph, "increment_version", lambda x: None)


def attend(q, k, v, lengths, options, sink, name):
    tables = lengths.tables()
    if not _op.is_plain_call(q, k, v, sink):
        _op.need_operators(name)
        _op.refuse_tangents(*(x for x in (q, k, v, sink) if x is not None))
        tensors = (q, k, v, sink, *lengths.of_sequences())
        return _by_operator(*tensors, *lengths[:3], *options, *tables)[0]
    if _op.wants_gradient(q, k, v, sink):
        return _Varlen.apply(q, k, v, sink, lengths, options)
    return _forward("forward", q, k, v, lengths, options, sink)[0]
