"""Shards, the order of batches, and the tasks."""

import unittest

import numpy as np
from small import InFolder, small

from examples.train import data, made, shards
from examples.train.fields import ConfigError


class ShardFiles(InFolder):
    def test_both_forms(self):
        tokens = np.arange(1000) * 65 % 65536
        for header in (True, False):
            path = self.folder / f"{header}.bin"
            shards.write(path, tokens, header)
            self.assertEqual(path.stat().st_size, 2000 + (1024 if header else 0))
            np.testing.assert_array_equal(shards.read(str(path)), tokens)

    def test_windows_stay_in_their_file(self):
        shards.write(self.folder / "a.bin", np.arange(25))  # two windows of 10, and 5 that are left
        shards.write(self.folder / "b.bin", np.arange(100, 110), header=False)  # none: 11 are needed
        shards.write(self.folder / "c.bin", np.arange(200, 211), header=False)
        found = shards.Shards(str(self.folder / "*.bin"), 10)
        self.assertEqual(len(found), 3)
        starts = [(int(w[0]), int(w[-1]), len(w)) for w in map(found.window, range(3))]
        self.assertEqual(starts, [(0, 10, 11), (10, 20, 11), (200, 210, 11)])

    def test_wrong_files(self):
        path, pattern = self.folder / "a.bin", str(self.folder / "*.bin")
        with self.assertRaisesRegex(ConfigError, "no such file; must be a pattern"):
            shards.Shards(pattern, 10)
        path.write_bytes(b"abc")
        with self.assertRaisesRegex(ConfigError, "3 bytes; a shard must be uint16"):
            shards.Shards(pattern, 10)
        shards.write(path, np.arange(50))
        whole = path.read_bytes()
        path.write_bytes(whole[:-2])
        with self.assertRaisesRegex(ConfigError, "1122 bytes; its header needs version 1, 1124"):
            shards.Shards(pattern, 10)
        path.write_bytes(whole)
        with self.assertRaisesRegex(ConfigError, "no file has 51 tokens"):
            shards.Shards(pattern, 50)
        with self.assertRaisesRegex(ConfigError, "token 30; must be below model.vocab, 25"):
            shards.Shards(pattern, 10, vocab=25).window(2)
        with self.assertRaisesRegex(ValueError, "0 to 65536; must be from 0 to 65535"):
            shards.write(path, np.array([0, 65536]))


class Order(InFolder):
    def setUp(self):
        super().setUp()
        for name in ("train", "validation"):
            shards.write(self.folder / f"{name}.bin", np.arange(7 * 16 + 1))
        pattern = {"data_train": str(self.folder / "train.bin")}
        pattern["data_validation"] = str(self.folder / "validation.bin")
        self.data = data.make(small(data_source="shards", model_vocab=128, **pattern))

    def windows(self, step, first=0, count=4):
        inputs, targets = self.data.batch(step, first, count)
        np.testing.assert_array_equal(inputs + 1, targets)
        return (inputs[:, 0] // 16).tolist()

    def test_each_epoch_has_every_window_once_in_another_order(self):
        order = [window for step in range(7) for window in self.windows(step)]
        epochs = [order[i : i + 7] for i in (0, 7, 14, 21)]
        for epoch in epochs:
            self.assertEqual(sorted(epoch), list(range(7)))
        self.assertGreater(len({tuple(epoch) for epoch in epochs}), 2)

    def test_a_step_needs_no_step_before_it(self):
        steps = [self.windows(step) for step in range(5)]
        self.assertEqual(self.windows(3), steps[3])
        self.assertEqual(self.windows(3, 0, 2) + self.windows(3, 2, 2), steps[3])

    def test_validation_is_in_order(self):
        inputs, _ = self.data.validation(2, 3)
        self.assertEqual((inputs[:, 0] // 16).tolist(), [2, 3, 4])

    def test_text_is_bytes(self):
        text = bytes(range(97, 97 + 17))
        (self.folder / "a.txt").write_bytes(text)
        name = str(self.folder / "a.txt")
        config = small(data_source="text", model_vocab=256, data_train=name, data_validation=name)
        inputs, targets = data.make(config).batch(0, 0, 1)
        self.assertEqual((bytes(inputs[0].tolist()), bytes(targets[0].tolist())), (text[:-1], text[1:]))


class Made(unittest.TestCase):
    def test_passkey(self):
        for number in range(50):
            tokens, targets = made.passkey(np.random.RandomState(number), 32, 16)
            (mark, end), key = np.flatnonzero(tokens == 0), targets[-1]
            self.assertEqual((end, tokens[mark + 1]), (15, key))
            self.assertTrue(16 <= key < 32 and (tokens[tokens >= 16] == key).all())
            self.assertEqual((targets != made.IGNORED).sum(), 1)

    def test_recall(self):
        for number in range(50):
            tokens, targets = made.recall(np.random.RandomState(number), 33, 40, pairs=8, queries=4)
            asked = np.flatnonzero(targets != made.IGNORED)
            self.assertEqual(asked.tolist(), [36, 37, 38, 39])
            for place in asked:
                first = np.flatnonzero(tokens == tokens[place])[0]
                self.assertLess(first, 36)
                self.assertEqual(tokens[first + 1], targets[place])
            self.assertEqual((tokens[:36] != 0).sum(), 16)

    def test_lengths_grow(self):
        """Each length has as many tokens, and validation always has model.length."""
        changes = {"data_pairs": 2, "data_queries": 4, "data_shortest": 8, "train_steps": 14}
        config = small(data_source="recall", model_length=32, **changes)
        grown = data.make(config)
        lengths = [grown.batch(step, 0, 4)[0].shape[1] for step in range(14)]
        self.assertEqual(lengths, [8] * 8 + [16] * 4 + [32] * 2)
        counts = [data.count_tokens(config, steps) for steps in range(15)]
        self.assertEqual(counts, [4 * sum(lengths[:steps]) for steps in range(15)])
        self.assertTrue(grown.batch(9, 2, 2)[0].equal(grown.batch(9, 0, 4)[0][2:]))
        self.assertEqual(grown.validation(0, 4)[0].shape, (4, 32))
        self.assertEqual(data.make(config, 64).validation(0, 4)[0].shape, (4, 64))
        self.assertEqual(data.count_tokens(small(), 3), 3 * 4 * 16)

    def test_language_has_habits(self):
        tokens = made.language(np.random.RandomState(3), 60, 4000)
        followers = {}
        for a, b in zip(tokens, tokens[1:]):
            followers.setdefault(a, []).append(b)
        self.assertLessEqual(len(followers), 10)
        likeliest = sum(max(map(x.count, set(x))) for x in followers.values())
        self.assertGreater(likeliest / 4000, 0.55)

    def test_splits_and_seeds_differ_and_repeat(self):
        for source, changes in (("made", {}), ("passkey", {}), ("recall", {"data_pairs": 4})):
            one, two = (data.make(small(data_source=source, **changes, data_seed=s)) for s in (1, 2))
            batch = one.batch(0, 0, 4)[0]
            self.assertTrue(batch.equal(one.batch(0, 0, 4)[0]))
            for other in (one.batch(1, 0, 4), one.validation(0, 4), two.batch(0, 0, 4)):
                self.assertFalse(batch.equal(other[0]))


if __name__ == "__main__":
    unittest.main()
