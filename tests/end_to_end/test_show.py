"""`nsys-explain-mpi show`: what it prints is what the store and report.json hold."""

import csv
import io
import json

from support import EndToEndTest, main, run, TOOL


class Show(EndToEndTest):
    def setUp(self):
        super().setUp()
        job = self.synth("job", "--nodes", "2", "--steps", "5", "--fault", "slow_gpu:rank=5,factor=1.3", "--seed", "4")
        self.report_json = self.analyse(job, "out")
        self.store = self.directory / "out" / "store.h5"

    def show(self, *arguments, code=0):
        done = run([TOOL, "show", self.store, *arguments])
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_contents_and_tables(self):
        contents = {row["table"]: row["rows"] for row in json.loads(self.show("--json"))}
        self.assertEqual(contents["ranks"], 8)
        self.assertEqual(contents["collective_instances"], self.report_json["collectives"]["instances"])
        ranks = json.loads(self.show("ranks", "--json"))
        for shown, reported in zip(ranks, self.report_json["ranks"]):
            self.assertEqual({k: shown[k] for k in ("trace_rank", "wait_ns", "own_lateness_ns", "window_ns")},
                             {k: reported[k] for k in ("trace_rank", "wait_ns", "own_lateness_ns", "window_ns")})
        self.assertIn("trace_rank", self.show("ranks").splitlines()[0])

    def test_times_in_a_unit(self):
        plain = json.loads(self.show("ranks", "--json"))
        for unit, suffix, factor in (("nsec", "ns", 1), ("usec", "us", 1e3), ("msec", "ms", 1e6), ("sec", "s", 1e9)):
            for row, first in zip(json.loads(self.show("ranks", "--json", "--timeunit", unit)), plain):
                self.assertAlmostEqual(row[f"wait_{suffix}"], first["wait_ns"] / factor, places=9)
                self.assertEqual(row["trace_rank"], first["trace_rank"])
                self.assertEqual(row["arrivals"], first["arrivals"])
        header, line = self.show("ranks", "--timeunit", "msec").splitlines()[:2]
        self.assertIn("compute_ms", header.split())
        self.assertIn(f"{plain[0]['compute_ns'] / 1e6:.6f}", line.split())
        self.assertIn(str(plain[0]["compute_ns"]), self.show("ranks", "--timeunit", "nsec").splitlines()[1].split())
        self.assertIn("--timeunit", self.show("ranks", "--timeunit", "hours", code=2))

    def test_the_verdict(self):
        findings = json.loads(self.show("findings", "--json"))
        self.assertEqual([f["title"] for f in findings], [f["title"] for f in self.report_json["findings"]])
        self.assertEqual([s["trace_rank"] for s in json.loads(self.show("stragglers", "--json"))], [5])

    def test_one_rank_and_one_collective(self):
        self.assertEqual([r["trace_rank"] for r in json.loads(self.show("rank", "5", "--json"))], [5])
        text = self.show("rank", "5")
        self.assertLess(len(text.splitlines()), 160)
        self.assertIn("gpu_speed:", text)  # a row of each rank
        kernels = list(csv.DictReader(io.StringIO(self.show("rank", "5", "kernels", "--csv", "--limit", "0"))))
        self.assertEqual({row["trace_rank"] for row in kernels}, {"5"})
        self.assertIn(f"kernels ({len(kernels)})", text)
        self.assertIn("no table 'lions' of trace ranks", self.show("rank", "5", "lions", code=2))
        costliest = json.loads(self.show("collectives", "--limit", "1", "--json"))[0]
        rows = list(csv.DictReader(io.StringIO(self.show("instance", str(costliest["instance"]), "--csv"))))
        self.assertEqual(len(rows), costliest["arrivals"])
        self.assertEqual(max(int(r["enter_ns"]) for r in rows), costliest["last_enter_ns"])
        self.assertEqual({int(r["instance"]) for r in rows}, {costliest["instance"]})

    def test_damaged_stores_are_refused_whatever_the_library_does(self):
        """Sizes in the heaps of texts that cannot be true: some crash HDF5 itself."""
        whole = self.store.read_bytes()
        heaps = [at for at in range(0, len(whole) - 64, 8) if whole[at:at + 4] == b"GCOL"]
        self.assertGreater(len(heaps), 0)
        self.store = self.directory / "damaged.h5"
        for field in (8, 16, 24, 32):  # of the heap and its first object: its size, the number of the object, its size, its text
            damaged = bytearray(whole)
            for heap in heaps:
                damaged[heap + field:heap + field + 8] = b"\xff" * 7 + b"\x7f"
            self.store.write_bytes(damaged)
            for command in (["show", self.store], ["compare", self.directory / "out", self.store]):
                done = run([TOOL, *command])
                self.assertIn(done.returncode, (0, 3), done.stderr)
                if done.returncode == 3:
                    self.assertIn("run the analysis again", done.stderr.replace("name the store.h5", "run the analysis again"))

    def test_questions_that_make_no_sense(self):
        self.assertIn("no table 'lions'", self.show("lions", code=2))
        self.assertIn("no trace rank 99", self.show("rank", "99", code=2))
        self.assertIn("no number", self.show("rank", "x", code=2))
        self.assertIn("no instance 999999", self.show("instance", "999999", code=2))
        self.store = self.directory / "out" / "report.json"
        self.assertIn("name the store.h5", self.show(code=3))


if __name__ == "__main__":
    main()
