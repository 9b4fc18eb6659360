"""A process that is captured again, and a session exported in parts: one of them is analysed, the same one on all ranks."""

import contextlib
import shutil
import sqlite3

from support import EndToEndTest, main, seeds

JOB = ["--nodes", "2", "--gpus-per-node", "2", "--steps", "16", "--fault", "slow_gpu:rank=2,factor=1.4"]


def times_of(connection):
    """Every table with its columns of times; points in time have one only."""
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if "start" in columns:
            yield table, "end" in columns


def keep(path, from_ns, to_ns):
    """Leaves what starts between two times of the trace."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for table, _ in times_of(connection):
            connection.execute(f"DELETE FROM {table} WHERE start < ? OR start >= ?", (from_ns, to_ns))
        connection.commit()


def restart_clock(path, at_ns):
    """As if the session had started at that time of the trace, as another session of the same process."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for table, has_end in times_of(connection):
            connection.execute(f"UPDATE {table} SET start = start - {at_ns}" + (f", end = end - {at_ns}" if has_end else ""))
        connection.execute(f"UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + {at_ns}, "
                           f"systemClockNs = systemClockNs + {at_ns}")
        connection.execute("UPDATE META_DATA_CAPTURE SET value = value || '-again' WHERE name LIKE '%UUID%'")
        connection.commit()


class Captures(EndToEndTest):
    def halves(self, seed, again):
        """All traces of a job in two parts each: two captures, or two exports of one."""
        traces = self.synth("job", *JOB, "--seed", str(seed), "--truth", "none", "--force")
        for name in ("both", "first", "second"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
            (self.directory / name).mkdir()
        for number, path in enumerate(sorted(traces.glob("*.sqlite"))):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                first, last = connection.execute(
                    "SELECT min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
            # Not at one time: either part is the longer one on some rank.
            cut = first + (last - first) * (60 if number % 2 else 40) // 100
            for name, from_ns, to_ns in (("first", -(1 << 62), cut), ("second", cut, 1 << 62)):
                part = self.directory / name / f"{path.stem}_{name}.sqlite"
                shutil.copyfile(path, part)
                keep(part, from_ns, to_ns)
                if again and name == "second":
                    restart_clock(part, cut)
                shutil.copyfile(part, self.directory / "both" / part.name)

    def check(self, seed, again, reason):
        self.halves(seed, again)
        alone = [self.analyse(self.directory / name, name + "-out", "--force") for name in ("first", "second")]
        done = self.explain(self.directory / "both", "out", "--force")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        report = self.report("out")
        failed = [i for i in report["inputs"] if i["status"] == "failed"]
        self.assertEqual(len(failed), 4)
        self.assertEqual({reason in i["message"] for i in failed}, {True}, failed)
        self.assertEqual(len({i["path"].rsplit("_")[-1] for i in failed}), 1, "of all ranks the same part is left out")
        kept = alone[1 if failed[0]["path"].endswith("first.sqlite") else 0]
        self.assertEqual(report["collectives"], kept["collectives"])
        self.assertEqual([s["trace_rank"] for s in report["stragglers"]], [2])
        self.assertEqual([r["trace_rank"] for r in report["trace_ranks"]], [0, 1, 2, 3])
        self.assertEqual(report["ranks"], kept["ranks"])

    def test_a_capture_that_was_started_again(self):
        for seed in seeds(3):
            with self.subTest(seed=seed):
                self.check(seed, True, "a capture at another time of a process")

    def test_a_session_exported_in_parts(self):
        for seed in seeds(3):
            with self.subTest(seed=seed):
                self.check(seed, False, "a different part of the profiling session")

    def test_a_culprit_is_late_throughout_though_others_were_captured_for_a_part(self):
        """Where it is alone, as in the first and last steps of seed 2, nobody shows that it is late."""
        for seed in range(1, 7):
            with self.subTest(seed=seed):
                traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "4", "--steps", "40", "--layers", "2",
                                    "--capture", "ragged=0.3", "--fault", "slow_gpu:rank=2,factor=1.2", "--seed", str(seed),
                                    "--truth", "none", "--force")
                (late,) = self.analyse(traces, "out", "--force")["stragglers"]
                self.assertEqual((late["trace_rank"], late["pattern"], late["cause"]), (2, "persistent", "slow_kernel"))


if __name__ == "__main__":
    main()
