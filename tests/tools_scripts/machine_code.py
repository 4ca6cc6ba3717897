"""What the tests have in common that compile kernels and read their machine code.

Their arguments are the command lssar, nvcc and the folder of tools.
"""

import pathlib
import sys
import unittest

LSSAR, NVCC, TOOLS = sys.argv[1:4]
del sys.argv[1:4]
sys.path.insert(0, TOOLS)
import sass_loops

SKIPPED = 77


def main():
    """unittest.main, or the exit code of a skipped test if nvdisasm or nvcc is missing."""
    try:
        sass_loops.find_nvdisasm(None)
    except sass_loops.Problem as problem:
        print(f"SKIPPED: {problem}")
        sys.exit(SKIPPED)
    if not pathlib.Path(NVCC).is_file():
        print(f"SKIPPED: no nvcc ({NVCC})")
        sys.exit(SKIPPED)
    unittest.main()
