"""Threads and processes."""

import os
import threading
import time
import unittest

import torch

import lssar
from definition import expected, assert_close, random_inputs, with_gradients
from lssar import _plans


def in_threads(functions):
    """Runs them at once; their results, or the first exception."""
    results = [None] * len(functions)
    barrier = threading.Barrier(len(functions))

    def run(i):
        barrier.wait()
        try:
            results[i] = functions[i]()
        except Exception as error:  # noqa: BLE001
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


class Threads(unittest.TestCase):
    def test_one_problem_at_once(self):
        """The first calls of a problem: all wait for one plan, and it is compiled once."""
        problem = {"p": 5, "offset": 0.25}
        inputs = [random_inputs(len_q=20 + i, seed=i) for i in range(6)]
        before = len(_plans.context("virtual")._plans)
        results = in_threads(
            [lambda x=x: with_gradients(lssar.attention, *x, **problem) for x in inputs]
        )
        for x, result in zip(inputs, results):
            assert_close(self, result, expected(*x, **problem), torch.float32)
        self.assertEqual(len(_plans.context("virtual")._plans), before + 1)

    def test_different_problems_at_once(self):
        inputs = [random_inputs(dim=dim, len_q=17) for dim in (8, 16, 24, 32)]
        results = in_threads([lambda x=x: with_gradients(lssar.attention, *x, p=2) for x in inputs])
        for x, result in zip(inputs, results):
            assert_close(self, result, expected(*x, p=2), torch.float32)

    def test_one_context_per_device(self):
        contexts = in_threads([lambda: _plans.context("virtual")] * 8)
        self.assertEqual(len(set(map(id, contexts))), 1)

    def test_errors_are_of_their_thread(self):
        def wrong(dim):
            with self.assertRaisesRegex(ValueError, f"^q: dim {dim};"):
                x = torch.ones(1, 1, 1, dim)
                lssar.attention(x, x, x)

        in_threads([lambda dim=dim: wrong(dim) for dim in (1, 2, 3, 4)])


def threads_that_worked(function):
    """How many threads of this process spent time in it."""

    def ticks():
        times = {}
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/schedstat") as stat:
                times[thread] = int(stat.read().split()[0])
        return times

    time.sleep(0.05)  # until what threads did before is counted
    before = ticks()
    function()
    spent = [ns - before.get(thread, 0) for thread, ns in ticks().items()]
    return sum(10 * ns > sum(spent) for ns in spent)


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU: one thread in any case")
class NumberOfThreads(unittest.TestCase):
    """The virtual device uses as many as torch and the operating system allow the caller."""

    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        self.addCleanup(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        x = torch.randn(2, 8, 128, 16)
        self.work = lambda: [lssar.attention(x, x, x) for _ in range(20)]
        self.work()

    def test_of_torch(self):
        torch.set_num_threads(2)
        self.assertEqual(threads_that_worked(self.work), 2)
        torch.set_num_threads(1)
        self.assertEqual(threads_that_worked(self.work), 1)

    def test_cpus_of_the_caller(self):
        torch.set_num_threads(2)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        self.assertEqual(threads_that_worked(self.work), 1)


class Processes(unittest.TestCase):
    def test_child_of_a_fork_opens_its_own_context(self):
        """As a data loader's worker, whose parent has used the virtual device's threads."""
        inputs = [x.detach() for x in random_inputs()]
        wanted = lssar.attention(*inputs)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            same = torch.equal(lssar.attention(*inputs), wanted)
            os.write(write, b"same" if same else b"different")
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as answer:
            self.assertEqual(answer.read(), b"same")
        os.waitpid(child, 0)


if __name__ == "__main__":
    unittest.main()
