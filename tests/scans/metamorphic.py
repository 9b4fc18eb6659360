#!/usr/bin/env python3
"""Changes of a job's files, and of how the tool runs, that must change no result: every run of a changed job must give
the bytes of the unchanged one, but for names that were changed.

    tests/scans/metamorphic.py --jobs 2000 [--first SEED] [--markdown docs/reliability.md]

NSYS_EXPLAIN_TOOL, NSYS_EXPLAIN_SYNTH and NSYS_EXPLAIN_MPIEXEC say which programs."""

import argparse
import collections
import contextlib
import csv
import io
import json
import os
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from accuracy_page import replace_table

TOOL = str(pathlib.Path(os.environ.get("NSYS_EXPLAIN_TOOL", "build/ci/nsys-explain-mpi")).absolute())
SYNTH = str(pathlib.Path(os.environ.get("NSYS_EXPLAIN_SYNTH", "build/ci/nsys-explain-synth")).absolute())
MPIEXEC = os.environ.get("NSYS_EXPLAIN_MPIEXEC", "mpiexec")
TIMEOUT_SECONDS = 300  # far above what a run takes

# Jobs that differ in what there is to read and to find.
JOBS = [
    ["--fault", "slow_gpu:rank=1,factor=1.3"],
    ["--fault", "late_host:rank=2,pause=3ms,kind=gc", "--export", "files=per_node"],
    ["--export", "payload=json,nccl_trace,communicator_names=group"],
    ["--export", "payload=none", "--fault", "slow_gpu:rank=0,factor=1.4"],
    ["--tp", "2", "--fault", "slow_link:ranks=0+1,factor=2"],
    ["--pp", "2", "--export", "operator_ranges"],
    ["--metrics", "nvlink,nic,period_us=2000"],
    ["--graph", "node", "--capture", "cpu_sampling_us=3000"],
    ["--capture", "drop=0.05,orphans=0.05"],
    ["--dp-style", "fully_sharded", "--export", "shuffled,isolated_devices"],
]
COMMON = ["--nodes", "2", "--gpus-per-node", "2", "--steps", "5", "--layers", "1", "--truth", "none", "--force"]

# Columns that name a row of StringIds, whatever their table.
STRING_COLUMNS = {"demangledName", "shortName", "mangledName", "nameId", "textId", "jsonTextId", "typeId", "symbol", "module"}


def run(command, cwd):
    return subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, errors="replace",
                          timeout=TIMEOUT_SECONDS, stdin=subprocess.DEVNULL)


def tables_of(connection):
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in names}


# --- changes of one file: f(connection, draw) ---

def rows_in_another_order(connection, draw):
    for table, columns in tables_of(connection).items():
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
        draw.shuffle(rows)
        connection.execute(f"DELETE FROM {table}")
        connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(columns))})", rows)


def strings_renumbered(connection, draw):
    tables = tables_of(connection)
    ids = [number for (number,) in connection.execute("SELECT id FROM StringIds")]
    new = dict(zip(ids, draw.sample(range(1, 100 * len(ids) + 1), len(ids))))
    connection.create_function("renumbered", 1, lambda number: new.get(number, number))
    texts = connection.execute("SELECT id, value FROM StringIds").fetchall()
    connection.execute("DELETE FROM StringIds")
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", [(new[number], value) for number, value in texts])
    for table, columns in tables.items():
        for column in STRING_COLUMNS & set(columns):
            connection.execute(f"UPDATE {table} SET {column} = renumbered({column}) WHERE typeof({column}) = 'integer'")


def correlations_renumbered(connection, draw):
    factor, constant = draw.randrange(1, 7), draw.randrange(1, 100_000)
    for table, columns in tables_of(connection).items():
        if "correlationId" in columns:
            connection.execute(f"UPDATE {table} SET correlationId = correlationId * {factor} + {constant} WHERE correlationId > 0")


def streams_renumbered(connection, draw):
    del draw
    for table, columns in tables_of(connection).items():
        for column in {"streamId", "nullStreamId"} & set(columns):
            connection.execute(f"UPDATE {table} SET {column} = {column} + {STREAMS_LATER}")


def tables_of_others(connection, draw):
    connection.execute("CREATE TABLE notes (start INTEGER, end INTEGER, text TEXT)")
    connection.executemany("INSERT INTO notes VALUES (?, ?, ?)", [(draw.getrandbits(60), -1, "x")] * draw.randrange(50))
    connection.execute("CREATE VIEW kernels_by_length AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY end - start")
    connection.execute("CREATE INDEX by_start ON CUPTI_ACTIVITY_KIND_KERNEL(start)")


def pages_of_another_size(connection, draw):
    connection.commit()
    connection.execute(f"PRAGMA page_size = {draw.choice([512, 1024, 2048, 8192, 65536])}")
    connection.execute(f"PRAGMA auto_vacuum = {draw.choice([0, 1, 2])}")
    connection.execute("VACUUM")


