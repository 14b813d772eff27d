"""Draws timelines with Bokeh: that package brings its own JavaScript."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pulsar_doctor.checkup.timelines.thinned import Moved, Point, Starved
from pulsar_doctor.checkup.timelines.timeline import (
    ConsumerTimeline,
    SubscriptionTimeline,
    Timelines,
)
from pulsar_doctor.errors import needing
from pulsar_doctor.wording.durations import duration

BLUE, ORANGE, GREY = "#3b82c4", "#c2620e", "#808488"  # readable on white and on black
MOMENT = "{%F %H:%M:%S.%3N} UTC"
STARVED = "without permits: @times, @total{0,0.000} s in all, longest @longest{0,0.000} s"
HEIGHT, LOW = 220, 130  # pixels
FOR_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
MODEL = re.compile(r'(?<="id":")p\d+(?=")')  # a document of Bokeh has no text from outside

ReadColumn = Callable[[Any], float | None]


@dataclass(frozen=True, slots=True)
class ChartDrawing:
    """What a browser draws. library: JavaScript. document: JSON of Bokeh, and of each chart its id.

    A place is `starved`, `consumer-1`, `moved-1` or `subscription-1`: a method of `_Figures`.
    """

    library: str
    document: str


def drawing(timelines: Timelines, parts: Mapping[str, Any]) -> ChartDrawing:
    """All charts, which zoom together. parts: by their places. Raises MissingExtra."""
    with needing("report", "an incident page"):
        from bokeh.document import Document
        from bokeh.models import Range1d
        from bokeh.resources import Resources
    begin, end = _span(timelines)
    figures = _Figures(Range1d(start=begin, end=end, bounds=(begin, end)))
    kinds = {place: place.partition("-")[0] for place in parts}
    roots = {place: getattr(figures, kinds[place])(part) for place, part in parts.items()}
    document = Document()
    for root in roots.values():
        document.add_root(root)
    library = Resources(mode="inline", components=["bokeh"]).js_raw[0]
    places = [{"id": root.id, "place": place} for place, root in roots.items()]
    return ChartDrawing(
        library, _renamed(for_html({"document": document.to_json(deferred=False), "roots": places}))
    )


def for_html(document: Mapping[str, Any]) -> str:
    """JSON that may stand in an HTML file: nothing in it can end its element."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).translate(FOR_HTML)


def _renamed(document: str) -> str:
    """Models have names of their own, the same in every process."""
    names: dict[str, str] = {}
    return MODEL.sub(lambda match: names.setdefault(match[0], f"m{len(names)}"), document)


def _span(timelines: Timelines) -> tuple[float, float]:
    """From the first to the last moment of all, in milliseconds."""
    moments = [us for each in timelines.consumers for us in (each.since_us, each.until_us)]
    for each in timelines.subscriptions:
        moments += [us for us, _ in (*each.backlog, *each.unacked)]
    first, last = min(moments, default=0), max(moments, default=0)
    return first / 1000, max(last / 1000, first / 1000 + 1)


