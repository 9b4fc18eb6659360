"""The tool on a real Slurm and several hosts, as a user or an administrator runs it. Every host lives on this machine
(cluster.py); where none can be made the test says why and is skipped."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import cluster as pretend

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(PROJECT / "tests/end_to_end"))

from hanging_export import HangingExport

TOOL = os.environ.get("NSYS_EXPLAIN_TOOL", str(PROJECT / "build/release/nsys-explain-mpi"))
SYNTH = os.environ.get("NSYS_EXPLAIN_SYNTH", str(PROJECT / "build/release/nsys-explain-synth"))
SKIPPED = 77
USER = 65534  # nobody
SLOW_RANK = 5


def results(directory):
    """What a run found: everything but the facts of the run itself, and where the files lay."""
    report = json.loads((pathlib.Path(directory) / "report.json").read_text())
    del report["run"]
    return json.loads(re.sub(r"/[^\s\"']*/traces/", "", json.dumps(report)))


def block_after(text):
    """The block of code in docs/slurm.md that follows this text."""
    return (PROJECT / "docs" / "slurm.md").read_text().split(text)[1].split("```")[1]


class Cluster(unittest.TestCase):
    PREFIX = "/opt/nsys-explain-mpi"  # where docs/slurm.md says that the tool is

    @classmethod
    def setUpClass(cls):
        settings = block_after("In `slurm.conf`:").replace(cls.PREFIX, "{directory}")
        cls.cluster = pretend.Cluster(hosts=4, settings=settings)
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.install()
        cls.cluster.__enter__()
        cls.shared = cls.cluster.directory / "shared"
        cls.shared.mkdir()
        cls.shared.chmod(0o1777)
        cls.tool = cls.cluster.directory / pathlib.Path(TOOL).name
        cls.traces = cls.shared / "traces"
        subprocess.run([SYNTH, "--out", cls.traces, "--nodes", "4", "--gpus-per-node", "2", "--seed", "3",
                        "--steps", "12", "--fault", f"slow_gpu:rank={SLOW_RANK},factor=1.3"], check=True,
                       capture_output=True)
        cls.names = sorted(p.name for p in cls.traces.glob("*.sqlite"))
        cls.rank_names = {name: int(name.split("rank_")[1].split("_")[0].split(".")[0]) for name in cls.names}
        subprocess.run([TOOL, cls.traces, "--out", cls.shared / "expected", "--quiet"], check=True, capture_output=True)
        cls.expected = results(cls.shared / "expected")
        (cls.shared / "by-rank").mkdir()
        for name, rank in cls.rank_names.items():
            (cls.shared / "by-rank" / f"{rank}.sqlite").symlink_to(cls.traces / name)
            local = cls.cluster.local_disk(f"h{1 + rank // 2}") / "traces"
            local.mkdir(exist_ok=True)
            shutil.copy(cls.traces / name, local)

    @classmethod
    def install(cls):
        """Before Slurm starts: it looks whether its hook is there."""
        # Copies that every user of the cluster may run, wherever the build lies.
        for program in (TOOL, SYNTH):
            shutil.copy(program, cls.cluster.directory)
        cls.slurm = cls.cluster.directory / "share/nsys-explain-mpi/slurm"
        shutil.copytree(PROJECT / "slurm", cls.slurm)
        # The hook reads its settings in /etc, which all hosts share with this machine. Here they lie elsewhere, and the
        # hook does nothing until they do.
        cls.hook_settings = cls.cluster.directory / "hook.conf"
        hook = cls.slurm / "epilog-slurmctld.sh"
        cls.installed_hook = hook.rename(hook.with_suffix(".installed"))
        hook.write_text(f"#!/bin/sh\n[ -f {cls.hook_settings} ] || exit 0\n"
                        f"NSYS_EXPLAIN_CONF={cls.hook_settings} exec {cls.installed_hook}\n")
        hook.chmod(0o755)

    def out(self):
        return self.shared / f"out-{self._testMethodName}"

    def assert_run(self, done, code=0):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def assert_names_the_culprit(self, report):
        self.assertEqual([s["trace_rank"] for s in report["stragglers"]][:1], [SLOW_RANK])


class Launches(Cluster):
    def test_shared_traces_give_the_same_results_on_any_number_of_nodes(self):
        self.assert_names_the_culprit(self.expected)
        for nodes, ranks in ((1, 2), (2, 4), (4, 8)):
            out = pathlib.Path(f"{self.out()}-{nodes}")
            done = self.cluster.srun(f"--nodes={nodes}", f"--ntasks={ranks}", self.tool, self.traces, "--out", out)
            self.assert_run(done)
            self.assertEqual(results(out), self.expected, f"{nodes} nodes")
            self.assertEqual(json.loads((out / "report.json").read_text())["run"]["tool_ranks"], ranks)
            self.assertIn(f"(rank {SLOW_RANK}) runs ", done.stdout)

    def test_node_local_traces_are_found_by_pattern_directory_and_placeholder(self):
        for number, argument in enumerate(("/mnt/local/traces/*.sqlite", "/mnt/local/traces", "/mnt/%q{DISK}/traces/*")):
            out = pathlib.Path(f"{self.out()}-{number}")
            done = self.cluster.srun("--nodes=4", "--ntasks=4", self.tool, argument, "--out", out, "--require-ranks", "8",
                                     environment={"DISK": "local"})
            self.assert_run(done)
            self.assertEqual(results(out), self.expected, argument)

    def test_shared_and_local_copies_of_one_file_are_read_once(self):
        done = self.cluster.srun("--nodes=4", "--ntasks=4", self.tool, "/mnt/local/traces", "--out", self.out())
        self.assert_run(done)
        mixed = pathlib.Path(f"{self.out()}-mixed")
        done = self.cluster.srun("--nodes=4", "--ntasks=4", self.tool, "/mnt/local/traces", self.traces, "--out", mixed)
        self.assertEqual(len(json.loads((mixed / "report.json").read_text())["trace_ranks"]), len(self.names))

    def test_missing_ranks_end_the_run_before_anything_is_read(self):
        done = self.cluster.srun("--nodes=2", "--ntasks=2", "--nodelist=h1,h2", self.tool, "/mnt/local/traces", "--out",
                                 self.out(), "--require-ranks", "8")
        self.assert_run(done, 4)
        self.assertIn("hold at most 4 ranks", done.stderr)
        self.assertFalse(self.out().exists())

    def test_a_launch_without_mpi_is_noticed(self):
        done = self.cluster.srun("--mpi=none", "--nodes=1", "--ntasks=2", self.tool, self.traces, "--out", self.out())
        self.assertIn("this one sees an MPI world of one rank", done.stderr)

    def test_without_path_and_home(self):
        done = self.cluster.on("h1", [self.tool, self.traces, "--out", self.out()],
                               environment={"PATH": "/nowhere", "HOME": None, "SLURM_CONF": None})
        # `env -i` itself is found before PATH changes.
        self.assert_run(done)
        self.assertEqual(results(self.out()), self.expected)


class Damage(Cluster):
    def test_a_corrupt_trace_on_one_node(self):
        name = next(n for n, rank in self.rank_names.items() if rank == 2)
        path = self.cluster.local_disk("h2") / "traces" / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 3])
        try:
            done = self.cluster.srun("--nodes=4", "--ntasks=4", self.tool, "/mnt/local/traces", "--out", self.out())
        finally:
            path.write_bytes(whole)
        self.assert_run(done, 4)
        report = json.loads((self.out() / "report.json").read_text())
        failed = [i for i in report["inputs"] if i["status"] == "failed"]
        self.assertEqual([pathlib.Path(i["path"]).name for i in failed], [name])
        self.assert_names_the_culprit(report)

    def test_a_full_disk_leaves_older_results_alone(self):
        small = pathlib.Path("/mnt/local/small")
        host = "h1"
        self.cluster.on(host, ["mkdir", "-p", small])
        self.assertEqual(self.cluster.on(host, ["mount", "-t", "tmpfs", "-o", "size=8m", "none", small]).returncode, 0)
        run = ["--nodelist=h1", "--nodes=1", "--ntasks=2", self.tool, self.traces, "--out", small / "out"]
        self.assert_run(self.cluster.srun(*run))
        state = ["sh", "-c", f"cksum {small}/out/*.*"]
        before = self.cluster.on(host, state).stdout
        self.assertIn("report.md", before)
        self.cluster.on(host, ["dd", "if=/dev/zero", f"of={small}/filler", "bs=4k"])
        done = self.cluster.srun(*run, "--force")
        self.assert_run(done, 5)
        self.assertIn("cannot", done.stderr)
        self.assertEqual(self.cluster.on(host, state).stdout, before)

    def test_a_read_only_output(self):
        frozen = "/mnt/local/frozen"
        self.cluster.on("h1", ["mkdir", "-p", frozen])
        self.cluster.on("h1", ["mount", "-t", "tmpfs", "-o", "ro", "none", frozen])
        done = self.cluster.srun("--nodelist=h1", "--nodes=1", "--ntasks=2", self.tool, self.traces, "--out", f"{frozen}/out")
        self.assert_run(done, 5)


class CutOff(Cluster):
    """Runs over node-local traces that hang in one of them, on h2: a stand-in for nsys waits there at a gate."""

    INPUTS = "/mnt/local/cut/*"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, rank in cls.rank_names.items():
            cut = cls.cluster.local_disk(f"h{1 + rank // 2}") / "cut"
            cut.mkdir(exist_ok=True)
            if rank == 3:
                (cut / "rank_3.nsys-rep").write_text(f"{cls.shared}/by-rank/3.sqlite")
            else:
                shutil.copy(cls.traces / name, cut / f"rank_{rank}.sqlite")
        cls.export = HangingExport(cls.shared)
        cls.environment = {"PATH": cls.export.path(pretend.SYSTEM_PATH)}
        done = cls.cluster.srun("--nodes=4", "--ntasks=4", cls.tool, cls.INPUTS, "--export", "--out",
                                cls.shared / "undisturbed", environment=cls.environment)
        assert done.returncode == 0, done.stderr
        cls.undisturbed = results(cls.shared / "undisturbed")

    def start(self, *options):
        """An srun that hangs, once all that can be read was read; and the process number of the tool on h2."""
        self.export.close()
        self.addCleanup(self.export.open)
        process = self.cluster.start_on("h0", ["srun", "--immediate=20", "--mpi=pmix", "--kill-on-bad-exit=1", "--nodes=4", "--ntasks=4", "--job-name",
                                               self._testMethodName, self.tool, self.INPUTS, "--export", "--out",
                                               self.out(), *options], environment=self.environment)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        shards = self.out() / "shards"
        self.cluster._until(lambda: self.export.hanging_tool() and len(list(shards.glob("*.record"))) == 8,  # 7 and the plan
                            "the run did not come to the gate")
        return process, self.export.hanging_tool()

    def assert_merge_finishes(self, *nodes, options=()):
        self.export.open()
        done = self.cluster.srun(f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", f"--nodelist={','.join(nodes)}", self.tool,
                                 "merge", self.out() / "shards", "--out", self.out(), *options, environment=self.environment)
        self.assert_run(done)
        self.assertEqual(results(self.out()), self.undisturbed)
        self.assertFalse((self.out() / "shards").exists())

    def assert_partial(self):
        report = json.loads((self.out() / "report.json").read_text())
        self.assertEqual([i["path"] for i in report["inputs"] if i["status"] == "failed"], ["/mnt/local/cut/rank_3.nsys-rep"])
        self.assertEqual(report["findings"][0]["id"], "partial-report")
        self.assert_names_the_culprit(report)

    def test_1_a_killed_rank_then_merge(self):
        process, tool = self.start()
        self.assertEqual(self.cluster.on("h2", ["kill", "-9", tool]).returncode, 0)
        _, problems = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0, problems)
        self.assert_merge_finishes("h1", "h2", "h3", "h4", options=["--force"])

    def test_2_sigterm_as_at_the_time_limit(self):
        process, _ = self.start()
        self.cluster.on("h0", ["scancel", "--signal=TERM", "--name", self._testMethodName])
        _, problems = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0, problems)
        self.assertIn("got SIGTERM", problems)
        self.assertIn(f"merge {self.out()}/shards", problems)
        self.assert_partial()

    def test_3_a_lost_host_then_merge(self):
        process, _ = self.start("--timeout", "8")
        self.cluster.kill_host("h4")
        # Slurm takes its time to notice; the timeout does not.
        self.cluster._until(lambda: (self.out() / "report.json").exists(), "no partial report")
        self.assert_partial()
        process.kill()
        # What h4 had on its disk is nowhere but in the shards.
        self.assert_merge_finishes("h1", "h2", "h3", options=["--force"])


class Hooks(Cluster):
    def submit(self, *arguments, **options):
        done = self.cluster.on("h0", ["sbatch", "--parsable", *arguments], **options)
        self.assert_run(done)
        return int(done.stdout.split(";")[0])

    def home(self):
        """A directory of the ordinary user."""
        home = self.shared / f"home-{self._testMethodName}"
        home.mkdir()
        os.chown(home, USER, USER)
        return home

    def fake_nsys(self, where):
        """An nsys that records nothing: it runs the program, and its export is a trace made before."""
        where.mkdir(exist_ok=True)
        nsys = where / "nsys"
        nsys.write_text(f"""#!/bin/bash
