"""Asks the rules of all that there is to see of a subscription, and weighs what they answer.

weighing is pure; live and recorded bring what is judged: brokers, traces and files.
"""