FILE_CHANGES = [rows_in_another_order, strings_renumbered, correlations_renumbered, streams_renumbered, tables_of_others,
                pages_of_another_size]


STREAMS_LATER = 1000  # what streams_renumbered adds to every number


class Job:
    """A job with the results of a plain run."""

    def __init__(self, directory, number):
        self.directory = directory / f"job{number}"
        self.number = number
        # Who says nothing of payloads gets the job with each kind, from the release that knows them all.
        any_payload = not re.search("payload|nccl_trace", " ".join(JOBS[number]))
        self.payloads = ["blob", "hex", "json", "dynamic"] if any_payload else []
        self.variants = {"": self.directory}
        self.make(self.directory, ["--export", "nsys=2026.4"] if any_payload else [])
        for payload in self.payloads:
            self.variants[payload] = directory / f"job{number}-{payload}"
            self.make(self.variants[payload], ["--export", f"nsys=2026.4,payload={payload}"])
        self.files = sorted(path.name for path in self.directory.glob("*.sqlite"))
        done = run([TOOL, *self.files, "--csv", "--out", "expected"], self.directory)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        self.expected = results(self.directory / "expected", Names())

    def make(self, directory, options):
        done = run([SYNTH, "--out", directory, *COMMON, *JOBS[self.number], *options, "--seed", 70 + self.number],
                   directory.parent)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)


