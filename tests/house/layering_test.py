#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The project keeps each house rule, and each rule bites. One rule: layering_test.py RULE; all: layering_test.py.
import sys
import unittest

import tree

SPDX = "SPDX-License-Identifier: BSD-3-Clause"


def source(*lines):
    return "\n".join([f"// {SPDX}", "// What it holds.", *lines, ""])


# A small tree that breaks no rule.
GOOD = {
    "README.md": "# Troupe\n\nSee `tensor/graph.hpp`, graph.cpp, `graph.*`, `_test.cpp`, ...ers.hpp, your NAME.hpp.\n\n```\nnone.cpp\n```\n",
    "kernels/assert.hpp": source("#pragma once", "#include <cstdio>"),
    "kernels/backend.hpp": source("#pragma once", "#include <vector>"),
    "kernels/cuda/queue.cpp": source("#include <cuda_runtime.h>"),
    "tensor/graph.hpp": source("#pragma once", '#include "kernels/backend.hpp"'),
    "tensor/graph.cpp": source('#include "tensor/graph.hpp"', '#include "kernels/assert.hpp"'),
    "tensor/sorted.hpp": source("#pragma once", "#include <algorithm>"),
    "tensor/sorted.cpp": source('#include "tensor/sorted.hpp"', "namespace {",
                                "int least() { return *std::min_element(v.begin(), v.end()); }", "} // namespace"),
    "protocols/rule.hpp": source("#pragma once", "#include <map>"),
    "protocols/rule.cpp": source('#include "protocols/rule.hpp"', '#include "kernels/assert.hpp"'),
    "protocols/spec.hpp": source("#pragma once", 'std::string name = "slow";'),
    "protocols/slow.hpp": source("#pragma once", 'return {.name = "slow",', '.summary = "waits"};'),
    "protocols/either.cpp": source('return {.name = "either",', '.summary = "chooses", .from = {"slow"}}; // not "either"'),
    "protocols/wire/lane.capnp": f"# {SPDX}\n# What goes over a lane.\n",
    "protocols/wire/codec.cpp": source('#include "protocols/rule.hpp"', "#include <capnp/message.h>",
                                       '#include "protocols/wire/lane.capnp.h"'),
    "actors/worker.hpp": source("#pragma once", "#include <caf/actor.hpp>"),
    "actors/version.hpp.in": source("#pragma once"),
    "actors/worker.cpp": source('#include "actors/worker.hpp"', '#include "actors/version.hpp"', '#include "protocols/rule.hpp"',
                                '#include "tensor/graph.hpp"', "#include <caf/all.hpp>"),
    "actors/net/lane.cpp": source("#include <boost/asio.hpp>"),
    "apps/folding.cpp": source('return {{"slow", brief(each.slow)}, {"load", each.load}};'),
    "apps/examples/custom.cpp": source('real_parameter("slow", 0.5),', 'integer_or_word{{1, 9}, "slow", 0}'),
    "apps/main.cpp": source('#include "tensor/graph.hpp"', "#include <CLI/CLI.hpp>"),
    "apps/config.cpp": source("#include <toml++/toml.h>"),
    "tests/apps/CMakeLists.txt": "apps_test(run WITH x CLASSES Starts Ends)\napps_test(stop)\n",
    "tests/apps/run_test.py": f"# {SPDX}\n# Runs.\nclass RunTest(Case):\n    pass\n\n\nclass Starts(RunTest):\n    def test_it(self):\n        pass\n",
    "tests/apps/stop_test.py": f"# {SPDX}\n# Stops.\nclass Any(Case):\n    def test_it(self):\n        pass\n",
    "tests/CMakeLists.txt": "add_executable(all_tests tensor/graph_test.cpp)\n",
    "tests/actors/CMakeLists.txt": "add_executable(actors_test\n  lane_test.cpp)\n",
    "tests/tensor/helpers.hpp": source("#pragma once"),
    "tests/tensor/graph_test.cpp": source('#include "tensor/graph.hpp"', '#include "tests/tensor/helpers.hpp"'),
    "tests/actors/lane_test.cpp": source("#include <boost/asio.hpp>", "#include <caf/actor.hpp>", '#include "tests/tensor/helpers.hpp"'),
    "dev": f"#!/usr/bin/env bash\n# {SPDX}\n# Commands.\n",
}

