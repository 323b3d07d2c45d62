"""The timeline of one block: who computes, who waits for what, what is in flight. As SVG text.

The log (log.py) gives events in an order that respects causes; a cost model gives them times: an
instruction takes a cycle, a copy its latency and its bytes at the SM's share of the L2 cache's
bandwidth, a matrix instruction its flop at the tensor core's rate. It is a picture of order and
overlap, not a measurement.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from html import escape

from checkers.simulator.reports.gpus import GPU
from checkers.simulator.reports.log import Event, Log

# Latencies in cycles, of the order that microbenchmarks of these GPUs find.
COPY_LATENCY = 700
STORE_LATENCY = 500
TENSOR_LATENCY = 60
SIGNAL_LATENCY = 10

FLOPS_FALLBACK = "bf16"  # an operation's flop are drawn at this type's rate


@dataclass(frozen=True)
class Span:
    """Something that lasts. what: "compute", "wait", "stuck", "copy", "store" or "tensor"; times
    in cycles; label: shown on it or in its tooltip; line: of the source, 0 unknown."""

    what: str
    start: float
    end: float
    label: str = ""
    line: int = 0


@dataclass
class Lane:
    """A row of the picture: a warp, or an engine's slot. Spans of a lane don't overlap."""

    name: str
    spans: list[Span] = field(default_factory=list)

    def share(self, what: str, total: float) -> float:
        """The part of ``total`` cycles that spans of a kind take."""
        busy = sum(span.end - span.start for span in self.spans if span.what == what)
        return busy / total if total else 0.0


@dataclass
class Timeline:
    """The laid-out picture. cycles: its length.  cut: the log was longer than what is kept."""

    lanes: list[Lane]
    cycles: float
    cut: bool = False


def lay_out(log: Log, gpu: GPU) -> Timeline:
    """Works out when everything happened.

    Warps that did the same at the same times share a lane: "warps 0-3". Operations in flight at
    the same time take several rows of their engine.
    """
    return _Layout(log, gpu).timeline()


class _Layout:
    def __init__(self, log: Log, gpu: GPU) -> None:
        self.log = log
        per_clock = 1 / (gpu.sms * gpu.clock_hz)
        self.rate = {
            "copy": gpu.l2_bytes_per_clock / gpu.sms,
            "store": gpu.l2_bytes_per_clock / gpu.sms,
            "tensor": gpu.tensor_flops[FLOPS_FALLBACK] * per_clock,
        }
        self.latency = {"copy": COPY_LATENCY, "store": STORE_LATENCY, "tensor": TENSOR_LATENCY}
        self.now: dict[int, float] = {}  # of each warp
        self.signalled: dict[Hashable, float] = {}
        self.engine_free: dict[tuple[int, str], float] = {}
        self.in_flight: dict[Hashable, tuple[Event, float, float]] = {}
        self.warps: dict[int, list[Span]] = {}
        self.engines: dict[str, list[Span]] = {"copy": [], "store": [], "tensor": []}

    def timeline(self) -> Timeline:
        for event in self.log.events:
            getattr(self, f"_{event.what}")(event)
        for event, start, end in self.in_flight.values():
            self._fly(event, start, end)
        ends = [
            span.end for spans in (*self.warps.values(), *self.engines.values()) for span in spans
        ]
        total = max(ends, default=0.0)
        lanes = self._warp_lanes()
        for engine, spans in self.engines.items():
            lanes += _rows(_ENGINE_NAMES[engine], spans)
        return Timeline(lanes, total, self.log.cut)

    # --- events ----------------------------------------------------------------------------------

    def _issue(self, event: Event) -> None:
        for warp in event.warps:
            start = self.now.get(warp, 0.0)
            self.now[warp] = start + event.amount
            self._span(warp, Span("compute", start, start + event.amount))

    def _signal(self, event: Event) -> None:
        at = max(self.now.get(warp, 0.0) for warp in event.warps) + SIGNAL_LATENCY
        for key in event.keys:
            self.signalled[key] = max(self.signalled.get(key, 0.0), at)

    def _start(self, event: Event) -> None:
        """An engine takes one operation after another; their latencies overlap."""
        warp = event.warps[0]
        slot = (warp // self.log.warps_per_block, event.engine)
        issued = self.now.get(warp, 0.0)
        begun = max(issued, self.engine_free.get(slot, 0.0))
        moved = begun + event.amount / self.rate[event.engine]
        self.engine_free[slot] = moved
        start = begun if event.engine == "tensor" else issued
        self.in_flight[event.keys[0]] = (event, start, moved + self.latency[event.engine])

    def _finish(self, event: Event) -> None:
        op, *keys = event.keys
        if op not in self.in_flight:
            return
        started, start, end = self.in_flight.pop(op)
        self._fly(started, start, end)
        for key in (op, *keys):
            self.signalled[key] = max(self.signalled.get(key, 0.0), end)

    def _waited(self, event: Event) -> None:
        until = max((self.signalled.get(key, 0.0) for key in event.keys), default=0.0)
        for warp in event.warps:
            start = self.now.get(warp, 0.0)
            if until > start:
                self.now[warp] = until
                self._span(warp, Span("wait", start, until, event.name, event.line))

    def _stuck(self, event: Event) -> None:
        """Drawn to a tenth past everything that happened so far."""
        ends = [*self.now.values(), 1.0]
        for warp in event.warps:
            start = self.now.get(warp, 0.0)
            self._span(warp, Span("stuck", start, 1.1 * max(ends), event.name, event.line))

    # --- lanes -----------------------------------------------------------------------------------

    def _mine(self, warp: int) -> bool:
        return warp // self.log.warps_per_block == self.log.block

    def _span(self, warp: int, span: Span) -> None:
        if not self._mine(warp):
            return
        spans = self.warps.setdefault(warp % self.log.warps_per_block, [])
        last = spans[-1] if spans else None
        if last and last.what == span.what == "compute" and last.end == span.start:
            spans[-1] = Span("compute", last.start, span.end)
        elif span.end > span.start:
            spans.append(span)

    def _fly(self, event: Event, start: float, end: float) -> None:
        if self._mine(event.warps[0]):
            span = Span(event.engine, start, end, event.name, event.line)
            self.engines[event.engine].append(span)

    def _warp_lanes(self) -> list[Lane]:
        lanes: list[Lane] = []
        first = last = -1
        for warp, spans in sorted(self.warps.items()):
            if lanes and warp == last + 1 and lanes[-1].spans == spans:
                last = warp
                lanes[-1].name = f"warps {first}-{last}"
            else:
                first = last = warp
                lanes.append(Lane(f"warp {warp}", spans))
        return lanes


_ENGINE_NAMES = {"copy": "copies in", "store": "copies out", "tensor": "tensor cores"}


def _rows(name: str, spans: list[Span]) -> list[Lane]:
    """Spans laid into as few rows as hold them without overlap."""
    lanes: list[Lane] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        for lane in lanes:
            if lane.spans[-1].end <= span.start:
                lane.spans.append(span)
                break
        else:
            lanes.append(Lane(name if not lanes else "", [span]))
    return lanes


# --- the picture -------------------------------------------------------------------------------

FILLS = {
    "compute": "#7eaae4",
    "wait": "#eceff2",
    "stuck": "#f3c1c9",
    "copy": "#fbd5a5",
    "store": "#f2ec9f",
    "tensor": "#bfe5c4",
}
WORDS = {
    "compute": "instructions",
    "wait": "waiting",
    "stuck": "waiting for ever",
    "copy": "copy into shared memory",
    "store": "copy out of it",
    "tensor": "tensor cores",
}
INK, FAINT, EDGE = "#1c2733", "#6b7785", "#8b97a5"
LEFT, WIDTH, ROW, TOP, RIGHT = 110, 850, 22, 66, 20
SPANS_DRAWN = 20_000


def draw(timeline: Timeline, title: str) -> str:
    """The picture as SVG, with a tooltip on every span. At most 20,000 spans are drawn."""
    height = TOP + ROW * len(timeline.lanes) + 56
    scale = WIDTH / timeline.cycles if timeline.cycles else 0.0
    parts = [_text(LEFT, 22, title, 15, anchor="start")]
    parts += _legend(timeline)
    drawn = 0
    for row, lane in enumerate(timeline.lanes):
        y = TOP + row * ROW
        if lane.name:
            parts.append(_text(LEFT - 8, y + ROW / 2, lane.name, 12, anchor="end"))
        for span in lane.spans:
            drawn += 1
            if drawn <= SPANS_DRAWN:
                parts.append(_bar(span, y, scale))
    bottom = TOP + ROW * len(timeline.lanes)
    parts += _axis(timeline.cycles, bottom, scale)
    note = "A picture of order and overlap from a simple cost model, not a measurement."
    if timeline.cut or drawn > SPANS_DRAWN:
        note += " The beginning only: the run was longer."
    parts.append(_text(LEFT, height - 12, note, 11, FAINT, "start"))
    width = LEFT + WIDTH + RIGHT
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height:g}' "
        f"viewBox='0 0 {width} {height:g}' font-family='DejaVu Sans, Verdana, sans-serif'>\n"
        f"<rect width='{width}' height='{height:g}' rx='6' fill='#ffffff'/>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _bar(span: Span, y: float, scale: float) -> str:
    x, width = LEFT + span.start * scale, max((span.end - span.start) * scale, 0.4)
    words = span.label or WORDS[span.what]
    where = f", line {span.line}" if span.line else ""
    tip = f"{words}{where}: cycles {span.start:.0f} to {span.end:.0f}"
    edge = f" stroke='{EDGE}' stroke-width='0.5'" if width > 2 else ""
    bar = (
        f"<rect class='{span.what}' x='{x:.2f}' y='{y + 3:g}' width='{width:.2f}' "
        f"height='{ROW - 6}' fill='{FILLS[span.what]}'{edge}><title>{escape(tip)}</title></rect>"
    )
    if span.label and width > 6.5 * len(span.label):
        bar += _text(x + width / 2, y + ROW / 2, span.label, 10)
    return bar


def _legend(timeline: Timeline) -> list[str]:
    kinds = {span.what for lane in timeline.lanes for span in lane.spans}
    parts, x = [], float(LEFT)
    for kind, words in WORDS.items():
        if kind in kinds:
            parts.append(
                f"<rect x='{x:g}' y='38' width='12' height='12' fill='{FILLS[kind]}' "
                f"stroke='{EDGE}' stroke-width='0.5'/>"
            )
            parts.append(_text(x + 17, 44, words, 11, anchor="start"))
            x += 17 + 6.8 * len(words) + 20
    return parts


def _axis(cycles: float, y: float, scale: float) -> list[str]:
    end = LEFT + cycles * scale
    parts = [f"<path d='M{LEFT} {y + 4} H{end:.1f}' stroke='{INK}' stroke-width='1'/>"]
    step = _nice(cycles / 6) if cycles else 1.0
    for index in range(int(cycles / step) + 1 if cycles else 0):
        x = LEFT + index * step * scale
        parts.append(f"<path d='M{x:.1f} {y + 4} v5' stroke='{INK}' stroke-width='1'/>")
        label = f"{index * step:g}" + (" cycles" if index == 0 else "")
        parts.append(_text(x, y + 18, label, 10, FAINT, "start" if index == 0 else "middle"))
    return parts


def _nice(number: float) -> float:
    """The largest of 1, 2, 5, 10, 20, 50... that is not above ``number``."""
    power = 1.0
    while power * 10 <= number:
        power *= 10
    return max(factor * power for factor in (1, 2, 5) if factor * power <= max(number, power))


def _text(
    x: float, y: float, words: str, size: int, color: str = INK, anchor: str = "middle"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y + 0.35 * size:.1f}' font-size='{size}' fill='{color}' "
        f"text-anchor='{anchor}'>{escape(words)}</text>"
    )
