"""What a CPU can reach: multiply-adds in a second, by a loop of machine code that is written here,
so that nothing need be compiled, and the rate of copying memory.

The loop is for x86-64 with FMA; elsewhere, and where the system refuses executable memory, there
is no figure.
"""

import ctypes
import mmap
import platform
import threading
import time

SAMPLE_SECONDS = 0.005
NUM_SAMPLES = 3
COPY_BYTES = 256 << 20


def _vex_fma(to, a, b):
    """vfmadd231ps ymm_to, ymm_a, ymm_b; registers 0 to 15."""
    return bytes(
        [
            0xC4,
            (to < 8) << 7 | 1 << 6 | (b < 8) << 5 | 0b00010,
            (~a & 15) << 3 | 0b101,
            0xB8,
            0xC0 | (to & 7) << 3 | b & 7,
        ]
    )


def _evex(to, a, b, opcode, opcode_map):
    """An instruction of zmm registers 0 to 31 with the prefix 66."""
    return bytes(
        [
            0x62,
            (not to & 8) << 7
            | (not b & 16) << 6
            | (not b & 8) << 5
            | (not to & 16) << 4
            | opcode_map,
            (~a & 15) << 3 | 0b101,
            0b01000000 | (not a & 16) << 3,
            opcode,
            0xC0 | (to & 7) << 3 | b & 7,
        ]
    )


def fma_loop(zmm):
    """(machine code of void(int64_t rounds, const float operands[2]), FLOP of a round).

    Enough sums at a time to hide the latency of an FMA; none depends on another.
    """
    if zmm:
        sums, lanes, a, b = range(24), 16, 30, 31
        # vpxord of each sum; vbroadcastss zmm30, [rsi]; vbroadcastss zmm31, [rsi + 4].
        head = b"".join(_evex(i, i, i, 0xEF, 1) for i in sums)
        head += bytes.fromhex("62627d481836") + bytes.fromhex("62627d48187e01")
        body = b"".join(_evex(i, a, b, 0xB8, 2) for i in sums)
    else:
        sums, lanes, a, b = range(12), 8, 14, 15
        # vzeroall; vbroadcastss ymm14, [rsi]; vbroadcastss ymm15, [rsi + 4].
        head = bytes.fromhex("c5fc77") + bytes.fromhex("c4627d1836") + bytes.fromhex("c4627d187e04")
        body = b"".join(_vex_fma(i, a, b) for i in sums)
    body *= 8
    # dec rdi; jnz to the body; vzeroupper; ret.
    back = -(len(body) + 9)
    tail = bytes.fromhex("48ffcf") + b"\x0f\x85" + back.to_bytes(4, "little", signed=True)
    return head + body + tail + bytes.fromhex("c5f877c3"), len(sums) * 8 * lanes * 2


def _on_threads(num_threads, call):
    """Seconds in which `call(i)` of all threads have run. ctypes lets go of Python's lock."""
    barrier = threading.Barrier(num_threads + 1)

    def run(i):
        barrier.wait()
        call(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(num_threads)]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


class Peak:
    """`flags`: the CPU's features as /proc/cpuinfo names them."""

    def __init__(self, flags):
        flags = flags.split()
        self._call = None
        if platform.machine() != "x86_64" or not {"avx2", "fma"} <= set(flags):
            return
        code, self._flop = fma_loop("avx512f" in flags)
        try:
            rights = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            self._memory = mmap.mmap(-1, len(code), prot=rights)
        except OSError:
            return
        self._memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(address)
        self._operands = (ctypes.c_float * 2)(1.0, 1e-6)
        self._rounds = self._rounds_of_a_sample()

    def _seconds(self, num_threads, rounds):
        return _on_threads(num_threads, lambda _: self._call(rounds, self._operands))

    def _rounds_of_a_sample(self):
        rounds = 1000
        while self._seconds(1, rounds) < SAMPLE_SECONDS:
            rounds *= 2
        return rounds

    def fma_gflops(self, num_threads):
        """The best of a few short samples; None where there is no loop."""
        if self._call is None:
            return None
        best = min(self._seconds(num_threads, self._rounds) for _ in range(NUM_SAMPLES))
        return num_threads * self._rounds * self._flop / best / 1e9


def copy_gbytes_per_second(num_threads):
    """The best of a few copies of memory that no cache holds: bytes read and written."""
    source, target = (ctypes.create_string_buffer(COPY_BYTES) for _ in range(2))
    ctypes.memset(source, 1, COPY_BYTES)
    part = COPY_BYTES // num_threads

    def copy(i):
        place = i * part
        ctypes.memmove(ctypes.addressof(target) + place, ctypes.addressof(source) + place, part)

    best = min(_on_threads(num_threads, copy) for _ in range(NUM_SAMPLES))
    return 2 * part * num_threads / best / 1e9
