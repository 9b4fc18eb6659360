"""Where a step's time goes, what each of its collectives costs, and how much longer they could take."""

import collections
import contextlib
import csv
import sqlite3

from support import EndToEndTest, main

PARTS = ("compute_ns", "transfer_ns", "arrival_skew_ns", "inconclusive_ns", "launch_paced_ns", "copy_ns", "opaque_graph_ns", "idle_ns")


class StepBudget(EndToEndTest):
    def rows(self, out, table):
        with open(self.directory / out / "tables" / f"{table}.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_parts_of_a_step_add_up_to_the_nanosecond(self):
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--tp", 2, "--layers", 3, "--steps", 8, "--fault",
                         "slow_gpu:rank=2,factor=1.4")
        report = self.analyse(job, "out", "--csv")
        budget = {int(row["trace_rank"]): row for row in self.rows("out", "step_budget")}
        self.assertEqual(set(budget), {0, 1, 2, 3})
        for rank in report["ranks"]:
            row = budget[rank["trace_rank"]]
            self.assertEqual(sum(int(row[part]) for part in PARTS), int(row["window_ns"]))
            self.assertEqual(int(row["window_ns"]), rank["window_ns"])
            self.assertEqual(int(row["steps"]), 8)
            exposed = sum(int(row[part]) for part in ("transfer_ns", "arrival_skew_ns", "inconclusive_ns"))
            self.assertLessEqual(exposed, rank["exposed_communication_ns"])
        # Everybody waits for the slow one, and it for nobody.
        self.assertLess(20 * int(budget[2]["arrival_skew_ns"]), min(int(budget[rank]["arrival_skew_ns"]) for rank in (0, 1, 3)))
        self.assertIn("## A step", (self.directory / "out" / "report.md").read_text())

    def test_the_nth_collective_of_a_step(self):
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--tp", 2, "--layers", 3, "--steps", 8)
        self.analyse(job, "out", "--csv")
        self.analyse(job, "three", "--csv", ranks=3)
        places = [row for row in self.rows("out", "collectives_in_step") if row["operation"] == "all_reduce"]
        self.assertEqual([int(row["place"]) for row in places], list(range(int(places[0]["in_step"]))))
        # By hand: four of each layer's tensor group, and what the data group does.
        self.assertGreaterEqual(len(places), 4 * 3)
        self.assertEqual({int(row["arrivals"]) for row in places}, {4 * 8})
        instances = {row["instance"]: row for row in self.rows("out", "collective_instances")}
        sums = collections.Counter()
        for row in self.rows("out", "collective_arrivals"):
            if instances[row["instance"]]["operation"] != "all_reduce":
                continue
            sums["duration_ns"] += int(row["exit_ns"]) - int(row["enter_ns"])
            sums["skew_ns"] += int(row["wait_ns"])
        # Times of a path are those of the session's clock, drift and all.
        for name in sums:
            self.assertAlmostEqual(sum(int(row[name]) for row in places) / sums[name], 1, delta=1e-3)
        for table in ("collectives_in_step", "step_budget", "slack", "exchange_balances"):
            self.assertEqual(self.rows("out", table), self.rows("three", table), table)

    def test_what_compute_waits_for_has_no_slack(self):
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--tp", 2, "--layers", 4, "--steps", 8)
        self.analyse(job, "out", "--csv")
        rows = [row for row in self.rows("out", "slack") if row["operation"] == "all_reduce" and int(row["instances"]) > 8]
        by_size = collections.defaultdict(list)
        for row in rows:
            by_size[int(row["from_bytes"])].append(row)
        tensor, data = (by_size[size] for size in sorted(by_size)[-2:])
        for row in tensor:  # compute waits for each
            self.assertEqual(row["without_slack"], row["instances"])
        for row in data:  # gradients of a layer are summed beside the backward pass of those before; of the first layer, after it
            self.assertEqual(int(row["without_slack"]), int(row["instances"]) / 4)
            self.assertGreater(int(row["slack_p50_ns"]), 10 * int(row["transfer_p50_ns"]))

    def test_custom_all_reduces_of_a_server_are_told_by_layer(self):
        # As vLLM's custom all-reduce: kernels of that name, without NCCL's calls.
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--tp", 4, "--layers", 4, "--steps", 16, "--fault",
                         "slow_gpu:rank=2,factor=1.2")
        for path in job.glob("*.sqlite"):
            with contextlib.closing(sqlite3.connect(path)) as database, database:
                database.execute("UPDATE StringIds SET value = 'cross_device_reduce_1stage' WHERE value LIKE 'ncclDevKernel_AllReduce%'")
                database.execute("DELETE FROM NVTX_EVENTS WHERE textId IN (SELECT id FROM StringIds WHERE value LIKE 'nccl%')"
                                 " OR text LIKE 'nccl%'")
        report = self.analyse(job, "out", "--csv")
        self.assertEqual([late["trace_rank"] for late in report["stragglers"]], [2])
        places = [row for row in self.rows("out", "collectives_in_step") if row["operation"] == "all_reduce"]
        # Four of each of four layers, two of them forward and two backward, and one of the loss.
        self.assertEqual(len(places), 4 * 4 + 1)
        self.assertEqual({(row["arrivals"], row["inconclusive"]) for row in places}, {(str(4 * 16), "0")})
        budget = {int(row["trace_rank"]): row for row in self.rows("out", "step_budget")}
        for row in budget.values():
            self.assertEqual(sum(int(row[part]) for part in PARTS), int(row["window_ns"]))
        # Compute waits for each: what the kernels take is skew and transfer, and nobody waits for the slow one but the others.
        for name in ("skew_ns", "transfer_ns"):
            of_places = sum(int(row[name]) for row in places)
            of_ranks = sum(int(row["arrival_skew_ns" if name == "skew_ns" else name]) for row in budget.values())
            self.assertAlmostEqual(of_places / of_ranks, 1, delta=0.05)  # broadcasts besides
        self.assertLess(20 * int(budget[2]["arrival_skew_ns"]), int(budget[0]["arrival_skew_ns"]))

    def test_exchanges_of_experts_are_even(self):
        job = self.synth("job", "--nodes", 1, "--gpus-per-node", 4, "--moe", "--layers", 2, "--steps", 6)
        self.analyse(job, "out", "--csv")
        (row,) = self.rows("out", "exchange_balances")
        self.assertEqual(row["members"], "4")
        self.assertEqual(float(row["sent_imbalance"]), 1)
        self.assertEqual(float(row["received_imbalance"]), 1)
        sent = collections.Counter()
        for message in self.rows("out", "messages"):
            if message["direction"] == "send":
                sent[message["trace_rank"]] += int(message["bytes"])
        self.assertEqual(set(sent.values()), {int(row["most_bytes"])})


if __name__ == "__main__":
    main()
