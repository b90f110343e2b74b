"""Draw what an index lacks over time, as an SVG picture: one line a round."""

from collections.abc import Iterator, Sequence

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 280, 56, 16, 16, 44
WIDE, HIGH = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
COLOURS = ("#1b6ca8", "#c8553d", "#588157", "#8e6c8a", "#b08900")
HEAD = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
STYLE = "<style>text{font:12px sans-serif;fill:#444;text-anchor:middle}</style>"

Sample = tuple[float, int]
"""Seconds since a build began, and the time chunks that are lacking then."""


def drawn(rounds: Sequence[Sequence[Sample]]) -> str:
    """Return the picture of some rounds; each has its samples in order of time."""
    longest = max(seconds for samples in rounds for seconds, _ in samples) or 1.0
    most = max(chunks for samples in rounds for _, chunks in samples) or 1
    parts = [
        HEAD,
        STYLE,
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *_scales(longest, most),
    ]
    for number, samples in enumerate(rounds):
        places = (_place(seconds / longest, chunks / most) for seconds, chunks in samples)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    return "\n".join([*parts, "</svg>", ""])


def _place(across: float, up: float) -> tuple[float, float]:
    """Return a place on the picture, from shares of the two scales."""
    return LEFT + WIDE * across, TOP + HIGH * (1 - up)


def _scales(longest: float, most: int) -> Iterator[str]:
    for quarter in (0, 0.25, 0.5, 0.75, 1):
        x, y = _place(quarter, quarter)
        yield f'<path d="M{LEFT} {y:.1f}h{WIDE}" stroke="#ddd"/>'
        yield _text(LEFT - 22, y + 4, f"{most * quarter:g}")
        yield _text(x, TOP + HIGH + 18, f"{longest * quarter:.0f}")
    yield _text(LEFT + WIDE / 2, HEIGHT - 8, "seconds since the build began")
    yield f'<g transform="rotate(-90)">{_text(-TOP - HIGH / 2, 14, "time chunks lacking")}</g>'


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{text}</text>'
