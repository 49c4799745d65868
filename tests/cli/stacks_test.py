"""Every stack trains through the program, over TCP and over RDMA's stand-in in shared memory, with all threads of
a rank at work; a design whose order of addition is fixed ends with the same weights on both.
"""

import os
import unittest

from program import ProgramTest

NETWORKS = {"tcp": ("--network", "tcp"), "shm": ("--network", "rdma", "--provider", "shm")}


def weights_of(checkpoint):
    """What lies between the header, which names the run and so its network's own defects, and the checksum."""
    with open(checkpoint, "rb") as file:
        content = file.read()
    header = int.from_bytes(content[8:16], "little")
    return content[16 + header:-4]


class Stacks(ProgramTest):
    def trained(self, network, stack, *words):
        """Two workers and ten steps over one network; the checkpoint, and the record's ranks."""
        saved, out = self.path(f"saved-{network}"), self.path(f"runs-{network}")
        done = self.train("--ranks", "2", "--local-batch-size", "10", "--steps", "10", "--checkpoint", saved,
                          "--out", out, *NETWORKS[network], *words, stack=stack)
        self.assertEqual(done.returncode, 0, done.stderr)
        record, _ = self.record(out)
        self.assertEqual(record["status"], "finished")
        self.assertEqual(record["summary"]["steps"], 10)
        files = os.listdir(saved)
        self.assertEqual(len(files), 1, files)
        return os.path.join(saved, files[0]), record["ranks"]

    def compare(self, stack, *words, equal_weights=True):
        tcp, ranks = self.trained("tcp", stack, *words)
        shm, ranks_of_shm = self.trained("shm", stack, *words)
        if not equal_weights:
            return
        self.assertGreater(len(weights_of(tcp)), 10 * 64 * 4)
        self.assertTrue(weights_of(tcp) == weights_of(shm), f"the weights in {tcp} and {shm} differ")
        for mine, other in zip(ranks, ranks_of_shm, strict=True):
            for count in ("bytes_sent", "bytes_received"):
                self.assertEqual(mine[count], other[count], f"{count} of rank {mine['rank']}")

    def test_allreduce(self):
        self.compare("allreduce")

    def test_caffeonspark(self):
        self.compare("caffeonspark", "--behaviour", "fixed")

    def test_caffeonspark_improved(self):
        self.compare("caffeonspark", "--behaviour", "improved")

    def test_tensorflowonspark(self):
        self.compare("tensorflowonspark")

    def test_tensorflowonspark_improved(self):
        self.compare("tensorflowonspark", "--behaviour", "improved")

    def test_tensorflowonspark_ps_in_order_of_arrival(self):
        self.compare("tensorflowonspark_ps", equal_weights=False)

    def test_tensorflowonspark_ps_improved(self):
        self.compare("tensorflowonspark_ps", "--updates", "synchronous", "--behaviour", "improved")

    def test_bigdl(self):
        self.compare("bigdl")

    def test_bigdl_drops_stragglers(self):
        done = self.train("--ranks", "3", "--local-batch-size", "10", "--steps", "60", "--evaluate-every", "10",
                          "--drop-percentage", "0.2", "--drop-warm-up", "5", "--drop-every", "5", stack="bigdl")
        self.assertEqual(done.returncode, 0, done.stderr)
        record, rows = self.record()
        self.assertEqual(record["config"]["drop_percentage"], 0.2)
        self.assertEqual(record["config"]["drop_every"], 5)
        self.assertEqual(record["summary"]["steps"], 60)
        self.assertEqual(len(rows), 3 * 60)
        for rank in range(3):
            cut_off = [row for row in rows if int(row["rank"]) == rank and row["samples"] == "0"]
            self.assertTrue(all(row["loss"] == "nan" and int(row["step"]) >= 10 for row in cut_off), cut_off)
            said = [warning for warning in record["warnings"]
                    if warning.startswith(f"rank {rank}: ") and "not counted: " in warning]
            expected = [f"{len(cut_off)} of 60 steps"] if cut_off else []
            self.assertEqual([warning.split("counted: ")[1] for warning in said], expected)
            self.assertEqual(record["ranks"][rank]["samples_seen"], 10 * (60 - len(cut_off)))

    def test_bigdl_improved(self):
        self.compare("bigdl", "--behaviour", "improved")


if __name__ == "__main__":
    unittest.main()
