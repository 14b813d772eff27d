"""The relay: the process that moves bytes between clients and brokers and writes down what passes.

`__main__.py` is the process, `sides.py` the hot path, `connection.py` what is decided of a client
and its broker, `rewrites.py` all that is ever changed on the wire, `targets.py` who may be dialled,
`journal_file.py` the disk. Nothing heavy is imported here.
"""