if [ "$1" = profile ]; then
  while [ $# -gt 0 ] && [ "$1" != --output ]; do shift; done
  host=$(hostname -s); name=${{2//%h/$host}}; name=${{name//%q{{SLURM_PROCID\\}}/$SLURM_PROCID}}
  touch "$name.nsys-rep"; shift 2; exec "$@"
fi
for argument; do case $previous in --output) out=$argument ;; esac; previous=$argument; done
[ -n "$out" ] || for argument; do case $argument in --output=*) out=${{argument#--output=}} ;; esac; done
cp {self.shared}/by-rank/$SLURM_PROCID.sqlite "$out"
""")
        nsys.chmod(0o755)
        return f"{where}:{pretend.SYSTEM_PATH}"

    def test_a_dependent_analysis_after_a_captured_job(self):
        home = self.home()
        path = self.fake_nsys(home / "bin")
        environment = {"PATH": path, "HOME": str(home), "NSYS_EXPLAIN_TOOL": str(self.tool), **self.mpi_for_slurm()}
        options = {"user": USER, "cwd": home, "environment": environment}
        job = self.submit("--nodes=4", "--ntasks-per-node=2", "--wrap", f"srun --mpi=none {self.slurm}/srun-capture.sh true", **options)
        done = self.cluster.on("h0", [self.slurm / "submit-after.sh", job, "--", "--nodes=2", "--ntasks-per-node=2"], **options)
        self.assert_run(done)
        self.assertTrue(self.cluster.wait_for_jobs())
        logs = "".join(p.read_text() for p in [*home.glob("*.out"), *home.glob("*.log")])
        self.assertEqual(len(list((home / f"nsys-{job}").glob("rank_*_h?.sqlite"))), 8, logs)
        report = json.loads((home / f"nsys-{job}-explained" / "report.json").read_text())
        self.assert_names_the_culprit(report)
        self.assertEqual(report["run"]["tool_ranks"], 4)

    def test_arrays_and_sizes_by_option(self):
        home = self.home()
        for task, ranks in ((1, (0, 1, 2, 3)), (2, (4, 5, 6, 7))):
            traces = home / f"run{task}" / "traces"
            traces.mkdir(parents=True)
            for name in (n for n, rank in self.rank_names.items() if rank in ranks):
                (traces / name).symlink_to(self.traces / name)
            os.chown(traces.parent, USER, USER)
        environment = {"HOME": str(home), "NSYS_EXPLAIN_TOOL": str(self.tool), **self.mpi_for_slurm()}
        self.submit("--array=1-2", "--nodes=2", "--ntasks-per-node=1", self.slurm / "explain.sbatch", "run%a/traces", "--",
                    "--csv", user=USER, cwd=home, environment=environment)
        self.assertTrue(self.cluster.wait_for_jobs())
        for task, culprits in ((1, []), (2, [SLOW_RANK])):
            out = home / f"run{task}" / "traces-explained"
            report = json.loads((out / "report.json").read_text())
            self.assertEqual((report["run"]["tool_ranks"], len(report["run"]["hosts"])), (2, 2))
            self.assertEqual([s["trace_rank"] for s in report["stragglers"]][:1], culprits)
            self.assertTrue((out / "tables" / "ranks.csv").exists())

    def test_the_controller_hook_submits_for_the_user_and_never_recurses(self):
        home = self.home()
        path = self.fake_nsys(home / "bin")
        log = self.cluster.directory / "hook.log"
        reports = self.shared / "reports"  # as docs/slurm.md says: everybody may write into it
        reports.mkdir()
        reports.chmod(0o1777)
        settings = block_after("Settings go into `/etc/nsys-explain-mpi.conf`")
        for documented, here in (("/shared/nsys-explain-reports", reports), ("/etc/slurm", self.cluster.directory), ("/var/log/nsys-explain-hook.log", log),
                                 (f"{self.PREFIX}/bin", self.cluster.directory), ("=service", "=main")):
            self.assertIn(documented, settings)
            settings = settings.replace(documented, str(here))
        self.addCleanup(self.hook_settings.unlink)
        self.hook_settings.write_text(settings + 'EXPLAIN_OPTIONS="$EXPLAIN_OPTIONS --export=ALL"\n'
                                      + "".join(f"export {k}={v}\n" for k, v in self.mpi_for_slurm().items()))
        environment = {"PATH": path, "HOME": str(home)}
        options = {"user": USER, "cwd": home, "environment": environment}
        capture = self.slurm / "srun-capture.sh"
        job = self.submit("--nodes=4", "--ntasks-per-node=2", "--wrap", f"srun --mpi=none {capture} --local /mnt/local true", **options)
        plain = self.submit("--wrap", "true", **options)
        self.wait_for_hook(log, 1)
        self.assertTrue(self.cluster.wait_for_jobs())
        report = reports / f"job-{job}" / "report.json"
        self.assertTrue(report.exists(), log.read_text() + "".join(p.read_text() for p in [*home.glob("*.out"), *home.glob("*.log")]))
        self.assertEqual(os.stat(report).st_uid, USER)
        self.assert_names_the_culprit(json.loads(report.read_text()))
        # The analysis job ended, too, and so did one without traces: no hook submitted anything more.
        finished = self.cluster.finished_jobs()
        self.assertEqual(len([j for j in finished if finished[j]["Name"].startswith("nsys-explain-")]), 1, finished)
        self.assertNotIn(f"job {plain}:", log.read_text())
        self.assertEqual({n for n in self.cluster.on("h0", ["sinfo", "-h", "-o", "%t"]).stdout.split()}, {"idle"})

    def test_the_hook_takes_no_settings_from_a_file_others_can_write(self):
        configuration = self.cluster.directory / "open.conf"
        configuration.write_text(f"touch {self.cluster.directory}/taken\n")
        configuration.chmod(0o666)
        done = self.cluster.on("h0", [self.installed_hook],
                               environment={"NSYS_EXPLAIN_CONF": str(configuration), "SLURM_JOB_ID": "1"})
        self.assert_run(done)
        self.assertFalse((self.cluster.directory / "taken").exists())

    @staticmethod
    def mpi_for_slurm():
        return dict(pretend.MPI_ENVIRONMENT)

    def wait_for_hook(self, log, lines):
        self.cluster._until(lambda: log.exists() and len(log.read_text().splitlines()) >= lines, "the hook did nothing")


if __name__ == "__main__":
    reason = pretend.why_not()
    if reason is not None:
        print(f"SKIPPED: no cluster can be made here ({reason}): nothing about Slurm and several hosts was tested")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
