#!/usr/bin/env python3
"""How members of real collectives leave: measures a law of ends from recordings and writes it into ends.json.

    tests/simulation/measure_ends.py LAW RECORDING... [--write]

RECORDING: a folder of rank_R.sqlite, NCCL's payloads as JSON in it, all recorded on one machine, so that their clocks are one. No figure comes from
the analysis: a kernel belongs to the NCCL ranges before its launch, and the n-th of an operation on one communicator is that of the others, too; of sends
and receives the n-th of one direction. What ends.json holds of each class is told there.
"""

import argparse
import collections
import json
import pathlib
import re
import sqlite3
import statistics

ENDS = pathlib.Path(__file__).with_name("ends.json")
SHARES = [0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100]  # percent, of the tables
SIZES = [1 << 16, 1 << 20, 1 << 62]  # classes of bytes: below which
WARM_UP = 0.2  # the first part of a recording makes connections
FEWEST = 20  # instances of a class in a recording
APART_NS = 300_000  # a sender this far ahead of its receiver had the choice to wait
KERNELS = {"AllReduce": "all_reduce", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter", "SendRecv": "send_recv"}


def quantiles(values):
    ordered = sorted(values)
    at = [share / 100 * (len(ordered) - 1) for share in SHARES]
    return [round(ordered[int(a)] + (a - int(a)) * (ordered[min(int(a) + 1, len(ordered) - 1)] - ordered[int(a)]), 3) for a in at]


def calls_of(export):
    """(operation, algorithm, communicator, bytes, sends or None, enter, exit), in order of launches; times are UTC."""
    file = sqlite3.connect(export)
    (utc,), = file.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
    ranges = collections.defaultdict(list)
    for thread, start, name, text in file.execute(
            "SELECT globalTid, start, coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) AS name, jsonText FROM NVTX_EVENTS "
            "WHERE name LIKE 'nccl%' AND jsonText LIKE '%communicator ID%' ORDER BY start"):
        ranges[thread].append((start, name, json.loads(text)))
    taken = collections.Counter()
    for name, start, end, launched, thread in file.execute(
            "SELECT s.value, k.start, k.end, r.start, r.globalTid FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName "
            "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId WHERE s.value LIKE 'nccl%' ORDER BY r.start"):
        own = []
        while taken[thread] < len(ranges[thread]) and ranges[thread][taken[thread]][0] < launched:
            own.append(ranges[thread][taken[thread]])
            taken[thread] += 1
        own = [(of, facts) for _, of, facts in own if "Message size [bytes]" in facts]
        operation = KERNELS.get(re.sub(r"ncclDevKernel_|[_(].*", "", name))
        if not own or operation is None:
            continue
        algorithm = "tree" if "TREE" in name else "ring"
        sends = own[0][0] == "ncclSend" if operation == "send_recv" else None
        if operation == "send_recv" and len(own) > 1:
            operation, sends = "all_to_all", None
        facts = own[-1][1]
        yield operation, algorithm, facts["NCCL communicator ID"], facts["Message size [bytes]"], sends, start + utc, end + utc


def instances_of(recording):
    """{(operation, algorithm, size, members): [[(sends, enter, exit), ...]]}, a list for each communicator; members by rank."""
    sequences = collections.defaultdict(dict)
    for rank, export in enumerate(sorted(recording.glob("rank_*.sqlite"))):
        for operation, algorithm, communicator, size, sends, enter, left in calls_of(export):
            below = next(limit for limit in SIZES if size < limit)
            # Of a communicator of two, the rank that sends tells the direction.
            for direction in ([0, 1] if sends is not None else [None]):
                if direction is None or sends == (rank % 2 == direction):
                    sequences[operation, algorithm, below, communicator, direction].setdefault(rank, []).append((sends, enter, left))
    found = collections.defaultdict(list)
    for (operation, algorithm, below, _, _), ranks in sequences.items():
        counts = {len(calls) for calls in ranks.values()}
        if len(ranks) > 1 and len(counts) == 1 and min(counts) * (1 - WARM_UP) >= FEWEST:
            rows = list(zip(*(ranks[rank] for rank in sorted(ranks))))
            found[operation, algorithm, below, len(ranks)].append(rows[int(WARM_UP * len(rows)):])
    return found


def law_of_pairs(rows):
    """Of sends and receives: how much later a receiver that waited left, and whether a sender waits for its receiver."""
    pairs = [sorted(row, key=lambda member: not member[0]) for row in rows]
    later = [max(0, receiver[2] - sender[2]) / 1000 for sender, receiver in pairs if receiver[1] < sender[1]]
    ahead = [sender[2] < receiver[1] for sender, receiver in pairs if receiver[1] - sender[1] > APART_NS]
    return {"bias_us": [], "spread_us": quantiles(later), "between": [], "nobody_waits": round(statistics.fmean(ahead), 3) if ahead else 0}


def law_of_members(communicators):
    biases, spreads, between, early = [], [], [], []
    for rows in communicators:
        exits = [[(member[2] - row[0][2]) / 1000 for member in row] for row in rows]
        centred = [[one - statistics.fmean(row) for one in row] for row in exits]
        bias = [statistics.median(column) for column in zip(*centred)]
        biases += [one - statistics.fmean(bias) for one in bias]
        for row in centred:
            rest = sorted(one - own for one, own in zip(row, bias))
            spreads.append(rest[-1] - rest[0])
            if rest[-1] > rest[0]:
                between += [(one - rest[0]) / (rest[-1] - rest[0]) for one in rest[1:-1]]
        early += [min(member[2] for member in row) < max(member[1] for member in row) for row in rows]
    return {"bias_us": quantiles(biases), "spread_us": quantiles(spreads), "between": quantiles(between) if between else [],
            "nobody_waits": round(statistics.fmean(early), 3)}


def text_of(laws):
    """A class a line."""
    parts = [f' "{key}": {json.dumps(value)},' for key, value in laws.items() if key != "laws"]
    texts = []
    for name, law in laws["laws"].items():
        classes = ",\n".join("    " + json.dumps(one) for one in law["classes"])
        texts.append(f'  "{name}": {{\n   "source": {json.dumps(law["source"])},\n   "classes": [\n{classes}\n   ]\n  }}')
    return "{\n" + "\n".join(parts) + '\n "laws": {\n' + ",\n".join(texts) + "\n }\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("law")
    parser.add_argument("recordings", nargs="+", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="replace the law in ends.json")
    arguments = parser.parse_args()
    pooled = collections.defaultdict(list)
    for recording in arguments.recordings:
        for key, communicators in instances_of(recording).items():
            pooled[key] += communicators
    classes = []
    for key, communicators in sorted(pooled.items()):
        operation, algorithm, below, members = key
        rows = [row for one in communicators for row in one]
        law = law_of_pairs(rows) if operation == "send_recv" else law_of_members(communicators)
        classes.append({"operation": operation, "algorithm": algorithm, "bytes_below": below, "members": members, "instances": len(rows), **law})
        print(json.dumps(classes[-1]))
    if arguments.write:
        laws = json.loads(ENDS.read_text())
        laws["laws"][arguments.law] = {"source": "measured from " + ", ".join(one.name for one in arguments.recordings), "classes": classes}
        ENDS.write_text(text_of(laws))


if __name__ == "__main__":
    main()
