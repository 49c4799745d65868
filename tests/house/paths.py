"""What the documents name is there: every path of the project between back-ticks, in README.md, THIRD_PARTY.md and docs/.

A path is a word that begins with a folder of the root (`src/exchange/kinds.h`, `tests/rdma`), or that ends like a source or a
document (`tf_ring.cpp`, `exchange/kinds.h`): then some file's path ends with it. `{h,cpp}` stands for both; a word with <...> in it
names what the reader makes, and what the build makes is not looked at.
Usage: paths.py ROOT; prints one line for each path that is not there and exits 1 where there is one.
"""
import os
import re
import sys
from pathlib import Path

MADE = {"build", "data", "runs"}
SOURCE = re.compile(r"\.(cpp|h|c|py|md|cmake|txt)$")


def paths_in(text):
    """The words between back-ticks, code blocks left out; braces expanded."""
    found = []
    for word in re.findall(r"`([^`\s]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)):
        braces = re.search(r"\{([^{}]*)\}", word)
        found += [word.replace(braces.group(), each) for each in braces.group(1).split(",")] if braces else [word]
    return found


def is_there(word, files):
    """`files`: all files and folders of the project, from the root. None: `word` is no path of it."""
    word = word.rstrip("/")
    first = word.split("/")[0]
    if "<" in word or not re.fullmatch(r"[\w./-]+", word) or first in MADE:
        return None
    if "/" in word and first in files:
        return word in files
    if SOURCE.search(word) and not word.startswith((".", "/")):
        return any(("/" + path).endswith("/" + word) for path in files)
    return None


def check(path, text, files):
    return [f"{path}: {word} is not there" for word in paths_in(text) if is_there(word, files) is False]


def files_of(root):
    found = set()
    for folder, folders, names in os.walk(root):
        at = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if not name.startswith(".") and not (folder == str(root) and name in MADE)]
        found.update((at / name).as_posix() for name in folders + names)
    return found


def check_tree(root):
    files, problems, seen = files_of(root), [], 0
    for document in sorted(path for path in files if path.startswith("docs/") or "/" not in path):
        if document.endswith(".md"):
            text = (Path(root) / document).read_text()
            problems += check(document, text, files)
            seen += sum(is_there(word, files) is not None for word in paths_in(text))
    if seen == 0:
        problems.append(f"{root}: no paths found in the documents: the check looks in the wrong place")
    return problems, seen


if __name__ == "__main__":
    found, count = check_tree(sys.argv[1])
    print("\n".join(found) or f"{count} paths, all there")
    sys.exit(1 if found else 0)
