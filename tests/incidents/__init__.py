"""Generated incidents: broker, consumers and applications play one, and each source tells its part.

script: what is given · making: a script from a seed · broker, dispatching, playing: what happens,
with the simulator's dispatchers and clients · documents: what `topics stats` and its internal stats
would say · moments: what each source can see at one moment, and the truth that the model knows ·
truth: that in a few words · asking: the verdict, the only place that knows how rules are asked ·
questions: all that is asked of a moment · laws, rhythm: what must hold of the answers · counting:
how often it does not · known: what does not hold today.

`python -m incidents --seeds 0-9999`, in tests/, plays that many and prints who breaks which law.
"""
