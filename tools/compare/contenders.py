"""The implementations that are compared, behind one interface.

A contender is made for a case, `start(pass)` allocates what a pass needs and gives a function that
enqueues it; `results(pass)` runs once and gives o, and dq, dk, dv where the pass is not "forward".
Contenders whose `p` is None compute softmax. NotHere, raised by any of them, says why one does not
take part.
"""

import contextlib

import torch
import torch.nn.attention

from compare import capi, definition

# Bytes per score that PyTorch needs at its peak: (forward, with a backward). Eager: counted from
# the tensors that `definition.lssar` has at a time; compiled: what fusing leaves at the least.
EAGER_BYTES_PER_SCORE = (24, 40)
COMPILED_BYTES_PER_SCORE = (8, 16)
MEMORY_SHARE = 0.7  # of the free memory that a quadratic contender may take


class NotHere(Exception):
    """Why a contender does not run a case."""


class Contender:
    """`p` and `schedule` are LSSAR's own; `inputs` has q, k, v and grad_o."""

    p = None

    def __init__(self, name, case, inputs, device):
        self.name = name
        self.case = case
        self.inputs = inputs
        self.device = device

    def start(self, pass_name):
        raise NotImplementedError

    def results(self, pass_name):
        raise NotImplementedError

    def close(self):
        """Frees what the contender holds; start may be called again."""


class TorchContender(Contender):
    """A function of q, k, v with autograd."""

    def __init__(self, name, case, inputs, device, attention):
        super().__init__(name, case, inputs, device)
        self.attention = attention
        self._leaves = None
        self._o = None

    def _check(self, pass_name):
        """Raises NotHere where a pass cannot run."""

    def _context(self):
        return contextlib.nullcontext()

    def _forward(self):
        with self._context():
            return self.attention(*self._leaves)

    def _backward(self, o, retain):
        return torch.autograd.grad(o, self._leaves, self.inputs["grad_o"], retain_graph=retain)

    def _leaf_tensors(self, wants_gradients):
        return [
            self.inputs[name].detach().requires_grad_(wants_gradients) for name in ("q", "k", "v")
        ]

    def start(self, pass_name):
        self._check(pass_name)
        wants_gradients = pass_name != "forward"
        self._leaves = self._leaf_tensors(wants_gradients)
        if pass_name in ("forward", "forward_train"):
            return self._forward
        if pass_name == "backward":
            self._o = self._forward()
            return lambda: self._backward(self._o, retain=True)
        return lambda: self._backward(self._forward(), retain=False)

    def results(self, pass_name):
        self.start(pass_name if pass_name == "forward" else "forward_backward")
        o = self._forward()
        gradients = None if pass_name == "forward" else self._backward(o, retain=False)
        named = self._named_results(o, gradients)
        self.close()
        return named

    def _named_results(self, o, gradients):
        return {"o": o.detach(), **dict(zip(("dq", "dk", "dv"), gradients or ()))}

    def close(self):
        self._leaves = self._o = None


class SdpaContender(TorchContender):
    """torch's softmax attention with one backend."""

    def __init__(self, name, case, inputs, device, backend_name):
        super().__init__(name, case, inputs, device, self._sdpa)
        self._backend_name = backend_name

    def _context(self):
        backend = getattr(torch.nn.attention.SDPBackend, self._backend_name, None)
        if backend is None:
            raise NotHere(f"torch {torch.__version__} has no SDPBackend.{self._backend_name}")
        return torch.nn.attention.sdpa_kernel(backend)

    def _sdpa(self, q, k, v):
        # torch before 2.5 does not know enable_gqa.
        shared = {} if self.case.kv_heads is None else {"enable_gqa": True}
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.case.causal, **shared
        )


def compiled_function(function, threads=None):
    """torch.compile, repeated per case: dynamo gives up on a function after many shapes.

    What it compiles for a CPU has the number of threads in it: `threads`, where given.
    """
    import torch._dynamo  # slow to import, so only here
    import torch._functorch.config

    torch._dynamo.reset()
    if threads:
        import torch._inductor.config

        # Not torch.get_num_threads(), which torch's cache of compiled code does not know of.
        torch._inductor.config.cpp.threads = threads
    # A graph is kept for many backwards: its buffers must not be given away.
    torch._functorch.config.donated_buffer = False
    return torch.compile(function, dynamic=False)


