"""The little world: what there is to see, how it is said, and how it is drawn.

One thing in one colour does one movement in one scene: 8 things x 8 colours x
6 scenes x 6 motions = 2304 combinations, 200 of which (held_out.json) are kept
out of training and used by check.py alone.

Everything is drawn from signed distances, evaluated for all pixels of all
frames of a batch at once, so a GPU draws clips far faster than a model learns
from them, and any window of a clip can be drawn without the rest.

    python world.py sheet OUT.png [--seed N]         a look at the world
    python world.py clips OUT --count N [--held-out] clips and expectations for check.py
    python world.py stills OUT --count N             first frames of held-out clips, for image to video
"""

from __future__ import annotations

import argparse
import json
import math
import random
from dataclasses import dataclass, fields
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

HERE = Path(__file__).resolve().parent
SIZE, FRAMES = 256, 17

# ---------------------------------------------------------------------------
# The words. The first of each list is the plain name that check.py uses too.
# ---------------------------------------------------------------------------

THINGS = {
    "balloon": ["balloon", "hot-air balloon", "hot air balloon"],
    "boat": ["boat", "sailing boat", "sailboat", "ship"],
    "fish": ["fish"],
    "bird": ["bird", "songbird"],
    "car": ["car", "toy car", "motor car"],
    "rabbit": ["rabbit", "bunny", "hare"],
    "kite": ["kite", "paper kite"],
    "butterfly": ["butterfly"],
}
COLOURS = {
    "red": (["red", "crimson", "scarlet"], (0.89, 0.15, 0.17)),
    "orange": (["orange", "tangerine"], (0.98, 0.53, 0.08)),
    "yellow": (["yellow", "golden", "lemon"], (0.99, 0.86, 0.10)),
    "green": (["green", "emerald"], (0.12, 0.70, 0.24)),
    "turquoise": (["turquoise", "teal", "cyan", "aqua"], (0.06, 0.77, 0.75)),
    "blue": (["blue", "cobalt"], (0.12, 0.32, 0.90)),
    "purple": (["purple", "violet"], (0.54, 0.18, 0.80)),
    "pink": (["pink", "rose"], (0.98, 0.38, 0.68)),
}
# Scenes are named by place and hour, never by a colour, so a colour word always belongs to the thing.
SCENES = {
    "meadow": ["in a meadow", "over the hills", "on a sunny day", "on a summer day", "in the countryside"],
    "sunset": ["at sunset", "in the evening", "at dusk", "in the evening sun", "by the sea at sunset"],
    "night": ["at night", "under the stars", "in the moonlight", "by moonlight", "on a starry night"],
    "snow": ["in the snow", "in winter", "on a snowy day", "in a snowy forest", "on a winter morning"],
    "sea": ["under the sea", "under water", "underwater", "at the bottom of the sea", "in the deep sea"],
    "desert": ["in the desert", "among the dunes", "over the sand", "in the hot desert", "over the dunes"],
}
MOTIONS = {
    "left": (
        ["drifts to the left", "moves left", "goes left", "travels to the left", "glides left", "heads to the left"],
        ["drifting to the left", "moving left", "going left", "travelling to the left", "flying left"],
    ),
    "right": (
        ["drifts to the right", "moves right", "goes right", "travels to the right", "glides right"],
        ["drifting to the right", "moving right", "going right", "travelling to the right", "flying right"],
    ),
    "up": (
        ["rises", "goes up", "climbs", "floats up", "moves upwards", "flies up"],
        ["rising", "going up", "climbing", "floating upwards", "flying up"],
    ),
    "down": (
        ["sinks", "goes down", "comes down", "descends", "moves downwards", "falls gently"],
        ["sinking", "going down", "coming down", "descending", "falling gently"],
    ),
    "closer": (
        ["comes closer", "approaches", "comes near", "comes towards us", "gets closer"],
        ["coming closer", "approaching", "coming towards us", "getting closer"],
    ),
    "hop": (
        ["hops", "bounces", "jumps up and down", "hops on the spot", "bobs up and down"],
        ["hopping", "bouncing", "jumping up and down", "hopping on the spot", "bobbing up and down"],
    ),
}
SIZES = {"small": ["small", "little", "tiny"], "normal": [""], "big": ["big", "large", "huge"]}
MOODS = ["", "", "", "cheerful ", "lovely ", "beautiful ", "shiny ", "funny ", "happy ", "old ", "lonely "]
FRAMING = ["", "", "", "", "a film of ", "a video of ", "a picture of ", "an illustration of "]
ENDINGS = ["", "", "", "", ".", "!", ", soft light", ", paper cut style", ", highly detailed", ", 4k", ", slowly", ", dreamy"]
TEMPLATES = [
    "{f}a {z}{m}{c} {t} {v} {s}",
    "{f}a {z}{m}{c} {t} {v} {s}",
    "{f}a {z}{m}{c} {t} {g} {s}",
    "{f}a {z}{m}{c} {t} that {v} {s}",
    "{s}, a {z}{m}{c} {t} {v}",
    "{s} a {z}{m}{c} {t} {v}",
    "{s}, {z}{m}{c} {t}, {g}",
    "{z}{c} {t} {g} {s}",
    "{z}{m}{c} {t}, {s}, {g}",
    "{c} {t}, {g}, {s}",
    "{g} {s}, a {z}{m}{c} {t}",
    "the {z}{m}{t} is {c} and {v} {s}",
    "the {z}{m}{c} {t} {v} {s}",
    "a {z}{m}{t} {v} {s}; it is {c}",
    "a {z}{m}{t} {v}. It is {c}. {s}",
    "{f}a {z}{m}{c} {t} {s}, {g}",
    "{t}, {c}, {g}, {s}",
    "one {z}{m}{c} {t} {s}; it {v}",
    "look, a {z}{m}{c} {t}! It {v} {s}",
]
NOISE = "once upon time and very with some really film wonderful near of gentle warm magic story dream long ago".split()