class _Figures:
    """Makes figures that share one axis of time."""

    def __init__(self, span: Any) -> None:
        from bokeh.plotting import figure

        self._new = partial(
            figure,
            x_range=span,
            x_axis_type="datetime",
            sizing_mode="stretch_width",
            tools="",
            background_fill_color=None,
            border_fill_color=None,
            outline_line_color=GREY,
            min_border_left=60,
            output_backend="canvas",
        )

    def consumer(self, of: ConsumerTimeline) -> Any:
        """Permits and messages held as steps, times without permits hatched."""
        values = [value for line in (of.permits, of.held, of.unsent) for _, value in line]
        drawn = self._figure(HEIGHT, values, "above")
        drawn.xaxis.visible = not of.moved  # otherwise it is that of the chart below
        self._starved(drawn, of)
        self._steps(drawn, "messages held", of.held, color=ORANGE, dash="dashed")
        self._steps(drawn, "unsent permits", of.unsent, color=GREY, dash="dotted")
        self._steps(drawn, "available permits", of.permits, color=BLUE, dash="solid")
        return drawn

    def moved(self, of: ConsumerTimeline) -> Any:
        """Deliveries upwards, acknowledgements downwards, FLOWs as triangles."""
        values = [n for each in of.moved for n in (each.delivered, -each.acknowledged)]
        drawn = self._figure(LOW, values, None)
        self._bars(drawn, "delivered", of.moved, lambda each: each.delivered)
        self._bars(drawn, "acknowledged", of.moved, lambda each: -each.acknowledged)
        flows = [each for each in of.moved if each.flows]
        source = _source(
            flows, x=_since, y=lambda _: 0, flows=lambda e: e.flows, permits=lambda e: e.permits
        )
        marks = drawn.scatter(
            "x", "y", source=source, marker="triangle", size=6, color=GREY, line_color=GREY
        )
        self._hover(drawn, marks, f"@flows FLOW, @permits permits, @x{MOMENT}", mode="mouse")
        return drawn

    def starved(self, those: Sequence[ConsumerTimeline]) -> Any:
        """The times without permits of all, a row for each, in the order of the table."""
        from bokeh.models import FixedTicker, Range1d

        drawn = self._figure(90 + 12 * len(those), [], "above")
        drawn.y_range = Range1d(start=len(those) + 0.5, end=0.5)
        step = -(-len(those) // 20)
        drawn.yaxis.ticker = FixedTicker(ticks=list(range(1, len(those) + 1, step)))
        drawn.yaxis.axis_label = "consumer"
        rows = [(at, each) for at, of in enumerate(those, start=1) for each in of.starved]
        source = _source([each for _, each in rows], left=_since, right=_until, **LENGTHS)
        source.add([float(at) for at, _ in rows], "y")
        bars = drawn.hbar(
            "y", 0.7, "right", "left", source=source, fill_color=ORANGE, line_color=ORANGE,
            hatch_pattern="/", hatch_color=ORANGE, fill_alpha=0.4,
        )  # fmt: skip
        self._hover(drawn, bars, f"consumer @y, {STARVED}, from @left{MOMENT}", mode="mouse")
        return drawn

    def subscription(self, of: SubscriptionTimeline) -> Any:
        """The backlog and what is not acknowledged."""
        drawn = self._figure(HEIGHT, [n for _, n in (*of.backlog, *of.unacked)], "above")
        self._steps(drawn, "unacknowledged", of.unacked, color=ORANGE, dash="dashed")
        self._steps(drawn, "backlog", of.backlog, color=BLUE, dash="solid")
        return drawn

    def _figure(self, height: int, values: Sequence[int | None], toolbar: Any) -> Any:
        from bokeh.models import (
            BasicTicker,
            BoxZoomTool,
            NumeralTickFormatter,
            PanTool,
            Range1d,
            ResetTool,
            WheelZoomTool,
        )
        from bokeh.models.annotations import Span

        known = [0, *(value for value in values if value is not None)]
        room = max(1, max(known) - min(known)) * 0.05
        drawn = self._new(
            height=height,
            y_axis_label="messages",
            y_range=Range1d(start=min(known) - room, end=max(known) + room),
            toolbar_location=toolbar,
        )
        drawn.yaxis.ticker = BasicTicker(min_interval=1, desired_num_ticks=height // 40)
        drawn.toolbar.logo = None
        wheel = WheelZoomTool(dimensions="width", modifiers="ctrl")  # without it the page scrolls
        drawn.add_tools(PanTool(dimensions="width"), wheel, BoxZoomTool(dimensions="width"))
        drawn.add_tools(ResetTool())
        drawn.toolbar.active_scroll, drawn.toolbar.active_drag = wheel, None
        drawn.yaxis.formatter = NumeralTickFormatter(format="0,0")
        drawn.xgrid.visible = False
        drawn.add_layout(Span(location=0, dimension="width", line_color=GREY, line_width=1))
        return drawn

    def _steps(
        self, drawn: Any, name: str, points: Sequence[Point], *, color: str, dash: str
    ) -> None:
        if not points:
            return
        source = _source(points, x=lambda point: point[0] / 1000, y=lambda point: point[1])
        line = drawn.step(
            "x", "y", source=source, mode="after", line_width=2, line_color=color, line_dash=dash
        )
        self._hover(drawn, line, f"{name} @y{{0,0}}, @x{MOMENT}", mode="vline")

    def _starved(self, drawn: Any, of: ConsumerTimeline) -> None:
        if not of.starved:
            return
        strips = drawn.vstrip(
            "x0", "x1", source=_source(of.starved, x0=_since, x1=_until, **LENGTHS),
            fill_color=ORANGE, fill_alpha=0.12, line_color=ORANGE, line_width=1,
            hatch_pattern="/", hatch_color=ORANGE, hatch_alpha=0.5,
        )  # fmt: skip
        self._hover(drawn, strips, f"{STARVED}, from @x0{MOMENT}", mode="mouse")

    def _bars(
        self, drawn: Any, what: str, moved: Iterable[Moved], count: Callable[[Moved], int]
    ) -> None:
        slots = [each for each in moved if count(each)]
        if not slots:
            return
        source = _source(
            slots, left=_since, right=_until, top=count, messages=lambda each: abs(count(each))
        )
        color, hatch = (BLUE, " ") if count(slots[0]) > 0 else (ORANGE, "/")
        bars = drawn.quad(
            "left", "right", "top", 0, source=source, fill_color=color, line_color=color,
            fill_alpha=0.6, hatch_pattern=hatch, hatch_color=color,
        )  # fmt: skip
        text = f"@messages{{0,0}} messages {what}, from @left{MOMENT}"
        self._hover(drawn, bars, text, mode="mouse")

    def _hover(self, drawn: Any, renderer: Any, text: str, *, mode: Any) -> None:
        from bokeh.models import HoverTool

        moment: Any = {f"@{name}": "datetime" for name in ("x", "x0", "left")}
        hover = HoverTool(renderers=[renderer], tooltips=text, formatters=moment, mode=mode)
        hover.visible, hover.point_policy = False, "snap_to_data"
        drawn.add_tools(hover)


def _since(each: Any) -> float:
    return float(each.since_us / 1000)


def _until(each: Any) -> float:
    return float(each.until_us / 1000)


LENGTHS: dict[str, ReadColumn] = {  # the columns that STARVED names
    "times": lambda each: each.times,
    "total": lambda each: each.total_us / 1e6,
    "longest": lambda each: each.longest_us / 1e6,
}


def _source(rows: Sequence[Any], **columns: ReadColumn) -> Any:
    """The columns of a chart, as bytes, which are shorter than text. None: not drawn."""
    import numpy
    from bokeh.models import ColumnDataSource

    numbers = {name: list(map(read, rows)) for name, read in columns.items()}
    return ColumnDataSource(
        {k: numpy.asarray(each, dtype="float64") for k, each in numbers.items()}
    )


def without_permits(starved: Starved) -> str:
    """`3 times, 12 s in all, longest 8 s`."""
    if not starved.times:
        return "never"
    in_all, longest = duration(starved.total_us / 1e6), duration(starved.longest_us / 1e6)
    return (
        f"{starved.times} times, {in_all} in all, longest {longest}"
        if starved.times > 1
        else in_all
    )