class PlainContender(TorchContender):
    """LSSAR from the definition, eager or compiled: quadratic in memory."""

    def __init__(self, name, case, inputs, device, p, offset, compiled):
        self.p = p

        def attention(q, k, v):
            return definition.lssar(q, k, v, case.causal, p, offset)

        self._bytes_per_score = COMPILED_BYTES_PER_SCORE if compiled else EAGER_BYTES_PER_SCORE
        if compiled:
            attention = compiled_function(attention, case.threads)
        super().__init__(name, case, inputs, device, attention)

    def _check(self, pass_name):
        per_score = self._bytes_per_score[pass_name != "forward"]
        need = per_score * self.case.num_scores()
        free = self.device.free_bytes()
        if need > MEMORY_SHARE * free:
            raise NotHere(
                f"needs about {need / 2**30:.1f} GiB ({per_score} bytes per score), "
                f"{MEMORY_SHARE:.0%} of what is free are {MEMORY_SHARE * free / 2**30:.1f} GiB"
            )


class OursContender(Contender):
    """liblssar.so through its C API. `find_plan` gives the case's plan or raises NotHere."""

    # What a timed call of a pass runs, by the name of that pass.
    _TIMED = {
        "forward": {"forward": capi.PASS_FORWARD},
        "forward_train": {"forward_train": capi.PASS_FORWARD_TRAIN},
        "backward": {"backward": capi.PASS_BACKWARD},
        "forward_backward": {
            "forward_train": capi.PASS_FORWARD_TRAIN,
            "backward": capi.PASS_BACKWARD,
        },
    }

    def __init__(self, name, case, inputs, device, find_plan, p):
        super().__init__(name, case, inputs, device)
        self.p = p
        self._find_plan = find_plan
        self._plan = None
        kv_heads = case.kv_heads or case.heads
        self._sizes = capi.Sizes(case.batch, case.heads, kv_heads, case.queries(), case.length)
        self._memory = []
        self.saved_bytes = 0  # of the last call

    def _bytes(self, count):
        if count == 0:
            return None
        memory = torch.empty(count, dtype=torch.uint8, device=self.device.torch_device)
        self._memory.append(memory)
        return memory.data_ptr()

    def _tensor_like(self, name):
        memory = torch.empty_like(self.inputs[name])
        self._memory.append(memory)
        return memory

    def _needs(self):
        """Bytes of the workspace, and of what is saved."""
        return self._plan.workspace_bytes(self._sizes), self._plan.saved_sizes(self._sizes)

    def _call(self, outputs, saves):
        """The arguments of a call that writes `outputs` (o, dq, dk, dv by name)."""
        self._plan = self._find_plan()
        call = capi.sized(capi.Call, sizes=self._sizes, num_threads=self.case.threads or 0)
        self.saved_bytes = 0
        for name in ("q", "k", "v", "grad_o"):
            setattr(call, name, capi.tensor_argument(self.inputs[name]))
        for name, tensor in outputs.items():
            field = {"o": "o", "dq": "grad_q", "dk": "grad_k", "dv": "grad_v"}[name]
            setattr(call, field, capi.tensor_argument(tensor))
        call.workspace_bytes, saved = self._needs()
        if saves:
            call.saved_o = self._bytes(saved.o)
            call.saved_stats = self._bytes(saved.stats)
            call.saved_x = self._bytes(saved.x)
            self.saved_bytes = saved.o + saved.stats + saved.x
        call.workspace = self._bytes(call.workspace_bytes)
        call.stream = self.device.stream()
        return call

    def _run(self, pass_bits, call):
        for pass_bit in pass_bits:
            self._plan.execute(pass_bit, call)

    def _allocate(self, pass_name):
        like = {"o": "q"} if pass_name != "backward" else {}
        if pass_name in ("backward", "forward_backward"):
            like.update(dq="q", dk="k", dv="v")
        outputs = {name: self._tensor_like(source) for name, source in like.items()}
        return outputs, self._call(outputs, saves=pass_name != "forward")

    def start(self, pass_name):
        _, call = self._allocate(pass_name)
        if pass_name == "backward":
            o = self._tensor_like("q")
            call.o = capi.tensor_argument(o)
            self.saved_bytes += o.nbytes  # the backward reads it
            self._run((capi.PASS_FORWARD_TRAIN,), call)
        bits = tuple(self._TIMED[pass_name].values())
        return lambda: self._run(bits, call)

    def schedules(self, pass_name):
        """By pass, of the passes that a timed call runs. REQUIRES: start was called."""
        return {name: self._plan.schedule(bit) for name, bit in self._TIMED[pass_name].items()}

    def results(self, pass_name):
        with_gradients = pass_name != "forward"
        outputs, call = self._allocate("forward_backward" if with_gradients else "forward")
        if with_gradients:
            self._run((capi.PASS_FORWARD_TRAIN, capi.PASS_BACKWARD), call)
        else:
            self._run((capi.PASS_FORWARD,), call)
        self.device.synchronize()
        self.close()
        return outputs

    def is_repeatable(self, pass_name, first):
        """Whether another run gives the same bits as `first`, what results(pass_name) gave."""
        second = self.results(pass_name)
        return all(
            torch.equal(first[name].view(torch.uint8), second[name].view(torch.uint8))
            for name in first
        )

    def close(self):
        self._memory = []
