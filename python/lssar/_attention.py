"""lssar.attention: checks its arguments, follows autocast, and calls the operator.

Arguments like those of an earlier call, which were right, are not checked again.
"""

from typing import Optional, Tuple, Union

import torch
from torch.overrides import handle_torch_function, has_torch_function

from . import _check, _jagged, _launch, _op, _plans, _reference, _rotary, _rules, _sharding
from . import _varlen_op

_DTYPES = (*_check.KERNEL_DTYPES, torch.float64)


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    p: Optional[int] = None,
    offset: float = 1.0,
    layout: str = "bhld",
    scale: Optional[float] = None,
    score: "Union[str, _rules.Score, None]" = None,
    sink: Optional[torch.Tensor] = None,
    window_size: Tuple[int, int] = (-1, -1),
    window_sinks: int = 0,
    prefix: int = 0,
    chunk: int = 0,
    invariant: bool = False,
    rotary_cos: Optional[torch.Tensor] = None,
    rotary_sin: Optional[torch.Tensor] = None,
    rotary_interleaved: bool = False,
    alibi_slopes: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """LSSAR attention (p = 0: LSSA), or that of another score function, differentiable once.

        A_ij = softplus(log(d) log(N_i) cos(q_i, k_j))      N_i: the number of keys row i sees
        P_ij = A_ij / sum_j A_ij
        o_i  = sum_j W_ij v_j / sum_j W_ij                  W_ij = max(N_i P_ij - offset, 0)^p

    Args:
        q: [batch, heads, length_q, d], d a multiple of 8 from 8 to 256; float16, bfloat16 or
            float32; on a CUDA device or on the CPU; on the meta device for shapes alone. float64
            goes through the definition in plain torch, with memory quadratic in the length: for
            torch.autograd.gradcheck, and differentiable any number of times.
        k: [batch, kv_heads, length_k, d]; kv_heads divides heads, and query head h reads kv head
            h // (heads // kv_heads).
        v: [batch, kv_heads, length_k, dv], dv as d.
            Or all three are nested tensors of torch.jagged, [batch, heads, j, dim], as torch's own
            scaled_dot_product_attention takes them: each entry attends to its own keys.
        causal: row i sees keys j < i + 1 + length_k - length_q; else all keys.
        p: the power, 1 to 1024; 0 for LSSA. None: 15, and with another score function 0.
        offset: of the re-weighting, 0 to 1000000; taken as 0 in rows with N_i <= 3.
        layout: of q, k, v and the result: "bhld", [batch, heads, length, dim], or "blhd", [batch,
            length, heads, dim]. Neither copies.
        scale: None. The definition has a scale of its own, log(d) log(N_i), and a score its field.
        score: None, "" or "lssar": the formulas above. "softmax", "sigmoid", an lssar.Score, or its
            fields as text: "phi=relu(x)^2,normalizer=sum_abs". They take the place of A and P; with
            a p the re-weighting follows, and P is what o sums v with where p is 0.
        sink: [heads], float32 (float64 if q is), on the device of q: a logit of each head, whose
            exponential is added to the sum of every row. It has no value vector, and is
            differentiable. Scores with the field sink=per_head ("softmax,sink=per_head") need it.
            With other scores it must be None.
        window_size: (left, right). Row i stands at position i + length_k - length_q, and sees from
            `left` keys before its position to `right` keys after it, with `causal` none after it.
            -1: no limit. N_i counts the keys that are left.
        window_sinks: how many of the first keys neither window_size nor chunk hides.
        prefix: how many of the first keys every row sees, `causal` or not.
        chunk: rows see keys of their own chunk of so many positions only. 0: there are no chunks.
        invariant: a row's result has the same bits whatever the batch, the other rows of the call
            and the number of threads are. Gradients do not depend on the batch then, but on the
            number of queries.
        rotary_cos, rotary_sin: [positions, n], float32, on the device of q: rotary positions, as
            lssar.rotary_tables makes them. The first 2 n columns of q and k are turned in the call,
            and their gradients back. Key j stands at position j, and query i at position
            i + length_k - length_q, so length_q is at most length_k, and that at most `positions`.
            The tables have no gradients. Positions in nested tensors are those in the entry.
        rotary_interleaved: pair c is columns 2 c and 2 c + 1; else c and c + n.
        alibi_slopes: [heads], float32 (float64 if q is), on the device of q. Scores with the field
            alibi=per_head ("softmax,alibi=per_head") need it: alibi_slopes[h] times the distance
            between the positions i + length_k - length_q and j is subtracted from s_ij. It has no
            gradient. With other scores it must be None. Positions in nested tensors are those in
            the entry.

    Returns [batch, heads, length_q, dv] in the dtype of q, laid out in memory as q is: as
    [batch, length, heads, dim] where q is a view of that, else contiguous. Gradients likewise.

    The backward reads the result: if that was changed in place, torch raises its error.

    Strides may be anything as long as those of the last dimension are 1; other tensors are copied
    once. Under torch.autocast tensors that are not in the autocast dtype are cast to it.

    Raises TypeError or ValueError, which name the argument, NotImplementedError for forward-mode
    and second derivatives of what is not float64, and LssarError.
    """
    if score is not None:
        score, p = _rules.score_of(score, p)
    else:
        score, p = "", _rules.DEFAULT_POWER if p is None else p
    has_window = window_size != (-1, -1) or window_sinks != 0 or prefix != 0 or chunk != 0
    has_rotary = rotary_cos is not None or rotary_sin is not None or rotary_interleaved is not False
    has_more = has_rotary or alibi_slopes is not None
    if has_window or has_more or invariant is not False:
        invariant = _rules.flag("invariant", invariant)
        window = _rules.window_of(window_size, window_sinks, prefix, chunk)
        if window or invariant or has_more:
            _rules.check_layout(layout, scale, _shapes(q, k, v), score)
            rotary = (rotary_cos, rotary_sin, rotary_interleaved) if has_rotary else None
            more = (window, invariant, rotary, alibi_slopes)
            with _op.profiled("lssar.attention"):
                return _as_sequences(q, k, v, causal, p, offset, layout, score, sink, *more)
    if layout != "bhld" or scale is not None:
        return _with_layout(q, k, v, causal, p, offset, layout, scale, score, sink)
    if _op.is_plain_call(q, k, v, sink):
        signature = _launch.known_signature(q, k, v, causal, p, offset, score, sink)
        if signature is not None:
            cast_to = _autocast_dtype(signature.device_type)
            if cast_to is None or cast_to is signature.dtype:
                return _op.attention_by_function(signature, q, k, v, sink)
    elif _jagged.has_any(q, k, v):
        return _jagged.attention(q, k, v, causal, p, offset, score, sink)
    elif has_torch_function((q, k, v, sink)):  # of a mode, a subclass of Tensor, torch.fx
        options = {"causal": causal, "p": p, "offset": offset, "score": score, "sink": sink}
        return handle_torch_function(attention, (q, k, v, sink), q, k, v, **options)
    with _op.profiled("lssar.attention"):
        return _checked_attention(q, k, v, causal, p, offset, score, sink)


