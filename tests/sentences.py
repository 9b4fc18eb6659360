#!/usr/bin/env python3
"""Every sentence that a run can print, from the literals of the sources, to be read aloud once (docs/glossary.md has the words).

    tests/sentences.py            the sentences, by file
    tests/sentences.py --check    fails where one uses a word of ours that the glossary has a better one for
"""

import pathlib
import re
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "src"

LITERAL = r'"(?:[^"\\\n]|\\.)*"'
COMMENT = re.compile(rf'{LITERAL}|//[^\n]*|/\*.*?\*/', re.S)
LITERALS = re.compile(rf'{LITERAL}(?:\s+{LITERAL})*')

# Ours, and what users read instead.
PRIVATE = {
    "lane": "stream", "turns": "interleaved communicators", "orphan": "kernel without call", "habit": "exit bias",
    "claim": "assignment", "witness": "co-finisher", "bundle": "matched arrivals", "deed": "program operation",
    "odds": "contradictions", "host stall": "host stall", "homes": "reader ranks", "slices": "coupled groups",
}

# What nobody but us says, in what a run prints for people: the terminal, the verdict, findings, report.md. Names of
# columns, tables and commands are a contract and stand in backticks, or have underscores.
FOR_US = ("mended", "mending", "mend", "instance", "instances", "own", "inherited", "distinguishable", "told",
          "trace rank", "trace ranks", "Trace rank", "Trace ranks")
PRIVATE_WORD = re.compile(rf"\b(?:{'|'.join(FOR_US)})\b")


def private_words(text):
    """The words for us in a text for people, each with what surrounds it."""
    plain = " ".join(re.sub(r"```.*?```|`[^`\n]*`|nsys-explain-mpi [^\n]*|\w*_\w*", "", text, flags=re.S).split())
    return [plain[max(0, word.start() - 40):word.end() + 40] for word in PRIVATE_WORD.finditer(plain)]


def sentences(path):
    """Literals of at least three words, with those that the compiler joins joined; and the line of each."""
    text = COMMENT.sub(lambda part: part[0] if part[0][0] == '"' else "\n" * part[0].count("\n"), path.read_text())
    for found in LITERALS.finditer(text):
        if text[:found.start()].rpartition("\n")[2].startswith("#include"):
            continue
        sentence = "".join(part[1:-1] for part in re.findall(LITERAL, found[0]))
        if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 3 and " " in sentence:
            yield text[:found.start()].count("\n") + 1, sentence


def main():
    wrong = 0
    for path in sorted([*SOURCES.rglob("*.cpp"), *SOURCES.rglob("*.hpp")]):
        for line, sentence in sentences(path):
            if "--check" not in sys.argv[1:]:
                print(f"{path.relative_to(SOURCES)}:{line}: {sentence}")
                continue
            for word, better in PRIVATE.items():
                if re.search(rf"\b{word}s?\b", sentence, re.I):
                    print(f"{path}:{line}: '{word}' is a word of ours; users know '{better}': {sentence}", file=sys.stderr)
                    wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
