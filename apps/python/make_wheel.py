#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Packs the Python package into one wheel for every Python from 3.9: the sources, libtroupe.so, the program, what both need.

usage: make_wheel.py BUILD_DIR OUT_DIR

Prints the wheel's path. OpenBLAS is packed under a name of its own: the whole one, which NumPy may need, has the usual name.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MOST_MEGABYTES = 30
OURS = ["libtroupe.so", "libtroupe_onnx.so", "apps/library/troupe"]  # the second where libonnx was there
# What stays the host's: C, C++ and the loader.
OF_THE_HOST = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s))\.so")
BLAS, OUR_BLAS = b"libopenblas.so.0\0", b"libtroupblas.so0\0"  # as long as each other: the names are replaced in place


def needed(path, beside):
    """Name and path of every shared library that it needs, directly or not, and that the wheel brings along."""
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True,
                            env=os.environ | {"LD_LIBRARY_PATH": str(beside)}).stdout
    for name, target in re.findall(r"^\s*(\S+) => (\S+)", listed, re.MULTILINE):
        if OF_THE_HOST.match(name) or name == "libtroupe.so":
            continue
        if target == "not":
            sys.exit(f"make_wheel: {name}, which {path} needs, is not on this machine")
        yield name, pathlib.Path(target)


def licence_of(path):
    """Package and copyright of a library that a package of this system brought; nothing: it is of none."""
    found = subprocess.run(["dpkg-query", "-S", path.resolve()], capture_output=True, text=True, check=False).stdout.split(":")[0]
    text = pathlib.Path("/usr/share/doc", found, "copyright")
    return {found: text.read_bytes()} if found and text.exists() else {}


def collect(build, to):
    """Fills `to` with binaries; returns the licences of those that are not ours, by package."""
    to.mkdir(parents=True)
    built = [ours for ours in OURS if (build / ours).exists()]
    for ours in built:
        shutil.copy(build / ours, to)
    blas = to / BLAS[:-1].decode()
    subprocess.run([SOURCE / "cmake/trimmed_openblas.sh", blas], check=False)  # first: it needs less than the whole one
    licences = {"caf": (SOURCE / "cmake/caf-LICENSE").read_bytes()}
    for name, path in [each for ours in built if ours.endswith(".so") for each in needed(build / ours, beside=to)]:
        licences.update(licence_of(path if path.parent != to else pathlib.Path("/usr/lib/x86_64-linux-gnu", name)))
        if not (to / name).exists():
            shutil.copy(path, to / name)
    subprocess.run(["strip", "--strip-unneeded", *to.iterdir()], check=True)
    for file in to.iterdir():
        file.write_bytes(file.read_bytes().replace(BLAS, OUR_BLAS))
    if blas.exists():
        blas.rename(to / OUR_BLAS[:-1].decode())
    return licences


def main():
    build, out = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    version = re.search(r'VERSION = "(.*)"', (SOURCE / "apps/python/troupe/_library.py").read_text(encoding="utf-8"))[1]
    info = f"troupe-{version}.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: troupe\nVersion: {version}\nSummary: Trains models on a cluster of processes\n"
                            "License: BSD-3-Clause\nRequires-Python: >=3.9\nRequires-Dist: numpy\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntroupe = troupe.__main__:main\n",
        f"{info}/LICENSE": (SOURCE / "LICENSE").read_text(encoding="utf-8"),
    }
    files = {name: (text.encode(), 0o644) for name, text in texts.items()}
    for path in sorted((SOURCE / "apps/python/troupe").glob("*.py")):
        files[f"troupe/{path.name}"] = path.read_bytes(), 0o644
    with tempfile.TemporaryDirectory() as folder:
        lib = pathlib.Path(folder) / "lib"
        for package, text in collect(build, lib).items():
            files[f"{info}/licenses/{package}"] = text, 0o644
        for path in sorted(lib.iterdir()):
            files[f"troupe/lib/{path.name}"] = path.read_bytes(), 0o755
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() for name, (data, _) in files.items()}
    record = "".join(f"{name},sha256={digests[name]},{len(data)}\n" for name, (data, _) in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode(), 0o644
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"troupe-{version}-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes each time
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    megabytes = wheel.stat().st_size / 1e6
    print(f"{wheel} {megabytes:.1f} MB")
    if megabytes > MOST_MEGABYTES:
        sys.exit(f"make_wheel: more than {MOST_MEGABYTES} MB")


if __name__ == "__main__":
    main()
