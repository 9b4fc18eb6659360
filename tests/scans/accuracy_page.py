"""The dated tables that scans write into docs/accuracy.md, each between markers of its own."""

import datetime
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def replace_table(page, marker, options, table):
    """`table`: rows of cells, the names of columns first."""
    begin, end = f"<!-- begin: {marker} -->", f"<!-- end: {marker} -->"
    before, found, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        sys.exit(f"{page} lacks the markers {begin} and {end}")
    head, *rows = table
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows]]
    title = f"{datetime.date.today()}, commit {commit()}, `{options}`:"
    page.write_text(f"{before}{begin}\n\n{title}\n\n" + "\n".join(lines) + f"\n\n{end}{after}")


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
