"""What a consumer did over time, small enough to be drawn.

timeline: one consumer or subscription as it is drawn · of_rows: from the rows of a trace ·
of_samples: from statistics.
"""
