"""Finds and opens liblssar.so, once per process. Needs neither torch nor JAX.

Used by _plans. Any thread may call library(); it is opened by the first call, not by `import`.
"""

import ctypes
import importlib.util
import os
import pathlib
import threading

from . import _structs

NAME = "liblssar.so"
_HERE = pathlib.Path(__file__).resolve().parent


class LssarError(RuntimeError):
    """A call of liblssar.so that failed, with the library's own line; or there is no library.

    `status` is the lssar_status of include/lssar/lssar.h, None where there is no library.
    """

    def __init__(self, message: str, status: "int | None" = None) -> None:
        super().__init__(message)
        self.status = status


class Library:
    """The functions of liblssar.so as attributes, without the prefix `lssar_`."""

    def __init__(self, api, path):
        self.path = path
        for name, (result, arguments) in _structs.PROTOTYPES.items():
            try:
                function = getattr(api, name)
            except AttributeError:
                raise LssarError(f"{path}: no function {name}: not lssar's library") from None
            function.restype = result
            function.argtypes = arguments
            setattr(self, name[len("lssar_") :], function)
        abi = self.abi_version()
        if abi != _structs.ABI_VERSION:
            raise LssarError(
                f"{path}: ABI version {abi}; this package needs {_structs.ABI_VERSION}: take "
                "library and package from one version of lssar"
            )

    def check(self, status):
        """Raises the error of a status that is not OK. The thread must be that of the call."""
        if status != 0:
            name = self.status_string(status).decode()
            detail = self.last_error_detail().decode(errors="replace")
            raise LssarError(f"{name}: {detail}", status)


def _wanted_by_environment(value):
    """LSSAR_LIBRARY: the library, its folder, or a build folder."""
    path = pathlib.Path(value)
    for candidate in (path, path / NAME, path / "lib" / NAME):
        if candidate.is_file():
            return str(candidate)
    raise LssarError(
        f"LSSAR_LIBRARY = '{value}': there is no such file, nor a {NAME} in it or in its lib/; it "
        "must be the library, its folder or a folder that lssar was built in"
    )


def _candidates():
    """Best first: in the installed package, in the source tree's build, where the loader looks."""
    wanted = os.environ.get("LSSAR_LIBRARY")
    if wanted:
        return [_wanted_by_environment(wanted)]
    tree = _HERE.parent.parent
    files = [_HERE / "lib" / NAME]
    if (tree / "include" / "lssar" / "lssar.h").is_file():
        files.append(tree / "build" / "release" / "lib" / NAME)
    return [str(file) for file in files] + [f"{NAME}.{_structs.ABI_VERSION}"]


def _offer_nvrtc_wheel():
    """Opens the NVRTC that pip installed, with torch or JAX say, and that fits the driver they run
    on: liblssar.so then finds it by its name. Where there is none, or it does not open, liblssar.so
    looks elsewhere."""
    if os.environ.get("LSSAR_NVRTC_PATH"):
        return
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else spec.submodule_search_locations or []
    # NVRTC opens its builtins by name when it first compiles.
    for pattern in ("*/lib/libnvrtc.so.*", "*/lib/libnvrtc-builtins.so.*"):
        found = [file for folder in folders for file in sorted(pathlib.Path(folder).glob(pattern))]
        for file in found[-1:]:
            try:
                ctypes.CDLL(str(file))
            except OSError:
                return


def _open():
    candidates = _candidates()
    _offer_nvrtc_wheel()
    tried = []
    for candidate in candidates:
        if os.sep in candidate and not os.path.exists(candidate):
            tried.append(f"{candidate}: no such file")
            continue
        try:
            # CDLL, not PyDLL: other Python threads run while the library works.
            return Library(ctypes.CDLL(candidate), candidate)
        except OSError as error:
            tried.append(str(error))
    raise LssarError(
        f"{NAME} was not found: install the package with pip, or set LSSAR_LIBRARY to a folder "
        "that lssar was built in. Tried:\n  " + "\n  ".join(tried)
    )


_opened = None
_lock = threading.Lock()


def library():
    global _opened
    if _opened is None:
        with _lock:
            if _opened is None:
                _opened = _open()
    return _opened
