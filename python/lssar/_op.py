"""The differentiable operator on checked tensors: q, k, v, causal, p, offset, score, sink.

Used by _attention. Two ways to the same _launch:

- operators torch.ops.lssar.* with shapes for tracing (fake implementations), rules for autograd and
  vmap, and a count of operations, for everything that looks at operators: torch.compile,
  torch.export, torch.jit.trace, torch.func, modes, subclasses of Tensor, the profiler. For torch 2.5
  and later.
- an autograd.Function, for older torch, and for plain calls with any torch: it costs the CPU a third
  of the time, which counts where kernels are short. It gets a Signature. It takes addresses of
  tensors, and so is right only while nothing looks: is_plain_call says when.
"""

import contextlib
import functools

import torch
from torch.autograd import forward_ad as _forward_ad, profiler as _profiler

from . import _check, _launch, _plans, _sharding

_NO_SECOND = (
    "lssar.attention: the gradient of the gradient is not implemented; call backward or "
    "torch.autograd.grad without create_graph=True, or pass float64 tensors, whose reference has it"
)
_NO_FORWARD_MODE = (
    "lssar.attention: forward-mode differentiation (torch.func.jvp, jacfwd, hessian, "
    "torch.autograd.forward_ad) is not implemented; use reverse mode (backward, torch.func.grad, "
    "vjp, jacrev), or pass float64 tensors, whose reference has it"
)
_SCALARS = "bool causal, int p, float offset, int layout, str score=''"
_SCALARS_OF_SINK = "bool causal, int p, float offset, int layout, str score, Tensor sink"
_OPTIONS = (
    "bool causal=False, int? p=None, float offset=1.0, str layout='bhld', float? scale=None, "
    "str? score=None, Tensor? sink=None"
)
HAS_OPERATORS = hasattr(torch.library, "register_fake") and hasattr(
    torch.library, "register_vmap"
)


def wants_gradient(q, k, v, sink):
    return torch.is_grad_enabled() and (
        q.requires_grad
        or k.requires_grad
        or v.requires_grad
        or (sink is not None and sink.requires_grad)
    )


# ---- Plain calls


class _PlainBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *arguments):
        return _launch.run_backward(*arguments)

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(_NO_SECOND)


class _PlainAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, signature, sink):
        o, saved = _launch.run_forward_train(signature, q, k, v, sink)
        ctx.save_for_backward(q, k, v, o, saved, sink)
        ctx.scalars = signature.scalars
        ctx.set_materialize_grads(False)
        return o

    @staticmethod
    def backward(ctx, grad_o):
        if grad_o is None:
            return (None,) * 5
        grads = _plain_backward(grad_o, *ctx.saved_tensors, ctx.scalars)
        return (*grads[:3], None, grads[3] if len(grads) > 3 else None)


def _plain_backward(grad_o, q, k, v, o, saved, sink, scalars):
    """Something may look by now: a mode, or torch.func over batches of grad_o. What hooks of saved
    tensors gave back may be laid out otherwise: the backward looks for a signature of its own."""
    is_plain = is_plain_tensor(grad_o) and is_plain_tensor(o)
    if not is_plain or not is_plain_call(q, k, v, sink):
        need_operators("the backward")
        _, p, offset, *_ = scalars
        parts = _launch.split_saved(saved, q, v, p, offset)
        return _operator_backward(grad_o, q, k, v, o, *parts, scalars=scalars, sink=sink)
    # Gradient mode is on in here only with create_graph=True.
    run = _PlainBackward.apply if torch.is_grad_enabled() else _launch.run_backward
    return run(grad_o, q, k, v, o, saved, *scalars, sink)


def _operator_backward(*tensors, scalars, sink):
    """grad_q, grad_k, grad_v, and with a sink grad_sink."""
    with profiled("lssar.attention.backward"):
        if sink is None:
            return torch.ops.lssar.backward(*tensors, *scalars)
        return torch.ops.lssar.backward_with_sink(*tensors, *scalars, sink)


def attention_by_function(signature, q, k, v, sink):
    if wants_gradient(q, k, v, sink):
        return _PlainAttention.apply(q, k, v, signature, sink)
    return _launch.run_forward(signature, q, k, v, sink)


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_tracing_state = torch._C._get_tracing_state
_functorch_stack = getattr(
    getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None
)
_num_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_is_batched = getattr(getattr(torch._C, "_functorch", None), "is_legacy_batchedtensor", lambda x: False)
_num_function_modes = getattr(torch._C, "_len_torch_function_stack", lambda: 0)


