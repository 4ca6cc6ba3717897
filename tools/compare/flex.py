"""LSSA and LSSAR by torch's FlexAttention, which changes the scores of a fused softmax attention.

LSSA is one call: a softmax of log A has the weights A / sum A. LSSAR is two: the first gives R from
the log-sum-exp, the second is a softmax of p log max(N A / R - b, 0). Queries and keys are divided by
their norms before, and rounded to the inputs' dtype again, which the kernels of lssar never do.
"""

import math
import warnings

import torch

from compare import definition
from compare.contenders import MEMORY_SHARE, NotHere, TorchContender, compiled_function

# FlexAttention that is not compiled computes all scores: what it has at a time, counted.
UNCOMPILED_BYTES_PER_SCORE = 24


def load():
    """torch's module, or NotHere."""
    try:
        from torch.nn.attention import flex_attention
    except ImportError:
        raise NotHere(f"torch {torch.__version__} has no flex_attention") from None
    return flex_attention


def _unit(x):
    return definition.directions(x, torch.float32).to(x.dtype)


def attention(flex, q, k, v, p, offset, visible, block_mask):
    """o of tensors [batch, heads, length, dim]. `visible`: N_i, float32 [length]."""
    scale = math.log(q.shape[-1]) * torch.log(visible)
    offsets = torch.where(visible <= 3, 0.0, offset)

    def activation(score, i):
        return torch.nn.functional.softplus(score * scale[i])

    def first_stage(score, b, h, i, j):
        return torch.log(activation(score, i))

    options = {"block_mask": block_mask, "scale": 1.0}
    q, k = _unit(q), _unit(k)
    if p == 0:
        return flex(q, k, v, score_mod=first_stage, **options)
    _, log_sum = flex(q, k, v, score_mod=first_stage, return_lse=True, **options)
    per_key = visible * torch.exp(-log_sum)  # N / R

    def second_stage(score, b, h, i, j):
        excess = activation(score, i) * per_key[b, h, i] - offsets[i]
        return torch.where(excess > 0, p * torch.log(excess.clamp(min=1e-30)), -math.inf)

    return flex(q, k, v, score_mod=second_stage, **options)


class FlexContender(TorchContender):
    """Compiled, as FlexAttention is meant to be used. On CPUs compiled FlexAttention has neither a
    backward nor a log-sum-exp, so that there only forwards run, and the first of LSSAR's two calls
    runs uncompiled. Nor does it take there what the same compiled function computed, so that only
    the attention itself is compiled. For a trial on CPUs nothing is."""

    def __init__(self, name, case, inputs, device, p, offset):
        self.p = p
        super().__init__(name, case, inputs, device, self._attention)
        self._offset = offset
        self._function = None  # the function that runs

    def _check(self, pass_name):
        load()
        if pass_name != "forward" and self.inputs["q"].device.type == "cpu":
            raise NotHere("compiled FlexAttention has no backward on CPUs")
        need = UNCOMPILED_BYTES_PER_SCORE * self.case.num_scores()
        if self.device.on_cpu and self.p != 0 and need > MEMORY_SHARE * self.device.free_bytes():
            raise NotHere(
                f"compiled FlexAttention gives no log-sum-exp on CPUs, and uncompiled it needs "
                f"about {need / 2**30:.1f} GiB"
            )

    def _attention(self, q, k, v):
        if self._function is None:
            module = load()
            length, device = q.shape[2], q.device
            visible, _ = definition.visible_keys(length, k.shape[2], 0, self.case.causal, device)
            mask = None
            if self.case.causal:
                mask = module.create_block_mask(
                    lambda b, h, i, j: i >= j, None, None, length, length, device=device
                )
            visible = visible.float()
            flex = module.flex_attention
            if self.device.on_cpu:
                flex = self._compiled_without_lse(flex)

            def function(q, k, v):
                return attention(flex, q, k, v, self.p, self._offset, visible, mask)

            on_cpu = q.device.type == "cpu"
            self._function = function if on_cpu else compiled_function(function)
        return self._function(q, k, v)

    def _compiled_without_lse(self, flex):
        compiled = compiled_function(flex, self.case.threads)
        # The table's notes and --help say so, too.
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")

        def either(*inputs, return_lse=False, **options):
            if return_lse:
                return flex(*inputs, return_lse=True, **options)
            return compiled(*inputs, **options)

        return either
