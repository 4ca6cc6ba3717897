"""One process or several: those that torchrun starts share each batch, by DDP or by FSDP2."""

import contextlib
import dataclasses
import os
from typing import Any, Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import state_dict as states

from .fields import ConfigError


@dataclasses.dataclass(frozen=True)
class Processes:
    rank: int
    count: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def mean(self, *values: float) -> list[float]:
        """The means of numbers over all processes, the same bits in each."""
        if self.count == 1:
            return list(values)
        together = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(together)
        return (together / self.count).tolist()


def start(device: str) -> Processes:
    """The processes that torchrun says there are; without it, this one alone."""
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise ConfigError("train.device: 'cuda'; torch sees no GPU; must be auto or cpu here")
    on_gpu = device == "cuda" or device == "auto" and has_gpu
    rank, count = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    where = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(where)
    if count > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if on_gpu else "gloo")
    return Processes(rank, count, where)


def stop() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def share(model: Any, processes: Processes, kind: str) -> Any:
    """The model as several processes train it together."""
    if processes.count == 1:
        return model
    if kind == "ddp":
        ids = [processes.device.index] if processes.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(model, device_ids=ids)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(processes.device.type, (processes.count,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@contextlib.contextmanager
def without_sums(model: Any, active: bool) -> Iterator[None]:
    """Gradients of a micro batch that is not the last stay in their process."""
    if not active:
        yield
    elif isinstance(model, nn.parallel.DistributedDataParallel):
        with model.no_sync():
            yield
    elif hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            model.set_requires_gradient_sync(True)
    else:
        yield


def clip(model: nn.Module, limit: float) -> torch.Tensor:
    """Scales the gradients to at most this norm (0: leaves them); returns the norm they had."""
    norm = nn.utils.clip_grad_norm_(model.parameters(), limit or float("inf"))
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def whole_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """All weights and moments by the names of the weights. Every process must call it."""
    options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, moments = states.get_state_dict(model, optimizer, options=options)
    return {"model": weights, "optimizer": moments}


def load_whole_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    options = states.StateDictOptions(full_state_dict=True)
    states.set_state_dict(
        model,
        optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
        options=options,
    )
