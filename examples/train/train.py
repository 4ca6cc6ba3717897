"""Trains a model as a config says; run again, it resumes from its last checkpoint.

    python -m examples.train.train examples/train/configs/tiny.json train.out=run model.attention=sdpa
    torchrun --nproc-per-node 8 -m examples.train.train examples/train/configs/124M.json train.out=run

SIGTERM and Ctrl-C save a checkpoint before the run ends, at the next step that is logged.

Exit codes: 0 done; 1 the loss is not finite; 2 a wrong config or file; 130 or 143 ended by a signal.
"""

import argparse
import math
import pathlib
import signal
import sys
import time
from typing import Any, Optional

import torch
import torch.nn.functional as F

from . import checkpoint, config as configs, data, model as models, parallel
from .fields import ConfigError
from .log import Log
from .made import IGNORED

# Fields of train that may have another value when a run is resumed.
_FREE = {"micro_batch", "device", "parallel", "out", "checkpoint_every", "keep", "log_every"}
_FREE |= {"evaluate_every", "evaluate_sequences"}


def learning_rate(train: configs.TrainConfig, step: int) -> float:
    """Linear warm-up, then half a cosine down to least_rate * learning_rate."""
    if step < train.warmup:
        return train.learning_rate * (step + 1) / train.warmup
    done = (step - train.warmup) / max(1, train.steps - train.warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * done))
    return train.learning_rate * (train.least_rate + (1 - train.least_rate) * cosine)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy, in nats per target; for points the mean square error of a coordinate."""
    if targets.is_floating_point():
        is_known = ~targets.isnan()
        return F.mse_loss(logits[is_known].float(), targets[is_known])
    return F.cross_entropy(logits.float().flatten(0, -2), targets.flatten(), ignore_index=IGNORED)


def make_optimizer(model: torch.nn.Module, train: configs.TrainConfig) -> torch.optim.AdamW:
    matrices = [x for x in model.parameters() if x.dim() >= 2]
    vectors = [x for x in model.parameters() if x.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": train.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    betas = (train.beta1, train.beta2)
    return torch.optim.AdamW(groups, lr=train.learning_rate, betas=betas, fused=True)


class Run:
    """A training run, at `step`: that many steps are done."""

    def __init__(self, config: configs.Config) -> None:
        self.config, self.train = config, config.train
        self.processes = parallel.start(self.train.device)
        self.rows, self.micro = self.train.shares(self.processes.count)
        torch.manual_seed(self.train.seed)
        model = models.make(config.model).to(self.processes.device)
        self.model = parallel.share(model, self.processes, self.train.parallel)
        self.optimizer = make_optimizer(self.model, self.train)
        self.data = data.make(config)
        self.step, self.seconds, self.signal = 0, 0.0, 0
        if self.train.out:
            pathlib.Path(self.train.out).mkdir(parents=True, exist_ok=True)
            self._resume()
        self.log = Log(self.train.out, self.step) if self.processes.is_first else None

    def _resume(self) -> None:
        state = checkpoint.read_last(self.train.out)
        if state is None:
            return
        _check_same(self.config.to_json(), state["config"])
        parallel.load_whole_state(self.model, self.optimizer, state)
        self.step, self.seconds = state["step"], state["seconds"]

    def save(self) -> None:
        if not self.train.out:
            return
        state = parallel.whole_state(self.model, self.optimizer)
        state.update(step=self.step, seconds=self.seconds, config=self.config.to_json())
        if self.processes.is_first:
            checkpoint.save(self.train.out, self.step, state, self.train.keep)

    def _loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        device = self.processes.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.train.dtype == "bfloat16"):
            logits = self.model(inputs.to(device))
        return loss_of(logits, targets.to(device))

    def take_step(self) -> tuple[torch.Tensor, torch.Tensor, float]:
        """One step: the loss of this process's rows, the gradient's norm, the learning rate."""
        rate = learning_rate(self.train, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        parts, total = self.rows // self.micro, torch.zeros((), device=self.processes.device)
        for part in range(parts):
            first = self.processes.rank * self.rows + part * self.micro
            batch = self.data.batch(self.step, first, self.micro)
            with parallel.without_sums(self.model, active=part + 1 < parts):
                loss = self._loss(*batch) / parts
                loss.backward()
            total += loss.detach()
        norm = parallel.clip(self.model, self.train.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return total, norm, rate

    @torch.no_grad()
    def validation_loss(self) -> float:
        """The mean over evaluate_sequences, rounded up to whole micro batches of every process."""
        parts = -(-self.train.evaluate_sequences // (self.processes.count * self.micro))
        self.model.eval()
        total = 0.0
        for part in range(parts):
            first = (part * self.processes.count + self.processes.rank) * self.micro
            total += self._loss(*self.data.validation(first, self.micro)).item() / parts
        self.model.train()
        return self.processes.mean(total)[0]

    def run(self, until: Optional[int] = None) -> None:
        """Trains up to a step, by default the last, and saves. A signal ends it earlier."""
        end, train = until or self.train.steps, self.train
        begin = time.monotonic() - self.seconds
        while self.step < end and not self.signal:
            loss, norm, rate = self.take_step()
            self.seconds = time.monotonic() - begin
            is_last = self.step == train.steps
            validates = is_last or train.evaluate_every and self.step % train.evaluate_every == 0
            if validates or self.step % train.log_every == 0:
                self._report(loss.item(), norm.item(), rate, self.validation_loss() if validates else "")
            if train.checkpoint_every and self.step % train.checkpoint_every == 0 and self.step < end:
                self.save()
        self.save()

    def _report(self, loss: float, norm: float, rate: float, validation: Any) -> None:
        loss, number = self.processes.mean(loss, _signal_seen())
        # All processes end together: the mean decides, and this one may have got no signal itself.
        self.signal = (_signal_seen() or signal.SIGTERM) if number > 0 else 0
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"step {self.step}: the loss is {loss}; the last checkpoint is from before"
            )
        if self.log:
            tokens = data.count_tokens(self.config, self.step)
            values = (self.step, loss, validation, norm, rate, tokens, round(self.seconds, 3))
            self.log.add(dict(zip(("step", "loss", "validation_loss", "gradient_norm", "learning_rate",
                                   "tokens", "seconds"), values)))


def _check_same(config: dict[str, Any], saved: dict[str, Any]) -> None:
    """A run cannot go on with another model, other data or another rate."""
    for section, fields in config.items():
        for name, value in fields.items():
            was = saved.get(section, {}).get(name)
            if value != was and not (section == "train" and name in _FREE):
                raise ConfigError(
                    f"{section}.{name}: {value!r}; must be {was!r} as in the checkpoint of train.out, "
                    "or train.out another folder"
                )


_signals: list[int] = []


def _signal_seen() -> int:
    return _signals[0] if _signals else 0


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("config", help="a JSON file")
    parser.add_argument("overrides", nargs="*", help="section.field=value")
    options = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: _signals.append(number))
    try:
        run = Run(configs.load(options.config, options.overrides))
        run.run()
    except (ConfigError, OSError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 2
    finally:
        parallel.stop()
    return 128 + int(run.signal) if run.signal else 0


if __name__ == "__main__":
    sys.exit(main())
