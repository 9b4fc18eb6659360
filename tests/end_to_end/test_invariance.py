"""Results do not depend on the number of tool ranks, on threads and readers, on the order of the arguments, or on the
launcher."""

import contextlib
import random
import shutil
import sqlite3

from stores import datasets
from support import EndToEndTest, main, seeds


class Invariance(EndToEndTest):
    def check(self, traces):
        files = sorted(traces.glob("*.sqlite"))
        self.analyse(files, "serial", "--csv")
        self.assertIn("collective_arrivals/enter_ns", datasets(self.directory / "serial" / "store.h5"))
        for ranks, options in ((1, ("--threads", "1")), (2, ("--reader", "sqlite")),
                               (3, ("--reader", "pages", "--threads", "3")), (5, ())):
            shuffled = files[:]
            random.Random(ranks).shuffle(shuffled)
            self.analyse(shuffled, f"ranks{ranks}", "--csv", *options, ranks=ranks)
            self.assert_same_results("serial", f"ranks{ranks}")
        return self.report("serial")

    def test_one_file_per_rank(self):
        report = self.check(self.synth("job", "--nodes", "2", "--gpus-per-node", "2", "--steps", "6", "--fault",
                                       "slow_gpu:rank=1,factor=1.4", "--seed", "3"))
        self.assertEqual([rank["trace_rank"] for rank in report["trace_ranks"]], [0, 1, 2, 3])
        self.assertGreater(report["collectives"]["complete"], 0)

    def test_one_file_per_node_in_a_tensor_parallel_job(self):
        self.check(self.synth("job", "--nodes", "2", "--gpus-per-node", "2", "--tp", "2", "--steps", "4", "--export",
                              "files=per_node", "--seed", "4"))

    def test_directory_and_pattern_name_the_same_inputs(self):
        traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "3")
        self.analyse(sorted(traces.glob("*.sqlite")), "files", "--csv")
        self.analyse(traces, "directory", "--csv", ranks=2)
        self.assert_same_results("files", "directory")
        self.analyse(f"{traces}/rank_*.sqlite", "pattern", "--csv", ranks=2)
        self.assert_same_results("files", "pattern")


