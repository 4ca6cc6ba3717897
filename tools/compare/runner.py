"""Runs one case: every contender's errors, then every pass with all contenders in turns."""

import gc

import torch

from compare import definition, timing
from compare.cases import PASSES, RESULTS
from compare.contenders import NotHere

REFERENCE_BYTES = 2 << 30  # of one block of rows in float64
REFERENCE_BYTES_PER_SCORE = 160  # about 20 float64 tensors that autograd has at a time


class CaseRun:
    """`contenders` in the order they are set up: those that take much memory last. `references`:
    those that another case with the same inputs has left, by p."""

    def __init__(self, case, inputs, device, contenders, options, references=None):
        self.case = case
        self.inputs = inputs
        self.device = device
        self.contenders = contenders
        self.options = options
        self._references = {} if references is None else references

    def passes(self):
        """For each pass the records of all contenders: plain values, for JSON."""
        timed = [name for name in PASSES if name in self._wanted_passes()]
        # The passes whose results are compared. On the CPU the forward that is timed is compared,
        # too, where the gradients have another one.
        compared = {name: "forward_backward" for name in timed}
        if timed == ["forward"] or self.device.on_cpu and "forward" in timed:
            compared["forward"] = "forward"
        found = {
            name: {c.name: self._errors(c, name) for c in self.contenders}
            for name in dict.fromkeys(compared.values())
        }
        if not self.device.on_cpu:
            self._references.clear()
        for pass_name in timed:
            yield self._pass_records(pass_name, found[compared[pass_name]])

    def _wanted_passes(self):
        """A decode has no backward."""
        return ["forward"] if self.case.num_queries else self.options.passes

    # ---- Errors

    def _heads(self):
        """(batch, head) pairs that are compared: the first, and the last where two are wanted."""
        last = (self.case.batch - 1, 0 if self.case.kv_heads else self.case.heads - 1)
        return list(dict.fromkeys([(0, 0), last][: self.options.check_heads]))

    def _part(self, named, batch):
        """Tensors of a batch entry, and where it is in them."""
        return named, batch

    def _reference(self, p):
        if p not in self._references:
            case, offset = self.case, self.options.offset

            def attention(q, k, v, first):
                if p is None:
                    return definition.softmax(q, k, v, case.causal, first)
                return definition.lssar(q, k, v, case.causal, p, offset, first, torch.float64)

            rows = max(16, REFERENCE_BYTES // (case.length * REFERENCE_BYTES_PER_SCORE))
            self._references[p] = [
                definition.in_float64(attention, *self._part(self.inputs, batch), head, rows)
                for batch, head in self._heads()
            ]
        return self._references[p]

    def _errors(self, contender, wanted):
        """Relative errors by tensor of the pass `wanted`, or of its forward alone, the worst of the
        heads; or {"reason": why there are none}."""
        reason = None
        for pass_name in dict.fromkeys((wanted, "forward")):
            try:
                results = contender.results(pass_name)
                found = self._compare(results, contender.p)
                if hasattr(contender, "is_repeatable"):
                    found["repeatable"] = contender.is_repeatable(pass_name, results)
                if reason:
                    found["reason"] = reason
                return found
            except Exception as error:  # noqa: BLE001 - whatever a backend raises, the rest go on
                reason = reason or reason_of(error)
            finally:
                results = None  # frees it
                contender.close()
                self.device.release_cache()
        return {"reason": reason}

    def _compare(self, results, p):
        worst = {}
        for (batch, head), reference in zip(self._heads(), self._reference(p)):
            part, at = self._part(results, batch)
            for name, value in part.items():
                error = definition.relative_error(value[at, head], reference[name])
                # Written so that a NaN stays.
                worst[name] = worst[name] if name in worst and not worst[name] <= error else error
        return worst

    # ---- Times

    def _pass_records(self, pass_name, errors):
        calls, peaks, reasons, limits = {}, {}, {}, []
        try:
            for contender in self.contenders:
                name = contender.name
                try:
                    calls[name], peaks[name] = self._first_run(contender, pass_name)
                except Exception as error:  # noqa: BLE001
                    reasons[name] = reason_of(error)
                    contender.close()
                    self.device.release_cache()
            limits.append(self._limits())
            times, failed = timing.measure(
                self.device, calls, self.options.rounds, self.options.warmup, self.options.seconds
            )
            limits.append(self._limits())
            reasons.update(failed)
        finally:
            calls.clear()
            for contender in self.contenders:
                contender.close()
            self.device.release_cache()
        return [
            {
                **self._record(contender, pass_name, errors, times, peaks, reasons),
                **{name: max(both[name] for both in limits) for name in limits[0]},
            }
            for contender in self.contenders
        ]

    def _limits(self):
        """What the CPU reaches at this moment, by the name in a record; nothing for others."""
        if not self.device.on_cpu:
            return {}
        fma = self.device.fma_gflops()
        found = {} if fma is None else {"fma_gflops": fma}
        if self.case.num_queries:
            found["copy_gbytes_per_s"] = self.device.copy_gbytes_per_second()
        return found

    def _first_run(self, contender, pass_name):
        """The call, and the peak memory of it and its setup, without the inputs."""
        gc.collect()  # what earlier contenders left, freed later, would hide as much of the peak
        self.device.start_peak()
        before = self.device.allocated_bytes()
        call = contender.start(pass_name)
        call()
        self.device.synchronize()
        peak = self.device.peak_bytes()
        return call, None if peak is None else peak - before

    def _record(self, contender, pass_name, errors, times, peaks, reasons):
        name = contender.name
        record = {
            **self.case.to_json(),
            "pass": pass_name,
            "contender": name,
            "p": contender.p,
        }
        if name in reasons:
            return {**record, "status": "skipped", "reason": reasons[name]}
        timed = timing.summary(times[name])
        record.update(status="ok", **timed)
        record["tflops"] = self.case.flop(pass_name) / timed["median_ms"] / 1e9
        record["peak_bytes"] = peaks[name]
        if self.device.on_cpu:
            record["extra_bytes"] = self._extra_bytes(contender, pass_name, peaks[name])
        if hasattr(contender, "schedules"):
            record["schedules"] = contender.schedules(pass_name)
        found = errors[name]
        record["errors"] = {key: found[key] for key in RESULTS[pass_name] if key in found}
        if "reason" in found:
            record["no_errors_because"] = found["reason"]
        if "repeatable" in found:
            record["repeatable"] = found["repeatable"]
        return record


    def _extra_bytes(self, contender, pass_name, peak):
        """Of the peak what is neither a result nor, of ours, a tensor saved for the backward. The
        kernel counts by threads, some pages late: a difference below 0 is none."""
        if peak is None:
            return None
        like = {"o": "q", "dq": "q", "dk": "k", "dv": "v"}
        results = sum(self.inputs[like[name]].nbytes for name in RESULTS[pass_name])
        return max(0, peak - results - getattr(contender, "saved_bytes", 0))


def reason_of(error):
    return str(error) if isinstance(error, NotHere) else timing.reason_of(error)
