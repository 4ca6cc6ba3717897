"""The commands of the quickstart pages run as they stand there, on the virtual device.

    quickstart_test.py SOURCE_FOLDER BUILD_FOLDER cpp|gpu|kernel

BUILD_FOLDER has bin/lssar and lib/liblssar.so. The page's `cpp` and `c` blocks become train.cpp and forward.c.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
PAGE = sys.argv[3]
TEXT = (ROOT / "docs" / f"quickstart_{PAGE}.md").read_text(encoding="utf-8")


def blocks(language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"no {language} in the page"
    return found


def expect(condition, what, output):
    if not condition:
        sys.exit(f"{what}:\n{output}")


def replaced(text, old, new):
    expect(old in text, "the page has no", old)
    return text.replace(old, new)


def run(folder, commands):
    """What the commands print, one after the other, in a shell that ends at the first failure."""
    environment = dict(os.environ, PATH=f"{BUILD / 'bin'}:{os.environ['PATH']}")
    environment["LSSAR_DEVICE"] = "virtual"  # the page is about a GPU's kernels
    environment.pop("LSSAR_TUNING_TABLE", None)  # the tests' own: the page uses the default one
    made = subprocess.run(["sh", "-e", "-c", commands], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    expect(made.returncode == 0, f"exit code {made.returncode}", commands + made.stdout)
    return made.stdout


def losses(text):
    return [float(loss) for loss in re.findall(r"^step +\d+  loss ([\d.]+)$", text, re.MULTILINE)]


def check_cpp(folder):
    """The programs compile without a warning, and print what the page says."""
    (folder / "include").symlink_to(ROOT / "include")
    (folder / "build").mkdir()
    (folder / "build" / "release").symlink_to(BUILD)
    (folder / "train.cpp").write_text(blocks("cpp")[0])
    (folder / "forward.c").write_text(blocks("c")[0])
    output = run(folder, "".join(blocks("sh")))
    # Another compiler rounds otherwise, and the last 20 of 40 steps amplify it.
    shown, seen = losses(blocks("text")[0]), losses(output)
    limits = (0.001, 0.001, 0.03, 0.03, 0.03)
    close = len(shown) == len(seen) == 5
    close = close and all(abs(a - b) < most for a, b, most in zip(shown, seen, limits))
    expect(close, f"the losses are not {shown}", output)
    expect(re.search(r"^o\[0\] = -?0\.\d+$", output, re.MULTILINE), "no o[0]", output)


def check_gpu(folder):
    """With a smaller search, and without the comparison with torch, which has tests of its own."""
    commands = "".join(blocks("sh"))
    commands = replaced(commands, "--head-dim 128 --seq 4096 --heads 16 --batch 4 --causal",
                        "--head-dim 32 --seq 128 --causal --device virtual")
    commands = replaced(commands, "--all-passes", "--budget quick")
    commands = replaced(commands, "--heads 2 --seq 256 --causal",
                        "--heads 2 --seq 256 --causal --device virtual")
    commands = replaced(commands, "/shared", str(folder))
    commands = replaced(commands, "python3 tools/compare_torch.py", "true")
    output = run(folder, f"export LSSAR_CACHE_DIR={folder}/cache\n" + commands)
    # Elsewhere: an empty cache, and the two files that were shipped.
    elsewhere = run(folder, f"""
export LSSAR_CACHE_DIR={folder}/other LSSAR_TUNING_TABLE={folder}/tuned.jsonl
export LSSAR_CACHE_LAYERS={folder}/kernels.pack
lssar explain --head-dim 32 --seq 128 --causal --device virtual
lssar verify --head-dim 64 --heads 2 --seq 256 --causal --device virtual
""")
    for text in (output, elsewhere):
        expect(re.search(r"^schedule .*predicted [\d.]+ ms for", text, re.MULTILINE),
               "plans do not find what was tuned", text)
    expect("from the cache" in elsewhere, "the pack is not used", elsewhere)


def check_kernel(folder):
    """All commands, of a smaller kernel; the edited file is the one that runs."""
    commands = replaced("".join(blocks("sh")), "--head-dim 128", "--head-dim 64")
    commands = replaced(commands, "--seq 4096 --heads 16 --batch 4", "--seq 512")
    output = run(folder, commands)
    expect("edited" in output, "no edited kernel", output)
    page = (folder / "report.html").read_text(encoding="utf-8")
    expect("lssar_forward_bf16_d64" in page, "the report has no kernel", page[:200])
    source = (folder / "kernel.cu").read_text(encoding="utf-8")
    expect("__global__" in source, "no kernel in the source", source[:200])


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"cpp": check_cpp, "gpu": check_gpu, "kernel": check_kernel}[PAGE](pathlib.Path(folder))


if __name__ == "__main__":
    main()
