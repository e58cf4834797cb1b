"""Trains the little world's model from nothing: one command, minutes on a data-centre GPU.

    python train.py --out DIR                                   one GPU
    torchrun --nproc-per-node 4 train.py --out DIR              four

Phases, each with a budget in seconds on the command line: the autoencoder on
pictures, on parts of clips and on whole clips; encoding clips once; then text
encoder and transformer together. Every phase ends with a checkpoint in
DIR/work, and the same command goes on from there. The result is a diffusers
folder in DIR/model. `--from MODEL` starts from such a folder instead: its
autoencoder is kept and its transformer and text encoder are trained further.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402

import fast  # noqa: E402
import tokenizer as words  # noqa: E402
import world  # noqa: E402

Z = 24
VAE_CONFIG = dict(
    base_dim=20,
    decoder_base_dim=32,
    z_dim=Z,
    dim_mult=[1, 2, 4, 4],
    num_res_blocks=1,
    temperal_downsample=[False, True, True],
    is_residual=True,
    in_channels=12,
    out_channels=12,
    patch_size=2,
    scale_factor_temporal=4,
    scale_factor_spatial=16,
    latents_mean=[0.0] * Z,
    latents_std=[1.0] * Z,
)
TEXT_WIDTH = 160
TRANSFORMER_CONFIG = dict(
    patch_size=(1, 2, 2),
    num_attention_heads=4,
    attention_head_dim=64,
    in_channels=Z,
    out_channels=Z,
    text_dim=TEXT_WIDTH,
    freq_dim=256,
    ffn_dim=768,
    num_layers=8,
    cross_attn_norm=True,
    qk_norm="rms_norm_across_heads",
    eps=1e-6,
)
SHIFT = 3.0  # of the noise levels, in training and in the scheduler
COLUMNS = 48  # text tokens kept in training; captions are shorter
CAPTIONS = 12  # ways to say each clip


def new_vae(config: dict):
    from diffusers import AutoencoderKLWan

    vae = AutoencoderKLWan(**config)
    with torch.no_grad():
        # A clip starts as a row of pictures: what looks back in time begins at nothing.
        for name, p in vae.named_parameters():
            if p.dim() == 5 and p.shape[2] == 3:
                if "time_conv" not in name:
                    p[:, :, :2] = 0
                else:
                    p.mul_(0.1)
                    c = p.shape[1]
                    for part in range(p.shape[0] // c):  # keep (encoder) or repeat (decoder) the frame
                        p[part * c : (part + 1) * c, :, -1, 0, 0] += torch.eye(c)
    return vae


def new_transformer():
    from diffusers import WanTransformer3DModel

    model = WanTransformer3DModel(**TRANSFORMER_CONFIG)
    torch.nn.init.zeros_(model.proj_out.weight)
    return model


def new_text_encoder(ids: int):
    from transformers import UMT5Config, UMT5EncoderModel

    return UMT5EncoderModel(
        UMT5Config(
            vocab_size=ids,
            d_model=TEXT_WIDTH,
            d_kv=32,
            num_heads=5,
            d_ff=384,
            num_layers=4,
            feed_forward_proj="gated-gelu",
            relative_attention_num_buckets=32,
            relative_attention_max_distance=128,
            decoder_start_token_id=0,
            pad_token_id=0,
            eos_token_id=1,
            dropout_rate=0.0,
        )
    )


# ---------------------------------------------------------------------------
# Several GPUs, time, optimiser
# ---------------------------------------------------------------------------


class Ranks:
    def __init__(self):
        self.rank, self.count = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if cuda else torch.device("cpu")
        if cuda:
            torch.cuda.set_device(self.device)
            torch.backends.cudnn.benchmark = True
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        if self.count > 1:
            dist.init_process_group("nccl" if cuda else "gloo", device_id=self.device if cuda else None)
        self.dtype = torch.bfloat16 if cuda else torch.float32

    def mean(self, x: Tensor) -> Tensor:
        if self.count > 1:
            dist.all_reduce(x)
            x /= self.count
        return x

    def agreed(self, value: float) -> float:
        """Rank 0's value, so that all ranks stop at the same step."""
        x = torch.tensor([value if self.rank == 0 else 0.0], device=self.device)
        return self.mean(x).item() * self.count

    def say(self, *text) -> None:
        if self.rank == 0:
            print(f"[{time.monotonic() - STARTED:6.1f}]", *text, flush=True)


STARTED = time.monotonic()


