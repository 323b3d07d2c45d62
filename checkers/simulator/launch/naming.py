"""What the source calls a kernel: the function that its first line of source lies in.

CuTe DSL's own name for it holds the types of all arguments.
"""

from __future__ import annotations

import ast
import linecache
import re
from functools import lru_cache

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")


@lru_cache(maxsize=256)
def source_name(ptx: str, kernel: str) -> str | None:
    """ "softmax_kernel", "Softmax.kernel"; None where the PTX or the file doesn't say."""
    entry = re.search(rf"\.entry\s+{re.escape(kernel)}\b", ptx)
    first = _LOC.search(ptx, entry.end()) if entry else None
    if first is None:
        return None
    files = {int(number): name for number, name in _FILE.findall(ptx)}
    return _function_at(files.get(int(first[1]), ""), int(first[2]))


def _function_at(file: str, line: int) -> str | None:
    """The innermost function whose decorators, head or body hold the line, with its class."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    name = None
    body: list[ast.AST] = list(ast.iter_child_nodes(tree))
    while body:
        node = body.pop()
        if not isinstance(node, ast.stmt):
            continue
        start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        if not start <= line <= (node.end_lineno or start):
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{name}.{node.name}" if name else node.name
        body = list(ast.iter_child_nodes(node))
    return name
