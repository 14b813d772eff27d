"""The relay: the process that moves bytes between clients and brokers and records them.

`__main__.py` is the process. What a client and its broker say is decided about in
`conversation.py`, bytes in and bytes out; `passage.py` is its hot path, `rewrites.py` all that is
ever changed on the wire. `sides.py` and `connection.py` are the sockets around it, `targets.py`
says who may be dialled, `journal_file.py` is the disk. Nothing heavy is imported here.
"""
