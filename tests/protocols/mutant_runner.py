# SPDX-License-Identifier: BSD-3-Clause
"""Builds and runs protocols_test, or another binary, with one small change at a time. See mutants.py.

The sources are copied and built once. A mutant is a changed copy of one file in a folder that comes first on the include path, so
that only the sources that see that file are compiled again, and nothing but they and the link differ from the first build.
"""
import filecmp
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1", "-DTROUPE_UNITY=OFF",
             "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
RANDOM = "*Schedules*"  # takes longest, and so comes last
MEMORY_BYTES = 4 << 30  # a machine that never stops speaks without end


def run(command, **options):
    environment = {**os.environ, "CCACHE_DISABLE": "1"}  # nothing is compiled twice
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)


def must(command, **options):
    done = run(command, **options)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}\n{done.stdout[-4000:]}")
    return done.stdout


class Runner:
    def __init__(self, folder, jobs, tests="protocols_test"):
        self.folder, self.source, self.build = folder, folder / "source", folder / "build"
        self.copy_sources()
        must(["cmake", "-S", self.source, "-B", self.build, *CONFIGURE])
        print("building", tests, file=sys.stderr, flush=True)
        must(["ninja", "-C", self.build, f"-j{jobs}", tests])
        self.compiles = {}  # of an object: its source, and the command in words
        for each in json.loads((self.build / "compile_commands.json").read_text()):
            words = shlex.split(each["command"])
            self.compiles[self.build / words[words.index("-o") + 1]] = pathlib.Path(each["file"]), words
        self.sees = self.dependencies()
        link = must(["ninja", "-C", self.build, "-t", "commands", tests]).splitlines()[-1]
        self.link = shlex.split(re.fullmatch(r":? ?(?:&& )?(.*?)(?: && :)?", link).group(1))
        self.binary = self.build / self.link[self.link.index("-o") + 1]
        self.files_of_tests = self.list_tests()
        self.seconds = {}
        for tests in ("-" + RANDOM, RANDOM):
            began = time.monotonic()
            if killer := self.first_failure(self.binary, tests, 600):
                sys.exit(f"the tests fail without any mutant: {killer}")
            self.seconds[tests] = time.monotonic() - began

    def copy_sources(self):
        """What differs, so that the next build is short; what is gone from the tree goes from the copy. A copy is as new as it is, not
        as its original: a file that is edited while a run builds is older than the object of what it was before."""
        listed = must(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).split("\0")
        names = {name for name in listed if name and (ROOT / name).is_file()}
        for old in self.source.rglob("*"):
            if old.is_file() and str(old.relative_to(self.source)) not in names:
                old.unlink()
        for name in names:
            to = self.source / name
            if not to.exists() or not filecmp.cmp(ROOT / name, to, shallow=False):
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, to)

    def dependencies(self):
        """Of each file of ours the objects that see it."""
        sees, object_file = {}, None
        for line in must(["ninja", "-C", self.build, "-t", "deps"]).splitlines():
            if line and not line.startswith(" "):
                object_file = self.build / line.split(":")[0]
            elif line and object_file in self.compiles:
                sees.setdefault(pathlib.Path(self.build, line.strip()).resolve(), []).append(object_file)
        return sees

    def list_tests(self):
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            must([self.binary, "--gtest_list_tests", f"--gtest_output=json:{out.name}"])
            listed = json.load(out)
        return {f"{suite['name']}.{test['name']}": pathlib.Path(test["file"]).name for suite in listed["testsuites"] for test in suite["testsuite"]}

    def stages(self, file, last_killer):
        """Filters in the order of how likely they are to notice it: who did the last time, the tests of its name, all."""
        if last_killer in self.files_of_tests:
            yield last_killer
        stem = pathlib.Path(file).stem
        own = [test for test, where in self.files_of_tests.items() if stem in where and not re.search("Schedules", test)]
        if own:
            yield ":".join(own)
        yield "-" + RANDOM
        yield RANDOM

    def judge(self, file, text, replacement, last_killer):
        """(the test that notices it or None, None), or (None, why it is no mutant)."""
        path = self.source / "protocols" / file
        if not path.exists():
            return None, "there is no such file"
        original = path.read_text()
        if (times := original.count(text)) != 1:
            return None, f"its text is found {times} times"
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            overlay = pathlib.Path(name)
            target = overlay / "protocols" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(original.replace(text, replacement))
            # Most of the objects that see a header are tests, and one of them noticed it the last time: the product and that test come first.
            if last_killer in self.files_of_tests and path.suffix == ".hpp":
                binary, fault = self.build_mutant(overlay, path, self.files_of_tests[last_killer])
                if not fault and self.first_failure(binary, last_killer, self.limit_of(last_killer)):
                    return last_killer, None
            binary, fault = self.build_mutant(overlay, path)
            if fault:
                return None, "it does not build:\n" + fault
            for tests in self.stages(file, last_killer):
                if killer := self.first_failure(binary, tests, self.limit_of(tests)):
                    return killer, None
        return None, None

    def limit_of(self, tests):
        return 10 + 5 * self.seconds.get(tests, self.seconds["-" + RANDOM])

    def build_mutant(self, overlay, path, test=None):
        """The binary, or what the compiler says. With a test's file: no other test is compiled again."""
        changed = {}
        for number, object_file in enumerate(self.sees[path]):
            source, words = self.compiles[object_file]
            if test and source.name != test and self.source / "tests" in source.parents:
                continue
            words = list(words)
            changed[object_file] = overlay / f"{number}.o"
            words[words.index("-o") + 1] = str(changed[object_file])
            if source == path:
                words[words.index("-c") + 1] = str(overlay / path.relative_to(self.source))
            words.insert(1, f"-I{overlay}")
            if (done := run(words, cwd=self.build)).returncode != 0:
                return None, done.stdout[-2000:]
        linked = [word for word in self.link if self.build / word not in changed]
        at = linked.index("-o")
        binary = overlay / self.binary.name
        linked[at:at + 2] = [*map(str, changed.values()), "-o", str(binary)]  # before the libraries, whose own are then not taken
        done = run(linked, cwd=self.build)
        return binary, None if done.returncode == 0 else done.stdout[-2000:]

    def first_failure(self, binary, tests, limit_s):
        """The name of the test that failed, crashed or did not end; None."""
        def bound():
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        environment = {name: value for name, value in os.environ.items() if not name.startswith("TROUPE_")}
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            child = subprocess.Popen([binary, f"--gtest_filter={tests}", "--gtest_fail_fast"], stdout=said, stderr=subprocess.STDOUT,
                                     preexec_fn=bound, env=environment, cwd=self.build)
            try:
                if child.wait(limit_s) == 0:
                    return None
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            said.seek(0)
            text = said.read()
        if failed := re.search(r"^\[  FAILED  \] ([^\s,]+)", text, re.M):  # those behind it are begun, too, and skipped
            return failed[1]
        begun = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)
        return begun[-1] if begun else "(before any test)"
