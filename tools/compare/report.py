"""Ratios, tables on the screen, and the JSON file. Works on plain records, without torch."""

import errno
import json
import math
import os
import stat
import tempfile

from compare.cases import PASSES

SOFTMAX = "cudnn"  # what ratios are to
EAGER = "eager"
_SHAPE = ("dim", "length", "batch", "heads", "causal", "data")


def key_of(record):
    return tuple(record[name] for name in _SHAPE) + (record["pass"],)


def add_ratios(records):
    """time / cuDNN's time, and eager's time / time, of the same case and pass; None without one."""
    medians = {(key_of(r), r["contender"]): r["median_ms"] for r in records if r["status"] == "ok"}
    for record in records:
        if record["status"] != "ok":
            continue
        softmax = medians.get((key_of(record), SOFTMAX))
        eager = medians.get((key_of(record), EAGER))
        record["ratio_to_cudnn"] = record["median_ms"] / softmax if softmax else None
        record["speedup_over_eager"] = eager / record["median_ms"] if eager else None


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


_HEADINGS = ("", "ms", "quartiles", "TFLOP/s", "x cuDNN", "over eager", "MiB")
_TENSORS = ("o", "dq", "dk", "dv")


def case_table(records):
    """All passes and contenders of one case, and below it why some did not run."""
    rows = [list(_HEADINGS) + [f"error {name}" for name in _TENSORS] + ["same bits"]]
    notes = []
    for record in records:
        label = f"{record['pass']}  {record['contender']}"
        if record["status"] != "ok":
            notes.append(f"  {label}: {record['reason']}")
            continue
        peak = record["peak_bytes"]
        same = {None: "", True: "yes", False: "no"}[record.get("repeatable")]
        rows.append(
            [
                label,
                number(record["median_ms"], ".3f"),
                "..".join(format(value, ".3f") for value in record["quartiles_ms"]),
                number(record["tflops"], ".1f"),
                number(record["ratio_to_cudnn"], ".2f"),
                number(record["speedup_over_eager"], ".1f"),
                number(None if peak is None else peak / 2**20, ".0f"),
                *(number(record["errors"].get(name), ".1e") for name in _TENSORS),
                same,
            ]
        )
        if "no_errors_because" in record:
            notes.append(f"  {label}: not compared: {record['no_errors_because']}")
    return "\n".join([table(rows)] + (["did not run:"] + notes if notes else []))


def ratio_table(records):
    """Times over cuDNN's softmax, one line per case and pass; None where cuDNN never ran."""
    done = [r for r in records if r["status"] == "ok" and r["ratio_to_cudnn"] is not None]
    names = list(dict.fromkeys(r["contender"] for r in done if r["contender"] != SOFTMAX))
    if not names:
        return None
    rows = [["times over cuDNN's softmax"] + names]
    ratios = {(key_of(r), r["contender"]): r["ratio_to_cudnn"] for r in done}
    keys = list(dict.fromkeys(key_of(r) for r in done))
    for key in sorted(keys, key=lambda k: (PASSES.index(k[-1]), keys.index(k))):
        dim, length, _, _, causal, data, pass_name = key
        label = f"{pass_name} d {dim} {'causal' if causal else 'full'} {length} {data}"
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
