"""A whole comparison: cases in order, files written after each of them."""

import dataclasses
import datetime
import os
import time

import torch

from compare import capi, cpu, definition, machine, plot, report, sequences, timing
from compare.cases import CPU_OPTIONS, make_cases, make_cpu_cases, make_decodes
from compare.contenders import NotHere, OursContender, PlainContender, SdpaContender
from compare.flex import FlexContender
from compare.runner import CaseRun

DONE, WRONG_NUMBERS, MISSING, DEVICE_ERROR = 0, 1, 3, 4
FORMAT = 1  # of the JSON file
TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# docs/accuracy.md: o, gradients. Without its floor, so for Gaussian inputs only.
TOLERANCES = {"bf16": (3e-3, 5e-3), "fp16": (1e-3, 2e-3), "fp32": (1e-5, 2e-5)}
PASS_BITS = {
    "forward": capi.PASS_FORWARD,
    "forward_train": capi.PASS_FORWARD_TRAIN,
    "backward": capi.PASS_FORWARD_TRAIN | capi.PASS_BACKWARD,
    "forward_backward": capi.PASS_FORWARD_TRAIN | capi.PASS_BACKWARD,
}


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def tolerances(dtype, p):
    """Of o and of gradients. `p` None: softmax."""
    factor = max(1.0, (p or 0) / 15) if dtype == "fp32" else 1.0
    return [factor * limit for limit in TOLERANCES[dtype]]


def name_of(record):
    """One line's name of what a record is about."""
    cpu_part = f"{record['dtype']} {record['threads']} threads " if "threads" in record else ""
    return (
        f"{record['pass']} {record['contender']} {cpu_part}d {record['dim']} "
        f"length {record['length']}"
    )


