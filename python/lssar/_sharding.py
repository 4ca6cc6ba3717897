"""How torch.ops.lssar.* are computed on DTensors: each rank its batches, or its heads.

Used by _op and _check. The rules are torch's experimental ones, of torch 2.5 and later.
"""

import importlib.abc
import importlib.util
import math
import sys

import torch


_NONE = -1


def _choices(q, k, operands, results, stats_in, stats_out, grads):
    """Placements of results, operands, the sink and its gradient on one dimension of the mesh.
    `operands`, `results`: how many, without those of the sink; stats_in, stats_out: which of them
    has the planes of statistics before its batch; `grads`: which results are grad_k and grad_v."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    def all_at(dim):
        outputs = [Shard(dim + (i == stats_out)) for i in range(results)]
        return outputs, [Shard(dim + (i == stats_in)) for i in range(operands)]

    yield [Replicate()] * results, [Replicate()] * operands, Replicate(), Replicate()
    yield *all_at(0), Replicate(), Partial()  # each rank has a part of the rows of all heads
    if k.shape[1] % _head_ranks(q, k) == 0:  # a rank has the kv heads of its query heads
        yield *all_at(1), Shard(0), Shard(0)
    elif k.shape[1] == 1:  # all query heads read the one, which every rank has
        outputs, inputs = all_at(1)
        first = 1 if grads else 0  # behind grad_o
        for i in (first + 1, first + 2):
            inputs[i] = Replicate()
        for i in grads:
            outputs[i] = Partial()
        yield outputs, inputs, Shard(0), Shard(0)


def _head_ranks(q, k):
    """Ranks that heads are, or would be, divided among."""
    used = [
        size
        for i, size in enumerate(q.mesh.shape)
        if any(x.placements[i].is_shard(1) for x in (q, k))
    ]
    return math.prod(used or q.mesh.shape)


def _rule(operands, results, stats_in=_NONE, stats_out=_NONE, grads=()):
    def rule(*arguments):
        q, k = arguments[1:3] if grads else arguments[:2]
        has_sink = hasattr(arguments[-1], "placements")
        scalars = [None] * (len(arguments) - operands - has_sink)
        placements = []
        for outputs, inputs, sink, grad_sink in _choices(
            q, k, operands, results, stats_in, stats_out, grads
        ):
            sinks, grad_sinks = [sink] * has_sink, [grad_sink] * (has_sink and bool(grads))
            placements.append((outputs + grad_sinks, inputs + scalars + sinks))
        return placements

    return rule


def _register():
    from torch.distributed.tensor.experimental import register_sharding

    operators = torch.ops.lssar
    register_sharding(operators.forward.default)(_rule(3, 1))
    register_sharding(operators.forward_train.default)(_rule(3, 4, stats_out=2))
    for backward in (operators.backward, operators.backward_with_sink):
        register_sharding(backward.default)(_rule(8, 3, stats_in=6, grads=(1, 2)))


_DTENSOR = "torch.distributed.tensor"


class _WhenImported(importlib.abc.MetaPathFinder):
    """Registers the rules at the end of the import of DTensor's module."""

    def find_spec(self, name, path, target=None):
        if name != _DTENSOR:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_register(module):
            execute(module)
            _register()

        spec.loader.exec_module = execute_and_register
        return spec


def is_distributed(x):
    """Whether x is a DTensor; imports nothing."""
    module = sys.modules.get(_DTENSOR)
    return module is not None and isinstance(x, module.DTensor)


def register():
    """The rules exist before the first DTensor does. DTensor is slow to import, so that this waits
    until somebody else imports it."""
    if _DTENSOR in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _WhenImported())
