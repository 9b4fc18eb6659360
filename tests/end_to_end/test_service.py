"""`nsys-explain-mpi serve`: what it answers is what the report holds, whoever asks and however."""

import base64
import http.client
import json
import math
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import h5py

from support import EndToEndTest, SYNTH, TOOL, main, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "jobs"))
import nsys_explain  # noqa: E402

TOKEN = "0123456789abcdef0123456789abcdef"
PATIENCE_S = 60  # far above what anything here takes


class Running:
    """A service that runs, and a way to ask it."""

    def __init__(self, root, *options):
        self.process = subprocess.Popen([TOOL, "serve", str(root), "--listen", "127.0.0.1:0", *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read())
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)", line).group(1))
        self.headers = {}

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request(method, path, body, {**self.headers, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text, answer

    def get(self, path, status=200):
        found, text, _ = self.ask("GET", path)
        if found != status:
            raise AssertionError(f"{path}: {found} instead of {status}: {text[:500]}")
        return json.loads(text)

    def api(self, path, status=200):
        return self.get("/api/v1/" + path, status)

    def post_json(self, path, wish, headers=None):
        status, text, _ = self.ask("POST", path, json.dumps(wish), {"Content-Type": "application/json", **(headers or {})})
        return status, json.loads(text) if text else None

    def upload(self, name, files, boundary="cut-here"):
        parts = [b'--%s\r\nContent-Disposition: form-data; name="name"\r\n\r\n%s\r\n' % (boundary.encode(), name.encode())]
        for file, content in files:
            parts.append(b'--%s\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s\r\n'
                         % (boundary.encode(), file.encode(), content))
        body = b"".join(parts) + b"--%s--\r\n" % boundary.encode()
        status, text, _ = self.ask("POST", "/api/v1/analyses", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
        return status, json.loads(text)

    def compare_sent(self, files, path="/api/v1/compare"):
        """`files`: field, name, content."""
        body = b"".join(b'--b\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n' % (field.encode(), name.encode(), content)
                        for field, name, content in files) + b"--b--\r\n"
        return self.ask("POST", path, body, {"Content-Type": "multipart/form-data; boundary=b"})[:2]

    def raw(self, request, finish=True):
        """What comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
            try:
                connection.sendall(request)
                if finish:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it was refused before its end
            answer = b""
            try:
                while part := connection.recv(65536):
                    answer += part
            except ConnectionError:
                pass
            return answer

    def wait(self, analysis, *states):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            status = self.api(f"analyses/{analysis}")
            if status["state"] in states:
                return status
        raise AssertionError(f"it stays {status}")

    def rpc(self, method, params=None, number=1):
        status, reply = self.post_json("/mcp", {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        assert status == 200, (status, reply)
        return reply

    def tool(self, name, **arguments):
        result = self.rpc("tools/call", {"name": name, "arguments": arguments})["result"]
        return result["content"][0]["text"], result["isError"]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.returncode


class ServiceTest(EndToEndTest):
    """Two reports, made once for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.made = pathlib.Path(run(["mktemp", "-d"], check=True).stdout.strip())
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        for name, factor in (("before", "1.1"), ("after", "1.3")):
            run([SYNTH, "--out", cls.made / f"job-{name}", "--nodes", "2", "--steps", "8", "--fault", f"slow_gpu:rank=5,factor={factor}",
                 "--seed", "4"], check=True)
            run([TOOL, cls.made / f"job-{name}", "--out", cls.made / "reports" / name], check=True)

    def setUp(self):
        super().setUp()
        self.root = self.directory / "reports"
        shutil.copytree(self.made / "reports", self.root)
        self.exports = sorted((self.made / "job-after").glob("*.sqlite"))

    def serve(self, *options, root=None):
        service = Running(root or self.root, *options)
        self.addCleanup(service.stop)
        return service

    def report_json(self, name="after"):
        return json.loads((self.root / name / "report.json").read_text())

    def store(self, name="after"):
        file = h5py.File(self.root / name / "store.h5")
        self.addCleanup(file.close)
        return file


def cell(store, table, row, column):
    value = store[table][column][row]
    return value.decode() if isinstance(value, bytes) else value.item()


class Answers(ServiceTest):
    def test_every_endpoint_gives_the_figures_of_the_report(self):
        service, report = self.serve(), self.report_json()
        listed = {entry["name"]: entry for entry in service.api("reports")["reports"]}
        self.assertEqual(sorted(listed), ["after", "before"])
        self.assertEqual(listed["after"], service.api("reports/after"))
        self.assertEqual(listed["after"], {"name": "after", "job": "after", "step_ns": report["step_time"]["median_ns"], "verdict": report["verdict"]["text"], "severity": "high",
                                           "saved_share": report["verdict"]["saved_share"], "trace_ranks": 8, "complete": True,
                                           "date_utc": report["run"]["date_utc"]})
        verdict = service.api("reports/after/verdict")
        self.assertEqual((verdict["verdict"], verdict["step_time"]), (report["verdict"], report["step_time"]))
        for part in ("findings", "what_if", "stragglers"):
            answered = (verdict if part == "stragglers" else service.api(f"reports/after/{part}"))[part]
            self.assertEqual([{k: v for k, v in item.items() if k != "row"} for item in answered], report[part])
            self.assertEqual([item["row"] for item in answered], [f"{part}[{i}]" for i in range(len(report[part]))])
        self.assertEqual(service.api("reports/after/capture_advice")["capture_advice"], report["capture_advice"])
        store = self.store()
        for row, finding in enumerate(report["findings"]):
            self.assertEqual(cell(store, "findings", row, "title"), finding["title"])
        for row, scenario in enumerate(report["what_if"]):
            self.assertEqual(cell(store, "what_if", row, "saved_share"), scenario["saved_share"])
        tables = {table["table"]: table["rows"] for table in service.api("reports/after/tables")["tables"]}
        self.assertEqual(tables["ranks"], 8)
        self.assertEqual(set(tables), {name for name, group in store.items() if "columns" in group.attrs})

    def test_every_table_is_the_one_of_the_store(self):
        service, store = self.serve(), self.store()
        for name in [name for name, group in store.items() if "columns" in group.attrs]:
            with self.subTest(name):
                answer = service.api(f"reports/after/tables/{name}?limit=50000")
                columns = list(store[name].attrs["columns"])
                self.assertEqual([column["name"] for column in answer["columns"]], columns)
                rows = len(store[name][columns[0]])
                self.assertEqual((answer["rows"], answer["matching"], answer["row"]), (rows, rows, list(range(rows))))
                for c, column in enumerate(columns):
                    values = store[name][column][()]
                    missing = store[name][column].attrs.get("missing_value")
                    expected = [None if missing is not None and v == missing else v.decode() if isinstance(v, bytes) else v.item() for v in values]
                    expected = [None if isinstance(v, float) and v != v else v for v in expected]
                    self.assertEqual([line[c] for line in answer["values"]], expected, column)

    def test_filter_order_limit_and_columns(self):
        service, store = self.serve(), self.store()
        arrivals = store["collective_arrivals"]
        waits = arrivals["wait_ns"][()]
        of_rank = [i for i, rank in enumerate(arrivals["trace_rank"][()]) if rank == 3 and waits[i] >= 1000]
        of_rank.sort(key=lambda i: (-waits[i], i))
        answer = service.api("reports/after/tables/collective_arrivals?where=trace_rank=3&where=wait_ns%3E=1000&order=-wait_ns&offset=2&limit=5"
                             "&columns=wait_ns,instance")
        self.assertEqual(answer["matching"], len(of_rank))
        self.assertEqual(answer["row"], of_rank[2:7])
        self.assertEqual(answer["values"], [[waits[i].item(), arrivals["instance"][i].item()] for i in of_rank[2:7]])
        for query, word in (("wher=a=1", "no parameter 'wher'"), ("limit=x", "limit is 'x'"), ("where=lion=1", "no column 'lion'"),
                            ("columns=lion", "no column 'lion'"), ("where=wait_ns=much", "cannot be compared"), ("limit=1000000", "limit is")):
            error = service.api(f"reports/after/tables/collective_arrivals?{query}", 400)["error"]
            self.assertIn(word, error["problem"])
            self.assertTrue(error["why"] and error["what_to_do"])
        self.assertIn("its tables are: ", service.api("reports/after/tables/lions", 404)["error"]["what_to_do"])

    def test_the_comparison_is_that_of_the_command(self):
        service = self.serve()
        run([TOOL, "compare", self.root / "before", self.root / "after", "--labels", "before,after", "--out", self.directory / "compared"])
        expected = json.loads((self.directory / "compared" / "compare.json").read_text())
        self.assertEqual(service.api("compare?before=before&after=after"), expected)
        status, page, answer = service.ask("GET", "/compare?before=before&after=after")
        expected = (self.directory / "compared" / "compare.html").read_bytes()
        self.assertEqual((status, re.sub(rb'<ul id="both">.*</ul>\n(?=</body>)', b"", page)), (200, expected))
        self.assertEqual(page.count(b'href="/reports/before/report.html#'), 3)
        service.api("compare?before=before&after=absent", 404)

    def test_two_stores_that_are_sent_are_compared_as_by_the_command(self):
        service = self.serve("--read-only")
        run([TOOL, "compare", self.root / "before", self.root / "after", "--labels", "one.h5 (before),two.h5 (after)", "--out", self.directory / "compared"])
        stores = [(self.root / name / "store.h5").read_bytes() for name in ("before", "after")]
        files = [("after", "two.h5", stores[1]), ("before", "one.h5", stores[0])]
        status, text = service.compare_sent(files)
        self.assertEqual((status, json.loads(text)), (200, json.loads((self.directory / "compared" / "compare.json").read_text())))
        status, page = service.compare_sent(files, "/compare")
        self.assertEqual((status, page), (200, (self.directory / "compared" / "compare.html").read_bytes()))
        for wrong, word in ((files[:1], "'before' and 'after'"), (files + [("rank", "x", b"")], "'rank' is no field"), (files + files[:1], "comes twice"),
                            ([("before", "a", b"no store"), ("after", "<b>", stores[1])], "cannot be compared")):
            status, text = service.compare_sent(wrong)
            self.assertEqual(status, 400)
            self.assertIn(word, json.dumps(json.loads(text)["error"]))
            status, page = service.compare_sent(wrong, "/compare")
            self.assertEqual(status, 400)
            self.assertNotIn(b"<b>", page)
            self.assertIn(b"No answer", page)

    def test_the_history_is_searched_sorted_and_paged(self):
        service = self.serve()
        for day in ("24", "25"):
            shutil.copytree(self.made / "reports" / "after", self.root / f"llama-2026-11-{day}")
        end = time.monotonic() + PATIENCE_S
        while service.api("reports?job=llama")["matching"] < 2:
            self.assertLess(time.monotonic(), end, "the reports are not noticed")
        names = lambda query: [one["name"] for one in service.api(f"reports?{query}")["reports"]]
        self.assertEqual(names("job=llama&order=-name"), ["llama-2026-11-25", "llama-2026-11-24"])
        self.assertEqual(names("find=LLAMA&order=name&limit=1&offset=1"), ["llama-2026-11-25"])
        shares = [one["saved_share"] for one in service.api("reports?order=-saving")["reports"]]
        self.assertEqual(shares, sorted(shares, key=lambda share: -1 if share is None else share, reverse=True))
        service.api("reports?order=colour", 400)
        page = service.ask("GET", "/?job=llama")[1].decode()
        self.assertEqual(page.count("<circle"), 2)
        self.assertNotIn("/reports/before", page)

    def test_pages_and_files(self):
        service = self.serve()
        page = service.ask("GET", "/")[1].decode()
        self.assertIn(f"{100 * self.report_json()['verdict']['saved_share']:.1f}%", page)
        for name in ("before", "after"):
            self.assertIn(f'<a href="/reports/{name}">', page)
        self.assertIn(self.report_json()["findings"][1]["title"], service.ask("GET", "/reports/after")[1].decode())
        for file in ("report.html", "report.md", "report.json", "store.h5"):
            status, content, answer = service.ask("GET", f"/reports/after/{file}")
            self.assertEqual((status, content), (200, (self.root / "after" / file).read_bytes()), file)
            self.assertIn("sandbox", answer.headers["Content-Security-Policy"])
        self.assertEqual(service.ask("GET", "/reports/after/.nsys-explain-owner")[0], 404)
        status, text, answer = service.ask("HEAD", "/api/v1/reports")
        self.assertEqual((status, text), (200, b""))

    def test_the_description_names_every_address_and_each_answers(self):
        service = self.serve()
        document = service.get("/openapi.json")
        values = {"name": "after", "table": "ranks", "id": "1"}
        service.upload("third", [(self.exports[0].name, self.exports[0].read_bytes())])
        service.wait(1, "done", "failed")
        for path, operations in document["paths"].items():
            if "get" in operations:
                query = "?before=before&after=after" if path.endswith("compare") else ""
                service.get(re.sub(r"\{(\w+)\}", lambda match: values[match.group(1)], path) + query)
        self.assertEqual(service.ask("DELETE", "/api/v1/analyses/1")[0], 200)

    def test_reports_that_come_change_and_go_are_noticed(self):
        service = self.serve()
        self.assertEqual(service.api("reports/before/verdict")["verdict"], self.report_json("before")["verdict"])
        shutil.rmtree(self.root / "before")
        shutil.copytree(self.root / "after", self.root / "new")
        os.rename(self.root / "new", self.root / "before")
        self.assertEqual(service.api("reports/before/verdict")["verdict"], self.report_json("after")["verdict"])
        shutil.rmtree(self.root / "before")
        service.api("reports/before/verdict", 404)

    def test_a_damaged_report_is_refused_and_the_others_answer(self):
        service = self.serve()
        whole = (self.root / "before" / "store.h5").read_bytes()
        damaged = bytearray(whole)
        for at in range(0, len(whole) - 64, 8):
            if whole[at:at + 4] == b"GCOL":  # sizes in the heaps of texts that cannot be true: HDF5 itself crashes
                damaged[at + 8:at + 16] = b"\xff" * 7 + b"\x7f"
        (self.root / "before" / "store.h5").write_bytes(damaged)
        error = service.api("reports/before/tables/findings", 503)["error"]
        self.assertIn("run the analysis again", error["what_to_do"])
        (self.root / "after" / "report.json").write_text("[" * 100_000)
        service.api("reports/after/verdict", 503)
        shutil.copytree(self.made / "reports" / "after", self.root / "third")
        self.assertEqual(service.api("reports/third/tables/ranks")["rows"], 8)

    def test_the_client_gives_what_the_files_give(self):
        service = self.serve()
        client = nsys_explain.Client(f"http://127.0.0.1:{service.port}")
        self.assertEqual(sorted(client.reports()), ["after", "before"])
        with client.open("after") as far, nsys_explain.open(self.root / "after") as near:
            self.assertEqual((far.verdict, far.report, far.tables()), (near.verdict, near.report, near.tables()))
            for table in near.tables():
                nsys_explain.pd.testing.assert_frame_equal(far.table(table), near.table(table))
                self.assertEqual(far.table(table).attrs, near.table(table).attrs)
            self.assertTrue(far.plot.lateness_cells().equals(near.plot.lateness_cells()))
            with self.assertRaises(nsys_explain.Absent):
                far.table("lions")
        with self.assertRaises(nsys_explain.Absent):
            client.open("absent")


class Analyses(ServiceTest):
    def files(self):
        return [(path.name, path.read_bytes()) for path in self.exports]

    def test_an_upload_becomes_the_report_that_the_command_makes(self):
        service = self.serve()
        status, job = service.upload("job9", self.files())
        self.assertEqual((status, job["name"], job["traces"]), (202, "job9", 8))
        self.assertEqual(service.wait(job["id"], "done", "failed")["state"], "done")
        uploaded, direct = self.report_json("job9"), self.report_json("after")
        for part in ("verdict", "what_if", "ranks", "step_time"):
            self.assertEqual(uploaded[part], direct[part])
        self.assertEqual(service.api("reports/job9")["verdict"], direct["verdict"]["text"])
        self.assertEqual(sorted(p.name for p in (self.root / "job9").iterdir()), ["report.html", "report.json", "report.md", "store.h5"])
        self.assertEqual(service.upload("job9", self.files())[0], 409)
        self.assertEqual(service.upload("after", self.files())[0], 409)

    def test_paths_below_the_allowed_directories(self):
        service = self.serve("--exports", self.made / "job-after")
        status, job = service.post_json("/api/v1/analyses", {"name": "by-path", "paths": [str(self.made / "job-after")]})
        self.assertEqual(status, 202)
        self.assertEqual(service.wait(job["id"], "done", "failed")["state"], "done")
        self.assertEqual(self.report_json("by-path")["verdict"], self.report_json("after")["verdict"])
        (self.directory / "link").symlink_to(self.made / "job-before")
        refusals = set()
        for path in (self.made / "job-before", self.made / "job-after" / ".." / "job-before", self.directory / "link", "/etc/passwd", "/absent", "relative", ""):
            status, answer = service.post_json("/api/v1/analyses", {"name": "x", "paths": [str(path)]})
            self.assertEqual(status, 403, path)
            refusals.add(answer["error"]["problem"].replace(f"'{path}'", "PATH"))
        self.assertEqual(len(refusals), 1)  # nobody learns what lies there

    def test_what_cannot_be_analysed_says_why_and_leaves_nothing(self):
        service = self.serve()
        status, job = service.upload("bad", [("a.sqlite", b"this is no export")])
        self.assertEqual(status, 202)
        outcome = service.wait(job["id"], "done", "failed")
        self.assertEqual(outcome["state"], "failed")
        self.assertIn("a.sqlite", outcome["message"])
        self.assertFalse((self.root / "bad").exists())
        self.assertEqual([p for p in next(self.root.glob(".nsys-explain-serve-*")).iterdir() if p.is_dir()], [])

    def start_and_stop(self, service, name):
        """An analysis that runs and stands still: its process is stopped as soon as it is there."""
        for attempt in range(20):
            status, job = service.upload(f"{name}-{attempt}", self.files())
            self.assertEqual(status, 202)
            while service.api(f"analyses/{job['id']}")["state"] in ("queued", "running"):
                for child in children_of(service.process.pid):
                    if b"--out" in child.command and child.signal(signal.SIGSTOP):
                        if service.api(f"analyses/{job['id']}")["state"] == "running" and child.is_stopped():
                            return job, child
        self.fail("every analysis was over before it could be stopped")

    def test_the_queue_is_bounded_and_whoever_waits_or_runs_can_be_cancelled(self):
        service = self.serve("--queue", 1)
        first, _ = self.start_and_stop(service, "first")
        status, second = service.upload("second", self.files())
        self.assertEqual((status, second["state"], second["before"]), (202, "queued", 1))
        status, answer = service.upload("third", self.files())
        self.assertEqual((status, answer["error"]["what_to_do"]), (429, "try again later"))
        self.assertEqual(service.ask("DELETE", f"/api/v1/analyses/{second['id']}")[0], 200)
        self.assertEqual(service.api(f"analyses/{second['id']}")["state"], "cancelled")
        self.assertEqual(service.upload(first["name"], self.files())[0], 409)
        service.ask("DELETE", f"/api/v1/analyses/{first['id']}")
        service.wait(first["id"], "cancelled")  # it hears no SIGTERM
        self.assertFalse((self.root / first["name"]).exists())
        self.assertEqual(list(next(self.root.glob(".nsys-explain-serve-*")).glob("upload-*")), [])
        service.api("analyses/99", 404)
        self.assertEqual([job["state"] for job in service.api("analyses")["analyses"]][-2:], ["cancelled", "cancelled"])

    def test_a_killed_service_loses_no_report_and_leaves_no_half_one(self):
        service = self.serve()
        done = service.upload("done", self.files())[1]
        service.wait(done["id"], "done")
        expected = (self.root / "done" / "report.json").read_bytes()
        _, child = self.start_and_stop(service, "half")
        readers = [other for other in children_of(service.process.pid) if other.pid != child.pid]
        self.assertGreater(len(readers), 0)
        service.process.kill()
        service.process.wait(PATIENCE_S)
        end = time.monotonic() + PATIENCE_S
        while any(process.is_alive() for process in (child, *readers)):
            self.assertLess(time.monotonic(), end, "a child outlives the service")
        self.assertEqual(len(list(self.root.glob(".nsys-explain-serve-*"))), 1)
        again = self.serve()
        self.assertEqual(len(list(self.root.glob(".nsys-explain-serve-*"))), 1)
        self.assertEqual([r["name"] for r in again.api("reports?order=name")["reports"]], ["after", "before", "done"])
        self.assertEqual((self.root / "done" / "report.json").read_bytes(), expected)
        self.assertEqual(again.stop(), 0)
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["after", "before", "done"])

    def test_a_read_only_service_starts_nothing_and_writes_nothing(self):
        service = self.serve("--read-only")
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["after", "before"])
        status, answer = service.upload("x", self.files())
        self.assertEqual((status, answer["error"]["problem"]), (403, "this service is read-only"))
        self.assertEqual(service.post_json("/api/v1/analyses", {"name": "x", "paths": ["/"]})[0], 403)
        self.assertNotIn("Upload", service.ask("GET", "/")[1].decode())
        service.api("compare?before=before&after=after")

    def test_uploads_that_must_not_be_kept(self):
        service = self.serve("--upload-limit", "1M")
        for files, status in (([("../x.sqlite", b"")], 400), ([("a/b.sqlite", b"")], 400), ([(".hidden.sqlite", b"")], 400),
                              ([("a.sqlite", b""), ("a.sqlite", b"")], 400), ([("a.sqlite", b""), ("a.sqlite-journal", b"")], 400),
                              ([("a.sqlite-wal", b"")], 400), ([("a.sqlite-shm", b"")], 400), ([("a", b"")], 400),
                              ([("a.sqlite", b"x" * 1_100_000)], 413), ([("a.sqlite", b"x" * 3_000_000)], 413), ([], 400)):
            self.assertEqual(service.upload("x", files)[0], status, files[:1])
        for name in ("", "..", "a/b", ".a", "a" * 101, "a b", "<b>"):
            self.assertEqual(service.upload(name, [("a.sqlite", b"")])[0], 400, name)
        for body in (b"", b"--b\r\n", b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.sqlite"\r\n\r\nx\r\n--b--\r\n',
                     b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nx\r\n--b\r\nContent-Disposition: form-data; name="lion"\r\n\r\nx\r\n--b--\r\n'):
            status, text, _ = service.ask("POST", "/api/v1/analyses", body, {"Content-Type": "multipart/form-data; boundary=b"})
            self.assertEqual(status, 400, body)
        self.assertEqual(list(next(self.root.glob(".nsys-explain-serve-*")).glob("upload-*")), [])
        self.assertEqual(service.api("analyses"), {"analyses": []})


class Child:
    def __init__(self, pid):
        self.pid = pid
        self.command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        self.start = self.stat()[19]

    def stat(self):
        return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()

    def is_alive(self):
        try:
            return self.stat()[19] == self.start and self.stat()[0] != "Z"
        except OSError:
            return False

    def is_stopped(self):
        """Once every thread of it is."""
        end = time.monotonic() + PATIENCE_S
        while self.is_alive() and time.monotonic() < end:
            try:
                states = [task.read_text().rpartition(")")[2].split()[0] for task in pathlib.Path(f"/proc/{self.pid}/task").glob("*/stat")]
            except OSError:
                continue
            if states and set(states) == {"T"}:
                return True
        return False

    def signal(self, number):
        try:
            os.kill(self.pid, number)
            return True
        except ProcessLookupError:
            return False


def children_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            for child in (task / "children").read_text().split():
                found.append(Child(int(child)))
        except OSError:
            continue
    return found


def readable(connections, seconds):
    """Those with something to read, or at their end; waits for the first of them."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    ready = {number for number, _ in poll.poll(1000 * seconds)}
    return [connection for connection in connections if connection.fileno() in ready]


class Hostile(ServiceTest):
    def test_the_token_is_needed_for_everything(self):
        token = self.directory / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        service = self.serve("--token-file", token)
        paths = ("/", "/api/v1/reports", "/reports/after", "/reports/after/store.h5", "/openapi.json", "/service.css", "/absent", "/mcp")
        for value in (None, "", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", f"Bearer {TOKEN.upper()}", f"Basic {TOKEN}",
                      "Basic " + base64.b64encode(f"{TOKEN}:".encode()).decode(), "Basic %%%"):
            for path in paths:
                status, text, answer = service.ask("GET", path, headers={} if value is None else {"Authorization": value})
                self.assertEqual(status, 401, (path, value))
                self.assertTrue(answer.headers["WWW-Authenticate"].startswith("Basic "))
                self.assertNotIn(TOKEN.encode(), text)
                self.assertNotIn(b"after", text)
        self.assertEqual(service.upload("x", [("a", b"")])[0], 401)
        for value in (f"Bearer {TOKEN}", "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()):
            service.headers = {"Authorization": value}
            self.assertEqual(service.ask("GET", "/reports/after")[0], 200)
        with nsys_explain.Client(f"http://127.0.0.1:{service.port}", TOKEN).open("after") as far:
            self.assertEqual(far.verdict, self.report_json()["verdict"]["text"])
        with self.assertRaises(PermissionError):
            nsys_explain.Client(f"http://127.0.0.1:{service.port}", "wrong-wrong-wrong").reports()

    def refused(self, *options, root=None):
        done = run([TOOL, "serve", root or self.root, *options])
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        return done.stderr

    def test_it_does_not_start_where_others_could_read(self):
        for address in ("0.0.0.0:0", "[::]:0", "10.0.0.1:0"):
            self.assertIn("give --token-file FILE", self.refused("--listen", address))
        token = self.directory / "token"
        token.write_text(TOKEN)
        token.chmod(0o644)
        self.assertIn("can be read or changed by others", self.refused("--token-file", token))
        token.chmod(0o600)
        token.write_text("short")
        self.assertIn("16 characters", self.refused("--token-file", token))
        self.assertIn("name the directory that holds it", self.refused(root=self.root / "after"))
        self.assertIn("cannot read", self.refused(root=self.root / "absent"))
        self.assertIn("no address", self.refused("--listen", "8750"))

    def test_paths_do_not_leave_the_directory(self):
        service = self.serve()
        (self.directory / "secret").mkdir()
        for file in ("store.h5", "report.json", "report.html"):
            shutil.copy(self.root / "after" / file, self.directory / "secret")
        (self.root / "link").symlink_to(self.directory / "secret")
        (self.root / "before" / "report.md").unlink()
        (self.root / "before" / "report.md").symlink_to("/etc/passwd")
        for name in ("..%2Fsecret", "../secret", "%2e%2e/secret", "..%2f..%2fetc%2fpasswd", "link", "after%2F..%2F..%2Fsecret", "%2Fetc", "after%2F", ".",
                     "after/../../secret", "....//secret", "after%00", "%c0%ae%c0%ae/secret", "after\\..\\..\\secret"):
            for path in (f"/reports/{name}/report.html", f"/api/v1/reports/{name}/verdict", f"/reports/{name}", f"/api/v1/compare?before=after&after={name}"):
                answer = service.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                self.assertRegex(answer, rb"^HTTP/1.1 (400|404) ", path)
                self.assertNotIn(b"makes the others wait", answer)
        self.assertEqual(service.ask("GET", "/reports/before/report.md")[0], 404)
        self.assertNotIn(b"link", service.ask("GET", "/")[1].replace(b'"links"', b"").replace(b"<link ", b""))

    def test_other_sites_and_other_names(self):
        service = self.serve()
        for host in ("evil.example", "evil.example:80", "", f"127.0.0.1.evil.example:{service.port}"):
            self.assertEqual(service.ask("GET", "/", headers={"Host": host})[0], 403, host)
        wish = {"name": "x", "paths": ["/absent"]}
        for origin in ("http://evil.example", "null", f"https://evil.example:{service.port}", f"http://127.0.0.1:{service.port + 1}"):
            self.assertIn("another site", service.post_json("/api/v1/analyses", wish, {"Origin": origin})[1]["error"]["problem"])
            self.assertEqual(service.ask("DELETE", "/api/v1/analyses/1", headers={"Origin": origin})[0], 403)
            self.assertEqual(service.post_json("/mcp", {}, {"Origin": origin})[0], 403)
        own = {"Origin": f"http://127.0.0.1:{service.port}"}
        self.assertIn("--exports", service.post_json("/api/v1/analyses", wish, own)[1]["error"]["problem"])
        # What a form of another site could send without being asked.
        self.assertEqual(service.ask("POST", "/mcp", "{}", {"Content-Type": "text/plain"})[0], 415)

    def test_every_answer_forbids_framing_and_foreign_scripts(self):
        service = self.serve()
        for path in ("/", "/reports/after", "/reports/after/report.html", "/compare?before=before&after=after", "/absent", "/api/v1/reports", "/service.js"):
            _, _, answer = service.ask("GET", path)
            policy = answer.headers["Content-Security-Policy"]
            self.assertIn("frame-ancestors 'none'", policy, path)
            self.assertIn("default-src 'none'", policy)
            self.assertEqual((answer.headers["X-Frame-Options"], answer.headers["X-Content-Type-Options"]), ("DENY", "nosniff"))
            self.assertNotRegex(policy, r"https?:")
            self.assertTrue("script-src 'self';" in policy or "sandbox allow-scripts;" in policy, policy)

    def test_names_are_shown_and_not_obeyed(self):
        name = "<script>alert(1)</script>\" onload='x'&amp;"
        shutil.move(self.root / "before", self.root / name.replace("/", ""))
        name = name.replace("/", "")
        report = self.report_json("after")
        report["verdict"]["text"] = report["findings"][0]["title"] = report["findings"][0]["evidence"][0] = "<img src=x onerror=alert(1)>"
        (self.root / "after" / "report.json").write_text(json.dumps(report))
        service = self.serve()
        for path in ("/", "/reports/after", f"/reports/{urllib.parse.quote(name, safe='')}", f"/reports/{urllib.parse.quote(name + 'x', safe='')}"):
            page = service.ask("GET", path)[1].decode()
            self.assertNotRegex(page, r"<img|<script>|\" onload='x'", path)
        self.assertIn("&lt;img src=x onerror=alert(1)&gt;", service.ask("GET", "/")[1].decode())
        self.assertEqual(service.api(f"reports/{urllib.parse.quote(name, safe='')}")["name"], name)

    def test_requests_that_are_too_much(self):
        service = self.serve()
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for request, status in ((b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"4"),
                                (b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 100_000, b"4"),
                                (b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", b"4"),
                                (b"a" * 10_000_000, b"4"),
                                (head + b"Content-Length: 2000000\r\n\r\n" + b"a" * 2_000_000, b"413"),
                                (head + b"Content-Length: 99999999999999999999\r\n\r\n" + b"a" * 2_000_000, b"4"),
                                (head + b"Transfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + (b"a" * 65536 + b"\r\n10000\r\n") * 100, b"4"),
                                (head + b"Content-Length: 10\r\n\r\nshort", b"4"),
                                (head + b"Transfer-Encoding: chunked\r\n\r\nlions\r\n", b"4"),
                                (b"GET /?" + b"a=b&" * 1000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
                                (b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"40"),
                                (b"PUT /api/v1/analyses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\na", b"405"),
                                (b"DELETE /reports/after HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
                                (b"GET / HTTP/1.1\r\nHost: localhost\r\nRange: " + b"bytes=" + b"0-1," * 1000 + b"5-6\r\nConnection: close\r\n\r\n", b"")):
            answer = service.raw(request)
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1.1 " + status), (request[:60], answer[:100]))
        # The body of a request that has none is not the next request.
        smuggled = (b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\n"
                    b"GET /api/v1/reports HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(service.raw(smuggled).count(b"HTTP/1.1 200"), 1)
        two = b"GET /service.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2
        self.assertEqual(service.raw(two).count(b"HTTP/1.1 200"), 2)
        self.assertEqual(service.api("reports/after")["trace_ranks"], 8)

    def test_slow_clients_hold_nobody_up(self):
        service = self.serve()
        slow = []
        for request in (b"GET / HT", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", b""):
            for _ in range(50):
                connection = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S)
                connection.sendall(request)
                slow.append(connection)
        self.assertEqual(service.api("reports/after")["trace_ranks"], 8)
        for connection in slow:  # each is ended by the service
            try:
                while connection.recv(65536):
                    pass
            except ConnectionError:
                pass
            connection.close()

    def test_idle_connections_hold_nobody_up(self):
        service = self.serve()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2_000)), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        idle = []
        for i in range(1_200):
            idle.append(socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S))
            self.addCleanup(idle[-1].close)
            idle[-1].sendall(b"" if i < 600 else b"GET / HT")
        self.assertEqual(service.api("reports/after")["trace_ranks"], 8)
        # It was answered while more of them were there than there are threads: none of them holds one.
        self.assertGreater(len(idle) - len(readable(idle, 0)), 256)
        self.assertEqual(service.stop(), 0)

    def test_requests_under_way_of_one_client_leave_threads_for_others(self):
        service = self.serve()
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        held = [socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S, source_address=("127.0.0.2", 0)) for _ in range(300)]
        for connection in held:
            self.addCleanup(connection.close)
            connection.sendall(head)
        self.assertEqual(service.api("reports/after")["trace_ranks"], 8)
        refused = [connection for connection in readable(held, PATIENCE_S) if connection.recv(20).startswith(b"HTTP/1.1 503")]
        self.assertGreater(len(refused), 0)

    def test_names_of_hosts_and_media_types_have_no_case(self):
        service = self.serve()
        for host in ("LOCALHOST", f"LocalHost:{service.port}"):
            self.assertEqual(service.ask("GET", "/api/v1/reports", headers={"Host": host})[0], 200, host)
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        for kind in ("APPLICATION/JSON", "Application/Json; Charset=UTF-8"):
            self.assertEqual(service.ask("POST", "/mcp", ping, {"Content-Type": kind})[0], 200, kind)
        body = b'--Cut\r\nContent-Disposition: form-data; name="name"\r\n\r\n..\r\n--Cut--\r\n'
        status, text, _ = service.ask("POST", "/api/v1/analyses", body, {"Content-Type": "MULTIPART/FORM-DATA; BOUNDARY=Cut"})
        self.assertEqual((status, json.loads(text)["error"]["problem"]), (400, "'..' is no name for a report"))

    def test_a_path_with_the_character_nul_names_nothing(self):
        service = self.serve("--exports", self.made / "job-after")
        status, answer = service.post_json("/api/v1/analyses", {"name": "x", "paths": [f"{self.made}/job-after\0.txt"]})
        self.assertEqual((status, answer["error"]["problem"]), (400, "a path holds the character NUL"))
        for target in (b"/reports/after\0", b"/reports/after%00", b"/reports/after?\0"):
            self.assertRegex(service.raw(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"), rb"^HTTP/1.1 400 ")
        self.assertEqual(service.api("analyses"), {"analyses": []})

    def test_a_report_json_that_is_too_large_is_not_loaded(self):
        service = self.serve()
        with open(self.root / "after" / "report.json", "ab") as file:  # JSON all the same
            for _ in range(200):
                file.write(b" " * 1_000_000)
        error = service.api("reports/after/verdict", 503)["error"]
        self.assertIn("more than the 64000000 that are read", error["problem"])
        self.assertIn("problem", {entry["name"]: entry for entry in service.api("reports")["reports"]}["after"])
        self.assertEqual(service.ask("GET", "/reports/after")[0], 503)
        self.assertEqual(service.api("reports/before")["trace_ranks"], 8)

    def test_bad_json(self):
        service = self.serve()
        for body in ("", "{", "[]", "null", "[" * 500_000, '{"name": 3, "paths": []}', '{"name": "x"}', '{"name": "x", "paths": "y"}',
                     '{"name": "x", "paths": [3]}', "\xff", '{"a":' * 1000):
            status, text, _ = service.ask("POST", "/api/v1/analyses", body.encode("latin-1"), {"Content-Type": "application/json"})
            self.assertEqual(status, 400, body[:40])
            self.assertTrue(json.loads(text)["error"]["what_to_do"])
        self.assertEqual(service.post_json("/api/v1/analyses", {"name": "x", "paths": []})[0], 400)


REFERENCE = re.compile(r"^(?:(?P<table>\w+)\[(?P<row>\d+)\]|(?P<file>report|compare)\.json#(?P<pointer>[\w/]*)): (?P<rest>.*)$")


class Mcp(ServiceTest):
    """Every figure in every answer stands behind the row that holds it, and is what that row holds."""

    def check(self, text, report="after", comparison=None):
        store, document = self.store(report), self.report_json(report)
        figures = 0
        for line in text.splitlines():
            match = REFERENCE.match(line)
            if not match:
                line = re.sub(r"\b[A-Za-z_]\w*", "", line) if line.startswith("units:") else line  # names of columns
                self.assertTrue(line.startswith(("report: ", "before: ", "after: ")) or not re.search(r"\d", line), line)
                continue
            if match["table"]:
                at = {column: cell(store, match["table"], int(match["row"]), column) for column in store[match["table"]].attrs["columns"]}
            else:
                at = document if match["file"] == "report" else comparison
                for key in match["pointer"].split("/")[1:]:
                    at = at[int(key)] if isinstance(at, list) else at[key]
            rest = match["rest"]
            while rest:
                key, equals, rest = rest.partition("=")
                self.assertEqual(equals, "=", line)
                value, end = json.JSONDecoder().raw_decode(rest)
                rest = rest[end:].removeprefix(", ")
                if isinstance(value, str) and value.endswith("..."):
                    self.assertTrue(str(at[key]).startswith(value[:-3]), line)
                elif isinstance(at[key], float):  # six digits
                    self.assertTrue(math.isclose(value, at[key], rel_tol=1e-5), f"{key} in {line}")
                else:
                    self.assertEqual(value, "unknown" if at[key] is None else at[key], f"{key} in {line}")
                figures += isinstance(value, (int, float))
        self.assertLessEqual(len(re.findall(r"[A-Za-z]{1,4}|\d{1,3}|[^\sA-Za-z\d]", text)), 2000)
        return figures

    def test_the_check_finds_what_has_no_row(self):
        wait = cell(self.store(), "ranks", 3, "wait_ns")
        self.assertEqual(self.check(f"ranks[3]: wait_ns={wait}"), 1)
        for text in (f"ranks[4]: wait_ns={wait}", f"ranks[3]: wait_ns={wait + 1}", "it waited 3 ms", f"wait_ns={wait}", "ranks[3]: 17"):
            with self.assertRaises(AssertionError):
                self.check(text)

    def test_every_tool(self):
        service = self.serve()
        listed = {tool["name"]: tool for tool in service.rpc("tools/list")["result"]["tools"]}
        self.assertEqual(set(listed), {"reports", "verdict", "findings", "explain_rank", "explain_instance", "table", "compare", "what_if", "capture_advice"})
        for tool in listed.values():
            self.assertEqual(tool["inputSchema"]["type"], "object")
        comparison = service.api("compare?before=before&after=after")
        instances = len(self.store()["collective_instances"]["instance"])
        questions = [("verdict", {}), ("findings", {}), ("what_if", {}), ("capture_advice", {}), ("table", {})]
        questions += [("explain_rank", {"trace_rank": rank}) for rank in range(8)]
        questions += [("explain_instance", {"instance": number}) for number in (0, 7, instances - 1)]
        questions += [("table", {"table": name}) for name, group in self.store().items() if "columns" in group.attrs]
        questions += [("table", {"table": "ranks", "columns": "trace_rank,wait_ns", "where": ["trace_rank>2"], "order": "-wait_ns", "limit": 3, "offset": 1})]
        figures = 0
        for name, arguments in questions:
            with self.subTest(name, **arguments):
                text, is_error = service.tool(name, report="after", **arguments)
                self.assertFalse(is_error, text)
                figures += self.check(text)
        self.assertGreater(figures, 1000)
        text, is_error = service.tool("compare", before="before", after="after")
        self.assertFalse(is_error)
        self.assertGreater(self.check(text, comparison=comparison), 5)
        text, _ = service.tool("reports")
        for name in ("after", "before"):
            self.check(text.partition(f'report: "{name}"')[2].partition("report: ")[0], report=name)
            self.assertIn(self.report_json(name)["verdict"]["text"], text)

    def test_the_answers_name_what_matters(self):
        service = self.serve()
        self.assertIn(self.report_json()["verdict"]["text"], service.tool("verdict", report="after")[0])
        self.assertIn("stragglers[0]: trace_rank=5", service.tool("explain_rank", report="after", trace_rank=5)[0])
        last = cell(self.store(), "collective_instances", 7, "last_trace_rank")
        first_arrival = next(line for line in service.tool("explain_instance", report="after", instance=7)[0].splitlines() if line.startswith("collective_arrivals"))
        self.assertIn(f"trace_rank={last},", first_arrival)

    def test_no_long_argument_is_repeated(self):
        service = self.serve()
        text = "\u00e4" + "lion" * 1_000
        calls = [(name, {"report": text}) for name in ("verdict", "findings", "what_if", "capture_advice", "table")]
        calls += [("verdict", {text: 1}), ("compare", {"before": text, "after": text}), ("compare", {"before": "after", "after": text}),
                  ("explain_rank", {"report": "after", "trace_rank": text}), ("explain_instance", {"report": text, "instance": 1}),
                  ("table", {"report": "after", "table": text}), ("table", {"report": "after", "table": text, "columns": text})]
        for of_ranks in ({"columns": text}, {"columns": "lion" * 100}, {"order": text}, {"order": "-" + "lion" * 100}, {"where": [text]},
                         {"where": "lion" * 100 + "=1"}, {"where": ["wait_ns=" + text]}, {"where": [{text: 1}]}, {"limit": text}, {"offset": text}):
            calls.append(("table", {"report": "after", "table": "ranks", **of_ranks}))
        answers = [json.dumps(service.rpc("tools/call", {"name": name, "arguments": arguments}), ensure_ascii=False) for name, arguments in calls]
        answers += [json.dumps(service.rpc(method, parameters)) for method, parameters in
                    ((text, {}), ("tools/call", {"name": text}), ("initialize", {"protocolVersion": text, "clientInfo": {"name": text}}))]
        for call, answer in zip(calls + ["method", "name", "version"], answers):
            self.assertLess(len(answer), 6_000, call)
            self.assertNotIn(("lion" * 51)[:201], answer, call)
        self.assertGreater(sum("lion" in answer for answer in answers), 15)

    def test_the_protocol(self):
        service = self.serve()
        for asked, given in (("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25"), (None, "2025-11-25")):
            result = service.rpc("initialize", {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})["result"]
            self.assertEqual(result["protocolVersion"], given)
            self.assertEqual(result["serverInfo"]["name"], "nsys-explain-mpi")
            self.assertIn("tools", result["capabilities"])
        self.assertEqual(service.rpc("ping")["result"], {})
        self.assertEqual(service.post_json("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}), (202, None))
        self.assertEqual(service.ask("GET", "/mcp")[0], 405)
        for message, code in (({"jsonrpc": "2.0", "id": 1, "method": "lions"}, -32601), ({"id": 1, "method": "ping"}, -32600), ([], -32600), (3, -32600),
                              ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 3}, -32602),
                              ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "lions"}}, -32602),
                              ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "verdict", "arguments": []}}, -32602)):
            self.assertEqual(service.post_json("/mcp", message)[1]["error"]["code"], code, message)
        for body in ("{", "[" * 500_000, ""):
            self.assertEqual(json.loads(service.ask("POST", "/mcp", body, {"Content-Type": "application/json"})[1])["error"]["code"], -32700)
        for name, arguments, word in (("verdict", {}, "no report is named"), ("verdict", {"report": "lions"}, "no report 'lions'"),
                                      ("explain_rank", {"report": "after", "trace_rank": 99}, "no trace rank 99"), ("explain_rank", {"report": "after"}, "trace_rank"),
                                      ("explain_instance", {"report": "after", "instance": -1}, "no instance -1"), ("table", {"report": "after", "table": "lions"}, "no table 'lions'"),
                                      ("table", {"report": "after", "table": "ranks", "where": ["lion=1"]}, "no column 'lion'"),
                                      ("verdict", {"report": 3}, "is no text"), ("verdict", {"lion": 3}, "no argument 'lion'"),
                                      ("compare", {"before": "after"}, "no report ''")):
            text, is_error = service.tool(name, **arguments)
            self.assertTrue(is_error)
            self.assertIn(word, text)

    def test_over_standard_input(self):
        shutil.rmtree(self.root / "before")
        messages = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
                    {"jsonrpc": "2.0", "method": "notifications/initialized"},
                    {"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": {"name": "verdict", "arguments": {}}}]
        lines = "\n".join(["", "no JSON", *map(json.dumps, messages)])
        done = subprocess.run([TOOL, "serve", self.root, "--mcp"], input=lines, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([reply["id"] for reply in replies], [None, 1, "two"])
        self.assertEqual(done.stderr, "")
        self.assertGreater(self.check(replies[2]["result"]["content"][0]["text"]), 10)
        self.assertEqual([path.name for path in self.root.iterdir()], ["after"])


if __name__ == "__main__":
    main()
