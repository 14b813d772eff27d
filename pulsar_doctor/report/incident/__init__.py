"""The page of an incident: one HTML file that needs no network.

page: the verdicts and the rest of the page · charts: timelines, drawn by Bokeh.
"""
