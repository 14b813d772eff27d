"""What an assistant may call: each tool is one command of pulsar-doctor that only reads.

Their docstrings are what it reads of them. What comes from outside becomes one argument behind `=`
or `--`, so that no name can be an option.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import Field

from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.parts.mcp.calls import NOTE, Doctor
from pulsar_doctor.wording.printable import json_text

Arg = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]
Document = Annotated[str, Field(max_length=4_000_000)]
Seconds = Annotated[int, Field(ge=0, le=60)]
DocumentKind = Literal["stats", "internal-stats", "case"]
Call = Context[Any, Any]
BRIEF = ("stall-check", "--output=brief")
HERE = Path(__file__)
GLOSSARY = HERE.with_name("glossary.md"), HERE.parents[3] / "docs/glossary.md"  # or a source tree
INCIDENT = HERE.with_name("incident.txt")


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools, resources and the prompt."""

    doctor: Doctor

    async def check(
        self, ctx: Call, topic: Arg = "", subscription: Arg = "", namespace: Arg = "",
        context: Arg = "", seconds: Seconds = 10,
    ) -> CallToolResult:  # fmt: skip
        """Explains why subscriptions of a live cluster are stuck or slow, the worst first.

        Give a topic, or a namespace as tenant/namespace. context: one of the allowed clusters, if
        there are several. seconds: how long it watches; more seconds decide more.
        """
        line = self._source("", "", context, topic, subscription, namespace)
        return await self.doctor.answer(ctx, *BRIEF, f"--window={seconds}s", *line)

    async def judge(
        self, ctx: Call, document: Document, kind: DocumentKind = "stats", topic: Arg = "",
        subscription: Arg = "", at: Arg = "",
    ) -> CallToolResult:  # fmt: skip
        """Explains why subscriptions are stuck, from a text that somebody pasted; needs no cluster.

        kind `stats`: what `pulsar-admin topics stats` printed, metrics of a broker, a thread dump
        of a client, or a log; or what `topics stats-internal` printed; or a case of pulsar-doctor.
        at: when it was printed, such as 2026-05-01T12:00:00Z.
        """
        line = [
            *_options(at=at),
            *self._source(f"--{kind}", document or " ", "", topic, subscription),
        ]
        return await self.doctor.answer(ctx, *BRIEF, *line, pasted=document)

    async def explain(self, ctx: Call, code: Arg) -> CallToolResult:
        """Explains a cause by its code, such as permits-exhausted: meaning, sources, thresholds."""
        return await self.doctor.answer(ctx, "explain", "--", code)

    async def known_issues(
        self, ctx: Call, issue: Arg = "", component: Arg = "broker", version: Arg = ""
    ) -> CallToolResult:
        """Shows a known bug, or lists those of a version of the broker, java, go, cpp, …"""
        some = ("list", *_options(component=component, version=version))
        return await self.doctor.answer(
            ctx, "known-issues", *(("show", "--", issue) if issue else some)
        )

    async def holes(
        self, ctx: Call, topic: Arg = "", subscription: Arg = "", context: Arg = "",
        document: Document = "",
    ) -> CallToolResult:  # fmt: skip
        """Shows holes between acknowledged messages, and what they cost at the next load.

        document: what `topics stats-internal` printed, instead of a live topic.
        """
        line = self._source("--internal-stats", document, context, topic, subscription)
        return await self.doctor.answer(ctx, "holes", *line, pasted=document)

    async def what_if(
        self, ctx: Call, topic: Arg = "", subscription: Arg = "", context: Arg = "",
        document: Document = "",
    ) -> CallToolResult:  # fmt: skip
        """Predicts what helps a slow subscription: `helps` has what each lever would bring.

        It also has all that is known of it. document: as for judge, instead of a live topic.
        """
        line = self._source("--stats", document, context, topic, subscription)
        return await self.doctor.answer(ctx, "stall-check", "-v", *line, pasted=document)

    async def compare(
        self, ctx: Call, earlier: Document, topic: Arg = "", subscription: Arg = "",
        context: Arg = "", document: Document = "",
    ) -> CallToolResult:  # fmt: skip
        """Says whether a remedy has worked, by what `topics stats` printed before it, and by now.

        Now is a live topic, or a document of today. exit_code 3: not yet well.
        """
        line = self._source("--stats", document, context, topic, subscription)
        return await self.doctor.answer(ctx, *BRIEF, *line, pasted=document, earlier=earlier or " ")

    def causes(self) -> str:
        """The codes of all causes with their titles."""
        return json_text({cause.code: cause.text.strip().partition("\n")[0] for cause in load()})

    def glossary(self) -> str:
        """The words of Pulsar and of pulsar-doctor."""
        return next(file for file in GLOSSARY if file.exists()).read_text("utf-8")

    def incident(self, topic: str, subscription: str = "") -> str:
        """How to find out why a consumer is stuck."""
        where = json_text({"topic": topic, "subscription": subscription})
        return INCIDENT.read_text("utf-8").format(where=where, note=NOTE)

    def _source(
        self, option: str, document: str, context: str, topic: str, subscription: str,
        where: str = "",
    ) -> list[str]:  # fmt: skip
        """What is read: standard input, if there is a document; else a cluster. where: a namespace.

        Raises ToolError for nothing or too much, and for a cluster that is not allowed.
        """
        if topic and where:
            raise ToolError("give a topic or a namespace, not both")
        if not (document or topic or where):
            raise ToolError(f"give a topic, or a {'document' if option else 'namespace'}")
        first, allowed = f"{option}=-", self.doctor.contexts
        if not document:
            context = context or (allowed[0] if len(allowed) == 1 else "")
            first = f"--context={context}"
            if context not in allowed:
                names = ", ".join(allowed) or "none, see --allow-context"
                raise ToolError(f"name an allowed context; allowed: {names}")
        given = _options(subscription=subscription, namespace=where)
        return [first, *given, *(["--", topic] if topic else [])]


def _options(**given: str) -> list[str]:
    return [f"--{name}={value}" for name, value in given.items() if value]
