"""The permit account of each consumer: granted, used and acknowledged, command by command.

Pure. permits is the theory, timeline plays a trace's rows to it, balance is what comes out; acks
keeps which entries are acknowledged, as ranges.
"""
