#!/usr/bin/env python3
"""Traces of PyTorch's profiler: the same job in both forms, and real traces against sums of their JSON."""

import collections
import decimal
import gzip
import json
import os
import pathlib
import re
import unittest

import h5py

import support
from kineto_traces import write_traces

KINETO = pathlib.Path(os.environ.get("NSYS_EXPLAIN_SHARED_TRACES", "/nonexistent")).parent / "kineto"


def kernel_sums(trace):
    """Nanoseconds and number of kernels by name."""
    sums = collections.defaultdict(lambda: [0, 0])
    for event in json.loads(gzip.decompress(trace.read_bytes()), parse_float=decimal.Decimal)["traceEvents"]:
        if event.get("cat") == "kernel":
            entry = sums[event["name"]]
            entry[0] += int(decimal.Decimal(event["dur"]) * 1000)
            entry[1] += 1
    return {name: tuple(entry) for name, entry in sums.items()}


class SameJob(support.EndToEndTest):
    def test_both_forms_name_the_same_culprit_cause_and_saving(self):
        exports = self.synth("exports", "--nodes", 1, "--gpus-per-node", 8, "--steps", 12, "--seed", 7,
                             "--fault", "slow_gpu:rank=2,factor=1.3")
        traces = write_traces(sorted(exports.glob("*.sqlite")), self.directory / "traces")
        expected = self.analyse(sorted(exports.glob("*.sqlite")), "of_exports")
        found = self.analyse(traces, "of_traces")  # a directory without exports
        self.assertEqual(found["verdict"]["finding"], "straggler")
        self.assertEqual([f["id"] for f in found["findings"]], [f["id"] for f in expected["findings"]])
        straggler, other = ([f for f in report["findings"] if f["id"] == "straggler"][0] for report in (expected, found))
        self.assertEqual(straggler["trace_ranks"], other["trace_ranks"])
        self.assertIn("(rank 2)", found["verdict"]["text"])
        self.assertIn("1.3 times slower than its peers", found["verdict"]["text"])
        self.assertAlmostEqual(found["verdict"]["saved_share"], expected["verdict"]["saved_share"], delta=0.01)
        self.assertEqual(found["collectives"], expected["collectives"])
        self.assertEqual([entry["status"] for entry in found["inputs"]], ["ok"] * 8)
        self.assertEqual({rank["host"] for rank in found["trace_ranks"]}, {"node0"})

    def test_operators_tell_the_collectives_of_kernels_that_do_not(self):
        exports = self.synth("exports", "--nodes", 1, "--gpus-per-node", 4, "--steps", 6, "--seed", 8)
        by_kernels = self.analyse(write_traces(sorted(exports.glob("*.sqlite")), self.directory / "kernels"), "one")
        by_operators = self.analyse(write_traces(sorted(exports.glob("*.sqlite")), self.directory / "operators", True), "two")
        self.assertGreater(by_kernels["collectives"]["instances"], 0)
        self.assertEqual(by_operators["collectives"], by_kernels["collectives"])
        self.assertEqual(by_operators["communicators"], by_kernels["communicators"])

    def test_results_do_not_depend_on_tool_ranks(self):
        exports = self.synth("exports", "--nodes", 1, "--gpus-per-node", 2, "--steps", 4)
        traces = write_traces(sorted(exports.glob("*.sqlite")), self.directory / "traces")
        self.analyse(traces, "one")
        self.analyse(traces, "two", ranks=2)
        self.assert_same_results("one", "two")

    def test_a_copy_in_another_form_is_left_out(self):
        exports = self.synth("exports", "--nodes", 1, "--gpus-per-node", 2, "--steps", 4)
        traces = write_traces(sorted(exports.glob("*.sqlite")), self.directory / "traces")
        expected = self.analyse(traces, "one")
        packed = sorted(traces.iterdir())[0]
        copy = packed.with_name("again.json")
        copy.write_bytes(gzip.decompress(packed.read_bytes()))
        report = self.analyse(traces, "two", code=4)
        self.assertEqual([entry["status"] for entry in report["inputs"]], ["ok", "failed", "ok"])
        self.assertIn(f"another copy of the profiling session in {copy}", report["inputs"][1]["message"])
        self.assertEqual((report["stragglers"], report["step_time"]), (expected["stragglers"], expected["step_time"]))

    def test_a_trace_that_breaks_off_is_read_as_far_as_it_goes(self):
        exports = self.synth("exports", "--nodes", 1, "--gpus-per-node", 2, "--steps", 4)
        traces = write_traces(sorted(exports.glob("*.sqlite")), self.directory / "traces")
        broken = sorted(traces.iterdir())[0]
        packed = broken.read_bytes()
        broken.write_bytes(packed[: len(packed) * 2 // 3])
        report = self.analyse(traces, "out")
        self.assertEqual([entry["status"] for entry in report["inputs"]], ["degraded", "ok"])
        self.assertIn("the trace breaks off after ", report["inputs"][0]["message"])

    def test_other_json_is_refused(self):
        notes = self.directory / "notes.json"
        notes.write_text('{"verdict": {"text": "none"}}')
        done = self.explain(notes, "out")
        self.assertEqual(done.returncode, 3)
        self.assertIn("holds no traceEvents", done.stderr)


@unittest.skipUnless(KINETO.is_dir(), "there are no real traces of PyTorch's profiler beside NSYS_EXPLAIN_SHARED_TRACES")
class RealTraces(support.EndToEndTest):
    def test_kernels_take_the_time_that_the_json_tells(self):
        for number, trace in enumerate(sorted(KINETO.glob("h*.json.gz"))):
            with self.subTest(trace.name):
                self.analyse(trace, f"out{number}", "--whole-run")
                with h5py.File(self.directory / f"out{number}" / "store.h5") as store:
                    names, *figures = (store["kernels"][column][()] for column in ("name", "total_ns", "count"))
                found = {name.decode(): (int(total), int(count)) for name, total, count in zip(names, *figures)}
                self.assertEqual(found, kernel_sums(trace))

    def test_calls_have_the_stacks_of_python_that_their_parents_tell(self):
        trace = KINETO / "h100_gaunernst_bert-small-uncased__1016001.json.gz"
        events = json.loads(gzip.decompress(trace.read_bytes()), parse_float=decimal.Decimal)["traceEvents"]
        functions = [event for event in events if event.get("cat") == "python_function"]
        by_id = {function["args"]["Python id"]: function for function in functions}
        expected = collections.defaultdict(lambda: [0, 0])
        for call in events:
            if call.get("cat") not in ("cuda_runtime", "cuda_driver"):
                continue
            around = [function for function in functions if function["tid"] == call["tid"]
                      and function["ts"] <= call["ts"] < function["ts"] + function["dur"]]
            function, names = max(around, key=lambda one: (one["ts"], one["args"]["Python id"])), []
            while function is not None:
                name = re.sub(" at 0x[0-9a-f]+", "", function["name"])
                names += [name] if names[-1:] != [name] else []
                function = by_id.get(function["args"]["Python parent id"])
            entry = expected[call["name"], " < ".join(names[:16])]
            entry[0] += 1
            entry[1] += int(call["dur"] * 1000)
        self.analyse(trace, "out", "--whole-run")
        with h5py.File(self.directory / "out" / "store.h5") as store:
            columns = [store["call_stacks"][column][()] for column in ("name", "stack", "count", "total_ns")]
        found = {(name.decode(), stack.decode()): [int(count), int(total)] for name, stack, count, total in zip(*columns)}
        self.assertGreater(len(found), 20)
        self.assertEqual(found, {key: expected[key] for key in found})

    def test_ranks_are_those_of_the_trace(self):
        report = self.analyse(sorted(KINETO.glob("hta_sampled_rank-*.json.gz")), "out")
        self.assertEqual([rank["trace_rank"] for rank in report["trace_ranks"]], [0, 1])
        self.assertEqual({rank["rank_source"] for rank in report["trace_ranks"]}, {"environment"})

    def test_traces_of_amd_are_refused(self):
        for trace in KINETO.glob("sglang_*.json.gz"):
            done = self.explain(trace, "out")
            self.assertEqual(done.returncode, 3)
            self.assertIn("was recorded on an AMD GPU", done.stderr)


if __name__ == "__main__":
    support.main()
