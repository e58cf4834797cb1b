"""Looks at clips and says what is in them. It knows nothing of how the world is drawn:
it has its own idea of colours, places and movement, and works on pixels alone.

    python check.py prompts                              the 200 held-out prompts, seeds and expectations, as JSON
    python check.py clips FOLDER [--expect FILE]         checks clips that any program wrote
    python check.py generate MODEL FOLDER [--images DIR] makes the clips with diffusers first (GPU if there is one)

FOLDER holds clips, one each: NAME.npy (frames, height, width, 3; uint8) or a
folder NAME of frames (.png, in order of their names). The expectations, a JSON
list (default FOLDER/expect.json), name clips and what must be in them:
    {"clip": "NAME", "colour": "red", "background": "night", "motion": "left", "first_frame": "NAME.png"}
Each key but "clip" may be missing. With "first_frame" (relative to the file) the
clip was made from that picture, and its first frame must keep it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent

# ---------------------------------------------------------------------------
# What is in a clip
# ---------------------------------------------------------------------------

# hue in degrees, as one would point at them on a colour wheel
HUES = {"red": 0, "orange": 32, "yellow": 52, "green": 132, "turquoise": 179, "blue": 226, "purple": 276, "pink": 332}


def chroma_and_hue(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r, g, b = (rgb[..., i] for i in range(3))
    high, low = rgb.max(-1), rgb.min(-1)
    c = high - low
    safe = np.where(c > 1e-6, c, 1)
    hue = np.where(high == r, (g - b) / safe % 6, np.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4))
    return c, hue * 60


def thing_mask(frame: np.ndarray) -> np.ndarray:
    """The pixels that are far more colourful than the rest of the picture ever is."""
    c, _ = chroma_and_hue(frame)
    mask = c > max(0.42, min(0.5, 0.7 * np.quantile(c, 0.995)))
    # the largest lump, found coarsely: stray pixels elsewhere must not pull the centre away
    h, w = mask.shape
    cell = max(1, h // 32)
    coarse = mask[: h // cell * cell, : w // cell * cell].reshape(h // cell, cell, w // cell, cell).mean((1, 3)) > 0.2
    if not coarse.any():
        return mask
    seen, best = np.zeros_like(coarse), []
    for start in zip(*np.nonzero(coarse)):
        if seen[start]:
            continue
        lump, queue = [], [start]
        seen[start] = True
        while queue:
            y, x = queue.pop()
            lump.append((y, x))
            for yy in range(max(0, y - 1), min(coarse.shape[0], y + 2)):
                for xx in range(max(0, x - 1), min(coarse.shape[1], x + 2)):
                    if coarse[yy, xx] and not seen[yy, xx]:
                        seen[yy, xx] = True
                        queue.append((yy, xx))
        if len(lump) > len(best):
            best = lump
    near = np.zeros_like(coarse)
    for y, x in best:
        near[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2] = True
    full = np.zeros_like(mask)
    full[: near.shape[0] * cell, : near.shape[1] * cell] = np.kron(near, np.ones((cell, cell), bool))
    return mask & full


def thing_colour(frames: np.ndarray) -> str | None:
    votes = dict.fromkeys(HUES, 0.0)
    for frame in frames:
        mask = thing_mask(frame)
        c, hue = chroma_and_hue(frame[mask])
        for name, at in HUES.items():
            distance = np.abs((hue - at + 180) % 360 - 180)
            others = [np.abs((hue - o + 180) % 360 - 180) for n, o in HUES.items() if n != name]
            votes[name] += (c * (distance < np.min(others, 0))).sum() if len(hue) else 0
    return max(votes, key=votes.get) if max(votes.values()) > 0 else None


def background(frames: np.ndarray) -> str | None:
    """By the typical colour of the top, of the middle height at the edges, and of the ground."""
    h, w = frames.shape[1:3]
    middle = np.median(frames, axis=0)  # over time: the thing moves away from most places
    top = np.median(middle[: h // 8].reshape(-1, 3), 0)
    ground = np.median(middle[-h // 16 :].reshape(-1, 3), 0)
    lower = np.median(middle[h * 13 // 16 : h * 15 // 16].reshape(-1, 3), 0)
    light = lambda rgb: rgb @ (0.299, 0.587, 0.114)  # noqa: E731
    if light(top) < 0.22 and light(ground) < 0.22:
        return "night"
    if light(ground) > 0.78 and np.ptp(ground) < 0.16 and light(top) > 0.65:
        return "snow"
    if top[0] > top[1] + 0.03 and top[2] > top[1] + 0.03 and ground[0] > ground[1]:
        return "sunset"  # mauve above, mauve water below
    if lower[2] > lower[0] + 0.12 and top[2] > top[0] + 0.12 and light(lower) < 0.5:
        return "sea"
    if ground[1] > ground[0] + 0.06 and ground[1] > ground[2] + 0.08 and light(top) > 0.6:
        return "meadow"
    if ground[0] > ground[1] + 0.06 and ground[1] > ground[2] + 0.06 and light(top) > 0.6:
        return "desert"
    return None


def motion(frames: np.ndarray) -> str | None:
    h, w = frames.shape[1:3]
    xs, ys, areas = [], [], []
    for frame in frames:
        y, x = np.nonzero(thing_mask(frame))
        if len(x) < 0.0005 * h * w:
            continue
        xs.append(np.median(x) / w)
        ys.append(np.median(y) / h)
        areas.append(len(x) / (h * w))
    if len(xs) < 0.7 * len(frames):
        return None
    x, y, size = np.array(xs), np.array(ys), np.sqrt(areas)
    n = max(2, len(x) // 6)
    dx, dy = x[-n:].mean() - x[:n].mean(), y[-n:].mean() - y[:n].mean()
    growth = size[-n:].mean() / size[:n].mean()
    steps = np.abs(np.diff(y)).sum()
    if np.hypot(dx, dy) > 0.15:
        return ("right" if dx > 0 else "left") if abs(dx) > abs(dy) else ("down" if dy > 0 else "up")
    if growth > 1.35:
        return "closer"
    if np.ptp(y) > 0.08 and steps > 2.2 * np.ptp(y) and steps > 3 * abs(dy):
        return "hop"
    return None


LOOK = {"colour": thing_colour, "background": background, "motion": motion}


# ---------------------------------------------------------------------------
# Prompts
# ---------------------------------------------------------------------------

PLACE = {
    "meadow": "in a meadow",
    "sunset": "at sunset",
    "night": "at night",
    "snow": "in the snow",
    "sea": "under the sea",
    "desert": "in the desert",
}
MOVE = {
    "left": "drifts to the left",
    "right": "drifts to the right",
    "up": "rises",
    "down": "sinks",
    "closer": "comes closer",
    "hop": "hops",
}


def prompts() -> list[dict]:
    out = []
    for i, (thing, colour, place, move) in enumerate(json.loads((HERE / "held_out.json").read_text())["combinations"]):
        article = "an" if colour[0] in "aeiou" else "a"
        text = f"{article} {colour} {thing} {MOVE[move]} {PLACE[place]}"
        if i % 3 == 1:
            text = f"{PLACE[place]}, {article} {colour} {thing} {MOVE[move]}"
        out.append(
            {
                "clip": f"{i:03d}",
                "prompt": text,
                "seed": 1000 + i,
                "thing": thing,
                "colour": colour,
                "background": place,
                "motion": move,
            }
        )
    return out


# ---------------------------------------------------------------------------
# Clips
# ---------------------------------------------------------------------------


def read_clip(folder: Path, name: str) -> np.ndarray:
    path = folder / name
    if path.is_dir():
        frames = [np.asarray(Image.open(f).convert("RGB")) for f in sorted(path.iterdir()) if f.suffix.lower() == ".png"]
        return np.stack(frames).astype(np.float32) / 255
    frames = np.load(path if path.suffix == ".npy" else folder / f"{name}.npy")
    return frames.astype(np.float32) / (255 if frames.dtype == np.uint8 else 1)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(-10 * np.log10(max(1e-10, np.mean((a - b) ** 2))))


def check(folder: Path, expect: Path) -> dict:
    right, asked, wrong, kept = {}, {}, [], []
    for want in json.loads(expect.read_text()):
        frames = read_clip(folder, want["clip"])
        found = {}
        for key, look in LOOK.items():
            if key in want and (key != "motion" or len(frames) > 1):
                found[key] = look(frames)
                asked[key] = asked.get(key, 0) + 1
                right[key] = right.get(key, 0) + (found[key] == want[key])
        if any(found[k] != want[k] for k in found):
            wrong.append({"clip": want["clip"], **{k: f"{want[k]} → {found[k]}" for k in found if found[k] != want[k]}})
        if "first_frame" in want:
            picture = Image.open(expect.parent / want["first_frame"]).convert("RGB")
            picture = np.asarray(picture.resize(frames.shape[2:0:-1])).astype(np.float32) / 255
            kept.append(psnr(frames[0], picture))
    result = {"clips": len(json.loads(expect.read_text()))}
    result |= {k: {"right": right[k], "of": asked[k], "percent": round(100 * right[k] / asked[k], 1)} for k in asked}
    if kept:
        result["first_frame_psnr_db"] = {
            "mean": round(float(np.mean(kept)), 2),
            "lowest": round(min(kept), 2),
            "at_least_25": sum(k >= 25 for k in kept),
            "of": len(kept),
        }
    return result | {"wrong": wrong}


def generate(model: Path, folder: Path, options) -> None:
    """Text to video for every held-out prompt, or image to video with the pictures in --images."""
    import torch
    from diffusers import WanImageToVideoPipeline, WanPipeline

    about = json.loads((model / "safelight.json").read_text())["defaults"]
    kind = WanImageToVideoPipeline if options.images else WanPipeline
    pipe = kind.from_pretrained(model, torch_dtype=torch.float32)
    pipe.to("cuda" if torch.cuda.is_available() else "cpu")
    pipe.set_progress_bar_config(disable=True)
    folder.mkdir(parents=True, exist_ok=True)
    todo = prompts()[: options.count]
    index, count = (int(n) for n in options.slice.split("/"))
    mine, size = todo[index::count], 1 if options.images else options.batch  # the pipeline takes one picture a call
    for start in range(0, len(mine), size):
        part = mine[start : start + size]
        images = {}
        if options.images:
            images["image"] = Image.open(options.images / f"{part[0]['clip']}.png").convert("RGB")
        videos = pipe(
            prompt=[p["prompt"] for p in part],
            negative_prompt="",
            width=about["width"],
            height=about["height"],
            num_frames=options.frames or about["num_frames"],
            num_inference_steps=options.steps or about["num_steps"],
            guidance_scale=options.guidance or about["guidance_scale"],
            generator=[torch.Generator().manual_seed(p["seed"]) for p in part],
            output_type="np",
            **images,
        ).frames
        for p, video in zip(part, videos):
            np.save(folder / f"{p['clip']}.npy", (video * 255).round().astype(np.uint8))
    for p in todo:
        if options.images:
            p["first_frame"] = str((options.images / f"{p['clip']}.png").resolve())
    (folder / "expect.json").write_text(json.dumps(todo, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prompts")
    clips = commands.add_parser("clips")
    make = commands.add_parser("generate")
    make.add_argument("model", type=Path)
    for p in (clips, make):
        p.add_argument("folder", type=Path)
        p.add_argument("--expect", type=Path)
        p.add_argument("--brief", action="store_true", help="do not list what was wrong")
    make.add_argument("--images", type=Path, help="image to video: a folder with NAME.png for each prompt")
    make.add_argument("--count", type=int, default=200)
    make.add_argument("--batch", type=int, default=1)
    make.add_argument("--slice", default="0/1", help="I/N: only every Nth, from I; check with `clips` when all are there")
    make.add_argument("--steps", type=int)
    make.add_argument("--frames", type=int)
    make.add_argument("--guidance", type=float)
    options = parser.parse_args()
    if options.command == "prompts":
        json.dump(prompts(), sys.stdout, indent=1)
        print()
        return
    if options.command == "generate":
        generate(options.model, options.folder, options)
        if options.slice != "0/1":
            return
    result = check(options.folder, options.expect or options.folder / "expect.json")
    if options.brief:
        result["wrong"] = len(result["wrong"])
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
