"""RDMA's calls for real: the fabric transport over `verbs;ofi_rxm`, on Soft-RoCE in a small virtual machine.

One guest has two RDMA devices, joined by a cable. In it run the transport contract suite, the oracles of every
design, and steps of LeNet through each stack over TCP and over RDMA between the two devices, whose weights must be
equal. Then two guests, joined by a cable, train together. Soft-RoCE emulates RDMA: this proves that results are
right, and says nothing about speed.
Usage: run.py BUILD [WORD...]: only the parts and designs that have a word as their name, or as a part of it where it is
nobody's name. Exits 0 when all hold, 1 else.
"""

import fcntl
import os
import shlex
import shutil
import signal
import socket
import struct
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
import checks
import image
from guest import Guest, kvm_works

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 50
BATCH = 2          # of all workers together: emulated processors are slow
PATIENCE = 120     # seconds of silence that a peer may take
RUN_SECONDS = 1500
WORKERS = 2
PARAMETERS = 431_080  # of LeNet
TRAIN_IMAGES, TEST_IMAGES = 512, 16
# Soft-RoCE's queues for libfabric's 256 peers do not fit into a guest. The program sizes them itself; its tests do not.
TESTS = "FI_UNIVERSE_SIZE=16"

# name: options, servers, and what of the weights must equal TCP's: all; own, the slice that rank 0 owns; none.
DESIGNS = {
    "allreduce": ("--stack allreduce", 0, "all"),
    "caffeonspark": ("--stack caffeonspark", 0, "own"),
    "caffeonspark_gathered": ("--stack caffeonspark --defect snapshot_ungathered=fixed --defect momentum_own_slice=fixed", 0,
                              "all"),
    "tensorflowonspark": ("--stack tensorflowonspark", 0, "all"),
    "bigdl": ("--stack bigdl", 1, "all"),
    "tensorflowonspark_ps_synchronous": ("--stack tensorflowonspark_ps --updates synchronous --defect arrival_order=fixed", 1,
                                         "all"),
    # Every gradient of one picture is applied as it is: at the usual rate that diverges.
    "tensorflowonspark_ps": ("--stack tensorflowonspark_ps --learning-rate 0.001", 1, "none"),
    "caffeonspark_improved": ("--stack caffeonspark --behaviour improved", 0, "all"),
    "tensorflowonspark_improved": ("--stack tensorflowonspark --behaviour improved", 0, "all"),
    "bigdl_improved": ("--stack bigdl --behaviour improved", 0, "all"),
    "tensorflowonspark_ps_improved": ("--stack tensorflowonspark_ps --behaviour improved --updates synchronous", 1, "all"),
}
BETWEEN_GUESTS = "allreduce"
NAMES = {"contract", "oracles", "software_is_not_taken_unasked", "two_guests", *DESIGNS}

SHELL = r"""
mkdir -p /tmp/bin && /tools/busybox --install -s /tmp/bin
export HOME=/tmp PATH=/tmp/bin DLOBD_JOB_TOKEN=between-devices
cp -r /share/mnist /tmp/mnist
now() { cut -d ' ' -f 1 /proc/uptime; }
# step NAME SECONDS COMMAND...: its output goes to NAME/output, one line about it to the host
step() {
  name=$1 seconds=$2 begun=$(now); shift 2
  mkdir -p /share/results/$name
  echo "@begin $name"
  ( "$@" ) >/share/results/$name/output 2>&1 & job=$!
  ( sleep $seconds; echo "stopped after $seconds s" >>/share/results/$name/output; touch /tmp/late; kill_all; kill $job ) & clock=$!
  wait $job; status=$?
  kill $clock 2>/dev/null; wait $clock 2>/dev/null
  [ ! -e /tmp/late ] || { status=124; rm /tmp/late; }
  echo "@end $name $status $(awk -v a=$begun -v b=$(now) 'BEGIN { printf "%.0f", b - a }')"
}
kill_all() { for program in dlobd transport_contract_test exchange_test; do killall -9 $program 2>/dev/null; done; }
# keep NAME: what a run has left goes to the host
keep() { cp -r /tmp/run/. /share/results/$1/ 2>/dev/null; rm -rf /tmp/run; }
bytes() { cat /sys/class/net/cable[ab]/statistics/tx_bytes | awk '{ s += $1 } END { printf "%d", s }'; }
train="$PROGRAM train --model lenet --data /tmp/mnist --steps $STEPS --global-batch-size $BATCH --threads 1 --seed 1
  --processor cpu --blas reference
  --peer-timeout $PATIENCE --out /tmp/run/runs --checkpoint /tmp/run/saved"
over_tcp() { # NAME OPTIONS...
  name=$1; shift
  mkdir -p /tmp/run
  $train --network tcp --ranks $WORKERS "$@"; status=$?
  keep $name
  return $status
}
between_devices() { # NAME RANKS OPTIONS...: even ranks on rxea, odd ones on rxeb
  name=$1 ranks=$2 rank=0 pids="" status=0; shift 2
  mkdir -p /tmp/run
  bytes >/tmp/run/cable-before
  while [ $rank -lt $ranks ]; do
    device=rxea; [ $((rank % 2)) = 0 ] || device=rxeb
    $train --network rdma --provider verbs --device $device --rank $rank --world-size $ranks \
      --rendezvous 127.0.0.1:7000 "$@" & pids="$pids $!"
    rank=$((rank + 1))
  done
  for pid in $pids; do wait $pid || status=$?; done
  bytes >/tmp/run/cable-after
  keep $name
  return $status
}
between_guests() { # NAME RANK OPTIONS...
  name=$1 rank=$2; shift 2
  mkdir -p /tmp/run
  until ping -c 1 -W 1 10.77.0.1 && ping -c 1 -W 1 10.77.0.2; do sleep 1; done >/dev/null
  $train --network rdma --provider verbs --device rxe0 --rank $rank --world-size 2 --rendezvous 10.77.0.1:7000 "$@"
  status=$?
  keep $name
  return $status
}
"""


