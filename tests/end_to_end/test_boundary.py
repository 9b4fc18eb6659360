"""Inputs and outputs as a boundary: names from a trace act in no output and name no file, and secrets of a trace reach no output."""

import contextlib
import csv
import gzip
import html.parser
import json
import pathlib
import re
import shutil
import sqlite3
import struct

from stores import datasets
from support import TOOL, EndToEndTest, main, run

# What a browser, a spreadsheet, a terminal, a shell, a renderer of Markdown or a collector of metrics would obey.
HOSTILE = ("</script><script>owned()</script><img src=x onerror=owned()>\"'&\x1b]0;owned\x07\x1b[31m\x9b2J\r\n"
           "\u202egnp.exe\u2066\u200b [click](javascript:owned()) ![x](http://owned/x) | ` **b** $(owned) `owned`\\ {label=\"owned\"} 1\n"
           "# HELP owned %s%n\x00tail")
FORMULAS = ["=cmd|' /C owned'!A0", "+1+owned()", "-1+owned()", "@SUM(owned)", "\t=owned()", "\r=owned()"]
# C0 but tab and end of line, DEL, C1, and what changes the direction of text or cannot be seen.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
METRIC = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_]\w*="([^"\\\n]|\\[\\"n])*",?)*\})? [-+0-9.eE]+(NaN|Inf)?')


def without_code(block):
    """A block of Markdown without its code spans and escaped characters, as CommonMark reads them."""
    kept, at = [], 0
    while at < len(block):
        if block[at] == "\\" and block[at + 1:at + 2] and not block[at + 1].isalnum():
            at += 2
        elif block[at] == "`":
            ticks = re.match("`+", block[at:]).group()
            end = re.search(f"(?<!`){ticks}(?!`)", block[at + len(ticks):])
            at += len(ticks) + (end.end() if end else 0)
        else:
            kept.append(block[at])
            at += 1
    return "".join(kept)


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: its elements with those of their attributes that act."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.acting = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.acting += [(tag, name, value) for name, value in attributes
                        if name.startswith("on") or name in ("src", "srcdoc", "action", "formaction")
                        or name == "href" and not (value or "").startswith("#")]


