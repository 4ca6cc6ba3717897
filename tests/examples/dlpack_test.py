#!/usr/bin/env python3
"""examples/dlpack: arrays of numpy go in and come back by DLPack.

    dlpack_test.py LIBRARY SOURCE_FOLDER

Exit code 77, with the reason, where the CPU device cannot be opened.
"""

import pathlib
import resource
import sys
import unittest

import numpy

LIBRARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "examples" / "dlpack"))
from attention import Attention  # noqa: E402


def definition(q, k, v, p=15):
    """Causal LSSAR in float64, as docs/math.md has it."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(numpy.float64) for x in (q, k.repeat(group, 1), v.repeat(group, 1)))
    unit_q, unit_k = (x / numpy.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    rows, keys = q.shape[2], k.shape[2]
    count = numpy.arange(1, rows + 1).reshape(-1, 1) + keys - rows
    scores = numpy.log(q.shape[3]) * numpy.log(count) * (unit_q @ unit_k.swapaxes(2, 3))
    weights = numpy.log1p(numpy.exp(scores)) * (numpy.arange(keys) < count)
    weights *= count / weights.sum(-1, keepdims=True)
    weights = numpy.maximum(weights - numpy.where(count <= 3, 0, 1), 0) ** p
    return weights / weights.sum(-1, keepdims=True) @ v


def inputs(dtype, heads_last=False):
    random = numpy.random.RandomState(1)
    sizes = (4, 33, 16), (2, 37, 16), (2, 37, 24)
    arrays = [random.standard_normal((2, *size)).astype(dtype) for size in sizes]
    if heads_last:  # the same numbers, laid out as [batch, length, heads, dim]
        arrays = [x.swapaxes(1, 2).copy().swapaxes(1, 2) for x in arrays]
    return arrays


class Arrays(unittest.TestCase):
    def test_values(self):
        for dtype, tolerance in ((numpy.float32, 1e-5), (numpy.float16, 1e-3)):
            q, k, v = inputs(dtype)
            o = numpy.from_dlpack(Attention(LIBRARY, q, v, causal=True)(q, k, v))
            self.assertEqual((o.shape, o.dtype), ((2, 4, 33, 24), dtype))
            wanted = definition(q, k, v)
            error = numpy.linalg.norm(o - wanted) / numpy.linalg.norm(wanted)
            self.assertLessEqual(error, tolerance)

    def test_strides_and_offsets(self):
        q, k, v = inputs(numpy.float32)
        attend = Attention(LIBRARY, q, v, causal=True)
        wanted = numpy.from_dlpack(attend(q, k, v))
        views = inputs(numpy.float32, heads_last=True)
        self.assertFalse(any(x.flags.c_contiguous for x in views))
        numpy.testing.assert_allclose(numpy.from_dlpack(attend(*views)), wanted, 1e-5, 1e-6)
        # The last sequence alone.
        part = [x[1:] for x in views]
        numpy.testing.assert_allclose(numpy.from_dlpack(attend(*part)), wanted[1:], 1e-5, 1e-6)

    def test_a_result_outlives_the_attention(self):
        q, k, v = inputs(numpy.float32)
        attend = Attention(LIBRARY, q, v, causal=True)
        result = attend(q, k, v)
        self.assertEqual(result.__dlpack_device__(), (1, 0))
        o = numpy.from_dlpack(result)
        kept = o.copy()
        del attend, result
        numpy.testing.assert_array_equal(o, kept)

    def test_a_result_is_taken_once(self):
        q, k, v = inputs(numpy.float32)
        result = Attention(LIBRARY, q, v, causal=True)(q, k, v)
        numpy.from_dlpack(result)
        with self.assertRaisesRegex(ValueError, "was taken before"):
            numpy.from_dlpack(result)

    def test_memory_is_freed(self):
        """Results that were taken, that were not, and capsules that nobody took: 24 MiB each."""
        q = numpy.ones((1, 1, 2**18, 16), numpy.float32)
        k, v = (numpy.ones((1, 1, 1, dim), numpy.float32) for dim in (16, 24))
        attend = Attention(LIBRARY, q, v, causal=True)
        enders = (numpy.from_dlpack, lambda result: None, lambda result: result.__dlpack__())
        for end in enders:
            end(attend(q, k, v))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(24):
            enders[i % 3](attend(q, k, v))
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertLess(grown, 64 * 1024)  # KiB; eight of them are 192 MiB


class Errors(unittest.TestCase):
    def check(self, text, q, k, v, attend=None):
        with self.assertRaisesRegex(ValueError, text):
            (attend or Attention(LIBRARY, q, v, causal=True))(q, k, v)

    def test_names_the_tensor(self):
        q, k, v = inputs(numpy.float32)
        attend = Attention(LIBRARY, q, v, causal=True)
        self.check("q: 3 dimensions; must be 4", q[0], k, v)
        self.check("q: 3 dimensions; must be 4", q[0], k, v, attend)
        self.check("q: type code 2 with 64 bits", q.astype(numpy.float64), k, v)
        self.check("q: type code 0 with 32 bits", q.astype(numpy.int32), k, v)
        self.check("k: must have the type", q, k.astype(numpy.float16), v, attend)
        self.check("k: size 8 in dimension 3; must be 16", q, k[..., :8], v, attend)
        self.check("v: size 36 in dimension 2; must be 37", q, k, v[:, :, 1:], attend)
        self.check("k: its last stride is 2; must be 1", q, k.repeat(2, 3)[..., ::2], v, attend)
        self.check("head_dim", q[..., :7], k, v)  # the library's own
        self.check("heads", q[:, :3], k, v, attend)


if __name__ == "__main__":
    tensors = inputs(numpy.float32)
    try:
        Attention(LIBRARY, tensors[0], tensors[2], causal=True)
    except ValueError as error:
        if "missing" not in str(error) and "unsupported" not in str(error):
            raise
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
