"""The house stays as it was agreed to be; the numbers only ever go down."""

import ast
import re
from collections import Counter
from pathlib import Path

from tests.architecture.tree import PACKAGE, modules, named, tracked

# A file is as long as its idea; above this it has two.
MOST_LINES = 700
# Files that are longer today, with their length: a file may shrink, and then this number with it.
LONGER_YET: dict[str, int] = {}

MOST_FUNCTION_LINES = 40
LONGER_FUNCTIONS_YET = {}

NAMES_THAT_SAY_NOTHING = re.compile(r"(^|_)(utils?|helpers?|managers?|misc|common)(_|$)")

# Words for which docstrings of the package have a noun (a writer, a message, a list), and how often
# they are there yet: a number only ever falls, and is lowered with the sentence that is rewritten.
WORDS_YET = {"told": 5, "whoever": 6, "nobody": 12, "somebody": 2, "what": 446}

# Put together here, so that this file does not contain what it looks for.
REGISTRIES = ("py" + "pi.org", "python" + "hosted", "conda." + "anaconda", "registry." + "npmjs")
MACHINE_PATHS = re.compile(
    r"(?<![\w.$}/-])/(?:"
    + "|".join(["ro" + "ot", "wo" + "rk", "ho" + r"me/\w+", "Us" + "ers"])
    + ")/"
)
TEXT = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".json", ".cfg", ".sh", ""}


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function's code; signature and docstring are for reading."""
    code = function.body[1:] if ast.get_docstring(function) else function.body
    return (code[-1].end_lineno or 0) - code[0].lineno + 1 if code else 0


def grown(now: dict[str, int], agreed: dict[str, int]) -> dict[str, int]:
    """Return what is longer than agreed, and exceptions that are no longer needed (as 0)."""
    longer = {name: lines for name, lines in now.items() if lines > agreed.get(name, 0)}
    return longer | dict.fromkeys(agreed.keys() - now.keys(), 0)


def test_files_stay_short() -> None:
    """No module is over 700 lines, and an exception only ever gets shorter."""
    now = {named(path): lines_of(path) for path in modules()}
    long = {name: lines for name, lines in now.items() if lines > MOST_LINES}
    assert not grown(long, LONGER_YET)


def test_functions_stay_short() -> None:
    """No function's code is over 40 lines, and an exception only ever gets shorter."""
    long = {
        f"{named(path)}::{node.name}": length
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := body_lines(node)) > MOST_FUNCTION_LINES
    }
    assert not grown(long, LONGER_FUNCTIONS_YET)


def test_every_module_states_its_idea() -> None:
    """A module opens with a docstring."""
    silent = [
        named(path) for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, "\n".join(["say the module's rules at its head:", *silent])


def test_names_say_something() -> None:
    """No module or folder is named for being useful."""
    parts = {part for path in modules() for part in Path(named(path)).with_suffix("").parts}
    assert not {part for part in parts if NAMES_THAT_SAY_NOTHING.search(part)}


def test_docstrings_use_nouns() -> None:
    """Docstrings name the writer, the reader or the rows; the words for unnamed ones get fewer."""
    words = re.compile(r"\b(" + "|".join(WORDS_YET) + r")\b", re.IGNORECASE)
    now = Counter(
        found.group().lower()
        for path in modules()
        if path.is_relative_to(PACKAGE)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for found in words.finditer(ast.get_docstring(node) or "")
    )
    more = {word: number for word, number in now.items() if number > WORDS_YET[word]}
    assert not more, f"put a noun in their place, of these words there are more than agreed: {more}"


def test_every_test_states_its_claim() -> None:
    """Each test function has a docstring of one sentence."""
    silent = [
        f"{named(path)}::{node.name}"
        for path in tracked()
        if path.name.startswith("test_") and path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not silent


def test_nothing_names_a_registry_or_a_machine() -> None:
    """No tracked file names a package registry's host or a path of somebody's machine."""
    found = []
    for path in tracked():
        if path.suffix not in TEXT or path.name == "LICENSE":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if any(host in line for host in REGISTRIES) or MACHINE_PATHS.search(line):
                found.append(f"{named(path)}:{number}: {line.strip()}")
    assert not found


def test_properties_draw_more_where_more_is_asked_for() -> None:
    """Each property names its examples by ``tests.examples``, so that a profile scales them all."""
    fixed = [
        named(path)
        for path in tracked()
        if path.name.startswith("test_") and ("max_" + "examples") in path.read_text()
    ]
    assert not fixed


def test_tests_do_not_sleep_until_it_works() -> None:
    """A test sleeps while it looks for an event, or for a drawn time, never in the hope of one."""
    hopeful = [
        f"{named(path)}:{line}"
        for path in tracked()
        if path.name.startswith("test_") and path.suffix == ".py"
        for line in sleeps_outside_loops(ast.parse(path.read_text()))
    ]
    assert not hopeful


def sleeps_outside_loops(tree: ast.Module) -> set[int]:
    """Return the lines of calls that sleep a fixed time and that no ``while`` surrounds."""

    def sleeps(within: ast.AST) -> set[int]:
        calls = (node for node in ast.walk(within) if isinstance(node, ast.Call))
        return {
            call.lineno
            for call in calls
            if ast.unparse(call.func) in {"time.sleep", "sleep"}
            and not isinstance(call.args[0], ast.Call)
        }

    loops = (node for node in ast.walk(tree) if isinstance(node, ast.While))
    return sleeps(tree).difference(*map(sleeps, loops))
