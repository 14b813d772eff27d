"""What consumers of ours do: those of pulsar-client (attach) and our own on the wire (receiver).

engines: what a consumer shall be, and what any engine offers · planning: from options to that, or
why it cannot be · working: takes, works, acknowledges · holding: holds messages back until they are
due · deferring: when that is, and what it costs · granting: permits by hand · tallies: what a run
adds up · totals: what it came to.
"""
