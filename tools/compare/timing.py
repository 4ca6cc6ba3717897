"""Where things run and how they are timed: a GPU through torch.cuda, the CPU (cpu.py), or, for a
trial, the virtual device.

A device times one call and tells how much memory a call took. Times of the virtual device say
nothing: `times_mean_something` is false there.
"""

import statistics
import time

import torch

MIB = 1 << 20
# The GPU idles this long before each flush, so that all launches of a timed call are queued when
# its first one starts: otherwise the time of the CPU would be measured with short calls.
QUEUE_AHEAD_CYCLES = 2_000_000
# Where calls have their share of seconds, a slow one is timed so often all the same.
LEAST_ROUNDS = 3


class CudaDevice:
    times_mean_something = True
    on_cpu = False

    def __init__(self, ordinal):
        torch.cuda.set_device(ordinal)
        self.ordinal = ordinal
        self.torch_device = torch.device("cuda", ordinal)
        self.properties = torch.cuda.get_device_properties(ordinal)
        self.l2_bytes = getattr(self.properties, "L2_cache_size", 0)
        self.flush_bytes = max(4 * self.l2_bytes, 256 * MIB)
        self._flush = torch.empty(self.flush_bytes, dtype=torch.uint8, device=self.torch_device)
        self._wait = getattr(torch.cuda, "_sleep", None)

    def prepare(self, case):
        """Before anything of a case runs."""

    def stream(self):
        return torch.cuda.current_stream(self.torch_device).cuda_stream

    def synchronize(self):
        torch.cuda.synchronize(self.torch_device)

    def timed(self, call):
        """Enqueues a call; the answer gives its milliseconds once the device is synchronised."""
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        if self._wait:
            self._wait(QUEUE_AHEAD_CYCLES)
        self._flush.zero_()
        start.record()
        call()
        end.record()
        return lambda: start.elapsed_time(end)

    def allocated_bytes(self):
        return torch.cuda.memory_allocated(self.torch_device)

    def start_peak(self):
        torch.cuda.reset_peak_memory_stats(self.torch_device)

    def peak_bytes(self):
        return torch.cuda.max_memory_allocated(self.torch_device)

    def free_bytes(self):
        """What a tensor can still take: free on the GPU, or cached by torch and unused."""
        free, _ = torch.cuda.mem_get_info(self.torch_device)
        cached = torch.cuda.memory_reserved(self.torch_device)
        return free + cached - self.allocated_bytes()

    def release_cache(self):
        torch.cuda.empty_cache()


class VirtualDevice:
    times_mean_something = False
    on_cpu = False
    torch_device = torch.device("cpu")
    l2_bytes = flush_bytes = 0

    def prepare(self, case):
        pass

    def stream(self):
        return None

    def synchronize(self):
        pass

    def timed(self, call):
        start = time.perf_counter()
        call()
        milliseconds = (time.perf_counter() - start) * 1e3
        return lambda: milliseconds

    def allocated_bytes(self):
        return None

    def start_peak(self):
        pass

    def peak_bytes(self):
        return None

    def free_bytes(self):
        return 4 << 30

    def release_cache(self):
        pass


def measure(device, calls, rounds, warmup, seconds=None):
    """Times several calls in turns: {name: call} -> ({name: [milliseconds]}, {name: reason}).

    One of each per round, another one first each time, so that a drifting clock or temperature
    meets all alike. A call that fails is out from then on, with its reason. With `seconds` a call
    that took as long in total takes part in no more rounds, once it has LEAST_ROUNDS times.
    """
    times = {name: [] for name in calls}
    failed = {}

    def is_done(name):
        return seconds and len(times[name]) >= LEAST_ROUNDS and sum(times[name]) >= 1e3 * seconds

    for number in range(warmup + rounds):
        left = [name for name in calls if name not in failed and not is_done(name)]
        if not left:
            break
        turn = number % len(left)
        pending = {}
        for name in left[turn:] + left[:turn]:
            try:
                pending[name] = device.timed(calls[name])
            except Exception as error:  # noqa: BLE001 - whatever a backend raises, the rest go on
                failed[name] = reason_of(error)
        device.synchronize()
        if number >= warmup:
            for name, milliseconds in pending.items():
                times[name].append(milliseconds())
    return {name: times[name] for name in calls if name not in failed}, failed


def reason_of(error):
    """One line of an exception."""
    text = str(error).strip()
    line = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {line}"[:300]


def summary(milliseconds):
    """Median, range, and the spread that half of the times lie in."""
    ordered = sorted(milliseconds)
    last = len(ordered) - 1
    return {
        "median_ms": statistics.median(ordered),
        "min_ms": ordered[0],
        "max_ms": ordered[-1],
        "quartiles_ms": [ordered[round(last * 0.25)], ordered[round(last * 0.75)]],
        "num_timed": len(ordered),
    }
