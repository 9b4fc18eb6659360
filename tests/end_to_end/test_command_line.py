"""The command line as a user meets it: help by topics, mistyped words, defaults."""

import pathlib
import re

from support import EndToEndTest, TOOL, main, run


class CommandLine(EndToEndTest):
    def run_tool(self, *arguments, code=0):
        done = run([TOOL, *arguments], cwd=self.directory)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_mistyped_words_are_named_with_what_was_meant(self):
        for words, message in ((["--steeps", "1", "x"], "no option --steeps (did you mean --steps?)"),
                               (["--thread=2", "x"], "no option --thread (did you mean --threads?)"),
                               (["x", "--zebra"], "no option --zebra\n"),
                               (["shwo", "report"], "neither a file nor a command shwo (did you mean show?)"),
                               (["--help", "captur"], "no topic captur (did you mean capture?)")):
            with self.subTest(words):
                self.assertIn(message, self.run_tool(*words, code=2))

    def test_help_is_short_and_its_topics_hold_the_rest(self):
        text = self.run_tool("--help")
        self.assertIn("Ranks and hosts:", text)
        self.assertNotIn("nsys export --type sqlite", text)
        self.assertTrue(self.run_tool("--help", "capture").startswith("TRACES\n"))
        whole = self.run_tool("--help", "all")
        for topic in ("capture", "ranks", "part", "evidence", "outputs", "environment"):
            self.assertIn(f"  {topic} ", text)
            self.assertIn(self.run_tool("--help", topic), whole)

    def test_every_option_stands_in_a_document(self):
        root = pathlib.Path(__file__).parents[2]
        known = {word for document in (root / "README.md", *(root / "docs").glob("*.md"))
                 for word in re.findall(r"--[a-z][a-z0-9-]*", document.read_text())}
        commands = ("merge", "show", "compare", "diff", "serve")
        helps = [self.run_tool("--help")] + [self.run_tool(command, "--help") for command in commands]
        options = {word for text in helps for word in re.findall(r"^ +(?:-\w,)?(--[a-z][a-z0-9-]*)", text, re.MULTILINE)}
        self.assertGreater(len(options), 60)
        self.assertEqual(options - known, {"--help", "--version"} - known)

    def test_a_report_is_named_by_its_directory_and_made_without_being_named(self):
        job = self.synth("job", "--nodes", "1", "--gpus-per-node", "2", "--steps", "4", "--layers", "2")
        text = self.run_tool(job)
        self.assertIn("nsys-explain-report", text)
        self.assertNotIn("reading traces", text)
        self.assertIn("reading traces", self.run_tool(job, "--timing", "--force"))
        store = pathlib.Path("nsys-explain-report/store.h5")
        self.assertEqual(self.run_tool("show", "nsys-explain-report", "ranks"), self.run_tool("show", store, "ranks"))
        self.assertIn("Nothing changed: both reports hold the same run", self.run_tool("compare", "nsys-explain-report", "nsys-explain-report"))


if __name__ == "__main__":
    main()
