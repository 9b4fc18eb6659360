"""Shell scripts, job files and install recipes: what can be checked of them without the machines they are for."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
SHELLCHECK, LUA = shutil.which("shellcheck"), shutil.which("lua5.4")


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)


def shell_scripts():
    return [*PROJECT.glob("jobs/*.sh"), *PROJECT.glob("slurm/*.sh"), *PROJECT.glob("slurm/*.sbatch"),
            *PROJECT.glob("tests/*.sh"), PROJECT / "src/package/completion.bash"]


def packages_found_by_cmake():
    """Names of find_package (and find_path) of the build itself, in lower case."""
    text = (PROJECT / "CMakeLists.txt").read_text()
    names = re.findall(r"^find_package\((\w+)", text, re.M) + re.findall(r"^find_path\((\w+?)_", text, re.M)
    return {name.lower() for name in names} - {"threads"}


class Shell(unittest.TestCase):
    def test_syntax(self):
        self.assertGreater(len(shell_scripts()), 6)
        for script in shell_scripts():
            shell = "sh" if script.read_text().startswith("#!/bin/sh") else "bash"
            done = run(shell, "-n", script)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)

    @unittest.skipIf(SHELLCHECK is None, "shellcheck is not installed: shell scripts were parsed, not linted")
    def test_lint(self):
        done = run(SHELLCHECK, "--shell=bash", "--exclude=SC1091", *shell_scripts())
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_scripts_that_are_run_by_name_are_executable(self):
        for script in shell_scripts():
            if script.suffix == ".sh":
                self.assertTrue(script.stat().st_mode & 0o111, script)



class Documents(unittest.TestCase):
    """Links lead somewhere, and sections that documents and code name are there."""

    PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))]

    def headings(self, page):
        return re.findall(r"^#+ (.+)$", page.read_text(), re.M)

    def test_links(self):
        for page in self.PAGES:
            text = page.read_text()
            for target in re.findall(r"\]\(([^)#]+)\)", text):
                if not target.startswith("http"):
                    self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")
            for target, section in re.findall(r"\]\(([\w/.-]+\.md)\),\s+\"([^\"]+)\"", text):
                self.assertIn(section.replace("\n", " "), self.headings(page.parent / target), page.name)

    def test_sections_that_the_code_cites(self):
        cited = 0
        for source in [*PROJECT.glob("include/**/*.hpp"), *PROJECT.glob("src/**/*.[ch]pp")]:
            text = re.sub(r"\s*\n\s*//+/? ?", " ", source.read_text(encoding="utf-8"))
            for target, section in re.findall(r"(docs/[a-z-]+\.md), ([A-Z]\w*(?: \w+){0,5})", text):
                cited += 1
                self.assertTrue(any(section.startswith(one) for one in self.headings(PROJECT / target)),
                                f"{source.name}: {target}, {section}")
        self.assertGreater(cited, 8)

    def test_the_first_page_is_short(self):
        self.assertLessEqual(len((PROJECT / "README.md").read_text().splitlines()), 150)
        self.assertLess((PROJECT / "docs/images/report.png").stat().st_size, 300_000)


@unittest.skipIf(os.geteuid() != 0, "the hook takes its settings from root only: it was parsed and linted, not run")
class Hook(unittest.TestCase):
    """epilog-slurmctld.sh, with a stand-in for sbatch: what it submits, and that it ends with 0 whatever happens."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nsys-explain-hook-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.directory.chmod(0o755)
        (self.directory / "work" / "nsys-4711").mkdir(parents=True)
        self.log, self.submitted = self.directory / "log", self.directory / "submitted"
        self.job = {"SLURM_JOB_ID": "4711", "SLURM_JOB_UID": "1000", "SLURM_JOB_GID": "1001", "SLURM_JOB_NAME": "train",
                    "SLURM_JOB_WORK_DIR": str(self.directory / "work"), "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NTASKS": "8"}

    def run_hook(self, sbatch=0, environment=None, configuration=None):
        """Runs it as slurmctld does; what reached sbatch, an argument a line, and the environment after it."""
        self.submitted.unlink(missing_ok=True)
        program = self.directory / "sbatch"
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{self.submitted}\nenv >>{self.submitted}\necho 4712\nexit {sbatch}\n")
        program.chmod(0o755)
        settings = self.directory / "settings"
        settings.write_text(f"PATH={self.directory}:$PATH\nEXPLAIN_LOG={self.log}\n")
        done = subprocess.run([PROJECT / "slurm/epilog-slurmctld.sh"], capture_output=True, text=True, timeout=60,
                              env={"NSYS_EXPLAIN_CONF": str(configuration or settings), **(self.job if environment is None else environment)})
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.complaint = done.stderr
        return self.submitted.read_text().splitlines() if self.submitted.exists() else []

    def test_it_submits_for_the_user_of_the_job(self):
        arguments = self.run_hook()
        work = self.directory / "work"
        for expected in ("--uid=1000", "--gid=1001", "--job-name=nsys-explain-4711", f"--chdir={work}", f"{work}/nsys-4711"):
            self.assertIn(expected, arguments)
        self.assertEqual([line for line in arguments if line.startswith("SLURM_")], [], "of the ended job nothing is left")
        self.assertIn("submitted its analysis as job 4712", self.log.read_text())

    def test_reports_can_be_gathered_in_one_place(self):
        self.assertNotIn("--out", self.run_hook())
        settings = self.directory / "gathering"
        settings.write_text(f"PATH={self.directory}:$PATH\nEXPLAIN_LOG={self.log}\nEXPLAIN_REPORTS='/srv/all reports'\n")
        arguments = self.run_hook(configuration=settings)
        at = arguments.index("--")
        self.assertEqual(arguments[at - 1:at + 4], [str(self.directory / "work" / "nsys-4711"), "--", "--out", "/srv/all reports/job-4711", "--force"])

    def test_it_never_recurses(self):
        for name in ("nsys-explain", "nsys-explain-4711"):
            self.assertEqual(self.run_hook(environment={**self.job, "SLURM_JOB_NAME": name}), [])

    def test_jobs_without_traces_or_sense_are_left_alone(self):
        for change in ({"SLURM_JOB_WORK_DIR": "/nonexistent"}, {"SLURM_JOB_ID": "x"}, {"SLURM_JOB_ID": ""},
                       {"SLURM_JOB_UID": ""}, {"SLURM_JOB_UID": "0; true"}, {"SLURM_JOB_ID": "4712"}):
            self.assertEqual(self.run_hook(environment={**self.job, **change}), [], change)
        self.assertEqual(self.run_hook(environment={}), [])

    def test_a_link_to_the_settings_counts_by_what_it_leads_to(self):
        link = self.directory / "link"
        link.symlink_to("settings")
        self.assertIn("--uid=1000", self.run_hook(configuration=link))
        self.assertEqual(self.complaint, "")
        os.lchown(link, 1000, 1000)
        self.assertEqual(self.run_hook(configuration=link), [])
        self.assertIn("not only root can change it", self.complaint)
        nowhere = self.directory / "dangling"
        nowhere.symlink_to("nothing")
        self.run_hook(configuration=nowhere)
        self.assertIn("leads nowhere", self.complaint)

    def test_settings_that_others_can_write_are_refused_loudly(self):
        self.run_hook()
        (self.directory / "open").write_text(f"touch {self.directory}/taken\n")
        (self.directory / "open").chmod(0o666)
        self.run_hook(configuration=self.directory / "open")
        self.assertFalse((self.directory / "taken").exists())
        self.assertIn("is ignored", self.complaint)

    def test_it_looks_for_traces_as_the_user(self):
        os.chown(self.directory / "work", 1000, 1001)
        (self.directory / "work").chmod(0o700)
        self.assertIn("--uid=1000", self.run_hook())
        os.chown(self.directory / "work", 0, 0)
        self.assertEqual(self.run_hook(), [], "root sees it, the user of the job does not")

    def test_failures_end_with_0_too(self):
        self.run_hook(sbatch=1)
        self.assertIn("was not submitted", self.log.read_text())
        self.log = self.directory / "nowhere" / "log"
        self.run_hook(sbatch=1)


