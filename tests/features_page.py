#!/usr/bin/env python3
"""docs/features.md names tables, options, findings and tests that exist, and most of its rows a test that holds a figure.

    tests/features_page.py --tool build/release/nsys-explain-mpi
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = re.compile(r"`([^`]+)`")
COMMANDS = ("merge", "show", "compare", "diff", "serve")
MOST_WITHOUT_FIGURE = 12  # of the rows
FEWEST_WITH_FIGURE = 135


def rows(page):
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and not set(line) <= set("|- ") and cells[2] != "test":
            yield cells


def known_tests(build):
    """Names of tests as ctest has them, and of their cases: `end_to_end.tables launch_tables`, `unit.analysis Kernels.PacingIsFromStartToStart`."""
    listed = subprocess.run(["ctest", "-N", "--test-dir", build], check=True, capture_output=True, text=True).stdout
    tests = {re.sub(r"\.\d+$", "", name) for name in re.findall(r"Test +#\d+: (\S+)", listed)}
    tests |= {"cluster", "browser", "browser.service"}  # which need root, a browser
    for name in list(tests):
        kind, _, module = name.partition(".")
        if kind == "unit":
            tests |= {f"{name} {suite}.{case}" for file in (ROOT / "tests/unit" / module).glob("*.cpp")
                      for suite, case in re.findall(r"\bTEST(?:_F|_P)?\((\w+), (\w+)\)", file.read_text())}
        elif kind == "end_to_end":
            tests |= {f"{name} {case}" for case in re.findall(r"\n    def (\w+)\(", (ROOT / f"tests/end_to_end/test_{module}.py").read_text())}
    return tests


def known_findings():
    findings = set(re.findall(r'"([a-z-]+)": "', (ROOT / "src/report/html/views/finding_views.js").read_text()))
    return findings | {name for question in (ROOT / "src/analysis/questions").glob("*.cpp")
                       for names in re.findall(r"\.findings = \{([^}]*)\}", question.read_text()) for name in re.findall(r'"([a-z-]+)"', names)}


def problems_of(row, tables, findings, options, tests):
    feature, here, test = row
    for words in re.findall(r"\btables? ((?:`[a-z_]+`(?:, (?:and )?)?)+)", here):
        yield from (f"{feature}: no table {name}" for name in NAME.findall(words) if name not in tables)
    for words in re.findall(r"\bfindings? ((?:`[a-z-]+`(?:, )?)+)", here):
        yield from (f"{feature}: no finding {name}" for name in NAME.findall(words) if name not in findings)
    command = ""
    for words in NAME.findall(here):
        if words.startswith("nsys-explain-mpi "):
            command = words.split()[1] if words.split()[1] in COMMANDS else ""
        yield from (f"{feature}: no option {name}" for name in re.findall(r"--[a-z-]+", words) if name not in options[command])
    yield from (f"{feature}: no test {name}" for name in NAME.findall(test) if name not in tests)
    if not NAME.search(test):
        yield f"{feature}: no test is named"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, type=pathlib.Path)
    tool = parser.parse_args().tool.resolve()

    def output(*options):
        return subprocess.run([tool, *options], check=True, capture_output=True, text=True).stdout

    tables = set(re.findall(r"^([a-z_]+):", output("--print-schema"), re.M))
    options = {command: set(re.findall(r"--[a-z-]+", output(*filter(None, (command, "--help"))))) for command in ("", *COMMANDS)}
    known = tables, known_findings(), options, known_tests(tool.parent)
    # What is not there is seen.
    planted = ["x", "tables `kernels`, `lions`, finding `no-lion`, `nsys-explain-mpi show x --lion`", "`unit.analysis Lions.Roar`, `end_to_end.tables`"]
    seen = [problem.removeprefix("x: no ") for problem in problems_of(planted, *known)]
    assert seen == ["table lions", "finding no-lion", "option --lion", "test unit.analysis Lions.Roar"], seen

    found = list(rows((ROOT / "docs/features.md").read_text()))
    problems = [problem for row in found for problem in problems_of(row, *known)]
    without = [feature for feature, _, test in found if "o figure" in test]
    if len(without) > MOST_WITHOUT_FIGURE or len(found) - len(without) < FEWEST_WITH_FIGURE:
        problems.append(f"of {len(found)} rows {len(without)} have no figure: {without}")
    print(f"{len(found)} rows, {len(found) - len(without)} with a figure")
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
