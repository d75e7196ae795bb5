#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which nodes of a cluster a job gets, what it is refused for, and how nodes are let go.

usage: placing_test.py TROUPE [unittest arguments]
"""
import os
import sys
import unittest

import cluster_test
from bootstrap_test import BootstrapTest
from cluster_test import JOB


class Placing(BootstrapTest):
    ROLES = {"a": '["coordinator", "shard"]', "b": '["shard"]', "c": '["worker"]'}

    def setUp(self):
        super().setUp()
        self.file = self.cluster_file("lab.toml", names="abc")

    def test_workers_go_to_the_node_that_may_hold_them(self):
        self.cluster("abc")
        one = JOB.replace("workers = 4", "workers = 1")
        for arguments, nodes in [((), 2), (("--nodes", "2"), 2), (("--nodes", "3", "--set", "cluster.workers=2"), 3),
                                 (("--set", "cluster.workers=2", "--set", "cluster.shards=2"), 3)]:
            with self.subTest(arguments=arguments):
                result, _ = self.result_of(self.submit("--json", *arguments, job=one))
                self.assertEqual(result["nodes"], nodes)


if __name__ == "__main__":
    cluster_test.TROUPE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