class Clock:
    """Progress through a budget of seconds (or of steps, for smoke tests)."""

    def __init__(self, ranks: Ranks, seconds: float, steps: int | None = None):
        self.ranks, self.seconds, self.steps = ranks, seconds, steps
        self.step, self.progress, self.start = 0, 0.0, time.monotonic()

    def tick(self) -> bool:
        self.step += 1
        if self.steps is not None:
            self.progress = self.step / self.steps
        elif self.step % 10 == 0:
            self.progress = self.ranks.agreed((time.monotonic() - self.start) / self.seconds)
        return self.progress < 1

    def factor(self, begin: float = 0.0, end: float = 1.0) -> float:
        """Learning-rate factor: warm up, hold, fall along a cosine from 35 % on."""
        p = begin + min(self.progress, 1.0) * (end - begin)
        fall = max(0.0, (p - 0.35) / 0.65)
        return min(1.0, (self.step + 1) / 150 if begin == 0 else 1.0) * (0.015 + 0.985 * 0.5 * (1 + math.cos(math.pi * fall)))


def orthogonal(g: Tensor) -> Tensor:
    """The nearest matrix with singular values about 1 (Newton-Schulz); [k, rows, columns]."""
    x = g.bfloat16() if g.is_cuda else g.float()
    if tall := x.shape[1] > x.shape[2]:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.mT if tall else x).float()


class Optimiser:
    """Muon for the matrices inside, AdamW for the rest; one flat gradient, averaged over ranks; a running mean (EMA)."""

    def __init__(self, ranks: Ranks, modules: list[torch.nn.Module], outer: tuple[str, ...], muon: float, adam: float, ema: float):
        self.ranks, self.rates, self.decay, self.count = ranks, (muon, adam), ema, 0
        named = [(n, p) for m in modules for n, p in m.named_parameters() if p.requires_grad]
        self.params = [p for _, p in named]
        self.flat = torch.zeros(sum(p.numel() for p in self.params), device=ranks.device)
        at = 0
        for p in self.params:
            p.grad = self.flat[at : at + p.numel()].view_as(p)
            at += p.numel()
        inner = [(n, p) for n, p in named if p.dim() > 1 and min(p.flatten(1).shape) > 6 and not any(o in n for o in outer)]
        ids = {id(p) for _, p in inner}
        self.adam = torch.optim.AdamW(
            [p for p in self.params if id(p) not in ids], lr=adam, betas=(0.9, 0.98), weight_decay=0.0, fused=ranks.device.type == "cuda"
        )
        shapes: dict[tuple, list[Tensor]] = {}
        for _, p in inner:
            shapes.setdefault(tuple(p.flatten(1).shape), []).append(p)
        self.groups = [(ps, torch.zeros(len(ps), *shape, device=ranks.device)) for shape, ps in shapes.items()]
        self.ema = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def step(self, factor: float) -> None:
        self.count += 1
        self.ranks.mean(self.flat)
        self.flat.mul_((1.0 / (self.flat.norm() + 1e-6)).clamp(max=1.0))
        self.adam.param_groups[0]["lr"] = self.rates[1] * factor
        self.adam.step()
        for params, momentum in self.groups:
            g = torch.stack([p.grad.flatten(1) for p in params])
            momentum.lerp_(g, 0.05)
            update = orthogonal(torch.lerp(g, momentum, 0.95))
            update *= -self.rates[0] * factor * 0.2 * math.sqrt(max(update.shape[1:]))
            torch._foreach_add_(params, [u.view_as(p) for u, p in zip(update, params)])
        torch._foreach_lerp_(self.ema, self.params, 1 - min(self.decay, (1 + self.count) / (10 + self.count)))
        self.flat.zero_()

    def use_ema(self) -> None:
        for p, e in zip(self.params, self.ema):
            p.data.copy_(e)


# ---------------------------------------------------------------------------
# Autoencoder
# ---------------------------------------------------------------------------


