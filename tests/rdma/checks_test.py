"""The checks of this folder let pass what is right and find what is not; needs no guest."""

import json
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import checks


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dlobd-rdma-checks-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_of(self, name, floats, step=50, sent=8, **environment):
        """A run's folder with a record of two ranks and a checkpoint."""
        folder = self.folder / name
        (folder / "runs/20260101").mkdir(parents=True)
        (folder / "saved").mkdir()
        rank = {"messages_sent": 1, "bytes_sent": sent, "messages_received": 1, "bytes_received": 8}
        record = {"status": "finished", "config": {"network": "rdma", "provider": "verbs;ofi_rxm"}, "summary": {"steps": step},
                  "environment": {"provider_used": "verbs;ofi_rxm", "software_rdma": True, "interface": "rxea", **environment},
                  "ranks": [{"rank": number, **rank} for number in (0, 1)]}
        (folder / "runs/20260101/run.json").write_text(json.dumps(record), encoding="utf-8")
        header = json.dumps({"step": step}).encode()
        (folder / "saved/a.ckpt").write_bytes(b"DLOBDCK1" + struct.pack("<Q", len(header)) + header
                                              + struct.pack(f"<{len(floats)}f", *floats) + b"sums")
        return folder

    def wrong(self, text, check, *arguments):
        with self.assertRaisesRegex(checks.Wrong, text):
            check(*arguments)

    def test_weights(self):
        one = self.run_of("one", [1, 2, 3])
        self.assertEqual(checks.check_equal_weights(one, self.run_of("same", [1, 2, 3])), 3)
        self.wrong("differ from float 2 of 3", checks.check_equal_weights, one, self.run_of("other", [1, 2, 4]))
        self.assertEqual(checks.check_equal_weights(one, self.folder / "other", 2), 2)
        self.wrong("float 0", checks.check_equal_weights, one, self.run_of("first", [-1, 2, 3]), 1)
        self.wrong("differ from float 0", checks.check_equal_weights, self.run_of("zero", [0.0]), self.run_of("sign", [-0.0]))
        self.wrong("12 and 8 bytes", checks.check_equal_weights, one, self.run_of("short", [1, 2]))
        self.wrong("steps 50 and 49", checks.check_equal_weights, one, self.run_of("earlier", [1, 2, 3], step=49))
        (self.folder / "empty").mkdir()
        self.wrong("no checkpoint", checks.check_equal_weights, one, self.folder / "empty")
        self.wrong("not one", checks.record_of, self.folder / "empty")

    def test_records(self):
        good = checks.record_of(self.run_of("good", [1]))
        checks.check_finished(good, 50)
        self.wrong("50 steps of 51", checks.check_finished, good, 51)
        self.wrong("interrupted", checks.check_finished, {**good, "status": "interrupted"}, 50)
        checks.check_soft_roce(good, ("rxea",))
        self.wrong("interface is rxea", checks.check_soft_roce, good, ("rxe0",))
        for name, value in (("provider_used", "shm"), ("software_rdma", False), ("software_rdma", None)):
            bad = checks.record_of(self.run_of(f"{name} {value}", [1], **{name: value}))
            self.wrong(f"{name} is {value}", checks.check_soft_roce, bad, ("rxea",))

    def test_counts(self):
        one, other = (checks.record_of(self.run_of(name, [1], sent=sent)) for name, sent in (("a", 8), ("b", 9)))
        checks.check_equal_counts(one, one)
        self.wrong("counts", checks.check_equal_counts, one, other)

    def test_bytes_on_the_cable(self):
        folder = self.run_of("crossed", [1])
        record = checks.record_of(folder)
        (folder / "cable-before").write_text("100\n", encoding="ascii")
        (folder / "cable-after").write_text("116\n", encoding="ascii")
        self.assertEqual(checks.check_crossed(folder, record), 16)
        (folder / "cable-after").write_text("115\n", encoding="ascii")
        self.wrong("15 bytes crossed the cable, 16 had to", checks.check_crossed, folder, record)
        # A server beside rank 0: what those two say to each other need not cross.
        record["ranks"].append({"rank": 2, "bytes_sent": 100, "bytes_received": 100})
        self.wrong("15 bytes crossed the cable, 16 had to", checks.check_crossed, folder, record)
        record["ranks"].append({"rank": 3, "bytes_sent": 0, "bytes_received": 0})
        self.wrong("2 ranks at the cable's far end", checks.check_crossed, folder, record)


if __name__ == "__main__":
    unittest.main()
