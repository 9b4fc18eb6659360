#!/usr/bin/env python3
"""Clocks of real recordings against their truth: recordings of one machine, taken for recordings of as many hosts.

    tests/scans/recorded_clocks.py TOOL [FOLDER]

FOLDER (default: the project's own recordings) holds a folder for each job with rank_R.sqlite or rank_R.sqlite.xz. All ranks of a job ran on one machine, so
their true offsets are 0. Each copy gets a host name and a UTC of its own, up to 3 ms off, so that collectives alone can tell. Prints Markdown: errors of
offsets to the first session, with what the report states (one standard uncertainty).
"""

import json
import lzma
import pathlib
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile

OWN = pathlib.Path(__file__).resolve().parent.parent / "recordings"


def copies(job, into):
    """Exports of a job, each as if of its own host, and how far its clock is ahead."""
    chance = random.Random(job.name)
    ahead = []
    for source in sorted(job.glob("rank_*.sqlite*")):
        rank = len(ahead)
        target = into / f"rank_{rank}.sqlite"
        if source.suffix == ".xz":
            target.write_bytes(lzma.decompress(source.read_bytes()))
        else:
            shutil.copyfile(source, target)
        ahead.append(0 if rank == 0 else chance.randrange(-3_000_000, 3_000_000))
        export = sqlite3.connect(target)
        export.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + ?", (ahead[-1],))
        export.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE name = 'Hostname'", (f"host{rank}",))
        export.commit()
        export.close()
    return ahead


def errors(tool, job):
    """(error, stated uncertainty) in ns, of each session that is related to the first of its component."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ahead = copies(job, folder)
        run = subprocess.run([tool, *sorted(map(str, folder.glob("*.sqlite"))), "--quiet", "-o", str(folder / "out")],
                             capture_output=True, text=True)
        report = folder / "out" / "report.json"
        if not report.exists():
            sys.exit(f"{job.name}: no report; {run.stderr[-500:]}")
        sessions = json.loads(report.read_text())["clock"]["sessions"]
    first, found = {}, []
    for s, session in enumerate(sessions):
        reference = first.setdefault(session["component"], s)
        if reference == s:
            continue
        error = session["offset_ns"] - sessions[reference]["offset_ns"] - (ahead[s] - ahead[reference])
        found.append((abs(error), session["uncertainty_ns"]))
    return found, len(first)


def row(name, found):
    within = [sum(error <= times * stated for error, stated in found) / len(found) for times in (1, 2)]
    middle = [statistics.median(column) / 1000 for column in zip(*found)]
    most = max(error for error, _ in found) / 1000
    return f"| {name} | {len(found)} | {middle[0]:.1f} / {most:.0f} | {middle[1]:.1f} | {within[0]:.0%} | {within[1]:.0%} |"


def main():
    tool = sys.argv[1]
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else OWN
    print("| job | offsets | error, median / most (us) | stated (us) | within it | within twice |\n|---|---|---|---|---|---|")
    everything, unrelated = [], []
    for job in sorted(path for path in folder.iterdir() if len(list(path.glob("rank_*.sqlite*"))) > 1):
        found, components = errors(tool, job)
        if components > 1:
            unrelated.append(f"{job.name} ({components} groups)")
        if found:
            print(row(job.name, found), flush=True)
        everything += found
    print(row("all", everything))
    print(f"\nNot all sessions related: {', '.join(unrelated) or 'none'}.")


if __name__ == "__main__":
    main()
