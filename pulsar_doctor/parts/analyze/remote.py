"""A Spark Connect session."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pulsar_doctor.errors import DoctorError, InputError, needing
from pulsar_doctor.parts.analyze.configuration import QUERIES, UTC
from pulsar_doctor.parts.analyze.failures import cause, failures_in_one_sentence
from pulsar_doctor.parts.analyze.masters import check_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSWER_SECONDS = 10.0


@contextlib.contextmanager
def connected(remote: str) -> Iterator[SparkSession]:
    """A session of this Spark Connect server.

    Raises InputError where it is no address, DoctorError where no such server answers there.
    """
    check_remote(remote)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with needing("spark", "Spark Connect"):
        import pyspark.sql.connect.session  # noqa: F401
    _require_answer(remote)
    from pyspark.sql import SparkSession

    where = f"the Spark Connect server at {_shown(remote)}"
    with failures_in_one_sentence(where):
        spark = SparkSession.builder.remote(remote).getOrCreate()
        _require_version(where, spark.version)
        for key, value in {**QUERIES, **UTC}.items():
            spark.conf.set(key, value)
    try:
        yield spark
    except BaseException:
        with contextlib.suppress(Exception):
            spark.interruptAll()  # or the server keeps computing what nobody waits for
        raise
    finally:
        with contextlib.suppress(Exception):
            spark.stop()
        # Left there, it would forbid this process a session of its own.
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def _require_answer(remote: str) -> None:
    """Checks whether gRPC is spoken there: Spark's own client would try for ten minutes."""
    import grpc

    try:
        channel = _channel_builder()(remote).toChannel()
    except Exception as error:
        raise InputError(cause(error)) from error
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
    except grpc.FutureTimeoutError:
        raise DoctorError(
            f"what listens at {_shown(remote)} does not answer as a Spark Connect server; "
            "look at the port (15002 by default) and at use_ssl"
        ) from None
    finally:
        channel.close()


def _channel_builder() -> Any:
    from pyspark.sql.connect.client import core

    return getattr(core, "DefaultChannelBuilder", None) or core.ChannelBuilder  # Spark 4, 3.5


def _shown(remote: str) -> str:
    """The address without its parameters, where a token may be."""
    return remote.partition(";")[0].rstrip("/")


def _require_version(where: str, server: str) -> None:
    """DoctorError where the server is older than the client by a major version."""
    from pyspark import __version__ as client

    if int(server.partition(".")[0]) < int(client.partition(".")[0]):
        raise DoctorError(
            f"{where} is Spark {server} and the pyspark here is {client}; "
            f"pip install 'pyspark[connect]=={'.'.join(server.split('.')[:2])}.*'"
        )