class Invariants(EndToEndTest):
    """What may change the representation of a job, but no verdict (the clock fit absorbs it)."""

    FAULT = ("--nodes", "2", "--gpus-per-node", "2", "--steps", "10", "--fault", "slow_gpu:rank=2,factor=1.3")
    SEEDS = seeds(10)

    def assert_same_verdict(self, one, other):
        self.assertEqual([s["trace_rank"] for s in one["stragglers"]], [2])
        self.assertEqual([s["trace_rank"] for s in other["stragglers"]], [2])
        self.assertEqual(one["collectives"], other["collectives"])
        for a, b in zip(one["ranks"], other["ranks"]):
            # Merging moves times against the 32 ns tick of the GPU's clock.
            self.assertLessEqual(abs(a["window_ns"] - b["window_ns"]), 64)
            self.assertLess(abs(a["compute_ns"] - b["compute_ns"]), 50_000)
            # Sums of up to 93 waits, each known to about 0.1 us.
            self.assertLess(abs(a["wait_ns"] - b["wait_ns"]), 50_000)

    def for_every_seed(self, change):
        """The verdict on a job, and on the same job in the directory that change(traces, seed) names."""
        for seed in self.SEEDS:
            with self.subTest(seed=seed):
                traces = self.synth("job", *self.FAULT, "--seed", str(seed), "--truth", "none", "--force")
                expected = self.analyse(traces, "expected", "--force")
                self.assert_same_verdict(expected, self.analyse(change(traces, seed), "out", "--force"))

    def changed_copy(self, traces, name, change):
        """A copy of the traces with change(connection, path) applied to each."""
        copy = self.directory / name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(traces, copy)
        for path in sorted(copy.glob("*.sqlite")):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                change(connection, path)
                connection.commit()
        return copy

    def test_a_constant_added_to_the_utc_of_one_report(self):
        def shift(connection, path):
            if path.name == "rank_00001.sqlite":
                connection.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + 7000000")

        self.for_every_seed(lambda traces, seed: self.changed_copy(traces, "utc", shift))

    def test_a_constant_added_to_all_events_of_one_report(self):
        def shift(connection, path):
            if path.name != "rank_00001.sqlite":
                return
            for table, columns in tables_of(connection):
                if {"start", "end"} <= columns:
                    connection.execute(f"UPDATE {table} SET start = start + 3000000, end = end + 3000000")

        self.for_every_seed(lambda traces, seed: self.changed_copy(traces, "events", shift))

    def test_sessions_that_start_an_hour_after_their_events(self):
        """All times are negative, and the session's clock is as much ahead."""
        hour = 3_600_000_000_000

        def shift(connection, path):
            connection.execute(f"UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + {hour}, "
                               f"systemClockNs = systemClockNs + {hour}")
            for table, columns in tables_of(connection):
                for column in columns & {"start", "end", "timestamp"}:
                    connection.execute(f"UPDATE {table} SET {column} = {column} - {hour}")

        self.for_every_seed(lambda traces, seed: self.changed_copy(traces, "late", shift))

    def test_rows_in_no_order(self):
        def shuffle(connection, path):
            for table, columns in tables_of(connection):
                rows = connection.execute(f"SELECT * FROM {table}").fetchall()
                random.Random(path.name).shuffle(rows)
                connection.execute(f"DELETE FROM {table}")
                connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(columns))})", rows)

        self.for_every_seed(lambda traces, seed: self.changed_copy(traces, "shuffled", shuffle))

    def test_reports_of_one_node_merged_into_one_file(self):
        self.for_every_seed(lambda traces, seed: self.synth(
            "per_node", *self.FAULT, "--seed", str(seed), "--export", "files=per_node", "--truth", "none", "--force"))

    def test_one_report_split_into_a_session_per_process(self):
        for seed in self.SEEDS:
            with self.subTest(seed=seed):
                traces = self.synth("node", *self.FAULT, "--seed", str(seed), "--export", "files=per_node", "--truth", "none",
                                    "--force")
                expected = self.analyse(traces, "expected", "--force")
                halves = self.directory / "halves"
                shutil.rmtree(halves, ignore_errors=True)
                halves.mkdir()
                for path in sorted(traces.glob("*.sqlite")):
                    split_by_process(path, halves)
                self.assertEqual(len(list(halves.iterdir())), 4)
                self.assert_same_verdict(expected, self.analyse(halves, "out", "--force"))


class InvariantsWithoutPayload(Invariants):
    FAULT = ("--nodes", "2", "--gpus-per-node", "2", "--steps", "16", "--fault", "slow_gpu:rank=2,factor=1.3",
             "--export", "payload=none")
    SEEDS = seeds(3)