def small_mnist(source, target):
    """The first images of MNIST: an evaluation of all of its test set takes an emulated processor minutes."""
    target.mkdir(parents=True)
    for part, count in (("train", TRAIN_IMAGES), ("t10k", TEST_IMAGES)):
        for kind, head, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
            name = f"{part}-{kind}-ubyte"
            with open(source / name, "rb") as file:
                content = file.read(head + count * size)
            (target / name).write_bytes(content[:4] + struct.pack(">I", count) + content[8:])


class Suite:
    """Steps that run one after the other in guests, and what each must have left behind."""

    def __init__(self, build, words):
        self.build, self.words = build, words
        self.cache = ROOT / "build/rdma-guest"
        self.work = self.cache / "work"
        self.steps = []    # (name, seconds, command)
        self.verdicts = {}  # name -> check of what the step left
        self.passed, self.failed = [], []
        self.guests = []

    def say(self, text):
        print(f"test-rdma: {text}", flush=True)

    def wanted(self, name):
        if not self.words or name in self.words:
            return True
        return any(word in name for word in self.words if word not in NAMES)

    def results(self, name, guest=0):
        return self.work / f"guest-{guest}/results" / name

    # What is to be done.

    def add(self, name, seconds, command, check):
        self.steps.append((name, seconds, command))
        self.verdicts[name] = check

    def add_suite(self, name, seconds, program, gtest_filter):
        def check():
            output = (self.results(name) / "output").read_text(encoding="utf-8", errors="replace")
            passed = [line for line in output.splitlines() if line.startswith("[  PASSED  ]")]
            count = int(passed[-1].split()[3]) if passed else 0
            checks.expect(count > 0, "no test ran")
            checks.expect("[  SKIPPED ]" not in output, "tests were skipped")
            return f"{count} tests"

        self.add(name, seconds, f"env {TESTS} {program} --gtest_filter={shlex.quote(gtest_filter)}", check)

    def add_refusal(self):
        """Soft-RoCE is no adapter: it must be asked for by name."""
        name = "software_is_not_taken_unasked"

        def check():
            output = (self.results(name) / "output").read_text(encoding="utf-8", errors="replace")
            checks.expect("verbs;ofi_rxm on rxea" in output and "real RDMA: none" in output, f"it says: {output.strip()}")
            return "refused, and says what is there"

        self.add(name, 120, "refused $train --stack allreduce --network rdma --ranks 2", check)

    def add_tcp(self, name):
        options = DESIGNS[name][0]
        self.add(f"{name}_tcp", RUN_SECONDS, f"over_tcp {name}_tcp {options}", lambda: self.check_tcp(f"{name}_tcp"))

    def add_design(self, name):
        options, servers, equal = DESIGNS[name]
        ranks = WORKERS + servers
        self.add_tcp(name)
        self.add(f"{name}_rdma", RUN_SECONDS, f"between_devices {name}_rdma {ranks} {options}",
                 lambda: self.check_rdma(name, equal))

    def check_tcp(self, name):
        record = checks.record_of(self.results(name))
        checks.check_finished(record, STEPS)
        checks.expect(record["config"]["network"] == "tcp", "it did not run over tcp")
        return f"loss {record['summary']['loss']:.4f}"

    def check_rdma(self, name, equal):
        tcp, rdma = self.results(f"{name}_tcp"), self.results(f"{name}_rdma")
        record = checks.record_of(rdma)
        checks.check_finished(record, STEPS)
        checks.check_soft_roce(record, ("rxea", "rxeb"))
        said = (rdma / "output").read_text(encoding="utf-8", errors="replace")
        checks.expect("rdma(verbs;ofi_rxm), software stand-in" in said, "its last lines do not name the stand-in")
        crossed = checks.check_crossed(rdma, record)
        same = {"all": None, "own": PARAMETERS // WORKERS, "none": 0}[equal]
        if equal == "none":
            verdict = f"loss {record['summary']['loss']:.4f} (updates in order of arrival: no bits to compare)"
        else:
            count = checks.check_equal_weights(tcp, rdma, same)
            verdict = f"{count} floats equal TCP's"
            if equal == "own":
                verdict += ", those of the slice that rank 0 owns (its snapshot is not gathered)"
        checks.check_equal_counts(checks.record_of(tcp), record)
        return f"{verdict}; {crossed} bytes crossed the cable"

    def check_guests(self):
        name = "two_guests"
        record = checks.record_of(self.results(name))
        checks.check_finished(record, STEPS)
        checks.check_soft_roce(record, ("rxe0",))
        count = checks.check_equal_weights(self.results(f"{BETWEEN_GUESTS}_tcp"), self.results(name))
        return f"{count} floats equal TCP's"

    # Doing it.

    def script(self, number, steps):
        folder = self.work / f"guest-{number}"
        variables = {"PROGRAM": self.build / "dlobd", "STEPS": STEPS, "BATCH": BATCH, "PATIENCE": PATIENCE, "WORKERS": WORKERS}
        lines = [f"{key}={shlex.quote(str(value))}" for key, value in variables.items()] + [SHELL]
        lines += ['refused() { "$@" && return 1; [ $? = 2 ]; }']
        lines += [f"step {name} {seconds} {command}" for name, seconds, command in steps]
        small_mnist(ROOT / "data/mnist", folder / "mnist")
        (folder / "results").mkdir()
        (folder / "steps").write_text("\n".join(lines) + "\n", encoding="ascii")
        return folder

    def on_line(self, number):
        def take(line):
            words = line.split()
            if line.startswith("@end "):
                self.judge(number, words[1], int(words[2]), words[3])
            elif not line.startswith("@begin "):
                self.say(f"guest {number} says: {line}")
        return take

    def judge(self, number, name, status, seconds):
        if number != 0:  # the other guest's part: its failure shows in the first's, its words here
            if status != 0:
                self.fail(f"{name}, guest {number}", f"exit status {status}", self.results(name, number) / "output")
            return
        try:
            checks.expect(status == 0, f"exit status {status}")
            verdict = self.verdicts[name]()
        except (checks.Wrong, OSError, KeyError, ValueError, TypeError) as why:
            self.fail(name, f"{type(why).__name__ if not isinstance(why, checks.Wrong) else 'no'}: {why} ({seconds} s)",
                      self.results(name) / "output")
            return
        self.passed.append(name)
        self.say(f"passed: {name}: {verdict} ({seconds} s of the guest)")

    def fail(self, name, why, output):
        self.failed.append(name)
        self.say(f"FAILED: {name}: {why}")
        if output.exists():
            lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
            for line in [each for each in lines if not each.startswith("[")][-15:]:
                print(f"  {line}", flush=True)
            print(f"  (all of it: {output})", flush=True)

    def boot(self, number, steps, cable=None):
        address = None if cable is None else f"10.77.0.{number + 1}"
        folder = self.script(number, steps)
        guest = Guest(self.kernel, self.initramfs, self.image, folder, self.on_line(number), cable, address)
        self.guests.append(guest)
        return guest

    def finish(self, guest, number, steps):
        outcome = guest.wait(240 + sum(seconds for _, seconds, _ in steps))
        if outcome != 0:
            self.failed.append(f"guest {number}")
            self.say(f"FAILED: guest {number}: {outcome if isinstance(outcome, str) else f'its steps ended with {outcome}'}")

    def one_guest(self):
        if not self.steps:
            return
        self.say(f"booting a guest: {len(self.steps)} steps, {'KVM' if kvm_works() else 'emulated, for want of KVM: slow'}")
        self.finish(self.boot(0, self.steps), 0, self.steps)
        for name, _, _ in self.steps:
            if name not in self.passed and name not in self.failed:
                self.fail(name, "did not run to its end", self.results(name) / "output")

    def two_guests(self):
        name = "two_guests"
        tcp = self.results(f"{BETWEEN_GUESTS}_tcp")
        devices = self.work / "two-devices"  # what the one guest left stays
        (self.work / "guest-0").rename(devices)
        kept = devices / "results" / tcp.name
        options = DESIGNS[BETWEEN_GUESTS][0]
        self.verdicts[name] = self.check_guests
        parts = [[(name, RUN_SECONDS, f"between_guests {name} {rank} {options}")] for rank in (0, 1)]
        self.say("booting two guests, joined by a cable")
        ends = socket.socketpair()
        guests = [self.boot(rank, parts[rank], ends[rank]) for rank in (0, 1)]
        shutil.copytree(kept, tcp)
        for end in ends:
            end.close()
        for number, guest in enumerate(guests):
            self.finish(guest, number, parts[number])
        if name not in self.passed and name not in self.failed:
            self.fail(name, "did not run to its end", self.results(name) / "output")

    def prepare(self):
        self.cache.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.cache / "lock", "w", encoding="ascii")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise image.Missing(f"another run has {self.cache}") from None
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.kernel, self.initramfs = image.kernel_and_first_files(self.cache, self.say, os.environ.get("RDMA_GUEST_KERNEL"))
        programs = [self.build / name for name in ("dlobd", "libdlobd_torch.so", "tests/transport/transport_contract_test",
                                                   "tests/exchange/exchange_test")]
        libraries = Path("/usr/lib")
        tools = [image.find_tool(name) for name in ("ip", "rdma", "busybox")]
        files = programs + sorted(libraries.glob("*/libibverbs/librxe-*.so")) + [Path("/etc/libibverbs.d/rxe.driver")]
        files += sorted(libraries.glob("*/openblas-*/lib*.so.?")) + sorted(libraries.glob("*/blas/libblas.so.3"))
        files += sorted(libraries.glob("*/lapack/liblapack.so.3"))
        for file in files:
            if not os.path.exists(file):
                raise image.Missing(f"{file} is not there")
        # libfabric's verbs finds nothing on a host whose own name leads nowhere.
        texts = {"etc/hosts": "127.0.0.1 localhost guest guest-1 guest-2\n", "etc/nsswitch.conf": "hosts: files\n"}
        self.image = image.image_of(self.cache, files, tools, ("proc", "sys", "dev", "tmp", "run", "share", "etc"), texts)

    def run(self):
        begun = time.monotonic()
        self.prepare()
        if self.wanted("contract"):
            self.add_suite("contract", 900, self.build / "tests/transport/transport_contract_test", "*rdma_verbs_ofi_rxm*")
        if self.wanted("oracles"):
            self.add_suite("oracles", 1800, self.build / "tests/exchange/exchange_test", "*verbs_ofi_rxm*")
        if self.wanted("software_is_not_taken_unasked"):
            self.add_refusal()
        apart = self.wanted("two_guests")
        for name in DESIGNS:
            if self.wanted(name):
                self.add_design(name)
            elif apart and name == BETWEEN_GUESTS:
                self.add_tcp(name)
        if not self.steps:
            self.say(f"nothing has such a name: {' '.join(self.words)}; there are {', '.join(sorted(NAMES))}")
            return 2
        self.one_guest()
        if apart and f"{BETWEEN_GUESTS}_tcp" in self.passed:
            self.two_guests()
        elif apart:
            self.fail("two_guests", "there is nothing to compare with", self.work / "none")
        self.say(f"{len(self.passed)} passed, {len(self.failed)} failed, in {(time.monotonic() - begun) / 60:.0f} minutes; "
                 "Soft-RoCE: right results, no figures of RDMA")
        return 1 if self.failed else 0


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: run.py BUILD [WORD...]")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    suite = Suite(Path(sys.argv[1]).resolve(), sys.argv[2:])
    try:
        return suite.run()
    except image.Missing as why:
        suite.say(f"cannot run: {why}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        for guest in suite.guests:
            guest.stop()


if __name__ == "__main__":
    sys.exit(main())
