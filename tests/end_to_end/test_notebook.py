"""The Python module for results and the example for notebooks, with Debian's h5py, pandas and matplotlib."""

import html
import importlib.util
import json
import pathlib
import sys
import unittest

from support import EndToEndTest, main, run

JOBS = pathlib.Path(__file__).resolve().parents[2] / "jobs"
sys.path.insert(0, str(JOBS))


def missing(*modules):
    return [module for module in modules if importlib.util.find_spec(module) is None]


@unittest.skipIf(missing("h5py", "pandas"), "h5py or pandas is missing: the Python module was not tried")
class Results(EndToEndTest):
    JOB = ("--nodes", "2", "--steps", "6", "--seed", "4", "--fault", "slow_gpu:rank=5,factor=1.3")

    def setUp(self):
        super().setUp()
        import nsys_explain
        self.module = nsys_explain

    def opened(self, out):
        results = self.module.open(self.directory / out)
        self.addCleanup(results.close)
        return results

    def test_tables_are_those_of_the_report_with_units(self):
        report = self.analyse(self.synth("job", *self.JOB), "out")
        results = self.opened("out")
        self.assertEqual(results.verdict, report["verdict"]["text"])
        ranks = results.table("ranks")
        self.assertEqual(ranks["wait_ns"].tolist(), [rank["wait_ns"] for rank in report["ranks"]])
        self.assertEqual((ranks.attrs["units"]["wait_ns"], ranks.attrs["units"]["arrivals"]), ("ns", ""))
        self.assertEqual(ranks.attrs["meanings"]["wait_ns"], "waiting in collectives for others")
        self.assertEqual(list(ranks.columns)[:2], ["trace_rank", "window_start_ns"])
        for name in results.tables():
            self.assertEqual(list(results.table(name).columns), list(results.table(name).attrs["units"]), name)
        self.assertEqual(results.table("collective_instances")["operation"].iloc[0], "all_reduce")
        with self.assertRaisesRegex(self.module.Absent, "no table 'rank'"):
            results.table("rank")

    def test_a_notebook_shows_verdict_and_findings(self):
        report = self.analyse(self.synth("job", *self.JOB), "out")
        shown = self.opened("out")._repr_html_()
        for text in (report["verdict"]["text"], *report["verdict"]["answers"], *(f["title"] for f in report["findings"])):
            self.assertIn(html.escape(text), shown)
        path = self.directory / "out" / "report.json"
        report["verdict"]["text"] = "<script>x</script>"
        path.write_text(json.dumps(report))
        self.assertNotIn("<script>", self.opened("out")._repr_html_())

    def test_missing_integers_are_not_numbers(self):
        import h5py
        with h5py.File(self.directory / "store.h5", "w") as store:
            group = store.create_group("gaps")
            group.attrs["columns"], group.attrs["description"] = ["start_ns", "causes"], "made by hand"
            for column, values in (("start_ns", [7, -2**63]), ("causes", [1, 2])):
                group[column] = values
                group[column].attrs.update({"unit": "", "description": "", "missing_value": -2**63})
        gaps = self.opened("store.h5").table("gaps")
        self.assertEqual(gaps["start_ns"].isna().tolist(), [False, True])
        self.assertEqual(gaps["start_ns"].sum(), 7)
        self.assertEqual(str(gaps["causes"].dtype), "int64")

    def test_a_store_reads_no_other_file(self):
        import h5py
        (self.directory / "secret").write_bytes(b"top-secret")
        with h5py.File(self.directory / "other.h5", "w") as other:
            other["a"] = [1, 2]

        def external(group):
            group.create_dataset("a", (1,), "S10", external=[(str(self.directory / "secret"), 0, 10)])

        def virtual(group):
            layout = h5py.VirtualLayout((2,), "i8")
            layout[:] = h5py.VirtualSource(str(self.directory / "other.h5"), "a", (2,))
            group.create_virtual_dataset("a", layout)

        def link(group):
            group["a"] = h5py.ExternalLink(str(self.directory / "other.h5"), "a")

        for forge in (external, virtual, link):
            path = f"{forge.__name__}.h5"
            with h5py.File(self.directory / path, "w") as store:
                group = store.create_group("gaps")
                group.attrs["columns"], group.attrs["description"] = ["a"], "forged"
                forge(group)
                if not isinstance(group.get("a", getlink=True), h5py.ExternalLink):
                    group["a"].attrs.update({"unit": "", "description": ""})
            with self.assertRaisesRegex(ValueError, "'a' would be read from another file", msg=forge.__name__):
                self.opened(path).table("gaps")
        with h5py.File(self.directory / "store.h5", "w") as store:
            store["gaps"] = h5py.ExternalLink(str(self.directory / "other.h5"), "/")
        with self.assertRaisesRegex(ValueError, "'gaps' would be read from another file"):
            self.opened("store.h5").tables()

    def test_what_is_drawn_is_what_the_report_says(self):
        report = self.analyse(self.synth("job", *self.JOB), "out")
        plot = self.opened("out").plot
        late = plot.lateness_cells()
        self.assertEqual(late.shape, (8, 6))
        self.assertEqual(late.sum(axis=1).idxmax(), 5)
        lengths = plot.step_lengths()
        self.assertEqual(len(lengths), report["step_time"]["steps"])
        self.assertLess(abs(lengths.median() * 1e6 / report["step_time"]["median_ns"] - 1), 0.05)
        waits = plot.wait_matrix_cells()
        self.assertAlmostEqual(waits.to_numpy().sum(), sum(rank["wait_ns"] for rank in report["ranks"]) * 1e-6, places=3)
        self.assertEqual(waits.sum(axis=1).idxmax(), 5)

    def test_without_collectives_it_says_what_is_missing(self):
        job = self.synth("job", "--nodes", "1", "--gpus-per-node", "1", "--steps", "6")
        self.analyse(job, "one")
        plot = self.opened("one").plot
        with self.assertRaisesRegex(self.module.Absent, "nobody waited"):
            plot.wait_matrix_cells()
        self.analyse(self.synth("bare", "--nodes", "1", "--gpus-per-node", "1", "--steps", "2", "--capture", "no_nvtx"), "bare-out")
        plot = self.opened("bare-out").plot
        for draw in (plot.lateness_cells, plot.step_lengths):
            with self.assertRaises(self.module.Absent):
                draw()

    @unittest.skipIf(missing("matplotlib"), "matplotlib is missing: nothing was drawn")
    def test_a_saved_picture_holds_its_labels(self):
        import matplotlib
        matplotlib.use("Agg")
        self.analyse(self.synth("job", *self.JOB), "out")
        plot = self.opened("out").plot
        for draw in (plot.lateness, plot.step_times, plot.wait_matrix):
            figure = draw().figure
            figure.savefig(self.directory / "picture.png")
            for axes in figure.axes:
                for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
                    box = text.get_window_extent()
                    self.assertTrue(text.get_text() == "" or (box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1),
                                    f"{draw.__name__}: '{text.get_text()}' at {box}")
            matplotlib.pyplot.close(figure)

    @unittest.skipIf(missing("matplotlib"), "matplotlib is missing: nothing was drawn")
    def test_the_example_draws_every_store(self):
        report = self.analyse(self.synth("job", *self.JOB), "out")
        self.analyse(self.synth("one", "--nodes", "1", "--gpus-per-node", "1", "--steps", "2", "--capture", "no_nvtx"), "alone")
        for out, expected in (("out", "trace rank 5 waited least"), ("alone", "1 trace ranks, 0.0 ms waited in all")):
            picture = self.directory / f"{out}.png"
            done = run([sys.executable, JOBS / "skew_heatmap.py", self.directory / out, picture], check=True)
            self.assertIn(expected, done.stdout)
            self.assertEqual(picture.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            if out == "out":
                waited = sum(rank["wait_ns"] for rank in report["ranks"]) * 1e-6
                self.assertIn(f"8 trace ranks, {waited:.1f} ms waited in all", done.stdout)


if __name__ == "__main__":
    main()
