"""Which recorded operation is which true one, without asking communicators or sequences: by rank and time alone."""

import collections
import json

import h5py
import numpy


def job_time(true_ns, session, clock, report):
    """Job time that the tool gives to a true time of this session: trace time, then its own clock correction."""
    trace = true_ns - session["start_ns"]
    trace = trace + numpy.rint(trace * (session["drift_ppb"] * 1e-9)).astype(numpy.int64)
    u = session["utc_start_reported_ns"] - report["epoch_utc_ns"] + trace
    x = u - clock["offset_ns"]
    return x - numpy.floor(clock["drift_ppb"] * 1e-9 * (x - report["clock"]["pivot_ns"]) + 0.5).astype(numpy.int64)


class Score:
    """present: exported arrivals with an exported counterpart; matched: of these, those together with the largest part
    of their true instance; wrong_pairs: pairs in one found instance that belong to different true ones."""

    def __init__(self, job, out):
        truth = json.loads((job / "truth.json").read_text())
        report = json.loads((out / "report.json").read_text())
        clocks = {c["path"].rsplit("/")[-1]: c for c in report["clock"]["sessions"]}
        sessions = {rank: s for s in truth["sessions"] for rank in s["ranks"]}
        members = collections.defaultdict(list)  # rank: (true enter, true exit, true instance)
        parts = collections.Counter()  # exported members of each true instance
        self.operation = {}
        for number, instance in enumerate(truth["instances"]):
            self.operation[number] = instance["operation"]
            for rank, enter, leave, _, exported in instance["members"]:
                if exported:
                    members[rank].append((enter, leave, number))
                    parts[number] += 1
        with h5py.File(out / "store.h5") as store:
            arrivals = store["collective_arrivals"]
            found = numpy.stack([arrivals["trace_rank"][()], arrivals["enter_ns"][()], arrivals["exit_ns"][()],
                                 arrivals["instance"][()]])
        together = collections.defaultdict(collections.Counter)  # found instance: members of each true instance
        self.unknown = 0
        for rank in numpy.unique(found[0]):
            session = sessions[int(rank)]
            clock = clocks[session["file_name"] if "file_name" in session else session["file"]]
            true = numpy.array(members[int(rank)], dtype=numpy.int64)
            enters, exits = (job_time(true[:, column], session, clock, report) for column in (0, 1))
            for _, enter, leave, instance in found[:, found[0] == rank].T:
                distance = numpy.abs(enters - enter) + numpy.abs(exits - leave)
                nearest = int(numpy.argmin(distance))
                if distance[nearest] > 400:
                    self.unknown += 1
                    continue
                together[int(instance)][int(true[nearest, 2])] += 1
        self.wrong_pairs = 0
        self.wrong_of = collections.Counter()  # by each operation that takes part in them
        largest = collections.Counter()
        for counts in together.values():
            records = sum(counts.values())
            wrong = (records * (records - 1) - sum(n * (n - 1) for n in counts.values())) // 2
            self.wrong_pairs += wrong
            for operation in {self.operation[number] for number in counts} if wrong else ():
                self.wrong_of[operation] += wrong
            for number, count in counts.items():
                largest[number] = max(largest[number], count)
        self.present = sum(n for n in parts.values() if n > 1)
        self.matched = sum(largest[number] for number, n in parts.items() if n > 1 and largest[number] > 1)
        self.missed = collections.Counter()
        for number, n in parts.items():
            if n > 1:
                self.missed[self.operation[number]] += n - (largest[number] if largest[number] > 1 else 0)

    @property
    def share(self):
        return self.matched / self.present if self.present else 1.0

    def __str__(self):
        return (f"{self.matched} of {self.present} matched ({100 * self.share:.2f}%), {self.wrong_pairs} wrong pairs, "
                f"{self.unknown} unknown, missed {dict(self.missed)}")
