#!/usr/bin/env python3
"""Runs that are killed, stopped, told to end or out of disk at a random instant. Each must end soon and leave no process;
what it left must be a whole or a partial report, or none; `merge` of its shards, and the same run once more into the same
place, must give the results of an undisturbed run, and no temporary directory may stay. Where mpirun crashes, or stays
though no tool rank is left, or waits for a stopped one that is the last, nobody of ours could have done better: such
runs are counted apart, and judged by what they left.

    tests/scans/kills.py --kills 1000 [--first SEED] [--markdown docs/reliability.md]

NSYS_EXPLAIN_TOOL, NSYS_EXPLAIN_SYNTH and NSYS_EXPLAIN_MPIEXEC say which programs. Disks run full only for who may mount."""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from accuracy_page import replace_table
from metamorphic import MPIEXEC, SYNTH, TOOL, Names, difference, results, run

ENDS_WITHIN_S = 120  # far above what the end of a cut-off run takes (31 s at most for a partial report); more is a hang
MARK = "NSYS_EXPLAIN_KILLS"
WAYS = ["KILL", "KILL", "TERM", "TERM", "INT", "HUP", "STOP", "full disk", "KILL others", "TERM unheard"]


def marked(token):
    """Processes of one trial that still run, by their environment; what has ended and waits for its parent does not."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if f"{MARK}={token}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def state_of(process):
    """What a process is, and what it does."""
    with contextlib.suppress(OSError):
        name, state = re.search(r"\((.*)\) (\w)", pathlib.Path(f"/proc/{process}/stat").read_text()).groups()
        threads = [(thread / "wchan").read_text() for thread in pathlib.Path(f"/proc/{process}/task").iterdir()]
        return f"{name} {state} {'/'.join(sorted(threads))}"
    return "gone"


def tool_ranks(launcher):
    """Processes of the tool ranks by rank; the launcher itself where there are none (yet)."""
    ranks = {}
    with contextlib.suppress(OSError):
        for child in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            with contextlib.suppress(OSError):
                for variable in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                    if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                        ranks[int(variable.split(b"=")[1])] = int(child)
    return [ranks[rank] for rank in sorted(ranks)] or [launcher]


class Bench:
    """A job, its undisturbed results, and how long runs of it take."""

    def __init__(self, directory):
        self.directory = directory
        done = run([SYNTH, "--out", directory / "job", "--nodes", "2", "--gpus-per-node", "4", "--steps", "12", "--layers", "2",
                    "--truth", "none", "--seed", "5", "--fault", "slow_gpu:rank=3,factor=1.3"], directory)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        self.files = sorted(path.name for path in (directory / "job").glob("*.sqlite"))
        self.seconds = {}
        for ranks in (0, 2, 4):
            start = time.monotonic()
            done = run(self.command(ranks, f"whole{ranks}"), directory / "job")
            if done.returncode != 0:
                raise RuntimeError(done.stdout + done.stderr)
            self.seconds[ranks] = time.monotonic() - start
        self.expected = results(directory / "job" / "whole0", Names())
        self.can_mount = self.mounts()
        self.bytes = sum(path.stat().st_size for path in (directory / "job" / "whole0").rglob("*") if path.is_file())

    def mounts(self):
        """Whether this process may make file systems."""
        place = self.directory / "mounted"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True).returncode != 0:
            return False
        subprocess.run(["umount", place], check=True)
        return True

    def command(self, ranks, out, *options):
        launcher = [MPIEXEC, "-n", ranks] if ranks else []
        return [str(part) for part in (*launcher, TOOL, *self.files, "--csv", "--out", out, *options)]


class Trial:
    def __init__(self, bench, seed):
        self.bench, self.draw, self.token = bench, random.Random(f"kills {seed}"), f"{os.getpid()}-{seed}"
        self.cwd = bench.directory / "job"
        self.way = self.draw.choice(WAYS)
        if self.way == "full disk" and not bench.can_mount:
            self.way = "KILL"
        self.ranks = self.draw.choice([2, 4]) if self.way == "KILL others" else self.draw.choice([0, 0, 2, 4])
        if self.way == "TERM unheard":
            self.ranks = 0  # mpirun itself waits for a reader of what it says
        self.place = self.cwd / "place"
        self.out = self.place / "out"
        self.launcher_fails = False

    def whole(self):
        """None, or what is wrong."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        older = self.draw.random() < 0.3 and self.way != "full disk"
        if older:
            run(self.bench.command(0, self.out), self.cwd)
        with self.small_disk() if self.way == "full disk" else contextlib.nullcontext():
            return self.disturbed(["--force"] if older else [], older)

    @contextlib.contextmanager
    def small_disk(self):
        kilobytes = int(self.bench.bytes / 1024 * self.draw.uniform(0.02, 1.5)) + 8
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", self.place], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", self.place], check=True)

    def disturbed(self, options, older):
        if self.way == "STOP":
            options = [*options, "--timeout", "2"]
        reading, writing = os.pipe()
        if self.way == "TERM unheard":
            os.set_blocking(writing, False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writing, b"x" * 4096)
            os.set_blocking(writing, True)
        log = open(self.bench.directory / "stderr", "w+")
        process = subprocess.Popen(self.bench.command(self.ranks, self.out, *options), cwd=self.cwd, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=writing if self.way == "TERM unheard" else log,
                                   env={**os.environ, MARK: self.token}, start_new_session=True)
        os.close(writing)
        try:
            self.disturb(process)
            code = self.end_of(process)
            deadline = time.monotonic() + ENDS_WITHIN_S
            while marked(self.token) and time.monotonic() < deadline:
                time.sleep(0.02)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            left = marked(self.token)
            states = [state_of(one) for one in left]
            for one in left:
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            process.wait()
            os.close(reading)
        log.seek(0)
        said = log.read()
        log.close()
        if code is None and self.launcher_fails:
            return self.judge(5, said or "mpirun", older)
        if code is None or left:
            return f"it hangs (processes left: {', '.join(states)}): {said[-300:]}"
        return self.judge(code, said, older)

    def end_of(self, process):
        """The exit code. Where the last tool rank was stopped when all others had ended, it goes on first."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(ENDS_WITHIN_S)
        ranks = [one for one in marked(self.token) if state_of(one).startswith("nsys-explain")]
        if ranks and all(state_of(one).split()[1] == "T" for one in ranks):
            for one in ranks:
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGCONT)
            self.launcher_fails = True
            return process.wait(ENDS_WITHIN_S)
        if self.ranks and not ranks:
            self.launcher_fails = True
            process.kill()
            process.wait()
            return None
        raise subprocess.TimeoutExpired(process.args, ENDS_WITHIN_S)

    def disturb(self, process):
        """At a random instant, by random delay: most of a run is reading and writing, and both are hit often."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.draw.uniform(0, 1.2 * self.bench.seconds[self.ranks]))
        if self.way == "full disk" or process.poll() is not None:
            return
        name = self.way.split()[0]
        if self.ranks:
            ranks = tool_ranks(process.pid)
            victims = ranks[1:] or ranks if self.way == "KILL others" else [self.draw.choice([*ranks, process.pid])]
            if self.way == "STOP":
                victims = [self.draw.choice(ranks)] if ranks != [process.pid] else []
        else:
            victims = [process.pid]
        for victim in victims:
            with contextlib.suppress(OSError):
                os.kill(victim, getattr(signal, f"SIG{name}"))
        if self.way == "STOP" and not self.ranks:  # nobody else could end it
            os.kill(process.pid, signal.SIGCONT if self.draw.random() < 0.5 else signal.SIGKILL)

    def judge(self, code, said, older):
        report = self.out / "report.json"
        if report.exists():
            try:
                text = json.loads(report.read_text())
            except ValueError:
                return f"report.json is cut short (exit code {code})"
            partial = any(finding["id"] == "partial-report" for finding in text["findings"])
            complete = not partial and len(text["trace_ranks"]) == 8
            if not partial and not complete:
                return f"a report that is neither whole nor partial (exit code {code})"
            if not self.ranks and code == 0 and not complete:
                return "exit code 0 with a partial report"
        elif code == 0:
            return "exit code 0 without a report"
        if not self.ranks and code > 0 and code not in (4, 5, 2):
            return f"exit code {code}: {said[-300:]}"
        if code == 5 and not said.strip() and self.way != "TERM unheard":
            return "exit code 5 without a word"
        if f"{MPIEXEC}(+" in said:
            self.launcher_fails = True
        elif "terminate called" in said or "Segmentation" in said or "Assertion" in said:
            return f"a crash: {said[-300:]}"
        return self.merge(older) or self.again()

    def merge(self, older):
        shards = self.out / "shards"
        merged = self.cwd / "merged"
        shutil.rmtree(merged, ignore_errors=True)
        records = list(shards.glob("*.record")) if shards.exists() else []
        if not records:
            return None
        done = run([TOOL, "merge", shards, "--csv", "--out", merged], self.cwd)
        if done.returncode == 2 and "holds no shards" in done.stderr:
            return None  # cut off before the plan was written
        if done.returncode != 0:
            return f"merge ends with {done.returncode}: {done.stderr[-300:]}"
        wrong = difference(self.bench.expected, results(merged, Names()))
        return wrong and f"merge gives something else: {wrong}"

    def again(self):
        if self.way == "full disk":  # the disk gets larger
            subprocess.run(["mount", "-o", "remount,size=1g", self.place], check=True)
        done = run(self.bench.command(0, self.out, "--force"), self.cwd)
        if done.returncode != 0:
            return f"the next run ends with {done.returncode}: {done.stderr[-300:]}"
        if wrong := difference(self.bench.expected, results(self.out, Names())):
            return f"the next run gives something else: {wrong}"
        left = [path.name for path in [*self.place.iterdir(), *self.out.iterdir()]
                if path.name.startswith(".") or path.name == "shards"]
        return f"left behind: {left}" if left else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no more after so long")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table into this page")
    options = parser.parse_args()
    start, problems, ways, launchers = time.monotonic(), 0, collections.Counter(), 0
    # A process inherits the mark of its trial; the trials' own must not be among them.
    os.environ.pop(MARK, None)
    with tempfile.TemporaryDirectory(prefix="nsys-explain-kills-") as directory:
        bench = Bench(pathlib.Path(directory))
        for seed in range(options.first, options.first + options.kills):
            if time.monotonic() - start > options.seconds:
                break
            trial = Trial(bench, seed)
            ways[trial.way] += 1
            wrong = trial.whole()
            launchers += trial.launcher_fails
            if wrong:
                problems += 1
                print(f"WRONG: seed {seed}, {trial.way}, {trial.ranks or 'no'} tool ranks: {wrong}", file=sys.stderr, flush=True)
    seconds, tried = time.monotonic() - start, sum(ways.values())
    print(json.dumps({"kills": tried, "wrong": problems, "mpirun_failed": launchers, "seconds": round(seconds), "by_way": dict(sorted(ways.items()))}))
    if options.markdown:
        rows = [[way, str(count)] for way, count in sorted(ways.items())]
        rows.append(["mpirun crashed, stayed, or waited for a stopped rank that was the last", str(launchers)])
        total = [f"**all, in {seconds / 60:.0f} min: {problems} wrong ends**", str(tried)]
        replace_table(options.markdown, "kills.py", f"--first {options.first} --kills {tried}", [["how", "runs"], *rows, total])
    sys.exit(1 if problems or tried == 0 else 0)


if __name__ == "__main__":
    main()
