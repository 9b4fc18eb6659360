#!/usr/bin/env python3
"""docs/features.md names tables, options, findings and tests that exist.

    tests/features_page.py --tool build/release/nsys-explain-mpi
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = re.compile(r"`([^`]+)`")


def rows(page):
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and not set(line) <= set("|- ") and cells[2] != "test":
            yield cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    tool = parser.parse_args().tool
    output = [subprocess.run([tool, *options], check=True, capture_output=True, text=True).stdout
              for options in (["--print-schema"], ["--help"])]
    tables = set(re.findall(r"^([a-z_]+):", output[0], re.M))
    options = set(re.findall(r"--[a-z-]+", output[1]))
    findings = set(re.findall(r'"([a-z-]+)": "', (ROOT / "src/report/html/views/finding_views.js").read_text()))
    findings |= {name for question in (ROOT / "src/analysis/questions").glob("*.cpp")
                 for names in re.findall(r"\.findings = \{([^}]*)\}", question.read_text()) for name in re.findall(r'"([a-z-]+)"', names)}
    tests = {"browser", "cluster", *(f"unit.{path.name}" for path in (ROOT / "tests/unit").iterdir() if path.is_dir()),
             *(f"end_to_end.{path.stem.removeprefix('test_')}" for path in (ROOT / "tests/end_to_end").glob("test_*.py"))}
    problems = []
    found = list(rows((ROOT / "docs/features.md").read_text()))
    for feature, here, test in found:
        for words in re.findall(r"\btables? ((?:`[a-z_]+`(?:, (?:and )?)?)+)", here):
            problems += [f"{feature}: no table {name}" for name in NAME.findall(words) if name not in tables]
        problems += [f"{feature}: no finding {name}" for name in re.findall(r"finding `([a-z-]+)`", here) if name not in findings]
        problems += [f"{feature}: no option {name}" for name in re.findall(r"`(--[a-z-]+)", here) if name not in options]
        problems += [f"{feature}: no test {name}" for name in NAME.findall(test) if name not in tests]
    if len(found) < 30:
        problems.append(f"only {len(found)} rows were understood")
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
