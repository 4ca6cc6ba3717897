"""tools/compare_torch.py with torch: its definition against the golden cases, and whole runs on the
cpu and the virtual device, the path of a GPU with stand-ins for torch.cuda."""

import ast
import contextlib
import functools
import gc
import io
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import warnings
import xml.etree.ElementTree
from unittest import mock

TOOLS, LIBRARY, GOLDEN = sys.argv[1:4]
del sys.argv[1:4]
SKIPPED = 77
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
try:
    import torch
    import torch._dynamo
    import torch._inductor.config
except ImportError as error:
    print(f"SKIPPED: no torch: {error}")
    sys.exit(SKIPPED)
sys.path.insert(0, TOOLS)
import compare_torch
from compare import capi, cpu, definition, machine, peak, session, timing
from compare.cases import CPU_LENGTHS, PASSES, Case, draw_lengths, make_cpu_cases
from compare.contenders import NotHere, PlainContender
from compare.flex import FlexContender
from compare.flex import load as load_flex

# The tool collects garbage before each contender's first call: a third of a second each time, were
# it to look at all that imports made.
load_flex()
gc.freeze()


def read_npy(path):
    """float32 arrays only: numpy may not be there."""
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"]
    values = torch.frombuffer(bytearray(data[10 + length :]), dtype=torch.float32)
    return values.reshape(header["shape"])


def square_cases():
    """The golden cases that the definition here covers: Lq = Lk, one head of k per head of q."""
    for folder in sorted(pathlib.Path(GOLDEN).iterdir()):
        spec = json.loads((folder / "spec.json").read_text())
        if spec["seq_q"] == spec["seq_k"] and spec["heads"] == spec["kv_heads"]:
            yield folder, spec


class Definition(unittest.TestCase):
    def test_in_float64_is_the_golden_results(self):
        num_cases = 0
        for folder, spec in square_cases():
            inputs = {n: read_npy(folder / f"{n}.npy") for n in ("q", "k", "v")}
            inputs["grad_o"] = read_npy(folder / "do.npy")

            def attention(q, k, v, first, spec=spec):
                p, offset = spec["p"], spec["offset"]
                return definition.lssar(q, k, v, spec["causal"], p, offset, first, torch.float64)

            with self.subTest(folder.name):
                found = definition.in_float64(attention, inputs, 0, spec["heads"] - 1, 13)
                for name, value in found.items():
                    golden = read_npy(folder / f"{name}.npy")[0, -1].double()
                    # Where everything cancels, the golden value is what rounding left.
                    floor = spec.get(f"floor_{name}", 0.0)
                    error = (value - golden).norm().item()
                    self.assertLessEqual(error, 1e-6 * golden.norm().item() + floor, name)
            num_cases += 1
        self.assertGreaterEqual(num_cases, 15)

    def test_blocks_of_rows_make_no_difference(self):
        inputs = definition.make_inputs("gauss", (1, 1, 50, 16), torch.bfloat16, True, 1, "cpu")
        whole, blocks = (
            definition.in_float64(
                lambda q, k, v, first: definition.softmax(q, k, v, True, first), inputs, 0, 0, rows
            )
            for rows in (50, 7)
        )
        for name in whole:
            self.assertLess(definition.relative_error(blocks[name], whole[name]), 1e-14)

    def test_softmax_is_torchs(self):
        inputs = definition.make_inputs("gauss", (1, 2, 33, 16), torch.float64, True, 2, "cpu")
        q, k, v = (inputs[name] for name in "qkv")
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        ours = definition.softmax(q, k, v, True)
        self.assertLess(definition.relative_error(ours, theirs), 1e-14)

    def test_peaky_queries_point_at_a_key_they_see(self):
        shape = (1, 2, 40, 64)
        inputs = definition.make_inputs("peaky", shape, torch.float32, True, 3, "cpu")
        q, k = (definition.directions(inputs[name], torch.float32) for name in "qk")
        seen = (q @ k.transpose(-1, -2)).tril()
        self.assertGreater(seen.amax(dim=-1).min().item(), 0.9)

    def test_errors_keep_nan(self):
        self.assertTrue(
            math.isnan(definition.relative_error(torch.tensor([math.nan]), torch.ones(1)))
        )


