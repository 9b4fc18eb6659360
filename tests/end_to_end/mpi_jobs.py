"""Exports of a simulated MPI job without NCCL, as `nsys profile -t cuda,nvtx,mpi` records it: in each step every rank runs kernels, waits for
them, perhaps exchanges a halo with its neighbours in a ring, and calls collectives. Nobody leaves one before the last member has entered it."""

import contextlib
import pathlib
import random
import sqlite3

VM = 1 << 48
WORLD = 0x44000000  # MPI_COMM_WORLD in MPICH
UTC_NS = 1_772_366_400_000_000_000

TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, gridX, gridY, gridZ, "
                                  "blockX, blockY, blockZ",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId, returnValue",
    "NVTX_EVENTS": "start, end, eventType, globalTid, textId, domainId",
    "MPI_RANKS": "globalTid, rank",
    "MPI_COLLECTIVES_EVENTS": "start, end, globalTid, textId, commHandle, commUid, rootRank, size, recvSize, requestHandle",
    "MPI_P2P_EVENTS": "start, end, globalTid, textId, commHandle, commUid, tag, remoteRank, size, requestHandle",
    "MPI_START_WAIT_EVENTS": "start, end, globalTid, textId, requestHandle",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "TARGET_INFO_SYSTEM_ENV": "globalVid, devStateName, name, nameEnum, value",
    "TARGET_INFO_GPU": "vmId, id, name, cuDevice",
    "META_DATA_EXPORT": "name, value",
    "PROCESSES": "globalPid, pid, name",
    "StringIds": "id, value",
}


class Rank:
    def __init__(self, number, of, per_host, offset_ns, began_ns):
        self.number, self.now_ns, self.offset_ns, self.id = number, 1_000_000_000, offset_ns, 0
        self.pid = 900 + number + began_ns // 10**9
        self.tid = VM | self.pid << 24 | self.pid
        self.strings = {}
        self.rows = {table: [] for table in TABLES}
        self.rows["MPI_RANKS"].append((self.tid, number))
        self.rows["TARGET_INFO_SESSION_START_TIME"].append((UTC_NS + began_ns,))
        environment = f"OMPI_COMM_WORLD_RANK={number};OMPI_COMM_WORLD_SIZE={of};WORLD_SIZE={of};"
        for name, kind, value in (("Hostname", 619, f"node{number // per_host}"), ("DeviceEnvironment", 610, environment)):
            self.rows["TARGET_INFO_SYSTEM_ENV"].append((VM, "Local (CLI)", name, kind, value))
        self.rows["TARGET_INFO_GPU"].append((VM, 0, "NVIDIA H100 80GB HBM3", 0))
        self.rows["META_DATA_EXPORT"].append(("EXPORT_SCHEMA_VERSION", "3.25.0"))
        self.rows["PROCESSES"].append((VM | self.pid << 24, self.pid, "hydro"))

    def text(self, value):
        return self.strings.setdefault(value, len(self.strings) + 1)

    def add(self, table, start_ns, end_ns, *rest):
        self.rows[table].append((start_ns - self.offset_ns, end_ns - self.offset_ns, *rest))

    def call(self, name, end_ns):
        self.id += 1
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", self.now_ns, end_ns, self.tid, self.id, self.text(name), 0)
        self.now_ns = end_ns

    def kernels(self, durations_ns, impossible=False):
        """Launches them and waits until they are over; what is impossible: another one meanwhile, by the same thread."""
        gpu_ns = 0
        for duration_ns in durations_ns:
            self.call("cudaLaunchKernel_v7000", self.now_ns + 4_000)
            start_ns = max(gpu_ns, self.now_ns + 3_000)
            gpu_ns = start_ns + duration_ns
            name = self.text("advec_cell_kernel")
            self.add("CUPTI_ACTIVITY_KIND_KERNEL", start_ns, gpu_ns, 0, 1, 7, self.id, VM | self.pid << 24, name, name, 132, 1, 1, 256, 1, 1)
        if impossible:
            self.id += 1
            self.add("CUPTI_ACTIVITY_KIND_RUNTIME", gpu_ns - 500_000, gpu_ns - 496_000, self.tid, self.id, self.text("cudaLaunchKernel_v7000"), 0)
            self.add("CUPTI_ACTIVITY_KIND_KERNEL", gpu_ns, gpu_ns + 2_000, 0, 1, 7, self.id, VM | self.pid << 24, name, name, 1, 1, 1, 256, 1, 1)
            gpu_ns += 2_000
        self.call("cudaStreamSynchronize_v3020", gpu_ns + 6_000)

    def mpi(self, table, name, end_ns, *rest):
        self.add(table, self.now_ns, end_ns, self.tid, self.text(name), *rest)
        self.now_ns = end_ns + 1_000

    def write(self, path):
        self.rows["StringIds"] = [(number, value) for value, number in self.strings.items()]
        path.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            for table, columns in TABLES.items():
                if not self.rows[table]: continue
                database.execute(f"CREATE TABLE {table} ({columns})")
                database.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * (columns.count(',') + 1))})", self.rows[table])