_key = getattr(torch._C.DispatchKey, "PreDispatch", None)  # of torch.export
_is_traced_before_dispatch = (
    functools.partial(torch._C._dispatch_tls_is_dispatch_key_included, _key)
    if _key is not None
    else lambda: False
)


def is_plain_call(q, k, v, sink):
    """Tensors with memory of their own, and nothing that looks at operators: no compiler, no trace,
    no mode, no torch.func, no forward-mode differentiation, no profiler."""
    return (
        not (HAS_OPERATORS and torch.compiler.is_compiling())
        and type(q) in _PLAIN
        and type(k) in _PLAIN
        and type(v) in _PLAIN
        and _tracing_state() is None
        and _num_dispatch_modes() == 0
        and _num_function_modes() == 0
        and _functorch_stack() is None
        and not _is_traced_before_dispatch()
        and _forward_ad._current_level < 0
        and not getattr(_profiler, "_is_profiler_enabled", False)
        and not (q.is_neg() or k.is_neg() or v.is_neg())
        and not (q._is_zerotensor() or k._is_zerotensor() or v._is_zerotensor())
        and not q.is_meta
        and (
            sink is None
            or (type(sink) in _PLAIN and not sink.is_neg() and not sink._is_zerotensor())
        )
    )


def is_plain_tensor(x):
    """Not a subclass, not of is_grads_batched, and with memory that holds its values."""
    return (
        type(x) is torch.Tensor
        and not x.is_neg()
        and not x._is_zerotensor()
        and not _is_batched(x)
    )


_NO_RANGE = contextlib.nullcontext()


def profiled(name):
    """A range of this name in the profiler's trace, if it runs. It is no operator: traces lack it."""
    is_profiled = HAS_OPERATORS and _profiler._is_profiler_enabled
    if not is_profiled or torch.compiler.is_compiling():
        return _NO_RANGE
    return torch._C._profiler._RecordFunctionFast(name)


def need_operators(what):
    if not HAS_OPERATORS:
        raise RuntimeError(
            f"lssar.attention: {what}: tracing, torch.func, modes and tensors without memory need "
            f"torch 2.5 or later; this is {torch.__version__}"
        )


# ---- Operators: shapes for tracing


def _fake_forward(q, k, v, causal, p, offset, layout, score="", sink=None):
    _check.check_operator(q, k, v, causal, p, offset, layout, score, sink)
    _plans.check_score(score, p, offset)
    return _launch.new_tensor(q, *q.shape[:3], v.shape[3], layout & _launch.Q_BIT)


def _fake_forward_train(q, k, v, causal, p, offset, layout, score="", sink=None):
    o = _fake_forward(q, k, v, causal, p, offset, layout, score, sink)
    shapes = _launch.saved_shapes(q, v, p, offset)
    dtypes = _launch.saved_dtypes(q.dtype)
    return o, *(q.new_empty(shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes))


def _fake_backward(
    grad_o, q, k, v, o, saved_o, saved_stats, saved_x, causal, p, offset, layout, score="", sink=None
):
    _check.check_operator(q, k, v, causal, p, offset, layout, score, sink)
    _plans.check_score(score, p, offset)
    saved = (saved_o, saved_stats, saved_x)
    shapes, dtypes = _launch.saved_shapes(q, v, p, offset), _launch.saved_dtypes(q.dtype)
    _check.check_backward(grad_o, q, k, v, o, saved, shapes, dtypes)
    bits = (_launch.Q_BIT, _launch.K_BIT, _launch.V_BIT)
    return tuple(
        _launch.new_tensor(x, *x.shape, layout & bit) for x, bit in zip((q, k, v), bits)
    )


def _fake_backward_with_sink(*arguments):
    sink = arguments[-1]
    return (*_fake_backward(*arguments), sink.new_empty(sink.shape))


# ---- Operators: autograd


def refuse_tangents(*tensors):
    for x in tensors:
        if _forward_ad.unpack_dual(x).tangent is not None:
            raise NotImplementedError(_NO_FORWARD_MODE)