class Timing(unittest.TestCase):
    def test_calls_run_in_turns_and_a_failing_one_is_out(self):
        order = []

        def failing():
            order.append("b")
            raise RuntimeError("no kernel\nmore")

        calls = {"a": lambda: order.append("a"), "b": failing, "c": lambda: order.append("c")}
        times, failed = timing.measure(timing.VirtualDevice(), calls, rounds=3, warmup=1)
        self.assertEqual("".join(order), "abc" + "ca" + "ac" + "ca")
        self.assertEqual({name: len(values) for name, values in times.items()}, {"a": 3, "c": 3})
        self.assertEqual(failed, {"b": "RuntimeError: no kernel"})

    def test_a_slow_call_takes_part_in_fewer_rounds(self):
        seconds = {"fast": 0.001, "slow": 4.0}
        device = types.SimpleNamespace(
            timed=lambda call: lambda: 1e3 * call(), synchronize=lambda: None
        )
        calls = {name: lambda name=name: seconds[name] for name in seconds}
        times, _ = timing.measure(device, calls, rounds=9, warmup=1, seconds=1.0)
        self.assertEqual(
            {name: len(values) for name, values in times.items()},
            {"fast": 9, "slow": timing.LEAST_ROUNDS},
        )

    def test_summary(self):
        found = timing.summary([5.0, 1.0, 2.0, 3.0, 4.0])
        self.assertEqual(found["median_ms"], 3.0)
        self.assertEqual(found["quartiles_ms"], [2.0, 4.0])
        self.assertEqual((found["min_ms"], found["max_ms"], found["num_timed"]), (1.0, 5.0, 5))


def arguments(folder, *more):
    return ["--small", "--library", LIBRARY, "--output-dir", folder, *more]


def read_results(folder):
    svg = xml.etree.ElementTree.parse(f"{folder}/compare.svg")
    return json.loads(pathlib.Path(folder, "compare.json").read_text()), svg


class OnTheVirtualDevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            schedule = 'atomic={"dq_mode": "atomic"}'
            cls.code = compare_torch.main(
                arguments(
                    folder, "--device", "virtual", "--causal", "yes", "--schedule", schedule
                )
            )
            cls.document, _ = read_results(folder)

    def test_it_ran(self):
        self.assertEqual(self.code, 0)
        self.assertIsNone(self.document["stopped"])
        self.assertFalse(self.document["times_mean_something"])
        self.assertIn("virtual", self.document["machine"]["gpu"])
        self.assertRegex(self.document["machine"]["compiler"], r"^(nvrtc|llvm) \d+\.")

    def test_every_pass_and_contender_is_there(self):
        found = {(r["pass"], r["contender"]) for r in self.document["records"]}
        ours = {f"ours-p{p}{name}" for p in (15, 3) for name in ("", "/atomic")}
        passes = ("forward", "forward_train", "backward", "forward_backward")
        self.assertEqual(found, {(p, c) for p in passes for c in ours | {"math", "ours-softmax", "eager"}})
        # Two kinds of inputs, with a mask. `Failures` has some without one.
        self.assertEqual(len(self.document["records"]), 2 * len(found))
        self.assertEqual({r["status"] for r in self.document["records"]}, {"ok"})

    def test_errors_of_ours(self):
        for record in self.document["records"]:
            if not record["contender"].startswith("ours") or record["data"] != "gauss":
                continue
            for name, error in record["errors"].items():
                self.assertGreater(error, 0.0)
                self.assertLess(error, 3e-3 if name == "o" else 5e-3, (record, name))

    def test_each_pass_has_the_errors_of_what_it_writes(self):
        written = {r["pass"]: sorted(r["errors"]) for r in self.document["records"]}
        self.assertEqual(written["forward"], ["o"])
        self.assertEqual(written["backward"], ["dk", "dq", "dv"])
        self.assertEqual(written["forward_backward"], ["dk", "dq", "dv", "o"])

    def test_the_default_schedule_is_repeatable(self):
        for record in self.document["records"]:
            if record["contender"] in ("ours-p15", "ours-p3"):
                self.assertIs(record["repeatable"], True)

    def test_each_of_ours_says_which_schedules_ran_and_why(self):
        runs = {name: (name,) for name in ("forward", "forward_train", "backward")}
        runs["forward_backward"] = ("forward_train", "backward")
        for record in self.document["records"]:
            name = record["contender"]
            if not name.startswith("ours"):
                self.assertNotIn("schedules", record)
                continue
            self.assertEqual(tuple(record["schedules"]), runs[record["pass"]])
            for found in record["schedules"].values():
                self.assertEqual(found["origin"] == "given", name.endswith("/atomic"))
                self.assertTrue(found["reason"])
                self.assertIn("block_rows", found["schedule"]["forward"])
                if name.endswith("/atomic"):
                    self.assertEqual(found["schedule"]["dq_mode"], "atomic")

    def test_without_a_tuning_table_nothing_was_measured(self):
        ours = [r for r in self.document["records"] if r["contender"] in ("ours-p15", "ours-p3")]
        origins = {found["origin"] for r in ours for found in r["schedules"].values()}
        self.assertTrue(origins)
        self.assertLessEqual(origins, {"predicted", "default"})

    def test_the_file_says_no_paths(self):
        self.assertNotIn(os.path.dirname(LIBRARY), json.dumps(self.document))


