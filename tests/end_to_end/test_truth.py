"""Matching, clocks and waits against the truth of simulated jobs: many seeds, and what must hold for each."""

import json

import h5py
import numpy

from support import EndToEndTest, main, seeds


def load(directory):
    """Truth and result of one job as dictionaries (communicator, sequence) -> {trace rank: (enter, exit, wait)}."""
    truth = json.loads((directory / "job" / "truth.json").read_text())
    names = ["0x" + c["hash"].zfill(16) for c in truth["communicators"]]
    true = {(names[i["communicator"]], i["sequence"]): {m[0]: (m[1], m[2], m[3]) for m in i["members"]}
            for i in truth["instances"]}
    found = {}
    with h5py.File(directory / "out" / "store.h5") as store:
        instances, arrivals = store["collective_instances"], store["collective_arrivals"]
        key = {}
        for number, communicator, sequence, last, resolved, uncertainty in zip(
                instances["instance"][()], instances["communicator"].asstr()[()], instances["sequence"][()],
                instances["last_trace_rank"][()], instances["resolved"][()], instances["skew_uncertainty_ns"][()]):
            key[number] = (communicator, int(sequence))
            found[key[number]] = {"last": last, "resolved": resolved, "uncertainty": uncertainty, "members": {}}
        for number, rank, enter, leave, wait in zip(arrivals["instance"][()], arrivals["trace_rank"][()],
                                                    arrivals["enter_ns"][()], arrivals["exit_ns"][()],
                                                    arrivals["wait_ns"][()]):
            found[key[number]]["members"][int(rank)] = (enter, leave, wait)
    return truth, true, found


class Truth(EndToEndTest):
    def compare(self, *options):
        self.synth("job", *options, "--force")
        report = self.analyse(self.directory / "job", "out", "--force")
        truth, true, found = load(self.directory)
        self.assertEqual(found.keys(), true.keys(), "an instance is missing or invented")
        waits, skews, bounds, resolved = [], [], [], 0
        for key, instance in found.items():
            members, truly = instance["members"], true[key]
            self.assertEqual(members.keys(), truly.keys(), f"members of {key}")
            self.assertGreaterEqual(instance["uncertainty"], 0, "all clocks of these jobs are related")
            latest = max(truly, key=lambda rank: truly[rank][0])
            for rank, (enter, _, wait) in members.items():
                # Waits are differences of enters, quantised to the tick of the GPU's clock, and end at the own exit.
                waits.append(abs(int(wait) - truly[rank][2]))
                skew = int(members[latest][0]) - int(enter)
                skews.append(abs(skew - (truly[latest][0] - truly[rank][0])))
                bounds.append(3 * instance["uncertainty"] + 64)
            if instance["resolved"]:
                resolved += 1
                self.assertEqual(instance["last"], latest, f"last arriver of {key}")
        self.assertGreater(resolved, len(found) / 4, "a clock that resolves nothing would pass every other check")
        for errors in (waits, skews):
            self.assertGreater(numpy.mean(numpy.array(errors) <= numpy.array(bounds)), 0.95)
        return report

    def test_data_parallel_with_large_offsets_and_drifts(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                self.compare("--seed", str(seed), "--steps", "12", "--clocks", "drift_ppm=50,utc_offset_ms=20")

    def test_fully_sharded(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                self.compare("--seed", str(seed), "--steps", "5", "--dp-style", "fully_sharded", "--clocks", "drift_ppm=50")

    def test_tensor_and_pipeline_groups(self):
        for seed in seeds(10):
            with self.subTest(seed=seed):
                self.compare("--seed", str(seed), "--steps", "4", "--nodes", "2", "--gpus-per-node", "4", "--tp", "2",
                             "--pp", "2", "--clocks", "drift_ppm=20")

    def test_restart_and_one_file_per_node(self):
        self.compare("--seed", "1", "--steps", "10", "--restart-at", "5", "--export", "files=per_node,shuffled")

    def test_sequence_of_a_job_with_one_stream_for_everything(self):
        self.compare("--seed", "2", "--steps", "8", "--nccl-on-compute-stream", "--moe")


class WithoutPayload(EndToEndTest):
    def test_groups_on_streams_of_their_own_are_found_and_judged(self):
        traces = self.synth("job", "--export", "payload=none", "--tp", "2", "--pp", "2", "--steps", "10", "--fault",
                            "slow_gpu:rank=3,factor=1.2")
        report = self.analyse(traces, "out")
        self.assertEqual({straggler["trace_rank"] for straggler in report["stragglers"]}, {3})

    def test_groups_that_share_a_stream_make_nobody_guilty(self):
        traces = self.synth("job", "--export", "payload=none", "--tp", "2", "--pp", "2", "--steps", "6", "--shared-nccl-stream",
                            "--fault", "slow_gpu:rank=3,factor=1.2")
        self.explain(traces, "out")
        report = self.report("out")
        for straggler in report["stragglers"]:
            self.assertEqual(straggler["trace_rank"], 3, "an innocent rank is named")
        with h5py.File(self.directory / "out" / "store.h5") as store:
            instances = store["collective_instances"]
            self.assertFalse(numpy.any((instances["feasible"][()] == 0) & (instances["resolved"][()] == 1)))


if __name__ == "__main__":
    main()