def saved_bytes(
    q: torch.Tensor,
    v: torch.Tensor,
    p: Optional[int] = None,
    offset: float = 1.0,
    score: "Union[str, _rules.Score, None]" = None,
) -> int:
    """Bytes that attention or varlen_attention of q, v and these options keeps for its backward,
    beside q, k, v and o, which it keeps too. Layers before and behind it usually keep those anyway.

    In 16-bit types 2 bytes for each number of o, for what its rounding took; for each row and head 16
    bytes of statistics; and as many bytes as o has if neither p nor offset is 0. Sizes and types of q
    and v are all that is read of them, so the meta device will do.
    """
    score, p = _rules.score_of(score, p)
    _rules.check_scalars(False, p, offset)
    for name, x in (("q", q), ("v", v)):
        if not isinstance(x, torch.Tensor) or x.dtype not in _check.KERNEL_DTYPES:
            what = f"dtype {x.dtype}" if isinstance(x, torch.Tensor) else type(x).__name__
            raise TypeError(f"{name}: {what}; must be a tensor of float16, bfloat16 or float32")
    per_row = _plans.saved_words_per_row(q.dtype == torch.float32, v.shape[-1], p, offset)
    return 4 * q.shape[:-1].numel() * per_row


def _shapes(q, k, v):
    inputs = {"q": q, "k": k, "v": v}
    dense = {n: x for n, x in inputs.items() if isinstance(x, torch.Tensor) and not x.is_nested}
    return {name: x.shape for name, x in dense.items()}


