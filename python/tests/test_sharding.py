"""lssar.attention on DTensors: two processes, over gloo, compute what one does."""

import os
import socket
import subprocess
import sys
import unittest

import torch

import lssar
from lssar import _op

# (batch, heads, kv_heads), where q, k, v are sharded (None: replicated), where o is.
CASES = (
    ((2, 4, 2), 0, 0),
    ((3, 2, 2), 0, 0),
    ((1, 4, 2), 1, 1),
    ((1, 4, 1), 1, 1),
    ((2, 3, 3), 1, None),
    ((2, 2, 2), None, None),
    ((2, 2, 2), 2, None),
)


def run_rank(rank, port):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    # The first use of a DTensor here is an operator's, where autograd sees nothing.
    with torch.inference_mode():
        x = distribute_tensor(torch.randn(2, 2, 6, 8), mesh, [Shard(1)])
        assert torch.ops.lssar.forward(x, x, x, True, 15, 1.0, 0).placements[0].is_shard(1)
    try:
        lssar.attention(x.double(), x.double(), x.double())
    except TypeError as error:
        assert "DTensors must be float16" in str(error), error
    else:
        raise AssertionError("float64 was taken")
    for case in CASES:
        for has_sink in (False, True):
            compare_with_one_rank(mesh, *case, has_sink)
    check_that_kinds_are_not_mixed(mesh)
    dist.destroy_process_group()


def compare_with_one_rank(mesh, sizes, dim, dim_of_o, has_sink):
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    batch, heads, kv_heads = sizes
    torch.manual_seed(1)
    inputs = [torch.randn(batch, n, 6, 8) for n in (heads, kv_heads, kv_heads)]
    grad_o = torch.randn(batch, heads, 6, 8)

    def place(x, dim):
        dim = None if dim is not None and x.shape[dim] == 1 else dim
        return distribute_tensor(x, mesh, [Replicate() if dim is None else Shard(dim)])

    def attend(q, k, v, sink=None):
        score = None if sink is None else "softmax,sink=per_head"
        return lssar.attention(q, k, v, causal=True, score=score, sink=sink)

    results = [place(x, dim) for x in inputs]
    if has_sink:  # with the heads, where they are divided
        inputs.append(torch.randn(heads))
        results.append(place(inputs[-1], 0 if dim == 1 else None))
    wanted = [x.clone().requires_grad_() for x in inputs]
    results = [x.requires_grad_() for x in results]
    o = attend(*results)
    assert isinstance(o, DTensor), type(o)
    with torch.no_grad():
        no_grad = attend(*results).full_tensor()
    if dim_of_o is not None:
        assert o.placements[0].is_shard(dim_of_o), (sizes, has_sink, o.placements)
    o_wanted = attend(*wanted)
    o_wanted.backward(grad_o)
    o.backward(place(grad_o, None))
    for x, y in zip((o, *(r.grad for r in results)), (o_wanted, *(w.grad for w in wanted))):
        torch.testing.assert_close(x.full_tensor(), y.detach())
    torch.testing.assert_close(no_grad, o_wanted.detach())


def check_that_kinds_are_not_mixed(mesh):
    from torch.distributed.tensor import Replicate, distribute_tensor

    plain = torch.randn(2, 2, 6, 8), torch.zeros(2)
    spread = [distribute_tensor(x, mesh, [Replicate()]) for x in plain]
    for q, sink, text in (
        (spread[0], plain[1], "sink: a plain tensor; must be a DTensor, as q is"),
        (plain[0], spread[1], "sink: a DTensor; must be a plain tensor, as q is"),
    ):
        try:
            lssar.attention(q, q, q, score="softmax,sink=per_head", sink=sink)
        except TypeError as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)


@unittest.skipUnless(
    _op.HAS_OPERATORS and torch.distributed.is_available(), "torch is older than 2.5, or without gloo"
)
class Sharding(unittest.TestCase):
    def test_two_ranks_give_what_one_gives(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        import torch.distributed.tensor  # here, for both

        torch.multiprocessing.start_processes(run_rank, (port,), 2, start_method="fork")

    def test_rules_are_there_whichever_is_imported_first(self):
        """In a process of its own; the other test imports lssar first."""
        code = (
            "import torch.distributed.tensor, lssar\n"
            "found = torch.distributed.tensor.DTensor._op_dispatcher.sharding_propagator\n"
            "print(torch.ops.lssar.backward.default in found.op_strategy_funcs)"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(run.stdout, "True\n", run.stderr)


if __name__ == "__main__":
    unittest.main()