THING, COLOUR, SCENE, MOTION, SIZED = (list(d) for d in (THINGS, COLOURS, SCENES, MOTIONS, SIZES))


def held_out() -> set[tuple[str, str, str, str]]:
    return {tuple(c) for c in json.loads((HERE / "held_out.json").read_text())["combinations"]}


def combinations(training: bool = True) -> list[tuple[int, int, int, int]]:
    """All combinations as indices, without (or only) the held-out ones."""
    away = held_out()
    return [
        (t, c, s, m)
        for t, tn in enumerate(THING)
        for c, cn in enumerate(COLOUR)
        for s, sn in enumerate(SCENE)
        for m, mn in enumerate(MOTION)
        if ((tn, cn, sn, mn) in away) != training
    ]


def caption(rng: random.Random, thing: int, colour: int, scene: int, motion: int, size: int) -> str:
    """One way to say it. Now and then something stays unsaid, so that short prompts work as well."""
    p = rng.choice
    words = dict(
        t=p(THINGS[THING[thing]]),
        c=p(COLOURS[COLOUR[colour]][0][: 1 if rng.random() < 0.5 else None]),
        s=p(SCENES[SCENE[scene]]),
        v=p(MOTIONS[MOTION[motion]][0]),
        g=p(MOTIONS[MOTION[motion]][1]),
        z=p(SIZES[SIZED[size]]),
        m=p(MOODS),
        f=p(FRAMING),
    )
    words["z"] += " " if words["z"] else ""
    for key, chance in (("c", 0.03), ("s", 0.04), ("z", 0.3)):
        if rng.random() < chance:
            words[key] = ""
    if rng.random() < 0.06:
        words["v"], words["g"] = "", ""
    text = p(TEMPLATES).format(**words) + p(ENDINGS)
    if rng.random() < 0.08:  # words that mean nothing here must not disturb
        at, parts = rng.random(), text.split(" ")
        parts.insert(int(at * len(parts)), " ".join(rng.sample(NOISE, 3)))
        text = " ".join(parts)
    text = " ".join(text.split()).replace(" ,", ",").replace(",,", ",").replace(" .", ".").replace(" ;", ";").strip(" ,;")
    return text[:1].upper() + text[1:] if rng.random() < 0.5 else text


# ---------------------------------------------------------------------------
# A batch of clips as numbers
# ---------------------------------------------------------------------------


@dataclass
class Clips:
    """What to draw: indices into the lists above, and random numbers that fix every detail."""

    thing: Tensor
    colour: Tensor
    scene: Tensor
    motion: Tensor
    size: Tensor
    luck: Tensor  # [n, 64] uniform: positions, speeds, hills, clouds, stars

    def __len__(self) -> int:
        return len(self.thing)

    def part(self, index: Tensor) -> Clips:
        return Clips(*(getattr(self, f.name)[index] for f in fields(self)))


def choose(count: int, generator: torch.Generator, device, allowed: Tensor | None = None) -> Clips:
    """Random clips out of `allowed` combinations (default: all that training may see)."""
    if allowed is None:
        allowed = torch.tensor(combinations(), device=device)
    pick = torch.randint(len(allowed), (count,), generator=generator, device=device)
    t, c, s, m = allowed[pick].unbind(1)
    size = torch.tensor([1, 1, 1, 0, 2], device=device)[
        torch.randint(5, (count,), generator=generator, device=device)
    ]
    return Clips(t, c, s, m, size, torch.rand(count, 64, generator=generator, device=device))


# ---------------------------------------------------------------------------
# Distances. `u`, `v` are coordinates [n, t, h, w]; below zero is inside.
# ---------------------------------------------------------------------------


def circle(u, v, x, y, r):
    return torch.hypot(u - x, v - y) - r


def ellipse(u, v, x, y, rx, ry):
    a, b = u - x, v - y
    k, slope = torch.hypot(a / rx, b / ry), torch.hypot(a / rx**2, b / ry**2)
    return torch.where(k < 0.5, (k - 1) * min(rx, ry), k * (k - 1) / slope.clamp(min=1e-6))


def box(u, v, x, y, hx, hy, r):
    a, b = (u - x).abs() - (hx - r), (v - y).abs() - (hy - r)
    return torch.hypot(a.clamp(min=0), b.clamp(min=0)) + torch.maximum(a, b).clamp(max=0) - r


def stick(u, v, x0, y0, x1, y1, r):
    dx, dy = x1 - x0, y1 - y0
    k = (((u - x0) * dx + (v - y0) * dy) / (dx * dx + dy * dy)).clamp(0, 1)
    return torch.hypot(u - x0 - k * dx, v - y0 - k * dy) - r


