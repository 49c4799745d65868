"""A small virtual machine that runs the steps of one folder: QEMU, with KVM where the processor offers it, else emulated.

The folder is shared with the guest, as /share: it runs /share/steps (busybox's sh) and leaves the exit status in
/share/status; what the steps print comes out line by line. A guest has at most its time, and goes with this process,
however that ends. It has no network, but for a cable to a second guest.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import threading
import time

MEMORY_MIB = 2560


def kvm_works():
    """/dev/kvm alone does not say: some hosts have one that boots no ordinary kernel."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = [line.split() for line in file if line.startswith("flags")]
    return bool(flags) and bool({"vmx", "svm"} & set(flags[0])) and os.access("/dev/kvm", os.R_OK | os.W_OK)


def go_with_the_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Guest:
    """Started by the thread that made it, which must be the main one: the guest dies with it."""

    def __init__(self, kernel, initramfs, image, folder, on_line, cable=None, address=None):
        self.folder = folder
        self.status_file = folder / "status"
        self.console = folder / "console"
        self.status_file.unlink(missing_ok=True)
        words = [shutil.which("qemu-system-x86_64"), "-M", "pc", "-smp", str(min(os.cpu_count(), 4)), "-m", str(MEMORY_MIB),
                 "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-kernel", str(kernel), "-initrd",
                 str(initramfs), "-serial", f"file:{self.console}", "-device", "virtio-serial-pci",
                 "-chardev", "file,id=out,path=/proc/self/fd/1", "-device", "virtserialport,nr=1,chardev=out",
                 "-drive", f"if=none,id=image,format=raw,readonly=on,file={str(image).replace(',', ',,')}",
                 "-device", "virtio-blk-pci,drive=image",
                 "-fsdev", f"local,id=share,security_model=none,path={str(folder).replace(',', ',,')}",
                 "-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]
        # Emulated cmpxchg16b, which the kernel's allocator would use, has lost flags and brought a guest down (QEMU 7.2).
        words += ["-accel", "kvm", "-cpu", "host"] if kvm_works() else ["-accel", "tcg,thread=multi", "-cpu", "max,cx16=off"]
        command_line = "console=ttyS0 quiet panic=-1 net.ifnames=0 no_timer_check"
        if cable is not None:
            mac = "52:54:00:00:00:" + format(int(address.rpartition(".")[2]), "02x")
            words += ["-netdev", f"socket,id=cable,fd={cable.fileno()}", "-device",
                      f"virtio-net-pci,netdev=cable,mac={mac},romfile="]
            command_line += f" dlobd_address={address}"
        words += ["-append", command_line]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        pass_fds=[cable.fileno()] if cable is not None else [],
                                        preexec_fn=go_with_the_parent)
        self.begun = time.monotonic()
        self.errors = b""
        self.readers = [threading.Thread(target=self.read, args=(on_line,), daemon=True),
                        threading.Thread(target=self.read_errors, daemon=True)]
        for reader in self.readers:
            reader.start()

    def read(self, on_line):
        for line in self.process.stdout:
            on_line(line.decode(errors="replace").rstrip("\r\n"))

    def read_errors(self):
        self.errors = self.process.stderr.read()

    def wait(self, seconds):
        """The exit status of the steps, or a text that says why there is none."""
        try:
            self.process.wait(max(0.0, seconds - (time.monotonic() - self.begun)))
            ended = f"the guest ended early, QEMU's status is {self.process.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"the guest was stopped after {seconds:.0f} s"
        self.stop()
        for reader in self.readers:
            reader.join(10)
        if self.status_file.exists() and self.status_file.read_text(encoding="ascii").strip():
            return int(self.status_file.read_text(encoding="ascii"))
        said = self.errors.decode(errors="replace").strip().splitlines()[-5:]
        if self.console.exists():
            said += self.console.read_text(encoding="utf-8", errors="replace").replace("\r", "").splitlines()[-10:]
        return "\n  ".join([ended, *said])

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