class Names:
    """What a change renames, so that results can be compared."""

    def __init__(self):
        self.old_by_new = {"./rank_": "rank_", "./node_": "node_"}
        self.streams_later = 0
        self.utc_later_ns = 0

    def of_stream(self, number):
        return number - self.streams_later if number >= self.streams_later else number

    def put_back(self, value, key=""):
        """A part of report.json under its old names."""
        if isinstance(value, dict):
            return {name: self.put_back(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [self.put_back(part, key) for part in value]
        if "utc" in key and isinstance(value, int) and value:
            return value - self.utc_later_ns
        if key == "stream" and isinstance(value, int):
            return self.of_stream(value)
        return value

    def put_back_table(self, text):
        """A CSV file under its old names."""
        header = text.split("\n", 1)[0].split(",")
        utc = [place for place, name in enumerate(header) if "utc" in name]
        streams = [place for place, name in enumerate(header) if name == "stream"]
        if not (utc and self.utc_later_ns or streams and self.streams_later):
            return text
        rows = list(csv.reader(io.StringIO(text)))
        for row in rows[1:]:
            for place in utc:
                row[place] = str(int(row[place]) - self.utc_later_ns) if row[place] not in ("", "0") else row[place]
            for place in streams:
                row[place] = str(self.of_stream(int(row[place]))) if row[place] else ""
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows(rows)
        return written.getvalue()


def results(out, names):
    """What a run found: report.json without the facts of the run, and the tables, under their old names."""
    texts = {"report.json": (out / "report.json").read_text()}
    texts |= {path.name: path.read_text() for path in (out / "tables").glob("*.csv")}
    for name, text in texts.items():
        for new, old in names.old_by_new.items():
            text = text.replace(new, old)
        texts[name] = text if name == "report.json" else names.put_back_table(text)
    report = names.put_back(json.loads(texts["report.json"]))
    report.pop("run", None)
    # What a file takes on disk is no result of the job.
    for one in report["inputs"]:
        one.pop("bytes", None)
    texts["report.json"] = json.dumps(report, indent=1)
    texts.pop("run.csv", None)
    return texts


def copy_changed(job, target, draw, changes, names):
    """The job's files in `target` with `changes` of files drawn and counted. Fills `names`."""
    chosen = [change for change in FILE_CHANGES if draw.random() < 0.5]
    # Vacuum comes last, since it needs no transaction.
    hosts = draw.random() < 0.4
    shift_ns = draw.randrange(-10**17, 10**17) if draw.random() < 0.4 else 0
    payload = draw.choice(job.payloads) if job.payloads and draw.random() < 0.5 else ""
    changes["payload_of_another_kind"] += payload not in ("", "blob")
    prefix = "".join(draw.choice("abcdefghij") for _ in range(6)) + "-"
    for name in job.files:
        path = target / name
        shutil.copyfile(job.variants[payload] / name, path)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            if hosts:
                for host in ("node000", "node001"):
                    connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE value = ?", (prefix + host, host))
                    names.old_by_new[prefix + host] = host
            if shift_ns:
                connection.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + ?", (shift_ns,))
            for change in chosen:
                change(connection, draw)
            connection.commit()
    for change in chosen:
        changes[change.__name__] += 1
    names.streams_later = STREAMS_LATER if streams_renumbered in chosen else 0
    names.utc_later_ns = shift_ns
    changes["hosts_renamed"] += hosts
    changes["utc_shifted"] += shift_ns != 0


def run_changed(job, target, draw, changes):
    """A run of the files in `target` as drawn. Returns the finished process and the directory of its results."""
    files = job.files[:]
    if draw.random() < 0.5:
        draw.shuffle(files)
        changes["files_in_another_order"] += 1
    inputs, options, launcher = files, ["--csv"], []
    if draw.random() < 0.2:
        inputs = ["."]
        changes["directory_for_files"] += 1
    if draw.random() < 0.6:
        options += ["--threads", draw.randrange(1, 9)]
        changes["threads"] += 1
    if draw.random() < 0.3:
        options += ["--reader", draw.choice(["sqlite", "pages"])]
        changes["reader"] += 1
    if draw.random() < 0.3:
        options += ["--memory-limit", draw.choice(["300M", "1G", "4G"])]
        changes["memory_limit"] += 1
    if draw.random() < 0.2:
        launcher = [MPIEXEC, "-n", draw.choice([1, 2, 2, 3, 4, 5, 8] * 4 + [17, 32])]
        changes["tool_ranks"] += 1
    if draw.random() < 0.3:
        options += ["--cache", "cache"]
        changes["cache"] += 1
        if draw.random() < 0.5:  # filled by a run before
            done = run([TOOL, *files, "--out", "before", "--cache", "cache"], target)
            if done.returncode != 0:
                return done, target / "before"
    if draw.random() < 0.2:  # fails at its end, and leaves its shards
        changes["cut_off_and_merged"] += 1
        done = run([*launcher, TOOL, *inputs, "--out", "cut", *options, "--prometheus", "/nowhere/metrics"], target)
        if done.returncode != 5:
            return done, target / "cut"
        return run([TOOL, "merge", "cut/shards", "--csv", "--out", "out"], target), target / "out"
    return run([*launcher, TOOL, *inputs, "--out", "out", *options], target), target / "out"


def difference(expected, actual):
    """The first one, in a line; None where there is none."""
    if expected.keys() != actual.keys():
        return f"other tables: {sorted(expected.keys() ^ actual.keys())}"
    for name in expected:
        if expected[name] != actual[name]:
            one, other = expected[name].splitlines(), actual[name].splitlines()
            for number, (a, b) in enumerate(zip(one, other)):
                if a != b:
                    return f"{name}, line {number + 1}: {b[:160]!r} instead of {a[:160]!r}"
            return f"{name}: {len(other)} lines instead of {len(one)}"
    return None


def try_seed(seed, jobs, scratch, changes):
    """None, or what is wrong."""
    draw = random.Random(f"metamorphic {seed}")
    job = draw.choice(jobs)
    target = scratch / "changed"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    names, drawn = Names(), collections.Counter()
    copy_changed(job, target, draw, drawn, names)
    done, out = run_changed(job, target, draw, drawn)
    changes.update(drawn)
    if done.returncode != 0:
        wrong = f"exit code {done.returncode}: {done.stderr[-300:]}"
    else:
        wrong = difference(job.expected, results(out, names))
    return wrong and f"seed {seed}, job {job.number} {JOBS[job.number]}, {sorted(+drawn)}: {wrong}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100, help="changed jobs to run, each with several changes")
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no more jobs after so long")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table into this page")
    parser.add_argument("--of", type=int, nargs="*", help="only these of the base jobs")
    options = parser.parse_args()
    start = time.monotonic()
    changes, problems, tried = collections.Counter(), [], 0
    parent = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="nsys-explain-metamorphic-", dir=parent) as directory:
        scratch = pathlib.Path(directory)
        jobs = [Job(scratch, number) for number in (options.of or range(len(JOBS)))]
        for seed in range(options.first, options.first + options.jobs):
            if time.monotonic() - start > options.seconds:
                break
            tried += 1
            if wrong := try_seed(seed, jobs, scratch, changes):
                problems.append(wrong)
                print(f"DIFFERENT: {wrong}", file=sys.stderr, flush=True)
    seconds = time.monotonic() - start
    print(json.dumps({"jobs": tried, "changes": sum(changes.values()), "different": len(problems), "seconds": round(seconds),
                      "by_kind": dict(sorted(changes.items()))}))
    if options.markdown:
        rows = [[kind.replace("_", " "), str(count)] for kind, count in sorted(changes.items())]
        total = [f"**all, in {tried} jobs and {seconds / 60:.0f} min: {len(problems)} differences**", str(sum(changes.values()))]
        replace_table(options.markdown, "metamorphic.py", f"--first {options.first} --jobs {tried}",
                      [["what was changed", "times"], *rows, total])
    sys.exit(1 if problems or tried == 0 else 0)


if __name__ == "__main__":
    main()
