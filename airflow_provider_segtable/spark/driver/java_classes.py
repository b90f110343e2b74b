"""Compile segtable's classes in Java for a driver, and load them.

1. Janino compiles them, the compiler that Spark has for its own generated code: no JDK is needed,
   and a class fits the Spark that runs (ADR 0034).
2. The classes of a source are put into a jar for the driver's class loader, once for each driver.
   Executors need none of them.
"""

import zipfile
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_NO_FILES: Mapping[str, str] = {}


def jvm_of(context: SparkContext) -> Any:
    """Return the driver's classes; PySpark has no public way to them."""
    return context._jvm  # noqa: SLF001


def java_class(
    context: SparkContext,
    name: str,
    source: Traversable,
    more: Mapping[str, str] = _NO_FILES,
) -> "JavaObject":
    """Return a class, compiled if this driver does not have it yet.

    Args:
        context: of the driver.
        name: the class, with its package.
        source: its source, in Java.
        more: text files to add to the jar, by their names in it.

    Raises:
        Py4JError: it does not compile, because this Spark's interfaces differ.
    """
    jvm = jvm_of(context)
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    try:
        return jvm.java.lang.Class.forName(name, True, loader)
    except Py4JJavaError:
        pass
    jar = _jar(context, name, source, more, loader)
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    return jvm.java.lang.Class.forName(name, True, loader)


def _jar(
    context: SparkContext,
    name: str,
    source: Traversable,
    more: Mapping[str, str],
    loader: "JavaObject",
) -> Path:
    compiler = jvm_of(context).org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(source.read_text())
    jar = Path(context._temp_dir, f"{name}.jar")  # noqa: SLF001  # removed with the driver
    with zipfile.ZipFile(jar, "w") as archive:
        for each, code in compiler.getBytecodes().items():
            archive.writestr(f"{each.replace('.', '/')}.class", bytes(code))
        for path, text in more.items():
            archive.writestr(path, text)
    return jar