# For each rule, files that break it when they are added; it must name every one of them.
HOME = "/" + "home/somebody/x"
BAD = {
    "layers_include_only_to_their_left": {
        "kernels/x.cpp": source('#include "tensor/graph.hpp"'),
        "protocols/x.cpp": source('#include "kernels/backend.hpp"'),
        "actors/x.cpp": source(' # include "apps/main.hpp"'),
        "tensor/x.cpp": source('#include "tests/tensor/helpers.hpp"'),
        "tests/tensor/x_test.cpp": source('#include "actors/worker.hpp"'),
        "tests/kernels/x_test.cpp": source('#include "tests/tensor/helpers.hpp"'),
    },
    "tensor_and_protocols_never_see_each_other": {
        "tensor/x.cpp": source('#include "protocols/rule.hpp"'),
        "protocols/wire/x.cpp": source('#include "tensor/graph.hpp"'),
        "tests/protocols/x_test.cpp": source('#include "tensor/graph.hpp"'),
    },
    "machines_know_no_clock_thread_or_chance": {
        "protocols/x.cpp": source("#include <chrono>"),
        "protocols/x.hpp": source("#pragma once", "#include <random>"),
    },
    "only_actors_and_apps_include_caf": {
        "tensor/x.cpp": source("#include <caf/actor.hpp>"),
        "protocols/x.cpp": source('#include "caf/actor.hpp"'),
        "tests/kernels/x_test.cpp": source("#include <caf/actor.hpp>"),
    },
    "only_kernels_cuda_includes_cuda": {
        "kernels/cpu/x.cpp": source("#include <cuda_runtime.h>"),
        "actors/x.cpp": source("#include <cublas_v2.h>"),
    },
    "only_protocols_wire_includes_capnp": {
        "protocols/x.cpp": source("#include <kj/array.h>"),
        "actors/net/x.cpp": source('#include "protocols/wire/lane.capnp.h"'),
    },
    "only_tensor_onnx_includes_onnx": {
        "tensor/x.cpp": source("#include <onnx/onnx_pb.h>"),
        "apps/x.cpp": source("#include <google/protobuf/message.h>"),
    },
    "only_actors_net_includes_asio": {
        "actors/x.cpp": source("#include <boost/asio/ip/tcp.hpp>"),
        "apps/x.cpp": source("#include <boost/beast.hpp>"),
    },
    "costly_headers_have_one_source_each": {
        "apps/x.hpp": source("#pragma once", "#include <toml++/toml.h>"),
        "apps/y.cpp": source("#include <CLI/App.hpp>"),
    },
    "no_header_includes_all_of_caf": {"actors/x.hpp": source("#pragma once", "#include <caf/all.hpp>")},
    "project_includes_are_quoted_from_the_root": {
        "tensor/x.cpp": source('#include "graph.hpp"'),
        "tensor/y.cpp": source("#include <tensor/graph.hpp>"),
    },
    "a_source_includes_its_own_header_first": {"tensor/graph.cpp": source("#include <map>", '#include "tensor/graph.hpp"')},
    "who_uses_an_algorithm_includes_it": {
        "tensor/x.cpp": source("#include <vector>", "namespace {",
                                "int least() { return *std::min_element(v.begin(), v.end()); }", "} // namespace"),
        "tensor/x.hpp": source("#pragma once", "inline bool all() { return std::ranges::all_of(v, f); }"),
    },
    "functions_of_unnamed_namespaces_are_unique_in_their_folder": {
        "tensor/y.cpp": source("namespace {", "std::size_t least(const std::string& text) { return 0; }", "} // namespace"),
    },
    "a_protocol_is_named_by_its_own_file_alone": {
        "protocols/x.cpp": source('if (spec.name == "slow")'),
        "protocols/either.cpp": source('return {.name = "either",', '.summary = "chooses", .slow = spec.name == "slow"};'),
        "actors/x.cpp": source('return std::set{"slow", "either"}.contains(name);'),
        "apps/x.hpp": source("#pragma once", 'if ("either" != name)'),
        "apps/x.cpp": source('const std::map<std::string, int> waits{{"slow", most.waits}};'),
    },
    "headers_have_pragma_once": {"tensor/x.hpp": source("#ifndef X", "#define X", "#endif")},
    "code_starts_with_licence_and_purpose": {
        "tensor/x.cpp": "// What it holds.\n",
        "tensor/y.hpp": f"// {SPDX}\n#pragma once\n",
        "tests/x.py": f"#!/usr/bin/env python3\nimport os\n# {SPDX}\n",
    },
    "files_stay_within_one_head": {"tensor/x.cpp": source(*["int x;"] * tree.MAX_LINES)},
    "classes_stay_within_one_head": {
        "tensor/x.hpp": source("#pragma once", "class large {", *["  int x;"] * (tree.MAX_LINES // 2 - 2), "};"),
        "tensor/x.cpp": source("int large::one() const {", *["  ++x;"] * (tree.MAX_LINES // 2), "}"),
    },
    "files_name_no_machine": {
        "tensor/x.cpp": source(f"// see {HOME}"),
        "config/x.toml": f'path = "{HOME}"\n',
        "cmake/x.sh": f"#!/bin/sh\n# {SPDX}\n# Fetches.\nwget deb." "debian.org\n",
    },
    "files_that_pages_and_comments_name_exist": {
        "tensor/README.md": "# tensor\n\nAll of it is in `grph.cpp`.\n",
        "actors/README.md": "# actors\n\n| `workers.*` | those who compute |\n",
        "tensor/x.cpp": source("int x; // as in tensor/none.hpp"),
        "kernels/x.hpp": source("#pragma once", "/// What tests/tensor/graph.hpp would be."),
        "tests/x.sh": f"#!/bin/sh\n# {SPDX}\n# Runs none.py.\n",
    },
    "rooms_of_actors_stay_small": {f"actors/net/part{i}.cpp": source() for i in range(tree.MAX_FILES_IN_A_ROOM + 1)},
    "every_test_is_run": {
        "tests/tensor/grap_test.cpp": source("TEST(Grap, Is) {}"),
        "tests/apps/un_test.py": f"# {SPDX}\n# Runs.\n",
        "tests/apps/run_test.py": f"# {SPDX}\n# Runs.\nclass Goes(Case):\n    def go(self):\n        pass\n\n    def test_it(self):\n        pass\n",
    },
    "the_root_holds_only_the_house": {"notes.txt": "", "scratch": ""},
}


class Project(unittest.TestCase):
    """The project keeps the rule."""

    @classmethod
    def setUpClass(cls):
        cls.files = tree.project_files()


class Bite(unittest.TestCase):
    """The rule accepts the good tree and names every bad file that is added to it."""


def kept(rule):
    def test(self):
        broken = list(rule(self.files))
        self.assertFalse(broken, "\n" + "\n".join(broken))
    return test


def bites(rule, bad):
    def test(self):
        self.assertEqual(list(rule(GOOD)), [])
        broken = list(rule({**GOOD, **bad}))
        for path in bad:
            self.assertTrue(any(path in line for line in broken), f"{path} went unnoticed; noticed: {broken}")
    return test


for name, rule in tree.RULES.items():
    setattr(Project, f"test_{name}", kept(rule))
    setattr(Bite, f"test_{name}", bites(rule, BAD[name]))


if __name__ == "__main__":
    chosen = [f"{case}.test_{name}" for name in sys.argv[1:] for case in ("Project", "Bite")]
    unittest.main(argv=sys.argv[:1] + chosen, verbosity=2)
