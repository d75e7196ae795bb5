# SPDX-License-Identifier: BSD-3-Clause
"""The mutants of the ledger. See mutants.py."""

# file, text, replacement, what it breaks; where no test can notice it, why
MUTANTS = [
    ("ledger.cpp", "  if (what.number <= to.last)\n    return false;\n", "", "a number is given twice"),
    ("ledger.cpp", "what.number <= to.last", "to.jobs.contains(what.number)", "a forgotten job is submitted again"),
    ("ledger.cpp", "  to.last = what.number;\n", "", "numbers are not remembered"),
    ("ledger.cpp", "job{.detached = what.detached, ", "job{", "who needs a client is not known"),
    ("ledger.cpp", "of == nullptr || of->end || what.life", "of == nullptr || what.life", "a job begins after its end"),
    ("ledger.cpp", "what.life != of->life + 1 || ", "", "a life begins twice"),
    ("ledger.cpp", "what.life == 0 || ", "", "lives begin again at none"),
    ("ledger.cpp", " || size_of_nodes(what.nodes) > most_of_nodes)\n    return false;", ")\n    return false;", "the names of nodes have no limit"),
    ("ledger.cpp", "  of->life = what.life;\n", "", "lives are not counted"),
    ("ledger.cpp", "  of->nodes = what.nodes;\n", "", "where it ran is not known"),
    ("ledger.cpp", "of == nullptr || of->end || !fits", "of == nullptr || !fits", "a second end replaces the first"),
    ("ledger.cpp", " || !fits(what.how, what.reason, what.outcome))\n    return false;", ")\n    return false;", "a malformed end is taken"),
    ("ledger.cpp", "of != nullptr && of->end && to.jobs", "of != nullptr && to.jobs", "a job is forgotten before its end"),
    ("ledger.cpp", "how <= ending::interrupted && ", "", "an end of an unknown kind is taken"),
    ("ledger.cpp", " && size_of_end(reason, outcome) <= most_of_end;", ";", "an end may be of any length"),
    ("ledger.cpp", "return submission + overhead + most_of_nodes + most_of_end;", "return submission + overhead;", "no room is kept for what a job comes to"),
    ("ledger.cpp", "size_of(in) + size_of_job(job->submission.size()) <= most_bytes", "size_of(in) <= most_bytes", "the last job may be of any size"),
    ("ledger.cpp", "number >= 1 && ", "", "a job 0 is sound"),
    ("ledger.cpp", "number <= what.last && ", "", "a number that was not given is sound"),
    ("ledger.cpp", "(job.life != 0 || job.nodes.empty()) && ", "", "nodes of a job that has not begun are sound"),
]
