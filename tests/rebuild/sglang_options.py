"""Write ``options.txt``: which command line options each SGLang release has.

It is made from the published wheels, without running them::

    pip download --no-deps --python-version 3.12 --only-binary=:all: sglang==0.5.23 -d wheels
    python -m tests.rebuild.sglang_options wheels/*.whl > fixtures/draftgate/preflight/options.txt

Options are declared in two ways: ``parser.add_argument("--name")`` and, from 0.5.14 on, a field
``name: A[type, Arg(...)]`` of a dataclass in ``srt/server_args.py`` or ``srt/arg_groups/``.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.version import Version


def options_in(sources: Mapping[str, str]) -> set[str]:
    """The options that the given Python sources declare, by reading their syntax trees."""
    found: set[str] = set()
    for source in sources.values():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call):
                found.update(_added(node))
            elif isinstance(node, ast.AnnAssign):
                found.update(_annotated(node))
    return found


def _added(call: ast.Call) -> Iterator[str]:
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"):
        return
    keywords = {word.arg: word.value for word in call.keywords if word.arg}
    for argument in call.args:
        if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
            yield from _with_negation(str(argument.value), keywords)


def _annotated(node: ast.AnnAssign) -> Iterator[str]:
    annotation = node.annotation
    if not (
        isinstance(node.target, ast.Name)
        and isinstance(annotation, ast.Subscript)
        and ast.unparse(annotation.value) in {"A", "Annotated"}
        and isinstance(annotation.slice, ast.Tuple)
    ):
        return
    own_name = "--" + node.target.id.replace("_", "-")
    for meta in annotation.slice.elts[1:]:
        if isinstance(meta, ast.Call) and ast.unparse(meta.func) == "Arg":
            keywords = {word.arg: word.value for word in meta.keywords if word.arg}
            if "no_cli" in keywords and ast.literal_eval(keywords["no_cli"]):
                return
            given = ast.literal_eval(keywords["cli_name"]) if "cli_name" in keywords else None
            yield from _with_negation(given or own_name, keywords)
            yield from ast.literal_eval(keywords["aliases"]) if "aliases" in keywords else ()
            return
        if isinstance(meta, ast.Constant | ast.JoinedStr | ast.BinOp):
            yield own_name
            return


def _with_negation(name: str, keywords: Mapping[str, ast.expr]) -> Iterator[str]:
    yield name
    if "action" in keywords and "BooleanOptional" in ast.unparse(keywords["action"]):
        yield "--no-" + name.removeprefix("--")


def options_in_wheel(wheel: Path) -> set[str]:
    """The server options of one published SGLang wheel."""
    with zipfile.ZipFile(wheel) as archive:
        sources = {
            name: archive.read(name).decode("utf-8")
            for name in archive.namelist()
            if name == "sglang/srt/server_args.py"
            or (name.startswith("sglang/srt/arg_groups/") and name.endswith(".py"))
        }
    return options_in(sources)


def main(wheels: Sequence[str]) -> int:
    """Write the table of the given wheels to standard output."""
    by_release = {
        Version(Path(wheel).name.split("-")[1]): options_in_wheel(Path(wheel)) for wheel in wheels
    }
    releases = sorted(by_release)
    sys.stdout.write("releases " + " ".join(map(str, releases)) + "\n")
    for name in sorted(set().union(*by_release.values())):
        marks = "".join("x" if name in by_release[release] else "." for release in releases)
        sys.stdout.write(f"{name} {marks}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
