#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# What the READMEs quote is true: readme_test.py BUILD_DIR. Standard library only.
#
# In a ```console block a line `$ COMMAND` is a command, what follows is its output. Below `<!-- test: run -->` the commands are
# run at the root and the output must have the quoted shape: a number (or digest) stands for any, a line `...` for any lines.
# Every other command, `in backticks` and indented ones too, must exist, with the flags and the files that it names.
# Code below `<!-- test: quoted from FILE -->` stands in FILE, line for line.
import re
import subprocess
import sys
import unittest
from pathlib import Path

import tree

PROGRAM = "build/release/troupe"
NUMBER = re.compile(r"(?:[0-9a-f]{16,}|\d+(?:[.,]\d+)*(?:e[+-]\d+)?)")
IN_PASSING = re.compile(r"(?:`|^    )((?:\./dev|(?:build/release/)?troupe) [^`\n]+)", re.MULTILINE)
BLOCK = re.compile(r"(?P<mark><!-- test: run -->\n)?```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^<!-- test: quoted from (?P<file>\S+) -->\n```\w*\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
FIRST_PAGE = {"lines": 150, "words": 720}  # words of prose beside the table of protocols: with it five minutes, read aloud
PROTOCOL_ROW = re.compile(r"^\| `[\w-]+` \|.*$", re.MULTILINE)  # one for each in the catalog


class Quoted:
    """A command that a page quotes, with the output beneath it."""

    def __init__(self, page, command, run):
        self.page, self.command, self.run, self.output = page, command, run, []

    def __str__(self):
        return f"{self.page}: $ {self.command}"


def commands(page, text):
    """The commands of a page, in order. A command line that ends in a backslash goes on in the next."""
    found = []
    for block in BLOCK.finditer(text):
        if block["language"] != "console":
            continue
        for line in block["body"].replace("\\\n", "").splitlines():
            if line.startswith("$ "):
                found.append(Quoted(page, re.sub(r"\s+#.*", "", line[2:]), bool(block["mark"])))
            elif found:
                found[-1].output.append(line)
    return found + [Quoted(page, command, False) for command in IN_PASSING.findall(BLOCK.sub("", text))]


def shape(quoted, actual):
    """How the actual lines differ in shape from the quoted ones, or None."""
    pattern = ""
    for line in quoted:
        if line == "...":
            pattern += r"(?:.*\n)*?"
            continue
        words = [NUMBER.pattern.join(map(re.escape, NUMBER.split(word))) for word in line.split()]
        pattern += r"\s*" + r"[ \t]+".join(words) + r"\s*\n"  # columns move with the width of the numbers in them
    text = "".join(line + "\n" for line in actual)
    return None if re.fullmatch(pattern, text) else "\n".join(["quoted:", *quoted, "actual:", *actual])


def misquoted(text, files):
    """The files that a page quotes with code that they do not have."""
    return [quote["file"] for quote in CODE.finditer(text) if quote["body"] not in files.get(quote["file"], "")]


def prose(text):
    """The words of a page that are read: no code, no comments, no addresses."""
    return re.findall(r"[\w`*'.,:;-]*\w[\w`*'.,:;-]*", re.sub(r"<!--.*?-->|```.*?^```$|^    .*?$|\]\(.*?\)", " ", text, flags=re.DOTALL | re.MULTILINE))


def help_of(program, *subcommand):
    return subprocess.run([program, *subcommand, "--help"], cwd=tree.ROOT, check=True, capture_output=True, text=True,
                          timeout=60).stdout


WITH_VERBS = {"certs", "checkpoint", "weights"}


def complaint(quoted, program):
    """Why a command that is not run cannot be right, or None. FILE, FOLDER and the like stand for what the reader has."""
    words = quoted.command.split()
    for word in words[1:]:
        if re.match(r"(?:config|tests)/", word) and not (tree.ROOT / word).exists():
            return f"there is no {word}"
    if words[0] in {"git", "cd", "apt-get"}:
        return None
    if words[0] == "./dev":
        help_of("./dev", *words[1:2])
        return None
    if words[0] in {PROGRAM, "troupe"}:
        text = help_of(program, *words[1:3 if words[1] in WITH_VERBS else 2])
        unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in text]
        return f"its --help does not know {', '.join(unknown)}" if unknown else None
    return "not a command of ours"