def without_compiling(function, **_):
    """In place of torch.compile, whose C++ compiler takes longer than all the rest."""
    return function


@contextlib.contextmanager
def short_measurements():
    """Times and rates of little work: what is asked of them here holds for any amount."""
    with contextlib.ExitStack() as stack:
        for where, name, value in (
            (cpu, "SAMPLE_SECONDS", 1e-3),
            (cpu, "PAUSE_SECONDS", 1e-3),
            (cpu, "MIB", 1 << 10),  # with `caches`: what a decode flushes is 256 KiB
            (cpu, "caches", lambda: {"L1d": "32K"}),
            (peak, "COPY_BYTES", 1 << 20),
        ):
            stack.enter_context(mock.patch.object(where, name, value))
        yield


class OnTheCpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = "--device cpu --causal yes --threads 1,2"
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(mock.patch.object(torch, "compile", without_compiling))
            stack.enter_context(short_measurements())
            cls.code = compare_torch.main(arguments(folder, *options.split()))
            cls.document, cls.svg = read_results(folder)
        cls.records = cls.document["records"]
        cls.done = [r for r in cls.records if r["status"] == "ok"]

    def ours(self):
        return [r for r in self.done if r["contender"].startswith("ours")]

    def test_it_ran(self):
        self.assertEqual(self.code, 0)
        self.assertIsNone(self.document["stopped"])
        self.assertTrue(self.document["times_mean_something"])
        self.assertRegex(self.document["machine"]["compiler"], r"^llvm \d+\.")
        self.assertRegex(self.document["machine"]["target"], r"^x86-64-v\d")

    def test_the_file_says_which_cpu(self):
        found = self.document["machine"]["cpu"]
        self.assertTrue(found["model"])
        self.assertIn("avx2", found["features"])
        self.assertEqual(found["cpus"], len(os.sched_getaffinity(0)))

    def test_every_pass_and_contender_is_there(self):
        found = {(r["pass"], r["contender"]) for r in self.records}
        contenders = "flash ours-softmax ours-p15 ours-p0 flex-p15 flex-p0 compile eager".split()
        passes = ("forward", "forward_backward")
        self.assertEqual(found, {(p, c) for p in passes for c in contenders})
        variants = {(r["dtype"], r["threads"], r.get("num_queries")) for r in self.records}
        queries = {(d, t, q) for d in ("fp32", "bf16") for t in (1, 2) for q in (None, 1)}
        self.assertEqual(variants, queries)
        # Each variant has three: two passes with as many queries as keys, and a decode's forward.
        self.assertEqual(len(self.records), 2 * 2 * 3 * len(contenders))

    def test_what_did_not_run_says_why(self):
        flex = [r for r in self.records if r["contender"].startswith("flex")]
        for record in flex:
            self.assertEqual(record["status"] == "ok", record["pass"] == "forward")
        reasons = {r["reason"] for r in flex if r["status"] != "ok"}
        self.assertEqual(reasons, {"compiled FlexAttention has no backward on CPUs"})
        others = {r["contender"] for r in self.records if r["status"] != "ok"}
        self.assertLessEqual(others, {"flex-p15", "flex-p0"})

    def test_errors(self):
        """Of others too: the float64 reference is another implementation than theirs."""
        for record in self.done:
            tensors = ["o"] if record["pass"] == "forward" else ["dk", "dq", "dv", "o"]
            self.assertEqual(sorted(record["errors"]), tensors)
            limits = session.TOLERANCES[record["dtype"]]
            if not record["contender"].startswith("ours"):
                limits = (1e-4, 1e-4) if record["dtype"] == "fp32" else (0.1, 0.1)
            for name, error in record["errors"].items():
                self.assertGreater(error, 0.0)
                self.assertLess(error, limits[name != "o"], (record, name))

    def test_ours_gives_the_same_bits_again(self):
        self.assertEqual(len(self.ours()), 2 * 2 * 3 * 3)
        self.assertEqual({r["repeatable"] for r in self.ours()}, {True})

    def test_ratios(self):
        for record in self.done:
            (softmax,) = [
                r["median_ms"]
                for r in self.done
                if r["contender"] == "flash"
                and all(
                    r.get(name) == record.get(name)
                    for name in ("pass", "dtype", "threads", "num_queries")
                )
            ]
            self.assertAlmostEqual(record["speedup_over_softmax"], softmax / record["median_ms"])
            self.assertNotIn("ratio_to_cudnn", record)

    def test_the_peaks_stand_beside_each_pass(self):
        for record in self.records:
            self.assertGreater(record["fma_gflops"], 0.1)
            self.assertEqual("copy_gbytes_per_s" in record, "num_queries" in record)
        for record in self.done:
            share = 1e3 * record["tflops"] / record["fma_gflops"]
            self.assertAlmostEqual(record["share_of_fma"], share)

    def test_the_plot_has_a_dot_per_measurement_but_of_decodes(self):
        dots = [e for e in self.svg.iter() if e.tag.endswith("circle")]
        self.assertEqual(len(dots), len([r for r in self.done if "num_queries" not in r]))
        self.assertIn("GFLOP/s over length", "".join(self.svg.getroot().itertext()))


class SequencesOnTheCpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = (
            "--device cpu --causal yes --threads 1 --dtype fp32 --p 15 --contenders flash ours "
            "--lengths --decode 96 --kv-heads 1 --sequences 5,100"
        )
        with tempfile.TemporaryDirectory() as folder:
            cls.code = compare_torch.main(arguments(folder, *options.split()))
            cls.document, _ = read_results(folder)

    def records(self, is_packed):
        return [r for r in self.document["records"] if ("longest" in r) == is_packed]

    def test_every_contender_computes_the_sequences(self):
        """Each of them against float64, a sequence at a time."""
        self.assertEqual(self.code, 0)
        found = {(r["pass"], r["contender"]) for r in self.records(True)}
        names = ("flash", "flash-padded", "ours-p15")
        self.assertEqual(found, {(p, c) for p in ("forward", "forward_backward") for c in names})
        for record in self.records(True):
            self.assertEqual(record["status"], "ok")
            tensors = ["o"] if record["pass"] == "forward" else ["dk", "dq", "dv", "o"]
            self.assertEqual(sorted(record["errors"]), tensors)
            for error in record["errors"].values():
                self.assertLess(error, 2e-5)

    def test_ratios_are_to_the_loop_and_to_padding(self):
        for record in self.records(True):
            times = {
                r["contender"]: r["median_ms"]
                for r in self.records(True)
                if r["pass"] == record["pass"]
            }
            own = record["median_ms"]
            self.assertAlmostEqual(record["speedup_over_softmax"], times["flash"] / own)
            self.assertAlmostEqual(record["speedup_over_padded"], times["flash-padded"] / own)

    def test_the_file_has_the_lengths(self):
        lengths = self.document["cases"][-1]["lengths"]
        self.assertEqual(tuple(lengths), draw_lengths(5, 100, 1))
        self.assertEqual(sum(lengths), 5 * 100)
        self.assertEqual(self.records(True)[0]["longest"], max(lengths))
        self.assertEqual(self.records(True)[0]["batch"], 5)

    def test_work_is_that_of_each_sequence(self):
        record = self.records(True)[0]
        squares = sum(length**2 for length in self.document["cases"][-1]["lengths"])
        gflop = 4 * record["heads"] * squares * record["dim"] / 2 / 1e9
        self.assertAlmostEqual(1e3 * record["tflops"] * record["median_ms"] / 1e3, gflop)

    def test_a_decode_whose_heads_share_keys(self):
        found = self.records(False)
        self.assertEqual({(r["contender"], r["kv_heads"]) for r in found}, {("flash", 1), ("ours-p15", 1)})
        for record in found:
            self.assertLess(record["errors"]["o"], 1e-5)


