#!/usr/bin/env python3
"""What damaged exports cost: processor time and memory of runs on damaged files against those on the intact one.

    tests/scans/damage.py --files 500 [--first SEED] [--markdown docs/reliability.md]

NSYS_EXPLAIN_TOOL and NSYS_EXPLAIN_SYNTH say which programs. Ends with 1 where a run takes more than ten times the time or
twice the memory, has a wrong exit code, or was killed."""

import argparse
import collections
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from accuracy_page import replace_table
from metamorphic import SYNTH, TOOL, run

PAGE = 4096


def bits_flipped(content, draw):
    for _ in range(draw.choice([1, 10, 100, 1000])):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def pages_exchanged(content, draw):
    for _ in range(draw.choice([1, 5, 50])):
        one, other = (PAGE * draw.randrange(1, len(content) // PAGE) for _ in range(2))
        content[one:one + PAGE], content[other:other + PAGE] = content[other:other + PAGE], content[one:one + PAGE]


def pages_repeated(content, draw):
    for _ in range(draw.choice([1, 5, 50])):
        one, other = (PAGE * draw.randrange(len(content) // PAGE) for _ in range(2))
        content[one + 100:one + PAGE] = content[other + 100:other + PAGE]


def pointers_changed(content, draw):
    """Children of interior pages and chains of overflow pages that lead anywhere, upwards too."""
    pages = len(content) // PAGE
    for page in range(1, pages):
        at = page * PAGE
        if content[at] == 5 and draw.random() < 0.5:
            struct.pack_into(">I", content, at + 8, draw.choice([1, page + 1, draw.randrange(1, pages + 1), 0xFFFFFFFF]))
        elif content[at] not in (2, 5, 10, 13) and draw.random() < 0.5:
            struct.pack_into(">I", content, at, draw.choice([page + 1, draw.randrange(1, pages + 1)]))


def lengths_changed(content, draw):
    """Records that say they take gigabytes: the first bytes of cells at the ends of leaves."""
    for page in range(1, len(content) // PAGE):
        at = page * PAGE
        if content[at] == 13 and draw.random() < 0.2:
            (cell,) = struct.unpack_from(">H", content, at + 8)
            if cell + 9 < PAGE:
                content[at + cell:at + cell + 5] = draw.choice([b"\xff\xff\xff\xff\x7f", b"\x87\xff\xff\xff\x7f", b"\x84\x80\x80\x80\x00"])


def cut(content, draw):
    del content[draw.randrange(len(content)):]


def cut_with_a_header_that_knows(content, draw):
    del content[PAGE * draw.randrange(1, len(content) // PAGE):]
    struct.pack_into(">I", content, 28, len(content) // PAGE)


def zeroes(content, draw):
    begin = draw.randrange(len(content))
    end = min(len(content), begin + draw.choice([16, PAGE, 100 * PAGE]))
    content[begin:end] = bytes(end - begin)


DAMAGES = [bits_flipped, pages_exchanged, pages_repeated, pointers_changed, lengths_changed, cut, cut_with_a_header_that_knows, zeroes]


def measured(path, out):
    """Exit code, seconds of the processor, bytes at most."""
    process = subprocess.Popen([TOOL, path, "--out", out, "--force", "--threads", "1", "--quiet"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--export", f"files={type=int}", default=100)
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no more after so long")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table into this page")
    options = parser.parse_args()
    start, wrong = time.monotonic(), 0
    worst = collections.defaultdict(lambda: [0, 0, 0.0, 0.0])  # files, refused, times the processor time and the memory
    with tempfile.TemporaryDirectory(prefix="nsys-explain-damage-") as directory:
        scratch = pathlib.Path(directory)
        done = run([SYNTH, "--out", scratch / "job", "--nodes", "1", "--gpus-per-node", "1", "--steps", "40", "--layers", "4",
                    "--truth", "none", "--export", "operator_ranges"], scratch)
        [path] = (scratch / "job").glob("*.sqlite") if done.returncode == 0 else sys.exit(done.stderr)
        intact = path.read_bytes()
        if intact[16:18] != struct.pack(">H", PAGE):
            sys.exit("pages of exports have another size: change PAGE")
        runs = [measured(path, scratch / "out") for _ in range(5)]
        seconds, memory = min(one[1] for one in runs), max(one[2] for one in runs)
        for seed in range(options.first, options.first + options.files):
            if time.monotonic() - start > options.seconds:
                break
            draw = random.Random(f"damage {seed}")
            damage = draw.choice(DAMAGES)
            content = bytearray(intact)
            damage(content, draw)
            (scratch / "damaged.sqlite").write_bytes(content)
            code, took, held = measured(scratch / "damaged.sqlite", scratch / "out")
            row = worst[damage.__name__]
            row[0] += 1
            row[1] += code != 0
            row[2], row[3] = max(row[2], took / seconds), max(row[3], held / memory)
            if code not in (0, 3) or took > 10 * seconds or held > 2 * memory:
                wrong += 1
                print(f"WRONG: seed {seed}, {damage.__name__}: exit code {code}, {took / seconds:.1f} times the time, "
                      f"{held / memory:.1f} times the memory", file=sys.stderr, flush=True)
    tried = sum(row[0] for row in worst.values())
    rows = [[name.replace("_", " "), str(n), str(refused), f"{times:.2f}", f"{memories:.2f}"]
            for name, (n, refused, times, memories) in sorted(worst.items())]
    for row in rows:
        print("  ".join(row))
    print(f"{tried} files, {wrong} wrong; intact: {len(intact)} bytes, {seconds:.3f} s, {memory / 1e6:.0f} MB")
    if options.markdown:
        replace_table(options.markdown, "damage.py", f"--first {options.first} --files {tried}",
                      [["damage", "files", "refused", "most time, times the intact file's", "most memory, times"], *rows])
    sys.exit(1 if wrong or tried == 0 else 0)


if __name__ == "__main__":
    main()
