#!/usr/bin/env python3
"""Checks which module includes what (the architecture of this project, as a table), how long files and functions are,
and that the files and functions which pages and comments name exist.

usage: include_rules.py [SOURCE_TREE]    check the tree (default: the one this script lies in)
       include_rules.py --self-test      check that broken rules are found

A file of src/M, include/nsys_explain/M or tests/simulation may include the standard library, its own module, and what ALLOWED[M] names.
Within a module that has rooms (folders in the order of work), a file includes only what stands in its own room or an
earlier one; what lies beside the rooms (pipeline/run.cpp) includes all of them. Headers are named by their path from src, or from include.
"""

import re
import sys
import tempfile
from pathlib import Path

# Stage modules never include each other: only the pipeline composes them.
ALLOWED = {
    "model": {"modules": (), "libraries": ("re2",)},
    "exchange": {"modules": (), "libraries": ("mpi", "fmt", "posix")},
    "ingest": {"modules": ("model",), "libraries": ("sqlite", "fmt", "json", "simdjson", "zlib", "posix")},
    "clock": {"modules": ("model",), "libraries": ("fmt",)},
    "collectives": {"modules": ("model", "clock"), "libraries": ("fmt",)},
    "analysis": {"modules": ("model",), "libraries": ("fmt",)},
    "store": {"modules": ("model",), "libraries": ("hdf5", "zlib", "fmt", "posix")},
    "report": {"modules": ("model",), "libraries": ("fmt", "json", "posix")},
    "pipeline": {
        "modules": ("model", "exchange", "ingest", "clock", "collectives", "analysis", "store", "report"),
        "libraries": ("fmt", "cereal", "zlib", "zstd", "posix", "glibc", "linux"),
    },
    "serve": {
        "modules": ("model", "ingest", "store", "pipeline"),
        "libraries": ("fmt", "json", "httplib", "posix"),
    },
    # The programs: they read arguments and hand over.
    "precompiled.hpp": {"modules": ("model",), "libraries": ("fmt",)},
    "precompiled.cpp": {"modules": (), "libraries": ()},
    "main.cpp": {"modules": ("pipeline", "exchange"), "libraries": ("cli11", "fmt")},
    "commands.cpp": {"modules": ("pipeline", "serve"), "libraries": ("cli11", "posix")},
    "commands.hpp": {"modules": (), "libraries": ()},
    "help.cpp": {"modules": (), "libraries": ("fmt",)},
    "help.hpp": {"modules": (), "libraries": ()},
    # Of the tests: it shares plain data with the product, and nothing of src may include it. Its program makes records, too.
    "simulation": {"modules": ("model",), "libraries": ("sqlite", "fmt", "json", "posix")},
    "simulation/program": {"modules": ("simulation", "pipeline"), "libraries": ("cli11", "fmt")},
}

# Rooms of a module, in the order of work.
ROOMS = {
    "analysis": ("statistics", "trace", "window", "waits", "replay", "links", "tables", "verdict", "causes", "findings", "questions", "problems", "compare"),
    "pipeline": ("tool_rank", "read", "match", "attribute", "investigate", "write", "commands"),
}

LIBRARIES = {
    "mpi": r"mpi\.h|mpi-ext\.h",
    "sqlite": r"sqlite3(ext)?\.h",
    "hdf5": r"hdf5\.h|hdf5_hl\.h|H5\w+\.h",
    "fmt": r"fmt/.+",
    "json": r"nlohmann/.+",
    "simdjson": r"simdjson\.h",
    "cereal": r"cereal/.+",
    "re2": r"re2/.+",
    "cli11": r"CLI/.+",
    "zlib": r"zlib\.h",
    "zstd": r"zstd\.h",
    "httplib": r"httplib\.h",
    "posix": r"(dirent|fcntl|fnmatch|glob|netdb|poll|pthread|sched|signal|spawn|stdlib|time|unistd)\.h|sys/\w+\.h",
    "glibc": r"malloc\.h",
    "linux": r"linux/\w+\.h",
    "standard": "|".join(
        """algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes
        climits clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef
        cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem forward_list
        fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list
        locale map memory memory_resource mutex new numbers numeric optional ostream queue random ranges ratio
        scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf
        string string_view syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
        unordered_set utility valarray variant vector version""".split()
    ),
}

