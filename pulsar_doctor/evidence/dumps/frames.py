"""Whether a stack frame belongs to the JDK, the client, a library or the application.

An application calls libraries, which call the JDK. What it does is named by the innermost frame of
its own, with the call that it made there. Which packages are a library's is a list: of an
application with its own package in it, the innermost frame outside of the JDK and of the client is
taken instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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


def innermost_own(frames: Sequence[str]) -> str | None:
    """The innermost frame of the application itself; None where there is none."""
    return next((each for each in frames if not (PLATFORM.match(each) or is_librarys(each))), None)


def innermost_line(frames: Sequence[str]) -> str | None:
    """The frame to name: the application's, or else the innermost one of a library."""
    return innermost_own(frames) or next((e for e in frames if not PLATFORM.match(e)), None)


def call_from(line: str | None, frames: Sequence[str]) -> str | None:
    """The frame that this one has called; None where it is the innermost."""
    at = frames.index(line) if line in frames else 0
    return frames[at - 1] if at else None


def is_librarys(frame: str) -> bool:
    """Whether it is a library's, or code that a library has generated."""
    called = frame.partition(" (")[0]
    return bool(LIBRARY.match(called) or GENERATED.search(called))
