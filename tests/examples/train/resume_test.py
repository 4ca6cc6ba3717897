"""A run that was interrupted equals one that was not; two processes equal one."""

import contextlib
import io
import multiprocessing
import os
import signal
import socket
import unittest
from unittest import mock

import numpy as np
import torch
from small import CONFIGS, InFolder, small

from examples.train import checkpoint, config as configs, shards, train
from examples.train.fields import ConfigError


def quiet_run(config, until=None):
    with contextlib.redirect_stdout(io.StringIO()):
        run = train.Run(config)
        run.run(until)
    return run


def without_seconds(path):
    return [line.rsplit(",", 1)[0] for line in path.read_text().splitlines()]


class Resume(InFolder):
    def both(self, **changes):
        """A whole run, and one that is lost two steps behind a checkpoint and goes on."""
        folders = [self.folder / name for name in ("whole", "parts")]
        whole, parts = (
            small(train_out=str(x), train_checkpoint_every=2, **changes) for x in folders
        )
        whole = quiet_run(whole)
        with mock.patch.object(train.Run, "save", lambda run: run.step % 2 or SAVE(run)):
            quiet_run(parts, until=3)
        self.assertEqual(checkpoint.steps(folders[1]), [2])
        resumed = train.Run(parts)
        self.assertEqual(resumed.step, 2)
        quiet_run(parts)
        logs = [without_seconds(x / "log.csv") for x in folders]
        self.assertEqual(logs[0], logs[1])
        self.assertEqual(len(logs[0]), 7)
        return [checkpoint.read(checkpoint.path_of(x, 6)) for x in folders]

    def test_gives_the_same_bits(self):
        whole, parts = self.both(train_micro_batch=2, model_attention="lssar")
        for name, weight in whole["model"].items():
            self.assertTrue(torch.equal(weight, parts["model"][name]), name)
        for name, moments in whole["optimizer"]["state"].items():
            for key, value in moments.items():
                self.assertTrue(torch.equal(value, parts["optimizer"]["state"][name][key]), name)

    def test_a_crash_while_writing_leaves_the_last(self):
        config = small(train_out=str(self.folder), model_attention="sdpa")
        quiet_run(config, until=2)
        for broken in ("os.fsync", "os.replace"):
            with mock.patch(broken, side_effect=OSError("disk")), self.assertRaises(OSError):
                quiet_run(config, until=4)
            self.assertEqual(os.listdir(self.folder).count("step_00000002.pt"), 1)
            self.assertEqual([x for x in os.listdir(self.folder) if x.endswith(".part")], [])
        self.assertEqual(train.Run(config).step, 2)

    def test_keeps_the_last_ones(self):
        quiet_run(small(train_out=str(self.folder), train_checkpoint_every=1, model_attention="sdpa"))
        self.assertEqual(checkpoint.steps(self.folder), [5, 6])

    def test_only_with_the_same_model(self):
        quiet_run(small(train_out=str(self.folder), model_attention="sdpa"), until=1)
        with self.assertRaisesRegex(ConfigError, "model.width: 48; must be 32 as in the checkpoint"):
            train.Run(small(train_out=str(self.folder), model_attention="sdpa", model_width=48))
        quiet_run(small(train_out=str(self.folder), model_attention="sdpa", train_micro_batch=1), until=2)
        (self.folder / "step_00000002.pt").write_bytes(b"not one")
        with self.assertRaisesRegex(ConfigError, "step_00000002.pt: not a checkpoint"):
            train.Run(small(train_out=str(self.folder), model_attention="sdpa"))

    def test_a_signal_saves(self):
        """SIGTERM behind step 3 of a run of the program ends it there with 143."""
        take_step, seen = train.Run.take_step, []

        def step(run):
            if run.step == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            seen.append(run.step)
            return take_step(run)

        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        overrides = [f"train.out={self.folder}", "train.log_every=1", "model.attention=sdpa"]
        try:
            with mock.patch.object(train.Run, "take_step", step), contextlib.redirect_stdout(io.StringIO()):
                code = train.main([str(CONFIGS / "tiny.json"), *overrides])
        finally:
            train._signals.clear()
            for number, handler in before.items():
                signal.signal(number, handler)
        self.assertEqual((code, seen, checkpoint.steps(self.folder)), (143, [0, 1, 2], [3]))


SAVE = train.Run.save


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _process(rank, port, config):
    """What torchrun sets, then a run."""
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    quiet_run(config)
    train.parallel.stop()


class Processes(InFolder):
    def run_two(self, config):
        fork, port = multiprocessing.get_context("fork"), _free_port()
        started = [fork.Process(target=_process, args=(rank, port, config)) for rank in (0, 1)]
        for process in started:
            process.start()
        for process in started:
            process.join(120)
        self.assertEqual([process.exitcode for process in started], [0, 0])

    def test_two_equal_one(self):
        """Losses and weights, whichever way the two share the work; either resumes the other's run."""
        for kind in ("one", "ddp", "fsdp"):
            changes = {"train_micro_batch": 1, "train_parallel": kind if kind != "one" else "ddp"}
            config = small(train_out=str(self.folder / kind), model_attention="lssar", **changes)
            quiet_run(config) if kind == "one" else self.run_two(config)
        wanted = checkpoint.read(checkpoint.path_of(self.folder / "one", 6))
        for kind in ("ddp", "fsdp"):
            found = checkpoint.read(checkpoint.path_of(self.folder / kind, 6))
            self.assertEqual(found["model"].keys(), wanted["model"].keys())
            for name, weight in wanted["model"].items():
                torch.testing.assert_close(found["model"][name], weight, atol=2e-5, rtol=1e-4, msg=name)
            logs = [self.numbers(self.folder / x / "log.csv") for x in ("one", kind)]
            np.testing.assert_allclose(logs[1], logs[0], rtol=1e-4)
            resumed = train.Run(small(train_out=str(self.folder / kind), train_micro_batch=1))
            self.assertEqual(resumed.step, 6)

    def numbers(self, path):
        lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
        return [[float(x) for x in line[:-1] if x] for line in lines if len(line) > 2 and line[2] == ""]


class BigConfigs(InFolder):
    def test_two_steps_at_reduced_width(self):
        for name in ("train_1", "val_1"):
            shards.write(self.folder / f"{name}.bin", np.arange(3000) % 50304)
        sizes = ["model.layers=2", "model.width=32", "model.hidden=32", "model.length=64", "train.steps=2"]
        sizes += ["train.batch=4", "train.micro_batch=2", "train.warmup=1", "train.device=cpu"]
        sizes += ["train.evaluate_sequences=2", "model.vocab=50304", "train.dtype=float32"]
        files = [f"data.train={self.folder}/train_*.bin", f"data.validation={self.folder}/val_*.bin"]
        heads = {"124M": ["model.heads=2"], "1B": ["model.heads=2", "model.kv_heads=1"]}
        for name, own in heads.items():
            run = quiet_run(configs.load(CONFIGS / f"{name}.json", sizes + files + own))
            self.assertEqual(run.step, 2)


if __name__ == "__main__":
    unittest.main()
