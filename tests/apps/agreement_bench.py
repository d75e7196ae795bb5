#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How well `simulate` and `run` agree on the training time of a step: agreement_bench.py TROUPE [--runs N] [-- FLAGS OF BOTH].

Jobs of four workers with emulated steps, over emulated links; each seed is simulated and run. A real run also takes what this
machine takes, so each row shows its load, and the processor time that its host took from it. As root,
`chrt -f 5 agreement_bench.py ...` lets the runs go ahead of all else. A row with seconds stolen says nothing: measure it again.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

# Without the jitter, workers that wait for nobody would meet on a link at each exchange, in virtual time alone:
# config/comparisons.md says why.
JOB = """
[data]
source = "digits"
test_samples = 1000
batch = 16
[model]
kind = "mlp"
[cluster]
nodes = 3
workers = 4
[inject]
straggler = ["dist=jitter,spread=0.1"]
[evaluate]
every_s = 10
"""
PROTOCOLS = {
    "gossip": {"protocol.name": "gossip", "inject.step_ms": 40, "stop.steps": 2400},
    "easgd": {"protocol.name": "easgd", "protocol.steps": 4, "inject.step_ms": 40, "stop.steps": 480},
    "tree": {"protocol.name": "sync", "protocol.fan_in": 2, "inject.step_ms": 100, "stop.steps": 160},
}
# The link, and the width of the model's hidden layer. 128: a tensor takes 3.3 ms at 1 Gbit/s; 320: 8.1 ms. Elastic averaging
# waits only for what its exchange takes longer than a step. Far wider, and how its workers happen to meet on the link decides.
LINKS = {"30ms": ("latency_ms=30", {}, 64), "1gbit": ("mbit=1000", {"easgd": 320}, 128)}
LARGEST_PERCENT = 2  # that counts as agreeing


def stolen_seconds():
    """Of a virtual machine: what its processors were not given, since it began."""
    return int(pathlib.Path("/proc/stat").read_text().split(maxsplit=10)[8]) / os.sysconf("SC_CLK_TCK")


def play(troupe, command, *flags):
    """The time of a step in milliseconds, how many there were, and what the run says of its own times."""
    done = subprocess.run([troupe, command, *flags, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command} failed: {done.stderr}")
    said = json.loads(done.stdout.splitlines()[-1])
    notes = [line for line in done.stderr.splitlines() if "of their emulated time" in line]
    return 1000 * said.get("virtual_seconds", said.get("seconds")) / said["steps"], said["steps"], notes


def compare(troupe, protocol, link, runs, flags, folder):
    job = pathlib.Path(folder, "job.toml")
    job.write_text(JOB)
    spec, widths, width = LINKS[link]
    settings = {**PROTOCOLS[protocol], "model.hidden": [widths.get(protocol, width)]}
    flags = [job, "--link", spec, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")), *flags]
    agree = True
    for seed in map(str, range(1, runs + 1)):
        simulated, _, _ = play(troupe, "simulate", "--seed", seed, *flags)
        load, stolen = os.getloadavg()[0], stolen_seconds()
        took, steps, notes = play(troupe, "run", "--seed", seed, *flags)
        percent = 100 * (took / simulated - 1)
        agree = agree and abs(percent) <= LARGEST_PERCENT
        print(f"{protocol:9}{link:8}{seed:>4}{steps:8}{simulated:12.3f} ms{took:12.3f} ms{percent:+9.2f} %    "
              f"load {load:.1f} to {os.getloadavg()[0]:.1f}, {stolen_seconds() - stolen:.1f} s stolen", *notes, flush=True)
    return agree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("troupe")
    parser.add_argument("--protocol", nargs="+", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--link", nargs="+", choices=LINKS, default=list(LINKS))
    parser.add_argument("--runs", type=int, default=3, help="of each, with seeds 1 to N")
    parser.add_argument("flags", nargs="*", help="after --, for both commands: --straggler worker=1,factor=2")
    given = parser.parse_args()
    print(f"{'protocol':9}{'link':8}{'seed':>4}{'steps':>8}{'simulate':>15}{'run':>15}{'differs by':>11}")
    with tempfile.TemporaryDirectory() as folder:
        agree = [compare(given.troupe, protocol, link, given.runs, given.flags, folder)
                 for protocol in given.protocol for link in given.link]
    raise SystemExit(0 if all(agree) else 1)


if __name__ == "__main__":
    main()