class Names(EndToEndTest):
    def setUp(self):
        super().setUp()
        clean = self.synth("clean", "--nodes", "2", "--gpus-per-node", "2", "--steps", "12", "--layers", "1", "--export",
                           "nccl_trace,payload=json,communicator_names=group", "--fault", "slow_gpu:rank=1,factor=1.5")
        self.analyse(clean, "before", "--csv")
        self.traces = self.directory / f"job {HOSTILE[:60]}".replace("/", "_").replace("\x00", "")
        shutil.copytree(clean, self.traces)
        for number, path in enumerate(sorted(self.traces.glob("*.sqlite"))):
            with contextlib.closing(sqlite3.connect(path)) as connection:
                self.rename(connection, number)
                connection.commit()

    def rename(self, connection, number):
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        # Names of calls and of NCCL's kernels and ranges say what they are by their beginning.
        for row, text in connection.execute("SELECT id, value FROM StringIds").fetchall():
            known = text.startswith(("cu", "nccl", "_Z"))
            changed = text + HOSTILE if known else FORMULAS[row % len(FORMULAS)] + HOSTILE + text
            connection.execute("UPDATE StringIds SET value = ? WHERE id = ?", (changed, row))
        connection.execute("UPDATE NVTX_EVENTS SET text = text || ? WHERE text NOT LIKE 'nccl%' AND text NOT LIKE '%NCCL%'", (HOSTILE,))
        connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = ? || value WHERE name = 'Hostname'", (f"={HOSTILE}",))
        connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = value || ? WHERE name NOT IN ('Hostname', 'DeviceEnvironment')",
                           (HOSTILE,))
        connection.execute("UPDATE META_DATA_CAPTURE SET value = value || ? WHERE name = 'DEVICE_DISPLAY_NAME'", (HOSTILE,))
        connection.execute("UPDATE META_DATA_EXPORT SET value = value || ? WHERE name LIKE '%PRODUCT%'", (HOSTILE,))
        connection.execute("UPDATE DIAGNOSTIC_EVENT SET text = text || ?, severity = 3", (HOSTILE,))
        for table, column in (("TARGET_INFO_GPU", "name"), ("TARGET_INFO_GPU", "chipName"), ("TARGET_INFO_GPU", "uuid"),
                              ("PROCESSES", "name"), ("NVTX_PAYLOAD_SCHEMAS", "name")):
            if table in tables:
                connection.execute(f"UPDATE {table} SET {column} = ? || {column} || ?", (FORMULAS[number], HOSTILE))

    def assert_shows_nothing_obeyed(self, text, where):
        found = OBEYED.search(text)
        self.assertIsNone(found, f"{where}: {found and text[max(0, found.start() - 60):found.end() + 20]!r}")

    def test_names_act_in_no_output(self):
        categories = self.directory / "categories.json"
        categories.write_text(json.dumps({"mine": {"m": {"gemm|nvjet": f"={HOSTILE}", "nccl": f"@{HOSTILE}", "": HOSTILE}}}))
        phases = self.directory / "phases.json"
        phases.write_text(json.dumps({f"={HOSTILE}": ["re:.*"]}))
        timeline, metrics = self.directory / "t.json.gz", self.directory / "m.prom"
        missing = self.directory / f"missing {HOSTILE[62:100]}.sqlite".replace("/", "_")
        # A directory stands for its files; a pattern would read brackets.
        done = self.explain([self.traces, missing], "out", "--csv", "--perfetto", timeline, "--prometheus", metrics,
                            "--category-map", categories, "--categories", "mine/m", "--phase-map", phases)
        self.assertIn(done.returncode, (0, 4), done.stderr)
        out = self.directory / "out"
        report = self.report("out")
        self.assertEqual(len(report["trace_ranks"]), 4)
        self.assertEqual([s["trace_rank"] for s in report["stragglers"]], [1], "hostile names change no verdict")
        self.assertIn("owned", json.dumps(report), "the names are there")
        for name, text in (("stdout", done.stdout), ("stderr", done.stderr), ("report.md", (out / "report.md").read_text())):
            self.assert_shows_nothing_obeyed(text, name)
        self.check_markdown((out / "report.md").read_text())
        self.assert_shows_nothing_obeyed((out / "report.json").read_text().translate({ord(c): None for c in "\u202e\u2066\u200b\x9b"}),
                                         "report.json")  # data, in which JSON escapes what is no text
        if (out / "report.html").exists():
            self.check_page(out)
        self.check_tables(out)
        self.assert_shows_nothing_obeyed(metrics.read_bytes().decode(), "metrics")
        for line in metrics.read_bytes().decode().split("\n"):
            if line and not line.startswith("#"):
                self.assertRegex(line, re.compile(rf"^{METRIC.pattern}$"))
        self.assertTrue(json.loads(gzip.decompress(timeline.read_bytes())))
        self.assertEqual(datasets(out / "store.h5").keys() - datasets(self.directory / "before" / "store.h5").keys(),
                         self.tables_of_options(out), "names make no datasets")
        self.assertFalse(list(self.directory.rglob("owned")), "no shell saw a name")

    def tables_of_options(self, out):
        """Datasets that a map of phases or a missing input brings, whatever their names."""
        return {name for name in datasets(out / "store.h5") if name.split("/")[0].startswith("phase")} - \
            set(datasets(self.directory / "before" / "store.h5"))

    def check_markdown(self, text):
        """No HTML and no link but those of a report without such names."""
        fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
        self.assertEqual([line for line in fences if line.strip() not in ("```", "```text", "```sh")], [], "only our own blocks of code")
        text = re.sub(r"(?ms)^ *```(text|sh)?$.*?^ *```$", "", text)
        for block in re.split(r"(?m)^\s*$|^(?=\s*(?:[-*+]|\d+\.) |\|)", text):
            plain = without_code(block)
            for made in ("<script", "<img", "](javascript:", "](http://owned", "</script"):
                self.assertNotIn(made, plain, block[:600])

    def check_page(self, out):
        page, before = (Page((place / "report.html").read_text()) for place in (out, self.directory / "before"))
        self.assertEqual(page.elements.count("script"), before.elements.count("script"))
        self.assertEqual([acting for acting in page.acting if acting not in before.acting], [])
        self.assertNotIn("img", set(page.elements) - set(before.elements))
        self.assertIn("default-src 'none'", (out / "report.html").read_text())

    def check_tables(self, out):
        found = 0
        for path in sorted((out / "tables").glob("*.csv")):
            text = path.read_bytes().decode()
            self.assert_shows_nothing_obeyed(text.replace("\r\n", "\n"), path.name)
            with path.open(newline="") as file:
                rows = list(csv.reader(file))
            for row in rows:
                self.assertEqual(len(row), len(rows[0]), path.name)
                for cell in row:
                    found += "owned" in cell
                    runs = cell[:1] in "=+-@\t\r" and cell and not re.fullmatch(r"-?[0-9.]+(e[-+]?[0-9]+)?|-?inf|nan", cell)
                    self.assertFalse(runs, f"{path.name}: {cell[:80]!r}")
        self.assertGreater(found, 50, "the names are there")

    def test_names_act_in_no_command_that_looks_at_results(self):
        self.analyse(self.traces, "out")
        shown = 0
        for command in (["show", "out"], ["show", "out", "kernels"], ["show", "out", "ranks"], ["show", "out", "findings"],
                        ["compare", "before", "out"], ["show", "out", HOSTILE.replace("\x00", "")],
                        ["compare", "before", HOSTILE.replace("\x00", "")]):
            done = run([TOOL, *command], cwd=self.directory)
            self.assert_shows_nothing_obeyed(done.stdout, command)
            self.assert_shows_nothing_obeyed(done.stderr, command)
            shown += "owned" in done.stdout + done.stderr
        self.assertGreater(shown, 2)


