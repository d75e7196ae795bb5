#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# What must hold on a GPU, part by part; last a table of claims. Standard library only. run.sh starts it.
#
# Each part has a time limit and none ends the others. What a part found goes to OUT/PART.json, and the table is made of all that lie
# there: a lease of ten minutes may do one part after the other, with --part.
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

PASS, FAIL, NOT_RUN = "pass", "FAIL", "not run"
# (model, batch, precision, part of PyTorch's best that is wanted)
STEPS = [("mlp", 128, "fp32", 1.0), ("mlp", 4096, "fp32", 1.0), ("mnist-cnn", 256, "fp32", 1.0), ("wide", 4096, "bf16", 0.95)]
TINY_STEPS = [("mlp", 8, "fp32", 1.0), ("mnist-cnn", 8, "fp32", 1.0)]
# Protocols of stale gradients, which diverge with the job's momentum on any device.
STALE = {"async", "dc-async", "ssp"}


class NotRun(Exception):
    """A part that this machine cannot run, and why."""


def claim(text, figure, wanted, holds):
    return {"claim": text, "figure": figure, "wanted": wanted, "verdict": PASS if holds else FAIL}


def not_run(text, wanted, why):
    return {"claim": text, "figure": why, "wanted": wanted, "verdict": NOT_RUN}


