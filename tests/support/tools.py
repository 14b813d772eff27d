"""Where the tools of a distribution find a sandbox."""

from __future__ import annotations

from pulsar_doctor.parts.sandbox.standalone import Sandbox, own_environment

MEMORY = "-Xmx256m -XX:MaxDirectMemorySize=128m"


def tool_environment(broker: Sandbox) -> dict[str, str]:
    """The environment in which bin/pulsar-perf, bin/pulsar-admin, … find this broker."""
    return own_environment() | {
        "JAVA_HOME": str(broker.java_home),
        "PULSAR_CLIENT_CONF": str(broker.data / "client.conf"),
        "PULSAR_MEM": MEMORY,
        "PULSAR_EXTRA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # it lives for seconds
        "PULSAR_LOG_DIR": str(broker.data / "tool-logs"),
    }