class CpuParts(unittest.TestCase):
    def test_flex_in_one_call_and_in_two(self):
        """As the cpu device puts it together: the compiled attention never gives a log-sum-exp."""
        asked = []
        attention, really_compiled = load_flex().flex_attention, torch.compile

        def compiled(function, **options_of_compile):
            if function is not attention:  # flex_attention itself compiles parts of it
                return really_compiled(function, **options_of_compile)

            def call(*inputs, **options):
                asked.append(options.get("return_lse", False))
                return attention(*inputs, **options)

            return call

        for case in (
            Case(64, 40, 1, 2, True, "gauss", "fp32", 1),
            Case(64, 40, 1, 2, False, "gauss", "fp32", 1, 1),
        ):
            inputs = definition.make_inputs(
                "gauss", case.shape(), torch.float32, case.causal, 1, "cpu", case.num_queries
            )
            for p in (0, 15):
                asked.clear()
                contender = FlexContender(f"flex-p{p}", case, inputs, cpu.CpuDevice(), p, 1.0)
                with mock.patch.object(torch, "compile", compiled):
                    o = contender.results("forward")["o"]
                wanted = definition.lssar(
                    *(inputs[name].double() for name in "qkv"), case.causal, p, 1.0,
                    wide=torch.float64,
                )
                self.assertLess(definition.relative_error(o, wanted), 1e-5)
                self.assertEqual(asked, [False])

    def test_uncompiled_flex_that_does_not_fit_says_so(self):
        case = Case(64, 40, 1, 2, True, "gauss", "fp32", 1)
        inputs = definition.make_inputs("gauss", case.shape(), torch.float32, True, 1, "cpu")
        device = cpu.CpuDevice()
        device.free_bytes = lambda: 1000
        with self.assertRaisesRegex(NotHere, "no log-sum-exp on CPUs"):
            FlexContender("flex-p15", case, inputs, device, 15, 1.0).start("forward")
        FlexContender("flex-p0", case, inputs, device, 0, 1.0).start("forward")

    def test_peak_memory_is_that_of_a_call(self):
        device = cpu.CpuDevice()
        device.start_peak()
        before = device.allocated_bytes()
        torch.ones(48 << 20, dtype=torch.uint8)
        self.assertAlmostEqual((device.peak_bytes() - before) / 2**20, 48, delta=8)
        device.start_peak()
        self.assertLess(device.peak_bytes() - device.allocated_bytes(), 8 << 20)

    def test_a_short_call_is_repeated_and_a_long_one_is_not(self):
        device, calls = cpu.CpuDevice(), []
        with mock.patch.object(cpu, "PAUSE_SECONDS", 0):
            device.timed(lambda: calls.append(1))
            self.assertGreater(len(calls), 10)
            calls.clear()
            milliseconds = device.timed(lambda: (calls.append(1), time.sleep(0.03)))()
        self.assertEqual(len(calls), 1)
        self.assertGreaterEqual(milliseconds, 30)

    def test_a_decode_runs_once_with_cold_caches(self):
        device, calls = cpu.CpuDevice(), []
        device.flush_bytes = 1 << 20
        threads = torch.get_num_threads()
        device.prepare(Case(64, 40, 1, 2, False, "gauss", "fp32", 1, 1))
        try:
            device.timed(lambda: calls.append(bytes(device._flush[:2])))
        finally:
            torch.set_num_threads(threads)
        self.assertEqual(calls, [b"\1\1"])

    def test_the_default_grid(self):
        options = types.SimpleNamespace(
            dims=[64, 128], lengths=CPU_LENGTHS, causal=["no", "yes"], data=["gauss"], heads=8,
            tokens=1, passes=["forward"], dtype=["fp32", "bf16"], threads=[1, 2], decode=[4096],
            kv_heads=None, sequences=None,
        )
        cases = make_cpu_cases(options)
        self.assertEqual(len(cases), 2 * 4 + 4 * 2 * 2 * 4 + 2 * 2 * 2)
        self.assertEqual({c.num_queries for c in cases[:8]}, {1})
        self.assertEqual([c.length for c in cases[8:]], sorted(c.length for c in cases[8:]))
        long = {(c.threads, c.causal) for c in cases if c.length > 4096}
        self.assertEqual(long, {(2, True)})
        options.lengths = [8192]
        self.assertEqual(len(make_cpu_cases(options)), 2 * 4 + 2 * 2 * 4)
        options.lengths, options.decode, options.kv_heads = [], [4096, 65536], [8, 2]
        found = {(c.length, c.kv_heads) for c in make_cpu_cases(options)}
        self.assertEqual(found, {(n, heads) for n in (4096, 65536) for heads in (None, 2)})
        self.assertEqual(len(make_cpu_cases(options)), 2 * 2 * 2 * 4)
        options.lengths, options.kv_heads = CPU_LENGTHS, None  # a long decode is among the default's
        self.assertIn((65536, 1), {(c.length, c.num_queries) for c in make_cpu_cases(options)})

    def test_fma_peak_where_there_is_no_loop(self):
        self.assertIsNone(peak.Peak("sse2").fma_gflops(1))