class Session:
    """Raises LssarError where liblssar.so or its device is missing, OSError where the output
    folder cannot be written."""

    def __init__(self, options, tools_folder, writes=True):
        self.options = options
        on_gpu = options.device == "cuda"
        machine.use_torch_nvrtc()
        self.library = capi.Library(options.library, tools_folder)
        kinds = {
            "cuda": capi.DEVICE_CUDA,
            "cpu": capi.DEVICE_CPU,
            "virtual": capi.DEVICE_VIRTUAL,
        }
        ordinal = options.gpu if on_gpu else 0

        def open_context(library):
            return capi.Context(library, kinds[options.device], ordinal, options.target)

        self.context = open_context(self.library)
        # By the name that a contender's has after an @; the first one is --library's.
        self._contexts = {"": self.context}
        for name, path in options.libraries.items():
            self._contexts[name] = open_context(capi.Library(path, tools_folder))
        if on_gpu:
            self.device = timing.CudaDevice(options.gpu)
        else:
            self.device = cpu.CpuDevice() if options.device == "cpu" else timing.VirtualDevice()
        self.stopped = None
        self.records = []
        self._plans = {}
        self._references = (None, {})  # of one set of inputs, which several thread counts share
        self._document = {
            "format": FORMAT,
            "what": "tools/compare_torch.py",
            "commit": machine.commit(tools_folder),
            "started": now(),
            "times_mean_something": self.device.times_mean_something,
            "options": self._options_for_json(),
            "machine": None,
            "cases": [],
        }
        if writes:
            self._write()

    def _options_for_json(self):
        """Without paths, which say nothing to others."""
        hidden = ("output_dir", "overwrite", "library", "libraries", "against", "schedule")
        hidden += () if self.device.on_cpu else CPU_OPTIONS
        return {key: value for key, value in vars(self.options).items() if key not in hidden}

    # ---- Contenders

    def _plan(self, case, p, schedule, score=None, library=""):
        """The plan of a shape, or NotHere with the reason that was found the first time."""
        sizes = (case.dim, case.length, case.batch, case.num_queries, case.kv_heads, case.lengths)
        key = (*sizes, case.dtype, case.causal, p, schedule, score, library)
        if key not in self._plans:
            try:
                context = self._contexts[library]
                self._plans[key] = context.plan(self._problem(case, p, score), schedule)
            except capi.LssarError as error:
                if error.status == capi.STATUS_MISSING:  # no compiler
                    raise
                self._plans[key] = NotHere(str(error).splitlines()[0])
        plan = self._plans[key]
        if isinstance(plan, NotHere):
            raise plan
        return plan

    def _problem(self, case, p, score):
        passes = 0
        for name in self.options.passes:
            passes |= PASS_BITS[name]
        if self.options.check_heads and passes != capi.PASS_FORWARD:
            passes |= capi.PASS_FORWARD_TRAIN | capi.PASS_BACKWARD
        if case.num_queries:
            passes = capi.PASS_FORWARD
        fixed = self.options.fixed_lengths and not case.lengths
        # A GPU's plan divides keys among blocks only if it knows the number of queries.
        fixed_queries = fixed or case.num_queries and not self.device.on_cpu
        return capi.sized(
            capi.Problem,
            passes=passes,
            dtype=capi.DTYPES[case.dtype or self.options.dtype],
            head_dim=case.dim,
            seq_q=case.queries() if fixed_queries else 0,
            seq_k=case.length if fixed else 0,
            batch=case.batch,
            heads=case.heads,
            kv_heads=case.kv_heads or 0,
            varlen=int(case.lengths is not None),
            causal=int(case.causal),
            p=p,
            offset=self.options.offset,
            alignment=16,
            score=score,
        )

    def _contenders(self, case, inputs):
        """In the order of --help; those that may take most memory come last."""
        sdpa = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION", "math": "MATH"}
        wanted = self.options.contenders
        common = (case, inputs, self.device)
        if case.lengths:
            made = sequences.softmax_contenders(*common) if "flash" in wanted else []
            return made + self._ours(common, wanted, sequences.OursSequencesContender)
        made = [SdpaContender(name, *common, sdpa[name]) for name in sdpa if name in wanted]
        made += self._ours(common, wanted, OursContender)
        if case.kv_heads:
            return made  # the others have as many heads of keys
        if "flex" in wanted:
            made += [
                FlexContender(f"flex-p{p}", *common, p, self.options.offset) for p in self.options.p
            ]
        for name in ("compile", "eager"):
            if name in wanted:
                p, offset = self.options.p[0], self.options.offset
                made.append(PlainContender(name, *common, p, offset, compiled=name == "compile"))
        return made

    def _ours(self, common, wanted, make):
        """Those of ours that are wanted. `common`: what each contender gets."""
        made = []
        for label, p, plan in self._plans_of(common[0], wanted):

            def find_plan(plan=plan):
                return self._plan(common[0], *plan)

            made.append(make(label, *common, find_plan, p))
        return made

    def _plans_of(self, case, wanted):
        """Name, p (None: softmax) and the arguments of _plan, for each contender of ours."""
        for library in self._contexts:
            at = f"@{library}" if library else ""
            if "ours-softmax" in wanted:
                yield f"ours-softmax{at}", None, (0, None, b"softmax", library)
            if "ours" in wanted:
                for p in self.options.p:
                    for name, schedule in {"": None, **self.options.schedules}.items():
                        label = f"ours-p{p}{at}" + (f"/{name}" if name else "")
                        yield label, p, (p, schedule, None, library)

    def compile_share(self, index, count):
        """Compiles what every count-th plan from `index` on needs, into the library's cache."""
        wanted = self.options.contenders
        plans = [(c, plan) for c in self._cases() for _, _, plan in self._plans_of(c, wanted)]
        for case, plan in plans[index::count]:
            try:
                self._plan(case, *plan)
            except (NotHere, capi.LssarError):
                pass  # its case will say so

    def _cases(self):
        options = self.options
        if self.device.on_cpu:
            return make_cpu_cases(options)
        causal = [value == "yes" for value in options.causal]
        return make_decodes(options) + make_cases(
            options.dims, options.lengths, causal, options.data, options.heads, options.tokens
        )

    # ---- Running

    def run(self):
        """Returns the exit code. KeyboardInterrupt passes through; call finish after it too."""
        options = self.options
        cases = self._cases()
        if "ours" in options.contenders:
            try:
                self._plan(cases[0], options.p[0], None)
            except NotHere:
                pass  # each case will say so
            except capi.LssarError as error:
                self.stopped = str(error)
                return MISSING
        start = time.monotonic()
        for number, case in enumerate(cases, 1):
            if options.minutes and time.monotonic() - start > 60 * options.minutes:
                left = len(cases) - number + 1
                self.stopped = (
                    f"{left} of {len(cases)} cases left out, --minutes {options.minutes:g}"
                )
                break
            print(f"[{number}/{len(cases)}] {case.text()}", flush=True)
            try:
                self._run_case(case)
            except Exception as error:  # noqa: BLE001
                reason = timing.reason_of(error)
                print(f"gave up: {reason}\n", flush=True)
                self._document["cases"].append({**case.to_json(), "gave_up": reason})
                if not self._device_lives():
                    self.stopped = f"the device failed: {reason}"
                    return DEVICE_ERROR
        if self._not_run():
            return DEVICE_ERROR
        return WRONG_NUMBERS if self._wrong() else DONE

    def _run_case(self, case):
        options = self.options
        self.device.prepare(case)
        inputs = self._inputs(case)
        made = self._contenders(case, inputs)
        kind = sequences.SequencesRun if case.lengths else CaseRun
        run = kind(case, inputs, self.device, made, options, self._references_of(case))
        first = len(self.records)
        try:
            for records in run.passes():
                report.add_ratios(records)
                self.records += records
            state = {**case.to_json(), **machine.state_after(self.device)}
            if case.lengths:
                state["lengths"] = case.lengths
            self._document["cases"].append(state)
        finally:
            if len(self.records) > first:
                print(report.case_table(self.records[first:]) + "\n", flush=True)
            self._write()

    def _inputs(self, case):
        dtype = TORCH_DTYPES[case.dtype or self.options.dtype]
        seed, device = self.options.seed, self.device.torch_device
        if case.lengths:
            return sequences.make_inputs(case, dtype, seed, device)
        return definition.make_inputs(
            *(case.data, case.shape(), dtype, case.causal, seed, device),
            *(case.num_queries, case.kv_heads),
        )

    def _references_of(self, case):
        """Those that cases with the same inputs share. One set is kept: the next case's."""
        inputs_of = dataclasses.replace(case, threads=None)
        if self._references[0] != inputs_of:
            self._references = (inputs_of, {})
        return self._references[1]

    def _device_lives(self):
        try:
            self.device.synchronize()
            return True
        except Exception:  # noqa: BLE001
            return False

    def _wrong(self):
        """Errors of ours that docs/accuracy.md does not allow, as lines. A NaN is wrong."""
        wrong = []
        for record in self.records:
            if record["status"] != "ok" or not record["contender"].startswith("ours"):
                continue
            limits = tolerances(record.get("dtype") or self.options.dtype, record["p"])
            for name, error in record["errors"].items():
                limit = limits[name != "o"]
                if name != "o" and record["data"] != "gauss":
                    continue
                if not error <= limit:
                    wrong.append(
                        f"{name_of(record)}: error of {name} {error:.1e}, allowed {limit:.1e}"
                    )
        return wrong

    def _not_run(self):
        """Where ours gave no times, as lines."""
        return [
            f"{name_of(record)}: {record['reason']}"
            for record in self.records
            if record["status"] != "ok" and record["contender"].startswith("ours")
        ]

    # ---- Files

    def _path(self, name):
        return os.path.join(self.options.output_dir, name)

    def _title(self):
        machine = self._document["machine"] or {}
        if self.device.on_cpu:
            return f"LSSAR and softmax attention, {machine.get('cpu', {}).get('model', 'CPU')}"
        title = (
            f"LSSAR and softmax attention, {self.options.dtype}, {machine.get('gpu') or 'no GPU'}"
        )
        return title if self.device.times_mean_something else title + ": times mean nothing"

    def _write(self):
        if self._document["machine"] is None and self.library.compiler():
            self._document["machine"] = machine.describe(self.device, self.library, self.context)
        document = {
            **self._document,
            "finished": now(),
            "stopped": self.stopped,
            "records": self.records,
        }
        report.write_json(self._path("compare.json"), document)
        report.write_atomically(self._path("compare.svg"), plot.plot(self.records, self._title()))

    def finish(self):
        """Writes all that was measured, and prints the summary."""
        if self._document["machine"] is None:
            self._document["machine"] = machine.describe(self.device, self.library, self.context)
        self._write()
        ratios = report.ratio_table(self.records)
        if ratios:
            print(ratios + "\n")
        for line in self._not_run():
            print(f"DID NOT RUN: {line}")
        for line in self._wrong():
            print(f"WRONG: {line}")
        if not self.device.times_mean_something:
            print("The times mean nothing: ours ran on the virtual device.")
        if self.stopped:
            print(f"Stopped: {self.stopped}. What was measured before is in the files.")
        print(f"{self._path('compare.json')}\n{self._path('compare.svg')}")
