"""Generated incidents: broker, consumers and applications play one, and each source tells its part.

script: what is given · making: a script from a seed · broker, playing: what happens, with the
simulator's dispatchers and clients · documents: what `topics stats` and its internal stats would
say · moments: what each source can see at one moment, and the truth that the model knows · asking:
the verdict on that, the only place that knows how rules are asked · laws: what must hold for all of
them · `python -m incidents --seeds 0-9999` plays that many and prints who breaks which law.
"""
