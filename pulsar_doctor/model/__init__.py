"""Clients and a broker as they were measured, on the permit account of a trace.

Theory of operation
-------------------
Messages arrive, a broker pushes entries to whoever has permits, clients queue them and send FLOWs,
applications work on one message after the other. Each step makes the row that a tap next to the
client would have seen, and the rows go through the same timeline as those of a trace. So what is
shown of a simulation are the same numbers, and causes may judge it.

The broker is that of 4.0.8. A Shared subscription reads up to 100 entries for the permits that are
there and hands them out in turn: each consumer as many entries as its permits hold messages of the
average size of what was read, rounded up, at most dispatcherMaxRoundRobinBatchSize (20). An
Exclusive or Failover one sends its active consumer one entry for each permit, whatever is in it.
Batches so reach below zero. Key_Shared keeps each key with one consumer.

Clients differ in when a message counts as taken (see ledger/clients.py). A FLOW takes a round trip
to come back as a message; nothing else on the network takes time.

Left out: redelivery, the limit of unacknowledged messages, chunks, dispatch limits, reconnects, the
time that a client's threads need. Time is in nanoseconds from the first arrival on.
"""
