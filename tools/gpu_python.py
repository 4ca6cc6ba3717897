#!/usr/bin/env python3
"""The Python package on a GPU, beside the definition in float64: one check, or the names of all.

    python3 gpu_python.py                  prints the names
    python3 gpu_python.py gradients        exit code 0 passed, 1 failed, 77 something is not there
    python3 gpu_python.py gradients --device cpu      a trial; LSSAR_DEVICE names the device of ours

gpu_check.sh runs them all, with the library of its bundle (LSSAR_LIBRARY).
"""

import pathlib
import sys
import threading

PASSED, FAILED, NOT_HERE = 0, 1, 77
TOLERANCE = {"o": 3e-3, "gradients": 5e-3}  # docs/accuracy.md, bf16


class NotHere(Exception):
    """What a check needs and this machine lacks."""


def tensors(device, seed=1, length=300, heads=4, kv_heads=4, dim=64, batch=2):
    """q, k, v and the gradient of o, bf16 [batch, heads, length, dim]; the first three are leaves."""
    import torch

    random = torch.Generator().manual_seed(seed)

    def made(count):
        x = torch.randn(batch, count, length, dim, generator=random)
        return x.to(device, torch.bfloat16)

    q, k, v = (made(count).requires_grad_() for count in (heads, kv_heads, kv_heads))
    return q, k, v, made(heads)


def in_float64(q, k, v, **options):
    import lssar

    return lssar.attention(q.detach().double(), k.detach().double(), v.detach().double(), **options)


def error(value, truth):
    truth = truth.double()
    return ((value.double() - truth).norm() / truth.norm()).item()


def expect(what, value, truth, tolerance):
    found = error(value, truth)
    print(f"{what}: {found:.2e}, allowed {tolerance:.1e}")
    if not found <= tolerance:  # NaN is wrong, too
        raise AssertionError(f"{what}: {found:.2e}")


def expect_same(what, value, other):
    import torch

    if not torch.equal(value, other):
        raise AssertionError(f"{what}: other bits, relative difference {error(value, other):.2e}")


def check_forward(device):
    import lssar

    for options in ({"causal": True}, {}, {"causal": True, "p": 0}, {"score": "softmax"}):
        for dim in (64, 128):
            q, k, v, _ = tensors(device, dim=dim)
            o = lssar.attention(q, k, v, **options)
            expect(f"o, d {dim}, {options}", o, in_float64(q, k, v, **options), TOLERANCE["o"])


def check_gradients(device):
    import torch
    import lssar

    for kv_heads in (4, 2):
        q, k, v, grad = tensors(device, kv_heads=kv_heads)
        found = torch.autograd.grad(lssar.attention(q, k, v, causal=True), (q, k, v), grad)
        wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
        o = lssar.attention(*wide, causal=True)
        truth = torch.autograd.grad(o, wide, grad.double())
        for name, value, other in zip(("dq", "dk", "dv"), found, truth):
            expect(f"{name}, {kv_heads} kv heads", value, other, TOLERANCE["gradients"])


def check_layouts(device):
    """Heads beside each other in memory, and a slice whose rows are apart."""
    import torch
    import lssar

    q, k, v, _ = tensors(device)
    truth = in_float64(q, k, v, causal=True)
    side = [x.detach().transpose(1, 2).contiguous() for x in (q, k, v)]
    o = lssar.attention(*side, causal=True, layout="blhd").transpose(1, 2)
    expect("blhd", o, truth, TOLERANCE["o"])
    apart = [torch.cat([x.detach(), x.detach()], dim=3)[..., : x.shape[3]] for x in (q, k, v)]
    expect("rows apart", lssar.attention(*apart, causal=True), truth, TOLERANCE["o"])


