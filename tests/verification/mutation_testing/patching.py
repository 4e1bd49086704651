"""Replaces the code of functions that are loaded, in this process.

A process that has imported everything, and then changes one module, is far cheaper than one that
imports everything again. Every reference to a function stays right, since only its code changes.
"""

import ast
import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, TypeAlias

FunctionKey: TypeAlias = tuple[str, str, int]
"""The file of a function, its qualified name, and its first line."""

HITS: Final = "_statements_that_were_run"


class LoadedFunctions:
    """The functions of modules as they are loaded."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._paths = {module: str(Path(module).resolve()) for module in modules}
        self._functions: dict[FunctionKey, list[FunctionType]] = defaultdict(list)
        paths = set(self._paths.values())
        gc.unfreeze()
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename in paths:
                self._functions[_key(each.__code__)].append(each)
        gc.freeze()

    def replace(self, module: str, tree: ast.Module) -> None:
        """Replace the code of all functions of a module.

        Raises:
            ValueError: a function has other free variables than before.
        """
        for code in _codes(compile(tree, self._paths[module], "exec")):
            for function in self._functions.get(_key(code), ()):
                function.__code__ = code

    def watch(self, module: str) -> bytearray:
        """Have all functions of a module note the statements that they run.

        Returns:
            for each line a byte, which becomes 1 as soon as the statement that begins there is run.
        """
        source = Path(module).read_text()
        hits = bytearray(source.count("\n") + 2)
        self.replace(module, _noting(ast.parse(source)))
        for key, functions in self._functions.items():
            if key[0] == self._paths[module]:
                functions[0].__globals__[HITS] = hits
        return hits


def _key(code: CodeType) -> FunctionKey:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _noting(tree: ast.Module) -> ast.Module:
    """Put a note of its line before each statement of each function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            _note_in(function)
    return ast.fix_missing_locations(tree)


def _note_in(node: ast.AST) -> None:
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        if isinstance(statements, list) and not isinstance(node, ast.ClassDef):
            noted: list[ast.stmt] = []
            for each in statements:
                if not isinstance(each, ast.FunctionDef):  # noted by itself
                    _note_in(each)
                noted += (_note(each), each)
            setattr(node, name, noted)
    for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        _note_in(each)


def _note(statement: ast.stmt) -> ast.stmt:
    note = ast.parse(f"{HITS}[{statement.lineno}] = 1").body[0]
    for each in ast.walk(note):
        ast.copy_location(each, statement)
    return note
