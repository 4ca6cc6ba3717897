"""Orbits and what is read of the force: true orbits, other laws, and the page of the kept runs."""

import json
import math
import unittest

import numpy as np
import torch
from small import InFolder

from examples.train import evaluate, force, model as models, newton, orbits, train
from examples.train.fields import ConfigError

LENGTH = 32


def after(positions, power):
    """The next positions if the acceleration were r^-power towards the sun."""
    before = torch.cat((positions[:, :1], positions[:, :-1]), dim=1)
    r = positions.norm(dim=-1, keepdim=True)
    return 2 * positions - before - orbits.STEP**2 * positions / r ** (power + 1)


class Orbits(unittest.TestCase):
    def test_keplers_laws(self):
        """Equal areas in equal times; an ellipse with the sun in a focus; periods as axis^1.5."""
        for seed in range(5):
            x = orbits.positions(np.random.RandomState(seed), 400, (1.0, 1.0))
            r = np.linalg.norm(x, axis=1)
            largest, smallest = r.max(), r.min()
            self.assertAlmostEqual((largest + smallest) / 2, 1, delta=0.01)
            eccentricity = (largest - smallest) / 2
            self.assertLessEqual(eccentricity, orbits.ECCENTRICITY)
            # The other focus is at 2 e from the sun, away from the nearest point.
            focus = -2 * eccentricity * x[r.argmin()] / smallest
            np.testing.assert_allclose(r + np.linalg.norm(x - focus, axis=1), 2, atol=0.02)
            turns = np.unwrap(np.arctan2(x[:, 1], x[:, 0]))
            time = 399 * orbits.STEP
            self.assertAlmostEqual(abs(turns[-1] - turns[0]) / time, 1, delta=0.02 + 2 / time)
        wide = orbits.positions(np.random.RandomState(3), 400, (2.0, 2.0))
        turns = np.unwrap(np.arctan2(wide[:, 1], wide[:, 0]))
        self.assertAlmostEqual(abs(turns[-1] - turns[0]) / time, 2**-1.5, delta=0.02)

    def test_both_ways_round(self):
        ways = set()
        for seed in range(8):
            x = orbits.positions(np.random.RandomState(seed), 2)
            ways.add(np.sign(x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]))
        self.assertEqual(ways, {-1, 1})

    def test_the_first_target_is_not_known(self):
        positions, targets = orbits.row(np.random.RandomState(1), 4)
        self.assertTrue(np.isnan(targets[0]).all())
        np.testing.assert_array_equal(positions[2:], targets[1:-1])
        found = torch.from_numpy(targets + np.float32(0.5))
        found[0] = 7
        self.assertAlmostEqual(train.loss_of(found, torch.from_numpy(targets)).item(), 0.25, places=6)


class Force(unittest.TestCase):
    def test_of_true_orbits(self):
        for times, axes in newton.READINGS.values():
            positions, following = force.sample(1, 24, times * LENGTH, axes)
            exponent, fits = force.law(positions, following)
            self.assertAlmostEqual(exponent, 2, delta=0.03)
            self.assertGreater(fits, 0.999)
            self.assertEqual(force.error(positions, following, following), 0)
            straight = 2 * positions - torch.roll(positions, 1, 1)
            self.assertAlmostEqual(force.error(positions, following, straight), 1, places=6)

    def test_of_other_laws(self):
        positions, _ = force.sample(2, 24, LENGTH)
        for power in (-1, 1, 3):
            self.assertAlmostEqual(force.law(positions, after(positions, power))[0], power, delta=0.04)
        before = torch.roll(positions, 1, 1)
        exponent, fits = force.law(positions, 2 * positions - before + 0.01 * positions)  # away from the sun
        self.assertTrue(math.isnan(exponent) and fits == 0)

    def test_probe(self):
        """1 for features that have the force, about 0 for those that know nothing, less for position."""
        fit, test = (force.sample(seed, 24, LENGTH)[0] for seed in (3, 4))
        random = torch.Generator().manual_seed(1)
        knows, none = [], []
        mixing = torch.randn(8, 8, generator=random, dtype=torch.float64)
        for positions in (fit, test):
            of = force.force(positions)
            noise = torch.randn(len(of), 6, generator=random)
            mixed = torch.cat((of, noise), dim=1) @ mixing
            knows += [mixed, of]
            none += [torch.randn(len(of), 6, generator=random), of]
        self.assertGreater(force.probe(*knows), 0.9999)
        self.assertAlmostEqual(force.probe(*none), 0, delta=0.1)
        rows = force.sample(3, 24, LENGTH), force.sample(4, 24, LENGTH)
        self.assertTrue(0.3 < force.probe_of(None, *rows) < 0.95)


class Runs(InFolder):
    def test_a_short_run(self):
        run = newton.make("softmax", 2, str(self.folder), quick=True)
        self.assertEqual([step for step, _ in run["curve"]], [1, 2, 3, 4])
        self.assertEqual(list(run["readings"]), list(newton.READINGS))
        for reading in run["readings"].values():
            self.assertAlmostEqual(reading["true_exponent"], 2, delta=0.03)
            self.assertTrue(0 < reading["probe_r2"] < 1)
        _, model = evaluate.load_model(str(self.folder))
        self.assertEqual(newton.read(model, 2, 1, None), run["readings"]["new orbits of the same kind"])
        json.dumps(run, allow_nan=False)

    def test_a_younger_field_does_not_make_a_run_old(self):
        spec = newton.specs()[0]
        values = newton.config_of(spec.attention, spec.seed).to_json()
        del values["data"]["shortest"]
        self.assertTrue(spec.is_of({"config": values}, False))
        values["train"]["steps"] += 1
        self.assertFalse(spec.is_of({"config": values}, False))
        values["train"]["old"] = 1
        self.assertFalse(spec.is_of({"config": values}, False))

    def test_tables(self):
        def run(attention, seed, exponent):
            fit = 0.5 if exponent else 0.0  # as files have it
            values = {"error": 0.1, "exponent": exponent, "fit_r2": fit, "true_exponent": 2.0}
            values["probe_r2"] = 0.25
            return {"attention": attention, "readings": {name: values for name in newton.READINGS}}

        runs = [run("softmax", 1, 1.0), run("softmax", 2, 2.0), run("lssar_p15", 1, None)]
        lines = newton.reading_table(runs, "new orbits of the same kind").splitlines()[2:]
        error, fits, probe = (f"{x:.3f} ({x:.3f} to {x:.3f})" for x in (0.1, 0.5, 0.25))
        self.assertEqual(lines, [
            f"| softmax | 2 | {error} | 1.500 (1.000 to 2.000) | {fits} | {probe} |",
            "| LSSAR, p = 15 | 1 | 0.100 | none | none | 0.250 |",
        ])  # fmt: skip

    def test_models_of_points_are_not_read_as_text(self):
        config = newton.config_of("softmax", 1)
        with self.assertRaisesRegex(ConfigError, "model.points: true; must be false"):
            evaluate.read(config, models.make(config.model))


if __name__ == "__main__":
    unittest.main()