def write_job(directory, ranks=4, steps=40, seed=1, late=None, by_ns=1_600_000, halo=False, requests=None, uid=None, functions=("MPI_Allreduce",), per_host=2,
              pairs=False, began_s=0, noise=None, pause_ns=0, impossible=False):
    """Kernels of 1 ms, four per step; those of rank `late` take `by_ns` longer per step in all. `uid`: nsys' id of the communicator, which old
    versions do not record. `halo`: of which `requests` have handles of their own ("Waitall", "Wait": how they are completed; "Start": as Waitall, of persistent requests), or all one; "none":
    every other rank sends to the next instead, and both stay until both are there. `pairs`: each rank then works 0.3 ms for one communicator of two, and all processes have handles of
    their own. Clocks of hosts differ by up to 0.5 ms. `began_s`: how much later than others. `pause_ns`: how
    long the host of rank `late` does nothing before its kernels. `by_ns` and `pause_ns` may be functions, called in each step. `impossible`: see
    Rank.kernels."""
    noise = noise or random.Random(seed)
    offsets_ns = [noise.randrange(-500_000, 500_000) for _ in range(ranks)]
    job = [Rank(r, ranks, per_host, offsets_ns[r // per_host], began_s * 10**9) for r in range(ranks)]
    for _ in range(steps):
        began_ns = [rank.now_ns for rank in job]
        for rank in job:
            longer_ns = in_this_step(by_ns) // 4 if rank.number == late else 0
            if rank.number == late: rank.now_ns += in_this_step(pause_ns)
            rank.kernels([1_000_000 + longer_ns + noise.randrange(5_000) for _ in range(4)], impossible)
        if halo: send_in_pairs(job, noise, uid) if requests == "none" else exchange_halo(job, noise, uid, requests)
        for function in functions: call_together(job, function, noise, (lambda rank: 1 << 32 | rank.pid) if pairs else (lambda _: WORLD), uid)
        for first in range(0, ranks if pairs else 0, 2):
            pair = job[first:first + 2]
            for rank in pair: rank.kernels([300_000])
            call_together(pair, "MPI_Allreduce", noise, lambda rank: 2 << 32 | rank.pid, uid and uid + 1 + first)
        for rank, start_ns in zip(job, began_ns):
            rank.add("NVTX_EVENTS", start_ns, rank.now_ns, 59, rank.tid, rank.text("timestep"), 0)
            rank.now_ns += 20_000
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for rank in job: rank.write(directory / f"hydro.{rank.number}.sqlite")
    return directory


def in_this_step(time_ns):
    return time_ns() if callable(time_ns) else time_ns


def call_together(members, function, noise, handle_of, uid):
    last_ns = max(rank.now_ns for rank in members)
    for rank in members:
        rank.mpi("MPI_COLLECTIVES_EVENTS", function, last_ns + 15_000 + noise.randrange(2_000), handle_of(rank), uid, None, 8, 8, None)


def send_in_pairs(job, noise, uid):
    for sender, receiver in zip(job[::2], job[1::2]):
        last_ns = max(sender.now_ns, receiver.now_ns)
        for rank, name, peer in ((sender, "MPI_Ssend", receiver), (receiver, "MPI_Recv", sender)):
            rank.mpi("MPI_P2P_EVENTS", name, last_ns + 30_000 + noise.randrange(2_000), WORLD, uid, 7, peer.number, 1 << 20, None)


def exchange_halo(job, noise, uid, requests):
    """Both neighbours of a ring; who waits for its receives waits until both have sent. nsys has a row for each request of MPI_Waitall."""
    for rank in job:
        is_made = any(row[3] == rank.text("MPI_Recv_init") for row in rank.rows["MPI_P2P_EVENTS"])
        for side, peer in enumerate((rank.number - 1, rank.number + 1)):
            for kind, name in enumerate(("MPI_Recv_init", "MPI_Send_init") if requests == "Start" else ("MPI_Irecv", "MPI_Isend")):
                handle = 1 + 2 * side + kind if requests else 1
                if not is_made: rank.mpi("MPI_P2P_EVENTS", name, rank.now_ns + 1_000, WORLD, uid, 7, peer % len(job), 1 << 20, handle)
        if requests == "Start":
            for handle in (1, 2, 3, 4): rank.add("MPI_START_WAIT_EVENTS", rank.now_ns, rank.now_ns + 4_000, rank.tid, rank.text("MPI_Startall"), handle)
            rank.now_ns += 5_000
    sent_ns = [rank.now_ns for rank in job]
    for rank in job:
        neighbours = (sent_ns[rank.number - 1], sent_ns[(rank.number + 1) % len(job)])
        if requests == "Wait":
            for handle, neighbour_ns in zip((1, 3), neighbours):
                rank.mpi("MPI_START_WAIT_EVENTS", "MPI_Wait", max(neighbour_ns, rank.now_ns) + 30_000 + noise.randrange(2_000), handle)
        end_ns = max(*neighbours, rank.now_ns) + 30_000 + noise.randrange(2_000)
        for handle in {"Waitall": (1, 2, 3, 4), "Start": (1, 2, 3, 4), "Wait": (2, 4)}.get(requests, (1,)):
            rank.add("MPI_START_WAIT_EVENTS", rank.now_ns, end_ns, rank.tid, rank.text("MPI_Waitall"), handle)
        rank.now_ns = end_ns + 1_000