class Capture(unittest.TestCase):
    """srun-capture.sh, with a stand-in for nsys that says where it records."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nsys-explain-capture-"))
        self.addCleanup(shutil.rmtree, self.directory)
        program = self.directory / "nsys"
        program.write_text('#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done; echo "records $2"\n')
        program.chmod(0o755)

    def capture(self, *options, rank="8"):
        environment = {"PATH": f"{self.directory}:{os.environ['PATH']}", "SLURM_JOB_ID": "4711", "SLURM_PROCID": rank}
        return subprocess.run([PROJECT / "slurm/srun-capture.sh", "--no-export", "--out", self.directory / "out", *options,
                               "echo", "unprofiled"], capture_output=True, text=True, timeout=60, env=environment)

    def test_numbers_of_ranks_are_decimal(self):
        for ranks, rank, recorded in (("08", "8", True), ("007-09", "8", True), ("010", "8", False), ("010", "10", True)):
            done = self.capture("--ranks", ranks, rank=rank)
            self.assertEqual((done.returncode, done.stderr), (0, ""), ranks)
            self.assertEqual(done.stdout.startswith("records"), recorded, (ranks, rank))

    def test_a_local_directory_is_the_users_alone(self):
        local = self.directory / "local"
        place = local / "nsys-4711"
        for _ in range(2):  # the second task of a node finds it made
            self.assertIn(f"records {place}", self.capture("--local", local).stdout)
            self.assertEqual(place.stat().st_mode & 0o777, 0o755)
        elsewhere = self.directory / "elsewhere"
        elsewhere.mkdir()
        for make in (lambda: place.mkdir() or place.chmod(0o777), lambda: place.symlink_to(elsewhere)):
            place.unlink() if place.is_symlink() else place.rmdir()
            make()
            done = self.capture("--local", local)
            self.assertEqual((done.returncode, done.stdout), (0, "unprofiled\n"))
            self.assertIn("give another --local", done.stderr)


class Spack(unittest.TestCase):
    """The recipe, run with a stand-in for Spack that takes down what it declares."""

    def setUp(self):
        self.declared = {"depends_on": [], "version": [], "conflicts": [], "generator": [], "license": [], "variant": []}

        variants = self.declared["variant"]

        class CMakePackage:
            run_tests = False

            def define(self, name, value):
                return f"-D{name}={'ON' if value else 'OFF'}"

            def define_from_variant(self, name, variant):
                return self.define(name, any(a[0] == variant for a, _ in variants))

        stand_in = types.ModuleType("spack.package")
        stand_in.CMakePackage = CMakePackage
        for directive, calls in self.declared.items():
            setattr(stand_in, directive, lambda *a, calls=calls, **k: calls.append((a, k)))
        recipe = {}
        modules = {"spack": types.ModuleType("spack"), "spack.package": stand_in}
        sys.modules.update(modules)
        self.addCleanup(lambda: [sys.modules.pop(name) for name in modules])
        path = PROJECT / "slurm/spack/package.py"
        exec(compile(path.read_text(), path, "exec"), recipe)  # noqa: S102
        self.recipe = recipe["NsysExplainMpi"]

    def names(self):
        return {re.match(r"[\w-]+", arguments[0])[0]: options for arguments, options in self.declared["depends_on"]}

    def test_it_depends_on_what_the_build_looks_for(self):
        spack_names = {"sqlite3": "sqlite", "zlib": "zlib-api", "nlohmann_json": "nlohmann-json"}  # CMake name: Spack name
        for package in packages_found_by_cmake():
            self.assertIn(spack_names.get(package, package), self.names())
        for package in ("googletest", "benchmark"):
            self.assertEqual(self.names()[package]["type"], "test")

    def test_its_version_can_be_fetched_and_its_options_exist(self):
        self.assertTrue(self.recipe.git.endswith(".git"))
        self.assertEqual(len(self.declared["version"]), 1)
        options = re.findall(r"^option\((\w+)", (PROJECT / "CMakeLists.txt").read_text(), re.M)
        for argument in self.recipe().cmake_args():
            self.assertIn(re.match(r"-D(\w+)=", argument)[1], [*options, "NSYS_EXPLAIN_HTML"])


class Apptainer(unittest.TestCase):
    def sections(self):
        text = (PROJECT / "slurm/apptainer.def").read_text()
        parts = re.split(r"^%(\w+)\n", text, flags=re.M)
        return parts[0], dict(zip(parts[1::2], parts[2::2]))

    def test_header_and_sections(self):
        header, sections = self.sections()
        self.assertRegex(header, r"(?m)^Bootstrap: docker\nFrom: debian:12$")
        self.assertEqual(list(sections), ["files", "post", "runscript", "test"])
        for name in ("post", "runscript", "test"):
            self.assertEqual(subprocess.run(["sh", "-n"], input=sections[name], text=True).returncode, 0)

    def test_the_files_that_it_copies_are_all_that_a_build_needs(self):
        _, sections = self.sections()
        with tempfile.TemporaryDirectory() as temporary:
            (pathlib.Path(temporary) / "src").mkdir()
            for line in sections["files"].splitlines():
                if not line.strip():
                    continue
                source, target = line.split()
                self.assertTrue(target.startswith("/src/"), line)
                copy = shutil.copytree if (PROJECT / source).is_dir() else shutil.copy
                copy(PROJECT / source, f"{temporary}{target}")
            # As in %post, without the page, whose packages come from the network.
            self.assertIn("cmake --preset release -DNSYS_EXPLAIN_TESTS=OFF", sections["post"])
            done = subprocess.run(["cmake", "--preset", "release", "-DNSYS_EXPLAIN_TESTS=OFF", "-DNSYS_EXPLAIN_HTML=OFF"],
                                  cwd=f"{temporary}/src", capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = run("ninja", "-C", f"{temporary}/src/build/release", "-n", "all")
            self.assertEqual(done.returncode, 0, done.stdout)


class Module(unittest.TestCase):
    @unittest.skipIf(LUA is None, "lua5.4 is not installed: the module file was not run")
    def test_it_sets_paths_below_its_prefix(self):
        stand_in = """
            function help() end
            function whatis() end
            function pathJoin(...) return table.concat({...}, "/") end
            function prepend_path(name, path) print(name .. "=" .. path) end
            setenv = prepend_path
            dofile(arg[1])"""
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(stand_in)
            script.flush()
            done = run(LUA, script.name, PROJECT / "slurm/modulefiles/nsys-explain-mpi.lua")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ["PATH=/opt/nsys-explain-mpi/bin", "MANPATH=/opt/nsys-explain-mpi/share/man",
                                               "NSYS_EXPLAIN_HOME=/opt/nsys-explain-mpi"])


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    for test, reason in program.result.skipped:
        print(f"SKIPPED {test}: {reason}", file=sys.stderr)
    sys.exit(0 if program.result.wasSuccessful() else 1)
