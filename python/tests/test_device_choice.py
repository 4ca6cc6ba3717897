"""Which device computes CPU tensors: LSSAR_DEVICE.

It is read once in a process, so every test forks processes. They share the imports, which take seconds
and open nothing."""

import importlib.util
import os
import sys
import tempfile
import traceback
import unittest
import warnings

import torch

import lssar
from lssar import _plans


def kinds():
    return sorted(k for (k, _), c in _plans._contexts.items() if c._plans)


def execute(code):
    """0, or 1 after the traceback of what `code` raised."""
    names = {"torch": torch, "lssar": lssar, "_plans": _plans, "kinds": kinds}
    warnings.simplefilter("always")
    try:
        names["x"] = torch.randn(1, 2, 33, 16, generator=torch.Generator().manual_seed(1))
        exec(code, names)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def execute_in_child(code, variables, output):
    code_of_exit = 2  # nothing of the parent may run here
    try:
        os.environ.pop("LSSAR_DEVICE", None)
        os.environ.update(variables)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(output.fileno(), stream.fileno())
        code_of_exit = execute(code)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code_of_exit)


def run(code, **variables):
    """The output of a process of its own, whose LSSAR_DEVICE is not set unless told. One that a
    signal ends says so there."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            execute_in_child(code, variables, output)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        text = output.read().decode()
    ended = os.waitstatus_to_exitcode(status)
    return text if ended in (0, 1) else f"{text}exit code {ended}\n"


class WhichDevice(unittest.TestCase):
    def test_auto_is_cpu_where_it_has_kernels(self):
        text = run("lssar.attention(x, x, x)\nprint(kinds())")
        self.assertEqual(text, "['cpu']\n")

    def test_auto_is_cpu_for_every_score_function(self):
        text = run(
            "sink = torch.zeros(2, requires_grad=True)\n"
            "lssar.attention(x, x, x, score='softmax,sink=per_head', sink=sink).sum().backward()\n"
            "assert sink.grad.all()\n"
            "lssar.attention(x, x, x, score='sigmoid')\n"
            "lssar.attention(x, x, x, p=1000)\n"
            "print(kinds())"
        )
        self.assertEqual(text, "['cpu']\n")

    def test_auto_is_virtual_elsewhere_with_one_warning(self):
        """Without its compiler there is no cpu device. NVRTC serves the virtual one."""
        code = (
            "for _ in range(2):\n"
            "    try: lssar.attention(x, x, x, score='softmax')\n"
            "    except lssar.LssarError: pass\n"
            "print(sorted(k for k, _ in _plans._contexts))"
        )
        text = run(code, LSSAR_LLVM_PATH="none", LSSAR_CACHE_DIR="none")
        self.assertEqual(text.count("RuntimeWarning"), 1, text)
        self.assertRegex(text, "virtual device, which is slow.*LSSAR_DEVICE=virtual")
        self.assertIn("'virtual']\n", text)

    def test_a_forward_and_its_backward_run_on_one_device(self):
        """It is the cpu device. Tensors that are not aligned have a plan of their own."""
        text = run(
            "from lssar._reference import attention\n"
            "row = torch.randn(1 + x.numel(), generator=torch.Generator().manual_seed(2))\n"
            "grad_o = torch.randn(x.shape, generator=torch.Generator().manual_seed(3))\n"
            "for q in (x, row[1:].view(x.shape)):\n"
            "    leaf = q.detach().requires_grad_()\n"
            "    o = lssar.attention(leaf, x, x, causal=True)\n"
            "    dq, = torch.autograd.grad(o, leaf, grad_o)\n"
            "    wide, k = q.double().requires_grad_(), x.double()\n"
            "    o = attention(wide, k, k, True)\n"
            "    wanted, = torch.autograd.grad(o, wide, grad_o.double())\n"
            "    allowed = 2e-5 * wanted.norm() + 2**-20 * x.numel() ** 0.5\n"
            "    assert (dq - wanted).norm() < allowed, (dq - wanted).norm()\n"
            "print(kinds())"
        )
        self.assertEqual(text, "['cpu']\n")

    def test_by_name(self):
        call = "lssar.attention(x, x, x)\nprint(kinds(), lssar.device_info()['device'])"
        self.assertEqual(run(call, LSSAR_DEVICE="virtual"), "['virtual'] 2\n")
        self.assertEqual(run(call, LSSAR_DEVICE="cpu"), "['cpu'] 4\n")
        self.assertRegex(
            run(call, LSSAR_DEVICE="cuda"),
            "LssarError: LSSAR_DEVICE = 'cuda': allowed for CPU tensors are auto, cpu and virtual",
        )

    @unittest.skipUnless(importlib.util.find_spec("jax"), "JAX is not installed")
    def test_of_jax(self):
        """The bits are those of PyTorch, because both run the same kernels."""
        text = run(
            "import jax, lssar.jax\n"
            "leaf = x.clone().requires_grad_()\n"
            "o = lssar.attention(leaf, x, x, causal=True)\n"
            "dq, = torch.autograd.grad(o, leaf, torch.ones_like(o))\n"
            "y = jax.numpy.asarray(x.numpy())\n"
            "attend = jax.jit(lambda q: lssar.jax.attention(q, y, y, causal=True))\n"
            "result, pull = jax.vjp(attend, y)\n"
            "(gradient,) = pull(jax.numpy.ones_like(result))\n"
            "print((result == o.detach().numpy()).all(), (gradient == dq.numpy()).all())\n"
            "print(kinds())"
        )
        self.assertIn("True True\n['cpu']\n", text)

    def test_without_its_compiler(self):
        call = (
            "try: lssar.attention(x, x, x)\n"
            "except lssar.LssarError as error: print('failed', error.status, error)"
        )
        hidden = {"LSSAR_LLVM_PATH": "none", "LSSAR_NVRTC_PATH": "none", "LSSAR_CACHE_DIR": "none"}
        text = run(call, LSSAR_DEVICE="cpu", **hidden)
        self.assertRegex(text, "^failed 3 missing: .*LSSAR_LLVM_PATH=none")
        # Then nothing compiles for the virtual device either.
        text = run(call, **hidden)
        self.assertRegex(text, "RuntimeWarning: .*virtual device.*LSSAR_LLVM_PATH=none")
        self.assertIn("failed 3", text)


if __name__ == "__main__":
    unittest.main()
