"""docs/command.md has the command's subcommands, options of a problem and of a schedule, and exit codes, and no other.

    command_page_test.py SOURCE_FOLDER LSSAR
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
LSSAR = sys.argv.pop(1)


def help_of(*words):
    return subprocess.run([LSSAR, *words, "--help"], check=True, capture_output=True, text=True).stdout


def section(text, title):
    """The lines of a section of a help text."""
    return re.search(rf"^{title}:\n((?:[ \t].*\n)+)", text, re.MULTILINE).group(1)


def first_cells(header, which=0):
    """The first column of the page's table that begins with this header, the first or another one."""
    page = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    tables = re.findall(rf"^\| {header} \|.*\n\|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    return [row.split("|")[1] for row in tables[which].splitlines()]


class CommandPage(unittest.TestCase):
    def test_subcommands(self):
        known = re.findall(r"^  (\w+)", section(help_of(), "Subcommands"), re.MULTILINE)
        documented = [re.search(r"`lssar (\w+)`", cell).group(1) for cell in first_cells("subcommand")]
        self.assertEqual(sorted(documented), sorted(known))

    def test_options_of_a_problem(self):
        known = re.findall(r"^  (--[\w-]+)", section(help_of("verify"), "Problem"), re.MULTILINE)
        documented = re.findall(r"`(--[\w-]+)`", "".join(first_cells("option")))
        self.assertEqual(sorted(documented), sorted(known))

    def test_options_of_a_schedule(self):
        known = re.findall(r"^  (--[\w-]+)", section(help_of("verify"), "Kernel"), re.MULTILINE)
        documented = re.findall(r"`(--[\w-]+)`", "".join(first_cells("option", 1)))
        self.assertEqual(sorted([*documented, "--target"]), sorted(known))

    def test_exit_codes(self):
        codes = (ROOT / "tools" / "lssar" / "terminal" / "exit_code.h").read_text()
        known = re.findall(r"^  k\w+ = (\d+),", codes, re.MULTILINE)
        known += re.findall(r"(\d{3}) (?:interrupted|ended)", help_of())
        documented = re.findall(r"\d+", "".join(first_cells("exit code")))
        self.assertEqual(documented, known)


if __name__ == "__main__":
    unittest.main()
