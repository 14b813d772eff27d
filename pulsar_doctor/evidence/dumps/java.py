"""One thread of a JVM's dump: its role for a Pulsar consumer, and what it waits for.

A thread *listens* where the client calls its listener, *receives* where it is in one of the
client's receive calls, and *acknowledges* where it is in one of its acknowledge calls. A thread of
the application is one with a frame that is neither the JDK's nor Netty's nor the client's.

An application calls libraries, which call the JDK. What it does is named by the innermost frame of
its own, with the call that it made there. Which packages are a library's is a list: of an
application with its own package in it, the innermost frame outside of the JDK and of the client is
taken instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pulsar_doctor.evidence.process_report import Role, Sitting, method

LISTENS = re.compile(
    r"callMessageListener|lambda\$(?:callMessageListener|trigger|schedule|execute)"
)
RECEIVES = re.compile(r"(?:internalReceive|receive|batchReceive|internalBatchReceive|fetch\w+)$")
ACKNOWLEDGES = re.compile(r"(?:acknowledge|addAcknowledg|addIndividual|addCumulative|doAck)\w*$")
RESTS = re.compile(r"(?:jdk\.internal\.misc|sun\.misc)\.Unsafe\.park|java\.lang\.Object\.wait")
NATIVE_SLEEP = re.compile(r"^java\.lang\.Thread\.sleep(?:Nanos)?0$")
FRAMES_KEPT = 12
PLATFORM = re.compile(
    r"(?:java|javax|jdk|sun|com\.sun|kotlin|kotlinx|scala|org\.slf4j|org\.apache\.logging"
    r"|ch\.qos\.logback|io\.opentelemetry)\.|.*\bnetty\."
    r"|.*\bpulsar\.(?:client|common|shade|functions)\.|pulsardoctor\."
)
LIBRARY = re.compile(
    r"(?:akka|brave|cats\.effect|clojure|co\.elastic|com\.amazonaws|com\.azure"
    r"|com\.datastax|com\.fasterxml|com\.github\.benmanes|com\.google\.(?:common|gson|inject"
    r"|protobuf|cloud|api)|com\.ibm|com\.lmax|com\.microsoft|com\.mongodb|com\.mysql|com\.netflix"
    r"|com\.rabbitmq|com\.squareup|com\.zaxxer|dev\.failsafe|feign|groovy|io\.debezium"
    r"|io\.github\.(?:bucket4j|resilience4j)|io\.grpc|io\.lettuce|io\.micrometer|io\.micronaut"
    r"|io\.projectreactor|io\.quarkus|io\.r2dbc|io\.reactivex|io\.smallrye|io\.undertow|io\.vertx"
    r"|jakarta|javassist|liquibase|net\.bytebuddy|net\.jodah|net\.sf\.ehcache|okhttp3|okio"
    r"|oracle|org\.apache\.(?:activemq|avro|bookkeeper|camel|catalina|commons|coyote|cxf|flink"
    r"|hadoop|hc|http|ibatis|kafka|pekko|spark|thrift|tomcat|zookeeper)|org\.aspectj"
    r"|org\.codehaus|org\.eclipse|org\.ehcache|org\.elasticsearch|org\.flywaydb|org\.h2"
    r"|org\.hibernate|org\.infinispan|org\.jboss|org\.jctools|org\.jooq|org\.mariadb|org\.mybatis"
    r"|org\.opensearch|org\.postgresql|org\.quartz|org\.reactivestreams|org\.redisson"
    r"|org\.springframework|org\.xnio|org\.xerial|reactor|redis\.clients|retrofit2|rx"
    r"|software\.amazon|zio|zipkin2)\."
)
GENERATED = re.compile(r"\$\$(?:EnhancerBy|SpringCGLIB|FastClassBy)|\$Proxy[0-9]")


@dataclass(frozen=True, slots=True)
class Awaited:
    """The object that a thread waits for."""

    address: str | None  # in the heap, if the dump has it
    of: str
    enters: bool = False  # it waits to enter this object's monitor, which another thread holds
    parks: bool = False  # as all waits of java.util.concurrent are
    initializes: bool = False  # it waits until another thread has initialized this class


@dataclass(frozen=True, slots=True)
class JavaThread:
    """One thread of a dump."""

    name: str
    id: int
    nid: int  # of the kernel, in the JVM's namespace
    state: str
    frames: tuple[str, ...]  # innermost first
    # addresses of monitors that it has entered, also while it waits on one; and of locks that it
    # holds, where the dump lists them
    held: tuple[str, ...] = ()
    awaited: Awaited | None = None
    cpu_ms: float | None = None  # of a processor, used up to now; None: Java 8 does not report it
    elapsed: float | None = None  # seconds since it began; None: as above
    tid: str = ""  # where it is in memory, which differs between processes

    @property
    def role(self) -> Role | None:
        """What it does for a consumer; None for threads that are nobody's we know."""
        calls = [call for each in self.frames if (call := _client_call(method(each)))]
        if any(map(LISTENS.match, calls)):
            return "listens" if self.line is not None else None
        if any(map(ACKNOWLEDGES.match, calls)):
            return "acknowledges"
        if any(map(RECEIVES.match, calls)):
            return "receives"
        if self.line is not None:
            return "application"
        return "client" if any(".pulsar.client." in f".{method(e)}" for e in self.frames) else None

    @property
    def joins(self) -> bool:
        """Whether it waits for the end of another thread."""
        calls = (call for each in self.frames if not RESTS.match(call := method(each)))
        return next(calls, "") == "java.lang.Thread.join"

    @property
    def line(self) -> str | None:
        """The innermost frame of the application, or else of a library; None: there is none."""
        outside = (each for each in self.frames if not PLATFORM.match(each))
        return innermost_own(self.frames) or next(outside, None)

    @property
    def inside(self) -> tuple[str, ...]:
        """The calls in which it is below that line: the innermost, and the library's own."""
        line = self.line
        call, top = call_from(line, self.frames), self.frames[0] if self.frames else None
        if call is None or top is None or call == top:
            return () if top is None or top == line else (_public(top),)
        if RESTS.match(top):
            return (method(call),)
        return (_public(top), method(call)) if is_librarys(call) else (_public(top),)

    def sitting(self, role: Role, seconds: float | None = None) -> Sitting:
        """Where it sits. seconds: for how long, at least."""
        top = self.frames[0] if self.frames else None
        kept = self.frames[:FRAMES_KEPT]
        return Sitting(
            self.name, role, self.state, top, self.line, kept, self.id, seconds, self.inside
        )