def polygon(u, v, *points):
    """Convex, either way round. The distance is exact outside too, so rims and shadows round the corners."""
    inside = edge = None
    turn = sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1]))
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1]):
        n = math.copysign(math.hypot(x1 - x0, y1 - y0), turn)
        side = ((u - x0) * (y1 - y0) - (v - y0) * (x1 - x0)) / n
        near = stick(u, v, x0, y0, x1, y1, 0.0)
        inside = side if inside is None else torch.maximum(inside, side)
        edge = near if edge is None else torch.minimum(edge, near)
    return torch.where(inside < 0, inside, edge)


def union(*distances):
    d = distances[0]
    for other in distances[1:]:
        d = torch.minimum(d, other)
    return d


# ---------------------------------------------------------------------------
# The things. Each gets local coordinates (about -1..1, looking right, v down)
# and a phase [n, t, 1, 1] that goes round while the clip runs, and returns
# its parts back to front: (distance, colour). Colour "body" is the thing's own,
# "light" and "dark" are shades of it, a triple is itself.
# ---------------------------------------------------------------------------

WOOD, INK, CREAM, GLASS, BEAK = (0.50, 0.36, 0.26), (0.16, 0.14, 0.18), (0.99, 0.97, 0.91), (0.84, 0.92, 0.95), (0.93, 0.74, 0.42)


def balloon(u, v, phase):
    envelope = union(
        ellipse(u, v, 0.0, -0.28, 0.66, 0.68), polygon(u, v, (-0.52, 0.1), (0.52, 0.1), (0.15, 0.55), (-0.15, 0.55))
    )
    across = u / (1.02 - ((v + 0.28) / 0.9) ** 2).clamp(min=0.12).sqrt() / 0.66
    stripes = torch.maximum(envelope, 0.12 - ((across + 1) * 2.5 % 1 - 0.5).abs() * 0.5)
    ropes = union(stick(u, v, -0.14, 0.5, -0.12, 0.75, 0.02), stick(u, v, 0.14, 0.5, 0.12, 0.75, 0.02))
    return [(ropes, WOOD), (box(u, v, 0, 0.84, 0.17, 0.13, 0.05), WOOD), (envelope, "body"), (stripes, "light")]


def boat(u, v, phase):
    hull = polygon(u, v, (-0.9, 0.34), (0.9, 0.34), (0.58, 0.8), (-0.6, 0.8))
    sail = polygon(u, v, (0.07, -0.95), (0.8, 0.22), (0.07, 0.22))
    jib = polygon(u, v, (-0.08, -0.7), (-0.08, 0.22), (-0.6, 0.22))
    return [
        (stick(u, v, 0, -0.98, 0, 0.4, 0.045), WOOD),
        (jib, CREAM),
        (sail, "body"),
        (hull, "body"),
        (torch.maximum(hull, 0.6 - v), "dark"),
    ]


def fish(u, v, phase):
    v = v + 0.14 * torch.sin(phase * 2) * (-u - 0.1).clamp(min=0)
    body = ellipse(u, v, 0.12, 0, 0.72, 0.46)
    tail = union(
        polygon(u, v, (-0.5, 0.05), (-0.98, -0.45), (-0.8, 0.05)), polygon(u, v, (-0.8, -0.05), (-0.98, 0.45), (-0.5, -0.05))
    )
    top = polygon(u, v, (-0.25, -0.3), (0.0, -0.66), (0.35, -0.35))
    fin = polygon(u, v, (0.1, 0.06), (0.14, 0.3), (-0.2, 0.22))
    band = torch.maximum(body, (u - 0.2).abs() - 0.07)
    return [
        (union(tail, top), "dark"),
        (body, "body"),
        (band, "light"),
        (fin, "dark"),
        (circle(u, v, 0.5, -0.12, 0.13), CREAM),
        (circle(u, v, 0.53, -0.12, 0.07), INK),
    ]


def bird(u, v, phase):
    flap = torch.sin(phase * 2)
    body = union(ellipse(u, v, -0.02, 0.16, 0.56, 0.42), circle(u, v, 0.42, -0.2, 0.31))
    tail = polygon(u, v, (-0.9, -0.12), (-0.4, 0.0), (-0.4, 0.34))
    # the wing is an ellipse that tilts about its shoulder
    a = 0.35 + 0.55 * flap
    x, y = u - 0.12, v - 0.0
    wing = ellipse(x * torch.cos(a) + y * torch.sin(a), y * torch.cos(a) - x * torch.sin(a), -0.36, 0.0, 0.46, 0.2)
    return [
        (polygon(u, v, (0.66, -0.32), (0.98, -0.16), (0.66, -0.04)), BEAK),
        (tail, "dark"),
        (body, "body"),
        (torch.maximum(body, ellipse(u, v, 0.14, 0.36, 0.36, 0.24)), "light"),
        (wing, "dark"),
        (circle(u, v, 0.52, -0.26, 0.1), CREAM),
        (circle(u, v, 0.54, -0.26, 0.055), INK),
    ]


