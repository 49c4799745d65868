"""What g++ 12 miscompiles in coroutines must not be written.

Within a full expression that contains `co_await`: no aggregate temporary, no initializer list, no statement
expression, no lambda (a closure is a temporary too) unless it holds nothing but references and is no coroutine.
Name the value in a line of its own and move it.
Usage: coroutines.py ROOT; prints one line for each violation and exits 1 where there is one.
"""
import re
import sys
from pathlib import Path

SOURCES = {".h", ".hpp", ".cpp"}
# Before a brace that opens a block, not a braced initializer.
BLOCK = re.compile(r"(\)|\{|\}|;|:|\belse|\bdo|\btry|\bconst|\bnoexcept|\bmutable|\boverride|\bfinal)\s*$")
CONDITION = re.compile(r"\s*(?:else\s+)?(?:if(?:\s+constexpr)?|while|for|switch)\s*\(")


def blank(text):
    """The text with comments, strings and characters overwritten, line breaks kept."""
    pattern = r"//[^\n]*|/\*.*?\*/|R\"(?P<d>[^(\s]*)\(.*?\)(?P=d)\"|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])+'"
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", "_", m.group()), text, flags=re.DOTALL)

# A lambda that captures nothing but references and `this`, up to its opening brace.
PLAIN_LAMBDA = re.compile(
    r"\[\s*(?:(?:&\s*\w*|this)\s*,?\s*)*\]\s*(?:\([^(){}]*\))?\s*(?:mutable|noexcept)?\s*(?:->[^{};]*)?\{")


def opens_block(text, brace):
    before = text[:brace]
    if BLOCK.search(before):
        return True
    statement = re.split(r"[;{}]", before)[-1]
    return "->" in statement and statement.rstrip().endswith((">", "auto", "void", "bool", "int"))


def end_of_expression(text, start):
    """The index after the full expression that begins at `start`: its `;`, or its condition's `)`."""
    condition = CONDITION.match(text, start)
    at, depth = (condition.end(), 1) if condition else (start, 0)
    while at < len(text):
        c = text[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth < 0 or (condition and depth == 0):
                return at
        elif c == ";" and depth == 0:
            return at
        at += 1
    return at


def without_plain_lambdas(expression):
    at = 0
    while lambda_ := PLAIN_LAMBDA.search(expression, at):
        end, depth = lambda_.end(), 1
        while end < len(expression) and depth > 0:
            depth += {"{": 1, "}": -1}.get(expression[end], 0)
            end += 1
        if re.search(r"\bco_(await|return|yield)\b", expression[lambda_.start():end]):
            at = lambda_.end()
        else:
            expression = expression[: lambda_.start()] + expression[end:]
            at = lambda_.start()
    return expression


def check(path, source):
    text, problems = blank(source), []
    for match in re.finditer(r"\bco_await\b", text):
        line = text.count("\n", 0, match.start()) + 1
        start = max(text.rfind(c, 0, match.start()) for c in ";{}")
        if start >= 0 and text[start] == "{" and not opens_block(text, start):
            kind = "a statement expression" if text[:start].rstrip().endswith("(") else "braces"
            problems.append(f"{path}:{line}: {kind} around co_await")
            continue
        expression = text[start + 1 : end_of_expression(text, start + 1)]
        if "{" in without_plain_lambdas(expression):
            problems.append(f"{path}:{line}: braces in a co_await expression: name the value, then move it")
    return problems


def check_tree(root):
    problems, awaits = [], 0
    for top in ("src", "apps", "tests", "bench"):
        for file in sorted((Path(root) / top).rglob("*")):
            if file.suffix in SOURCES:
                text = file.read_text()
                awaits += text.count("co_await")
                problems += check(file.relative_to(root).as_posix(), text)
    if awaits == 0:
        problems.append(f"{root}: no co_await found: the check looks in the wrong place")
    return problems, awaits


if __name__ == "__main__":
    found, count = check_tree(sys.argv[1])
    print("\n".join(found) or f"{count} times co_await, none with braces")
    sys.exit(1 if found else 0)
