"""Exports without GPU work: what their hosts did is told in the tables all the same, with the figures that SQL gives, and
nothing is concluded from it. Real ones besides, where ../shared/traces is there."""

import contextlib
import re
import sqlite3
import statistics
import unittest

import h5py

from support import SHARED_TRACES, WITHOUT_GPU_WORK, EndToEndTest, main

GPU_WORK = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
PUSH_POP, START_END, MARK, DOMAIN = 59, 60, 34, 75
MPI = ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS")
VERSION = re.compile(r"_v\d{4}$")  # what nsys takes off the names of calls
OPERATOR = re.compile(r", seq = \d+|, op_id = \d+")  # what PyTorch numbers in the names of ranges


def process_id(number):
    return 5000 + number


def thread(process, number):
    return 1 << 48 | process << 24 | process + number


class Export:
    """An export of one process with a helper beside it, as nsys would write it."""

    def __init__(self, path, number, schema):
        self.path, self.number, self.ids = path, number, {}
        self.connection = sqlite3.connect(path)
        self.run("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        self.run("CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT)")
        self.run("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.6.1'), ('EXPORT_SCHEMA_VERSION', '3.24.0'), "
                 "('EXPORT_SCHEMA_VERSION_MAJOR', '3')")
        self.run("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT, systemClockNs INTEGER)")
        self.run(f"INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES ({1700000000 * 10**9 + number * 1000}, '', '', NULL)")
        self.run("CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT)")
        self.run("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'x', 'Hostname', 0, 'node0')")
        for table in schema:
            self.run(schema[table])

    def run(self, sql, *values):
        self.connection.execute(sql, values)

    def id(self, text):
        if text not in self.ids:
            self.ids[text] = len(self.ids) + 1
            self.run("INSERT INTO StringIds VALUES (?, ?)", self.ids[text], text)
        return self.ids[text]

    def close(self):
        self.connection.commit()
        self.connection.close()


SCHEMA = {
    "NVTX_EVENTS": "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
                   "category INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER)",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass "
                                   "INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL)",
    "OSRT_API": "CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
                "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, nestingLevel INTEGER)",
    "MPI_COLLECTIVES_EVENTS": "CREATE TABLE MPI_COLLECTIVES_EVENTS (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, textId INTEGER)",
    "MPI_RANKS": "CREATE TABLE MPI_RANKS (globalTid INTEGER NOT NULL, rank INTEGER NOT NULL)",
    "COMPOSITE_EVENTS": "CREATE TABLE COMPOSITE_EVENTS (id INTEGER NOT NULL, start INTEGER NOT NULL, cpu INTEGER, threadState INTEGER, globalTid INTEGER)",
    "SAMPLING_CALLCHAINS": "CREATE TABLE SAMPLING_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, "
                           "unresolved INTEGER, stackDepth INTEGER NOT NULL)",
    "SCHED_EVENTS": "CREATE TABLE SCHED_EVENTS (start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL, globalTid INTEGER)",
}


def write_ranges(export, tid):
    export.run("INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid, domainId) VALUES (1, ?, 'loader', ?, 3)", DOMAIN, tid)
    for i in range(40):
        start = 10_000 + i * 5_000
        add = "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId) VALUES (?, ?, ?, ?, ?, ?, ?)"
        export.run(add, start, start + 2_000 + 7 * i + export.number, PUSH_POP, "iteration", tid, None, 0)
        export.run(add, start + 100, start + 400 + i * i, START_END, None, tid, export.id("prefetch"), 3)
        export.run(add, start + 50, None, MARK, "mark", tid, None, 0)


def write_calls(export, tid):
    for i in range(60):
        start = 12_000 + i * 2_000
        name = ("cudaEventQuery_v3020", "cudaStreamSynchronize_v3020", "cudaMalloc_v3020")[i % 3]
        export.run("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0)", start, start + 300 + 11 * i + export.number, tid,
                   i + 1, export.id(name))