def car(u, v, phase):
    cabin = box(u, v, -0.08, -0.14, 0.54, 0.36, 0.24)
    body = union(cabin, box(u, v, 0, 0.24, 0.92, 0.28, 0.18))
    windows = union(box(u, v, -0.32, -0.14, 0.19, 0.18, 0.08), box(u, v, 0.14, -0.14, 0.19, 0.18, 0.08))
    wheels = union(circle(u, v, -0.5, 0.5, 0.23), circle(u, v, 0.5, 0.5, 0.23))
    hubs = union(circle(u, v, -0.5, 0.5, 0.1), circle(u, v, 0.5, 0.5, 0.1))
    return [
        (body, "body"),
        (torch.maximum(body, 0.34 - v), "dark"),
        (windows, GLASS),
        (circle(u, v, 0.82, 0.18, 0.09), CREAM),
        (wheels, INK),
        (hubs, CREAM),
    ]


def rabbit(u, v, phase):
    twitch = 0.05 * torch.sin(phase)
    far = ellipse(u + 0.1 * (v + 0.2) + twitch, v, 0.18, -0.62, 0.13, 0.38)
    near = ellipse(u - 0.15 * (v + 0.2) - twitch, v, 0.44, -0.6, 0.13, 0.38)
    inner = ellipse(u - 0.15 * (v + 0.2) - twitch, v, 0.44, -0.58, 0.06, 0.26)
    body = union(ellipse(u, v, -0.12, 0.36, 0.56, 0.46), circle(u, v, 0.34, -0.06, 0.34))
    paw = union(ellipse(u, v, 0.28, 0.76, 0.24, 0.1), ellipse(u, v, -0.3, 0.76, 0.28, 0.11))
    return [
        (circle(u, v, -0.68, 0.36, 0.18), CREAM),
        (far, "dark"),
        (near, "body"),
        (inner, "light"),
        (body, "body"),
        (paw, "dark"),
        (circle(u, v, 0.46, -0.12, 0.075), INK),
        (circle(u, v, 0.66, 0.0, 0.06), CREAM),
    ]


def kite(u, v, phase):
    corners = ((0, -0.95), (0.64, -0.2), (0, 0.6), (-0.64, -0.2))
    d = polygon(u, v, *corners)
    # opposite quarters of the diamond are lighter
    cross = torch.minimum(u.abs(), (v + 0.2).abs())
    quarter = torch.maximum(d, torch.where((u > 0) == (v > -0.2), -cross, cross))
    sway = 0.1 * torch.sin(6 * v - phase * 2) * (v - 0.55).clamp(min=0) * 2.5
    x = u - sway
    cord = stick(x, v, 0, 0.58, 0, 1.08, 0.025)
    bows = union(ellipse(x, v, 0, 0.78, 0.15, 0.07), ellipse(x, v, 0, 1.0, 0.13, 0.06))
    return [(cord, WOOD), (bows, "body"), (d, "body"), (quarter, "light")]


def butterfly(u, v, phase):
    open_ = 0.72 + 0.28 * torch.cos(phase * 2)
    x = u.abs() / open_
    upper = ellipse(0.82 * x - 0.57 * (v + 0.3), 0.57 * x + 0.82 * (v + 0.3), 0.52, -0.06 + 0.3, 0.52, 0.36)
    lower = ellipse(x, v, 0.36, 0.42, 0.34, 0.34)
    spots = union(circle(x, v, 0.55, -0.34, 0.13), circle(x, v, 0.38, 0.44, 0.1))
    horns = union(stick(u.abs(), v, 0.03, -0.4, 0.2, -0.78, 0.025), circle(u.abs(), v, 0.2, -0.78, 0.045))
    return [
        (horns, INK),
        (lower, "dark"),
        (upper, "body"),
        (spots, "light"),
        (stick(u, v, 0, -0.38, 0, 0.5, 0.08), INK),
    ]


DRAW = [balloon, boat, fish, bird, car, rabbit, kite, butterfly]
assert [f.__name__ for f in DRAW] == THING

# ---------------------------------------------------------------------------
# Paint
# ---------------------------------------------------------------------------


def cover(d: Tensor, softness) -> Tensor:
    """How much of a pixel lies inside: a ramp as wide as `softness` in the units of the distance."""
    return (0.5 - d / softness).clamp(0, 1)


def over(image: Tensor, alpha: Tensor, colour) -> Tensor:
    """Paints on [n, t, 3, h, w]; alpha [n, t, h, w] (t may be 1), colour a triple or [n, 3, ...]."""
    if not isinstance(colour, Tensor):
        colour = image.new_tensor(colour).view(1, 1, 3, 1, 1)
    elif colour.dim() == 2:
        colour = colour[:, None, :, None, None]
    return image + (colour - image) * alpha.unsqueeze(2)


def gradient(y: Tensor, *stops: tuple[float, tuple[float, float, float]]) -> Tensor:
    """Vertical gradient through (height, colour) stops; y [n, 1, h, w] gives [n, 1, 3, h, w]."""
    image = y.new_tensor(stops[0][1]).view(1, 1, 3, 1, 1).expand(*y.shape[:2], 3, *y.shape[2:])
    for (y0, _), (y1, colour) in zip(stops, stops[1:]):
        k = ((y - y0) / (y1 - y0)).clamp(0, 1)
        image = over(image, k * k * (3 - 2 * k), colour)
    return image


