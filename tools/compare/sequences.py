"""Sequences of their own lengths, packed one after another: causal, each attends to itself.

Contenders: `flash` calls torch's softmax attention once for each sequence, `flash-padded` once for
all of them, padded to the longest. Rows of padding come last, so the causal mask hides them. Making
the padding is not timed. Ours has one call.
"""

import torch

from compare import capi, definition
from compare.contenders import OursContender, SdpaContender
from compare.runner import CaseRun


def make_inputs(case, dtype, seed, device):
    """q, k, v, grad_o: [1, heads, rows of all sequences, dim], with the heads of a row together."""
    shape = (1, sum(case.lengths), case.heads, case.dim)
    made = definition.make_inputs("gauss", shape, dtype, True, seed, device)
    return {name: tensor.transpose(1, 2) for name, tensor in made.items()}


def places(case):
    """Where each sequence's rows are."""
    first = 0
    for length in case.lengths:
        yield slice(first, first + length)
        first += length


class LoopContender(SdpaContender):
    """A call for each sequence."""

    def _split(self, name):
        return [self.inputs[name][:, :, rows] for rows in places(self.case)]

    def _leaf_tensors(self, wants_gradients):
        parts = [self._split(name) for name in ("q", "k", "v")]
        return [x.detach().requires_grad_(wants_gradients) for part in parts for x in part]

    def _forward(self):
        count = len(self.case.lengths)
        with self._context():
            return [self._sdpa(*self._leaves[i::count]) for i in range(count)]

    def _backward(self, o, retain):
        return torch.autograd.grad(o, self._leaves, self._split("grad_o"), retain_graph=retain)

    def _named_results(self, o, gradients):
        count = len(self.case.lengths)
        parts = {"o": [x.detach() for x in o]}
        for i, name in enumerate(("dq", "dk", "dv") if gradients else ()):
            parts[name] = gradients[i * count : (i + 1) * count]
        return {name: torch.cat(list(part), 2) for name, part in parts.items()}


class PaddedContender(SdpaContender):
    """One call for all sequences, as long as the longest."""

    def _padded(self, name):
        case = self.case
        shape = (len(case.lengths), case.heads, max(case.lengths), case.dim)
        padded = self.inputs[name].new_zeros(shape)
        for i, rows in enumerate(places(case)):
            padded[i, :, : rows.stop - rows.start] = self.inputs[name][0, :, rows]
        return padded

    def _leaf_tensors(self, wants_gradients):
        self._grad_o = self._padded("grad_o") if wants_gradients else None
        return [self._padded(name).requires_grad_(wants_gradients) for name in ("q", "k", "v")]

    def _backward(self, o, retain):
        return torch.autograd.grad(o, self._leaves, self._grad_o, retain_graph=retain)

    def _named_results(self, o, gradients):
        named = super()._named_results(o, gradients)
        lengths = self.case.lengths
        return {
            name: torch.cat([x[i : i + 1, :, :length] for i, length in enumerate(lengths)], 2)
            for name, x in named.items()
        }

    def close(self):
        super().close()
        self._grad_o = None


def softmax_contenders(case, inputs, device):
    return [
        LoopContender("flash", case, inputs, device, "FLASH_ATTENTION"),
        PaddedContender("flash-padded", case, inputs, device, "FLASH_ATTENTION"),
    ]


class OursSequencesContender(OursContender):
    """One call with cu_seqlens."""

    def __init__(self, name, case, inputs, device, find_plan, p):
        super().__init__(name, case, inputs, device, find_plan, p)
        longest = max(case.lengths)
        self._sizes = capi.Sizes(len(case.lengths), case.heads, case.heads, longest, longest)
        starts = [0] + [rows.stop for rows in places(case)]
        self._cu_seqlens = torch.tensor(starts, dtype=torch.int32)

    def _needs(self):
        return self._plan.varlen_needs(self._sizes, sum(self.case.lengths))

    def _call(self, outputs, saves):
        call = super()._call(outputs, saves)
        call.cu_seqlens_q = call.cu_seqlens_k = self._cu_seqlens.data_ptr()
        call.total_q = call.total_k = sum(self.case.lengths)
        return call


class SequencesRun(CaseRun):
    """Compares the longest sequence with float64, and one of about the mean length."""

    def _heads(self):
        numbers = range(len(self.case.lengths))
        longest = max(numbers, key=lambda i: self.case.lengths[i])
        usual = min(numbers, key=lambda i: abs(self.case.lengths[i] - self.case.length))
        chosen = dict.fromkeys((longest, usual))
        return [(i, 0) for i in chosen] if self.options.check_heads else []

    def _part(self, named, batch):
        rows = list(places(self.case))[batch]
        return {name: tensor[:, :, rows] for name, tensor in named.items()}, 0
