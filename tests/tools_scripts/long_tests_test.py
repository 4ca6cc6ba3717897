"""Every name in tests/long_tests.txt is a test, and a long one; no test is in neither set.

    long_tests_test.py BUILD_FOLDER CTEST
"""

import json
import pathlib
import re
import subprocess
import sys

build, ctest = sys.argv[1:]


def labels_of_tests(*options):
    shown = subprocess.run(
        [ctest, "--test-dir", build, "--show-only=json-v1", *options],
        capture_output=True,
        text=True,
        check=True,
    )
    labels = {}
    for test in json.loads(shown.stdout)["tests"]:
        values = [x["value"] for x in test.get("properties", []) if x["name"] == "LABELS"]
        labels[test["name"]] = values[0] if values else []
    return labels


source = pathlib.Path(__file__).parents[1]
listed = [x for x in (source / "long_tests.txt").read_text().splitlines() if x[:1] not in ("", "#")]
tests = labels_of_tests()
# A program without a compiler or toolkit that its tests need has none of them.
suites = {name.rsplit("/", 1)[0] for name in tests}
problems = [f"{x}: no such test" for x in listed if x not in tests and x.rsplit("/", 1)[0] in suites]
problems += [f"{x}: listed, but not long" for x in listed if x in tests and "long" not in tests[x]]
problems += [
    f"{x}: a run with a seed of a listed test, but not long"
    for x in tests
    if re.sub(r"strict_[a-z0-9_]*\.", "", x) in listed and "long" not in tests[x]
]
problems += [f"{x}: listed twice" for x in sorted(set(listed)) if listed.count(x) > 1]
if listed != sorted(listed):
    problems.append("the names are not in order")

# What setup.sh test runs, what it says it leaves out, and what test-all runs.
short = labels_of_tests("--label-exclude", "^long$")
left_out = labels_of_tests("--label-regex", "^long$")
if set(short) & set(left_out) or set(short) | set(left_out) != set(tests):
    problems.append("the short and the long tests are not all tests, each once")
print("\n".join(problems) or f"{len(short)} tests, {len(left_out)} long ones")
sys.exit(1 if problems else 0)
