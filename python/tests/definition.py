"""What the tests share: inputs, and a comparison with the definition in float64, which is what
lssar.attention itself takes for float64 tensors."""

import torch

import lssar
from lssar._reference import attention
from lssar._rules import score_of

# docs/accuracy.md: of o, and of gradients.
TOLERANCES = {
    torch.bfloat16: (3e-3, 5e-3),
    torch.float16: (1e-3, 2e-3),
    torch.float32: (1e-5, 2e-5),
}
# Gradients that cancel to 0, those of a row with one key say, are compared with what cancelled.
FLOOR = 2.0**-20


def random_inputs(batch=1, heads=2, kv_heads=None, len_q=33, len_k=None, dim=16, dim_v=None, **more):
    """q, k, v, leaves; `more`: dtype, seed."""
    kv_heads, len_k, dim_v = kv_heads or heads, len_q if len_k is None else len_k, dim_v or dim
    generator = torch.Generator().manual_seed(more.get("seed", 1))
    shapes = (
        (batch, heads, len_q, dim),
        (batch, kv_heads, len_k, dim),
        (batch, kv_heads, len_k, dim_v),
    )
    dtype = more.get("dtype", torch.float32)
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]


def with_gradients(function, q, k, v, **options):
    """(o, dq, dk, dv) of function(q, k, v, **options), for the same random grad_o each time."""
    o = function(q, k, v, **options)
    grad_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(7)).to(q.dtype)
    return (o.detach(), *torch.autograd.grad(o, (q, k, v), grad_o.to(o.dtype)))


def expected(q, k, v, **options):
    """The same from the definition, in float64, with the grad_o that was rounded to q's dtype."""
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    options["score"], options["p"] = score_of(options.get("score"), options.get("p"))
    o = attention(*wide, **options)
    grad_o = torch.randn(o.shape, generator=torch.Generator().manual_seed(7)).to(q.dtype)
    return (o.detach(), *torch.autograd.grad(o, wide, grad_o.double()))


def assert_close(test, results, wanted, dtype):
    """Each of (o, dq, dk, dv) in L2 norms. A NaN fails."""
    tolerances = TOLERANCES[dtype]
    for name, result, reference in zip(("o", "dq", "dk", "dv"), results, wanted):
        test.assertEqual(result.shape, reference.shape, name)
        error = (result.double() - reference).norm().item()
        size = reference.norm().item()
        tolerance = tolerances[0] if name == "o" else tolerances[1]
        floor = FLOOR * wanted[0].numel() ** 0.5
        test.assertTrue(error <= tolerance * size + floor, f"{name}: |error| {error}, |x| {size}")


def check(test, q, k, v, function=lssar.attention, dtype=None, **options):
    """Values and gradients of a function of q, k, v against the definition; causal unless told
    otherwise."""
    options = {"causal": True, **options}
    results = with_gradients(function, q, k, v, **options)
    assert_close(test, results, expected(q, k, v, **options), dtype or q.dtype)
    return results
