# SPDX-License-Identifier: BSD-3-Clause
"""The mutants of sizes of partitions that are tried while a job runs. See mutants.py."""

TUNER = "partition_tuner.cpp"
COORDINATOR = "coordinator.cpp"

# file, text, replacement, what it breaks; where no test can notice it, why
MUTANTS = [
    (TUNER, "next.workers == last.workers && ", "", "what was measured of other workers still counts"),
    (TUNER, " && next.period == last.period;", ";", "what was measured of another period still counts"),
    (TUNER, "  state_.waits = spans_to_wait;\n", "", "a size is measured while its plan begins"),
    (TUNER, "  state_.since.reset();\n", "", "what goes before a plan is in its first span"),
    (TUNER, "  state_.spans.clear();\n", "", "spans of the last plan count"),
    (TUNER, "state_.pushes += closed.contributions;", "state_.pushes += 2;", "every version is a span"),
    (TUNER, "clearly_faster = 0.97;", "clearly_faster = 1.0;", "any gain is one"),
    (TUNER, "median(std::span{spans})", "std::ranges::min(spans)", "the shortest span is taken for the usual one"),
    (TUNER, "      state_.tried_smaller = larger;\n", "", "it goes back to where it came from"),
    (TUNER, "std::ranges::upper_bound(sizes, state_.best);", "std::ranges::lower_bound(sizes, state_.best);", "it tries the best once more instead of the next larger"),
    (TUNER, "    state_.settled = true;\n", "", "it never settles"),
    (COORDINATOR, "  if (decided && decided->partition_kib == state_.plan.partition_kib)\n    return {say{decided->why}};\n", "", "a plan changes nothing"),
    (COORDINATOR, "  out.tuning = tuner_.state();\n", "", "another coordinator measures anew"),
    ("takeover.cpp", ",\n                        .partition_kib = last.partition_kib};", "};", "who takes over forgets the size"),
    ("allreduce.cpp", "partitions_of_(plan_.partition_kib);", "partitions_of_(0);", "workers sum as many partitions under every plan"),
    ("sim/workers.cpp", "overlap = step_overlap{in.cuts_.of(cut_by).overlap};", "overlap = step_overlap{in.cuts_.of(0).overlap};", "steps are cut as the job begins"),
]