def _below_autograd(name, *arguments):
    with torch._C._AutoDispatchBelowAutograd():
        return getattr(torch.ops.lssar, name).default(*arguments)


# A kernel for autograd is called once for each level of torch.func, and records that level alone:
# that is what this base class does, where autograd.Function goes through all levels.
_OfOneLevel = getattr(torch.autograd.function, "_SingleLevelFunction", torch.autograd.Function)
if HAS_OPERATORS:
    from torch._functorch.utils import enable_single_level_autograd_function as _allow_one_level


class _Attention(_OfOneLevel):
    @staticmethod
    def forward(*arguments):
        with torch.enable_grad():  # of outer levels of torch.func
            return _below_autograd("forward_train", *arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:3], *output, _sink_of(inputs))
        ctx.scalars = inputs[3:8]
        ctx.num_inputs = len(inputs)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad_o, *grads_of_saved):
        if grad_o is None:
            return (None,) * ctx.num_inputs
        *tensors, sink = ctx.saved_tensors
        grads = _operator_backward(grad_o, *tensors, scalars=ctx.scalars, sink=sink)
        of_scalars = (None,) * len(ctx.scalars)
        return (*grads[:3], *of_scalars, *grads[3:])[: ctx.num_inputs]


class _Backward(_OfOneLevel):
    @staticmethod
    def forward(*arguments):
        with torch.enable_grad():
            name = "backward" if _sink_of(arguments) is None else "backward_with_sink"
            return _below_autograd(name, *arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(_NO_SECOND)


def _differentiated(function, name, arguments, tensors):
    """Through `function` where a gradient is wanted, else the operator's kernels."""
    refuse_tangents(*tensors)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        with _allow_one_level():
            return function.apply(*arguments)
    return _below_autograd(name, *arguments)


def _sink_of(arguments):
    """The sink of an operator's arguments: the last one, which calls may leave out."""
    return arguments[-1] if isinstance(arguments[-1], torch.Tensor) else None


def _tensors_of(arguments, count):
    """The first `count`, and the sink if there is one."""
    sink = _sink_of(arguments)
    return arguments[:count] if sink is None else (*arguments[:count], sink)


def _autograd_forward(*arguments):
    """The forward that a gradient needs saves more: it is another operator."""
    result = _differentiated(_Attention, "forward", arguments, _tensors_of(arguments, 3))
    return result[0] if isinstance(result, tuple) else result


def _autograd_forward_train(*arguments):
    return _differentiated(_Attention, "forward_train", arguments, _tensors_of(arguments, 3))


def _autograd_backward(*arguments):
    return _differentiated(_Backward, "backward", arguments, arguments[:8])


def _autograd_backward_with_sink(*arguments):
    return _differentiated(_Backward, "backward_with_sink", arguments, _tensors_of(arguments, 8))


# ---- Operators: vmap. The vmapped dimension becomes a part of the batch. With a sink it becomes a
# part of the heads, because each entry has its own gradient of the sink, and may have its own sink.


def _fold(x, in_dim, size, dim):
    """The vmapped dimension merged into dimension `dim` of the entries, from the left."""
    if in_dim is None:
        x = x.unsqueeze(0).expand(size, *x.shape)
    else:
        x = x.movedim(in_dim, 0)
    return x.movedim(0, dim).flatten(dim, dim + 1)


def _unfold(x, size, dim):
    return x.unflatten(dim, (size, -1)) if x.shape[dim] else x.unflatten(dim, (size, 0))


def _batch_dim(index, first_saved):
    """The batch dimension of an operator's tensor: saved_stats begin with their planes."""
    return 1 if index == first_saved + 1 else 0


def _vmap_rule(name, num_tensors, first_saved_in, first_saved_out):
    def rule(info, in_dims, *arguments):
        size = info.batch_size
        sink = _sink_of(arguments)
        to_heads = 0 if sink is None else 1
        tensors = [
            _fold(x, in_dim, size, _batch_dim(i, first_saved_in) + to_heads)
            for i, (x, in_dim) in enumerate(zip(arguments[:num_tensors], in_dims))
        ]
        others = arguments[num_tensors:]
        if sink is not None:
            others = (*others[:-1], _fold(sink, in_dims[-1], size, 0))
        results = getattr(torch.ops.lssar, name)(*tensors, *others)
        if not isinstance(results, tuple):
            return _unfold(results, size, to_heads), to_heads
        dims = [_batch_dim(i, first_saved_out) + to_heads for i in range(len(results))]
        if name == "backward_with_sink":
            dims[-1] = 0
        return tuple(_unfold(x, size, dim) for x, dim in zip(results, dims)), tuple(dims)

    return rule


# ---- Operators: what they cost, and their registration


def num_scores(len_q, len_k, causal):
    """Pairs of a query and a key that it sees."""
    if not causal:
        return len_q * len_k
    hidden = max(len_q - len_k, 0)  # the first rows see no keys
    first = len_k - len_q + 1 + hidden  # keys of the first row that sees any
    return (len_q - hidden) * (first + len_k) // 2


def _forward_flops(q, k, v, causal, *others, **more):
    """Shapes. Two products, of scores and of values; what a causal mask hides is not counted."""
    batch, heads, len_q, dim = q
    return 2 * batch * heads * num_scores(len_q, k[2], causal) * (dim + v[3])


def _backward_flops(grad_o, q, k, v, o, saved_o, saved_stats, saved_x, causal, *others, **more):
    """Five products: the scores again, and those of grad_q, grad_k, grad_v and the weights."""
    batch, heads, len_q, dim = q
    return 2 * batch * heads * num_scores(len_q, k[2], causal) * (3 * dim + 2 * v[3])


def _define_operators():
    from torch.utils.flop_counter import register_flop_formula

    operators = torch.library.Library("lssar", "DEF")
    inputs = "Tensor q, Tensor k, Tensor v"
    results = "Tensor o, Tensor saved_o, Tensor saved_stats, Tensor saved_x"
    none = 8  # no tensor has this place: nothing saved
    for name, schema, real, fake, autograd, flops, tensors in (
        (
            "forward",
            f"({inputs}, {_SCALARS}, Tensor? sink=None) -> Tensor",
            _launch.forward,
            _fake_forward,
            _autograd_forward,
            _forward_flops,
            (3, none, none),
        ),
        (
            "forward_train",
            f"({inputs}, {_SCALARS}, Tensor? sink=None) -> ({results})",
            _launch.forward_train,
            _fake_forward_train,
            _autograd_forward_train,
            _forward_flops,
            (3, none, 1),
        ),
        (
            "backward",
            f"(Tensor grad_o, {inputs}, {results}, {_SCALARS}) -> (Tensor, Tensor, Tensor)",
            _launch.backward,
            _fake_backward,
            _autograd_backward,
            _backward_flops,
            (8, 5, none),
        ),
        (
            "backward_with_sink",
            f"(Tensor grad_o, {inputs}, {results}, {_SCALARS_OF_SINK}) -> "
            "(Tensor, Tensor, Tensor, Tensor grad_sink)",
            _launch.backward_with_sink,
            _fake_backward_with_sink,
            _autograd_backward_with_sink,
            _backward_flops,
            (8, 5, none),
        ),
    ):
        # Strides as they are traced: any are right, but a compiler that made new ones might make
        # rows that are not contiguous.
        operators.define(
            name + schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
        )
        for key in ("CPU", "CUDA"):
            operators.impl(name, real, key)
        operators.impl(name, autograd, "Autograd")
        torch.library.register_fake(f"lssar::{name}", fake, lib=operators)
        torch.library.register_vmap(f"lssar::{name}", _vmap_rule(name, *tensors), lib=operators)
        register_flop_formula(getattr(torch.ops.lssar, name))(flops)
    # For torch.jit.script, which compiles no Python but finds operators.
    operators.define(f"attention({inputs}, {_OPTIONS}) -> Tensor")
    return operators  # as long as it lives the operators are registered


def attention_by_operator(q, k, v, causal, p, offset, score="", sink=None):
    layout = _launch.layout_of(q, k, v)
    return torch.ops.lssar.forward(q, k, v, causal, p, offset, layout, score, sink)


def stand_for(function):
    """Registers lssar.attention as what torch.jit.script puts torch.ops.lssar.attention for."""
    _operators.impl("attention", function, "CompositeImplicitAutograd")
    torch.jit._builtins._register_builtin(function, "lssar::attention")


if HAS_OPERATORS:
    _operators = _define_operators()
    _sharding.register()
