"""Draws timelines with Bokeh: that package brings its own JavaScript."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy
from bokeh.document import Document
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
    WheelZoomTool,
)
from bokeh.plotting import figure
from bokeh.resources import Resources

from pulsar_doctor.checkup.timelines.timeline import (
    ConsumerTimeline,
    Moved,
    Point,
    Starved,
    SubscriptionTimeline,
    Timelines,
)

Columns = dict[str, list[Any]]  # by the names that texts and glyphs have; None: not drawn
Style = Mapping[str, Any]  # of a glyph

BLUE, ORANGE, GREY = "#3b82c4", "#c2620e", "#808488"  # readable on white and on black
HATCHED: Style = {"color": ORANGE, "hatch_color": ORANGE, "hatch_pattern": "/"}
MOMENT = "{%F %H:%M:%S.%3N} UTC"
FROM = f"from @left{MOMENT}"
STARVED = (
    f"without permits: @times, @total{{0,0.000}} s in all, longest @longest{{0,0.000}} s, {FROM}"
)
BORDER, DIGIT = 32, 7  # pixels beside the labels of an axis, and of a character in one
HEIGHT, LOW = 220, 130  # pixels
FOR_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
MODEL = re.compile(r'(?<="id":")p\d+(?=")')  # a document of Bokeh has no text from outside


def drawing(timelines: Timelines, parts: Mapping[str, Any]) -> tuple[str, str]:
    """JavaScript, and the JSON of all charts, which zoom together, with the place of each.

    parts: by their places: `starved`, `consumer-1`, `moved-1`, `subscription-1`; see `_Figures`.
    """
    figures = _Figures(timelines)
    document, places = Document(), []
    for place, part in parts.items():
        root = getattr(figures, place.partition("-")[0])(part)
        document.add_root(root)
        places.append({"id": root.id, "place": place})
    library = Resources(mode="inline", components=["bokeh"]).js_raw[0]
    shown = for_html({"document": document.to_json(deferred=False), "roots": places})
    names: dict[str, str] = {}  # of models: the same in every process
    return library, MODEL.sub(lambda name: names.setdefault(name[0], f"m{len(names)}"), shown)


def for_html(document: Mapping[str, Any]) -> str:
    """JSON that may stand in an HTML file: nothing in it can end its element."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).translate(FOR_HTML)


def _span(timelines: Timelines) -> tuple[float, float]:
    """From the first to the last moment of all, in milliseconds."""
    moments = [us for each in timelines.consumers for us in (each.since_us, each.until_us)]
    for each in timelines.subscriptions:
        moments += [us for us, _ in (*each.backlog, *each.unacked)]
    first, last = min(moments, default=0), max(moments, default=0)
    return first / 1000, max(last / 1000, first / 1000 + 1)


def _most(timelines: Timelines) -> int:
    """The largest number of all charts, which decides how wide the labels of all of them are."""
    lines = [line for of in timelines.consumers for line in (of.permits, of.held, of.unsent)]
    lines += [line for of in timelines.subscriptions for line in (of.backlog, of.unacked)]
    moved = (each for of in timelines.consumers for each in of.moved)
    counts = (max(each.delivered, each.acknowledged) for each in moved)
    values = chain(counts, (abs(value or 0) for line in lines for _, value in line))
    return max(values, default=0)