class Pool:
    """A ring of drawn clips on the GPU; some are drawn anew before each batch."""

    def __init__(self, ranks: Ranks, capacity: int, seed: int):
        self.g = torch.Generator(device=ranks.device).manual_seed(seed * 1000 + ranks.rank)
        self.ranks, self.capacity, self.at = ranks, capacity, 0
        self.allowed = torch.tensor(world.combinations(), device=ranks.device)
        self.clips = torch.zeros(capacity, 3, world.FRAMES, world.SIZE, world.SIZE, dtype=torch.uint8, device=ranks.device)
        self.filled = 0

    def draw(self, count: int) -> None:
        clips = world.draw(world.choose(count, self.g, self.ranks.device, self.allowed))
        self.clips[self.at : self.at + count] = (clips * 255).round().byte()
        self.at = (self.at + count) % self.capacity
        self.filled = max(self.filled, self.at or self.capacity)

    def random(self, limit: int, count: int) -> Tensor:
        return torch.randint(limit, (count,), generator=self.g, device=self.ranks.device)

    def batch(self, count: int, frames: int, size: int) -> Tensor:
        """[count, 3, frames, size, size] in -1..1: windows of clips, or of single frames."""
        which = self.random(self.filled, count)
        if frames == 1:
            x = self.clips[which, :, self.random(world.FRAMES, count)].unsqueeze(2)
        else:
            x = self.clips[which]
        if size < world.SIZE:
            top, left = self.random(world.SIZE - size + 1, count).tolist(), self.random(world.SIZE - size + 1, count).tolist()
            x = torch.stack([c[..., a : a + size, b : b + size] for c, a, b in zip(x, top, left)])
        return x.float() / 127.5 - 1


def reconstruction_loss(out: Tensor, target: Tensor) -> Tensor:
    """L1 on values and on differences of neighbours (edges), more on colourful pixels (the thing) and on the first frame."""
    weight = 1 + 2 * (target.amax(1, keepdim=True) - target.amin(1, keepdim=True)) / 2
    if out.shape[2] > 1:
        first = torch.ones(1, 1, out.shape[2], 1, 1, device=out.device)
        first[:, :, 0] = 4
        weight = weight * first / first.mean()
    d = out - target
    loss = (weight * d.abs()).mean() + 2 * (weight * d.square()).mean()
    for a in (3, 4):
        w = weight.narrow(a, 1, weight.shape[a] - 1)
        loss = loss + 0.5 * (w * d.diff(dim=a).abs()).mean()
    return loss


def train_vae(ranks: Ranks, options) -> torch.nn.Module:
    torch.manual_seed(1)
    vae = new_vae(VAE_CONFIG).to(ranks.device)
    done = options.out / "work/vae.pt"
    if done.exists():
        vae.load_state_dict(torch.load(done, map_location=ranks.device))
        return vae.requires_grad_(False).eval()
    optimiser = Optimiser(ranks, [vae], ("conv_in", "conv_out", "quant_conv"), 2e-3, 1e-3, 0.997)
    size = 64 if options.smoke else 128
    stages = [  # name, seconds, frames, size, batch, clips drawn every 4 steps
        ("pictures", options.vae_pictures, 1, size * 2, 64, 16),
        ("parts of clips", options.vae_parts, world.FRAMES, size, 16, 16),
        ("clips", options.vae_clips, world.FRAMES, size * 2, 8, 8),
    ]
    total = sum(s[1] for s in stages)
    pool = Pool(ranks, 8 if options.smoke else 1536, seed=1)
    pool.draw(2 if options.smoke else 64)
    begin = 0.0
    noise = torch.Generator(device=ranks.device).manual_seed(ranks.rank)
    for name, seconds, frames, size, batch, fresh in stages:
        clock, end = Clock(ranks, seconds, options.smoke), begin + seconds / total
        if options.smoke:
            batch, fresh = 2, 2
        running = True
        while running:
            if clock.step % 4 == 0:
                pool.draw(fresh)
            x = pool.batch(batch, frames, size)
            mean, logvar = fast.encode(vae, x, ranks.dtype)
            z = mean + (0.5 * logvar).exp() * torch.randn(mean.shape, generator=noise, device=mean.device)
            kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar).mean()
            out = fast.decode(vae, z, ranks.dtype)
            loss = reconstruction_loss(out, x) + options.kl * kl
            loss.backward()
            optimiser.step(clock.factor(begin, end))
            running = clock.tick()
            if clock.step % (2 if options.smoke else 100) == 0 or not running:
                db = lambda a, b: -10 * ((a.clamp(-1, 1) - b) / 2).square().mean().log10().item()  # noqa: E731
                with torch.no_grad():
                    ranks.say(
                        f"vae {name}: step {clock.step} ({clock.progress:.0%}) loss {loss.item():.4f} kl {kl.item():.2f} "
                        f"std {mean.std().item():.2f} PSNR {db(out, x):.2f} dB, first frame {db(out[:, :, 0], x[:, :, 0]):.2f}, "
                        f"last {db(out[:, :, -1], x[:, :, -1]):.2f}"
                    )
        begin = end
    optimiser.use_ema()
    vae.requires_grad_(False).eval()
    if ranks.rank == 0:
        torch.save(vae.state_dict(), done)
    return vae


