"""Brokers as clients and clusters name them, in good faith or bad, and a resolver of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

# {named}: port of a broker that the cluster named as 127.0.0.1. {other}: a port that nobody named.
HOSTILE = """
127.0.0.1:{other}
127.0.0.2:{named}
127.1:{named}
127.0.1:{named}
2130706433:{named}
0x7f000001:{named}
0x7f.0.0.1:{named}
0x7f.1:{named}
0177.0.0.1:{named}
017700000001:{named}
127.0.0.01:{named}
0.0.0.0:{named}
0:{named}
localhost:{named}
LOCALHOST.:{named}
localhost.localdomain:{named}
[::1]:{named}
[::]:{named}
[::ffff:127.0.0.1]:{named}
[::ffff:7f00:1]:{named}
[0:0:0:0:0:ffff:7f00:0001]:{named}
[::127.0.0.1]:{named}
[64:ff9b::7f00:1]:{named}
[2002:7f00:1::]:{named}
[fe80::1%lo]:{named}
::1:{named}
169.254.169.254:80
pulsar://169.254.169.254:80
2852039166:80
0xa9fea9fe:80
0251.0376.0251.0376:80
[::ffff:169.254.169.254]:80
[fd00:ec2::254]:80
metadata.google.internal:80
127.0.0.1:{named}@127.0.0.1:{other}
user:secret@127.0.0.1:{named}
pulsar://127.0.0.1:{named}@127.0.0.1:{other}/
127.0.0.1:{other}#127.0.0.1:{named}
127.0.0.1:{other}/127.0.0.1:{named}
127.0.0.1:{other}?127.0.0.1:{named}
127.0.0.1:{named}/../
127.0.0.1:{named},127.0.0.1:{other}
127.0.0.1:0{named}0
127.0.0.1:+{named}
127.0.0.1: {named}
 127.0.0.1:{named}
127.0.0.1:{named}\t
127.0.0.1:{named}%00
127.0.0.1%00:{named}
127.0.0.1\x00.example:{named}
１２７.0.0.1:{named}
127。0。0。1:{named}
http://127.0.0.1:{named}
file:///127.0.0.1:{named}
unix:127.0.0.1:{named}
pulsar://pulsar://127.0.0.1:{named}
127.0.0.1
:{named}
127.0.0.1:
127.0.0.1:0
127.0.0.1:99999
127.0.0.1:-1
""".strip("\n").split("\n")

# Where no broker can be, whoever names it.
NO_BROKER = (
    "169.254.169.254", "2852039166", "0xa9fea9fe", "[::ffff:169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]", "[fe80::1]", "0.0.0.0",
    "[::]", "[::ffff:0.0.0.0]", "224.0.0.1", "[ff02::1]", "255.255.255.255", "0.1.2.3",
    "100.100.100.200",
)  # fmt: skip


class Names:
    """A resolver of ours."""

    def __init__(self, **answers: Sequence[str]) -> None:
        self.answers: dict[str, Sequence[str]] = dict(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        await asyncio.sleep(0)
        if host not in self.answers:
            raise OSError("not known")
        return self.answers[host]
