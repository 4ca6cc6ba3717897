"""The differentiable operator on checked tensors: attention(q, k, v, causal, p, offset).

Used by _attention. Two ways to the same _launch:

- operators torch.ops.lssar.* with shapes for tracing (fake implementations), so that torch.compile
  and torch.export keep them in their graphs. For torch 2.4 and later.
- an autograd.Function. For older torch, and for plain calls with any torch: it costs the CPU a third
  of the time, which counts where kernels are short. It gets a Signature.
"""

import torch

from . import _launch, _plans

_NO_SECOND = (
    "lssar.attention: the gradient of the gradient is not implemented; call backward or "
    "torch.autograd.grad without create_graph=True"
)
_SCALARS = "bool causal, int p, float offset, int layout"
HAS_OPERATORS = hasattr(torch.library, "register_fake") and hasattr(
    torch.library, "register_autograd"
)


def wants_gradient(q, k, v):
    return torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)


# ---- autograd.Function


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *arguments):
        return _launch.backward(*arguments)

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(_NO_SECOND)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, signature):
        o, saved = _launch.run_forward_train(signature, q, k, v)
        ctx.save_for_backward(q, k, v, saved)
        ctx.scalars = signature.scalars
        ctx.set_materialize_grads(False)
        return o

    @staticmethod
    def backward(ctx, grad_o):
        if grad_o is None:
            return None, None, None, None
        # Gradient mode is on in here only with create_graph=True. What hooks of saved tensors gave
        # back may be laid out otherwise: the backward looks for a signature of its own.
        run = _Backward.apply if torch.is_grad_enabled() else _launch.backward
        return (*run(grad_o, *ctx.saved_tensors, *ctx.scalars), None)


def attention_by_function(signature, q, k, v):
    if wants_gradient(q, k, v):
        return _Attention.apply(q, k, v, signature)
    return _launch.run_forward(signature, q, k, v)


# ---- Operators


def _fake_forward(q, k, v, causal, p, offset, layout):
    return _launch.new_tensor(q, *q.shape[:3], v.shape[3], layout & _launch.Q_BIT)


def _fake_forward_train(q, k, v, causal, p, offset, layout):
    is_float32 = q.dtype == torch.float32
    per_row = _plans.saved_floats_per_row(is_float32, int(v.shape[3]), p, offset)
    batch, heads, length, _ = q.shape
    saved = q.new_empty((batch * heads * length * per_row,), dtype=torch.float32)
    return _fake_forward(q, k, v, causal, p, offset, layout), saved


def _fake_backward(grad_o, q, k, v, saved, causal, p, offset, layout):
    bits = (_launch.Q_BIT, _launch.K_BIT, _launch.V_BIT)
    return tuple(
        _launch.new_tensor(x, *x.shape, layout & bit) for x, bit in zip((q, k, v), bits)
    )


def _setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.scalars = inputs[3:]
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _autograd(ctx, grad_o, grad_saved):
    if grad_o is None:
        return (None,) * 7
    grads = torch.ops.lssar.backward(grad_o, *ctx.saved_tensors, *ctx.scalars)
    return (*grads, *(None,) * 4)


def _no_second(ctx, *grads):
    raise NotImplementedError(_NO_SECOND)


def _nothing_saved(ctx, inputs, output):
    pass


def _define_operators():
    operators = torch.library.Library("lssar", "DEF")
    inputs = "Tensor q, Tensor k, Tensor v"
    for name, schema, real, fake in (
        ("forward", f"({inputs}, {_SCALARS}) -> Tensor", _launch.forward, _fake_forward),
        (
            "forward_train",
            f"({inputs}, {_SCALARS}) -> (Tensor, Tensor)",
            _launch.forward_train,
            _fake_forward_train,
        ),
        (
            "backward",
            f"(Tensor grad_o, {inputs}, Tensor saved, {_SCALARS}) -> (Tensor, Tensor, Tensor)",
            _launch.backward,
            _fake_backward,
        ),
    ):
        # Strides as they are traced: any are right, but a compiler that made new ones might make
        # rows that are not contiguous.
        operators.define(
            name + schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order)
        )
        for key in ("CPU", "CUDA"):
            operators.impl(name, real, key)
        torch.library.register_fake(f"lssar::{name}", fake, lib=operators)
    torch.library.register_autograd(
        "lssar::forward_train", _autograd, setup_context=_setup_context, lib=operators
    )
    torch.library.register_autograd(
        "lssar::backward", _no_second, setup_context=_nothing_saved, lib=operators
    )
    return operators  # as long as it lives the operators are registered


def attention_by_operator(q, k, v, causal, p, offset):
    layout = _launch.layout_of(q, k, v)
    if wants_gradient(q, k, v):
        return torch.ops.lssar.forward_train(q, k, v, causal, p, offset, layout)[0]
    return torch.ops.lssar.forward(q, k, v, causal, p, offset, layout)


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_plain_call(q, k, v):
    """Tensors, and no tracing, no subclass of Tensor, no mode that wants to see operators, and no
    torch.func."""
    return (
        type(q) in _PLAIN
        and type(k) in _PLAIN
        and type(v) in _PLAIN
        and (
            not HAS_OPERATORS
            or not torch.compiler.is_compiling()
            and torch._C._len_torch_dispatch_stack() == 0
            and torch._C._functorch.peek_interpreter_stack() is None
        )
    )


if HAS_OPERATORS:
    _operators = _define_operators()
