"""Figures that other tools printed for real exports: `nsys stats` for fuser/report2 and Pipit's two lists of events for
cloverleaf. Skipped, loudly, where ../shared/traces is absent."""

import csv
import re
import statistics
import unittest

import h5py

from support import SHARED_TRACES, EndToEndTest, main

VERSION = re.compile(r"_v\d{4}$")  # what nsys takes off the names of calls


def parse_stats(text):
    """The tables of an output of nsys stats: name of the report -> list of rows by column title."""
    reports = {}
    rows = None
    for line in text.splitlines():
        if title := re.match(r"\[\d+/\d+\] Executing '(\w+)' stats report", line):
            rows = reports.setdefault(title[1], [])
            header, spans = None, None
        elif rows is not None and re.fullmatch(r"[ -]*-[ -]*", line):
            spans = [match.span() for match in re.finditer(r"-+", line)]
            titles = [header[begin:end].strip() for begin, end in spans]
        elif rows is not None and line.strip():
            if spans:
                rows.append({t: line[b:None if t == titles[-1] else e].strip() for t, (b, e) in zip(titles, spans)})
            else:
                header = line
    return reports


@unittest.skipUnless(SHARED_TRACES.is_dir(), "the real traces (../shared/traces) are absent")
class NsysStats(EndToEndTest):
    def table(self, name, out="out"):
        """A table of the store as a list of rows."""
        with h5py.File(self.directory / out / "store.h5") as store:
            group = store[name]
            columns = {c: group[c].asstr()[()] if h5py.check_string_dtype(group[c].dtype) else group[c][()]
                       for c in group}
        return [dict(zip(columns, values)) for values in zip(*columns.values())]

    def compare(self, printed, table, name, name_column="Name", total="Total Time (ns)", count="Instances"):
        """Every row that nsys printed, in its order, with the figures as it rounds them."""
        rows = self.table(table)
        self.assertEqual(len(rows), len(printed))
        by_name = {}
        for row in rows:
            by_name.setdefault(row[name], []).append(row)
        for line in printed:
            shown = line[name_column]
            # Long names are cut: of equal beginnings the one with the same total and extremes must be there.
            beginning = shown[:-1] if shown.endswith("…") else None
            candidates = [r for n, group in by_name.items() for r in group
                          if (n.startswith(beginning) if beginning else n == shown)]
            figures = {"total_ns": line[total], "count": line[count], "min_ns": line["Min (ns)"],
                       "max_ns": line["Max (ns)"], "mean_ns": line["Avg (ns)"], "median_ns": line["Med (ns)"],
                       "stddev_ns": line["StdDev (ns)"], "share_percent": line["Time (%)"]}
            same = [r for r in candidates
                    if all((f"{r[key]:.1f}" if "." in value else str(r[key])) == value
                           for key, value in figures.items())]
            self.assertTrue(same, f"{table}: {line} not in {candidates}")

    def test_every_figure_of_fuser(self):
        printed = parse_stats((SHARED_TRACES / "fuser" / "report2.nsys-stats.txt").read_text())
        self.analyse(SHARED_TRACES / "fuser" / "report2.sqlite", "out", "--whole-run")
        self.assertEqual(len(printed["cuda_api_sum"]), 25)
        self.compare(printed["cuda_api_sum"], "cuda_api", "name", count="Num Calls")
        self.assertEqual(len(printed["cuda_gpu_kern_sum"]), 15)
        self.compare(printed["cuda_gpu_kern_sum"], "kernels", "name")
        self.assertEqual(len(printed["cuda_gpu_mem_time_sum"]), 2)
        self.compare(printed["cuda_gpu_mem_time_sum"], "memory_time", "operation", "Operation", count="Count")
        # cuda_api_gpu_sum has the rows of the three, and shares of them all.
        rows = self.table("cuda_api_gpu")
        parts = ("cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum")
        totals = sorted((int(line["Total Time (ns)"]) for part in parts for line in printed[part]), reverse=True)
        self.assertEqual([row["total_ns"] for row in rows], totals)
        for row in rows:
            self.assertAlmostEqual(row["share_percent"], 100 * row["total_ns"] / sum(totals), places=6)
        sizes = {row["operation"]: row for row in self.table("memory_size")}
        self.assertEqual(len(printed["cuda_gpu_mem_size_sum"]), len(sizes))
        for line in printed["cuda_gpu_mem_size_sum"]:
            row = sizes[line["Operation"]]
            self.assertEqual(str(row["count"]), line["Count"])
            for key, title in (("total", "Total"), ("mean", "Avg"), ("median", "Med"), ("min", "Min"), ("max", "Max"),
                               ("stddev", "StdDev")):
                self.assertEqual(f"{row[key + '_bytes'] / 1e6:.3f}", line[f"{title} (MB)"])

    def pairs(self, file):
        """(name, duration) of every event of a list of enters and leaves."""
        with open(SHARED_TRACES / "pipit" / file, newline="", encoding="utf-8") as stream:
            return [(row, int(row["_matching_timestamp"]) - int(row["Timestamp (ns)"]))
                    for row in csv.DictReader(stream) if row["Event Type"] == "Enter"]

    def expect_statistics(self, samples, rows, name):
        self.assertEqual(set(samples), {row[name] for row in rows})
        for row in rows:
            values = samples[row[name]]
            self.assertEqual(row["count"], len(values))
            self.assertEqual(row["total_ns"], sum(values))
            self.assertEqual((row["min_ns"], row["max_ns"]), (min(values), max(values)))
            self.assertAlmostEqual(row["median_ns"], statistics.median(values), places=6)
            deviation = statistics.stdev(values) if len(values) > 1 else 0.0
            self.assertAlmostEqual(row["stddev_ns"], deviation, delta=1e-6 * max(1.0, deviation))

    def compare_events_of_cloverleaf(self):
        """Table gpu_trace, row by row: Pipit's list begins at another time, and has base names."""
        rows, listed = self.table("gpu_trace"), self.pairs("cloverleaf_gpu_trace.csv")
        self.assertEqual(len(rows), 1591)
        listed.sort(key=lambda pair: (int(pair[0]["Timestamp (ns)"]), pair[1]))
        start = int(listed[0][0]["Timestamp (ns)"])
        for row, (line, duration) in zip(rows, listed):
            self.assertEqual((row["start_ns"] - rows[0]["start_ns"], row["duration_ns"], row["stream"]),
                             (int(line["Timestamp (ns)"]) - start, duration, int(line["streamId"])))
            if line["type"] == "kernel":
                self.assertEqual((row["kind"], row["bytes"]), ("kernel", -1))
                self.assertIn(line["Name"], row["name"])
            else:
                self.assertEqual((row["kind"], row["bytes"]), ("copy", int(float(line["bytes"]))))
            self.assertGreater(row["latency_ns"], 0)

    def test_every_event_of_cloverleaf(self):
        self.analyse(SHARED_TRACES / "pipit" / "perlmutter-cloverleaf-cuda.sqlite", "out", "--gpu-trace", "--whole-run")
        self.compare_events_of_cloverleaf()
        calls = {}
        for row, duration in self.pairs("cloverleaf-cuda_api_trace.csv"):
            calls.setdefault(VERSION.sub("", row["Name"]), []).append(duration)
        self.assertEqual(sum(map(len, calls.values())), 3048)
        self.expect_statistics(calls, self.table("cuda_api"), "name")

        kernels, copies, sizes = {}, {}, {}
        for row, duration in self.pairs("cloverleaf_gpu_trace.csv"):
            if row["type"] == "kernel":
                kernels.setdefault(row["Name"], []).append(duration)
            else:
                copies.setdefault(row["type"], []).append(duration)
                sizes.setdefault(row["type"], []).append(int(float(row["bytes"])))
        self.assertEqual(sum(map(len, kernels.values())) + sum(map(len, copies.values())), 1591)
        self.expect_statistics(kernels, self.table("kernels_by_base_name"), "name")
        labels = {"CUDA_MEMCPY_KIND_HTOD": "[CUDA memcpy Host-to-Device]",
                  "CUDA_MEMCPY_KIND_DTOH": "[CUDA memcpy Device-to-Host]"}
        self.expect_statistics({labels[kind]: values for kind, values in copies.items()}, self.table("memory_time"),
                               "operation")
        for row in self.table("memory_size"):
            (kind,) = [kind for kind, label in labels.items() if label == row["operation"]]
            self.assertEqual((row["total_bytes"], row["max_bytes"]), (sum(sizes[kind]), max(sizes[kind])))


if __name__ == "__main__":
    main()