class Secrets(EndToEndTest):
    # Who was recorded, by kind: how nsys or a program would have written it. {} is the secret itself.
    CAPTURE = {f"PROCESS_0:{name}": value for name, value in {
        "COMMAND": "python3-{}", "ARGUMENT_1": "--password={}", "ARGUMENT_2": "--token", "ARGUMENT_3": "{}",
        "ENVIRONMENT_VARIABLE": 'AWS_SECRET_ACCESS_KEY="{}"', "WORKING_DIRECTORY": "/home/{}"}.items()}
    ENVIRONMENT = ["HF_TOKEN={}", "WANDB_API_KEY={}", "GITHUB_TOKEN=ghp_{}", "MYSQL_PWD={}", "OPENAI_API_KEY=sk-{}", "SSH_AUTH_SOCK=/tmp/{}",
                   "http_proxy=http://user:{}@proxy:1", "SLURM_JWT={}", "KRB5CCNAME=FILE:{}", "DATABASE_URL=postgres://a:{}@b/c",
                   "RANKING={}", "NCCL_SECRET={}"]
    # What a program, or nsys, may have written into the texts of ranges and diagnostics.
    TEXTS = ENVIRONMENT + ['AWS_SECRET_ACCESS_KEY="{}"', "curl --token {} --verbose", "login --password={}", "Authorization: Bearer {}",
                           '{{"api_key": "{}", "n": 3}}', "pull from https://{}@host/x", "push with ghp_{}0123456789", "sk-proj-{}-012345",
                           "eyJhbGciOiJIUzI1NiJ9.{}.x"]

    def plant(self, path):
        """Returns what was planted."""
        secrets = []

        def secret(text):
            secrets.append(f"s3cr3t{len(secrets):02d}x{path.stem[-1]}")
            return text.format(secrets[-1])

        with contextlib.closing(sqlite3.connect(path)) as connection:
            for name, value in self.CAPTURE.items():
                connection.execute("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", (name, secret(value)))
            kept = [(name, secret(f"{name}={{}}").split("=", 1)[1]) for name in ("SHELL_HISTORY", "USER_NOTE")]
            variables = "".join(secret(variable) + ";" for variable in self.ENVIRONMENT)
            connection.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = value || ? WHERE name = 'DeviceEnvironment'", (variables,))
            for name, value in kept:
                connection.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'Local (CLI)', ?, 9999, ?)", (name, value))
            connection.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_USER_NOTE', ?)", (secret("{}"),))
            connection.execute("CREATE TABLE PROCESS_ENVIRONMENT (globalPid INTEGER, name TEXT, value TEXT)")
            connection.execute("INSERT INTO PROCESS_ENVIRONMENT VALUES (1, 'API_KEY', ?)", (secret("{}"),))
            connection.execute("INSERT INTO StringIds VALUES (987654, ?)", (secret("of no event {}"),))
            self.plant_texts(connection, secret)
            connection.commit()
        self.assertGreaterEqual(len(secrets), 20)
        return secrets

    def plant_texts(self, connection, secret):
        """Ranges as long as those that are there, of written and of registered texts, and messages of nsys."""
        connection.execute("CREATE TEMP TABLE one AS SELECT * FROM NVTX_EVENTS WHERE eventType = 59 AND text NOT LIKE '%nccl%' LIMIT 1")
        for number, form in enumerate(self.TEXTS):
            connection.execute("UPDATE one SET start = start + 1, end = end + 1, text = ?, textId = NULL", (secret(f"written {form}"),))
            connection.execute("INSERT INTO NVTX_EVENTS SELECT * FROM one")
            connection.execute("INSERT INTO StringIds VALUES (?, ?)", (990000 + number, secret(f"registered {form}")))
            connection.execute("UPDATE one SET start = start + 1, end = end + 1, text = NULL, textId = ?", (990000 + number,))
            connection.execute("INSERT INTO NVTX_EVENTS SELECT * FROM one")
            connection.execute("CREATE TEMP TABLE IF NOT EXISTS said AS SELECT * FROM DIAGNOSTIC_EVENT LIMIT 1")
            connection.execute("UPDATE said SET severity = ?, text = ?", (2 + number % 2, secret(f"reported {form}")))
            connection.execute("INSERT INTO DIAGNOSTIC_EVENT SELECT * FROM said")

    def test_twenty_kinds_reach_no_output_record_or_message(self):
        traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "6", "--export", "rank_hint=slurm", "--fault",
                            "slow_gpu:rank=1,factor=1.5")
        secrets = [secret for path in sorted(traces.glob("*.sqlite")) for secret in self.plant(path)]
        secrets.append("synthetic-secret")
        results = self.directory / "results"
        results.mkdir()
        said = []
        for out, *options in (["whole", "--csv", "--perfetto", results / "t.json.gz", "--prometheus", results / "m.prom", "--timing"],
                              ["cut", "--prometheus", "/nowhere/m.prom"], ["line", "--summary-line"]):
            done = run([TOOL, traces, "--out", results / out, "--cache", results / "cache", *options], cwd=results)
            self.assertEqual(done.returncode, 5 if out == "cut" else 0, done.stderr)
            said += [done.stdout, done.stderr]
        self.assertTrue(list((results / "cut" / "shards").glob("*.record")), "records are among what is looked at")
        self.assertTrue(list((results / "cache").glob("*.record")))
        said += [run([TOOL, "show", "whole", table], cwd=results).stdout for table in ("ranks", "warnings", "findings", "kernels")]
        looked_at = {"messages": "\n".join(said).encode()}
        for path in results.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                looked_at[path] = gzip.decompress(content) if path.suffix == ".gz" else content
        for path in results.rglob("store.h5"):  # compressed
            looked_at[f"{path} unpacked"] = repr({name: values for name, values in datasets(path).items()}).encode()
        for where, content in looked_at.items():
            for secret in secrets:
                self.assertFalse(secret.encode() in content, f"{secret} in {where}")
        for text, where in (("written", "whole/store.h5 unpacked"), ("registered", "whole/store.h5 unpacked"), ("reported", "whole/report.json")):
            content = next(content for name, content in looked_at.items() if str(name).endswith(where))
            self.assertTrue(f"{text} HF_TOKEN=***".encode() in content, f"the rest of what was {text} is there")
        self.assertFalse([path for path in results.rglob("*") if re.fullmatch(r"core(\.\d+)?", path.name)])


