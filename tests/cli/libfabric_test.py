"""What libfabric is told before its first call, and what a run tells of a software stand-in.

How many peers verbs makes its queues for needs no adapter: libfabric says what it has read, and the program then refuses
to run without one.
"""

import os
import re
import unittest

from program import ProgramTest


class SizeOfTheJob(ProgramTest):
    def setUp(self):
        super().setUp()
        os.environ.pop("FI_UNIVERSE_SIZE", None)

    def told(self, *words, environment=None):
        """The size that libfabric has read; None where it was told nothing."""
        result = self.train("--network", "rdma", *words, environment={"FI_LOG_LEVEL": "info", **(environment or {})})
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("libfabric", result.stderr)
        found = re.findall(r"universe_size=(\d+)", result.stderr)
        return int(found[0]) if found else None

    def test_verbs_has_room_for_the_job_and_no_more(self):
        self.assertEqual(self.told("--provider", "verbs", "--ranks", "2", "--port", "0"), 16)
        self.assertEqual(self.told("--provider", "verbs;ofi_rxm", "--ranks", "40", "--port", "0"), 40)
        self.assertEqual(self.told("--provider", "verbs", "--ranks", "-1"), 16)

    def test_a_server_counts(self):
        self.assertEqual(self.told("--provider", "verbs", "--ranks", "40", "--port", "0", "--stack", "bigdl"), 41)

    def test_what_the_user_says_stays(self):
        self.assertEqual(self.told("--provider", "verbs", "--port", "0", environment={"FI_UNIVERSE_SIZE": "7"}), 7)

    def test_other_providers_are_left_alone(self):
        self.assertIsNone(self.told("--provider", "tcp;ofi_rxm", "--ranks", "40", "--port", "0"))


class StandIn(ProgramTest):
    def test_it_is_named_beside_the_figures(self):
        result = self.train("--network", "rdma", "--provider", "shm", "--ranks", "2", "--local-batch-size", "10", "--steps", "2")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("on 2 ranks, rdma(shm), software stand-in: 2 steps", result.stdout)


if __name__ == "__main__":
    unittest.main()
