"""The time of a step by length: the tool on short sequences, and its table."""

import contextlib
import io
import json
import unittest
from unittest import mock

from small import ROOT, InFolder

import torch

from examples.train import step_time


class StepTime(InFolder):
    def test_short_sequences(self):
        path = self.folder / "cpu.json"
        arguments = ["--lengths", "16", "64", "--rounds", "2", "--threads", "1", "--output", str(path)]
        with contextlib.redirect_stdout(io.StringIO()) as said, mock.patch.object(step_time, "TOKENS", 64):
            self.assertEqual(step_time.main(arguments), 0)
        found = json.loads(path.read_text())
        self.assertEqual((found["lengths"], found["threads"], found["tokens"]), ([16, 64], [1], 64))
        for steps in found["milliseconds"][0]:
            self.assertEqual(list(steps), list(step_time.ATTENTIONS))
            for low, middle, high in steps.values():
                self.assertTrue(0 < low <= middle <= high)
        self.assertEqual(said.getvalue(), step_time.table(found))
        self.assertEqual(torch.get_num_threads(), 1)  # as before

    def test_table(self):
        steps = {"sdpa": [1.0, 3.0, 4.0], "lssar": [1.0, 2.0, 2.4]}
        found = {"threads": [2], "lengths": [64], "milliseconds": [[steps]]}
        self.assertEqual(step_time.table(found).splitlines(), [
            "| threads | length | SDPA | LSSAR, p = 15 | SDPA's / LSSAR's |",
            "| --- | --- | --- | --- | --- |",
            "| 2 | 64 | 3 (1 to 4) | 2 (1 to 2) | 1.50 |",
        ])  # fmt: skip

    def test_every_length_has_as_many_tokens(self):
        for length in step_time.LENGTHS:
            config = step_time._run("sdpa", length).config
            self.assertEqual(config.train.batch * config.model.length, step_time.TOKENS)

    def test_kept_times(self):
        found = json.loads((ROOT / "docs" / "evidence" / "step_time" / "cpu.json").read_text())
        self.assertEqual((found["lengths"], found["threads"]), (list(step_time.LENGTHS), [1, 2]))
        self.assertEqual((found["rounds"], found["tokens"]), (step_time.ROUNDS, step_time.TOKENS))

    def test_refuses(self):
        for arguments, message in (
            (["--rounds", "1"], "--rounds: 1; must be 2 or more"),
            (["--lengths", "0"], "--lengths and --threads: must be 1 or more"),
        ):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                step_time.main(arguments)
            self.assertIn(message, said.getvalue())


if __name__ == "__main__":
    unittest.main()