def hills(x: Tensor, luck: Tensor, level: float, height: float, waves: float) -> Tensor:
    """The height of a skyline at x; luck [n, 2] shifts and stretches it."""
    a, b = luck[:, 0].view(-1, 1, 1, 1) * 6.28, luck[:, 1].view(-1, 1, 1, 1)
    return level + height * (0.65 * torch.sin(x * waves * (0.8 + 0.4 * b) + a) + 0.35 * torch.sin(x * waves * 2.1 + 2 * a + b))


def column(luck: Tensor, i: int) -> Tensor:
    return luck[:, i].view(-1, 1, 1, 1)


PX = 1 / SIZE  # one pixel in picture coordinates


def disc(x, y, cx, cy, r, soft=1.5 * PX):
    return cover(torch.hypot(x - cx, y - cy) - r, soft)


def cloud(x, y, cx, cy, r):
    return cover(
        union(circle(x, y, cx, cy, r), circle(x, y, cx - 1.2 * r, cy + 0.35 * r, 0.65 * r), circle(x, y, cx + 1.2 * r, cy + 0.3 * r, 0.7 * r)),
        2 * PX,
    ) * cover(y - cy - 0.62 * r, 2 * PX)


def meadow(x, y, now, k):
    image = gradient(y, (0.0, (0.60, 0.79, 0.93)), (0.7, (0.88, 0.94, 0.96)))
    image = over(image, disc(x, y, 0.12 + 0.76 * column(k, 0), 0.16, 0.075), (1.0, 0.96, 0.80))
    image = over(image, cover(hills(x, k[:, 1:3], 0.66, 0.045, 6) - y, 1.5 * PX), (0.68, 0.81, 0.66))
    front = hills(x, k[:, 3:5], 0.78, 0.04, 5)
    for i in (5, 6):  # round trees on the front hill
        tx = 0.08 + 0.4 * (i - 5) * 1.1 + 0.35 * column(k, i)
        ty = hills(tx, k[:, 3:5], 0.78, 0.04, 5)
        trunk = torch.maximum((x - tx).abs() - 0.009, (y - ty + 0.01).abs() - 0.05)
        image = over(image, cover(trunk, 2 * PX), (0.47, 0.41, 0.36))
        image = over(image, disc(x, y, tx, ty - 0.085, 0.052), (0.43, 0.60, 0.44))
        image = over(image, disc(x, y, tx - 0.012, ty - 0.098, 0.03, 0.03), (0.50, 0.67, 0.50))
    image = over(image, cover(front - y, 1.5 * PX), (0.55, 0.72, 0.50))
    image = over(image, cover(hills(x, k[:, 7:9], 0.90, 0.03, 7) - y, 1.5 * PX), (0.46, 0.63, 0.41))
    for i in (9, 11):  # clouds that drift
        cx = (column(k, i) + 0.5 * (i == 11)) % 1.0 + 0.05 * now
        image = over(image, 0.9 * cloud(x, y, cx, 0.12 + 0.2 * column(k, i + 1), 0.055), (0.99, 0.99, 0.98))
    return image


def sunset(x, y, now, k):
    image = gradient(y, (0.0, (0.52, 0.44, 0.60)), (0.38, (0.88, 0.62, 0.60)), (0.66, (0.99, 0.84, 0.68)))
    sx = 0.2 + 0.6 * column(k, 0)
    image = over(image, 0.5 * torch.exp(-torch.hypot(x - sx, y - 0.6) * 7), (1.0, 0.92, 0.76))
    image = over(image, disc(x, y, sx, 0.60, 0.10), (1.0, 0.95, 0.80))
    for i in (1, 3):
        cx, cy = column(k, i) + 0.03 * now, 0.16 + 0.26 * column(k, i + 1)
        image = over(image, 0.55 * cover(ellipse(x, y, cx, cy, 0.2, 0.02), 0.02), (0.98, 0.78, 0.68))
    shore = hills(x, k[:, 5:7], 0.645, 0.03, 5)
    image = over(image, cover(shore - y, 1.5 * PX) * cover(y - 0.68, 2 * PX), (0.58, 0.44, 0.55))
    water = gradient(y, (0.68, (0.80, 0.60, 0.62)), (1.0, (0.44, 0.36, 0.52)))
    image = image + (water - image) * cover(0.68 - y, 1.5 * PX).unsqueeze(2)
    # the sun's path on the water: bars that breathe
    depth = ((y - 0.68) / 0.32).clamp(0, 1)
    bars = (torch.sin(depth * 34 - 6.28 * now + 6 * column(k, 7)) - 0.1).clamp(0, 1)
    width = 0.07 + 0.13 * depth
    path = bars * ((width - (x - sx).abs()) / 0.05).clamp(0, 1) * (y > 0.68) * 0.6
    return over(image, path, (1.0, 0.88, 0.72))