def _as_sequences(
    q, k, v, causal, p, offset, layout, score, sink, window, invariant, rotary, slopes
):
    """By the operators of sequences, all of one length: torch.ops.lssar.forward takes no window, no
    rotary positions and no slopes, and is not invariant."""
    what = "attention within a window" if window else "invariant attention"
    if rotary is not None:
        what = "attention with rotary positions"
    elif slopes is not None:
        what = "attention with alibi_slopes"
    if _jagged.has_any(q, k, v):
        is_transposed = layout == "blhd"
        q, k, v = (x.transpose(1, 2) for x in (q, k, v)) if is_transposed else (q, k, v)
        more = (window, invariant, rotary, slopes)
        o = _jagged.attention(q, k, v, causal, p, offset, score, sink, *more)
        return o.transpose(1, 2) if is_transposed else o
    if has_torch_function((q, k, v, sink)):
        options = {"causal": causal, "p": p, "offset": offset, "layout": layout, "score": score}
        options |= {"sink": sink, "invariant": invariant, **_rules.window_options(window)}
        if rotary is not None:
            names = ("rotary_cos", "rotary_sin", "rotary_interleaved")
            options |= dict(zip(names, rotary))
        if slopes is not None:
            options["alibi_slopes"] = slopes
        return handle_torch_function(attention, (q, k, v, sink), q, k, v, **options)
    if layout == "blhd" and all(isinstance(x, torch.Tensor) for x in (q, k, v)):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    q, k, v = _checked(q, k, v, causal, p, offset, score, sink, slopes)
    if _sharding.is_distributed(q):
        raise TypeError(f"q: a DTensor; must be a plain tensor for {what}")
    if rotary is not None:
        _rotary.check(*rotary, q)
        _rules.check_rotary_lengths(rotary[0].shape[0], q.shape[2], k.shape[2])
    if q.dtype == torch.float64:
        if invariant:
            raise TypeError(
                "q: dtype torch.float64; must be float16, bfloat16 or float32 with invariant, because "
                "the definition, which float64 goes through, is summed by torch"
            )
        if rotary is not None:
            q, k = _rotary.rotated_inputs(q, k, *rotary)
        o = _reference.attention(q, k, v, causal, p, float(offset), score, sink, window, slopes)
        return o.transpose(1, 2) if layout == "blhd" else o
    cos, sin, interleaved = rotary or (None, None, False)
    sizes = (q.shape[0], q.shape[2], k.shape[2])
    lengths = _varlen_op.Lengths(*sizes, None, None, None, None, cos, sin, slopes)
    options = _varlen_op.Options(causal, p, float(offset), score, window, invariant, interleaved)
    rows = [_varlen_op.plain_rows(x.transpose(1, 2)) for x in (q, k, v)]
    o = _varlen_op.attend(*rows, lengths, options, sink, what)
    if layout == "blhd":
        return o
    o = o.transpose(1, 2)
    return o if q.stride(1) < q.stride(2) else o.contiguous()


def _with_layout(q, k, v, causal, p, offset, layout, scale, score, sink):
    _rules.check_layout(layout, scale, _shapes(q, k, v), score)
    if layout == "bhld":
        return attention(q, k, v, causal, p, offset, score=score, sink=sink)
    q, k, v = (x.transpose(1, 2) if hasattr(x, "transpose") else x for x in (q, k, v))
    return attention(q, k, v, causal, p, offset, score=score, sink=sink).transpose(1, 2)


def _checked(q, k, v, causal, p, offset, score, sink, slopes=None):
    """q, k, v as they are computed with."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: {type(x).__name__}; must be a torch.Tensor")
    _rules.check_scalars(causal, p, offset)
    _check.check_device(q)
    q, k, v = follow_autocast(q, k, v)
    if not torch.jit.is_tracing():  # which would warn of each size that is looked at
        _check.check_tensors(q, k, v, _DTYPES)
        _check.check_sink(sink, q, score, p, float(offset), slopes)
    if q.dtype == torch.float64:
        _plans.check_score(score, p, float(offset))
    return q, k, v


def _checked_attention(q, k, v, causal, p, offset, score, sink):
    q, k, v = _checked(q, k, v, causal, p, offset, score, sink)
    if q.dtype == torch.float64:
        if _sharding.is_distributed(q):
            raise TypeError(
                "q: a DTensor of torch.float64; DTensors must be float16, bfloat16 or float32: the "
                "definition, which float64 goes through, is computed on plain tensors"
            )
        return _reference.attention(q, k, v, causal, p, float(offset), score, sink)
    # Here, where autograd sees it: the backward then has the copy too.
    q, k, v = _with_plain_rows(q), _with_plain_rows(k), _with_plain_rows(v)
    sink = sink if sink is None else _with_plain_rows(sink)
    if _op.is_plain_call(q, k, v, sink):
        signature = _launch.signature_of(q, k, v, causal, p, offset, score, sink)
        return _op.attention_by_function(signature, q, k, v, sink)
    _op.need_operators("this call")
    return _op.attention_by_operator(q, k, v, causal, p, float(offset), score, sink)


def _with_plain_rows(x):
    if not _op.HAS_OPERATORS:  # operators see it done
        x = x.resolve_neg()
    return x if x.stride(-1) == 1 else x.contiguous()


_NAMES_DEVICE = hasattr(torch, "get_autocast_dtype")  # torch 2.4


def _autocast_dtype(device_type):
    """The dtype that torch.autocast asks for on this kind of device, or None."""
    if device_type == "meta":
        return None
    if _NAMES_DEVICE:
        if torch.is_autocast_enabled(device_type):
            return torch.get_autocast_dtype(device_type)
    elif device_type == "cuda" and torch.is_autocast_enabled():
        return torch.get_autocast_gpu_dtype()
    elif device_type == "cpu" and torch.is_autocast_cpu_enabled():
        return torch.get_autocast_cpu_dtype()
    return None


def follow_autocast(q, k, v):
    dtype = _autocast_dtype(q.device.type)
    if dtype is None:
        return q, k, v
    return tuple(x.to(dtype) if x.dtype in _check.KERNEL_DTYPES else x for x in (q, k, v))


if _op.HAS_OPERATORS:
    _op.stand_for(attention)
