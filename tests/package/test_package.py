"""The installed package as its users meet it: find_package, manual page, completion, archives."""

import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["NSYS_EXPLAIN_BUILD"])
CMAKE = os.environ["NSYS_EXPLAIN_CMAKE"]
CPACK = pathlib.Path(CMAKE).with_name("cpack")
HERE = pathlib.Path(__file__).resolve().parent


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=250, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def check_consumer(prefix, work):
    # Nothing of the source tree may be needed: neither headers nor flags.
    run(CMAKE, "-S", HERE, "-B", work / "consumer", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug")
    run(CMAKE, "--build", work / "consumer")
    run(BUILD / "nsys-explain-synth", "--out", work / "job", "--nodes", "1", "--gpus-per-node", "1", "--steps", "2")
    trace = next((work / "job").glob("*.sqlite"))
    with sqlite3.connect(trace) as connection:
        kernels = connection.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]
    assert run(work / "consumer/consumer", trace).startswith(f"{kernels} kernels, window ")
    for file in (prefix / "lib").rglob("*.cmake"):
        assert "-Werror" not in file.read_text(), file


def check_manual(prefix):
    page = prefix / "share/man/man1/nsys-explain-mpi.1"
    text = page.read_text()
    for expected in (".SH NAME", ".SH EXIT CODES", ".SH THE COMMAND MERGE", "\\-\\-require\\-ranks", "\\-\\-only\\-shards"):
        assert expected in text, expected


def check_completion(prefix):
    script = prefix / "share/bash-completion/completions/nsys-explain-mpi"
    tool = prefix / "bin/nsys-explain-mpi"

    def complete(*words):
        return run("bash", "-c", f"source {script}; COMP_WORDS=({tool} {' '.join(words)}); COMP_CWORD={len(words)}; "
                                 "_nsys_explain_mpi; printf '%s\\n' \"${COMPREPLY[@]}\"").split()

    assert complete("--requi") == ["--require-ranks"], complete("--requi")
    assert complete("mer") == ["merge"], complete("mer")
    assert complete("merge", "--only") == ["--only-shards"]
    assert complete("--only") == []


def check_archives(prefix, work):
    # What was installed, or cpack would build everything once more.
    run(CPACK, "--config", BUILD / "CPackConfig.cmake", "-B", work / "packages", "-D", "CPACK_INSTALL_CMAKE_PROJECTS=",
        "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", "-D", f"CPACK_INSTALLED_DIRECTORIES={prefix};/")
    deb, = (work / "packages").glob("*.deb")
    archive, = (work / "packages").glob("*.tar.gz")
    fields = run("dpkg-deb", "--field", deb)
    assert "Package: nsys-explain-mpi" in fields and "libsqlite3" in fields and "libhdf5" in fields, fields
    for names in (run("dpkg-deb", "--contents", deb), run("tar", "-tzf", archive)):
        for name in ("bin/nsys-explain-mpi", "man1/nsys-explain-mpi.1", "cmake/nsys_explain/nsys_explain-config.cmake",
                     "slurm/explain.sbatch", "python/nsys_explain.py", "completions/nsys-explain-mpi", "nsys_explain/ingest/ingest.hpp"):
            assert name in names, name
        assert "synth" not in names, names


with tempfile.TemporaryDirectory(prefix="nsys-explain-package-") as temporary:
    directory = pathlib.Path(temporary)
    run(CMAKE, "--install", BUILD, "--prefix", directory / "prefix")
    check_consumer(directory / "prefix", directory)
    check_manual(directory / "prefix")
    check_completion(directory / "prefix")
    check_archives(directory / "prefix", directory)
    print("installed, consumed, packed", file=sys.stderr)
