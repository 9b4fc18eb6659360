#!/usr/bin/env python3
"""clang-tidy over all of src: lint.py BUILD_DIRECTORY [JOBS]; ends with 1 where there are findings, and prints them.

Its static analyzer looks at each file by itself, as it looks at functions of the main file only. All other checks spend
their time on the headers that a file includes, so they are given units of about eight files, which include the files
themselves, as unity builds do. Files of one module may have equal names in their unnamed namespaces: they go to
different units as far as there are any, and a unit that does not compile is taken apart.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

FILES_PER_UNIT = 8
ROOT = pathlib.Path(__file__).resolve().parent.parent

# Changes to the checks that .clang-tidy chooses.
ANALYZER = "-*,clang-analyzer-*,-clang-analyzer-optin.mpi*"
ALL_ELSE = "-clang-analyzer-*"
# GCC's warning options are not clang's business; the analyzer's shallow mode takes a quarter of the time.
CLANG_TIDY = ["clang-tidy", "-quiet", "-extra-arg=-Wno-unknown-warning-option"] + [
    f"-extra-arg={argument}" for argument in ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")]


def commands_of_source(build):
    """{file: its compile command} of all files of src, by name; of a file compiled twice its first."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if (ROOT / "src") in pathlib.Path(entry["file"]).parents:
            commands.setdefault(entry["file"], shlex.split(entry["command"]))
    return dict(sorted(commands.items()))


def include_and_define_options(commands):
    """The options -I, -isystem and -D of all the commands, each once."""
    options = {}
    for command in commands:
        for argument, following in zip(command, command[1:]):
            if argument.startswith(("-I", "-D")):
                options[argument,] = None
            elif argument == "-isystem":
                options[argument, following] = None
    return [argument for option in options for argument in option]


def clang_tidy(checks, directory, file):
    """What clang-tidy has to say of a file that is compiled as the directory says, "" if nothing."""
    result = subprocess.run([*CLANG_TIDY, f"--checks={checks}", "-p", str(directory), str(file)], text=True, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode == 0:
        return ""
    return f"{result.stdout}clang-tidy ended with {result.returncode} for {file}\n"


class Units:
    """Looks at files of a build together, where they compile together."""

    def __init__(self, build, commands):
        self.build = build
        self.units = build / "lint"
        self.units.mkdir(exist_ok=True)
        flags = ["-std=c++20", *include_and_define_options(commands.values())]
        (self.units / "compile_flags.txt").write_text("".join(f"{flag}\n" for flag in flags))

    def findings(self, name, files):
        """What all checks but the analyzer have to say of the files, "" if nothing. The unit is called `name`."""
        if len(files) == 1:
            return clang_tidy(ALL_ELSE, self.build, files[0])
        unit = self.units / f"{name}.cpp"
        unit.write_text("".join(f'#include "{file}"  // NOLINT(bugprone-suspicious-include)\n' for file in files))
        findings = clang_tidy(ALL_ELSE, self.units, unit)
        if "[clang-diagnostic-error" in findings:
            findings = self.findings(name + "a", files[0::2]) + self.findings(name + "b", files[1::2])
        return findings


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else len(os.sched_getaffinity(0))
    commands = commands_of_source(build)
    if not commands:
        sys.exit(f"{build}/compile_commands.json names no file of {ROOT}/src; there is nothing to look at")
    units = Units(build, commands)
    files = list(commands)
    count = -(-len(files) // FILES_PER_UNIT)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = [pool.submit(units.findings, f"unit_{k:02}", files[k::count]) for k in range(count)]
        found += [pool.submit(clang_tidy, ANALYZER, build, file) for file in files]
        findings = [future.result() for future in found]
    print("".join(findings), end="")
    if any(findings):
        sys.exit("clang-tidy has findings, see above")
    print(f"no findings in {len(commands)} files")


if __name__ == "__main__":
    main()