class _Figures:
    """Makes figures that share one axis of time."""

    def __init__(self, timelines: Timelines) -> None:
        begin, end = _span(timelines)
        self._consumers = timelines.consumers
        self._new = partial(
            figure,
            x_range=Range1d(start=begin, end=end, bounds=(begin, end)),
            x_axis_type="datetime",
            y_axis_label="messages",
            sizing_mode="stretch_width",
            tools="xpan,xwheel_zoom,xbox_zoom,reset",
            active_drag=None,
            active_scroll="xwheel_zoom",
            background_fill_color=None,
            border_fill_color=None,
            outline_line_color=GREY,
            min_border_left=BORDER + DIGIT * len(f"-{_most(timelines):,}"),
            min_border_right=35,  # half of the last moment's label
        )

    def consumer(self, of: ConsumerTimeline) -> Any:
        """Permits and messages held as steps, times without permits hatched."""
        lines = (
            line for each in self._beside(of) for line in (each.permits, each.held, each.unsent)
        )
        drawn = self._figure(HEIGHT, [value for line in lines for _, value in line])
        drawn.xaxis.visible = not of.moved  # otherwise it is that of the chart below
        style = {**HATCHED, "x0": "left", "x1": "right", "fill_alpha": 0.12, "hatch_alpha": 0.5}
        _draw(drawn, "vstrip", _starved(of.starved), STARVED, style)
        _steps(drawn, "available permits", of.permits, BLUE, "solid")  # below what has gaps
        _steps(drawn, "messages held", of.held, ORANGE, "dashed")
        _steps(drawn, "unsent permits", of.unsent, GREY, "dotted")
        return drawn

    def moved(self, of: ConsumerTimeline) -> Any:
        """Deliveries upwards, acknowledgements downwards, FLOWs as triangles."""
        up = [(each, each.delivered) for each in of.moved if each.delivered]
        down = [(each, -each.acknowledged) for each in of.moved if each.acknowledged]
        moved = [one for each in self._beside(of) for one in each.moved]
        counts = [count for one in moved for count in (one.delivered, -one.acknowledged)]
        drawn = self._figure(LOW, counts, None)
        _bars(drawn, "delivered", up, {"color": BLUE})
        _bars(drawn, "acknowledged", down, HATCHED)
        flows = [each for each in of.moved if each.flows]
        columns = _spans(flows) | {
            "flows": [each.flows for each in flows], "permits": [each.permits for each in flows],
        }  # fmt: skip
        text = f"@flows FLOW, @permits permits, {FROM}"
        style = {"x": "left", "y": 0, "size": 6, "color": GREY}
        _draw(drawn, "scatter", columns, text, style | {"marker": "triangle"})
        return drawn

    def starved(self, those: Sequence[ConsumerTimeline]) -> Any:
        """The times without permits of all, a row for each, in the order of the table."""
        drawn = self._figure(90 + 12 * len(those), [])
        drawn.y_range = Range1d(start=len(those) + 0.5, end=0.5)
        step = -(-len(those) // 20)
        drawn.yaxis.ticker = FixedTicker(ticks=list(range(1, len(those) + 1, step)))
        drawn.yaxis.axis_label = "consumer"
        columns = _starved([each for of in those for each in of.starved])
        columns["y"] = [at for at, of in enumerate(those, start=1) for _ in of.starved]
        style = {**HATCHED, "left": "left", "fill_alpha": 0.4, "height": 0.7}
        _draw(drawn, "hbar", columns, f"consumer @y, {STARVED}", style)
        return drawn

    def subscription(self, of: SubscriptionTimeline) -> Any:
        """The backlog and what is not acknowledged."""
        drawn = self._figure(HEIGHT, [n for _, n in (*of.backlog, *of.unacked)])
        _steps(drawn, "backlog", of.backlog, BLUE, "solid")  # below what has gaps
        _steps(drawn, "unacknowledged", of.unacked, ORANGE, "dashed")
        return drawn

    def _beside(self, of: ConsumerTimeline) -> Iterable[ConsumerTimeline]:
        """The consumers of its subscription, all on one scale, so that they can be compared."""
        key = of.topic, of.subscription
        return (each for each in self._consumers if (each.topic, each.subscription) == key)

    def _figure(self, height: int, values: Iterable[int | None], toolbar: Any = "above") -> Any:
        known = [0, *(value for value in values if value is not None)]
        room = max(1, max(known) - min(known)) * 0.05
        y_range = Range1d(start=min(known) - room, end=max(known) + room)
        drawn: Any = self._new(height=height, y_range=y_range, toolbar_location=toolbar)
        drawn.yaxis.ticker = BasicTicker(min_interval=1, desired_num_ticks=height // 40)
        drawn.yaxis.formatter = NumeralTickFormatter(format="0,0")
        drawn.xgrid.visible = False
        drawn.toolbar.logo = None
        drawn.select_one(WheelZoomTool).modifiers = "ctrl"  # without it the page scrolls
        drawn.hspan(0, line_color=GREY)
        return drawn


def _draw(drawn: Any, glyph: str, columns: Columns, text: str, style: Style) -> None:
    """A glyph of Bokeh's for each row of the columns. text: shown where one points at it."""
    if not any(columns.values()):
        return
    # As bytes, which are shorter than text.
    numbers = {name: numpy.asarray(each, dtype="float64") for name, each in columns.items()}
    renderer = getattr(drawn, glyph)(source=ColumnDataSource(numbers), **style)
    hover = HoverTool(renderers=[renderer], tooltips=text, point_policy="snap_to_data")
    hover.mode = "vline" if glyph == "step" else "mouse"
    hover.formatters, hover.visible = {"@left": "datetime"}, False
    drawn.add_tools(hover)


def _steps(drawn: Any, name: str, points: Sequence[Point], color: str, dash: str) -> None:
    columns: Columns = {"left": [us / 1000 for us, _ in points], "y": [n for _, n in points]}
    style = {"x": "left", "mode": "after", "line_width": 2, "line_color": color, "line_dash": dash}
    _draw(drawn, "step", columns, f"{name} @y{{0,0}}, @left{MOMENT}", style)


def _bars(drawn: Any, what: str, bars: Sequence[tuple[Moved, int]], style: Style) -> None:
    counts = [count for _, count in bars]
    columns = _spans(each for each, _ in bars) | {"top": counts, "messages": [*map(abs, counts)]}
    text = f"@messages{{0,0}} messages {what}, {FROM}"
    _draw(drawn, "quad", columns, text, {**style, "bottom": 0, "fill_alpha": 0.6})


def _spans(those: Iterable[Moved | Starved]) -> Columns:
    times = [(each.since_us / 1000, each.until_us / 1000) for each in those]
    return {"left": [since for since, _ in times], "right": [until for _, until in times]}


def _starved(those: Sequence[Starved]) -> Columns:
    """With the columns that STARVED names."""
    return _spans(those) | {
        "times": [each.times for each in those],
        "total": [each.total_us / 1e6 for each in those],
        "longest": [each.longest_us / 1e6 for each in those],
    }