class Session:
    def __init__(self, options):
        self.o = options
        self.root = pathlib.Path(options.root).resolve()
        self.bin = pathlib.Path(options.bin).resolve() if options.bin else self.root / "bin"
        self.out = pathlib.Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.deadline = float("inf")

    def run(self, *command, env=None, check=True):
        """One command from the bundle's root, killed when the part's time is up."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise subprocess.TimeoutExpired(command, 0)
        done = subprocess.run([str(word) for word in command], cwd=self.root, env={**os.environ, **(env or {})}, capture_output=True,
                              text=True, timeout=left)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
        return done

    def troupe(self, *arguments):
        """The object that a subcommand prints with --json."""
        return json.loads(self.run(self.bin / "troupe", *arguments, "--json").stdout.rstrip("\n").split("\n")[-1])

    def job(self):
        """A job file and settings: MNIST where there is some, else digits that the program draws."""
        mnist = pathlib.Path(os.environ.get("TROUPE_DATA", ""), "mnist")
        if os.environ.get("TROUPE_DATA") and mnist.is_dir() and not self.o.tiny:
            return "mnist", ["config/mnist-mlp.toml", "--set", f"data.path={mnist}", "--set", "stop.epochs=3"]
        small = ["--set", "data.train_samples=600", "--set", "data.test_samples=200", "--set", "data.batch=32", "--set", "model.hidden=[32]",
                 "--set", "stop.epochs=1"]
        return "digits", ["config/quickstart.toml", *(small if self.o.tiny else ["--set", "stop.epochs=4"])]

    def train(self, *settings, device=None):
        on = ["--set", f"compute.device={device}"] if device else []
        return self.troupe("run", *self.job()[1], "--quiet", "--nodes", "1", *on, *settings)


# Each part returns its claims and whatever else it measured.

def devices(s):
    found = s.troupe("devices")["devices"]
    mine = next((d for d in found if d["name"] == s.o.device), None)
    why = "; ".join(d["reason"] for d in found if d["name"].startswith("cuda") and d["reason"]) or "there is no such device"
    figure = f"{mine['detail']}, {mine['capability']}, driver {mine['driver']}" if mine and mine["usable"] else why
    return [claim(f"{s.o.device} can be used", figure, "usable", bool(mine and mine["usable"]))], found


def parity(s):
    seed = s.o.seed or random.SystemRandom().randrange(1, 2**31)
    report = s.out / "kernels_test.json"
    # Tiny: a few operations, since an emulator is slow.
    chosen = "*Gemm*cuda*:*cuda*Gemm*" if s.o.tiny else "*"
    done = s.run(s.bin / "kernels_test", f"--gtest_filter={chosen}", f"--gtest_output=json:{report}", env={"TROUPE_TEST_SEED": str(seed)},
                 check=False)
    tests = [t for suite in json.loads(report.read_text())["testsuites"] for t in suite["testsuite"]]
    on_device = [t for t in tests if "cuda" in (t["name"] + str(t.get("value_param", ""))).lower() and t.get("result") == "COMPLETED"]
    failed = [t["classname"] + "." + t["name"] for t in tests if t.get("failures")]
    what = "every op and gradient agrees with its reference on the device"
    if not on_device:
        return [not_run(what, "all pass", "kernels_test found no device")], {"seed": seed, "failed": failed}
    figure = f"{len(on_device)} tests on the device, seed {seed}, {len(failed)} failed"
    if failed:
        figure += ": " + ", ".join(failed[:3])
    return [claim(what, figure, "all pass", done.returncode == 0 and not failed)], {"seed": seed, "failed": failed}


def sanitizers(s):
    wanted = {tool: f"{tool} finds nothing" for tool in ("memcheck", "racecheck")}
    program = shutil.which("compute-sanitizer") or next(map(str, pathlib.Path("/usr/local").glob("cuda*/bin/compute-sanitizer")), None)
    if not program:
        return [not_run(text, "0 errors", "no compute-sanitizer here") for text in wanted.values()], None
    claims = []
    for tool, text in wanted.items():
        done = s.run(program, "--tool", tool, "--error-exitcode", "9", s.bin / "kernels_test", "--gtest_brief=1", "--gtest_filter=*cuda*",
                     check=False)
        (s.out / f"{tool}.txt").write_text(done.stdout + done.stderr)
        summary = [line for line in (done.stdout + done.stderr).splitlines() if "SUMMARY" in line or "not supported" in line]
        if "not supported" in done.stdout + done.stderr:
            claims.append(not_run(text, "0 errors", summary[0].strip("= ")))
        else:
            claims.append(claim(text, summary[-1].strip("= ") if summary else f"exit {done.returncode}", "0 errors", done.returncode == 0))
    return claims, None


def digest(s):
    digests = [s.train(device=s.o.device)["weights_digest"] for _ in range(2)]
    return [claim("two runs have the same weights", " and ".join(d[:12] for d in digests), "equal", digests[0] == digests[1])], digests


def protocols(s):
    name, _ = s.job()
    tolerance = 0.005 if name == "mnist" else 0.02
    claims, raw = [], {}
    for protocol in [p["name"] for p in s.troupe("protocols")["protocols"]]:
        text = f"{protocol} on the device learns {name} as on the CPU"
        settings = ["--set", f"protocol.name={protocol}", "--set", "cluster.workers=4"]
        if protocol in STALE:
            settings += ["--set", "optimizer.momentum=0"]
        try:
            cpu, gpu = (s.train(*settings, device=d)["test_accuracy"] for d in ("cpu", s.o.device))
            raw[protocol] = [cpu, gpu]
            # What a tiny run has learnt says nothing: that it ends is tried.
            holds = s.o.tiny or gpu >= cpu - tolerance
            claims.append(claim(text, f"{gpu:.4f} (CPU {cpu:.4f})", f">= CPU - {tolerance}", holds))
        except RuntimeError as e:
            if "compute.device" in str(e) and "does not go with" in str(e):  # its workers sum and step in host memory
                claims.append(not_run(text, f">= CPU - {tolerance}", "it takes no device, and says so"))
                continue
            claims.append({**claim(text, str(e)[-160:], f">= CPU - {tolerance}", False)})
        except subprocess.TimeoutExpired:
            claims.append(not_run(text, f">= CPU - {tolerance}", "the part's time was up"))
    return claims, raw


def kernels(s):
    ops = s.troupe("bench", "kernels", "--backend", s.o.device, *(["--tiny"] if s.o.tiny else []))["ops"]
    claims = []
    for arithmetic in "fp32", "tf32", "bf16":
        rows = [row for row in ops if row["op"] == "gemm" and row["arithmetic"] == arithmetic]
        text = f"gemm in {arithmetic} against bare cuBLASLt"
        measured = [row for row in rows if row["reference_ratio"] > 0]
        if not measured:
            claims.append(not_run(text, ">= 0.95", "nothing to compare with"))
            continue
        worst = min(measured, key=lambda row: row["reference_ratio"])
        claims.append(claim(text, f"{worst['reference_ratio']:.2f} at {worst['shape']}", ">= 0.95", worst["reference_ratio"] >= 0.95))
    moving = [row for row in ops if row["gflops"] == 0 and "compute-bound" not in row["op"]]
    worst = min(moving, key=lambda row: row["reference_ratio"])
    claims.append(claim("memory-bound kernels against the device's own copy at 256 MB", f"{worst['reference_ratio']:.2f} ({worst['op']})",
                        ">= 0.85", worst["reference_ratio"] >= 0.85))
    return claims, ops


def step(s):
    claims, raw = [], []
    for model, batch, precision, _ in TINY_STEPS if s.o.tiny else STEPS:
        text = f"{model} at batch {batch} in {precision}: through actors against the bare loop"
        try:
            row = s.troupe("bench", "step", "--backend", s.o.device, "--model", model, "--batch", batch, "--precision", precision,
                           *(["--tiny"] if s.o.tiny else []))
            raw.append(row)
            claims.append(claim(text, f"{row['ratio']:.3f} ({row['actors_samples_per_s']:.0f} samples/s)", ">= 0.97", row["ratio"] >= 0.97))
        except RuntimeError as e:
            claims.append(claim(text, str(e)[-160:], ">= 0.97", False))
    return claims, raw


def torch(s):
    """After `step`, whose figures it stands beside."""
    known = s.out / "step.json"
    ours = {(r["model"], r["batch"], r["precision"]): r for r in (json.loads(known.read_text())["raw"] if known.exists() else None) or []}
    claims, raw = [], []
    for model, batch, precision, wanted in TINY_STEPS if s.o.tiny else STEPS:
        text = f"{model} at batch {batch} in {precision} against PyTorch's best"
        done = s.run(s.o.torch_python, "-B", s.root / "tests/gpu/torch_step.py", model, "--batch", batch, "--precision", precision,
                     *(["--seconds", "0.05", "--burst", "1"] if s.o.tiny else []), check=False)
        if done.returncode == 3:
            raise NotRun("no PyTorch here")
        if done.returncode != 0:
            claims.append(not_run(text, f">= {wanted}", done.stderr.strip()[-160:]))
            continue
        theirs = json.loads(done.stdout.splitlines()[-1])
        raw.append(theirs)
        way, best = max(theirs["samples_per_s"].items(), key=lambda item: item[1])
        mine = ours.get((model, batch, precision))
        if not mine or not theirs["device"].startswith("cuda"):
            why = f"PyTorch {way} on {theirs['device']}: {best:.0f} samples/s"
            claims.append(not_run(text, f">= {wanted}", why if mine else why + "; the part step comes first"))
            continue
        ratio = mine["prepared_samples_per_s"] / best
        claims.append(claim(text, f"{ratio:.2f} ({mine['prepared_samples_per_s']:.0f} against {best:.0f} of {way})", f">= {wanted}",
                            ratio >= wanted))
    return claims, raw


def union(spans):
    """Spans that touch, joined; in order."""
    joined = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    return joined


def length(spans):
    return sum(end - begin for begin, end in spans)


def common(a, b):
    """How long two joined lists of spans overlap."""
    total, i, j = 0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def device_spans(events):
    """(copies, compute) of a trace: the tracks of a device are named for what they do."""
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    copies, compute = [], []
    for e in events:
        if e.get("ph") != "X":
            continue
        track = tracks.get((e["pid"], e["tid"]), "")
        span = (float(e["ts"]), float(e["ts"]) + float(e["dur"]))
        if track.startswith(("copies to host of", "copies to device of")):
            copies.append(span)
        elif track.startswith("kernels of"):
            compute.append(span)
    return union(copies), union(compute)


def overlap(s):
    text = "copies and compute overlap: of the shorter is hidden"
    trace = s.out / "trace.json"
    s.train("--trace", trace, device=s.o.device)
    copies, compute = device_spans(json.loads(trace.read_text())["traceEvents"])
    if not copies or not compute:
        raise NotRun("the trace has no tracks of the device")
    hidden = common(copies, compute) / min(length(copies), length(compute))
    return [claim(text, f"{hidden:.2f}", ">= 0.9", hidden >= 0.9)], {"copies_us": length(copies), "compute_us": length(compute)}


# name: (what runs it, seconds that it may take, what stands in the table where it does not run)
PARTS = {
    "devices": (devices, 60, "the device can be used"),
    "parity": (parity, 300, "every op and gradient agrees with its reference on the device"),
    "digest": (digest, 120, "two runs have the same weights"),
    "kernels": (kernels, 300, "gemm and memory-bound kernels against the bare device"),
    "step": (step, 300, "through actors against the bare loop"),
    "torch": (torch, 480, "training steps against PyTorch's best"),
    "overlap": (overlap, 120, "copies and compute overlap: of the shorter is hidden"),
    "protocols": (protocols, 540, "every protocol on the device learns as on the CPU"),
    "sanitizers": (sanitizers, 540, "memcheck and racecheck find nothing"),
}


def carry_out(s, part):
    function, limit, text = PARTS[part]
    s.deadline = time.monotonic() + (s.o.limit or limit)
    began = time.monotonic()
    raw = None
    try:
        claims, raw = function(s)
    except NotRun as e:
        claims = [not_run(text, "", str(e))]
    except subprocess.TimeoutExpired:
        claims = [claim(text, f"not done after {s.o.limit or limit} s", "", False)]
    except Exception as e:  # a part that fails leaves the others
        claims = [claim(text, f"{type(e).__name__}: {e}"[-300:], "", False)]
    seconds = round(time.monotonic() - began, 1)
    (s.out / f"{part}.json").write_text(json.dumps({"part": part, "seconds": seconds, "tiny": s.o.tiny, "claims": claims, "raw": raw}, indent=1))
    print(f"{part}: {seconds} s, " + ", ".join(f"{n} {v}" for v in (PASS, FAIL, NOT_RUN) if (n := sum(c["verdict"] == v for c in claims))),
          flush=True)


def table(s):
    """Of every part whose result lies in OUT; those that have none yet were not run."""
    rows = []
    for part, (_, _, text) in PARTS.items():
        found = s.out / f"{part}.json"
        rows += json.loads(found.read_text())["claims"] if found.exists() else [not_run(text, "", "--part " + part)]
    widths = {key: max([len(key)] + [len(row[key]) for row in rows]) for key in ("claim", "figure", "wanted")}
    widths["figure"] = min(widths["figure"], 70)
    print()
    for row in [{"claim": "claim", "figure": "figure", "wanted": "wanted", "verdict": "verdict"}, *rows]:
        print("  ".join(row[key][:width].ljust(width) for key, width in widths.items()), row["verdict"])
    return rows


def main():
    parser = argparse.ArgumentParser(prog="tests/gpu/run.sh", description="What must hold on a GPU: parts "
                                     + ", ".join(f"{name} ({limit} s)" for name, (_, limit, _) in PARTS.items()) + ".")
    parser.add_argument("--out", default="gpu-results", help="folder for results as JSON (default: gpu-results)")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this one (may be repeated)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seed", type=int, help="of the parity tests (default: a fresh one)")
    parser.add_argument("--limit", type=int, help="seconds for each part, instead of its own")
    parser.add_argument("--tiny", action="store_true", help="sizes whose figures mean nothing: to try this script itself")
    parser.add_argument("--bin", help="folder of the programs (default: the bundle's)")
    parser.add_argument("--torch-python", default="python3", help="a Python that has PyTorch")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2], help=argparse.SUPPRESS)
    s = Session(parser.parse_args())
    print(f"data: {s.job()[0]}; results: {s.out}", flush=True)
    for part in s.o.part or PARTS:
        carry_out(s, part)
    rows = table(s)
    return 1 if any(row["verdict"] == FAIL for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
