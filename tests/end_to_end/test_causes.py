"""The cause of a planted fault is named, with evidence that can be looked up: over ten seeds per kind of fault."""

import h5py

from support import EndToEndTest, main

SEEDS = range(10)
FAULTS = {
    "slow_gpu:rank={rank},factor=1.2": ("slow_kernel", None),
    "extra_work:rank={rank},factor=1.3": ("extra_work", None),
    "extra_work:rank={rank},factor=1.3,mode=more": ("extra_work", None),
    "late_host:rank={rank},pause=2ms": ("launch_starved", "unseen"),
    "late_host:rank={rank},pause=2ms,kind=gc": ("launch_starved", "named_range"),
    "late_host:rank={rank},pause=2ms,kind=file_read": ("launch_starved", "file_access"),
    "late_host:rank={rank},pause=2ms,kind=module_load": ("launch_starved", "module_load"),
    "late_host:rank={rank},pause=2ms,kind=descheduled": ("launch_starved", "descheduled"),
    "sync_stall:rank={rank},pause=2ms": ("sync_stall", None),
    "blocking_copy:rank={rank},bytes=24MB": ("blocking_copy", None),
    "allocation:rank={rank},pause=2ms": ("allocation", None),
    "profiler_overhead:rank={rank},pause=2ms": ("profiler_overhead", None),
}


class Causes(EndToEndTest):
    def verdicts(self, fault, part, options):
        """How often the planted rank comes first, and with which causes."""
        causes = []
        for seed in SEEDS:
            rank = (3 * seed + 1) % 4
            traces = self.synth(f"job{seed}", "--seed", str(seed), "--steps", "10", "--nodes", "1", "--layers", "4", "--force",
                                "--truth", "none", "--fault", fault.format(rank=rank), *options)
            stragglers = self.analyse(traces, "out", "--force")["stragglers"]
            self.assertTrue(stragglers, f"seed {seed}: nobody was named")
            self.assertEqual(stragglers[0]["trace_rank"], rank, f"seed {seed}")
            causes.append(stragglers[0]["cause"])
            if part is not None:
                with h5py.File(self.directory / "out" / "store.h5") as store:
                    parts = list(store["straggler_cases/part"].asstr()[()])
                self.assertIn(part, parts, f"seed {seed}")
        return causes

    def check(self, fault, *options):
        cause, part = FAULTS[fault]
        causes = self.verdicts(fault, part, options)
        self.assertGreaterEqual(causes.count(cause), 0.95 * len(causes), causes)


def add_tests():
    for number, fault in enumerate(FAULTS):
        name = f"test_{number:02}_" + fault.replace(":rank={rank}", "").replace(",", "_").replace("=", "_").replace(".", "_")
        setattr(Causes, name, lambda self, fault=fault: self.check(fault))


add_tests()

if __name__ == "__main__":
    main()