# ---------------------------------------------------------------------------
# Clips as latents and token ids
# ---------------------------------------------------------------------------


@torch.no_grad()
def encode_clips(ranks: Ranks, vae, tok, options) -> dict[str, Tensor]:
    """This rank's share of the clips, encoded once, with captions; sets the autoencoder's statistics."""
    count = options.clips // ranks.count
    g = torch.Generator(device=ranks.device).manual_seed(77 + ranks.rank)
    allowed = torch.tensor(world.combinations(), device=ranks.device)
    rng = random.Random(ranks.rank)
    latents = torch.empty(count, Z, 5, 16, 16, dtype=torch.float16, device=ranks.device)
    ids = torch.zeros(count, CAPTIONS, COLUMNS, dtype=torch.int16)
    counts = torch.zeros(count, CAPTIONS, dtype=torch.int16)
    squares, pixels, fit = [], 0, []
    step = 2 if options.smoke else 48
    for i in range(0, count, step):
        clips = world.choose(min(step, count - i), g, ranks.device, allowed)
        video = world.draw(clips) * 2 - 1
        latents[i : i + len(clips)] = fast.encode(vae, video, ranks.dtype)[0].half()
        if i < 12 * step:  # enough to measure by, and to fit the preview's colours
            z = latents[i : i + len(clips)].float()
            out = fast.decode(vae, z, ranks.dtype).clamp(-1, 1)
            squares.append(((out - video) / 2).square().mean((1, 3, 4)))
            cells = F.avg_pool3d(video[:, :, 1:], (4, 16, 16))
            cells = torch.cat([F.avg_pool2d(video[:, :, 0], 16).unsqueeze(2), cells], 2)
            fit.append((z.transpose(0, 1).flatten(1), cells.transpose(0, 1).flatten(1) / 2 + 0.5))
        rows = list(zip(*(getattr(clips, k).tolist() for k in ("thing", "colour", "scene", "motion", "size"))))
        texts = [world.caption(rng, *row) for row in rows for _ in range(CAPTIONS)]
        for j, encoding in enumerate(tok.encode_batch(texts)):
            row = encoding.ids[: COLUMNS - 2] if len(encoding.ids) < COLUMNS else encoding.ids[: COLUMNS - 2] + [1]
            ids[i + j // CAPTIONS, j % CAPTIONS, : len(row)] = torch.tensor(row, dtype=torch.int16)
            counts[i + j // CAPTIONS, j % CAPTIONS] = len(row)
    mean = ranks.mean(latents.float().mean((0, 2, 3, 4)))
    std = ranks.mean((latents.float() - mean.view(1, -1, 1, 1, 1)).square().mean((0, 2, 3, 4))).sqrt()
    vae.register_to_config(latents_mean=[round(v, 5) for v in mean.tolist()], latents_std=[round(v, 5) for v in std.tolist()])
    mean, std = (torch.tensor(v, device=ranks.device).view(-1, 1) for v in (vae.config.latents_mean, vae.config.latents_std))
    z, rgb = (torch.cat(v, 1) for v in zip(*fit))
    a = torch.cat([(z - mean) / std, torch.ones_like(z[:1])])
    solution = torch.linalg.lstsq(a.T.double().cpu(), rgb.T.double().cpu()).solution
    error = ranks.mean(torch.cat(squares).mean(0))
    db = (-10 * error.log10()).tolist()
    measured = {
        "clips": int(min(12 * step, count) * ranks.count),
        "psnr_db": round(-10 * math.log10(error.mean().item()), 2),
        "psnr_first_frame_db": round(db[0], 2),
        "psnr_last_frame_db": round(db[-1], 2),
        "latent_rgb_r2": round(1 - ((a.T.double().cpu() @ solution - rgb.T.double().cpu()).var() / rgb.double().cpu().var()).item(), 3),
    }
    ranks.say("autoencoder:", json.dumps(measured), "latents' std", [round(v, 2) for v in std.flatten().tolist()])
    return dict(
        latents=latents,
        ids=ids.to(ranks.device),
        counts=counts.to(ranks.device),
        mean=mean,
        std=std,
        preview=solution.float(),
        measured=measured,
    )


# ---------------------------------------------------------------------------
# Text encoder and transformer
# ---------------------------------------------------------------------------


def noise_levels(count: int, g: torch.Generator, device) -> Tensor:
    """Logit-normal for the most part, a quarter uniform, both shifted as the scheduler shifts."""
    s = torch.sigmoid(torch.randn(count, generator=g, device=device) * 1.1)
    s = torch.where(torch.rand(count, generator=g, device=device) < 0.25, torch.rand(count, generator=g, device=device), s)
    return SHIFT * s / (1 + (SHIFT - 1) * s)


def train_transformer(ranks: Ranks, data: dict, text, transformer, options) -> None:
    optimiser = Optimiser(
        ranks,
        [text, transformer],
        ("shared", "embed_tokens", "relative_attention_bias", "patch_embedding", "proj_out", "scale_shift", "time_embedder"),
        options.rate,
        options.rate / 2,
        0.9990,
    )
    clock = Clock(ranks, options.transformer, options.smoke)
    g = torch.Generator(device=ranks.device).manual_seed(5 + ranks.rank)
    random_ = lambda n: torch.rand(n, generator=g, device=ranks.device)  # noqa: E731
    size, full = len(data["latents"]), 2 if options.smoke else options.batch
    mean, std = data["mean"].view(1, -1, 1, 1, 1), data["std"].view(1, -1, 1, 1, 1)
    text.train()
    running, sums = True, torch.zeros(2, device=ranks.device)
    while running:
        # mostly clips; at times single pictures and shorter clips, four times as many of the former
        frames = 1 if clock.step % 12 == 5 else 3 if clock.step % 24 == 13 else 5
        batch = full * (4 if frames == 1 else 1)
        i = torch.randint(size, (batch,), generator=g, device=ranks.device)
        x0 = (data["latents"][i, :, :frames].float() - mean) / std
        way = torch.randint(CAPTIONS, (batch,), generator=g, device=ranks.device)
        ids, counts = data["ids"][i, way].long(), data["counts"][i, way].long()
        empty = random_(batch) < 0.1  # for guidance: the empty prompt is one end token
        ids = torch.where(empty[:, None], F.one_hot(torch.zeros_like(counts), COLUMNS), ids)
        counts = torch.where(empty, 1, counts)
        sigma = noise_levels(batch, g, ranks.device)
        clean = (random_(batch) < 0.25) & (frames > 1)
        noise = torch.randn(x0.shape, generator=g, device=ranks.device)
        mask = torch.ones(batch, 1, frames, 1, 1, device=ranks.device)
        mask[:, :, 0] = 1 - clean.float().view(-1, 1, 1, 1)
        level = sigma.view(-1, 1, 1, 1, 1) * mask
        x = (1 - level) * x0 + level * noise
        context = fast.encode_text(text, ids, counts)
        v = fast.denoise(transformer, x, sigma * 1000, clean, context, counts, ranks.dtype)
        loss = ((v - (noise - x0)).square() * mask).mean() / mask.mean()
        loss.backward()
        optimiser.step(clock.factor())
        if frames == 5:
            sums += torch.stack([loss.detach(), torch.ones_like(loss.detach())])
        running = clock.tick()
        if clock.step % (2 if options.smoke else 250) == 0 or not running:
            mean_loss = sums[0].item() / max(1, sums[1].item())
            ranks.say(f"transformer: step {clock.step} ({clock.progress:.0%}) loss {mean_loss:.4f}")
            if not math.isfinite(mean_loss):
                raise SystemExit("the loss is not a number")
            sums.zero_()
    optimiser.use_ema()


# ---------------------------------------------------------------------------
# The folder
# ---------------------------------------------------------------------------

ABOUT = {
    "format": "pt",
    "title": "Little World",
    "description": "A tiny text-and-image-to-video model of the Wan 2.2 TI2V architecture, trained from nothing by the "
    "Safelight project on clips it draws itself (packaging/lab/little-world).",
    "author": "the Safelight project",
    "license": "MIT OR Apache-2.0",
}


def export(folder: Path, vae, text, transformer, data: dict, dtype=torch.float16) -> None:
    import diffusers
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    write = lambda path, value: (folder / path).write_text(json.dumps(value, indent=2) + "\n")  # noqa: E731
    files = {
        "vae": (vae, "diffusion_pytorch_model.safetensors"),
        "transformer": (transformer, "diffusion_pytorch_model.safetensors"),
        "text_encoder": (text, "model.safetensors"),
    }
    for name, (module, file) in files.items():
        module.save_config(folder / name) if name != "text_encoder" else module.config.save_pretrained(folder / name)
        weights = {k: v.detach().cpu().to(dtype).contiguous() for k, v in module.state_dict().items()}
        if name == "text_encoder":  # as published: the shared table once, under its own name
            weights.pop("encoder.embed_tokens.weight", None)
        save_file(weights, folder / name / file, metadata={**ABOUT, "component": name})
        (folder / name / file).chmod(0o644)
    config = json.loads((folder / "text_encoder/config.json").read_text())
    config.update(architectures=["UMT5EncoderModel"], torch_dtype="float16", tie_word_embeddings=False)
    config.pop("dtype", None)
    write("text_encoder/config.json", config)
    diffusers.UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, num_train_timesteps=1000, flow_shift=SHIFT
    ).save_config(folder / "scheduler")
    write(
        "model_index.json",
        {
            "_class_name": "WanPipeline",
            "_diffusers_version": diffusers.__version__,
            "boundary_ratio": None,
            "expand_timesteps": True,
            "scheduler": ["diffusers", "UniPCMultistepScheduler"],
            "text_encoder": ["transformers", "UMT5EncoderModel"],
            "tokenizer": ["transformers", "PreTrainedTokenizerFast"],
            "transformer": ["diffusers", "WanTransformer3DModel"],
            "transformer_2": [None, None],
            "vae": ["diffusers", "AutoencoderKLWan"],
        },
    )
    preview = data["preview"].tolist()
    about = json.loads((world.HERE / "safelight.json").read_text())
    rounded = [[round(v, 5) for v in row] for row in preview]
    about["latent_rgb"] = {"factors": rounded[:-1], "bias": rounded[-1]}
    write("safelight.json", about)


def load(folder: Path, ranks: Ranks):
    from diffusers import AutoencoderKLWan, WanTransformer3DModel
    from transformers import UMT5EncoderModel

    kind = dict(torch_dtype=torch.float32)
    return (
        AutoencoderKLWan.from_pretrained(folder / "vae", **kind).to(ranks.device).requires_grad_(False).eval(),
        UMT5EncoderModel.from_pretrained(folder / "text_encoder", dtype=torch.float32).to(ranks.device),
        WanTransformer3DModel.from_pretrained(folder / "transformer", **kind).to(ranks.device),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--from", dest="start", type=Path, help="go on from this model; its autoencoder stays")
    parser.add_argument("--vae-pictures", type=float, default=45, help="seconds")
    parser.add_argument("--vae-parts", type=float, default=140, help="seconds")
    parser.add_argument("--vae-clips", type=float, default=130, help="seconds")
    parser.add_argument("--transformer", type=float, default=430, help="seconds")
    parser.add_argument("--clips", type=int, default=48000, help="clips to encode, over all GPUs")
    parser.add_argument("--batch", type=int, default=128, help="clips a step and GPU for the transformer")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="learning rate of the transformer")
    parser.add_argument("--kl", type=float, default=4e-4)
    parser.add_argument("--eager", action="store_true", help="do not compile")
    parser.add_argument("--smoke", type=int, metavar="STEPS", help="tiny batches, so many steps a phase")
    options = parser.parse_args()

    ranks = Ranks()
    fast.compiled["on"] = ranks.device.type == "cuda" and not options.eager
    torch._dynamo.config.cache_size_limit = 64
    (options.out / "work").mkdir(parents=True, exist_ok=True)
    model = options.out / "model"
    if ranks.rank == 0 and not (options.out / "work/tokenizer/tokenizer.json").exists():
        words.make(options.out / "work/tokenizer")
    if ranks.count > 1:
        dist.barrier()
    tok = words.load(options.out / "work/tokenizer")
    if options.start:
        vae, text, transformer = load(options.start, ranks)
    else:
        vae = train_vae(ranks, options)
        torch.manual_seed(2)
        text, transformer = new_text_encoder(words.table_size(tok)).to(ranks.device), new_transformer().to(ranks.device)
    for name, m in (("vae", vae), ("text encoder", text), ("transformer", transformer)):
        ranks.say(f"{name}: {sum(p.numel() for p in m.parameters()) / 1e6:.2f} M parameters")
    data = encode_clips(ranks, vae, tok, options)
    ranks.say(f"{len(data['latents']) * ranks.count} clips encoded")
    train_transformer(ranks, data, text, transformer, options)
    if ranks.rank == 0:
        words.copy(options.out / "work/tokenizer", model / "tokenizer")
        export(model, vae, text, transformer, data)
        (options.out / "work/autoencoder.json").write_text(json.dumps(data["measured"], indent=2) + "\n")
        ranks.say("wrote", model)
    if ranks.count > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