class RandomChanges(EndToEndTest):
    """Names and representation drawn at random: the same culprits, costs and causes, under the new names."""

    FAULTS = ["slow_gpu:rank={},factor=1.35", "late_host:rank={},pause=5ms,kind=sleep", "sync_stall:rank={},pause=4ms",
              "late_host:rank={},pause=12ms,kind=data_loading,period=3"]

    def test_of_ranks_hosts_files_rows_and_times(self):
        for seed in seeds(12):
            with self.subTest(seed=seed):
                draw = random.Random(f"changes {seed}")
                culprit = 0 if seed % 3 == 0 else draw.randrange(8)  # rank 0 like any other
                layout = draw.choice([[], ["--tp", "2"], ["--dp-style", "fully_sharded"]])
                # Numbers come from names of files where NCCL's payload does not tell them.
                renumbered = seed % 2 == 0
                how = ["--export", "payload=none"] if renumbered else ["--export", draw.choice(["files=per_rank", "files=per_node"])]
                recorded = draw.choice([[], ["--capture", "no_nvtx"]]) if renumbered else []
                shutil.rmtree(self.directory / "job", ignore_errors=True)
                traces = self.synth("job", "--nodes", "2", "--gpus-per-node", "4", "--steps", "24", "--layers", "3", *layout, *how,
                                    *recorded, "--fault", draw.choice(self.FAULTS).format(culprit), "--seed", str(400 + seed),
                                    "--truth", "none", "--force")
                expected = self.analyse(traces, "expected", "--force")
                self.assertEqual([s["trace_rank"] for s in expected["stragglers"]], [culprit])
                number_of = list(range(8))
                if renumbered:
                    draw.shuffle(number_of)
                changed = self.changed(traces, draw, number_of, has_payload=not renumbered)
                actual = self.analyse(changed, "out", "--force")
                if not renumbered:
                    self.assertEqual(expected["collectives"], actual["collectives"])
                # Without payload a few operations may be matched under one name and not under another.
                self.compare(expected, actual, number_of, tolerance=0.03 if renumbered else 0.01)

    def changed(self, traces, draw, number_of, has_payload):
        """A copy, with the numbers of trace ranks in names of files replaced."""
        copy = self.directory / "changed"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        hosts = {f"node{number:03d}": f"{draw.choice('abcxyz')}{draw.randrange(1000)}-{number}" for number in range(8)}
        for path in sorted(traces.glob("*.sqlite")):
            name = path.name
            if name.startswith("rank_"):
                name = f"rank_{number_of[int(path.stem.split('_')[1])]:05d}.sqlite"
            target = copy / name
            shutil.copyfile(path, target)
            with contextlib.closing(sqlite3.connect(target)) as connection:
                self.change(connection, draw, hosts, has_payload)
                connection.commit()
            if not name.startswith("rank_") and draw.random() < 0.5:
                split_by_process(target, copy)
                target.unlink()
        return copy

    def change(self, connection, draw, hosts, has_payload):
        tables = list(tables_of(connection))
        # Without payload clocks say where to look for who belongs together, and matching may miss some.
        if has_payload and draw.random() < 0.7:
            constant = draw.randrange(-3_000_000, 5_000_000)
            for table, columns in tables:
                if {"start", "end"} <= columns:
                    connection.execute(f"UPDATE {table} SET start = start + ?, end = end + ?", (constant, constant))
        if has_payload and draw.random() < 0.7:
            connection.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + ?",
                               (draw.randrange(-9_000_000, 9_000_000),))
        for old, new in hosts.items():
            connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? WHERE value = ?", (new, old))
        if draw.random() < 0.7:
            for table, columns in tables:
                rows = connection.execute(f"SELECT * FROM {table}").fetchall()
                draw.shuffle(rows)
                connection.execute(f"DELETE FROM {table}")
                connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(columns))})", rows)

    def compare(self, expected, actual, number_of, tolerance):
        self.assertEqual(expected["delay"]["steps"], actual["delay"]["steps"])
        for kind in ("stragglers", "suspects"):
            self.assertEqual([number_of[late["trace_rank"]] for late in expected[kind]],
                             [late["trace_rank"] for late in actual[kind]])
            for one, other in zip(expected[kind], actual[kind]):
                for key in ("cause", "pattern", "first_step", "last_step"):
                    self.assertEqual(one[key], other[key], key)
                # Where clocks move by tens of nanoseconds, some waits of about that size are nobody's.
                self.assertAlmostEqual(one["delay_cost_ns"] / other["delay_cost_ns"], 1, delta=tolerance)
        for one, other in zip(expected["what_if"], actual["what_if"]):
            self.assertEqual(sorted(number_of[rank] for rank in one["trace_ranks"]), other["trace_ranks"])
            self.assertAlmostEqual(one["saved_share"], other["saved_share"], delta=tolerance / 5)


def tables_of(connection):
    """Every table with the set of its columns."""
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [(name, {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}) for name in names]


def split_by_process(path, target):
    """One file per process with GPU work, as nsys would have written them as sessions of their own."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        processes = [pid for (pid,) in connection.execute("SELECT DISTINCT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL")]
    for number, process in enumerate(sorted(processes)):
        part = target / f"{path.stem}_{number}.sqlite"
        shutil.copyfile(path, part)
        with contextlib.closing(sqlite3.connect(part)) as connection:
            for table, columns in tables_of(connection):
                # The lower 24 bits of a globalTid are the thread.
                for column in columns & {"globalPid", "globalTid"}:
                    connection.execute(f"DELETE FROM {table} WHERE {column} & ~0xFFFFFF <> ?", (process & ~0xFFFFFF,))
                if table.startswith("META_DATA_"):
                    connection.execute(f"UPDATE {table} SET value = value || ? WHERE name LIKE '%UUID%'", (str(number),))
            connection.commit()


if __name__ == "__main__":
    main()
