"""Decides what is wrong with a subscription, how certain that is, and what to do. No I/O.

causes/ has one file for each cause; observations (a table), hypotheses and fitted numbers make
suspects where the checks do not decide; actions/ are what several causes advise; weighing makes one
verdict of it.
"""
