"""Ratios, tables on the screen, and the JSON file. Works on plain records, without torch."""

import errno
import json
import math
import os
import stat
import tempfile

from compare.cases import PASSES

SOFTMAX = "cudnn"  # what ratios are to
CPU_SOFTMAX = "flash"
EAGER = "eager"
_SHAPE = ("dim", "length", "batch", "heads", "causal", "data")
_CPU_SHAPE = ("dtype", "threads", "num_queries", "kv_heads", "longest")


def is_of_cpu(record):
    return "threads" in record


def key_of(record):
    cpu = tuple(record.get(name) for name in _CPU_SHAPE)
    return tuple(record[name] for name in _SHAPE) + (cpu, record["pass"])


def add_ratios(records):
    """time / cuDNN's time, and eager's time / time, of the same case and pass; None without one.

    On the CPU the time of torch's softmax, too, is divided by the record's, and the rate by the
    FMA peak.
    """
    medians = {(key_of(r), r["contender"]): r["median_ms"] for r in records if r["status"] == "ok"}
    for record in records:
        if record["status"] != "ok":
            continue

        def speedup_over(name, record=record):
            other = medians.get((key_of(record), name))
            return other / record["median_ms"] if other else None

        if is_of_cpu(record):
            record["speedup_over_softmax"] = speedup_over(CPU_SOFTMAX)
            record["speedup_over_compile"] = speedup_over("compile")
            record["speedup_over_padded"] = speedup_over(CPU_SOFTMAX + "-padded")
            peak = record.get("fma_gflops")
            record["share_of_fma"] = 1e3 * record["tflops"] / peak if peak else None
        else:
            softmax = medians.get((key_of(record), SOFTMAX))
            record["ratio_to_cudnn"] = record["median_ms"] / softmax if softmax else None
        record["speedup_over_eager"] = speedup_over(EAGER)


def number(value, form):
    return "-" if value is None else format(value, form)


def table(rows):
    """Columns as wide as they must be; the first is flush left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def mebibytes(value):
    return number(None if value is None else value / 2**20, ".0f")


# Columns between the times and the errors: heading, and what a record has there.
_GPU_COLUMNS = (
    ("TFLOP/s", lambda r: number(r["tflops"], ".1f")),
    ("x cuDNN", lambda r: number(r["ratio_to_cudnn"], ".2f")),
    ("over eager", lambda r: number(r["speedup_over_eager"], ".1f")),
    ("MiB", lambda r: mebibytes(r["peak_bytes"])),
)
_CPU_COLUMNS = (
    ("GFLOP/s", lambda r: number(1e3 * r["tflops"], ".1f")),
    ("of FMA peak", lambda r: number(r["share_of_fma"], ".0%")),
    ("over softmax", lambda r: number(r["speedup_over_softmax"], ".2f")),
    ("over eager", lambda r: number(r["speedup_over_eager"], ".1f")),
    ("over compile", lambda r: number(r["speedup_over_compile"], ".1f")),
    ("MiB", lambda r: mebibytes(r["peak_bytes"])),
    ("MiB beyond", lambda r: mebibytes(r["extra_bytes"])),
)
_TENSORS = ("o", "dq", "dk", "dv")


def case_table(records):
    """All passes and contenders of one case, and below it why some did not run."""
    columns = _CPU_COLUMNS if is_of_cpu(records[0]) else _GPU_COLUMNS
    headings = ["", "ms", "quartiles"] + [heading for heading, _ in columns]
    rows = [headings + [f"error {name}" for name in _TENSORS] + ["same bits"]]
    notes = [limits_text(records)] if is_of_cpu(records[0]) else []
    skipped = []
    for record in records:
        label = f"{record['pass']}  {record['contender']}"
        if record["status"] != "ok":
            skipped.append(f"  {label}: {record['reason']}")
            continue
        same = {None: "", True: "yes", False: "no"}[record.get("repeatable")]
        rows.append(
            [
                label,
                number(record["median_ms"], ".3f"),
                "..".join(format(value, ".3f") for value in record["quartiles_ms"]),
                *(text_of(record) for _, text_of in columns),
                *(number(record["errors"].get(name), ".1e") for name in _TENSORS),
                same,
            ]
        )
        if "no_errors_because" in record:
            skipped.append(f"  {label}: not compared: {record['no_errors_because']}")
    return "\n".join([table(rows)] + notes + (["did not run:"] + skipped if skipped else []))


def limits_text(records):
    """What the CPU reached beside the passes of one case."""
    parts = []
    for record in {r["pass"]: r for r in records}.values():
        if "fma_gflops" in record:
            parts.append(f"{record['pass']}: FMA peak {record['fma_gflops']:.1f} GFLOP/s")
        if "copy_gbytes_per_s" in record:
            parts.append(f"copies {record['copy_gbytes_per_s']:.1f} GB/s")
    return "; ".join(parts) or "no FMA peak: it takes an x86-64 CPU with FMA, and executable memory"


def ratio_table(records):
    """Times over cuDNN's softmax, one line per case and pass; None where cuDNN never ran. On the
    CPU the times of torch's softmax over the contenders'."""
    on_cpu = any(is_of_cpu(r) for r in records)
    field = "speedup_over_softmax" if on_cpu else "ratio_to_cudnn"
    softmax = CPU_SOFTMAX if on_cpu else SOFTMAX
    done = [r for r in records if r["status"] == "ok" and r[field] is not None]
    names = list(dict.fromkeys(r["contender"] for r in done if r["contender"] != softmax))
    if not names:
        return None
    rows = [["torch's softmax over" if on_cpu else "times over cuDNN's softmax"] + names]
    ratios = {(key_of(r), r["contender"]): r[field] for r in done}
    keys = list(dict.fromkeys(key_of(r) for r in done))
    for key in sorted(keys, key=lambda k: (PASSES.index(k[-1]), keys.index(k))):
        dim, length, _, _, causal, data, of_cpu, pass_name = key
        dtype, threads, num_queries, kv_heads, longest = of_cpu
        label = f"{pass_name} d {dim} {'causal' if causal else 'full'} {length} {data}"
        if on_cpu:
            label += f" {dtype} {threads} threads"
        label += " decode" if num_queries else ""
        label += (f" {kv_heads} kv heads" if kv_heads else "") + (" packed" if longest else "")
        rows.append([label] + [number(ratios.get((key, name)), ".2f") for name in names])
    return table(rows)


def new_file_mode():
    """The mode of a new file under the umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def write_atomically(path, text):
    """The whole file or none of it: readers never see half.

    As every file of the lssar command: a link stays and what it names is written, a device or FIFO
    is written through, a regular file keeps its mode, and one that is read-only is an error.
    """
    path = os.path.realpath(path)
    mode = new_file_mode()
    if os.path.exists(path):
        found = os.stat(path).st_mode
        if not stat.S_ISREG(found):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        if not found & 0o222 or not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "is read-only and is left as it is", path)
        mode = stat.S_IMODE(found) & 0o777
    handle, staging = tempfile.mkstemp(dir=os.path.dirname(path), suffix=".partial")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(staging, mode)
        os.replace(staging, path)
    except BaseException:
        os.unlink(staging)
        raise


def without_nan(value):
    """JSON has no NaN and no infinity: they become the strings "nan", "inf" and "-inf"."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def write_json(path, document):
    write_atomically(path, json.dumps(without_nan(document), indent=1, allow_nan=False) + "\n")