def _public(frame: str) -> str:
    """`java.lang.Thread.sleepNanos0`, as Java 21 and later have it, is the application's sleep."""
    return NATIVE_SLEEP.sub("java.lang.Thread.sleep", method(frame))


def _client_call(called: str) -> str | None:
    """The method's own name, where it is one of a consumer's in the client, shaded or not."""
    owner, _, call = called.rpartition(".")
    package, _, kind = owner.rpartition(".")
    is_consumers = "Consumer" in kind or kind.endswith("AcknowledgmentsGroupingTracker")
    is_clients = package.endswith("pulsar.client.impl") and re.fullmatch(r"\w+", kind)
    return call if is_consumers and is_clients else None


def innermost_own(frames: Sequence[str]) -> str | None:
    """The innermost frame of the application itself; None where there is none."""
    return next((each for each in frames if not (PLATFORM.match(each) or is_librarys(each))), None)


def call_from(line: str | None, frames: Sequence[str]) -> str | None:
    """The frame that this one has called; None where it is the innermost."""
    at = frames.index(line) if line in frames else 0
    return frames[at - 1] if at else None


def is_librarys(frame: str) -> bool:
    """Whether it is a library's, or code that a library has generated."""
    called = frame.partition(" (")[0]
    return bool(LIBRARY.match(called) or GENERATED.search(called))
