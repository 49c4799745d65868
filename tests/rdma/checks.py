"""What two runs of one design must share, whatever carried their bytes: looks at records and checkpoints alone."""

import json
import struct


class Wrong(Exception):
    """A check that does not hold, with both sides."""


def expect(condition, text):
    if not condition:
        raise Wrong(text)


def record_of(folder):
    records = list(folder.glob("runs/*/run.json"))
    expect(len(records) == 1, f"{len(records)} records in {folder}/runs, not one")
    return json.loads(records[0].read_text(encoding="utf-8"))


def checkpoint_of(folder):
    """The step and the floats (parameters, state, momentum) of a run's last checkpoint, as bytes."""
    files = sorted(folder.glob("saved/*.ckpt"))
    expect(files, f"no checkpoint in {folder}/saved")
    content = files[-1].read_bytes()
    expect(content[:8] == b"DLOBDCK1", f"{files[-1].name} is no checkpoint")
    (length,) = struct.unpack_from("<Q", content, 8)
    header = json.loads(content[16:16 + length])
    return header["step"], content[16 + length:-4]


def counts_of(record):
    keys = ("rank", "messages_sent", "bytes_sent", "messages_received", "bytes_received")
    return [{key: rank[key] for key in keys} for rank in record["ranks"]]


def check_finished(record, steps):
    expect(record["status"] == "finished", f"status {record['status']}")
    expect(record["summary"]["steps"] == steps, f"{record['summary']['steps']} steps of {steps}")


def check_soft_roce(record, devices):
    """The record says what carried the bytes, and that it was software."""
    environment = record["environment"]
    expect(environment["provider_used"] == "verbs;ofi_rxm", f"provider_used is {environment['provider_used']}")
    expect(environment["software_rdma"] is True, f"software_rdma is {environment['software_rdma']} on Soft-RoCE")
    expect(environment["interface"] in devices, f"interface is {environment['interface']}, not of {devices}")
    expect(record["config"]["provider"] == "verbs;ofi_rxm", f"config.provider is {record['config']['provider']}")


def check_crossed(folder, record):
    """What the one rank at the cable's far end sent and received went over the cable: RDMA that stayed inside the machine
    is not what is tested. Even ranks share the near end."""
    before, after = (int((folder / name).read_text(encoding="ascii")) for name in ("cable-before", "cable-after"))
    far = [rank for rank in record["ranks"] if rank["rank"] % 2 == 1]
    expect(len(far) == 1, f"{len(far)} ranks at the cable's far end, not one")
    must = far[0]["bytes_sent"] + far[0]["bytes_received"]
    expect(must > 0, "no bytes were sent")
    expect(after - before >= must, f"{after - before} bytes crossed the cable, {must} had to")
    return after - before


def first_difference(one, other):
    at = next((i for i in range(0, min(len(one), len(other)), 4) if one[i:i + 4] != other[i:i + 4]), min(len(one), len(other)))
    return at // 4


def check_equal_weights(tcp, rdma, first=None):
    """The parameters, state and momentum of both last checkpoints, bit for bit; or the `first` so many floats."""
    (tcp_step, tcp_floats), (rdma_step, rdma_floats) = checkpoint_of(tcp), checkpoint_of(rdma)
    expect(tcp_step == rdma_step, f"checkpoints of steps {tcp_step} and {rdma_step}")
    expect(len(tcp_floats) == len(rdma_floats) > 0, f"checkpoints of {len(tcp_floats)} and {len(rdma_floats)} bytes")
    end = len(tcp_floats) if first is None else 4 * first
    expect(tcp_floats[:end] == rdma_floats[:end],
           f"weights differ from float {first_difference(tcp_floats, rdma_floats)} of {len(tcp_floats) // 4} on")
    return end // 4


def check_equal_counts(tcp, rdma):
    expect(counts_of(tcp) == counts_of(rdma), f"counts over TCP {counts_of(tcp)}, over RDMA {counts_of(rdma)}")
