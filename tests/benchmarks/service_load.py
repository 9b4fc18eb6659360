#!/usr/bin/env python3
"""Many clients at once at a service, on the loopback interface: no test, but a load to look at.

    tests/benchmarks/service_load.py REPORTS --tool build/release/nsys-explain-mpi --clients 200 --seconds 60

Starts the service on the directory REPORTS. Every client keeps its connection and asks for one answer after the other.
Prints how many answers came, how many were wrong, and how long they took.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

PATHS = ("/api/v1/reports", "/api/v1/reports/{name}/verdict", "/api/v1/reports/{name}/findings", "/api/v1/reports/{name}/what_if",
         "/api/v1/reports/{name}/tables", "/api/v1/reports/{name}/tables/ranks?order=-wait_ns&limit=20",
         "/api/v1/reports/{name}/tables/collective_arrivals?where=trace_rank={rank}&order=-wait_ns&limit=20", "/", "/reports/{name}")


class Load:
    def __init__(self, port, reports, until):
        self.port, self.reports, self.until = port, reports, until
        self.times, self.errors, self.bytes = [], [], 0

    async def client(self, number):
        reader = writer = None
        asked = number
        while time.perf_counter() < self.until:
            report = self.reports[asked % len(self.reports)]
            path = PATHS[asked % len(PATHS)].format(name=urllib.parse.quote(report["name"], safe=""), rank=asked % report["trace_ranks"])
            asked += 1
            start = time.perf_counter()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head).group(1)))
                if not head.startswith(b"HTTP/1.1 200"):
                    self.errors.append(head.split(b"\r\n")[0].decode() + " " + path)
                self.times.append(time.perf_counter() - start)
                self.bytes += len(body)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.errors.append(f"{error!r} {path}")
                writer = None
        if writer:
            writer.close()

    async def run(self, clients):
        await asyncio.gather(*(self.client(number) for number in range(clients)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports")
    parser.add_argument("--tool", required=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    service = subprocess.Popen([options.tool, "serve", options.reports, "--listen", "127.0.0.1:0", "--read-only"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r"127\.0\.0\.1:(\d+)", service.stdout.readline()).group(1))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/reports") as answer:
            reports = json.load(answer)["reports"]
        load = Load(port, reports, time.perf_counter() + options.seconds)
        asyncio.run(load.run(options.clients))
    finally:
        service.terminate()
        service.wait()
    times = sorted(load.times)
    shares = ", ".join(f"{100 * share:g}% within {1e3 * times[int(share * (len(times) - 1))]:.1f} ms" for share in (0.5, 0.9, 0.99, 1))
    print(f"{options.clients} clients, {options.seconds:g} s, {len(reports)} reports: {len(times)} answers, {len(load.errors)} errors, {load.bytes / 1e6:.0f} MB; {shares}")
    for error in load.errors[:10]:
        print(error)
    sys.exit(1 if load.errors or not times else 0)


if __name__ == "__main__":
    main()
