"""Checkpoints in lm-evaluation-harness: its results are those of the models' own log probabilities.

Needs lm-eval; packages.txt has what the tests install for it.
"""

import contextlib
import io
import json
import math
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from small import InFolder, small

os.environ["HF_HUB_OFFLINE"] = "1"  # no test may download
_cache = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = _cache.name  # where datasets keeps what it read

import lm_eval
import torch
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager

from examples.train import evaluate, harness, harness_model, harness_tasks, train
from examples.train.fields import ConfigError

TEXT = "".join(f"Line {i} of {i * i} words, {i % 7} and {i % 11}.\n" for i in range(400))
LENGTH = 16


def trained(folder, **changes):
    """A run of bytes of TEXT; larger steps than usual, so that it prefers some bytes to others."""
    (folder / "text").write_text(TEXT)
    name = str(folder / "text")
    values = {"data_source": "text", "data_train": name, "data_validation": name, "model_vocab": 256}
    values.update(train_steps=30, train_learning_rate=0.02, train_out=str(folder / "run"), **changes)
    with contextlib.redirect_stdout(io.StringIO()):
        train.Run(small(**values)).run()
    return folder / "run"


def direct(model, context, wanted):
    """Log probability of bytes after bytes, and whether it is the likeliest: one token at a time."""
    total, is_greedy = 0.0, True
    for i, token in enumerate(wanted):
        seen = (context + wanted[:i])[-LENGTH:]
        with torch.no_grad():
            logits = model(torch.tensor([list(seen)]))[0, -1].double()
        total += (logits[token] - logits.logsumexp(0)).item()
        is_greedy &= int(logits.argmax()) == token
    return total, is_greedy


def requests(kind, *arguments):
    return [Instance(kind, {}, pair, i) for i, pair in enumerate(arguments)]