class CompiledDefinition(unittest.TestCase):
    """The contender `compile`, without the code generator: what dynamo and autograd make of the
    definition."""

    @staticmethod
    def contender(case, inputs, compiled):
        name = "compile" if compiled else "eager"
        device = timing.VirtualDevice()
        return PlainContender(name, case, inputs, device, 15, 1.0, compiled=compiled)

    def test_every_pass_is_eagers(self):
        counters = torch._dynamo.utils.counters
        without_code = functools.partial(torch.compile, backend="aot_eager")
        for causal in (False, True):
            case = Case(16, 24, 1, 2, causal, "gauss")
            inputs = definition.make_inputs("gauss", case.shape(), torch.float64, causal, 1, "cpu")
            counters.clear()
            with mock.patch.object(torch, "compile", without_code):
                compiled = self.contender(case, inputs, compiled=True)
            eager = self.contender(case, inputs, compiled=False)
            for pass_name in PASSES:
                with self.subTest(causal=causal, pass_name=pass_name):
                    self.compare(compiled.start(pass_name), eager.start(pass_name))
            # No fallback to eager, in whole or in part: a graph with and one without autograd.
            self.assertGreaterEqual(counters["stats"]["unique_graphs"], 2)
            self.assertFalse(counters["graph_break"])

    def compare(self, compiled, eager):
        for _ in range(2):  # timed calls repeat: a graph must serve more than one backward
            ours, theirs = (call() for call in (compiled, eager))
            if isinstance(ours, torch.Tensor):
                ours, theirs = (ours,), (theirs,)
            self.assertEqual(len(ours), len(theirs))
            for value, expected in zip(ours, theirs):
                self.assertLess(definition.relative_error(value, expected), 1e-13)


class DecodesOnAGpu(unittest.TestCase):
    """A plan that did not know the number of queries would have other kernels."""

    def test_the_plan_is_made_for_one_query(self):
        options = "--device virtual --dims 64 --p 15 --passes forward --contenders math ours"
        with tempfile.TemporaryDirectory() as folder:
            more = "--lengths --decode 600 --kv-heads 1".split()
            code = compare_torch.main(arguments(folder, *options.split(), *more))
            document, _ = read_results(folder)
        self.assertEqual(code, 0)
        self.assertEqual([r["contender"] for r in document["records"]], ["math", "ours-p15"])
        for record in document["records"]:
            self.assertEqual((record["num_queries"], record["kv_heads"]), (1, 1))
            self.assertLess(record["errors"]["o"], 3e-3)


