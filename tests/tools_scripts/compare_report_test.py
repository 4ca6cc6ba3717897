"""tools/compare_torch.py without torch: options, the C API's constants, ratios, tables, files."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TOOLS, HEADER = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
del sys.argv[1:3]
sys.path.insert(0, str(TOOLS))
from compare import capi, cases, peak, plot, report


def record(contender, median_ms, pass_name="forward", **changes):
    base = {
        "dim": 128,
        "length": 4096,
        "batch": 4,
        "heads": 16,
        "causal": False,
        "data": "gauss",
        "pass": pass_name,
        "contender": contender,
        "p": None,
        "status": "ok",
        "median_ms": median_ms,
        "quartiles_ms": [median_ms, median_ms],
        "tflops": 100.0 / median_ms,
        "peak_bytes": 3 << 20,
        "errors": {"o": 1.5e-3},
    }
    return {**base, **changes}


def cpu_record(contender, median_ms, pass_name="forward", **changes):
    base = {
        "dtype": "fp32",
        "threads": 1,
        "tflops": 0.1 / median_ms,
        "fma_gflops": 125.0,
        "extra_bytes": 1 << 20,
    }
    return record(contender, median_ms, pass_name, **{**base, **changes})


def skipped(contender, reason):
    return {**record(contender, 1.0), "status": "skipped", "reason": reason}


class CApi(unittest.TestCase):
    def test_enumerators_are_the_headers(self):
        text = HEADER.read_text()
        for name, value in (
            ("LSSAR_DEVICE_CUDA", capi.DEVICE_CUDA),
            ("LSSAR_DEVICE_VIRTUAL", capi.DEVICE_VIRTUAL),
            ("LSSAR_DEVICE_CPU", capi.DEVICE_CPU),
            ("LSSAR_DTYPE_FP16", capi.DTYPES["fp16"]),
            ("LSSAR_DTYPE_BF16", capi.DTYPES["bf16"]),
            ("LSSAR_DTYPE_FP32", capi.DTYPES["fp32"]),
            ("LSSAR_PASS_FORWARD", capi.PASS_FORWARD),
            ("LSSAR_PASS_FORWARD_TRAIN", capi.PASS_FORWARD_TRAIN),
            ("LSSAR_PASS_BACKWARD", capi.PASS_BACKWARD),
            ("LSSAR_STATUS_MISSING", capi.STATUS_MISSING),
            ("LSSAR_STATUS_UNSUPPORTED", capi.STATUS_UNSUPPORTED),
            ("LSSAR_LOG_DEBUG", capi.LOG_DEBUG),
            *((f"LSSAR_ORIGIN_{name.upper()}", i) for i, name in enumerate(capi.ORIGINS)),
            ("#define LSSAR_ABI_VERSION", capi.ABI_VERSION),
        ):
            with self.subTest(name):
                self.assertRegex(text, rf"{name} (= )?{value}\b")


class Work(unittest.TestCase):
    case = cases.Case(128, 4096, 4, 16, False, "gauss")

    def test_forward(self):
        self.assertEqual(self.case.flop("forward"), 4 * 4 * 16 * 4096 * 4096 * 128)

    def test_backward_is_two_and_a_half_forwards(self):
        self.assertEqual(self.case.flop("backward"), 2.5 * self.case.flop("forward_train"))
        self.assertEqual(self.case.flop("forward_backward"), 3.5 * self.case.flop("forward"))

    def test_causal_is_half(self):
        causal = cases.Case(128, 4096, 4, 16, True, "gauss")
        self.assertEqual(2 * causal.flop("backward"), self.case.flop("backward"))

    def test_tokens_give_the_batch(self):
        made = cases.make_cases([64], [1024, 32768], [True], ["gauss"], 16, 16384)
        self.assertEqual([case.batch for case in made], [16, 1])


class Ratios(unittest.TestCase):
    def test_of_the_same_case_and_pass(self):
        records = [
            record("cudnn", 2.0),
            record("ours-p15", 3.0),
            record("eager", 60.0),
            record("ours-p15", 5.0, "backward"),
            record("ours-p15", 4.0, causal=True),
        ]
        report.add_ratios(records)
        self.assertEqual([r["ratio_to_cudnn"] for r in records], [1.0, 1.5, 30.0, None, None])
        self.assertEqual([r["speedup_over_eager"] for r in records], [30.0, 20.0, 1.0, None, None])

    def test_table_says_why_one_did_not_run(self):
        records = [record("ours-p15", 3.0), skipped("cudnn", "no such backend")]
        report.add_ratios(records)
        table = report.case_table(records)
        self.assertIn("cudnn: no such backend", table)
        self.assertIn("1.5e-03", table)
        self.assertIsNone(report.ratio_table(records))


class OfTheCpu(unittest.TestCase):
    def test_ratios_are_of_the_same_dtype_and_threads(self):
        records = [
            cpu_record("flash", 2.0),
            cpu_record("ours-p15", 1.0),
            cpu_record("compile", 8.0),
            cpu_record("eager", 20.0),
            cpu_record("ours-p15", 1.0, dtype="bf16"),
            cpu_record("ours-p15", 1.0, threads=2),
            cpu_record("ours-p15", 1.0, num_queries=1),
        ]
        report.add_ratios(records)
        ours = records[1]
        self.assertEqual(ours["speedup_over_softmax"], 2.0)
        self.assertEqual(ours["speedup_over_compile"], 8.0)
        self.assertEqual(ours["speedup_over_eager"], 20.0)
        self.assertEqual(ours["share_of_fma"], 0.8)
        self.assertNotIn("ratio_to_cudnn", ours)
        self.assertEqual({r["speedup_over_softmax"] for r in records[4:]}, {None})

    def test_tables(self):
        records = [
            cpu_record("flash", 2.0),
            cpu_record("ours-p15", 1.0),
            {**cpu_record("flex-p15", 1.0), "status": "skipped", "reason": "no backward"},
        ]
        report.add_ratios(records)
        table = report.case_table(records)
        self.assertIn("over softmax", table)
        self.assertRegex(table, r"ours-p15 +1\.000 .* 80% +2\.00 ")
        self.assertIn("forward: FMA peak 125.0 GFLOP/s", table)
        self.assertIn("did not run:\n  forward  flex-p15: no backward", table)
        ratios = report.ratio_table(records)
        self.assertRegex(ratios, r"torch's softmax over +ours-p15\n")
        self.assertRegex(ratios, r"fp32 1 threads +2\.00$")

    def test_a_machine_without_a_peak(self):
        one = cpu_record("ours-p15", 1.0)
        del one["fma_gflops"]
        report.add_ratios([one])
        self.assertIsNone(one["share_of_fma"])
        self.assertIn("no FMA peak", report.case_table([one]))

    def test_a_panel_per_dtype_and_threads_with_the_peak(self):
        records = [
            cpu_record("flash", 1.0),
            cpu_record("flash", 1.0, dtype="bf16"),
            cpu_record("flash", 1.0, threads=2),
            cpu_record("flash", 1.0, num_queries=1),
        ]
        root = xml.etree.ElementTree.fromstring(plot.plot(records, "title"))
        text = "".join(root.itertext())
        self.assertIn("title, GFLOP/s over length", text)
        for panel in ("fp32, 1 thread", "bf16, 1 thread", "fp32, 2 threads"):
            self.assertEqual(text.count(f"forward, {panel}, d 128, not causal"), 1)
        dotted = [e for e in root.iter() if e.attrib.get("stroke-dasharray") == "1 3"]
        self.assertEqual(len(dotted), 3)


class PlotAgain(unittest.TestCase):
    """tools/plot_comparison.py"""

    def drawn(self, folder, *options):
        folder = pathlib.Path(folder)
        records = [cpu_record("flash", 1.0), cpu_record("flash", 1.0, dtype="bf16", threads=2)]
        machine = {"gpu": None, "cpu": {"model": "Some CPU"}}
        written = {"records": records, "machine": machine}
        (folder / "compare.json").write_text(json.dumps(written))
        command = [sys.executable, TOOLS / "plot_comparison.py", folder / "compare.json"]
        return subprocess.run([*command, "-o", folder / "plot.svg", *options], capture_output=True)

    def test_draws_the_records_that_are_chosen(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.drawn(folder, "--threads", "2").returncode, 0)
            root = xml.etree.ElementTree.parse(pathlib.Path(folder) / "plot.svg").getroot()
            text = "".join(root.itertext())
            self.assertIn("Some CPU", text)
            self.assertIn("bf16, 2 threads", text)
            self.assertNotIn("fp32", text)

    def test_refuses_to_draw_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            run = self.drawn(folder, "--threads", "3")
            self.assertEqual(run.returncode, 2)
            self.assertIn(b"no record has these values", run.stderr)
            self.assertFalse((pathlib.Path(folder) / "plot.svg").exists())


class FmaLoop(unittest.TestCase):
    def disassembled(self, zmm):
        objdump = shutil.which("objdump")
        if objdump is None:
            self.skipTest("no objdump")
        code, flop = peak.fma_loop(zmm)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "code")
            path.write_bytes(code)
            options = "-D -b binary -m i386:x86-64 -M intel --no-show-raw-insn".split()
            text = subprocess.run(
                [objdump, *options, path], capture_output=True, text=True, check=True
            ).stdout
        lines = [line.split("\t", 1) for line in text.splitlines() if "\t" in line]
        return [(place.strip(" :"), " ".join(rest.split())) for place, rest in lines], flop

    def check(self, zmm, name, num_sums, lanes, sources):
        lines, flop = self.disassembled(zmm)
        operands = ",".join(f"{name}{i}" for i in sources)
        sums = [f"vfmadd231ps {name}{i},{operands}" for i in range(num_sums)]
        text = [rest for _, rest in lines]
        first = text.index(sums[0])
        self.assertEqual(text[first : first + 8 * num_sums], 8 * sums)
        loop_end = ["dec rdi", f"jne 0x{lines[first][0]}", "vzeroupper", "ret"]
        self.assertEqual(text[first + 8 * num_sums :], loop_end)
        self.assertEqual(flop, 8 * num_sums * lanes * 2)
        for i, offset in zip(sources, ("", "+0x4")):
            self.assertIn(f"vbroadcastss {name}{i},DWORD PTR [rsi{offset}]", text[:first])
        return text[:first]

    def test_avx2(self):
        self.assertIn("vzeroall", self.check(False, "ymm", 12, 8, (14, 15)))

    def test_avx512(self):
        head = self.check(True, "zmm", 24, 16, (30, 31))
        for i in range(24):
            self.assertIn(f"vpxord zmm{i},zmm{i},zmm{i}", head)


class Files(unittest.TestCase):
    def test_json_has_no_nan(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/a.json"
            report.write_json(path, {"a": [float("nan"), float("-inf"), 1.5]})
            self.assertEqual(
                json.loads(pathlib.Path(path).read_text()), {"a": ["nan", "-inf", 1.5]}
            )
            self.assertEqual([p.name for p in pathlib.Path(folder).iterdir()], ["a.json"])

    def test_a_failed_write_leaves_the_old_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.json")
            path.write_text("old")
            with self.assertRaises(UnicodeEncodeError):
                report.write_atomically(str(path), "\ud800")
            self.assertEqual(path.read_text(), "old")
            self.assertEqual(len(list(path.parent.iterdir())), 1)

    def test_a_link_stays_and_a_mode_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            target, link = pathlib.Path(folder, "a.json"), pathlib.Path(folder, "link")
            target.write_text("old")
            target.chmod(0o640)
            link.symlink_to("a.json")
            report.write_atomically(str(link), "new")
            self.assertTrue(link.is_symlink())
            self.assertEqual(target.read_text(), "new")
            self.assertEqual(target.stat().st_mode & 0o777, 0o640)

    def test_a_read_only_file_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.json")
            path.write_text("old")
            path.chmod(0o444)
            with self.assertRaises(PermissionError):
                report.write_atomically(str(path), "new")
            self.assertEqual(path.read_text(), "old")

    def test_a_fifo_is_written_through(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "fifo")
            os.mkfifo(path)
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            report.write_atomically(str(path), "new")
            self.assertEqual(os.read(reader, 10), b"new")
            os.close(reader)
            self.assertTrue(path.is_fifo())


class Plot(unittest.TestCase):
    @staticmethod
    def shapes(records, title="a < b & c"):
        root = xml.etree.ElementTree.fromstring(plot.plot(records, title))
        names = [element.tag.split("}")[1] for element in root.iter()]
        return root, names

    def test_a_dot_per_measurement(self):
        records = [record("cudnn", 2.0), record("ours-p15", 3.0), skipped("eager", "memory")]
        root, names = self.shapes(records)
        self.assertEqual(names.count("circle"), 2)
        self.assertIn("a < b & c", "".join(root.itertext()))

    def test_dots_lie_where_their_values_are(self):
        records = [record("cudnn", 1.0, length=1024), record("cudnn", 2.0, length=2048)]
        root, _ = self.shapes(records)
        first, second = [e.attrib for e in root.iter() if e.tag.endswith("circle")]
        self.assertLess(float(first["cx"]), float(second["cx"]))
        # 100 of 100 TFLOP/s is at the top, 50 in the middle: y grows downwards.
        self.assertAlmostEqual(
            float(second["cy"]) - float(first["cy"]), plot.PANEL_HEIGHT / 2, delta=0.2
        )

    def test_nothing_measured(self):
        root, _ = self.shapes([skipped("cudnn", "no GPU")])
        self.assertIn("Nothing was measured.", "".join(root.itertext()))


class Command(unittest.TestCase):
    def run_script(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            # In front of a torch that is installed.
            pathlib.Path(folder, "torch.py").write_text("raise ImportError('hidden')\n")
            return subprocess.run(
                [sys.executable, str(TOOLS / "compare_torch.py"), *arguments],
                env={"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                check=False,
            )

    def test_without_torch(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 3)
        self.assertIn("torch cannot be imported (hidden): pip install torch", done.stderr)

    def test_wrong_options_are_named(self):
        for arguments, text in (
            (["--passes", "sideways"], "--passes: 'sideways'; allowed: forward,"),
            (["--lengths", "0"], "--lengths: 0 is too small"),
            (["--rounds", "0"], "--rounds: 0; must be at least 1"),
            (["--threads", "1"], "--threads: is for --device cpu"),
            (["--dtype", "fp32"], "--dtype: fp32; must be bf16 or fp16 but on the CPU"),
            (["--device", "cpu", "--threads", "1,0"], "--threads: 0; must be 1 to 1024"),
            (["--device", "cpu", "--decode", "-1"], "--decode: -1; must not be negative"),
            (["--device", "cpu", "--kv-heads", "3"], "--kv-heads: 3; must divide --heads 8"),
            (["--device", "cpu", "--sequences", "5"], "--sequences: must be COUNT,MEAN"),
            (["--kv-heads", "3"], "--kv-heads: 3; must divide --heads 16"),
            (["--device", "cpu", "--seconds", "0"], "--seconds: 0.0; must be above 0"),
            (["--lengths"], "--lengths: none; must have a number"),
            (["--decode", "-1"], "--decode: -1; must not be negative"),
            (["--device", "cpu", "--lengths", "--decode", "0"], "--lengths: none; must have a number"),
            (["--device", "cpu", "--lengths", "--passes", "backward"], "--lengths: none"),
            (["--schedule", "nonsense"], "--schedule: 'nonsense'; must be NAME=JSON"),
            (["--schedule", "a={"], "--schedule a: "),
        ):
            with self.subTest(arguments):
                done = self.run_script(*arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
