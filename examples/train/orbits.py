"""Planets on orbits by Newton's law around a sun at the origin, with G M = 1.

Positions are exact: Kepler's equation is solved in float64. Times between them are equal.
"""

from typing import Optional

import numpy as np

STEP = 0.2  # time between two positions; the orbit of axis 1 takes 2 pi
AXES = (0.8, 1.6)  # least and largest semi-major axis
ECCENTRICITY = 0.4  # the largest


def positions(
    random: np.random.RandomState, count: int, axes: Optional[tuple[float, float]] = None
) -> np.ndarray:
    """`count` positions of a planet, [count, 2]: any orbit, any start, either way round."""
    axis = random.uniform(*(axes or AXES))
    eccentricity = random.uniform(0, ECCENTRICITY)
    start, turn = random.uniform(0, 2 * np.pi, size=2)
    way = random.choice((-1.0, 1.0))
    mean = start + axis**-1.5 * STEP * np.arange(count)
    x = axis * np.stack(_in_plane(mean, eccentricity))
    x[1] *= way
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return (rotation @ x).T


def _in_plane(mean: np.ndarray, eccentricity: float) -> tuple[np.ndarray, np.ndarray]:
    """x and y over the axis, from the mean anomaly. Newton's method: 8 steps are enough for any
    eccentricity up to ECCENTRICITY."""
    angle = mean + eccentricity * np.sin(mean)
    for _ in range(8):
        rest = angle - eccentricity * np.sin(angle) - mean
        angle = angle - rest / (1 - eccentricity * np.cos(angle))
    return np.cos(angle) - eccentricity, np.sqrt(1 - eccentricity**2) * np.sin(angle)


def row(
    random: np.random.RandomState, length: int, axes: Optional[tuple[float, float]] = None
) -> tuple[np.ndarray, np.ndarray]:
    """Positions and the next ones, [length, 2]. The first next one is NaN, a target that no loss is
    taken of: one position has no velocity."""
    found = positions(random, length + 1, axes).astype(np.float32)
    targets = found[1:].copy()
    targets[0] = np.nan
    return found[:-1], targets
