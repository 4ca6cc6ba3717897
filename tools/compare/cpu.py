"""The CPU as a place where things run: timing, peak memory, and what the machine is.

All contenders are timed alike. Caches are warm, as between the layers of a model on one CPU; only
a decode, which reads each key once, finds them cold.
"""

import ctypes
import math
import os
import pathlib
import platform
import time

import torch

from compare import peak
from compare.cases import all_cpus

MIB = 1 << 20
# A shorter call is repeated until a timed sample takes as long: the clock and the waking of threads
# then cost little.
SAMPLE_SECONDS = 0.02
# Threads of OpenMP look for work this long after a call, and would take the next one's CPU.
PAUSE_SECONDS = 0.02
FEATURES = (
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "asimd", "asimdhp", "bf16", "sve"),
)


def _read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return None


def _status_bytes(field):
    """A size of /proc/self/status; None where there is none."""
    for line in (_read("/proc/self/status") or "").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


def _reset_peak():
    """Whether the kernel forgot the peak so far."""
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _cpuinfo(*fields):
    """The first value of one of the fields of /proc/cpuinfo."""
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in fields:
            return value.strip()
    return None


def caches():
    """{"L1d": "32K", ...} of the first CPU."""
    found = {}
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if level and kind and size and kind.strip() != "Instruction":
            found[f"L{level.strip()}{'d' if level.strip() == '1' else ''}"] = size.strip()
    return found


def describe():
    """The CPU. What the system does not tell is None or missing."""
    flags = (_cpuinfo("flags", "Features") or "").split()
    return {
        "model": _cpuinfo("model name") or platform.processor() or None,
        "architecture": platform.machine(),
        "features": [name for name in FEATURES if name in flags],
        "cpus": all_cpus(),
        "caches": caches(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "torch_capability": torch.backends.cpu.get_cpu_capability(),
        "load_average": os.getloadavg()[0],
    }


class CpuDevice:
    times_mean_something = True
    on_cpu = True
    torch_device = torch.device("cpu")
    l2_bytes = 0

    def __init__(self):
        sizes = [int(size[:-1]) << 10 for size in caches().values() if size.endswith("K")]
        self.flush_bytes = max(4 * max(sizes, default=0), 256 * MIB)
        self._flush = None
        self._threads = all_cpus()
        self._peak = peak.Peak(_cpuinfo("flags") or "")
        self._can_reset_peak = _reset_peak()
        self._malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

    def prepare(self, case):
        """Before anything of a case runs."""
        self._threads = case.threads
        torch.set_num_threads(case.threads)
        self._flush = ctypes.create_string_buffer(self.flush_bytes) if case.num_queries else None

    def stream(self):
        return None

    def synchronize(self):
        pass

    @staticmethod
    def _seconds(call, times):
        start = time.perf_counter()
        for _ in range(times):
            call()
        return (time.perf_counter() - start) / times

    def timed(self, call):
        if self._threads > 1:
            time.sleep(PAUSE_SECONDS)
        if self._flush:
            ctypes.memset(self._flush, 1, self.flush_bytes)
        seconds = self._seconds(call, 1)
        if seconds < SAMPLE_SECONDS and not self._flush:
            seconds = self._seconds(call, math.ceil(SAMPLE_SECONDS / max(seconds, 1e-6)))
        return lambda: 1e3 * seconds

    def fma_gflops(self):
        """What as many threads as the case has reach with nothing but FMA of float32, now."""
        return self._peak.fma_gflops(self._threads)

    def copy_gbytes_per_second(self):
        """Read and written by as many threads as the case has."""
        return peak.copy_gbytes_per_second(self._threads)

    def allocated_bytes(self):
        return _status_bytes("VmRSS")

    def start_peak(self):
        """Gives free memory back, so that a call's allocations count again."""
        if self._malloc_trim:
            self._malloc_trim(0)
        _reset_peak()

    def peak_bytes(self):
        return _status_bytes("VmHWM") if self._can_reset_peak else None

    def free_bytes(self):
        for line in (_read("/proc/meminfo") or "").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return 4 << 30

    def release_cache(self):
        pass