def write_system_calls(export, tid):
    for i in range(50):
        start = 11_000 + i * 3_000
        export.run("INSERT INTO OSRT_API VALUES (?, ?, 27, ?, ?, 0, ?)", start, start + 500 + 13 * i + export.number, tid,
                   export.id("poll" if i % 4 else "read"), i % 2)


def write_mpi(export, tid):
    export.run("INSERT INTO MPI_RANKS VALUES (?, ?)", tid, export.number)
    for i in range(10):
        export.run("INSERT INTO MPI_COLLECTIVES_EVENTS VALUES (?, ?, ?, ?)", 15_000 + i * 9_000, 15_400 + i * 9_000 + i, tid,
                   export.id("MPI_Allreduce"))


def write_samples(export, tid):
    for i in range(30):
        export.run("INSERT INTO COMPOSITE_EVENTS VALUES (?, ?, 1, 0, ?)", i + 1, 10_000 + i * 1_000, tid)
        export.run("INSERT INTO SAMPLING_CALLCHAINS VALUES (?, ?, ?, 0, 0)", i + 1, export.id("spin" if i % 3 else "parse"),
                   export.id("/usr/bin/app"))


def write_schedule(export, tid):
    for i in range(20):
        export.run("INSERT INTO SCHED_EVENTS VALUES (?, 2, ?, ?)", 10_000 + i * 4_000, i % 2, tid)


WRITERS = {"NVTX_EVENTS": write_ranges, "CUPTI_ACTIVITY_KIND_RUNTIME": write_calls, "OSRT_API": write_system_calls,
           "MPI_RANKS": write_mpi, "SAMPLING_CALLCHAINS": write_samples, "SCHED_EVENTS": write_schedule}


def figures(durations):
    """What nsys stats tells of durations."""
    return {"count": len(durations), "total_ns": sum(durations), "min_ns": min(durations), "max_ns": max(durations),
            "median_ns": statistics.median(durations), "stddev_ns": statistics.stdev(durations) if len(durations) > 1 else 0.0}


def grouped(rows):
    groups = {}
    for key, duration in rows:
        groups.setdefault(key, []).append(duration)
    return {key: figures(durations) for key, durations in groups.items()}


