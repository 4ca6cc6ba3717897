"""Data that is made, not downloaded: a language, two retrieval tasks, and images.

Everything is drawn from numpy's RandomState, whose stream is the same in every version of numpy.
"""

import numpy as np

IGNORED = -100  # a target that no loss is taken of
SHAPES = 10


def language(random: np.random.RandomState, vocab: int, count: int) -> np.ndarray:
    """`count` tokens of one document.

    A document uses a sixth of the vocabulary. Each of its words has two successors there, which
    follow it in 6 and 2 of 10 cases; else any of its words follows. Only the context shows a
    document's words and successors, so more context gives a lower loss.
    """
    words = random.permutation(vocab)[: max(4, vocab // 6)]
    # Lists: elements of arrays take several times longer.
    first, second = random.randint(len(words), size=(2, len(words))).tolist()
    jump, choice = random.randint(len(words), size=count).tolist(), random.random_sample(count).tolist()
    places, at = [], 0
    for i in range(count):
        places.append(at)
        at = first[at] if choice[i] < 0.6 else second[at] if choice[i] < 0.8 else jump[i]
    return words[places]


def passkey(random: np.random.RandomState, vocab: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Filler with a mark and a key of one token somewhere, and the mark again at the end.

    The key is the only target. Keys are the upper half of the vocabulary, filler the lower, without
    token 0, the mark. Returns tokens and targets, [length].
    """
    filler = random.randint(1, vocab // 2, size=length)
    key, place = random.randint(vocab // 2, vocab), random.randint(0, length - 3)
    filler[place : place + 2] = 0, key
    filler[-1] = 0
    targets = np.full(length, IGNORED, dtype=np.int64)
    targets[-1] = key
    return filler.astype(np.int64), targets


def recall(
    random: np.random.RandomState, vocab: int, length: int, pairs: int, queries: int
) -> tuple[np.ndarray, np.ndarray]:
    """Multi-query associative recall: `pairs` of a key and a value among filler, then some of the keys.

    The value is the target of each of the `queries` keys at the end. Tokens: 0 is filler, keys are
    the lower half of the rest, values the upper. Returns tokens and targets, [length].
    """
    half = (vocab - 1) // 2
    keys = 1 + random.permutation(half)[:pairs]
    values = 1 + half + random.randint(half, size=pairs)
    # Places of two tokens each, in the part before the queries.
    places = np.sort(random.permutation((length - queries) // 2)[:pairs]) * 2
    asked = random.randint(pairs, size=queries)
    tokens, targets = np.zeros(length, dtype=np.int64), np.full(length, IGNORED, dtype=np.int64)
    tokens[places], tokens[places + 1] = keys, values
    tokens[length - queries :] = keys[asked]
    targets[length - queries :] = values[asked]
    return tokens, targets


def shape(random: np.random.RandomState, side: int) -> tuple[np.ndarray, int]:
    """An image of stripes in noise, [side, side]; its class is their direction, of SHAPES."""
    kind = random.randint(SHAPES)
    y, x = np.mgrid[:side, :side]
    angle, phase = np.pi * kind / SHAPES, random.uniform(0, 2 * np.pi)
    wave = np.sin(2 * np.pi * 4 / side * (x * np.cos(angle) + y * np.sin(angle)) + phase)
    return (wave + random.standard_normal((side, side))).astype(np.float32), kind
