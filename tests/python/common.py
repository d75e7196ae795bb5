# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the C library and the Python package share: scripts in processes of their own, by a Python with NumPy."""
import functools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = None  # the build folder: the first argument of a test
DEADLINE_S = 240


@functools.lru_cache(maxsize=None)
def python_with(*modules):
    """A Python that has these modules; None: there is none."""
    for candidate in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        check = f"import sys, {', '.join(modules)}; assert sys.version_info >= (3, 9)"
        if os.path.exists(candidate) and subprocess.run([candidate, "-c", check], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def needs(*modules):
    """Skips a test where no Python has these modules."""
    return unittest.skipUnless(python_with(*modules), f"no Python here has {' and '.join(modules)}")


def environment(site=None):
    """Of scripts, with the package of the source, or of a `site` where its wheel is."""
    clean = {key: value for key, value in os.environ.items() if key != "TROUPE_LIBRARY"}
    ours = {"PYTHONPATH": str(site)} if site else {"PYTHONPATH": str(SOURCE / "apps/python"), "TROUPE_LIBRARY": str(BUILD / "libtroupe.so")}
    return clean | ours | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def unpacked_wheel(of):
    """A wheel, and the folder into which it is unpacked, until the tests of the class `of` are done."""
    folder = tempfile.TemporaryDirectory(prefix="troupe-wheel-")
    of.addClassCleanup(folder.cleanup)
    made = subprocess.run([sys.executable, SOURCE / "apps/python/make_wheel.py", BUILD, folder.name], capture_output=True, text=True,
                          check=False)
    if made.returncode != 0:  # more than 30 MB, or a library that is not there
        raise AssertionError(made.stdout + made.stderr)
    print(made.stdout)
    wheel, site = next(pathlib.Path(folder.name).glob("*.whl")), pathlib.Path(folder.name) / "site"
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():  # as pip does, with modes
            os.chmod(archive.extract(entry, site), entry.external_attr >> 16 & 0o777)
    return wheel, site


def line_of(stream, text):
    """The next line that has the text."""
    for line in stream:
        if text in line:
            return line
    raise AssertionError(f"no line has {text!r}")


def take_interrupts():
    """A shell has its background jobs ignore SIGINT, and they hand that on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Scripts(unittest.TestCase):
    """Tests that run scripts."""

    modules = ("numpy",)
    site = None  # of a wheel

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="troupe-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.scripts = 0

    def write(self, text):
        self.scripts += 1
        path = self.folder / f"script{self.scripts}.py"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def start(self, text, *arguments, **options):
        return self.start_file(self.write(text), *arguments, **options)

    def start_file(self, path, *arguments, **options):
        command = [python_with(*self.modules), "-u", str(path), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                env=environment(self.site) | {"TMPDIR": str(self.folder)}, preexec_fn=take_interrupts, **options)

    def run_script(self, text, *arguments, code=0):
        """What it printed; standard error too where it is to fail."""
        return self.finish_script(self.start(text, *arguments), code)

    def finish_script(self, process, code=0):
        """Likewise of one that runs."""
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
        self.assertEqual(process.returncode, code, f"{out}\n{err}")
        return out if code == 0 else out + err


def main():
    """The first argument is the build folder."""
    global BUILD  # pylint: disable=global-statement
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(module="__main__")