def night(x, y, now, k):
    image = gradient(y, (0.0, (0.05, 0.07, 0.17)), (0.75, (0.20, 0.22, 0.38)))
    for i in range(14):  # stars that twinkle
        sx, sy = (i * 0.381 + column(k, 0)) % 1.0, (0.04 + i * 0.0497 * 13 % 0.55 + 0.1 * column(k, 1 + i % 4)) % 0.62
        twinkle = 0.75 + 0.25 * torch.sin(6.28 * (now * (1 + i % 2) + i * 0.3))
        image = over(image, twinkle * disc(x, y, sx, sy, 0.0055 + 0.0035 * (i % 3), 3 * PX), (0.96, 0.95, 0.84))
    mx, my = 0.15 + 0.7 * column(k, 5), 0.17
    image = over(image, 0.35 * torch.exp(-torch.hypot(x - mx, y - my) * 9), (0.80, 0.82, 0.86))
    crescent = disc(x, y, mx, my, 0.075) * (1 - disc(x, y, mx + 0.035, my - 0.018, 0.062))
    image = over(image, crescent, (0.98, 0.96, 0.84))
    image = over(image, cover(hills(x, k[:, 6:8], 0.72, 0.05, 5) - y, 1.5 * PX), (0.13, 0.16, 0.28))
    return over(image, cover(hills(x, k[:, 8:10], 0.86, 0.04, 6) - y, 1.5 * PX), (0.07, 0.10, 0.18))


def snow(x, y, now, k):
    image = gradient(y, (0.0, (0.74, 0.81, 0.89)), (0.7, (0.92, 0.94, 0.96)))
    image = over(image, cover(hills(x, k[:, 0:2], 0.64, 0.05, 5) - y, 1.5 * PX), (0.84, 0.88, 0.93))
    for i in range(4):  # firs
        tx = 0.1 + 0.25 * i + 0.14 * column(k, 2 + i)
        ty, h = 0.80 - 0.02 * (i % 2), 0.17 + 0.05 * (i % 3)
        for part in range(3):
            top, bottom = ty - h + h * 0.25 * part, ty - h + h * (0.45 + 0.25 * part)
            inside = torch.maximum((x - tx).abs() - (y - top) * (0.42 + 0.02 * part), y - bottom)
            image = over(image, cover(inside, 1.5 * PX), (0.40, 0.52, 0.55))
    image = over(image, cover(hills(x, k[:, 6:8], 0.79, 0.025, 6) - y, 1.5 * PX), (0.95, 0.96, 0.98))
    image = over(image, cover(hills(x, k[:, 8:10], 0.90, 0.025, 5) - y, 1.5 * PX), (0.88, 0.91, 0.96))
    for i in range(12):  # flakes
        fx = (i * 0.381 + column(k, 10) + 0.02 * torch.sin(6.28 * (now + i * 0.17))) % 1.0
        fy = (i * 0.27 + column(k, 11) + 0.32 * now) % 1.0
        image = over(image, 0.95 * disc(x, y, fx, fy, 0.009 + 0.004 * (i % 2), 3 * PX), (1.0, 1.0, 1.0))
    return image


def sea(x, y, now, k):
    image = gradient(y, (0.0, (0.50, 0.79, 0.83)), (0.45, (0.25, 0.54, 0.63)), (1.0, (0.12, 0.34, 0.45)))
    for i in range(3):  # light from above
        slope = x - y * 0.35 - (0.1 + 0.28 * i + 0.2 * column(k, i)) - 0.02 * torch.sin(6.28 * now + i)
        ray = ((0.06 - slope.abs()) / 0.04).clamp(0, 1) * (0.75 - y).clamp(min=0)
        image = over(image, 0.3 * ray, (0.82, 0.95, 0.94))
    image = over(image, cover(hills(x, k[:, 3:5], 0.80, 0.05, 5) - y, 1.5 * PX), (0.16, 0.38, 0.46))
    image = over(image, cover(hills(x, k[:, 5:7], 0.90, 0.025, 6) - y, 1.5 * PX), (0.62, 0.64, 0.56))
    for i in range(4):  # weeds that sway
        wx, top = 0.06 + 0.28 * i + 0.12 * column(k, 7 + i), 0.70 + 0.05 * (i % 2)
        bend = 0.03 * torch.sin(6.28 * now + i + (0.95 - y) * 9) * ((0.95 - y) * 4).clamp(0, 1)
        weed = torch.maximum((x - wx - bend).abs() - 0.011, torch.maximum(top - y, y - 0.95))
        image = over(image, cover(weed, 2 * PX), (0.30, 0.50, 0.44))
    for i in range(6):  # bubbles
        bx = (i * 0.29 + column(k, 11) + 0.012 * torch.sin(6.28 * (now + i * 0.3))) % 1.0
        by = 0.88 - (i * 0.173 + column(k, 12) + 0.35 * now) % 0.88
        r = 0.010 + 0.006 * (i % 3)
        d = torch.hypot(x - bx, y - by)
        image = over(image, 0.75 * cover((d - r).abs() - 0.003, 2 * PX) + 0.2 * cover(d - r, 2 * PX), (0.88, 0.97, 0.97))
    return image


