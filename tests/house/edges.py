"""The folders' dependencies point one way, and third-party code stays behind its fence.

Reads each `#include "folder/..."` and each LINKS of src/ and apps/. A folder may link those named in EDGES (and
base and metrics), include these and what they in turn may link; libtorch and libfabric are included in one
folder each; the environment is read in apps/ alone.
Usage: edges.py ROOT; prints one line for each violation and exits 1 where there is one.
"""
import re
import sys
from pathlib import Path

EDGES = {
    "base": set(),
    "metrics": {"base"},
    "storage": {"base"},
    "records": {"storage"},
    "batches": {"records"},
    "compute": {"batches"},
    "compute_torch": {"compute"},
    "transport": set(),
    "cluster": set(),
    "exchange": {"compute", "transport"},
    "stacks": {"exchange"},
    "training": {"storage", "records", "batches", "compute", "exchange", "transport", "cluster", "stacks"},
    "apps": {"training"},
}
FOR_ALL = {"base", "metrics"}

# What only one folder may include: pattern -> that folder.
FENCES = {
    r"(torch|ATen|c10|caffe2)/": "src/compute/torch/",
    r"rdma/": "src/transport/fabric/",
}

SOURCES = {".h", ".hpp", ".cpp", ".c", ".cu"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def permitted_links(folder):
    return EDGES[folder] | (FOR_ALL - {folder} if folder not in FOR_ALL else set())


def permitted_includes(folder):
    found, open_ends = {folder}, [folder]
    while open_ends:
        for below in permitted_links(open_ends.pop()) - found:
            found.add(below)
            open_ends.append(below)
    return found


def folder_of(path):
    parts = path.split("/")
    if parts[0] == "apps":
        return "apps"
    return "compute_torch" if parts[1:3] == ["compute", "torch"] else parts[1]


def included_folder(include, folders):
    parts = include.split("/")
    if len(parts) < 2 or parts[0] not in folders:
        return None
    return "compute_torch" if parts[:2] == ["compute", "torch"] else parts[0]


def check_source(path, text, folders):
    """Violations in one source file; `path` is relative to the root."""
    folder = folder_of(path)
    if folder not in EDGES:
        return [f"{path}: the folder {folder} has no line in tests/house/edges.py"]
    problems = []
    for bracket, include in INCLUDE.findall(text):
        for pattern, home in FENCES.items():
            if re.match(pattern, include) and not path.startswith(home):
                problems.append(f"{path}: <{include}> may be included in {home} alone")
        below = included_folder(include, folders) if bracket == '"' else None
        if below and below not in permitted_includes(folder):
            problems.append(f"{path}: {folder} must not know {below}, yet includes {include}")
    if not path.startswith("apps/") and re.search(r"\b(secure_)?getenv\s*\(|\benviron\b", text):
        problems.append(f"{path}: reads the environment, which only apps/ may")
    return problems


def check_links(path, text):
    """Violations in one CMakeLists.txt."""
    folder = folder_of(path)
    if folder not in EDGES:
        return [f"{path}: the folder {folder} has no line in tests/house/edges.py"]
    text = re.sub(r"#.*", "", text)
    problems = []
    for call in re.findall(r"(?:dlobd_library|target_link_libraries|dlobd_executable)\s*\(([^)]*)\)", text):
        own = call.split()[0] if call.split() else ""
        for target in re.findall(r"\bdlobd_(\w+)", call):
            if target in EDGES and target != folder and own != f"dlobd_{target}":
                if target not in permitted_links(folder):
                    problems.append(f"{path}: {folder} must not link {target}")
    return problems


def check_tree(root):
    root = Path(root)
    folders = {p.name for p in (root / "src").iterdir() if p.is_dir()}
    problems, seen = [], 0
    for top in ("src", "apps"):
        for file in sorted((root / top).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix in SOURCES:
                problems += check_source(path, file.read_text(), folders)
                seen += 1
            elif file.name == "CMakeLists.txt":
                problems += check_links(path, file.read_text())
                seen += 1
    if seen == 0:
        problems.append(f"{root}: no sources found under src and apps")
    return problems, seen


if __name__ == "__main__":
    found, count = check_tree(sys.argv[1])
    print("\n".join(found) or f"{count} files, every edge points down")
    sys.exit(1 if found else 0)
