"""CPU tensors on the cpu device."""

import importlib.util
import os
import unittest

os.environ["LSSAR_DEVICE"] = "cpu"  # before the first call

import torch

import lssar
from definition import FLOOR, TOLERANCES, check, random_inputs, with_gradients
from lssar import _plans, _structs
from lssar._reference import attention
from test_threads import threads_that_worked


def detached(**options):
    return [x.detach() for x in random_inputs(**options)]


class Values(unittest.TestCase):
    def check(self, q, k, v, **options):
        o = lssar.attention(q, k, v, **{"causal": True, **options})
        self.assertEqual(o.dtype, q.dtype)
        wide = [x.double() for x in (q, k, v)]
        wanted = attention(*wide, **{"causal": True, "p": 15, "offset": 1.0, **options})
        self.assertEqual(o.shape, wanted.shape)
        allowed = TOLERANCES[q.dtype][0] * wanted.norm().item() + FLOOR * wanted.numel() ** 0.5
        error = (o.double() - wanted).norm().item()
        self.assertTrue(error <= allowed, f"|error| {error}, allowed {allowed}")
        return o

    def test_every_dtype(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                self.check(*detached(batch=2, dim=64, len_q=67, dtype=dtype))

    def test_powers_offsets_and_masks(self):
        options = ((0, 1.0, True), (1, 0.0, False), (15, 1.0, False), (64, 0.5, True))
        for p, offset, causal in options:
            with self.subTest(p=p, offset=offset, causal=causal):
                self.check(*detached(), p=p, offset=offset, causal=causal)

    def test_lengths(self):
        """None, one, primes, more queries than keys; one kernel for all."""
        for len_q, len_k in ((1, 1), (1, 293), (131, 293), (293, 131), (5, 0), (0, 5)):
            with self.subTest(len_q=len_q, len_k=len_k):
                self.check(*detached(batch=2, heads=4, kv_heads=2, len_q=len_q, len_k=len_k))

    def test_layouts(self):
        """Head dims of their own, packed tensors, addresses of odd elements."""
        self.check(*detached(dim=24, dim_v=40))
        packed = torch.randn(2, 31, 3, 4, 16, generator=torch.Generator().manual_seed(3))
        self.check(*(x.transpose(1, 2) for x in packed.unbind(2)))
        row = torch.randn(1 + 2 * 9 * 16, generator=torch.Generator().manual_seed(4))
        odd = row[1:].view(1, 2, 9, 16)
        self.check(odd, odd, odd)

    def test_it_is_the_cpu_device(self):
        self.check(*detached())
        self.assertEqual(lssar.device_info()["device"], _structs.DEVICE_CPU)
        self.assertIn("x86-64-v", lssar.device_info("cpu")["target"])
        self.assertNotIn(("virtual", 0), _plans._contexts)

    def test_large_powers(self):
        self.check(*detached(), p=200, offset=0.5, causal=True)


class Training(unittest.TestCase):
    """Values of the forward for training, and gradients."""

    def test_every_dtype(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                check(self, *random_inputs(batch=2, heads=4, kv_heads=2, dim=64, dtype=dtype))

    def test_powers_offsets_and_masks(self):
        for p, offset, causal in ((0, 1.0, True), (1, 0.0, False), (15, 0.5, False)):
            with self.subTest(p=p, offset=offset, causal=causal):
                check(self, *random_inputs(), p=p, offset=offset, causal=causal)

    def test_softmax_with_a_sink(self):
        """Values and gradients are torch's, with the sink as one more column without a value."""
        q, k, v = random_inputs(batch=2, heads=4, kv_heads=2, len_q=37, len_k=53, dim=16)
        sink = torch.tensor([0.5, -1.0, 2.0, 0.0], requires_grad=True)
        grad_o = torch.randn(2, 4, 37, 16, generator=torch.Generator().manual_seed(5))
        leaves = [x.detach().requires_grad_() for x in (q, k, v)] + [sink]
        o = lssar.attention(*leaves[:3], score="softmax,sink=per_head", sink=sink)
        found = [o, *torch.autograd.grad(o, leaves, grad_o)]
        wide = [x.detach().double().requires_grad_() for x in leaves]
        keys, values = (x.repeat_interleave(2, dim=1) for x in wide[1:3])
        scores = wide[0] @ keys.transpose(-1, -2) / 4
        column = wide[3].view(1, 4, 1, 1).expand(2, 4, 37, 1)
        weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]
        wanted = [weights @ values]
        wanted += torch.autograd.grad(wanted[0], wide, grad_o.double())
        for a, b in zip(found, wanted, strict=True):
            self.assertLess(float((a - b).norm()), 2e-5 * float(b.norm()))

    def test_lengths_and_head_dims(self):
        for sizes in (
            {"len_q": 1},
            {"len_q": 1, "len_k": 293},
            {"len_q": 131, "len_k": 67},
            {"len_q": 5, "len_k": 0},
            {"len_q": 0, "len_k": 5},
            {"dim": 24, "dim_v": 40},
        ):
            with self.subTest(**sizes):
                check(self, *random_inputs(**sizes))

    def test_any_number_of_threads_gives_the_same_bits(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        inputs = random_inputs(batch=2, heads=8, len_q=256, dim=64)
        torch.set_num_threads(1)
        wanted = with_gradients(lssar.attention, *inputs)
        for threads in (2, 3):
            torch.set_num_threads(threads)
            results = with_gradients(lssar.attention, *inputs)
            self.assertTrue(all(map(torch.equal, results, wanted)))

    def test_it_is_the_cpu_device(self):
        check(self, *random_inputs())
        self.assertNotIn(("virtual", 0), _plans._contexts)


class ThreadsAndProcesses(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        self.inputs = detached(batch=2, heads=8, len_q=256, dim=64)

    def test_any_number_gives_the_same_bits(self):
        torch.set_num_threads(1)
        wanted = lssar.attention(*self.inputs)
        for threads in (2, 3, 8):
            torch.set_num_threads(threads)
            self.assertTrue(torch.equal(lssar.attention(*self.inputs), wanted))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU: one thread in any case")
    def test_as_many_as_torch_has(self):
        self.addCleanup(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        work = lambda: [lssar.attention(*self.inputs) for _ in range(20)]
        work()
        for threads in (2, 1):
            torch.set_num_threads(threads)
            self.assertEqual(threads_that_worked(work), threads)
        torch.set_num_threads(2)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        self.assertEqual(threads_that_worked(work), 1)

    def test_short_calls_have_one_thread(self):
        x = torch.randn(1, 1, 16, 64)
        work = lambda: [lssar.attention(x, x, x) for _ in range(2000)]
        work()
        self.assertEqual(threads_that_worked(work), 1)

    def test_child_of_a_fork(self):
        """As a data loader's worker, whose parent has used the pool's threads. Bytes are compared,
        because torch.equal waits for OpenMP's threads, which the child does not have."""
        torch.set_num_threads(2)
        wanted = lssar.attention(*self.inputs).numpy().tobytes()
        child = os.fork()
        if child == 0:
            os._exit(0 if lssar.attention(*self.inputs).numpy().tobytes() == wanted else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_no_second_openmp_runtime(self):
        """Threads of two would compete for the CPUs."""
        lssar.attention(*self.inputs)
        with open("/proc/self/maps") as maps:
            libraries = {line.split()[-1] for line in maps if ".so" in line}
        runtimes = [x for x in libraries if any(n in x for n in ("libgomp", "libomp", "libiomp"))]
        self.assertLessEqual(len(runtimes), 1, runtimes)

    def test_float_mode_of_the_caller(self):
        tiny = [x * 1e-30 for x in self.inputs[:2]] + [self.inputs[2] * 1e-38]
        wanted = lssar.attention(*tiny)
        if not torch.set_flush_denormal(True):
            self.skipTest("this CPU does not flush denormal numbers")
        o = lssar.attention(*tiny)
        torch.set_flush_denormal(False)  # or all denormal numbers are equal
        self.assertTrue(torch.equal(o, wanted))


@unittest.skipUnless(importlib.util.find_spec("numba"), "numba is not installed")
class OtherLlvms(unittest.TestCase):
    def test_numba_in_the_same_process(self):
        """numba brings an LLVM of its own. Either may compile first."""
        import numba

        total = numba.njit(lambda n: n * (n + 1) // 2)
        self.assertEqual(total(10), 55)
        o = lssar.attention(*detached(dim=8))
        self.assertEqual(numba.njit(lambda n: n * n)(9), 81)
        self.assertTrue(torch.equal(lssar.attention(*detached(dim=8)), o))


if __name__ == "__main__":
    unittest.main()
