#!/usr/bin/env python3
"""The long form of the drivers of hostile inputs: tests/scans/hostile.py --program build/ci/tests/fuzz_hostile
[--rows 100000] [--files 20000] [--records 5000] [--first SEED] [--markdown docs/reliability.md]"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from accuracy_page import replace_table

SAYS = {"rows": "exports whose rows were changed", "files": "files of options", "records": "records of a cut-off run"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/ci/tests/fuzz_hostile")
    for kind, count in (("rows", 100_000), ("files", 20_000), ("records", 5_000)):
        parser.add_argument(f"--{kind}", type=int, default=count)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="of each kind: begin no more after so long")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table into this page")
    options = parser.parse_args()
    rows, sound = [], True
    for kind, says in SAYS.items():
        count = getattr(options, kind)
        if count == 0:
            continue
        done = subprocess.run([options.program, kind, "--first", str(options.first), "--count", str(count), "--seconds",
                               str(options.seconds)], stdout=subprocess.PIPE, text=True)
        sound = sound and done.returncode == 0
        print(done.stdout, end="", flush=True)
        tally = json.loads(done.stdout)
        rows.append([says, str(tally["tried"]), str(tally["whole_runs"]), str(tally["refused"]), str(tally["crashed"]),
                     str(tally["hung"]), str(tally["wrong"]), f"{tally['processor_seconds']:.0f}", f"{1000 * tally['longest_s']:.0f}",
                     f"{tally['most_bytes'] / 1e6:.0f}"])
    if options.markdown:
        replace_table(options.markdown, "hostile.py", f"--first {options.first}",
                      [["inputs", "tried", "of them whole runs", "refused or partly so", "crashes", "hangs", "wrong ends",
                        "processor s", "longest reading, ms", "most memory, MB"], *rows])
    sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