class Sql:
    """What an export says, by SQL alone; `process` chooses one."""

    def __init__(self, path):
        self.connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.tables = {row[0] for row in self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def columns(self, table):
        return {row[1] for row in self.connection.execute(f"PRAGMA table_info({table})")}

    def last(self):
        """Where ranges end that were never closed."""
        return max(self.connection.execute(f"SELECT max(max(start), coalesce(max(end), 0)) FROM {table}").fetchone()[0] or 0
                   for table in self.tables & {"NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", *MPI})

    def ranges(self, process):
        rows = []
        if "NVTX_EVENTS" in self.tables:
            of_process = f"globalTid >> 24 & 16777215 = {process}"
            domains = dict(self.connection.execute(
                f"SELECT domainId, coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) FROM NVTX_EVENTS WHERE eventType = "
                f"{DOMAIN} AND {of_process}"))
            rows = [((domains.get(domain, ""), OPERATOR.sub("", text or ""), "PushPop" if kind == PUSH_POP else "StartEnd"), duration)
                    for domain, text, kind, duration in self.connection.execute(
                        f"SELECT domainId, coalesce(text, (SELECT value FROM StringIds WHERE id = textId)), eventType, coalesce(end, {self.last()}) "
                        f"- start FROM NVTX_EVENTS WHERE eventType IN ({PUSH_POP}, {START_END}, 70, 71) AND {of_process}")]
        for table in self.tables & set(MPI):
            rows += [(("MPI", name, "PushPop"), duration) for name, duration in self.connection.execute(
                f"SELECT value, end - start FROM {table} JOIN StringIds ON id = textId WHERE globalTid >> 24 & 16777215 = {process}")]
        return grouped(rows)

    def calls(self, table, process, condition="1"):
        if table not in self.tables:
            return {}
        return grouped((VERSION.sub("", name), duration) for name, duration in self.connection.execute(
            f"SELECT value, end - start FROM {table} JOIN StringIds ON id = nameId WHERE globalTid >> 24 & 16777215 = {process} AND {condition}"))


class HostProcesses(EndToEndTest):
    def exports(self, tables=SCHEMA, count=4):
        directory = self.directory / "exports"
        directory.mkdir(exist_ok=True)
        for number in range(count):
            # File names tell nothing: MPI_RANKS do, where they are.
            export = Export(directory / f"{'dcba'[number]}.sqlite", number, {name: SCHEMA[name] for name in tables})
            for name, write in WRITERS.items():
                if name in tables:
                    write(export, thread(process_id(number), 1))
            export.close()
        return directory

    def table(self, name, out="out"):
        with h5py.File(self.directory / out / "store.h5") as store:
            group = store[name]
            columns = {c: group[c].asstr()[()] if h5py.check_string_dtype(group[c].dtype) else group[c][()] for c in group}
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    def rows_of(self, table, number, key, out="out"):
        rows = [row for row in self.table(table, out) if row["trace_rank"] == number]
        by_key = {key(row): row for row in rows}
        self.assertEqual(len(by_key), len(rows))
        return by_key

    def expect(self, expected, rows):
        self.assertEqual(expected.keys(), rows.keys())
        for key, of_key in expected.items():
            for figure, value in of_key.items():
                self.assertAlmostEqual(rows[key][figure], value, delta=1e-9 * max(1, abs(value)), msg=f"{key} {figure}")

    def expect_host_rows(self, path, number, process, out="out"):
        """Tables of ranges, CUDA calls and calls into the operating system against SQL."""
        sql = Sql(path)
        with contextlib.closing(sql.connection):
            of_range = lambda row: (row["domain"], row["range"], row["style"])
            of_call = lambda row: row["name"]
            self.expect(sql.ranges(process), self.rows_of("nvtx_sum", number, of_range, out))
            self.expect(sql.calls("CUPTI_ACTIVITY_KIND_RUNTIME", process), self.rows_of("cuda_api", number, of_call, out))
            self.expect(sql.calls("OSRT_API", process, "eventClass NOT IN (31, 32)"), self.rows_of("os_runtime", number, of_call, out))

    def test_a_job_of_exports_without_gpu_work(self):
        directory = self.exports()
        prometheus = self.directory / "job.prom"
        report = self.analyse(directory, "out", "--csv", "--prometheus", str(prometheus), code=3)
        for family in ("wait_ratio", "stragglers"):
            self.assertNotIn(f"nsys_explain_{family}{{", prometheus.read_text(), "0 would read as a job that waits for nobody")
        self.assertEqual([(one["trace_rank"], one["rank_source"], one["process_id"]) for one in report["host_processes"]],
                         [(number, "mpi_ranks", process_id(number)) for number in range(4)])
        for number in range(4):
            self.expect_host_rows(directory / f"{'dcba'[number]}.sqlite", number, process_id(number))
            samples = self.rows_of("cpu_functions", number, lambda row: row["function"])
            self.assertEqual({name: row["samples"] for name, row in samples.items()}, {"spin (app)": 20, "parse (app)": 10})
            states = self.rows_of("thread_states", number, lambda row: row["state"])
            self.assertEqual(states["on_cpu"]["duration_ns"], 9 * 4_000)
            (first, *_) = [row for row in self.table("nvtx_trace") if row["trace_rank"] == number]
            self.assertEqual(first["start_ns"], 10_000 + number * 1_000, "job time: from the earliest session on")
        # Nothing is concluded from them.
        self.assertEqual((report["trace_ranks"], report["ranks"], report["stragglers"], report["findings"]), ([], [], [], []))
        verdict = report["verdict"]
        self.assertIn("None of 4 inputs holds GPU work", verdict["text"])
        self.assertIn("none of the CUDA calls launches work", verdict["text"])
        self.assertIn("open it when work runs", verdict["next"])
        for words in ("nobody", "No rank is", "on time"):
            self.assertNotIn(words, verdict["text"])
        self.assertEqual(report["activity"]["suspects"], [])
        self.assertEqual({one["status"] for one in report["inputs"]}, {"degraded"})
        # Summaries of the host are about all of them.
        calls = {one["name"]: one["count"] for one in report["activity"]["api_calls"]}
        self.assertEqual(calls, {"cudaEventQuery": 80, "cudaStreamSynchronize": 80, "cudaMalloc": 80})
        markdown = (self.directory / "out" / "report.md").read_text()
        self.assertIn("## Processes without GPU work", markdown)
        self.assertIn("who of them is late is not known", " ".join(markdown.split()))
        # The same on several tool ranks, and from records.
        self.analyse(directory, "two", "--csv", ranks=2, code=3)
        self.assert_same_results("out", "two")
        for out in ("cold", "warm"):
            self.analyse(directory, out, "--csv", "--cache", str(self.directory / "cache"), code=3)
            self.assert_same_results("out", out)

    def test_whatever_single_table_an_export_holds(self):
        for tables in (("OSRT_API",), ("MPI_RANKS", "MPI_COLLECTIVES_EVENTS"), ("COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS"), ("NVTX_EVENTS",)):
            with self.subTest(tables=tables):
                self.exports(tables, 1)
                path = self.directory / "exports" / "d.sqlite"
                report = self.analyse(path, "out", "--force", code=3)
                self.assertEqual(len(report["host_processes"]), 1)
                self.expect_host_rows(path, 0, process_id(0))
                self.assertEqual(len(self.table("cpu_functions")), 2 if "COMPOSITE_EVENTS" in tables else 0)
                path.unlink()

    def test_helpers_come_after_those_that_have_a_number(self):
        directory = self.exports(count=2)
        with contextlib.closing(sqlite3.connect(directory / "d.sqlite")) as connection:
            (name,) = connection.execute("SELECT id FROM StringIds WHERE value = 'read'").fetchone()
            connection.execute(f"INSERT INTO OSRT_API VALUES (20000, 20900, 27, {thread(77, 0)}, {name}, 0, 0)")
            connection.commit()
        report = self.analyse(directory, "out", code=3)
        self.assertEqual([(one["trace_rank"], one["process_id"]) for one in report["host_processes"]],
                         [(0, process_id(0)), (1, process_id(1)), (2, 77)])
        self.expect_host_rows(directory / "d.sqlite", 2, 77)

    def test_a_member_without_gpu_work_counts_in_nothing(self):
        job = ("--nodes", "1", "--gpus-per-node", "4", "--steps", "10", "--truth", "none", "--seed", "7", "--fault",
               "slow_gpu:rank=2,factor=1.4")
        traces = self.synth("job", *job)
        path = sorted(traces.glob("*.sqlite"))[1]
        others = [one for one in sorted(traces.glob("*.sqlite")) if one != path]
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for table in GPU_WORK:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            connection.commit()
        without = self.analyse(others, "without", "--whole-run")
        report = self.analyse(traces, "out", "--whole-run")
        (host,) = report["host_processes"]
        self.assertEqual((host["trace_rank"], host["path"], without["host_processes"]), (1, str(path), []))
        for part in ("trace_ranks", "ranks", "communicators", "collectives", "stragglers", "suspects", "what_if", "delay", "activity",
                     "run_facts", "critical_path", "step_time"):
            self.assertEqual(report[part], without[part], part)
        self.assertFalse(report["verdict"]["complete"])
        self.expect_host_rows(path, 1, host["process_id"])
        for table in ("cuda_api", "nvtx_sum", "os_runtime"):
            self.assertEqual([row for row in self.table(table) if row["trace_rank"] != 1], self.table(table, "without"), table)
            ranks = [row["trace_rank"] for row in self.table(table)]
            self.assertEqual(ranks, sorted(ranks), table)

    @unittest.skipUnless(SHARED_TRACES.is_dir(), "the real traces (../shared/traces) are absent")
    def test_real_exports(self):
        for name in WITHOUT_GPU_WORK:
            (path,) = SHARED_TRACES.glob(f"*/{name}")
            with self.subTest(path=path):
                report = self.analyse(path, "out", "--force", code=3)
                self.assertGreater(len(report["host_processes"]), 0)
                for one in report["host_processes"]:
                    self.expect_host_rows(path, one["trace_rank"], one["process_id"])


if __name__ == "__main__":
    main()
