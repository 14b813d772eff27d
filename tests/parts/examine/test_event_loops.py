"""Consumers that only the thread of an event loop leads to, as in an idle client of Pulsar 5."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_doctor.parts.examine.identity import process as identified
from pulsar_doctor.parts.examine.jvm import agent
from pulsar_doctor.parts.examine.jvm.attach import Jvm
from pulsar_doctor.parts.sandbox import distribution
from tests.support.maven import compiled
from tests.support.wanting import wanting

SOURCES = {
    "io/netty/util/internal/ThreadExecutorMap.java": """
        package io.netty.util.internal;
        public class ThreadExecutorMap {
            public static Runnable apply(final Runnable command) {
                return new Runnable() { public void run() { command.run(); } };
            }
        }""",
    "org/apache/pulsar/client/impl/ConsumerBase.java": """
        package org.apache.pulsar.client.impl;
        public class ConsumerBase { }""",
    "io/netty/channel/Loop.java": """
        package io.netty.channel;
        public class Loop implements Runnable {
            final Object consumer = new org.apache.pulsar.client.impl.ConsumerBase();
            public void run() {
                System.out.println("ready");
                try { Thread.sleep(600000); } catch (InterruptedException over) { }
            }
            public static void main(String[] none) {
                new Thread(io.netty.util.internal.ThreadExecutorMap.apply(new Loop())).start();
            }
        }""",
}


@pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc"))
def test_a_consumer_is_found_from_what_the_loop_runs(tmp_path: Path) -> None:
    sources = [tmp_path / name for name in SOURCES]
    for path, text in zip(sources, SOURCES.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    java = distribution.java_home() / "bin/java"
    compiled(sources, tmp_path / "classes", java)
    line = [str(java), "-Xmx64m", "-cp", str(tmp_path / "classes"), "io.netty.channel.Loop"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert len(agent.consumers(Jvm(identified(process.pid))).consumers) == 1
        finally:
            process.kill()
            process.wait()
            Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)
