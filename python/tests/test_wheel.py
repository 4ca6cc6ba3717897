"""The wheel that `pip wheel .` makes, of libraries that are built already: what is in it, and that it
works where it was installed, with torch and without."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "lssar"


def run(*command, **variables):
    """Its output; without what would show it the source tree's package or library."""
    hidden = ("PYTHONPATH", "LSSAR_LIBRARY")
    environment = {name: x for name, x in os.environ.items() if name not in hidden}
    result = subprocess.run(
        command,
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode != 0:
        raise AssertionError(f"{command}:\n{result.stdout}")
    return result.stdout


@unittest.skipUnless(
    importlib.util.find_spec("scikit_build_core"), "scikit-build-core, which builds wheels, is missing"
)
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.build = pathlib.Path(os.environ["LSSAR_LIBRARY"]).resolve().parents[1]
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir")
        run(
            *(*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation"),
            *("-w", str(cls.folder), "-C", f"build-dir={cls.folder}/build"),
            *("-C", f"cmake.define.LSSAR_PREBUILT={cls.build}", str(ROOT)),
        )
        (cls.wheel,) = cls.folder.glob("*.whl")
        cls.site = cls.folder / "site"
        install = ("install", "--no-deps", "--no-index", "--no-compile", "--target", str(cls.site))
        run(*pip, *install, str(cls.wheel))

    def test_content(self):
        expected = {f"lssar/{file.name}" for file in PACKAGE.glob("*.py")}
        expected |= {"lssar/py.typed", "lssar/lib/liblssar.so", "lssar/lib/lssar-tune-worker"}
        if (self.build / "lib" / "liblssar_llvm.so").exists():
            expected.add("lssar/lib/liblssar_llvm.so")
        names = zipfile.ZipFile(self.wheel).namelist()
        self.assertEqual({name for name in names if ".dist-info/" not in name}, expected)
        self.assertTrue(any(name.endswith("/LICENSE") for name in names), names)

    def test_name_tag_and_metadata(self):
        """One wheel for every Python 3, which does not replace the torch that is there."""
        version = run(sys.executable, "-S", "-c", self.code("print(lssar.__version__)")).strip()
        self.assertEqual(self.wheel.name, f"lssar-{version}-py3-none-linux_x86_64.whl")
        metadata = zipfile.ZipFile(self.wheel).read(f"lssar-{version}.dist-info/METADATA").decode()
        header = metadata.split("\n\n")[0].splitlines()
        for line in ("Name: lssar", f"Version: {version}", "Requires-Dist: torch>=1.13"):
            self.assertIn(line, header)

    def code(self, code):
        return f"import sys; sys.path.insert(0, {str(self.site)!r})\nimport lssar\n{code}"

    def test_without_torch(self):
        """-S: Python without the installed packages."""
        code = self.code(
            "print(lssar.build_info())\n"
            "print(lssar.device_info()['device_name'])\n"
            "for name in ('attention', 'nn', 'register_transformers'):\n"
            "    try: getattr(lssar, name)\n"
            "    except ImportError as error: print(error)"
        )
        info, device, *errors = run(sys.executable, "-I", "-S", "-c", code).splitlines()
        self.assertTrue(info.endswith(f", {self.site.resolve()}/lssar/lib/liblssar.so"), info)
        self.assertIn("virtual", device)
        for name, error in zip(("attention", "nn", "register_transformers"), errors, strict=True):
            self.assertRegex(error, f"^lssar.{name} needs PyTorch.*pip install torch")

    def test_with_torch(self):
        code = self.code(
            "import torch\n"
            "x = torch.ones(1, 1, 2, 8, requires_grad=True)\n"
            "lssar.attention(x, x, x).sum().backward()\n"
            "print(x.grad.sum().item(), lssar.__file__)"
        )
        total, file = run(sys.executable, "-c", code).split()
        self.assertAlmostEqual(float(total), 16.0, places=4)
        self.assertTrue(file.startswith(str(self.site)), file)

    def test_worker_is_a_program(self):
        """Which tuning starts."""
        worker = self.site / "lssar" / "lib" / "lssar-tune-worker"
        self.assertTrue(os.access(worker, os.X_OK))


if __name__ == "__main__":
    unittest.main()
