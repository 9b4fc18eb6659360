"""Every finding that the tool can write has a view in report.html, and the page knows no finding that the tool cannot write."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUESTIONS = sorted(ROOT.glob("src/analysis/questions/*.cpp"))
# Ids are the only literals in these sources that are words joined by hyphens, apart from those set one by one.
SOURCES = [*ROOT.glob("src/analysis/*/*findings*.cpp"), *ROOT.glob("src/analysis/problems/*.cpp"), *QUESTIONS, ROOT / "src/analysis/findings/missing_ranks.cpp", *ROOT.glob("src/*/*/partial_report.cpp")]
JOINED = re.compile(r'"([a-z]+(?:-[a-z]+)+)"')
SET = re.compile(r'(?:(?<!\{\.)\bid = |finding_about\()[^;]*;')
DESIGNATED = re.compile(r'\{\.id = "([a-z-]+)"')
LITERAL = re.compile(r'"([a-z-]+)"')


def main():
    written = set()
    for source in ROOT.glob("src/**/*.cpp"):
        text = source.read_text(encoding="utf-8")
        if source not in SOURCES and re.search(r"\bFinding finding\b|(?<!const )std::vector<Finding>&", text):
            sys.exit(f"{source.name} writes findings, but this test does not look there")
        if source in SOURCES:
            written |= {*JOINED.findall(text), *DESIGNATED.findall(text), *LITERAL.findall(" ".join(SET.findall(text)))}
    shown = dict(re.findall(r'"([a-z-]+)": "([a-z]+)"', (ROOT / "src/report/html/views/finding_views.js").read_text(encoding="utf-8")))
    for question in QUESTIONS:
        for names in re.findall(r"\.findings = \{([^}]*)\}", question.read_text(encoding="utf-8")):
            shown |= dict.fromkeys(LITERAL.findall(names), "of its table")
    assert len(written) > 25, written
    assert written == set(shown), f"without a view: {sorted(written - set(shown))}; not known: {sorted(set(shown) - written)}"


if __name__ == "__main__":
    main()
