"""The books: what each consumer was granted, spent and gave back, command by command.

Pure. permits is the theory, timeline plays a trace's rows to it, balance is what comes out.
"""