def desert(x, y, now, k):
    image = gradient(y, (0.0, (0.72, 0.83, 0.89)), (0.62, (0.98, 0.93, 0.84)))
    image = over(image, 0.4 * torch.exp(-torch.hypot(x - 0.15 - 0.7 * column(k, 0), y - 0.2) * 8), (1.0, 0.97, 0.86))
    image = over(image, disc(x, y, 0.15 + 0.7 * column(k, 0), 0.2, 0.085), (1.0, 0.97, 0.84))
    image = over(image, cover(hills(x, k[:, 1:3], 0.62, 0.045, 5) - y, 1.5 * PX), (0.94, 0.83, 0.66))
    image = over(image, cover(hills(x, k[:, 3:5], 0.74, 0.05, 4) - y, 1.5 * PX), (0.88, 0.74, 0.55))
    for i in (5, 6):  # cactuses
        cx = 0.1 + 0.45 * (i - 5) + 0.3 * column(k, i)
        cy = 0.78
        plant = union(
            torch.hypot(x - cx, (y - cy + 0.06).abs().sub(0.07).clamp(min=0)) - 0.018,
            torch.hypot(x - cx - 0.042, (y - cy + 0.07).abs().sub(0.025).clamp(min=0)) - 0.012,
            torch.hypot(x - cx + 0.042, (y - cy + 0.05).abs().sub(0.025).clamp(min=0)) - 0.012,
            torch.hypot((x - cx).abs().sub(0.042).clamp(min=0), y - cy + 0.03) - 0.011,
        )
        image = over(image, cover(plant, 1.5 * PX), (0.47, 0.60, 0.48))
    return over(image, cover(hills(x, k[:, 7:9], 0.86, 0.04, 5) - y, 1.5 * PX), (0.80, 0.65, 0.47))


BACKDROP = [meadow, sunset, night, snow, sea, desert]
assert [f.__name__ for f in BACKDROP] == SCENE
LIGHT = torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.95, 0.95], [0.90, 0.90, 0.95], [1.0, 1.0, 1.0], [0.94, 1.0, 1.0], [1.0, 1.0, 0.98]])


# ---------------------------------------------------------------------------
# Motion
# ---------------------------------------------------------------------------


def path(clips: Clips, now: Tensor) -> tuple[Tensor, ...]:
    """Where the thing is: centre x, y, half size, tilt, squash, facing; each [n, t, 1, 1].

    `now` [1, t, 1, 1] runs from 0 at the first to 1 at the last frame."""
    k = clips.luck[:, 40:, None, None, None]
    m = clips.motion.view(-1, 1, 1, 1)
    radius = torch.tensor([0.115, 0.15, 0.185], device=now.device)[clips.size].view(-1, 1, 1, 1) * (0.95 + 0.1 * k[:, 0])
    eased = 0.75 * now + 0.25 * now * now * (3 - 2 * now)
    travel = (eased - 0.5) * (0.40 + 0.10 * k[:, 1])
    bob = 0.010 * torch.sin(6.28 * (now + k[:, 2]))
    flat, rise, hop, near = m <= 1, (m == 2) | (m == 3), m == 5, m == 4
    x = torch.where(flat, 0.5 + 0.06 * (k[:, 3] - 0.5), 0.32 + 0.36 * k[:, 3])
    y = torch.where(flat, 0.36 + 0.28 * k[:, 4], 0.5 + 0.04 * (k[:, 4] - 0.5))
    x = torch.where(near, 0.5 + 0.16 * (k[:, 3] - 0.5), x) + torch.where(rise, bob, 0)
    x = x + torch.where(flat, travel * torch.where(m == 0, -1, 1), 0)
    y = y + torch.where(rise, travel * torch.where(m == 2, -1, 1), 0) + torch.where(flat | near, bob, 0)
    jump = torch.sin(6.28 * now).abs()
    y = y + torch.where(hop, 0.12 - jump * (0.17 + 0.04 * k[:, 5]), 0)
    radius = radius * torch.where(near, 0.62 + 0.75 * eased, 1.0)
    squash = torch.where(hop, 0.14 * (1 - jump / 0.35).clamp(0, 1), 0)
    tilt = 0.07 * torch.sin(6.28 * (now + k[:, 6])) * torch.where(hop, 0, 1)
    facing = torch.where(flat, torch.where(m == 0, -1.0, 1.0), torch.where(k[:, 7] < 0.5, -1.0, 1.0))
    return x, y, radius, tilt, squash, facing


