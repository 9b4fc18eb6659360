"""The digest of the code that records carry: a small project is built again and again, as a developer would change it."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
CMAKE = os.environ.get("NSYS_EXPLAIN_CMAKE", "cmake")
RECIPE = "src/pipeline/read/code_digest.cmake"
CMAKELISTS = f"""cmake_minimum_required(VERSION 3.22)
project(small CXX)
set(CMAKE_CXX_STANDARD 20)
add_executable(small src/main.cpp src/analysis/table.cpp src/report/page.cpp)
target_include_directories(small PRIVATE src)
set_target_properties(small PROPERTIES UNITY_BUILD ON)
include({RECIPE})
nsys_explain_code_digest(small)
"""
MAIN = '#include <cstdio>\n#include "pipeline/read/code_digest.hpp"\nint main() { std::puts(nsys_explain::pipeline::code_digest().data()); }\n'
PARTS = ("include", "src/model", "src/ingest", "src/clock", "src/collectives", "src/analysis", "src/pipeline/read", "src/pipeline/run")


def digest_of(root):
    """By its definition: the SHA-256 of lines of name and SHA-256, in the order of names."""
    files = sorted(path.relative_to(root) for part in PARTS for path in (root / part).rglob("*")
                   if path.suffix in (".cpp", ".hpp", ".inc"))
    lines = "".join(f"{file} {hashlib.sha256((root / file).read_bytes()).hexdigest()}\n" for file in sorted(map(str, files)))
    return hashlib.sha256(lines.encode()).hexdigest()


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


class SmallProject(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nsys-explain-digest-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.root = self.directory / "project"
        for name, text in (("CMakeLists.txt", CMAKELISTS), ("src/main.cpp", MAIN), ("src/analysis/table.cpp", "int table = 1;\n"),
                           ("src/analysis/tables/peaks.inc", "1\n"), ("src/report/page.cpp", "int page = 1;\n"), ("docs/page.md", "1\n")):
            self.write(name, text)
        for name in (RECIPE, "src/pipeline/read/code_digest.hpp"):
            self.write(name, (PROJECT / name).read_text())
        self.generator = ["-G", "Ninja"] if shutil.which("ninja") else []

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self, root=None):
        """The digest that the program has now."""
        root = root or self.root
        if not (root / "build").exists():
            run(CMAKE, *self.generator, "-S", root, "-B", root / "build", "-DCMAKE_BUILD_TYPE=Debug")
        run(CMAKE, "--build", root / "build")
        digest = run(root / "build/small").strip()
        self.assertEqual(digest, digest_of(root))
        return digest

    def objects(self):
        """When each was compiled."""
        return {path.name: path.stat().st_mtime_ns for path in (self.root / "build").rglob("*.o")}

    def test_it_follows_the_code_and_nothing_else(self):
        first, compiled = self.build(), self.objects()
        self.write("docs/page.md", "2\n")
        (self.root / "src/analysis/tables/peaks.inc").touch()
        self.assertEqual(self.build(), first)
        self.assertEqual(self.objects(), compiled, "nothing is compiled for what changes nothing")
        self.write("src/analysis/tables/peaks.inc", "2\n")
        changed = self.build()
        self.assertNotEqual(changed, first)
        again = self.objects()
        self.assertEqual({name for name in again if again[name] != compiled[name]}, {"code_digest.cpp.o"}, "one small source is compiled")
        # Files come and go, also such as are older than what was built.
        (self.root / "src/ingest").mkdir()
        shutil.copy2(self.root / "src/report/page.cpp", self.root / "src/ingest/more.hpp")
        self.assertNotIn(self.build(), (first, changed))
        (self.root / "src/ingest/more.hpp").unlink()
        self.assertEqual(self.build(), changed)
        self.write("src/analysis/tables/peaks.inc", "1\n")
        self.assertEqual(self.build(), first)

    def test_it_is_the_same_elsewhere(self):
        other = self.directory / "elsewhere" / "of another name"
        shutil.copytree(self.root, other)
        self.assertEqual(self.build(), self.build(other))


if __name__ == "__main__":
    unittest.main()
