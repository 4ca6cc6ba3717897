"""lssar.attention on a GPU, through torch: streams, graphs, and that nothing waits for the device."""

import unittest

import torch

import lssar
from definition import assert_close, expected, random_inputs

DTYPE = torch.bfloat16


def on_gpu(tensors):
    return [x.detach().cuda().requires_grad_() for x in tensors]


def with_gradients(q, k, v, grad_o, function=lssar.attention):
    o = function(q, k, v)
    return (o.detach(), *torch.autograd.grad(o, (q, k, v), grad_o))


@unittest.skipUnless(torch.cuda.is_available(), "torch sees no GPU")
class Cuda(unittest.TestCase):
    def setUp(self):
        self.inputs = random_inputs(batch=2, heads=4, kv_heads=2, len_q=200, dim=64, dtype=DTYPE)
        self.q, self.k, self.v = on_gpu(self.inputs)
        generator = torch.Generator().manual_seed(7)
        self.grad_o = torch.randn(self.q.shape, generator=generator).to(DTYPE).cuda()
        # Compiles and loads what the tests call.
        self.first = with_gradients(self.q, self.k, self.v, self.grad_o)
        torch.cuda.synchronize()

    def assert_same(self, results):
        for result, first in zip(results, self.first, strict=True):
            self.assertTrue(torch.equal(result, first))

    def test_values_and_gradients(self):
        assert_close(self, [x.cpu() for x in self.first], expected(*self.inputs), DTYPE)

    def test_nothing_waits(self):
        torch.cuda.set_sync_debug_mode("error")
        try:
            results = with_gradients(self.q, self.k, self.v, self.grad_o)
            with torch.no_grad():
                lssar.attention(self.q, self.k, self.v)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        self.assert_same(results)

    def test_current_stream(self):
        """Behind work of the same stream that its inputs come from."""
        stream = torch.cuda.Stream()
        q = torch.zeros_like(self.q)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            q.copy_(self.q.detach())
            q.requires_grad_()
            results = with_gradients(q, self.k, self.v, self.grad_o)
        stream.synchronize()
        self.assert_same(results)

    def test_graph(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            with_gradients(self.q, self.k, self.v, self.grad_o)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = with_gradients(self.q, self.k, self.v, self.grad_o)
        for result in results:
            result.zero_()
        graph.replay()
        torch.cuda.synchronize()
        self.assert_same(results)

    def test_a_problem_without_kernels_is_not_captured(self):
        graph = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, "has no kernels yet"):
            with torch.cuda.graph(graph), torch.no_grad():
                lssar.attention(self.q, self.k, self.v, p=13)

    def test_compiled(self):
        torch._dynamo.reset()
        compiled = torch.compile(lssar.attention, fullgraph=True)
        self.assert_same(with_gradients(self.q, self.k, self.v, self.grad_o, compiled))

    def test_autocast(self):
        q, k, v = (x.detach().float() for x in (self.q, self.k, self.v))
        with torch.autocast("cuda", dtype=DTYPE):
            self.assertTrue(torch.equal(lssar.attention(q, k, v), self.first[0]))


if __name__ == "__main__":
    unittest.main()