class Pages(unittest.TestCase):
    build_dir = None

    @classmethod
    def setUpClass(cls):
        cls.program = str(Path(cls.build_dir).resolve() / "troupe")
        pages = {path: text for path, text in tree.project_files().items() if path.endswith(".md")}
        cls.pages = pages
        cls.quoted = [command for page, text in pages.items() for command in commands(page, text)]

    def test_the_first_page_is_read_in_five_minutes(self):
        text = self.pages["README.md"]
        self.assertLessEqual(len(text.splitlines()), FIRST_PAGE["lines"])
        self.assertLessEqual(len(prose(PROTOCOL_ROW.sub("", text))), FIRST_PAGE["words"])

    def test_code_is_as_quoted(self):
        files = tree.project_files()
        self.assertIn("README.md", [page for page, text in self.pages.items() if CODE.search(text)])
        for page, text in self.pages.items():
            with self.subTest(page):
                self.assertEqual(misquoted(text, files), [])

    def test_links_lead_somewhere(self):
        for page, text in self.pages.items():
            for link in re.findall(r"\]\(([^)#:\s]+)\)", text):
                with self.subTest(page):
                    self.assertTrue((tree.ROOT / page).parent.joinpath(link).exists(), link)

    def test_commands_that_are_not_run_exist(self):
        for quoted in self.quoted:
            if not quoted.run:
                with self.subTest(str(quoted)):
                    self.assertIsNone(complaint(quoted, self.program))

    def test_output_is_as_quoted(self):
        for quoted in self.quoted:
            if quoted.run:
                with self.subTest(str(quoted)):
                    # Progress goes to stderr and is no part of what is quoted.
                    done = subprocess.run(["bash", "-c", quoted.command.replace(PROGRAM, self.program)], cwd=tree.ROOT,
                                          capture_output=True, text=True, timeout=300)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIsNone(shape(quoted.output, done.stdout.splitlines()))


class Reader(unittest.TestCase):
    """The reader of pages itself: a page that lies is caught."""

    PAGE = ("<!-- test: run -->\n```console\n$ echo a 1  # says a\na  22\n...\n$ true\n```\n"
            "```sh\n$ no\n```\n```console\n$ ./dev \\\ntest\n```\nSee `troupe check F`, `x` and\n\n    ./dev run\n")

    def test_commands_and_outputs_are_told_apart(self):
        found = commands("x.md", self.PAGE)
        self.assertEqual([(quoted.command, quoted.run, quoted.output) for quoted in found],
                         [("echo a 1", True, ["a  22", "..."]), ("true", True, []), ("./dev test", False, []),
                          ("troupe check F", False, []), ("./dev run", False, [])])

    def test_numbers_may_differ_and_words_may_not(self):
        self.assertIsNone(shape(["accuracy 0.97", "...", "done"], ["accuracy   0.981", "x", "y", "done"]))
        self.assertIsNone(shape(["1.5e-3 (10 s)"], ["  20 (7 s)"]))
        self.assertIsNone(shape(["digest 0123456789abcdef"], ["digest fedcba98765432100"]))
        self.assertIsNotNone(shape(["accuracy 0.97"], ["accuracy none"]))
        self.assertIsNotNone(shape(["accuracy 0.97"], ["accuracy 0.97", "and more"]))
        self.assertIsNotNone(shape(["a", "..."], ["b"]))

    def test_code_that_is_not_the_files_is_named(self):
        page = "<!-- test: quoted from a.hpp -->\n```cpp\nint x;\n```\n"
        self.assertEqual(misquoted(page, {"a.hpp": "// a\nint x;\n"}), [])
        self.assertEqual(misquoted(page, {"a.hpp": "// a\nint y;\n"}), ["a.hpp"])
        self.assertEqual(misquoted(page, {}), ["a.hpp"])

    def test_words_of_prose_are_counted_without_code(self):
        self.assertEqual(prose("# Two words\n\n```sh\n$ no\n```\n    no\n<!-- no -->\n| a `b` | [c](no) |\n"), ["Two", "words", "a", "`b`", "c"])

    def test_what_does_not_exist_is_named(self):
        self.assertIsNone(complaint(Quoted("x.md", "./dev test -L kernels", False), "unused"))
        self.assertIsNotNone(complaint(Quoted("x.md", "fetch somewhere", False), "unused"))
        self.assertIsNotNone(complaint(Quoted("x.md", f"{PROGRAM} run config/none.toml", False), "unused"))
        with self.assertRaises(subprocess.CalledProcessError):
            complaint(Quoted("x.md", "./dev nonsense", False), "unused")


if __name__ == "__main__":
    Pages.build_dir = sys.argv.pop(1)
    unittest.main(verbosity=2)
