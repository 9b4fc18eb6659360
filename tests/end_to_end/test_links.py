"""Links: counters follow the collectives or do not, slow links are found where they were planted, messages add up."""

import csv
import json

from support import EndToEndTest, main, seeds

PP_ON_FOUR_NODES = ["--nodes", "4", "--gpus-per-node", "4", "--tp", "4", "--pp", "4", "--steps", "3", "--layers", "2"]
ALL_LEVELS = ["--nodes", "4", "--gpus-per-node", "4", "--tp", "2", "--pp", "2", "--dp", "4", "--steps", "4", "--layers", "2"]


def slow_links(report):
    return [finding for finding in report["findings"] if finding["id"] == "slow-link"]


class Counters(EndToEndTest):
    def metrics(self, name, seed, *options, gpus=2):
        traces = self.synth(name, "--seed", str(seed), "--nodes", "1", "--gpus-per-node", str(gpus), "--steps", "8",
                            "--layers", "4", "--metrics", "nvlink", *options)
        return self.analyse(traces, name + "-out", "--quiet")

    def test_planted_lags_are_found(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                lag_us = [0, 50, 120, 200, 300, 410, 500, 640, 700, 850][seed]
                nvlink = self.metrics(f"job{seed}", seed, "--metrics", f"lag_us={lag_us}")["nvlink"]
                self.assertTrue(nvlink["available"])
                self.assertEqual({use["gpus"] for use in nvlink["by_operation"]}, {2})
                self.assertEqual(len(nvlink["gpus"]), 4, "two GPUs, two directions")
                for use in nvlink["gpus"]:
                    self.assertLessEqual(use["p_value"], 0.01)
                    self.assertGreater(use["correlation"], 0.3)
                    self.assertLessEqual(abs(use["lag_ns"] - 1000 * lag_us), 100_000, "more than a period off")
                    self.assertGreater(use["mean_during_percent"], 5 * use["mean_outside_percent"])

    def test_unrelated_counters_are_not_called_related(self):
        judged, related = 0, 0
        for seed in seeds(10):
            report = self.metrics(f"job{seed}", 50 + seed, "--metrics", "shows=unrelated", gpus=4)
            # The two directions show the same bursts: one of them is one judgement.
            received = [use for use in report["nvlink"]["gpus"] if "receive" in use["metric"]]
            judged += len(received)
            related += sum(use["p_value"] <= 0.01 for use in received)
        self.assertEqual(judged, 4 * len(seeds(10)))
        # At 1% each, more than 3 of 40 have a probability of 0.0007.
        self.assertLessEqual(related, 3)

    def test_idle_links_that_read_full_are_left_out(self):
        for seed in seeds(3):
            report = self.metrics(f"job{seed}", seed, "--metrics", "shows=idle_artefact")
            for use in report["nvlink"]["gpus"]:
                self.assertGreater(use["artefacts"], use["samples"])
                self.assertLess(use["mean_during_percent"], 60)  # 200 of 450 GB/s, and less at the edges
                self.assertIsNone(use["mean_outside_percent"])
            self.assertIn("nvlink-idle-artefact", [finding["id"] for finding in report["findings"]])

    def test_absent_counters_are_said_to_be_absent(self):
        traces = self.synth("job", "--steps", "2")
        report = self.analyse(traces, "out")
        self.assertFalse(report["nvlink"]["available"])
        self.assertIn("NVLink counters not found", report["nvlink"]["message"])
        self.assertIn("--gpu-metrics-devices", (self.directory / "out" / "report.md").read_text())

    def test_peaks_can_be_overridden(self):
        traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "4", "--metrics", "nvlink")
        peaks = self.directory / "peaks.txt"
        peaks.write_text("# twice as many links\n900 H100\n")
        known = self.analyse(traces, "known")["nvlink"]["gpus"][0]["estimated_during_gbs"]
        own = self.analyse(traces, "own", "--link-peaks", peaks)["nvlink"]["gpus"][0]["estimated_during_gbs"]
        self.assertAlmostEqual(own, 2 * known)
        peaks.write_text("H100 900\n")
        done = self.explain(traces, "bad", "--link-peaks", peaks)
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 1 of the link peaks", done.stderr)

    def test_network_ports_follow_collectives_between_nodes(self):
        traces = self.synth("job", "--seed", "4", "--nodes", "2", "--gpus-per-node", "2", "--steps", "6", "--metrics", "nic")
        network = {use["metric"]: use for use in self.analyse(traces, "out")["network"]}
        for metric in ("IB: Bytes sent", "IB: Bytes received"):
            self.assertEqual(network[metric]["ports"], 4)
            self.assertEqual(network[metric]["correlated_ports"], 4)
            self.assertEqual(network[metric]["unit"], "bytes/ms")
            self.assertGreater(network[metric]["mean_during"], 2 * network[metric]["mean_outside"])


    def test_switch_ports_follow_collectives_between_nodes(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                nodes, gpus = [(2, 2), (3, 1), (2, 4)][seed % 3]
                traces = self.synth(f"job{seed}", "--seed", str(40 + seed), "--nodes", str(nodes), "--gpus-per-node", str(gpus),
                                    "--steps", "8", "--metrics", "switch", *(["--metrics", "nic"] if seed % 2 else []))
                network = self.analyse(traces, f"out{seed}", "--quiet")["network"]
                ports = {(use["source"], use["metric"]): use for use in network}
                sources = {"infiniband_switch", "nic"} if seed % 2 else {"infiniband_switch"}
                self.assertEqual(set(ports), {(source, f"IB: Bytes {way}") for source in sources for way in ("sent", "received")})
                for use in ports.values():
                    self.assertEqual((use["ports"], use["correlated_ports"]), (nodes * gpus, nodes * gpus))
                    self.assertEqual(use["unit"], "bytes/ms")
                    self.assertGreater(use["mean_during"], 2 * use["mean_outside"])
                if seed % 2:  # a NIC's traffic is that of its port
                    for way in ("sent", "received"):
                        for mean in ("mean_during", "mean_outside"):
                            self.assertAlmostEqual(ports["nic", f"IB: Bytes {way}"][mean],
                                                   ports["infiniband_switch", f"IB: Bytes {way}"][mean], delta=1e-6)


class SlowLinks(EndToEndTest):
    def test_slow_link_between_nodes(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                first = seed % 3
                traces = self.synth(f"job{seed}", "--seed", str(seed), *PP_ON_FOUR_NODES, "--fault",
                                    f"slow_link:node={first}+{first + 1},factor=2.5")
                found = slow_links(self.analyse(traces, f"out{seed}", "--quiet"))
                self.assertEqual(len(found), 1, found)
                self.assertIn(f"the link between hosts node{first:03} and node{first + 1:03} ", found[0]["title"])

    def test_slow_rank(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                rank = 7 * seed % 16
                traces = self.synth(f"job{seed}", "--seed", str(200 + seed), *ALL_LEVELS, "--fault",
                                    f"slow_link:rank={rank},factor=2")
                found = slow_links(self.analyse(traces, f"out{seed}", "--quiet"))
                self.assertEqual(len(found), 1, found)
                self.assertIn(f"transfers through rank {rank} (", found[0]["title"])

    def test_a_link_and_who_is_late_by_it_are_told_once_and_others_besides(self):
        for seed in seeds(10):
            # Of another lane, without a transfer in common, or of the same one, late by the slow transfers itself.
            rank, slow = seed % 8, (seed + [5, 4][seed // 2 % 2]) % 8
            which = f"ranks={rank // 2 * 2}+{rank // 2 * 2 + 1}" if seed % 3 == 0 else f"rank={rank}"
            with self.subTest(seed=seed, which=which):
                alone, both = (
                    self.analyse(self.synth(f"{name}{seed}", "--seed", str(300 + seed), "--nodes", "2", "--gpus-per-node", "4",
                                            "--tp", "2", "--steps", "20", "--layers", "2", "--fault",
                                            f"slow_link:{which},factor=2.5", *more), f"out-{name}{seed}", "--quiet")
                    for name, more in (("alone", []), ("both", ["--fault", f"slow_gpu:rank={slow},factor=1.3"])))
                costs = {"straggler", "slow-link", "unproven-straggler", "hidden-straggler", "slow-gpu", "long-waits"}
                told = [one for one in alone["findings"] if one["id"] in costs]
                self.assertEqual([one["id"] for one in told], ["slow-link"])
                delays = sum(one["delay_cost_ns"] for one in alone["stragglers"])
                self.assertGreater(delays, 0)
                self.assertGreater(told[0]["cost_ns"], delays)
                for straggler in alone["stragglers"]:
                    self.assertEqual(straggler["cause"], "slow_link")
                    self.assertTrue(any("finding slow-link" in line for line in straggler["evidence"]), straggler["evidence"])
                titles = {one["id"]: one["title"] for one in both["findings"]}
                self.assertIn("slow-link", titles)
                self.assertIn([slow], [one["trace_ranks"] for one in both["stragglers"]])
                self.assertRegex(titles["straggler"], rf"\(rank {slow}\) ")

    def test_clean_jobs_have_none(self):
        for seed in seeds(10):
            layout = [PP_ON_FOUR_NODES, ALL_LEVELS, [*ALL_LEVELS, "--moe"], [*PP_ON_FOUR_NODES, "--network", "noise=0.05"],
                      [*ALL_LEVELS, "--dp-style", "fully_sharded"]][seed % 5]
            with self.subTest(seed=seed):
                traces = self.synth(f"job{seed}", "--seed", str(100 + seed), *layout)
                self.assertEqual(slow_links(self.analyse(traces, f"out{seed}", "--quiet")), [])

    def test_exchanges_of_stages_are_not_held_against_all_to_alls_of_two(self):
        """Half of what a member of the latter sends stays with it."""
        for seed, layout in enumerate((["--nodes", "1", "--gpus-per-node", "8", "--tp", "2", "--pp", "2", "--layers", "3"],
                                       ["--nodes", "2", "--gpus-per-node", "4", "--pp", "4", "--layers", "2"])):
            with self.subTest(layout=layout):
                traces = self.synth(f"job{seed}", "--seed", str(700 + seed), *layout, "--moe", "--steps", "16",
                                    "--gradient-mib", "64", "--activation-mib", "16")
                report = self.analyse(traces, f"out{seed}", "--quiet")
                self.assertEqual(slow_links(report), [])
                self.assertEqual(report["stragglers"], [])


class Messages(EndToEndTest):
    def test_byte_matrix_is_what_stages_sent(self):
        traces = self.synth("job", "--seed", "5", *PP_ON_FOUR_NODES)
        # Three steps, twice as many micro-batches as the four stages; activations go down and gradients come back, over
        # four tensor-parallel lanes.
        bytes_each_way = 3 * 8 * (16 << 20)
        expected = {}
        for source in range(12):
            expected[source, source + 4] = expected[source + 4, source] = bytes_each_way
        self.analyse(traces, "out", "--csv")
        with open(self.directory / "out" / "tables" / "byte_matrix.csv") as file:
            rows = list(csv.DictReader(file))
        measured = {}
        for row in rows:
            self.assertEqual(row["sent_bytes"], row["received_bytes"])
            measured[int(row["source"]), int(row["destination"])] = int(row["sent_bytes"])
        self.assertEqual(measured, expected)

    def test_byte_matrix_of_all_to_alls_is_what_members_sent(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                gpus = [2, 3, 4][seed % 3]
                traces = self.synth(f"job{seed}", "--seed", str(seed), "--nodes", "1", "--gpus-per-node", str(gpus), "--layers",
                                    str(1 + seed % 2), "--steps", "3", "--moe", "--activation-mib", ["4", "16"][seed % 2])
                truth = json.loads((traces / "truth.json").read_text())
                sent = sum(one["bytes"] for one in truth["instances"] if one["operation"] == "all_to_all")
                self.assertGreater(sent, 0)
                self.analyse(traces, "out", "--csv", "--force", "--quiet")
                with open(self.directory / "out" / "tables" / "byte_matrix.csv") as file:
                    rows = {(int(row["source"]), int(row["destination"])): (int(row["sent_bytes"]), int(row["received_bytes"]))
                            for row in csv.DictReader(file)}
                self.assertEqual(rows, {(s, d): (sent, sent) for s in range(gpus) for d in range(gpus)})


if __name__ == "__main__":
    main()
