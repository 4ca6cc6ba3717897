#!/usr/bin/env python3
"""Reads the part `probes` of a file of gpu_check.sh and says what it changes.

    python3 tools/probe_results.py gpu_check.json                 Markdown
    python3 tools/probe_results.py gpu_check.json --json          the same as JSON
    python3 tools/probe_results.py gpu_check.json --table FILE    also writes a tuning table

It prints the constants of the cost model that the times correct, the default schedules that another
one beats by more than the spread, and each expectation of tools/probes.json with what was measured.
Exit code: 0 everything was measured, 1 something was not (it is listed), 2 the file is not what it
must be.
"""

import argparse
import json
import os
import statistics
import sys

# The GPUs for which the cost model has the constants that are corrected here.
TARGET, GPUS = "sm_90a", ("H100", "H200")
# A schedule replaces the default only if it saves more than this, as in a search (lssar tune).
LEAST_GAIN = 0.02
# A GPU that draws at least this share of the most that was seen is busy.
LOADED_SHARE = 0.8
# A clock that differs by less is the model's.
CLOCK_TOLERANCE = 0.02
TABLE_HEADER = '{"format":"lssar-tuning-table","version":1}'

COST = "autotune/model/cost_constants.h, CostConstants::"
WHERE = {
    "l2_bytes_per_clock": "autotune/model/gpu_model.cpp, kCards, which the timing model reads too",
    "sustained": "autotune/model/gpu_model.h, GpuModel::sustained",
}


class Refused(Exception):
    """The file is not what it must be."""


def refuse(place, value, allowed):
    shown = "missing" if value is None else json.dumps(value)[:60]
    raise Refused(f"{place} = {shown}: allowed is {allowed}")


def field(json_object, name, kind, place, allowed):
    value = json_object.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        refuse(f"{place}{name}", value, allowed)
    return value


# --- Reading --------------------------------------------------------------------------------------


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError) as error:
        raise Refused(str(error)) from error
    if not isinstance(value, dict):
        raise Refused("allowed is a JSON object")
    return value


def read_list(path):
    """The entries of tools/probes.json by name, in their order."""
    document = read_json(path)
    if document.get("format") != "lssar-probes":
        refuse("format", document.get("format"), '"lssar-probes"')
    entries = field(document, "probes", list, "", "a list of probes")
    return {entry["name"]: entry for entry in entries}


def check_gpu(document):
    """A file of gpu_check.sh, of a GPU whose constants these are."""
    for name in ("commit", "date", "gpu", "driver", "parts"):
        field(document, name, str, "", "a text, as gpu_check.sh writes it")
    target = field(document, "target", str, "", f'"{TARGET}"')
    if target != TARGET:
        refuse("target", target, f'"{TARGET}": the constants are of no other')
    if not any(name in document["gpu"] for name in GPUS):
        refuse("gpu", document["gpu"], " or ".join(GPUS) + ": the constants are of no other")
    return field(document, "probes", list, "", "the list that the part `probes` writes")


