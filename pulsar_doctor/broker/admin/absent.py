"""The error message for a topic that does not exist: where it was searched, and what exists.

Only lists of names are requested, and those load no topic.
"""

from __future__ import annotations

import asyncio

from pulsar_doctor.broker.admin.client import Admin
from pulsar_doctor.broker.admin.refusals import NotFound
from pulsar_doctor.broker.admin.topics import DOMAINS, TopicName, topic_name
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.wording.spelling import near

ASK_SECONDS = 5.0  # for all lists; what is written alike is worth no longer wait
NAMED_MOST = 5


async def absent(admin: Admin, name: TopicName) -> str | None:
    """One sentence, with the topics of its namespace that are written alike.

    None where these cannot be listed (refused, unreachable, too many to come in time), or where
    the topic is among them: it has come meanwhile.
    """
    try:
        async with asyncio.timeout(ASK_SECONDS):
            try:
                listed = await admin.topics(name.namespace)
            except NotFound:
                return await _no_namespace(admin, name)
            if str(name.of_all_partitions) in listed.partitioned:
                return await _no_partition(admin, name)
            scalable = await admin.scalable_topics(name.namespace)
    except (DoctorError, TimeoutError):
        return None
    known = [topic_name(topic) for topic in (*listed.topics, *listed.partitioned, *scalable)]
    return None if name in known else f"{_at(admin, name)}; {_there(name, known)}"


def _at(admin: Admin, name: TopicName) -> str:
    return f"there is no topic {name} at {admin.place}"


async def _no_partition(admin: Admin, name: TopicName) -> str | None:
    """A partition of a topic that there is: nobody has used it, or it has not so many."""
    whole = name.of_all_partitions
    partitions = await admin.partitions(str(whole))
    if name == whole or partitions is None:
        return None
    if int(name.local.rpartition("-")[2]) < partitions:
        return f"{name} is not loaded: nobody has used this partition so far"
    return f"{_at(admin, name)}; the last partition is {whole}-partition-{partitions - 1}"


def _there(name: TopicName, known: list[TopicName]) -> str:
    if name.of_all_partitions == name:  # partitions are of interest to whoever names one
        known = [each.of_all_partitions for each in known]
    # Of a name that is there in both domains the one that was meant comes last, and stays.
    known.sort(key=lambda each: each.domain == name.domain)
    shown = {each.local: _typed(each) for each in known}
    there = near(name.local, shown, shown=shown, most=NAMED_MOST)
    return there or f"{name.namespace} has none at all"


async def _no_namespace(admin: Admin, name: TopicName) -> str:
    """The namespace is not there, or not even its tenant."""
    tenant, _, _ = name.namespace.partition("/")
    text = f"{_at(admin, name)}, as there is no"
    try:
        there = near(name.namespace, await admin.namespaces(tenant), most=NAMED_MOST)
        return f"{text} namespace {name.namespace}; {there or f'{tenant} has none at all'}"
    except NotFound:
        tenants = await admin.tenants()
    return f"{text} tenant {tenant}; {near(tenant, tenants, most=NAMED_MOST)}"


def _typed(name: TopicName) -> str:
    """A topic as short as the command line takes it."""
    if name.domain != DOMAINS[0]:
        return str(name)
    short = name.namespace == "public/default" and "/" not in name.local
    return name.local if short else f"{name.namespace}/{name.local}"
