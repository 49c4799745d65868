"""`dlobd bench` at the command line: what it refuses, and one short run of what needs no libtorch."""

import json
import subprocess
import unittest

from program import PATIENCE, PROGRAM


def bench(*words):
    return subprocess.run([PROGRAM, "bench", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=3 * PATIENCE, check=False)


class Bench(unittest.TestCase):
    def refused(self, words, *said):
        result = bench(*words)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in said:
            self.assertIn(word, result.stderr)

    def test_sizes_arms_and_rounds(self):
        self.refused(["transport", "--sizes", "4KB"], "--sizes 4KB")
        self.refused(["transport", "--sizes", "0"], "--sizes 0")
        self.refused(["allreduce", "--sizes", "6"], "multiple of 4", "--sizes 6")
        self.refused(["transport", "--rounds", "0"], "--rounds 0")
        self.refused(["transport", "--arms", "tpc"], "did you mean tcp?")

    def test_networks(self):
        self.refused(["allreduce", "--network", "rmda"], "did you mean rdma?")
        self.refused(["allreduce", "--provider", "shm"], "add --network rdma")
        self.refused(["allreduce", "--network", "rdma", "--provider", "sockets"], "sockets")
        self.refused(["allreduce", "--network", "rdma", "--provider", "shm", "--connections-per-peer", "2"],
                     "--connections-per-peer")

    def test_designs(self):
        here = ["training", "--data", "."]
        self.refused([*here, "--stacks", "bigdI"], "did you mean bigdl?")
        self.refused([*here, "--behaviours", "fixd"], "did you mean fixed?")
        self.refused([*here, "--networks", "tpc"], "did you mean tcp?")
        self.refused([*here, "--stacks", "bigdl", "--networks", "tcp", "--steps", "3"], "--steps 3")

    def test_a_short_run_over_sockets_and_stand_ins(self):
        result = bench("transport", "--sizes", "200000", "--rounds", "1", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual(found["benchmark"], "transport")
        self.assertFalse(found["networks"]["tcp"]["software_rdma"])
        for name, network in found["networks"].items():
            figures = found["arms"][name]
            self.assertGreater(figures["write_us_200000"]["median"], 0)
            self.assertGreaterEqual(figures["write_p99_us_200000"]["median"], figures["write_us_200000"]["median"])
            self.assertNotIn("message_us_200000", figures)  # two-sided ones are small
            self.assertEqual(len(found["to_raw"][name]["write_us_200000"]["ratios"]), 1)
            if name in ("rdma_shm", "rdma_tcp_ofi_rxm"):
                self.assertTrue(network["software_rdma"])
                self.assertIn("software stand-in", network["title"])
                self.assertEqual(figures["write_copies_200000"]["median"], 0)

    def test_the_all_reduce_over_a_stand_in_names_it(self):
        words = ("allreduce", "--network", "rdma", "--provider", "shm", "--arms", "memcpy", "--sizes", "400000",
                 "--rounds", "1")
        result = bench(*words)
        if "does not have the RDMA provider" in result.stderr or "no libfabric" in result.stderr:
            self.skipTest("libfabric has no shm here")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("dlobd, rdma(shm), software stand-in", result.stdout)


if __name__ == "__main__":
    unittest.main()