# No file of src, include and tests/simulation has more lines, no function either.
MOST_LINES = {"file": 400, "function": 60}
# Longer than that today. None may grow, and who shortens one takes it from here.
LONGER = {
    "src/pipeline/match/unit_arrivals.cpp bring_arrivals": 64,
    "tests/simulation/kernel_catalogue.cpp kernel_catalogue": 71,
    "tests/simulation/rank_machine.cpp execute": 63,
    "tests/simulation/schema.cpp tables": 69,
}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<mark>[<"])(?P<path>[^>"]+)[>"]')


def library_of(path):
    for library, pattern in LIBRARIES.items():
        if re.fullmatch(pattern, path):
            return library
    return None


def problem_of(include, mark, owner, file, tree):
    """Why this include breaks a rule; None where it does not."""
    rule = ALLOWED[owner]
    if mark == "<":
        library = library_of(include)
        if library == "standard" or library in rule["libraries"]:
            return None
        return f"{owner} must not use {library}" if library else "unknown header; add its library to tests/include_rules.py"
    public = include.startswith("nsys_explain/")
    below = "include" if public else "tests" if include.startswith("simulation/") else "src"
    if ".." in include or not (tree / below / include).is_file():
        return "no such header below include or src"
    if not public and (tree / "include") in file.parents:
        return "a public header must not include an internal one"
    parts = include.split("/")[1:] if public else include.split("/")
    module = parts[0] if len(parts) > 1 else owner
    if module != owner:
        return None if module in rule["modules"] else f"{owner} must not use module {module}"
    if owner not in ROOMS:
        return None
    rooms = ROOMS[owner]
    room, own_room = room_of(parts, rooms), room_of(file.relative_to(tree / "src").parts if not public else parts, rooms)
    if room is None or own_room is None or rooms.index(room) <= rooms.index(own_room):
        return None
    return f"room {own_room} comes before {room}"


def room_of(parts, rooms):
    return parts[1] if len(parts) > 2 and parts[1] in rooms else None


def owner_of(file, tree):
    """The key of ALLOWED that rules this file."""
    if tree / "tests" in file.parents:
        return "simulation/program" if file.parent.name == "program" else "simulation"
    src = tree / "src"
    return file.relative_to(src if src in file.parents else tree / "include" / "nsys_explain").parts[0]


def sources(tree):
    return sorted(f for top in ("src", "include/nsys_explain", "tests/simulation") for f in (tree / top).rglob("*") if f.suffix in (".cpp", ".hpp", ".inc"))


def violations(tree, longer=LONGER):
    files = sources(tree)
    pages = [*tree.glob("*.md"), *tree.glob("docs/*.md")]
    tops = [top for top in tree.iterdir() if top.name != "build" and not top.name.startswith(".")]
    everything = [file.relative_to(tree) for top in tops for file in (top.rglob("*") if top.is_dir() else [top])]
    found = too_long(tree, files, longer) + absent_files(tree, files + sorted(pages), everything) + absent_names(tree, files + sorted(pages), everything)
    for file in files:
        name = file.relative_to(tree)
        owner = owner_of(file, tree)
        if owner not in ALLOWED:
            found.append(f"{name}: {owner} is not a known module or program")
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            match = INCLUDE.match(line)
            if not match:
                continue
            problem = problem_of(match["path"], match["mark"], owner, file, tree)
            if problem:
                found.append(f"{name}:{number}: {match['path']}: {problem}")
    return found, len(files)


def functions(text):
    """(first line, lines, name) of each function, by clang-format's indents: at 0 in a namespace, at 2 in a class."""
    for indent in (0, 2):
        start = None
        for number, line in enumerate(text.splitlines(), start=1):
            body = line.strip()
            if not body or len(line) - len(line.lstrip()) != indent:
                continue
            if body == "}":
                name = start and re.search(r"(~?\w+)\(", start[1])
                if name and name[1] not in ("if", "for", "while", "switch"):
                    yield start[0], number - start[0] + 1, name[1]
                start = None
            elif body.startswith(("}", "#", "//", "namespace ", "using ", "public:", "private:")) or body.endswith(";"):
                start = None
            elif start is None:
                start = (number, body)


def too_long(tree, files, longer):
    """What is longer than it may be; and what is in `longer` without need."""
    found, needed = [], set()

    def check(kind, key, place, lines):
        if lines > MOST_LINES[kind]:
            needed.add(key)
        if lines > longer.get(key, MOST_LINES[kind]):
            found.append(f"{place}: a {kind} of {lines} lines; {longer.get(key, MOST_LINES[kind])} are the most: make it simpler")

    for file in files:
        text, name = file.read_text(encoding="utf-8"), str(file.relative_to(tree))
        check("file", name, name, text.count("\n"))
        for number, lines, function in functions(text):
            check("function", f"{name} {function}", f"{name}:{number}", lines)
    return found + [f"{key.split()[0]}: is not longer than others any more: take it from LONGER" for key in longer if key not in needed]


NAMED_FILE = re.compile(r"(?<![\w./*{}-])((?:[\w-]+/)*[\w-]+\.(?:cpp|hpp|py|sh|md|cmake|js|mjs|sbatch))\b")


# Written by a run or a user, or of others.
NAMED_ELSEWHERE = {"report.md", "compare.md", "comparison/compare.md", "train.py", "dataset.py", "NAME.cpp", "PERFORMANCE.md", "build/release/CPackConfig.cmake"}


def absent_files(tree, texts, everything):
    """Names of files, in pages and in comments, that no file of the tree ends in."""
    ends = {end for file in everything for end in ("/".join(file.parts[i:]) for i in range(len(file.parts)))}
    found = []
    for text in texts:
        for number, line in enumerate(text.read_text(encoding="utf-8").splitlines(), start=1):
            prose = line if text.suffix == ".md" else line.partition("//")[2]
            found += [f"{text.relative_to(tree)}:{number}: there is no file {name}" for name in NAMED_FILE.findall(prose)
                  if name not in ends and name not in NAMED_ELSEWHERE]
    return found


CODE = (".cpp", ".hpp", ".inc", ".py", ".sh", ".js", ".mjs")
NAMED_FUNCTION = re.compile(r"(?<![\w.])([A-Za-z_]\w+)\(\)")
NAMED_IN_CODE = re.compile(r"`(?:\w+::)*([a-z]\w*_\w+)`")
PAGES_ABOUT_CODE = ("architecture.md", "CONTRIBUTING.md")  # the others name columns and tables of nsys, too


def absent_names(tree, texts, everything):
    """Functions that pages and comments call by `name()`, and identifiers on pages about the code, that no code has."""
    words = set()
    for file in everything:
        if file.suffix in CODE:
            text = (tree / file).read_text(encoding="utf-8", errors="replace")
            words |= set(re.findall(r"\w+", re.sub(r"//.*", "", text) if file.suffix in CODE[:3] else text))
    found = []
    for text in texts:
        for number, line in enumerate(text.read_text(encoding="utf-8").splitlines(), start=1):
            names = NAMED_FUNCTION.findall(line if text.suffix == ".md" else line.partition("//")[2])
            if text.name in PAGES_ABOUT_CODE:
                names += NAMED_IN_CODE.findall(line)
            found += [f"{text.relative_to(tree)}:{number}: no code has {name}" for name in names if name not in words]
    return found


# The made tree: each file's lines, with "!" before those that break a rule.
MADE_TREE = {
    "include/nsys_explain/model/time.hpp": ["#include <cstdint>", "!#include <fmt/format.h>", "!#include <unistd.h>"],
    "include/nsys_explain/ingest/read.hpp": [
        '#include "nsys_explain/model/time.hpp"',
        "#include <sqlite3.h>",
        '!#include "ingest/inner.hpp"',
    ],
    "src/ingest/inner.hpp": ["#pragma once"],
    "src/ingest/deeper/part.hpp": ['!#include "../inner.hpp"', '#include "ingest/inner.hpp"'],
    "src/ingest/read.cpp": [
        '#include "nsys_explain/ingest/read.hpp"',
        '#include "ingest/inner.hpp"',
        '!#include "inner.hpp"',
        '#include "ingest/deeper/part.hpp"',
        '!#include "ingest/deeper/absent.hpp"',
        '!#include "clock/fit.hpp"',
        '!#include "../clock/fit.hpp"',
        '!#include "nsys_explain/ingest/absent.hpp"',
        "!#include <hdf5.h>",
        '// #include <mpi.h>',
    ],
    "src/clock/fit.hpp": ["!  #  include <sqlite3.h>", "!#include <surprise.h>"],
    "src/exchange/session.cpp": ["#include <mpi.h>", '!#include "nsys_explain/model/time.hpp"'],
    "src/store/write.cpp": ["#include <hdf5.h>", "!#include <mpi.h>"],
    "src/analysis/trace/kernels.hpp": ['!#include "analysis/waits/waits.hpp"'],
    "src/analysis/waits/waits.hpp": ['#include "nsys_explain/model/time.hpp"'],
    "src/analysis/waits/waits.cpp": ['#include "analysis/waits/waits.hpp"', '#include "analysis/trace/kernels.hpp"'],
    "src/pipeline/run.cpp": ['#include "nsys_explain/ingest/read.hpp"', "!#include <mpi.h>", "!#include <sqlite3.h>",
                             '#include "pipeline/write/outputs.hpp"', '#include "clock/fit.hpp"'],
    "src/pipeline/write/outputs.hpp": ["#include <vector>"],
    "src/main.cpp": ["#include <CLI/CLI.hpp>", '!#include "nsys_explain/ingest/read.hpp"'],
    "src/stray.cpp": ["!"],
    "tests/simulation/plan.hpp": ['#include "nsys_explain/model/time.hpp"', '!#include "clock/fit.hpp"'],
    "tests/simulation/program/main.cpp": ['#include "simulation/plan.hpp"', "#include <CLI/CLI.hpp>"],
    "src/store/read.cpp": ['!#include "simulation/plan.hpp"'],
    "src/store/long.cpp": ["!" + "int half() {", *["  ++n;"] * 59, "}", "int whole() {", *["  ++n;"] * 58, "}"],
    "src/store/longer.cpp": ["!", *["// more"] * 400],
    "docs/store.md": ["!By src/store/absent.cpp.", "By store/read.cpp, *_parts.cpp and report.md.", "half() comes first.", "!third() comes last."],
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        expected = set()
        for name, lines in MADE_TREE.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text("\n".join(line.lstrip("!") for line in lines) + "\n", encoding="utf-8")
            for number, line in enumerate(lines, start=1):
                if line.startswith("!"):
                    expected.add(name if line == "!" else f"{name}:{number}")
        found, _ = violations(tree, {})
        places = {re.match(r"[^:]+(:\d+)?", text).group(0) for text in found}
    for place in sorted(expected - places):
        print(f"self-test: the broken rule at {place} was not found")
    for place in sorted(places - expected):
        print(f"self-test: {place} breaks no rule, but was reported")
    print(f"self-test: {len(expected & places)} of {len(expected)} broken rules found")
    return 0 if expected == places else 1


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    tree = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    found, files = violations(tree)
    for text in found:
        print(text)
    print(f"{files} files checked, {len(found)} rules broken")
    return 1 if found or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
