"""Bad input: a message that says what to do, the right exit code, the rest analysed, and never a hang."""

import csv
import os
import pathlib
import shutil
import sqlite3
import unittest

from support import MPIEXEC, TOOL, EndToEndTest, main, run


class BadInput(EndToEndTest):
    def setUp(self):
        super().setUp()
        self.traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "3")
        self.good = sorted(self.traces.glob("*.sqlite"))

    def bad_files(self):
        content = self.good[0].read_bytes()
        made = {
            "zero.sqlite": b"",
            "truncated.sqlite": content[: len(content) // 2],
            "short.sqlite": content[:50],
            "text.sqlite": b"this is not a database, but it is long enough to look like a file\n" * 20,
            "corrupt.sqlite": content[:8192] + b"\xff" * (len(content) - 8192),
            "report.nsys-rep": b"\x00report",
        }
        for name, data in made.items():
            (self.directory / name).write_bytes(data)
        empty = self.directory / "empty.sqlite"
        sqlite3.connect(empty).execute("CREATE TABLE other (x INTEGER)").connection.close()
        directory = self.directory / "directory.sqlite"
        directory.mkdir()
        return [self.directory / name for name in made] + [empty, directory, self.directory / "missing.sqlite"]

    def test_each_bad_input_fails_alone_and_the_others_are_analysed(self):
        for ranks in (None, 3):
            for bad in self.bad_files() if ranks is None else [self.directory / "zero.sqlite", self.directory / "missing.sqlite"]:
                with self.subTest(bad=bad.name, ranks=ranks):
                    done = self.explain([*self.good, bad], "out", "--force", ranks=ranks)
                    self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
                    report = self.report("out")
                    failed = [i for i in report["inputs"] if i["status"] == "failed"]
                    self.assertEqual([pathlib.Path(i["path"]).name for i in failed], [bad.name])
                    self.assertNotIn("\n", failed[0]["message"])
                    self.assertIn(failed[0]["message"][:40], done.stderr)
                    self.assertEqual(len(report["trace_ranks"]), 2)
                    self.assertGreater(report["collectives"]["complete"], 0)

    def test_nothing_to_analyse(self):
        for ranks in (None, 2):
            done = self.explain([self.directory / "missing.sqlite"], "none", ranks=ranks)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertFalse((self.directory / "none").exists(), "no result, no directory")

    def test_reports_are_exported_where_asked_for(self):
        # A stand-in for nsys: "exports" by copying the file named in the report.
        program = self.directory / "bin" / "nsys"
        program.parent.mkdir()
        program.write_text('#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = --output ] && out=$2; shift; done\ncp "$(cat "$1")" "$out"\n')
        program.chmod(0o755)
        report = self.directory / "rank 9.nsys-rep"
        report.write_text(str(self.good[1]))
        broken = self.directory / "broken.nsys-rep"
        broken.write_text("/nonexistent")
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = f"{program.parent}:{path}"
        done = self.explain([self.good[0], report, broken], "out", "--export", ranks=2)
        self.assertEqual(done.returncode, 4, done.stderr)
        report_json = self.report("out")
        self.assertEqual(len(report_json["trace_ranks"]), 2)
        self.assertGreater(report_json["collectives"]["complete"], 0)
        self.assertIn("could not export", done.stderr)
        self.assertEqual(sorted(p.name for p in self.directory.glob("*.sqlite")), [], "nothing beside the reports")
        done = self.explain([self.good[0], report], "without")
        self.assertEqual(done.returncode, 4)
        self.assertIn("--export", done.stderr)
        os.environ["PATH"] = path
        elsewhere = program.rename(program.parent / "nsys-2026")
        named = self.explain([self.good[0], report], "named", "--nsys-command", elsewhere, "--filter-time", "0s/1000s")
        self.assertEqual(named.returncode, 0, named.stderr)
        self.assertEqual(len(self.report("named")["trace_ranks"]), 2)
        done = self.explain([self.good[0], report], "wrong", "--nsys-command", self.directory / "none")
        self.assertEqual(done.returncode, 4)
        self.assertIn(f"{self.directory / 'none'}, which alone can read it, did not start", done.stderr)

    def test_usage(self):
        self.assertEqual(self.explain(self.good, "out", "--no-such-option").returncode, 2)
        (self.directory / "map.txt").write_text("nonsense\n")
        done = self.explain(self.good, "out", "--rank-map", self.directory / "map.txt")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_bad_rank_regex(self):
        self.assertEqual(self.explain(self.good, "out", "--rank-regex", "no group").returncode, 2)

    def test_results_of_others_are_kept(self):
        out = self.directory / "out"
        out.mkdir()
        (out / "precious.txt").write_text("older result")
        for ranks in (None, 2):
            done = self.explain(self.good, "out", ranks=ranks)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--force", done.stderr)
        self.assertEqual([p.name for p in out.iterdir()], ["precious.txt"])
        self.analyse(self.good, "out", "--force")
        self.assertEqual((out / "precious.txt").read_text(), "older result")
        # A tool built without npm writes no report.html.
        self.assertEqual({p.name for p in out.iterdir()} - {"report.html"},
                         {"precious.txt", "report.json", "report.md", "store.h5"})

    def test_files_of_others_where_results_go_are_kept(self):
        """No name makes a file the program's own."""
        foreign = b"step,loss\r\n"
        self.analyse(self.good, "older", "--csv")
        out = self.directory / "out"
        for code, name, *options in ([2, "shards/train.tar"], [5, "shards/0123.record", "--force"],
                                     [5, "store.h5", "--force"], [5, "report.md", "--force"],
                                     [5, "tables/train.csv", "--force"], [5, "tables/ranks.csv", "--force", "--csv"]):
            kept = out / name
            kept.parent.mkdir(parents=True)
            kept.write_bytes(foreign)
            with self.subTest(name=name):
                done = self.explain(self.good, "out", *options)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("another --out", done.stderr)
                self.assertEqual(kept.read_bytes(), foreign)
                self.assertEqual([p for p in out.rglob("*") if p.is_file()], [kept])
            shutil.rmtree(out)
        (self.directory / "older" / "tables" / "mine.csv").write_bytes(foreign)
        before = {p: p.stat().st_mtime_ns for p in (self.directory / "older").rglob("*")}
        done = self.explain(self.good, "older", "--force", "--csv", ranks=2)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("mine.csv", done.stderr)
        self.assertEqual(before, {p: p.stat().st_mtime_ns for p in (self.directory / "older").rglob("*")})

    def test_older_results_are_replaced_as_one(self):
        self.analyse(self.good, "out", "--csv")
        page = self.directory / "out" / "report.html"
        page.write_text("of a tool that was built with a page")
        self.analyse(self.good[:1], "out", "--force")
        self.analyse(self.good[:1], "new")
        names = {name: {p.name for p in (self.directory / name).iterdir()} for name in ("out", "new")}
        self.assertEqual(names["out"], names["new"])
        if page.exists():
            self.assertNotIn("of a tool that was", page.read_text())

    def test_a_failing_run_keeps_older_results(self):
        self.analyse(self.good, "out")
        before = (self.directory / "out" / "report.json").read_bytes()
        self.assertEqual(self.explain(self.directory / "missing.sqlite", "out", "--force").returncode, 3)
        self.assertEqual((self.directory / "out" / "report.json").read_bytes(), before)

    def test_output_that_cannot_be_written(self):
        (self.directory / "file").write_text("")
        for ranks in (None, 2):
            done = self.explain(self.good, "file/below", ranks=ranks)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("cannot write", done.stderr)

    @unittest.skipUnless(pathlib.Path("/dev/full").exists() and os.geteuid() == 0, "needs root to mount a small disk")
    def test_a_link_that_leads_nowhere_is_refused_before_anything_is_read(self):
        out = self.directory / "out"
        out.symlink_to("nowhere")
        for name, ranks in (("out", None), ("out/", 2)):
            done = self.explain(self.directory / "missing.sqlite", name, ranks=ranks)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("symbolic link that leads nowhere", done.stderr)
            self.assertNotIn("shards", done.stderr)
            self.assertEqual(os.readlink(out), "nowhere")

    def test_names_do_nothing_to_a_terminal(self):
        bad = self.directory / "\x1b]0;owned\x07\u202esqlite.sqlite"
        bad.write_bytes(b"no database")
        done = self.explain([*self.good, bad], "out", "--csv")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("\\x1B]0;owned\\x07\\u202Esqlite.sqlite", done.stderr)
        written = done.stdout + done.stderr + "".join(t.read_text() for t in (self.directory / "out" / "tables").glob("*"))
        for unsafe in "\x1b\x07\u202e":
            self.assertNotIn(unsafe, written)

    def test_a_long_name_is_in_no_row_of_the_results(self):
        """10 MB each, alike but for their last bytes: two kernels stay two."""
        export = sqlite3.connect(self.good[0])
        names = export.execute("SELECT shortName FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName"
                               " WHERE value NOT LIKE '%nccl%' GROUP BY 1 ORDER BY count(*) DESC LIMIT 2").fetchall()
        for number, (name,) in enumerate(names):
            export.execute("UPDATE StringIds SET value = ? WHERE id = ?", ("long" * 2_500_000 + str(number), name))
            export.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = shortName WHERE shortName = ?", (name,))
        export.commit()
        export.close()
        report = self.analyse(self.good, "out", "--csv")
        self.assertTrue([w for w in report["warnings"] if "names are longer than 16384 bytes" in w["message"]])
        written = {p: p.read_bytes() for p in (self.directory / "out").rglob("*") if p.is_file()}
        self.assertLess(sum(map(len, written.values())), 20_000_000)
        rows = {line.split(b"... (10000001 bytes, hash ")[1][:16]
                for line in written[self.directory / "out" / "tables" / "kernels.csv"].splitlines() if b"longlong" in line}
        self.assertEqual(len(rows), 2)

    def test_no_size_or_time_overflows(self):
        export = sqlite3.connect(self.good[0])
        last = (1 << 63) - 1
        for table in ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"):
            rows = export.execute(f"UPDATE {table} SET bytes = CASE rowid % 3 WHEN 0 THEN -8 ELSE ? END", (last - 8,)).rowcount
            self.assertGreater(rows, 2, table)
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
            export.execute(f"UPDATE {table} SET start = ?, end = ? WHERE rowid % 50 = 7", (last - 5, last))
        export.commit()
        export.close()
        report = self.analyse(self.good, "out", "--csv")
        self.assertTrue([w for w in report["warnings"] if "a size that cannot be true" in w["message"]])
        for table in (self.directory / "out" / "tables").glob("*.csv"):
            for row in csv.DictReader(table.read_text().splitlines()):
                for column, value in row.items():
                    if column.endswith(("bytes", "duration_ns", "total_ns")) and value:
                        self.assertIn(float(value) >= 0 or float(value) == -1, (True,), (table.name, row))
                        self.assertLess(float(value), 1e18, (table.name, row))

    def test_full_disk(self):
        small = self.directory / "small"
        small.mkdir()
        if os.system(f"mount -t tmpfs -o size=64k tmpfs '{small}' 2>/dev/null") != 0:
            self.skipTest("cannot mount a small disk here")
        try:
            done = self.explain(self.good, "small/out", ranks=2)
            self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
            self.assertEqual([p.name for p in (small / "out").rglob("*") if p.suffix != ".record"], ["shards"],
                             "but for the records, which a merge to elsewhere needs")
        finally:
            os.system(f"umount '{small}'")

    def test_inputs_stay_as_they_are(self):
        kept = self.directory / "kept"
        shutil.copytree(self.traces, kept)
        before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in kept.iterdir()}
        self.analyse(kept, "out", ranks=2)
        self.assertEqual(before, {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in kept.iterdir()})

    def test_missing_ranks_end_the_run_before_anything_is_read(self):
        self.assertEqual(self.explain(self.good, "two", "--require-ranks", "2").returncode, 0)
        for ranks in (None, 2):
            done = self.explain(self.good, "three", "--require-ranks", "3", ranks=ranks)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("the 2 traces found hold at most 2 ranks", done.stderr)
            self.assertFalse((self.directory / "three").exists())

    def test_missing_ranks_that_only_reading_shows(self):
        whole = self.good[1].read_bytes()
        self.good[1].write_bytes(whole[: len(whole) // 2])
        self.assertEqual(self.explain(self.good, "damaged", "--require-ranks", "2").returncode, 4)
        self.assertEqual(len(self.report("damaged")["trace_ranks"]), 1)
        self.good[1].write_bytes(whole)
        # An export that does not list its contexts may hold any number of ranks.
        with sqlite3.connect(self.good[0]) as connection:
            connection.execute("DROP TABLE TARGET_INFO_CUDA_CONTEXT_INFO")
        connection.close()
        self.assertEqual(self.explain(self.good, "untold", "--require-ranks", "3").returncode, 4)
        self.assertEqual(len(self.report("untold")["trace_ranks"]), 2)

    def test_every_tool_rank_ends_with_the_same_code(self):
        (self.directory / "file").write_text("")
        missing = self.directory / "missing.sqlite"
        for name, code, arguments in (("fine", 0, self.good), ("usage", 2, [*self.good, "--steps", "x"]),
                                      ("nothing", 3, [missing]), ("some", 4, [*self.good, missing]),
                                      ("ranks", 4, [*self.good, "--require-ranks", "3"]), ("file/below", 5, self.good)):
            codes = self.directory / f"codes{code}{len(arguments)}"
            codes.mkdir()
            done = run([MPIEXEC, "-n", "3", "sh", "-c", '"$@"; echo $? >"$(mktemp "$0/XXXXXX")"', codes, TOOL, *arguments,
                        "--out", self.directory / name])
            self.assertEqual([int(p.read_text()) for p in codes.iterdir()], [code] * 3, done.stderr)

    def test_tool_ranks_that_were_told_different_things(self):
        """Where not all were told the same, nobody waits for anybody: all end with 2, and the message says in what."""
        out, absent, job = ["--out", self.directory / "out"], self.directory / "absent.toml", self.directory / "job.toml"
        job.write_text("")
        told = [*self.good, *out]
        pairs = [  # of tool rank 0, of tool rank 1, words of the message
            ([*told, "--timeout", "9"], [*told, "--require-ranks", "3"], "--timeout: nothing instead of '9'"),
            ([*told, "--no-such-option"], told, "their command line: 'no problem' instead of"),
            (told, ["merge", self.directory / "shards", *out], "merge"),
            ([*told, "--job", job], [*told, "--job", absent], "absent.toml"),
            ([self.good[0], *out], [self.good[1], *out], str(self.good[1]))]
        for number, (first, second, words) in enumerate(pairs):
            with self.subTest(words=words):
                codes = self.directory / f"told{number}"
                codes.mkdir()
                keep = ["sh", "-c", '"$@"; echo $? >"$(mktemp "$0/XXXXXX")"', codes, TOOL]
                done = run([MPIEXEC, "-n", "1", *keep, *first, ":", "-n", "1", *keep, *second])
                self.assertEqual([int(p.read_text()) for p in codes.iterdir()], [2, 2], done.stderr)
                self.assertIn("tool rank 1 differs from tool rank 0 in ", done.stderr)
                self.assertIn(words, done.stderr)
                self.assertFalse((self.directory / "out").exists())

    def test_an_empty_environment(self):
        """Neither PATH nor HOME, as in a hook of Slurm."""
        self.analyse(self.good, "usual")
        done = run([TOOL, *self.good, "--out", self.directory / "bare"], env={})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_same_results("usual", "bare")

    def test_the_same_trace_twice(self):
        copy = self.directory / "copy.sqlite"
        shutil.copy(self.good[0], copy)
        done = self.explain([*self.good, copy], "out")
        self.assertEqual(done.returncode, 4, done.stderr)
        report = self.report("out")
        self.assertEqual(len(report["trace_ranks"]), 2)

    def test_secrets_reach_no_output(self):
        self.analyse(self.traces, "out", "--csv")
        for path in (self.directory / "out").rglob("*"):
            if path.is_file():
                self.assertNotIn(b"synthetic-secret", path.read_bytes(), path)


if __name__ == "__main__":
    main()