class Results(InFolder):
    """One checkpoint of our attention, so that what fills up short rows would be seen."""

    @classmethod
    def setUpClass(cls):
        # It starts programs that say what is installed, which takes longer than all the tests.
        patch = mock.patch("lm_eval.evaluator.add_env_info")
        patch.start()
        cls.addClassCleanup(patch.stop)
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.run_folder = trained(pathlib.Path(cls.place.name))
        cls.config, cls.model = evaluate.load_model(cls.run_folder)

    def evaluate(self, task, **options):
        lm = harness_model.Checkpoint(self.config, self.model, **options)
        manager = TaskManager(include_defaults=False)
        found = lm_eval.simple_evaluate(lm, tasks=[task], task_manager=manager, bootstrap_iters=0, limit=12)
        return found["results"][task["task"]], found["samples"][task["task"]], lm

    def test_multiple_choice(self):
        task = harness_tasks.make("text_choice", self.config.data.validation, LENGTH)
        values, samples, lm = self.evaluate(task)
        right = 0
        documents = harness_tasks.choices(TEXT, LENGTH)[:12]
        for document, sample in zip(documents, samples, strict=True):
            self.assertIn(document["context"] + document["choices"][document["right"]], TEXT)
            context = document["context"].rstrip()  # the harness moves spaces to the passages
            space = document["context"][len(context) :]
            wanted = [
                direct(self.model, context.encode(), (space + x).encode()) for x in document["choices"]
            ]
            for (value, is_greedy), ours in zip(wanted, sample["filtered_resps"], strict=True):
                self.assertAlmostEqual(ours[0], value, places=4)
                self.assertEqual(ours[1], is_greedy)
            best = max(range(4), key=lambda i: wanted[i][0])
            self.assertEqual(sample["acc"], float(best == document["right"]))
            right += best == document["right"]
        self.assertAlmostEqual(values["acc,none"], right / 12)
        self.assertTrue(0 < right < 12)  # all or none would hide a wrong order
        self.assertEqual(lm.cut, 0)

    def test_loss_of_a_text(self):
        task = harness_tasks.make("text_loss", self.config.data.validation, 45)  # three windows each
        values, samples, _ = self.evaluate(task)
        total = 0.0
        for i, sample in enumerate(samples):
            text = TEXT[45 * i : 45 * i + 45].encode()
            # Two whole windows from a new line on; the last one has a whole window too, and its rest counts.
            value = direct(self.model, b"\n", text[:16])[0]
            value += direct(self.model, text[15:16], text[16:32])[0]
            with torch.no_grad():
                logits = self.model(torch.tensor([list(text[28:44])]))[0, -13:].double().log_softmax(-1)
            value += sum(logits[j, byte].item() for j, byte in enumerate(text[32:45]))
            self.assertAlmostEqual(sample["filtered_resps"][0], value, places=4)
            total += value
        self.assertAlmostEqual(values["bits_per_byte,none"], -total / math.log(2) / (12 * 45), places=6)

    def test_longer_window(self):
        """With --times the window is longer, and positions are stretched."""
        pair = (TEXT[:42], TEXT[42:46])
        values = []
        for times, rope in ((1, "none"), (3, "none"), (3, "ntk")):
            lm = harness_model.Checkpoint(self.config, self.model, times=times, rope=rope)
            values.append(lm.loglikelihood(requests("loglikelihood", pair), disable_tqdm=True)[0][0])
            self.assertEqual(lm.cut, int(times == 1))
        self.assertEqual(len(set(values)), 3)
        self.model.rope.stretch("none", 1)
        with torch.no_grad():
            whole = self.model(torch.tensor([list(TEXT[:45].encode())]))[0, -4:].double().log_softmax(-1)
        wanted = sum(whole[i, byte].item() for i, byte in enumerate(TEXT[42:46].encode()))
        self.assertAlmostEqual(values[1], wanted, places=4)

    def test_log_probabilities(self):
        """Contexts that are empty, longer than the window, or end with a space; letters of two bytes."""
        pairs = (("", "Line"), (TEXT[:50], "abc"), ("Line ", "1"), ("ä", "öü"), ("", "\nL"))
        wanted = [
            direct(self.model, b"\n", b"Line"),
            direct(self.model, TEXT[:50].encode()[-14:], b"abc"),
            direct(self.model, b"Line", b" 1"),  # the harness moves the space
            direct(self.model, "ä".encode(), "öü".encode()),
            direct(self.model, b"\n", b"L"),  # the harness takes the first as the context
        ]
        lm = harness_model.Checkpoint(self.config, self.model)
        found = lm.loglikelihood(requests("loglikelihood", *pairs), disable_tqdm=True)
        for ours, value in zip(found, wanted, strict=True):
            self.assertAlmostEqual(ours[0], value[0], places=4)
            self.assertEqual(ours[1], value[1])
        self.assertEqual(lm.loglikelihood_rolling(requests("loglikelihood_rolling", ("",))), [0])
        with self.assertRaisesRegex(ConfigError, "has 17 tokens; must have at most 16, the window"):
            lm.loglikelihood(requests("loglikelihood", ("a", "b" * 17)), disable_tqdm=True)

    def test_made_texts(self):
        def wanted(context, stops, most):
            seen, made = list(context.encode() or b"\n"), b""
            while len(made) < most and not any(stop.encode() in made for stop in stops):
                with torch.no_grad():
                    token = int(self.model(torch.tensor([seen[-LENGTH:]]))[0, -1].argmax())
                seen.append(token)
                made += bytes([token])
            text = made.decode(errors="replace")
            return text[: min([text.find(stop) for stop in stops if stop in text], default=len(text))]

        lm = harness_model.Checkpoint(self.config, self.model)
        asked = ((TEXT[:30], ["zzz"], 9), ("Line 7", ["zzz"], 4), ("", ["zzz"], 12), ("L", ["zzz"], 0))
        stop = wanted("Line 7", ["zzz"], 9)[3:5]  # what it does write
        asked += (("Line 7", [stop, "zzz"], 9),)
        pairs = [(text, {"until": stops, "max_gen_toks": most}) for text, stops, most in asked]
        found = lm.generate_until(requests("generate_until", *pairs))
        self.assertEqual(found, [wanted(*x) for x in asked])
        self.assertEqual(len(found[4]), found[1].find(stop) if stop in found[1] else 3)
        with self.assertRaisesRegex(ConfigError, "do_sample: true; must be false"):
            lm.generate_until(requests("generate_until", ("a", {"do_sample": True})))

    def run_program(self, *arguments):
        said, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            code = harness.main([str(self.run_folder), *arguments])
        return code, said.getvalue(), errors.getvalue()

    def test_program_with_a_task_of_ones_own(self):
        """A YAML file and a file of documents; another attention and p."""
        documents = [{"q": "Line", "a": " 1"}, {"q": "of 4", "a": " words"}]
        (self.folder / "documents.json").write_text("\n".join(map(json.dumps, documents)))
        (self.folder / "own.yaml").write_text(
            "task: own\ndataset_path: json\ndataset_kwargs:\n  data_files:\n"
            f"    test: {self.folder}/documents.json\ntest_split: test\noutput_type: loglikelihood\n"
            'doc_to_text: "{{q}}"\ndoc_to_target: "{{a}}"\ntarget_delimiter: ""\n'
            "metric_list:\n  - metric: perplexity\n    aggregation: perplexity\n    higher_is_better: false\n"
        )
        output = self.folder / "results.json"
        code, said, _ = self.run_program(
            "--tasks", str(self.folder / "own.yaml"), "--p", "3", "--bootstrap", "0", "--output", str(output)
        )
        self.assertEqual(code, 0)
        _, other = evaluate.load_model(self.run_folder)
        harness.models.read_with(other, p=3)
        sums = [direct(other, x["q"].encode(), x["a"].encode())[0] for x in documents]
        found = json.loads(output.read_text())["results"]["own"]["perplexity,none"]
        self.assertAlmostEqual(found / math.exp(-sum(sums) / 2), 1, places=5)
        self.assertEqual(said, f"{'own':20} {'perplexity':20} {found:.4f}\n")

    def test_program_errors(self):
        cases = (
            (("--tasks", "none.yaml"), "harness: --tasks: 'none.yaml'; no such file"),
            (("--tasks", "text_loss", "--text", "nowhere"), "harness: --text: 'nowhere'; must be a file"),
            (("--tasks", "text_loss", "--tokenizer", "x"), "harness: --tokenizer: 'x'; must be absent with"),
            (("--tasks", "text_loss", "--attention", "softplux"), "harness: model.attention: 'softplux'"),
        )
        for arguments, message in cases:
            code, _, errors = self.run_program(*arguments)
            self.assertEqual((code, errors[: len(message)]), (2, message), errors)


class OfShards(InFolder):
    def test_tokenizer(self):
        import tokenizers

        words = {"<|endoftext|>": 0, "a": 1, "b": 2, "?": 3}
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "?"))
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        made.save(str(self.folder / "tokenizer.json"))
        tokens = harness_model.Tokens(str(self.folder / "tokenizer.json"), 4)
        self.assertEqual((tokens.encode("b a c"), tokens.start, tokens.end), ([2, 1, 3], 0, 0))
        self.assertEqual(tokens.decode([1, 2]), "a b")
        cases = ((3, "its 4 tokens must be at most 3, model.vocab"),)
        for vocab, message in cases:
            with self.assertRaisesRegex(ConfigError, message):
                harness_model.Tokens(str(self.folder / "tokenizer.json"), vocab)
        with self.assertRaisesRegex(ConfigError, "--tokenizer: '.*none'; must be a tokenizer.json"):
            harness_model.Tokens(str(self.folder / "none"), 4)
        with self.assertRaisesRegex(ConfigError, "data.source: 'made'; must be text or shards"):
            harness_model.Checkpoint(small(), None)


if __name__ == "__main__":
    unittest.main()
