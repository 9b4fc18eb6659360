"""Writes traces as PyTorch's profiler does, from exports of Nsight Systems: read by SQL and json alone, none of our code."""

import gzip
import json
import sqlite3
import struct

FUNCTIONS = {"ncclAllReduce": "allreduce", "ncclAllGather": "_allgather_base", "ncclReduceScatter": "_reduce_scatter_base",
             "ncclBroadcast": "broadcast", "ncclReduce": "reduce"}
BASE_NS = 1_750_000_000_000_000_000
COPIES = {1: "HtoD (Pinned -> Device)", 2: "DtoH (Device -> Pinned)", 8: "DtoD (Device -> Device)"}



def microseconds(ns):
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"@{sign}{ns // 1000}.{ns % 1000:03}@"


def rows(database, sql):
    cursor = database.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor]


def event(category, name, row, pid, tid, shift, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": microseconds(row["start"] + shift),
            "dur": microseconds(row["end"] - row["start"]), "args": arguments}


def payload_of(binary):
    """Communicator, bytes and first further number of NCCL's payload: a header of four numbers comes first."""
    communicator, size = struct.unpack_from("<QQ", binary, 32)
    return communicator, size


def nccl_calls(database, strings, members):
    """What PyTorch would write of each NCCL call, and the times and the thread in which its kernel is launched."""
    for row in rows(database, "SELECT * FROM NVTX_EVENTS WHERE domainId = 1 AND eventType = 59"):
        label = strings[row["textId"]] if row["text"] is None else row["text"]
        if label not in FUNCTIONS:
            continue
        communicator, size = payload_of(row["binaryData"])
        ranks = members[communicator]
        elements = size // 4
        yield row, {"Collective name": FUNCTIONS[label], "dtype": "Float", "In msg nelems": elements,
                    "Out msg nelems": elements, "Group size": len(ranks), "Process Group Name": f"{communicator:x}",
                    "Process Group Ranks": str(ranks)}


def events_of(database, shift, members, by_operators):
    strings = dict(database.execute("SELECT id, value FROM StringIds"))
    pid = next(iter(database.execute("SELECT pid FROM TARGET_INFO_CUDA_DEVICE")))[0]
    calls = rows(database, "SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start")
    told = {}
    for call_range, arguments in nccl_calls(database, strings, members):
        for call in calls:
            if call["globalTid"] == call_range["globalTid"] and call_range["start"] <= call["start"] < call_range["end"]:
                told[call["correlationId"]] = arguments
                if by_operators:  # as PyTorch did before its kernels told collectives
                    yield event("cpu_op", "record_param_comms", call, pid, call["globalTid"] & 0xFFFFFF, shift, **arguments)
    for row in rows(database, "SELECT * FROM NVTX_EVENTS WHERE domainId = 0 AND eventType = 59"):
        name = strings[row["textId"]] if row["text"] is None else row["text"]
        if name.startswith("step "):
            name = "ProfilerStep#" + name[5:]
        yield event("user_annotation", name, row, pid, row["globalTid"] & 0xFFFFFF, shift)
    for row in calls:
        yield event("cuda_runtime", strings[row["nameId"]].rsplit("_v", 1)[0], row, pid, row["globalTid"] & 0xFFFFFF, shift,
                    cbid=211, correlation=row["correlationId"])
    for row in rows(database, "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL"):
        yield event("kernel", strings[row["demangledName"]], row, row["deviceId"], row["streamId"], shift,
                    device=row["deviceId"], context=row["contextId"], stream=row["streamId"],
                    correlation=row["correlationId"], grid=[row["gridX"], row["gridY"], row["gridZ"]],
                    block=[row["blockX"], row["blockY"], row["blockZ"]], **({} if by_operators else told.get(row["correlationId"], {})))
    place = {"context": 1}
    for row in rows(database, "SELECT * FROM CUPTI_ACTIVITY_KIND_MEMCPY"):
        yield event("gpu_memcpy", "Memcpy " + COPIES[row["copyKind"]], row, row["deviceId"], row["streamId"], shift, device=row["deviceId"], **place,
                    stream=row["streamId"], correlation=row["correlationId"], bytes=row["bytes"])
    for row in rows(database, "SELECT * FROM CUPTI_ACTIVITY_KIND_MEMSET"):
        yield event("gpu_memset", "Memset (Device)", row, row["deviceId"], row["streamId"], shift, device=row["deviceId"], **place, stream=row["streamId"],
                    correlation=row["correlationId"], bytes=row["bytes"])
    recorded = {row["eventSyncId"]: row for row in rows(database, "SELECT * FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT")}
    for row in rows(database, "SELECT * FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION WHERE syncType = 2"):
        record = recorded[row["eventSyncId"]]
        yield event("cuda_sync", "Stream Wait Event", row, row["deviceId"], row["streamId"], shift, device=row["deviceId"], **place, stream=row["streamId"],
                    correlation=row["correlationId"], cuda_sync_kind="Stream Wait Event",
                    wait_on_stream=record["streamId"], wait_on_cuda_event_record_corr_id=record["correlationId"],
                    wait_on_cuda_event_id=record["eventId"])


def members_of(exports):
    """Ranks by communicator: who calls it."""
    members = {}
    for rank, export in enumerate(exports):
        database = sqlite3.connect(f"file:{export}?mode=ro", uri=True)
        for (binary,) in database.execute("SELECT binaryData FROM NVTX_EVENTS WHERE binaryData IS NOT NULL"):
            members.setdefault(payload_of(binary)[0], set()).add(rank)
        database.close()
    return {communicator: sorted(ranks) for communicator, ranks in members.items()}


def write_traces(exports, directory, by_operators=False):
    """One packed trace for each export, in the order of ranks. `by_operators`: not NCCL's kernels tell the collectives."""
    directory.mkdir()
    members = members_of(exports)
    for rank, export in enumerate(exports):
        database = sqlite3.connect(f"file:{export}?mode=ro", uri=True)
        (utc,), = database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
        trace = {"schemaVersion": 1,
                 "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(exports)},
                 "hostname": f"node{rank // 8}",
                 "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "computeMajor": 9}],
                 "traceEvents": list(events_of(database, utc - BASE_NS, members, by_operators)),
                 "baseTimeNanoseconds": BASE_NS}
        database.close()
        text = json.dumps(trace).replace('"@', "").replace('@"', "")  # times have more digits than a float
        # The rank is in the trace, not in the name.
        (directory / f"trainer.{chr(ord('d') - rank)}.pt.trace.json.gz").write_bytes(gzip.compress(text.encode(), 1))
    return directory