def draw(clips: Clips, frames: int = FRAMES, window: tuple[Tensor, Tensor, int, int] | None = None, first: int = 0) -> Tensor:
    """Draws clips as [n, 3, frames, h, w] in 0..1.

    `window` = (top, left, h, w), top and left [n] in pixels, draws only that part; `first` skips frames."""
    n, device = len(clips), clips.luck.device
    top, left, h, w = window or (torch.zeros(n, device=device), torch.zeros(n, device=device), SIZE, SIZE)
    y = ((torch.arange(h, device=device).view(1, 1, h, 1) + 0.5) + top.view(n, 1, 1, 1)) / SIZE
    x = ((torch.arange(w, device=device).view(1, 1, 1, w) + 0.5) + left.view(n, 1, 1, 1)) / SIZE
    x, y = x.expand(n, 1, h, w), y.expand(n, 1, h, w)
    now = ((first + torch.arange(frames, device=device, dtype=torch.float32)) / (FRAMES - 1)).view(1, frames, 1, 1)
    image = x.new_empty(n, frames, 3, h, w)
    for s, backdrop in enumerate(BACKDROP):
        i = (clips.scene == s).nonzero()[:, 0]
        if len(i):
            image[i] = backdrop(x[i], y[i], now, clips.luck[i])

    cx, cy, radius, tilt, squash, facing = path(clips, now)
    base = torch.tensor([rgb for _, rgb in COLOURS.values()], device=device)[clips.colour]
    light = LIGHT.to(device)[clips.scene]
    phase = 6.28 * (now + clips.luck[:, 60].view(-1, 1, 1, 1))
    for t, thing in enumerate(DRAW):
        i = (clips.thing == t).nonzero()[:, 0]
        if not len(i):
            continue
        dx, dy = (x[i] - cx[i]) / radius[i], (y[i] - cy[i]) / radius[i]
        c, s = torch.cos(tilt[i]), torch.sin(tilt[i])
        u, v = (dx * c + dy * s) * facing[i] / (1 + squash[i]), (dy * c - dx * s - squash[i]) / (1 - squash[i])
        px = PX / radius[i]
        parts = thing(u, v, phase[i])
        whole = union(*(d for d, _ in parts))
        part = image[i]
        # cut out of paper: a soft shadow behind, a cream rim, then the parts
        part = over(part, 0.28 * torch.exp(-(whole - 0.05).clamp(min=0) / 0.10), (0.10, 0.09, 0.14))
        part = over(part, cover(whole - 0.065, 1.3 * px), light[i] * light.new_tensor(CREAM))
        shade = (1.06 - 0.16 * v.clamp(-1, 1)).unsqueeze(2)
        own = base[i]
        for d, colour in parts:
            if colour == "body":
                paint = own
            elif colour == "light":
                paint = own + (1 - own) * 0.28
            elif colour == "dark":
                paint = own * 0.82
            else:
                paint = own.new_tensor(colour).expand_as(own)
            paint = (paint * light[i])[:, None, :, None, None] * shade
            part = over(part, cover(d, 1.3 * px), paint)
        image[i] = part
    return image.clamp_(0, 1).transpose(1, 2)


# ---------------------------------------------------------------------------


def write_clips(out: Path, count: int, only_held_out: bool, seed: int) -> None:
    """Clips as .npy [frames, h, w, 3] uint8, first frames as .png, and expectations, for check.py."""
    import numpy as np
    from PIL import Image

    g = torch.Generator().manual_seed(seed)
    allowed = torch.tensor(combinations(training=not only_held_out))
    clips = choose(count, g, "cpu", allowed)
    if only_held_out:  # each of them, in the order of the file, as check.py lists its prompts
        order = json.loads((HERE / "held_out.json").read_text())["combinations"][:count]
        names = torch.tensor([[THING.index(t), COLOUR.index(c), SCENE.index(s), MOTION.index(m)] for t, c, s, m in order])
        clips.thing, clips.colour, clips.scene, clips.motion = names.unbind(1)
    out.mkdir(parents=True, exist_ok=True)
    expect = []
    for i in range(len(clips)):
        one = clips.part(torch.tensor([i]))
        frames = (draw(one)[0].permute(1, 2, 3, 0) * 255).round().byte().numpy()
        np.save(out / f"{i:03d}.npy", frames)
        Image.fromarray(frames[0]).save(out / f"{i:03d}.png")
        expect.append(
            {
                "clip": f"{i:03d}.npy",
                "thing": THING[one.thing],
                "colour": COLOUR[one.colour],
                "background": SCENE[one.scene],
                "motion": MOTION[one.motion],
                "first_frame": f"{i:03d}.png",
            }
        )
    (out / "expect.json").write_text(json.dumps(expect, indent=1))


def stills(out: Path, count: int, seed: int) -> None:
    """The first frame of a clip of each held-out combination: pictures for image to video."""
    from PIL import Image

    order = json.loads((HERE / "held_out.json").read_text())["combinations"][:count]
    names = torch.tensor([[THING.index(t), COLOUR.index(c), SCENE.index(s), MOTION.index(m)] for t, c, s, m in order])
    out.mkdir(parents=True, exist_ok=True)
    g = torch.Generator().manual_seed(seed)
    for i, row in enumerate(names):
        picture = draw(choose(1, g, "cpu", row[None]), frames=1)[0, :, 0].permute(1, 2, 0)
        Image.fromarray((picture * 255).round().byte().numpy()).save(out / f"{i:03d}.png")


def sheet(out: Path, seed: int) -> None:
    from PIL import Image

    g = torch.Generator().manual_seed(seed)
    clips = choose(12, g, "cpu", torch.tensor(combinations()))
    clips.thing, clips.scene = torch.arange(12) % 8, torch.arange(12) % 6
    clips.colour, clips.motion = torch.arange(12) % 8, torch.arange(12) // 2 % 6
    rows = [torch.cat(list(draw(clips.part(torch.tensor([i])))[0, :, [0, 5, 10, 16]].unbind(1)), 2) for i in range(12)]
    picture = torch.cat([torch.cat(rows[:6], 1), torch.cat(rows[6:], 1)], 2)
    Image.fromarray((picture.permute(1, 2, 0) * 255).byte().numpy()).save(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sheet", "clips", "stills"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    if options.what == "sheet":
        sheet(options.out, options.seed)
    elif options.what == "stills":
        stills(options.out, options.count, options.seed)
    else:
        write_clips(options.out, options.count, options.held_out, options.seed)
