"""What the guest boots: a kernel that has Soft-RoCE, a first file system with its modules, and an image of programs.

The kernel is Debian's (downloaded by apt, not installed), or the one that RDMA_GUEST_KERNEL names, with its modules
under /lib/modules. The image holds the programs and every file that they load, so the guest sees nothing else of
this machine. Both are kept and made again only where what they are made of has changed. Errors: Missing.
"""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The first that the package sources have; Soft-RoCE of 6.1 can hang in long reads.
DEBIAN_KERNELS = ("linux-image-6.12-amd64", "linux-image-amd64")
MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "virtio_net", "ext4", "9p", "9pnet_virtio", "veth", "ib_uverbs",
           "rdma_ucm", "rdma_rxe")
CHECKSUMS = ("crc32_generic", "crc32_pclmul")  # older kernels have Soft-RoCE's apart


class Missing(Exception):
    """What this host lacks, and what would bring it."""


def call(*words, **options):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, words))} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def find_tool(name, folders=("/usr/sbin", "/sbin", "/usr/bin", "/bin")):
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))
    if not found:
        raise Missing(f"{name} is not installed")
    return found


def finished(folder, make):
    """Makes `folder` by `make` into a neighbour and renames it, so that it is whole or not there."""
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            make(draft)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


def debian_kernel():
    for update in (False, True):
        if update:
            call("apt-get", "-qq", "update")
        for name in DEBIAN_KERNELS:
            done = subprocess.run(["apt-cache", "depends", "--important", name], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
            found = re.search(r"Depends: (linux-image-\S+)", done.stdout)
            if found:
                return found.group(1)
    raise Missing(f"the package sources have none of {', '.join(DEBIAN_KERNELS)}")


def unpacked(kernel, tools=((b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"))):
    """The kernel that is packed inside `kernel`, which boots sooner under emulation; None where none is found."""
    packed = kernel.read_bytes()
    for magic, tool in tools:
        at = packed.find(magic)
        while at >= 0:
            done = subprocess.run([tool, "-dcq"], input=packed[at:], capture_output=True, check=False)
            if done.stdout[:4] == b"\x7fELF":
                return done.stdout
            at = packed.find(magic, at + 1)
    return None


def first_files(folder, root, version):
    """The first file system: busybox, init, and the modules in the order in which they load."""
    tree = folder / "tree"
    for name in ("bin", "modules", "proc", "sys", "dev", "image"):
        (tree / name).mkdir(parents=True)
    shutil.copy(find_tool("busybox"), tree / "bin/busybox")
    shutil.copy(HERE / "init", tree / "init")
    (tree / "init").chmod(0o755)
    modprobe = find_tool("modprobe")
    order = []
    for module in CHECKSUMS + MODULES:
        try:
            lines = call(modprobe, "-d", root, "-S", version, "--show-depends", module)
        except Missing:
            if module in CHECKSUMS:
                continue
            raise Missing(f"the kernel {version} has no module {module}") from None
        for line in lines.splitlines():
            words = line.split()
            if words[0] != "insmod":
                continue  # built in
            path = Path(words[1])
            name = re.sub(r"\.(xz|zst|gz)$", "", path.name)
            if name in order:
                continue
            content = path.read_bytes()
            if path.suffix == ".xz":
                content = subprocess.run(["xz", "-dc"], input=content, capture_output=True, check=True).stdout
            elif path.suffix == ".zst":
                content = subprocess.run(["zstd", "-dcq"], input=content, capture_output=True, check=True).stdout
            elif path.suffix == ".gz":
                content = gzip.decompress(content)
            (tree / "modules" / name).write_bytes(content)
            order.append(name)
    (tree / "modules/order").write_text("\n".join(order) + "\n", encoding="ascii")
    names = subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout
    with open(folder / "initramfs", "wb") as out:
        subprocess.run([find_tool("cpio"), "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=tree, input=names, stdout=out,
                       check=True)
    shutil.rmtree(tree)


def from_debian(folder, package):
    call("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package, cwd=folder)
    root = folder / "root"
    (archive,) = folder.glob("*.deb")
    call("dpkg", "-x", archive, root)
    (version,) = os.listdir(root / "lib/modules")
    call(find_tool("depmod"), "-b", root, version)
    kernel = root / "boot" / f"vmlinuz-{version}"
    (folder / "kernel").write_bytes(unpacked(kernel) or kernel.read_bytes())
    first_files(folder, root, version)
    shutil.rmtree(root)
    archive.unlink()


def kernel_and_first_files(cache, say, named=None):
    """The paths of the kernel and of its first file system. `named`: a kernel's file, instead of Debian's."""
    made_of = hashlib.sha256((HERE / "init").read_bytes() + " ".join(MODULES + CHECKSUMS).encode()).hexdigest()[:12]
    if named:
        version = Path(named).name.partition("-")[2]
        if not os.access(named, os.R_OK) or not os.path.isdir(f"/lib/modules/{version}"):
            raise Missing(f"RDMA_GUEST_KERNEL names no readable vmlinuz-VERSION with its /lib/modules/VERSION: {named}")

        def make(folder):
            shutil.copy(named, folder / "kernel")
            first_files(folder, "/", version)

        folder = finished(cache / f"kernel-{version}-{made_of}", make)
        return folder / "kernel", folder / "initramfs"
    here = sorted(cache.glob(f"kernel-linux-image-*-{made_of}"))
    if not here:
        package = debian_kernel()
        say(f"fetching the kernel {package} (not installed here)")
        here = [finished(cache / f"kernel-{package}-{made_of}", lambda folder: from_debian(folder, package))]
    return here[-1] / "kernel", here[-1] / "initramfs"


def loaded_by(files):
    """The files and every shared library that they load, by the paths at which they are looked for."""
    every = set()
    for file in files:
        every.add(str(file))
        done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            if "not found" in line:
                raise Missing(f"{file} needs a library that is not installed: {line.strip()}")
            every.update(re.findall(r"(/\S+) \(0x", line))
    return sorted(every)


def image_of(cache, files, tools, folders, texts):
    """An ext4 image with `files`, `tools` and what they load at their own paths, /tools that leads to the latter, empty
    `folders`, and small files of `texts`, by path."""
    files = files + tools
    every = loaded_by(files)
    state = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in every]
    name = "image-" + hashlib.sha256(repr((state, tools, folders, texts)).encode()).hexdigest()[:12]

    def make(folder):
        tree = folder / "tree"
        for empty in folders:
            (tree / empty).mkdir(parents=True, exist_ok=True)
        for top in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink(f"/{top}"):
                (tree / "usr" / top).mkdir(parents=True, exist_ok=True)
                (tree / top).symlink_to(f"usr/{top}")
        for path in every:
            target = tree / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(path, target)
        for path, text in texts.items():
            (tree / path).write_text(text, encoding="ascii")
        (tree / "tools").mkdir()
        for tool in tools:
            (tree / "tools" / os.path.basename(tool)).symlink_to(tool)
        size = sum(entry[1] for entry in state) // (1 << 20) * 11 // 10 + 64
        call(find_tool("mke2fs"), "-q", "-t", "ext4", "-O", "^has_journal", "-d", tree, folder / "image", f"{size}M")
        shutil.rmtree(tree)

    known = cache / name
    if not known.exists():
        for old in cache.glob("image-*"):
            shutil.rmtree(old, ignore_errors=True)
    return finished(known, make) / "image"
