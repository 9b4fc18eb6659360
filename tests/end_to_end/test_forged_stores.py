"""Stores that were made to harm whoever reads them: no name in one opens another file, and every bound holds on every way to it."""

import ctypes
import json
import os
import pathlib
import platform
import queue
import shutil
import signal
import sqlite3
import subprocess
import threading
import zlib

import h5py
import numpy

from support import TOOL, main, run
from test_service import PATIENCE_S, ServiceTest, children_of

SECRET = "AKIAIOSFODNN7EXAMPLE"
COLUMN = "ranks/wait_ns"  # of table ranks, with 8 rows
ROWS = 8
BOMB_ROWS = 100_000_000
MOST_MEMORY_BYTES = 1_500_000_000  # of a command: 1 GB and 50 times the 3.1 MB of the store, and what the program is itself


def landlock_version():
    """0 where the kernel has none."""
    create_ruleset = 444  # on all processors
    return max(0, ctypes.CDLL(None, use_errno=True).syscall(create_ruleset, None, 0, 1))


class Forged(ServiceTest):
    def setUp(self):
        super().setUp()
        self.secret = self.directory / "secret"
        self.secret.write_text(SECRET * 10)
        self.other = self.directory / "other.h5"
        with h5py.File(self.other, "w") as other:
            other["values"] = numpy.arange(ROWS) + 987_654_321
        self.pipe = self.directory / "pipe"
        os.mkfifo(self.pipe)

    def store_path(self, name="after"):
        return self.root / name / "store.h5"

    def forge(self, make, column=COLUMN, name="after"):
        """A report whose column `make` makes anew."""
        shutil.rmtree(self.root / name)
        shutil.copytree(self.made / "reports" / name, self.root / name)
        with h5py.File(self.store_path(name), "r+") as store:
            attributes = {key: store[column].attrs[key] for key in ("unit", "description")}
            del store[column]
            make(store, column)
            if isinstance(store.get(column, getlink=True), h5py.HardLink):
                store[column].attrs.update(attributes)

    def forgeries(self):
        def external(path):
            return lambda store, column: store.create_dataset(column, (ROWS,), "S20", external=[(str(path), 0, 20 * ROWS)])

        def virtual(store, column):
            layout = h5py.VirtualLayout((ROWS,), "i8")
            layout[:] = h5py.VirtualSource(str(self.other), "values", (ROWS,))
            store.create_virtual_dataset(column, layout)

        def external_link(store, column):
            store[column] = h5py.ExternalLink(str(self.other), "values")

        def soft_link(store, column):
            store[column] = h5py.SoftLink("/ranks/arrivals")

        return {"external": external(self.secret), "external pipe": external(self.pipe), "virtual": virtual,
                "external link": external_link, "soft link": soft_link}

    def commands(self):
        return (["show", self.root / "after", "ranks", "--json"], ["show", self.root / "after"],
                ["diff", self.root / "before", self.root / "after", "ranks", "--json"],
                ["compare", self.root / "before", self.root / "after", "--out", self.directory / "compared"])

    def assert_tells_nothing(self, text):
        for word in (SECRET, "987654321", "bad_alloc"):
            self.assertNotIn(word, text)

    def test_no_command_reads_another_file(self):
        for name, make in self.forgeries().items():
            self.forge(make)
            for command in self.commands():
                with self.subTest(name, command=command[0]):
                    done = run([TOOL, *command])
                    self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                    self.assertIn(f"'{COLUMN}'", done.stderr)
                    self.assertIn("run the analysis again", done.stderr)
                    self.assert_tells_nothing(done.stdout + done.stderr)
                    self.assertFalse((self.directory / "compared").exists())

    def test_the_service_reads_no_other_file(self):
        service = self.serve()
        for name, make in self.forgeries().items():
            self.forge(make)
            with self.subTest(name):
                answers = [service.ask("GET", path) for path in
                           ("/api/v1/reports/after/tables", "/api/v1/reports/after/tables/ranks",
                            "/api/v1/compare?before=before&after=after", "/compare?before=before&after=after")]
                for status, text, _ in answers:
                    self.assertEqual(status, 503, text)
                    self.assertIn(COLUMN, text.decode())
                    self.assert_tells_nothing(text.decode())
                for tool, arguments in (("table", {"table": "ranks"}), ("explain_rank", {"trace_rank": 5})):
                    text, is_error = service.tool(tool, report="after", **arguments)
                    self.assertTrue(is_error, text)
                    self.assertIn(COLUMN, text)
                    self.assert_tells_nothing(text)
                text, is_error = service.tool("compare", before="before", after="after")
                self.assertTrue(is_error and COLUMN in text, text)
                self.assert_tells_nothing(service.ask("GET", "/reports/after")[1].decode())
        self.assertEqual(service.api("reports/before/tables/ranks")["rows"], ROWS)

    def test_a_table_that_is_a_link(self):
        with h5py.File(self.store_path(), "r+") as store:
            store["lions"] = h5py.ExternalLink(str(self.other), "/")
        self.assertIn("'lions' in it is a link", run([TOOL, "show", self.root / "after"]).stderr)
        error = self.serve().api("reports/after/tables", 503)["error"]
        self.assertIn("the store.h5 of 'after': 'lions' in it is a link", error["problem"])

    def test_nothing_but_a_regular_file_is_waited_for(self):
        for command in (["show", self.pipe], ["compare", self.root / "before", self.pipe], ["diff", self.pipe, self.root / "before", "ranks"]):
            done = run([TOOL, *command])
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("no regular file", done.stderr)

    def bomb(self, name="after"):
        """Table kernels becomes two columns of zeros, 0.8 GB each, of which the file has 0.8 MB each."""
        chunk_rows = 65_536
        zeros = zlib.compress(bytes(8 * chunk_rows), 9)
        with h5py.File(self.store_path(name), "r+") as store:
            columns = ["trace_rank", "total_ns"]
            store["kernels"].attrs["columns"] = columns
            for column in columns:
                attributes = dict(store["kernels"][column].attrs)
                del store["kernels"][column]
                data = store["kernels"].create_dataset(column, (BOMB_ROWS,), "i8", chunks=(chunk_rows,), compression="gzip")
                for first in range(0, BOMB_ROWS, chunk_rows):
                    data.id.write_direct_chunk((first,), zeros)
                data.attrs.update(attributes)

    def test_a_bomb_takes_bounded_memory_and_is_told_in_a_sentence(self):
        self.bomb()
        for command in (["show", self.root / "after", "kernels"], ["diff", self.root / "before", self.root / "after", "kernels"],
                        ["compare", self.root / "before", self.root / "after"]):
            with self.subTest(command=command[0]):
                process = subprocess.Popen([TOOL, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                said = process.stderr.read()
                process.stderr.close()
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                self.assertEqual(process.returncode, 3, said)
                self.assertIn("memory", said)
                self.assert_tells_nothing(said)
                self.assertLess(usage.ru_maxrss * 1024, MOST_MEMORY_BYTES)

    def exchanged_unnoticed(self, path, content):
        """Other bytes in a file that looks the same from outside."""
        before = path.stat()
        self.assertLessEqual(len(content), before.st_size)
        with open(path, "r+b") as file:
            file.write(content.ljust(before.st_size, b"\0"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_a_comparison_that_fails_is_not_made_again_at_once(self):
        whole = self.store_path().read_bytes()
        self.bomb()
        service = self.serve()
        error = service.api("compare?before=before&after=after", 503)["error"]
        self.assertIn("cannot be compared", error["problem"])
        self.assert_tells_nothing(json.dumps(error))
        self.exchanged_unnoticed(self.store_path(), whole)
        self.assertEqual(service.api("compare?before=before&after=after", 503)["error"], error)
        service.api("compare?before=before&after=before")
        os.utime(self.store_path())
        self.assertEqual(service.api("compare?before=before&after=after")["basis"], "step")

    def test_a_comparison_that_takes_long_holds_up_few(self):
        self.bomb()
        service = self.serve()
        service.api("reports/after/tables"), service.api("reports/before/tables")
        asked, admitted = 40, 16
        outcomes = queue.Queue()

        def ask():
            outcomes.put(service.ask("GET", "/api/v1/compare?before=before&after=after")[0])

        threads = [threading.Thread(target=ask) for _ in range(asked)]
        threads[0].start()
        stopped = []
        while not stopped and threads[0].is_alive():
            stopped = [child for child in children_of(service.process.pid) if b"\0compare\0" in child.command and child.signal(signal.SIGSTOP)]
        self.assertTrue(stopped and stopped[0].is_stopped())
        # What it has started may be through; it is waited for by who stands still.
        for thread in threads[1:]:
            thread.start()
        refused = [outcomes.get(timeout=PATIENCE_S) for _ in range(asked - admitted)]
        self.assertEqual(set(refused), {429})
        self.assertEqual(service.api("reports/before/tables/ranks")["rows"], ROWS)
        stopped[0].signal(signal.SIGKILL)
        self.assertEqual({outcomes.get(timeout=PATIENCE_S) for _ in range(admitted)}, {503})
        for thread in threads:
            thread.join()

    def test_a_report_that_kills_its_reader_is_not_read_again_at_once(self):
        whole = self.store_path().read_bytes()
        damaged = bytearray(whole)
        for at in range(0, len(whole) - 64, 8):
            if whole[at:at + 4] == b"GCOL":  # heaps of texts that are shorter than their own beginning
                damaged[at + 8:at + 16] = (17).to_bytes(8, "little")
        self.store_path().write_bytes(damaged)
        service = self.serve()
        error = service.api("reports/after/tables", 503)["error"]
        if "crashed" not in error["problem"]:
            self.skipTest("this HDF5 does not crash over the damage")
        self.exchanged_unnoticed(self.store_path(), whole)
        self.assertEqual(service.api("reports/after/tables/ranks", 503)["error"], error)
        self.assertEqual(service.api("reports/before/tables/ranks")["rows"], ROWS)
        os.utime(self.store_path())
        self.assertEqual(service.api("reports/after/tables/ranks")["rows"], ROWS)

    def readers(self, service):
        return [child for child in children_of(service.process.pid) if b"--reader" in child.command]

    def test_readers_are_enclosed(self):
        service = self.serve()
        service.api("reports/after/tables/ranks")
        readers = self.readers(service)
        self.assertGreater(len(readers), 0)
        for reader in readers:
            lines = pathlib.Path(f"/proc/{reader.pid}/status").read_text().splitlines()
            facts = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            self.assertEqual(facts["NoNewPrivs"], "1")
            if platform.machine() in ("x86_64", "aarch64") and "Seccomp" in facts:
                self.assertEqual(facts["Seccomp"], "2")  # a filter

    def test_an_analysis_reads_what_it_was_given_only(self):
        if landlock_version() < 2:
            self.skipTest("the kernel has no Landlock, or a version before 2: an analysis follows links to other files")
        exports = self.directory / "exports"
        exports.mkdir()
        for path in self.exports[:2]:
            shutil.copy(path, exports)
        (exports / self.exports[2].name).symlink_to(self.exports[2])
        service = self.serve("--exports", exports)
        _, job = service.post_json("/api/v1/analyses", {"name": "links", "paths": [str(exports)]})
        self.assertEqual(service.wait(job["id"], "done", "failed")["state"], "done")
        self.assertEqual(len(self.report_json("links")["trace_ranks"]), 2)
        with sqlite3.connect(f"file:{self.exports[2]}?mode=ro", uri=True) as database:  # there, and readable for others
            self.assertGreater(database.execute("SELECT count(*) FROM StringIds").fetchone()[0], 0)


if __name__ == "__main__":
    main()
