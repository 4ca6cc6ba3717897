"""tools/probe_results.py on made-up files of gpu_check.sh.

Times are made from the estimates, so what they must lead to is known.
"""

import contextlib
import importlib.util
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])
del sys.argv[1]
spec = importlib.util.spec_from_file_location("probe_results", ROOT / "tools/probe_results.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
ENTRIES = json.loads((ROOT / "tools/probes.json").read_text())["probes"]

ROUNDS = 12
VALUES = [250.0 * i for i in range(33)]


def setting(name, median, **fields):
    """Samples go up and down by a thousandth, differently in each setting."""
    samples = [median * (1 + 1e-3 * ((i + len(name)) % 3 - 1)) for i in range(ROUNDS)]
    made = {
        "name": name,
        "schedule": {"of": name},
        "edited": False,
        "cold_l2": True,
        "repeatable": name != "atomic",
        "verdict": "ok",
        "reason": "",
        "table_line": json.dumps({"line": name}),
        "median_ms": median,
        "samples_ms": samples,
    }
    made.update(fields)
    return made


def case(entry, settings, **fields):
    figures = {
        "definition": entry,
        "device": "NVIDIA H200",
        "evidence": "measured",
        "problem": {"head_dim": entry["problem"]["head_dim"], "causal": False, "dtype": "bf16"},
        "sizes": {"batch": 2, "heads": 16, "seq_q": 8192, "seq_k": 8192},
        "model_clock_ghz": 1.83,
        "sustained": 0.835,
        "settings": settings,
        "constants": [],
    }
    figures["problem"]["pass"] = entry["problem"]["pass"]
    figures.update(fields)
    return {"result": "passed", "name": entry["name"], "figures": figures}


def entry_of(name):
    return next(entry for entry in ENTRIES if entry["name"] == name)


def sweep(name, today, estimates):
    """Estimates by setting: at the value 0, and what each unit of the constant adds."""
    made = {key: [base + slope * v for v in VALUES] for key, (base, slope) in estimates.items()}
    return {"name": name, "today": today, "values": VALUES, "estimates_ms": made}


def dq_case(ordered=1.31, atomic=0.83, today=2000.0):
    """Split takes 7 ms. By the model ordered takes 1 and a tenth for each 500 of the constant."""
    times = {"split": 7.0, "atomic": 7 * atomic, "ordered": 7 * ordered}
    settings = [setting(name, ms) for name, ms in times.items()]
    estimates = {"split": (7, 0), "ordered": (7, 0.7 / 500), "atomic": (6, 0)}
    swept = sweep("ordered_clocks", today, estimates)
    return case(entry_of("dq_d128"), settings, constants=[swept])


def document(*cases):
    return {
        "commit": "abc123",
        "date": "2026-11-27T01:02:03Z",
        "gpu": "NVIDIA H200",
        "driver": "CUDA 13.0",
        "target": "sm_90a",
        "parts": "probes",
        "probes": list(cases),
    }


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def call(self, made, *options):
        path = self.folder / "file.json"
        path.write_text(made if isinstance(made, str) else json.dumps(made))
        out, err = io.StringIO(), io.StringIO()
        sys.argv = ["probe_results.py", str(path), *options]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = script.main()
        return code, out.getvalue(), err.getvalue().replace(str(path), "FILE")

    def report(self, *cases):
        code, out, err = self.call(document(*cases), "--json")
        self.assertEqual((code, err), (1, ""))  # most probes have not run
        return json.loads(out)

    def verdicts(self, report, name):
        return {e["what"]: e["verdict"] for e in report["expectations"] if e["probe"] == name}

    def refused(self, made, text):
        code, out, err = self.call(made)
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err, f"probe_results: FILE: {text}\n")

    # --- Expectations ---

    def test_confirms_what_lies_in_its_range(self):
        verdicts = self.verdicts(self.report(dq_case()), "dq_d128")
        self.assertEqual(verdicts["ordered over split"], "confirmed")
        self.assertEqual(verdicts["atomic over split"], "confirmed")

    def test_disproves_what_lies_outside_and_says_what_that_means(self):
        report = self.report(dq_case(ordered=0.9))
        self.assertEqual(self.verdicts(report, "dq_d128")["ordered over split"], "disproved")
        _, out, _ = self.call(document(dq_case(ordered=0.9)))
        self.assertIn("- dq_d128: ordered over split is 0.8991, expected 1.15 to 1.5", out)
        self.assertIn("ordered sums should be the repeatable default.", out)

    def test_counts_tflops_as_softmax_does(self):
        wanted = 2.5 * 4 * 128 * 2 * 16 * 8192**2 / 7e-3 / 1e12
        found = [e for e in self.report(dq_case())["expectations"] if e["what"] == "TFLOP/s, split"]
        self.assertAlmostEqual(found[0]["measured"], wanted, delta=1)

    def test_reads_clock_and_slowdown_of_a_long_run(self):
        long = setting("default", 3.3, median_ms_of_half_seconds=[3.0, 3.2, 3.3])
        del long["samples_ms"]
        made = case(entry_of("power"), [long])
        # Compiles; begins; runs; has ended.
        states = [(1980, 120), (1980, 125), (1980, 600), (1500, 690), (1400, 700), (1410, 698)]
        states += [(1420, 701), (1980, 150)]
        made["gpu_states"] = [{"sm_mhz": mhz, "watts": watts} for mhz, watts in states]
        report = self.report(made)
        found = {e["what"]: e for e in report["expectations"] if e["probe"] == "power"}
        clock = found["SM clock under load, GHz"]
        self.assertEqual((clock["measured"], clock["verdict"]), (1.41, "disproved"))
        slow = found["time at the end over time at the beginning"]
        self.assertAlmostEqual(slow["measured"], 1.1)
        sustained = report["constants"][0]
        self.assertEqual((sustained["name"], sustained["status"]), ("sustained", "corrected"))
        self.assertAlmostEqual(sustained["measured"], 1.41 / 1.83)

    def test_compares_cold_with_warm(self):
        entry = entry_of("flush")
        times = {"default": 1.0, "tiles of 96 keys": 1.05, "cluster 2": 1.05}
        times.update({"default, warm": 0.9, "tiles of 96 keys, warm": 0.945})
        times["cluster 2, warm"] = 0.8
        made = case(entry, [setting(n, t, cold_l2="warm" not in n) for n, t in times.items()])
        verdicts = self.verdicts(self.report(made), "flush")
        self.assertEqual(verdicts["tiles of 96 keys over default: warm over cold"], "confirmed")
        self.assertEqual(verdicts["cluster 2 over default: warm over cold"], "disproved")

    # --- Not measured ---

    def test_lists_what_has_not_run_and_what_failed(self):
        failed = {"result": "failed", "name": "dq_d64", "log": "one\ndevice error: lost"}
        report = self.report(dq_case(), failed)
        self.assertEqual(report["not_measured"]["dq_d64"], "failed: device error: lost")
        self.assertEqual(report["not_measured"]["power"], "it has not run")
        self.assertNotIn("dq_d128", report["not_measured"])
        self.assertEqual(set(self.verdicts(report, "dq_d64").values()), {"not measured"})

    def test_a_setting_that_is_wrong_decides_nothing(self):
        made = dq_case()
        made["figures"]["settings"][2].update(verdict="wrong", reason="dq at 3", median_ms=None)
        report = self.report(made)
        self.assertEqual(self.verdicts(report, "dq_d128")["ordered over split"], "not measured")
        self.assertEqual(self.verdicts(report, "dq_d128")["atomic over split"], "confirmed")
        reasons = [e["reason"] for e in report["expectations"] if e["what"] == "ordered over split"]
        self.assertEqual(reasons[0], "ordered: wrong: dq at 3")
        by_name = {c["name"]: c for c in report["constants"]}
        self.assertEqual(by_name["ordered_clocks"]["status"], "not measured")

    def test_the_exit_code_is_0_if_everything_was_measured(self):
        entries = [entry_of("sum_path_d128")]
        only = self.folder / "probes.json"
        only.write_text(json.dumps({"format": "lssar-probes", "probes": entries}))
        times = {"TMA": 5.8, "registers": 7.0, "split": 7.0}
        made = case(entries[0], [setting(name, ms) for name, ms in times.items()])
        code, out, _ = self.call(document(made), "--probes", str(only))
        self.assertEqual(code, 0)
        self.assertIn("Nothing.", out)

    # --- Constants ---

    def test_finds_the_constant_at_which_the_model_agrees(self):
        constant = self.report(dq_case(ordered=1.31))["constants"][0]
        self.assertEqual(constant["status"], "corrected")
        self.assertEqual(constant["today"], 2000)
        self.assertAlmostEqual(constant["measured"], 1550, delta=10)  # 0.31 at 0.1 for each 500
        self.assertLess(constant["range"][0], constant["measured"])
        self.assertLess(constant["measured"], constant["range"][1])
        self.assertIn("CostConstants::ordered_clocks", constant["where"])

    def test_leaves_a_constant_that_agrees(self):
        report = self.report(dq_case(today=1545.0))
        self.assertEqual(report["constants"][0]["status"], "agrees")
        _, out, _ = self.call(document(dq_case(today=1545.0)))
        self.assertIn("As the model has them: ordered_clocks (dq_d128).", out)

    def test_says_that_no_value_explains_the_times(self):
        constant = self.report(dq_case(ordered=3.5))["constants"][0]
        self.assertEqual(constant["status"], "cannot")
        self.assertNotIn("measured", constant)
        self.assertAlmostEqual(constant["model_range"][1], 2.6)

    def test_every_place_that_it_names_has_the_constant(self):
        names = {c["name"] for e in ENTRIES for c in e.get("constants", [])} | {"sustained"}
        for name in names:
            where = script.WHERE.get(name, script.COST + name)
            path = where.split(",")[0]
            text = (ROOT / path).read_text()
            member = {"l2_bytes_per_clock": "kCards"}.get(name, name)
            self.assertTrue(re.search(rf"\b{member}\b", text), where)

    # --- Defaults ---

    def forward(self, alternative, **fields):
        entry = entry_of("tiles_train_d128")
        settings = [setting(s["name"], 4.7) for s in entry["settings"]]
        settings[1] = setting(settings[1]["name"], alternative, **fields)
        return case(entry, settings)

    def test_a_default_that_lost_gets_a_line_for_the_table(self):
        made = self.forward(4.2)
        default = self.report(made)["defaults"][0]
        self.assertEqual(default["setting"], "tiles of 48 keys")
        self.assertEqual(default["schedule"], {"of": "tiles of 48 keys"})
        self.assertAlmostEqual(default["ratio"], 4.2 / 4.7, places=3)
        path = self.folder / "table.jsonl"
        self.call(document(made), "--table", str(path))
        header, line = path.read_text().splitlines()
        self.assertEqual(json.loads(header)["format"], "lssar-tuning-table")
        self.assertEqual(line, '{"line": "tiles of 48 keys"}')

    def test_a_gain_below_the_spread_or_too_small_changes_nothing(self):
        self.assertEqual(self.report(self.forward(4.66))["defaults"], [])
        noisy = [4.7 * (0.9 if i % 2 else 1.05) for i in range(ROUNDS)]
        self.assertEqual(self.report(self.forward(4.5, samples_ms=noisy))["defaults"], [])

    def test_what_gives_other_bits_or_is_edited_replaces_nothing(self):
        self.assertEqual(self.report(dq_case(ordered=1.3, atomic=0.5))["defaults"], [])
        self.assertEqual(self.report(self.forward(4.2, edited=True))["defaults"], [])
        self.assertEqual(self.report(self.forward(4.2, cold_l2=False))["defaults"], [])

    # --- Refused ---

    def test_refuses_what_is_no_file_of_gpu_check(self):
        self.refused("[]", "allowed is a JSON object")
        wanted = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
        self.refused("{", wanted)
        made = document()
        del made["commit"]
        self.refused(made, "commit = missing: allowed is a text, as gpu_check.sh writes it")
        made = document()
        del made["probes"]
        self.refused(made, "probes = missing: allowed is the list that the part `probes` writes")

    def test_refuses_other_gpus(self):
        made = document()
        made["target"] = "sm_80"
        self.refused(made, 'target = "sm_80": allowed is "sm_90a": the constants are of no other')
        made = document()
        made["gpu"] = "NVIDIA L40S"
        self.refused(
            made, 'gpu = "NVIDIA L40S": allowed is H100 or H200: the constants are of no other'
        )
        made = document(dq_case())
        made["probes"][0]["figures"]["device"] = "NVIDIA H100"
        self.refused(
            made,
            'probes[0].figures.device = "NVIDIA H100": allowed is "NVIDIA H200", the file\'s gpu',
        )

    def test_refuses_what_was_counted(self):
        made = document(dq_case())
        made["probes"][0]["figures"]["evidence"] = "predicted"
        self.refused(made, 'probes[0].figures.evidence = "predicted": allowed is "measured"')

    def test_refuses_times_that_are_none(self):
        for value in (0, -1, "7", None, True):
            made = document(dq_case())
            made["probes"][0]["figures"]["settings"][1]["samples_ms"][3] = value
            shown = "missing" if value is None else json.dumps(value)
            place = "probes[0].figures.settings[1].samples_ms[3]"
            self.refused(made, f"{place} = {shown}: allowed is a number above 0")

    def test_refuses_other_questions(self):
        made = document(dq_case())
        made["probes"][0]["figures"]["definition"] = {**entry_of("dq_d128"), "length": 4}
        self.refused(
            made, "probes[0].figures.definition.length = 4: allowed is what tools/probes.json has"
        )
        made = document({"result": "passed", "name": "none"})
        self.refused(made, 'probes[0].name = "none": allowed is a name that tools/probes.json has')


if __name__ == "__main__":
    unittest.main()
