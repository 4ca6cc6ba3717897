"""Describes the machine of a comparison. Changes no setting. Unknown values are None."""

import os
import pathlib
import platform
import shutil
import subprocess

import torch

from compare import cpu

SMI_FIELDS = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "clocks.max.mem",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "persistence_mode",
)


def _output(command, seconds=20):
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()


def gpu_state(device):
    """Clocks, power and temperature as nvidia-smi reports them now; None without it."""
    if not hasattr(device, "properties") or not shutil.which("nvidia-smi"):
        return None
    uuid = getattr(device.properties, "uuid", None)
    which = f"GPU-{uuid}" if uuid else str(device.ordinal)
    line = _output(
        ["nvidia-smi", "-i", which, "--query-gpu=" + ",".join(SMI_FIELDS), "--format=csv,noheader"]
    )
    values = [value.strip() for value in (line or "").split(",")]
    return dict(zip(SMI_FIELDS, values)) if len(values) == len(SMI_FIELDS) else None


def state_after(device):
    """Of a case's end, by its name in the file: whether the machine was busy or slowed."""
    if device.on_cpu:
        return {"load_average_after": os.getloadavg()[0]}
    return {"gpu_state_after": gpu_state(device)}


def commit(tools_folder):
    """The commit of the checkout or bundle that has the script."""
    root = pathlib.Path(tools_folder).parent
    if (root / "COMMIT").is_file():
        return (root / "COMMIT").read_text().strip()
    head = _output(["git", "-C", str(root), "rev-parse", "HEAD"])
    if head and _output(["git", "-C", str(root), "status", "--porcelain", "-uno"]):
        head += " with local changes"
    return head


def use_torch_nvrtc():
    """Points liblssar.so at the NVRTC that came with torch, which fits the driver that torch runs
    on, unless LSSAR_NVRTC_PATH says otherwise. REQUIRES: liblssar.so is not loaded yet."""
    if os.environ.get("LSSAR_NVRTC_PATH"):
        return
    packages = pathlib.Path(torch.__file__).parent.parent / "nvidia"
    found = sorted(packages.glob("*/lib/libnvrtc.so.*"))
    if found:
        os.environ["LSSAR_NVRTC_PATH"] = str(found[-1])


def describe(device, library, context):
    """The machine and the versions. REQUIRES: a plan was prepared, so that a compiler is known."""
    info = context.info()
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    machine = {
        **({"cpu": cpu.describe()} if device.on_cpu else {}),
        "gpu": None if device.on_cpu else info["device_name"],
        "driver": info["driver"] or None,
        "target": info["target"],
        "num_sms": info["num_sms"],
        "lssar": library.build_info().decode(),
        "compiler": library.compiler(),
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "cudnn": cudnn,
        "python": platform.python_version(),
        "l2_bytes": device.l2_bytes,
        "flush_bytes": device.flush_bytes,
        "gpu_state": gpu_state(device),
    }
    try:
        import triton

        machine["triton"] = triton.__version__
    except ImportError:
        machine["triton"] = None
    return machine