def check_streams(device):
    """A call runs on the current stream, after what that stream did before."""
    import torch
    import lssar

    need_gpu(device)
    q, k, v, _ = tensors(device)
    expected = lssar.attention(q, k, v, causal=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        late = q * 1  # not there yet when the call is made
        o = lssar.attention(late, k, v, causal=True)
    side.synchronize()
    expect_same("o of a side stream", o, expected)


def check_graphs(device):
    """A captured forward and backward, replayed with other inputs."""
    import torch
    import lssar

    need_gpu(device)
    q, k, v, grad = tensors(device)
    others = tensors(device, seed=2)

    def step():
        o = lssar.attention(q, k, v, causal=True)
        return (o, *torch.autograd.grad(o, (q, k, v), grad))

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()  # compiles before the capture
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for mine, other in zip((q, k, v, grad), others):
            mine.copy_(other)
    graph.replay()
    torch.cuda.synchronize()
    for name, value, other in zip(("o", "dq", "dk", "dv"), captured, step()):
        expect_same(f"{name} of a replay", value, other)


def check_threads(device):
    import lssar

    cases = [tensors(device, seed=seed) for seed in range(4)]
    expected = [lssar.attention(q, k, v, causal=True) for q, k, v, _ in cases]
    found = [None] * len(cases)

    def run(index):
        q, k, v, _ = cases[index]
        for _ in range(20):
            found[index] = lssar.attention(q, k, v, causal=True)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, value in enumerate(found):
        expect_same(f"o of thread {index}", value, expected[index])


def check_varlen(device):
    import torch
    import lssar

    lengths = (5, 0, 300, 33)
    ends = torch.tensor((0, *lengths)).cumsum(0).to(device, torch.int32)
    q, k, v, grad = (x.detach()[0].transpose(0, 1).contiguous() for x in tensors(device, length=338))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    o = lssar.varlen_attention(*leaves, ends, ends, max(lengths), max(lengths), causal=True)
    gradients = torch.autograd.grad(o, leaves, grad)
    first = 0
    for length in lengths:
        rows = slice(first, first + length)
        first += length
        if length == 0:
            continue
        wide = [x[rows].detach().transpose(0, 1)[None].double().requires_grad_() for x in leaves]
        truth = lssar.attention(*wide, causal=True)
        expect(f"o of {length}", o[rows].transpose(0, 1)[None], truth, TOLERANCE["o"])
        others = torch.autograd.grad(truth, wide, grad[rows].transpose(0, 1)[None].double())
        for name, value, other in zip(("dq", "dk", "dv"), gradients, others):
            part = value[rows].transpose(0, 1)[None]
            expect(f"{name} of {length}", part, other, TOLERANCE["gradients"])


def check_kv_cache(device):
    """A token at a time beside one prefill. On a GPU also a cache that has no room for a token."""
    import torch
    import lssar

    q, k, v, _ = (x.detach().transpose(1, 2).contiguous() for x in tensors(device, length=70))
    room = [torch.zeros_like(torch.cat([x, x], dim=1)) for x in (k, v)]
    truth = in_float64(*(x.transpose(1, 2) for x in (q, k, v)), causal=True).transpose(1, 2)
    for cache, x in zip(room, (k, v)):
        cache[:, :60] = x[:, :60]
    for at in range(60, 70):
        new = slice(at, at + 1)
        counts = torch.full((q.shape[0],), at, dtype=torch.int32, device=device)
        o = lssar.attention_with_kv_cache(q[:, new], *room, k[:, new], v[:, new], counts, causal=True)
        expect(f"row {at}", o, truth[:, new], TOLERANCE["o"])
    for name, cache, x in zip(("keys", "values"), room, (k, v)):
        expect_same(f"{name} in the cache", cache[:, :70], x)
    if device != "cuda":
        return
    before = [x.clone() for x in room]
    counts[0] = room[0].shape[1]
    o = lssar.attention_with_kv_cache(q[:, new], *room, k[:, new], v[:, new], counts)
    expect_same("o of a bad length", o, torch.zeros_like(o))
    for cache, x in zip(room, before):
        expect_same("a cache after a bad length", cache, x)


def check_compile(device):
    import torch
    import lssar

    q, k, v, grad = tensors(device)

    def layer(q, k, v):
        return lssar.attention(q * 2, k, v, causal=True) + 1

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for function in (layer, compiled):
        o = function(q, k, v)
        both = (o, *torch.autograd.grad(o, (q, k, v), grad))
        if function is layer:
            expected = both
    for name, value, other in zip(("o", "dq", "dk", "dv"), both, expected):
        expect(f"{name}, compiled", value, other, 1e-6)


def check_jax(device):
    try:
        import jax
        import jax.numpy as jnp
        import numpy
    except ImportError as missing:
        raise NotHere(str(missing)) from None
    import torch
    import lssar.jax

    if device == "cuda" and jax.default_backend() != "gpu":
        raise NotHere(f"jax has no GPU here, its backend is {jax.default_backend()}")
    q, k, v, grad = tensors("cpu", length=200)
    truth = in_float64(q, k, v, causal=True)

    def moved(x):
        return jnp.asarray(x.detach().float().numpy(), dtype=jnp.bfloat16)

    arrays = [moved(x) for x in (q, k, v)]

    def loss(*arrays):
        o = lssar.jax.attention(*arrays, causal=True)
        return (o * moved(grad)).astype(jnp.float32).sum(), o

    gradients, o = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(*arrays)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    others = torch.autograd.grad(lssar.attention(*wide, causal=True), wide, grad.double())

    def back(x):
        return torch.from_numpy(numpy.asarray(x.astype(jnp.float32)).copy())

    expect("o", back(o), truth, TOLERANCE["o"])
    for name, value, other in zip(("dq", "dk", "dv"), gradients, others):
        expect(name, back(value), other, TOLERANCE["gradients"])


def need_gpu(device):
    if device != "cuda":
        raise NotHere("it is about a GPU's streams")


def need_torch(device):
    try:
        import torch
    except ImportError as missing:
        raise NotHere(str(missing)) from None
    if device == "cuda" and not torch.cuda.is_available():
        raise NotHere("torch finds no GPU")


CHECKS = {name[6:]: found for name, found in list(globals().items()) if name.startswith("check_")}


def main(arguments):
    device = "cuda"
    if len(arguments) == 3 and arguments[1] == "--device":
        device = arguments[2]
        arguments = arguments[:1]
    if not arguments:
        print("\n".join(CHECKS))
        return PASSED
    if len(arguments) != 1 or arguments[0] not in CHECKS:
        print(f"gpu_python: {' '.join(arguments)}: one of {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    # The package of the bundle or source tree, whatever is installed.
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
    try:
        need_torch(device)
        CHECKS[arguments[0]](device)  # a package that cannot be imported is an error, not absent
    except NotHere as missing:
        print(f"not here: {missing}")
        return NOT_HERE
    except AssertionError as wrong:
        print(f"WRONG: {wrong}")
        return FAILED
    return PASSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
