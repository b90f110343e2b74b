"""Writes the types of the page's API for its front end, from the models that the server answers.

1. Every pydantic model below ``airflow_provider_segtable.page`` becomes an interface, with its
   docstring and the descriptions of its fields as comments.
2. Equal names of two modules get the name of their module before them.
3. ``--check`` writes nothing, and fails if the file would change: a test runs that.
"""

import argparse
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from airflow_provider_segtable import page

TYPES = Path(page.__file__).parent / "source" / "api.ts"
HEAD = """\
// The answers of the API, made from the server's models by .ci/page_types.py (`make page`).
// Times are ISO-8601 UTC texts, sizes bytes, durations seconds, shares 0 to 1. `null` is
// "not known" or "does not apply", and is never drawn as zero.
"""
Schema = Mapping[str, Any]


def models() -> Iterator[type[BaseModel]]:
    """Yield the models of the page's modules; not the envelope, which has any data."""
    for found in pkgutil.walk_packages(page.__path__, f"{page.__name__}."):
        for _, each in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            if each.__module__ == found.name and issubclass(each, BaseModel) and _whole(each):
                yield each


def _whole(model: type[BaseModel]) -> bool:
    """Return whether a model has fields, and is no form with a type to be named."""
    return bool(model.model_fields) and not model.__pydantic_generic_metadata__["parameters"]


def typescript() -> str:
    """Return the file."""
    some = sorted(set(models()), key=lambda each: (each.__name__, each.__module__))
    _, schema = models_json_schema([(each, "serialization") for each in some])
    known = schema.get("$defs", {})
    return "\n".join([HEAD, *(_interface(name, known[name]) for name in sorted(known, key=_name))])


def _name(key: str) -> str:
    *modules, name = key.split("__")
    module = modules[-1] if modules else ""
    return "".join(part.capitalize() for part in module.split("_")) + name.replace("-Output", "")


def _interface(key: str, schema: Schema) -> str:
    if "enum" in schema:
        return f"export type {_name(key)} = {_type(schema)};\n"
    lines = [*_comment(schema.get("description", ""), ""), f"export interface {_name(key)} {{"]
    for name, field in schema.get("properties", {}).items():
        lines += [*_comment(field.get("description", ""), "  "), f"  {name}: {_type(field)};"]
    return "\n".join([*lines, "}", ""])


def _comment(text: str, indent: str) -> list[str]:
    first = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return [f"{indent}/** {first} */"] if first else []


_NAMED = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def _type(schema: Schema) -> str:
    match schema:
        case {"$ref": str(target)}:
            return _name(target.rsplit("/", 1)[-1])
        case {"anyOf": list(some)} | {"oneOf": list(some)}:
            return " | ".join(dict.fromkeys(map(_type, some)))
        case {"enum": list(values)}:
            return " | ".join(f'"{value}"' for value in values)
        case {"const": value}:
            return f'"{value}"'
        case {"type": "array", "prefixItems": list(items)}:
            return f"[{', '.join(map(_type, items))}]"
        case {"type": "array"}:
            inner = _type(schema.get("items", {}))
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case {"type": "object"}:
            inner = schema.get("additionalProperties")
            return f"Record<string, {_type(inner) if isinstance(inner, dict) else 'unknown'}>"
        case {"type": str(name)}:
            return _NAMED[name]
        case _:
            return "unknown"


def main() -> int:
    """Write the file, or compare it."""
    parser = argparse.ArgumentParser(description=re.sub(r"\s+", " ", (__doc__ or "")[:90]))
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    parser.add_argument("--print", action="store_true", help="print instead of writing")
    args, made = parser.parse_args(), typescript()
    if args.print:
        print(made)
        return 0
    if TYPES.exists() and TYPES.read_text() == made:
        return 0
    if args.check:
        print(f"{TYPES.name} is stale: run make page")
        return 1
    TYPES.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