def is_time(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def check_setting(setting, place):
    """One that ran has times; another one has the reason why not."""
    field(setting, "name", str, place, "a text")
    if field(setting, "verdict", str, place, "a text") != "ok":
        field(setting, "reason", str, place, "a text")
        return
    if not is_time(setting.get("median_ms")):
        refuse(f"{place}median_ms", setting.get("median_ms"), "a number above 0")
    for name in ("samples_ms", "median_ms_of_half_seconds"):
        for i, ms in enumerate(setting.get(name, [])):
            if not is_time(ms):
                refuse(f"{place}{name}[{i}]", ms, "a number above 0")
    for name in ("edited", "cold_l2", "repeatable"):
        field(setting, name, bool, place, "true or false")
    field(setting, "schedule", dict, place, "a schedule")
    field(setting, "table_line", str, place, "a line of a tuning table")


def check_figures(figures, place, entry, gpu):
    """The figures of the question that the list asks, measured on this GPU."""
    if figures.get("evidence") != "measured":
        refuse(f"{place}evidence", figures.get("evidence"), '"measured"')
    if figures.get("device") != gpu:
        refuse(f"{place}device", figures.get("device"), f'"{gpu}", the file\'s gpu')
    definition = field(figures, "definition", dict, place, "the entry of tools/probes.json")
    for name in ("problem", "settings", "batch", "heads", "length", "rounds", "seconds", "data"):
        if definition.get(name) != entry.get(name):
            refuse(f"{place}definition.{name}", definition.get(name), "what tools/probes.json has")
    for name in ("problem", "sizes"):
        field(figures, name, dict, place, "an object")
    for name in ("model_clock_ghz", "sustained"):
        field(figures, name, (int, float), place, "a number")
    field(figures, "constants", list, place, "a list of constants")
    settings = field(figures, "settings", list, place, "a list of settings")
    for i, setting in enumerate(settings):
        check_setting(setting, f"{place}settings[{i}].")
    return {setting["name"]: setting for setting in settings}


class Measured:
    """A probe that passed: its settings by name, and what nvidia-smi said meanwhile."""

    def __init__(self, case, place, entry, gpu):
        self.figures = field(case, "figures", dict, place, "the figures of schedule_probe")
        self.settings = check_figures(self.figures, f"{place}figures.", entry, gpu)
        self.entry = entry
        self.states = case.get("gpu_states", [])
        for i, state in enumerate(self.states):
            for name in ("sm_mhz", "watts"):
                field(state, name, (int, float), f"{place}gpu_states[{i}].", "a number")

    def ok(self, *names):
        return all(self.settings.get(name, {}).get("verdict") == "ok" for name in names)

    def why_not(self, *names):
        for name in names:
            setting = self.settings.get(name)
            if setting is None:
                return f"no setting {name}"
            if setting["verdict"] != "ok":
                return f"{name}: {setting['verdict']}: {setting.get('reason', '')}"
        return ""


def read_probes(document, entries):
    """Those that were measured by name; why the others were not."""
    gpu = document["gpu"]
    measured, missing = {}, {name: "it has not run" for name in entries}
    for i, case in enumerate(check_gpu(document)):
        place = f"probes[{i}]."
        name = field(case, "name", str, place, "a text")
        if name not in entries:
            refuse(f"{place}name", name, "a name that tools/probes.json has")
        result = field(case, "result", str, place, "a text")
        if result != "passed":
            last = (case.get("log") or "").strip().splitlines()[-1:]
            missing[name] = ": ".join([result, *last])
            continue
        measured[name] = Measured(case, place, entries[name], gpu)
        missing.pop(name, None)
    return measured, missing


# --- Numbers --------------------------------------------------------------------------------------


def spread(values):
    """Median and quartiles."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def ratios(probe, above, below):
    """Round by round, because both ran in each round; else of the medians."""
    a = probe.settings[above].get("samples_ms") or [probe.settings[above]["median_ms"]]
    b = probe.settings[below].get("samples_ms") or [probe.settings[below]["median_ms"]]
    if len(a) != len(b):
        return [probe.settings[above]["median_ms"] / probe.settings[below]["median_ms"]]
    return [x / y for x, y in zip(a, b)]


def tflops(probe, name):
    """By softmax's count: 4 d FLOP for each visible score, 2.5 times that in the backward."""
    problem, sizes = probe.figures["problem"], probe.figures["sizes"]
    scores = sizes["batch"] * sizes["heads"] * sizes["seq_q"] * sizes["seq_k"]
    flop = 4 * problem["head_dim"] * scores * (0.5 if problem["causal"] else 1)
    flop *= 2.5 if problem["pass"] == "backward" else 1
    setting = probe.settings[name]
    times = setting.get("samples_ms") or [setting["median_ms"]]
    return [flop / (ms * 1e-3) * 1e-12 for ms in times]


def clocks_under_load(probe):
    """GHz as nvidia-smi sampled it, in the second half of the samples with much power.

    The others are of compiling and checking, when the GPU idles at its highest clock.
    """
    most = max((state["watts"] for state in probe.states), default=0)
    loaded = [state for state in probe.states if state["watts"] >= LOADED_SHARE * most]
    return [state["sm_mhz"] / 1e3 for state in loaded[len(loaded) // 2 :]]


# --- Expectations ---------------------------------------------------------------------------------


def quantity(probe, expect):
    """The samples of what an expectation is about, or why there are none."""
    if "ratio" in expect:
        names, value = expect["ratio"], ratios
    elif "tflops" in expect:
        names, value = [expect["tflops"]], tflops
    elif "change" in expect:
        names, value = expect["change"], change
    elif "slowdown" in expect:
        names, value = [expect["slowdown"]], slowdown
    elif "clock" in expect:
        names, value = [expect["clock"]], lambda of, _: clocks_under_load(of)
    else:
        refuse("expect", expect, "one of ratio, tflops, change, slowdown, clock")
    if not probe.ok(*names):
        return [], probe.why_not(*names)
    values = value(probe, *names)
    return values, "" if values else "nothing was sampled"


def change(probe, a, b, c, d):
    """a over b, over c over d. The two pairs did not run in the same rounds."""
    return [spread(ratios(probe, a, b))[0] / spread(ratios(probe, c, d))[0]]


def slowdown(probe, name):
    """The last half second over the first."""
    windows = probe.settings[name].get("median_ms_of_half_seconds", [])
    return [windows[-1] / windows[0]] if len(windows) > 1 else []


def judge(name, expect, probe, missing):
    result = {key: expect[key] for key in ("what", "low", "high", "source", "means")}
    result.update(probe=name, verdict="not measured", reason=missing)
    if probe is None:
        return result
    values, result["reason"] = quantity(probe, expect)
    if not values:
        return result
    middle, low, high = spread(values)
    inside = expect["low"] <= middle <= expect["high"]
    result.update(
        measured=middle, quartiles=[low, high], verdict="confirmed" if inside else "disproved"
    )
    return result


# --- Constants ------------------------------------------------------------------------------------


def crossing(values, model, wanted):
    """The value at which the model's ratio is `wanted`; None if it is nowhere."""
    for i in range(1, len(values)):
        a, b = model[i - 1] - wanted, model[i] - wanted
        if a == b or a * b > 0:
            continue
        return values[i - 1] + (values[i] - values[i - 1]) * a / (a - b)
    return None


def at(values, model, value):
    """The model's ratio at a value within its range."""
    for i in range(1, len(values)):
        if value <= values[i]:
            share = (value - values[i - 1]) / (values[i] - values[i - 1])
            return model[i - 1] + (model[i] - model[i - 1]) * share
    return model[-1]


def constant(name, given, probe):
    """What the ratio of two settings says of a constant."""
    above, below = given["ratio"]
    result = {"name": given["name"], "where": WHERE.get(given["name"], COST + given["name"])}
    result.update(probe=name, ratio=[above, below], status="not measured")
    swept = [one for one in probe.figures["constants"] if one["name"] == given["name"]]
    if not swept or not probe.ok(above, below):
        return {**result, "reason": probe.why_not(above, below) or "no estimates"}
    values, estimates = swept[0]["values"], swept[0]["estimates_ms"]
    model = [a / b for a, b in zip(estimates[above], estimates[below])]
    middle, low, high = spread(ratios(probe, above, below))
    today = at(values, model, swept[0]["today"])
    result.update(today=swept[0]["today"], model_ratio=today, measured_ratio=middle)
    if low <= today <= high:
        return {**result, "status": "agrees"}
    found = [crossing(values, model, wanted) for wanted in (middle, low, high)]
    if found[0] is None:
        result.update(status="cannot", range=[values[0], values[-1]])
        result["model_range"] = [min(model), max(model)]
        return result
    ends = sorted(value for value in found if value is not None)
    return {**result, "status": "corrected", "measured": found[0], "range": [ends[0], ends[-1]]}


def clock_constant(name, probe):
    """The share of the model's clock that the GPU had under load."""
    clocks = clocks_under_load(probe)
    result = {"name": "sustained", "where": WHERE["sustained"], "probe": name}
    if not clocks:
        return {**result, "status": "not measured", "reason": "nvidia-smi sampled no clocks"}
    today, shares = probe.figures["sustained"], spread(clocks)
    middle, low, high = (value / probe.figures["model_clock_ghz"] for value in shares)
    agrees = abs(middle / today - 1) <= CLOCK_TOLERANCE
    result.update(today=today, measured=middle, range=[low, high])
    return {**result, "status": "agrees" if agrees else "corrected"}


def constants_of(measured):
    found = []
    for name, probe in measured.items():
        found += [constant(name, given, probe) for given in probe.entry.get("constants", [])]
        if any("clock" in expect for expect in probe.entry["expect"]):
            found.append(clock_constant(name, probe))
    return found


# --- Defaults -------------------------------------------------------------------------------------


def replacement(name, probe):
    """The fastest setting that beats the first one by more than the spread, if there is one."""
    settings = list(probe.settings.values())
    default = settings[0]
    best = None
    for other in settings[1:]:
        is_candidate = (
            other["verdict"] == default["verdict"] == "ok"
            and not other["edited"]
            and other["cold_l2"]
            and (other["repeatable"] or not default["repeatable"])
        )
        if not is_candidate:
            continue
        middle, low, high = spread(ratios(probe, other["name"], default["name"]))
        if high < 1 and middle <= 1 - LEAST_GAIN and (best is None or middle < best["ratio"]):
            best = {"ratio": middle, "quartiles": [low, high], "setting": other["name"]}
            best.update(schedule=other["schedule"], table_line=other["table_line"])
    if best is None:
        return []
    problem = probe.figures["problem"]
    return [{"probe": name, "problem": problem, "default": default["name"], **best}]


# --- Output ---------------------------------------------------------------------------------------


def number(value):
    return f"{value:.4g}"


def pair(values):
    return f"{number(values[0])} to {number(values[1])}"


def table(titles, rows):
    if not rows:
        return ["None."]
    cells = [titles, ["---"] * len(titles)]
    cells += [[cell.replace("|", "/") for cell in row] for row in rows]
    return ["| " + " | ".join(row) + " |" for row in cells]


def constant_row(one):
    """Of a constant that is not as the model has it."""
    if one["status"] == "corrected":
        found, beside = number(one["measured"]), pair(one["range"])
    else:
        found = f"none from {pair(one['range'])}: the model's ratios are {pair(one['model_range'])}"
        beside = f"measured ratio {number(one['measured_ratio'])}"
    return one["name"], one["where"], number(one["today"]), found, beside, one["probe"]


def problem_text(problem):
    mask = "causal" if problem["causal"] else "no mask"
    return f"{problem['pass']}, d {problem['head_dim']}, {mask}, {problem['dtype']}"


def default_row(one):
    ratio = f"{number(one['ratio'])} ({pair(one['quartiles'])})"
    schedule = json.dumps(one["schedule"], separators=(",", ":"))
    return problem_text(one["problem"]), one["default"], one["setting"], ratio, f"`{schedule}`"


def expectation_row(one):
    figure = one["reason"] or "not measured"
    if "measured" in one:
        figure = f"{number(one['measured'])} ({pair(one['quartiles'])})"
    expected = pair((one["low"], one["high"]))
    return one["probe"], one["what"], expected, figure, one["verdict"], one["source"]


def disproved_line(one):
    expected = pair((one["low"], one["high"]))
    figure = f"{number(one['measured'])}, expected {expected} ({one['source']})"
    return f"- {one['probe']}: {one['what']} is {figure}: {one['means']}."


def markdown(report):
    constants, expectations = report["constants"], report["expectations"]
    lines = [f"# What the probes say of {report['gpu']}", ""]
    lines += [f"Commit {report['commit']}, {report['date']}, driver {report['driver']}.", ""]
    lines += ["## Constants that the times correct", ""]
    changed = [constant_row(one) for one in constants if one["status"] in ("corrected", "cannot")]
    titles = ("constant", "where", "today", "measured", "between the quartiles", "probe")
    lines += table(titles, changed)
    same = [f"{one['name']} ({one['probe']})" for one in constants if one["status"] == "agrees"]
    lines += ["", "As the model has them: " + (", ".join(same) or "none") + "."]
    lines += ["", "## Defaults that another schedule beats", ""]
    titles = ("problem", "default", "better", "time over the default's", "its schedule")
    lines += table(titles, [default_row(one) for one in report["defaults"]])
    lines += ["", "## What the hardware disproved", ""]
    disproved = [one for one in expectations if one["verdict"] == "disproved"]
    lines += [disproved_line(one) for one in disproved] or ["Nothing."]
    lines += ["", "## Every expectation", ""]
    titles = ("probe", "quantity", "expected", "measured (quartiles)", "verdict", "source")
    return "\n".join(lines + table(titles, [expectation_row(one) for one in expectations]))


def make_report(document, entries):
    check_gpu(document)
    measured, missing = read_probes(document, entries)
    report = {name: document[name] for name in ("gpu", "driver", "commit", "date")}
    report["constants"] = constants_of(measured)
    report["defaults"] = []
    for name, probe in measured.items():
        report["defaults"] += replacement(name, probe)
    report["expectations"] = [
        judge(name, expect, measured.get(name), missing.get(name, ""))
        for name, entry in entries.items()
        for expect in entry["expect"]
    ]
    report["not_measured"] = missing
    return report


def write_table(path, report):
    lines = [TABLE_HEADER] + [d["table_line"] for d in report["defaults"] if d["table_line"]]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="what gpu_check.sh wrote")
    parser.add_argument("--json", action="store_true", help="JSON instead of Markdown")
    parser.add_argument("--table", help="writes the better schedules as a tuning table")
    default = os.path.join(here, "probes.json")
    parser.add_argument("--probes", default=default, help="the list of probes that was asked")
    options = parser.parse_args()
    path = options.probes
    try:
        entries = read_list(path)
        path = options.file
        report = make_report(read_json(path), entries)
        if options.table:
            write_table(options.table, report)
    except (Refused, OSError) as error:
        print(f"probe_results: {path}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(report, indent=2) if options.json else markdown(report))
    return 1 if any(e["verdict"] == "not measured" for e in report["expectations"]) else 0


if __name__ == "__main__":
    sys.exit(main())