class Journals(EndToEndTest):
    """What a crash leaves beside an export, and what somebody may have made of it."""

    def setUp(self):
        super().setUp()
        self.traces = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "8")
        self.analyse(self.traces, "before")
        self.export = sorted(self.traces.glob("*.sqlite"))[0]
        self.journal = pathlib.Path(f"{self.export}-journal")

    def crash(self):
        """In the middle of a change that moves all kernels by a second."""
        whole = self.directory / "whole.sqlite"
        shutil.copy(self.export, whole)
        with contextlib.closing(sqlite3.connect(whole, isolation_level=None)) as connection:
            connection.execute("PRAGMA cache_size = 5")
            connection.execute("BEGIN")
            connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 1000000000, end = end + 1000000000")
            connection.execute("CREATE TABLE more AS SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME")  # what was changed goes to the disk
            shutil.copy(whole, self.export)
            shutil.copy(f"{whole}-journal", self.journal)
            connection.execute("ROLLBACK")

    def name_super_journal(self, path):
        """SQLite deletes what the end of a journal names (https://sqlite.org/atomiccommit.html, 5.6)."""
        name = str(path).encode()
        with self.journal.open("ab") as file:
            file.write(struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name))
                       + bytes.fromhex("d9d505f920a163d7"))

    def test_an_honest_journal_is_rolled_back(self):
        self.crash()
        journal = self.journal.read_bytes()
        self.analyse(self.traces, "after")
        self.assert_same_results("before", "after")
        self.assertEqual(self.journal.read_bytes(), journal)
        self.journal.unlink()
        self.assertNotEqual(self.analyse(self.traces, "without", code=4)["inputs"], self.report("before")["inputs"], "the journal matters")

    def test_a_forged_journal_deletes_no_file(self):
        self.crash()
        victim = self.directory / "thesis.txt"
        victim.write_text("of the user")
        self.name_super_journal(victim)
        done = self.explain(self.traces, "after")
        self.assertEqual(victim.read_text(), "of the user")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("the journal beside the export names another file", done.stderr)


if __name__ == "__main__":
    main()