class Failures(unittest.TestCase):
    FORWARD = "--device virtual --data gauss --causal no --p 15 --passes forward".split()

    def test_a_schedule_that_is_not_legal(self):
        with tempfile.TemporaryDirectory() as folder:
            schedule = 'bad={"forward": {"block_rows": 17}}'
            code = compare_torch.main(arguments(folder, *self.FORWARD, "--schedule", schedule))
            document, _ = read_results(folder)
        self.assertEqual(code, 4)
        status = {r["contender"]: r["status"] for r in document["records"]}
        self.assertEqual(status["ours-p15"], "ok")
        self.assertEqual(status["ours-p15/bad"], "skipped")
        (reason,) = [r["reason"] for r in document["records"] if r["status"] == "skipped"]
        self.assertIn("block_rows = 17", reason)

    def test_no_library(self):
        code = compare_torch.main(
            ["--device", "cpu", "--small", "--library", "/nowhere/liblssar.so"]
        )
        self.assertEqual(code, 3)

    def test_earlier_results_are_not_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            earlier = pathlib.Path(folder, "compare.json")
            earlier.write_text("earlier")
            self.assertEqual(compare_torch.main(arguments(folder, *self.FORWARD)), 2)
            self.assertEqual(earlier.read_text(), "earlier")
            code = compare_torch.main(arguments(folder, *self.FORWARD, "--overwrite"))
            self.assertEqual(code, 0)
            self.assertNotEqual(earlier.read_text(), "earlier")

    def test_wrong_numbers(self):
        strict = mock.patch.dict(session.TOLERANCES, {"bf16": (1e-9, 1e-9)})
        with tempfile.TemporaryDirectory() as folder, strict:
            code = compare_torch.main(arguments(folder, *self.FORWARD))
        self.assertEqual(code, 1)

    def test_a_time_limit_leaves_cases_out(self):
        with tempfile.TemporaryDirectory() as folder:
            more = ["--lengths", "32", "48", "--minutes", "1e-9"]
            code = compare_torch.main(arguments(folder, *self.FORWARD, *more))
            document, _ = read_results(folder)
        self.assertEqual(code, 0)
        self.assertEqual(document["stopped"], "2 of 2 cases left out, --minutes 1e-09")

    def test_an_interrupted_run_keeps_what_it_has(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, f"{TOOLS}/compare_torch.py"]
            more = ["--device", "virtual", "--rounds", "1000000", "--passes", "forward"]
            first = ["--lengths", "32", "--check-heads", "0"]
            process = subprocess.Popen(
                command + arguments(folder, *more, *first), stdout=subprocess.PIPE, text=True
            )
            # It is at the first case, which takes longer than any test waits.
            line = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate()
            document, _ = read_results(folder)
        self.assertIn("[1/4]", line)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(document["stopped"], "interrupted")
        self.assertIn("Stopped: interrupted", rest)


class Machine(unittest.TestCase):
    def state(self, line):
        device = types.SimpleNamespace(properties=types.SimpleNamespace(uuid="abc"), ordinal=0)
        with tempfile.TemporaryDirectory() as folder:
            smi = pathlib.Path(folder, "nvidia-smi")
            smi.write_text(f'#!/bin/sh\n[ "$2" = GPU-abc ] && echo "{line}"\n')
            smi.chmod(0o755)
            with mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ['PATH']}"}):
                return machine.gpu_state(device)

    def test_clocks_as_reported(self):
        values = [f"{i} MHz" for i in range(len(machine.SMI_FIELDS))]
        self.assertEqual(self.state(", ".join(values)), dict(zip(machine.SMI_FIELDS, values)))

    def test_an_answer_that_is_not_understood(self):
        self.assertIsNone(self.state("No devices were found"))


class FakeEvent:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


def fake_torch():
    """What timing.py uses of torch, on the CPU."""
    properties = types.SimpleNamespace(L2_cache_size=1 << 20, uuid="0")
    cuda = types.SimpleNamespace(
        Event=FakeEvent,
        set_device=lambda ordinal: None,
        get_device_properties=lambda ordinal: properties,
        current_stream=lambda device: types.SimpleNamespace(cuda_stream=0),
        synchronize=lambda device: None,
        memory_allocated=lambda device: 0,
        memory_reserved=lambda device: 0,
        reset_peak_memory_stats=lambda device: None,
        max_memory_allocated=lambda device: 5 << 20,
        mem_get_info=lambda device: (1 << 30, 1 << 30),
        empty_cache=lambda: None,
        _sleep=lambda cycles: None,
    )
    return types.SimpleNamespace(
        cuda=cuda,
        uint8=torch.uint8,
        device=lambda kind, ordinal: torch.device("cpu"),
        empty=torch.empty,
    )


class TwoLibraries(unittest.TestCase):
    OPTIONS = "--device virtual --data gauss --causal no --p 15 --passes forward".split()
    OPTIONS += ["--contenders", "ours", "ours-softmax"]

    def test_both_run_beside_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            more = ["--against", f"before={LIBRARY}"]
            code = compare_torch.main(arguments(folder, *self.OPTIONS, *more))
            document, _ = read_results(folder)
        self.assertEqual(code, 0)
        names = ["ours-softmax", "ours-p15", "ours-softmax@before", "ours-p15@before"]
        self.assertEqual([r["contender"] for r in document["records"]], names)
        self.assertEqual({r["status"] for r in document["records"]}, {"ok"})
        self.assertNotIn(LIBRARY, json.dumps(document))

    def test_kernels_are_compiled_ahead(self):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict(os.environ, LSSAR_CACHE_DIR=folder):
                options = compare_torch.parse_arguments(
                    arguments(folder, *self.OPTIONS, "--jobs", "2")
                )
                compare_torch.compile_ahead(options, pathlib.Path(TOOLS))
                compiled = {p.name for p in pathlib.Path(folder, "entries").iterdir()}
                self.assertEqual(len(compiled), 2)
                self.assertFalse(pathlib.Path(folder, "compare.json").exists())
                self.assertEqual(
                    compare_torch.main(arguments(folder, *self.OPTIONS, "--overwrite")), 0
                )
                entries = {p.name for p in pathlib.Path(folder, "entries").iterdir()}
        self.assertEqual(entries, compiled)

    def test_what_is_not_understood(self):
        twice = ("x=/dev/null", "--against", "x=/dev/null")
        for texts, said in (
            (("x",), "must be NAME=LIBRARY"),
            (("x=/nowhere.so",), "no such file"),
            (twice, "x: given twice"),
        ):
            with self.subTest(said), self.assertRaises(SystemExit) as stopped:
                with contextlib.redirect_stderr(io.StringIO()) as errors:
                    compare_torch.main(["--against", *texts])
            self.assertEqual(stopped.exception.code, 2)
            self.assertIn(said, errors.getvalue())


class OnAGpuThatIsNone(unittest.TestCase):
    """Everything but torch.cuda and the context is what runs on a GPU."""

    def test_whole_run(self):
        options = "--contenders cudnn math ours-softmax ours flex eager --data gauss --causal yes"
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            for where, name, value in (
                (timing, "torch", fake_torch()),
                (capi, "DEVICE_CUDA", capi.DEVICE_VIRTUAL),
                (torch.cuda, "is_available", lambda: True),
                (torch.cuda, "device_count", lambda: 1),
            ):
                stack.enter_context(mock.patch.object(where, name, value))
            code = compare_torch.main(arguments(folder, *options.split()))
            document, _ = read_results(folder)
        self.assertEqual(code, 0)
        self.assertTrue(document["times_mean_something"])
        self.assertEqual(document["machine"]["flush_bytes"], 256 << 20)
        done = [r for r in document["records"] if r["status"] == "ok"]
        self.assertEqual({r["peak_bytes"] for r in done}, {5 << 20})
        # cuDNN does not run on a CPU, nor the backward of FlexAttention: the others go on.
        not_run = {r["contender"] for r in document["records"] if r["status"] != "ok"}
        self.assertEqual(not_run, {"cudnn", "flex-p15", "flex-p3"})

    def test_flex_computes_the_definition(self):
        for causal in (False, True):
            case = Case(64, 40, 1, 2, causal, "gauss")
            inputs = definition.make_inputs("gauss", case.shape(), torch.float32, causal, 1, "cpu")
            for p in (0, 3, 15):
                contender = FlexContender(f"flex-p{p}", case, inputs, timing.VirtualDevice(), p, 1.0)
                o = contender.results("forward")["o"]
                wanted = definition.lssar(
                    *(inputs[name].double() for name in "qkv"), causal, p, 1.0, wide=torch.float64
                )
                self.assertLess(definition.relative_error(o, wanted), 1e-5)
                with self.assertRaisesRegex(NotHere, "no backward on CPUs"):
                    contender.start("backward")

    def test_eager_that_does_not_fit_says_so(self):
        device = timing.VirtualDevice()
        device.free_bytes = lambda: 1000
        case = Case(64, 32, 1, 2, False, "gauss")
        inputs = definition.make_inputs("gauss", case.shape(), torch.bfloat16, False, 1, "cpu")
        eager = PlainContender("eager", case, inputs, device, 15, 1.0, compiled=False)
        with self.assertRaisesRegex(NotHere, "bytes per score"):
            eager.start("forward")

    def test_no_gpu(self):
        with mock.patch.object(torch.cuda, "is_available", lambda: False):
            self.assertEqual(compare_torch.main([]), 3)


if __name__ == "__main__":
    unittest.main()
