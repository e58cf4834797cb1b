"""The same mathematics as diffusers' AutoencoderKLWan and WanTransformer3DModel, arranged for training.

The modules and their weights stay diffusers' own; only the order of work differs:

* The autoencoder goes over all frames at once instead of chunk by chunk with a
  cache. A causal convolution over frames is a 2-D convolution over three
  neighbouring frames stacked as channels, which the GPU is far better at.
* The transformer computes its modulation for the two timesteps that occur (the
  clip's, and 0 for a given first frame) instead of for every token, and attends
  to as many text tokens as there are: the zeros up to 512 are all one key, so a
  bias of log(how many) on it gives the very same attention.

`python fast.py` compares all of it with diffusers (float32, CPU).
Layout here: [n, frames, height, width, channels].
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

TEXT_LENGTH = 512  # what the pipeline pads prompts to

compiled = {"on": False}  # set by train.py on a GPU


# ---------------------------------------------------------------------------
# Autoencoder
# ---------------------------------------------------------------------------


def _norm_silu(x: Tensor, gamma: Tensor) -> Tensor:
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).sum(-1, keepdim=True).clamp(min=1e-24)) * (gamma.flatten() * math.sqrt(x.shape[-1]))
    return F.silu(y).to(x.dtype)


def _norm_silu_past(x: Tensor, gamma: Tensor) -> Tensor:
    return past(_norm_silu(x, gamma))


_norm_silu_compiled = torch.compile(_norm_silu, dynamic=True)
_norm_silu_past_compiled = torch.compile(_norm_silu_past, dynamic=True)


def conv2d(x: Tensor, weight: Tensor, bias: Tensor, **options) -> Tensor:
    n, t = x.shape[:2]
    weight = weight.to(x.dtype).contiguous(memory_format=torch.channels_last)
    y = F.conv2d(x.flatten(0, 1).permute(0, 3, 1, 2), weight, bias.to(x.dtype), **options)
    return y.permute(0, 2, 3, 1).unflatten(0, (n, t))


def linear(x: Tensor, conv) -> Tensor:
    return F.linear(x, conv.weight.flatten(1).to(x.dtype), conv.bias.to(x.dtype))


def past(x: Tensor) -> Tensor:
    """Each frame with its two predecessors (zeros before the first) as channels, oldest first."""
    padded = F.pad(x, (0, 0, 0, 0, 0, 0, 2, 0))
    return torch.cat([padded[:, :-2], padded[:, 1:-1], x], -1)


def causal(x: Tensor, conv) -> Tensor:
    """WanCausalConv3d of kernel 3."""
    if x.shape[1] == 1:
        return conv2d(x, conv.weight[:, :, 2], conv.bias, padding=1)
    return conv2d(past(x), conv.weight.transpose(1, 2).flatten(1, 2), conv.bias, padding=1)


def normed_causal(x: Tensor, norm, conv) -> Tensor:
    """Norm, SiLU and causal convolution; the first two and the stacking are one kernel when compiled."""
    if x.shape[1] == 1:
        y = (_norm_silu_compiled if compiled["on"] else _norm_silu)(x, norm.gamma)
        return conv2d(y, conv.weight[:, :, 2], conv.bias, padding=1)
    y = (_norm_silu_past_compiled if compiled["on"] else _norm_silu_past)(x, norm.gamma)
    return conv2d(y, conv.weight.transpose(1, 2).flatten(1, 2), conv.bias, padding=1)


def over_time(x: Tensor, conv) -> Tensor:
    """A (3, 1, 1) convolution of frames already stacked by three."""
    return F.linear(x, conv.weight[..., 0, 0].transpose(1, 2).flatten(1).to(x.dtype), conv.bias.to(x.dtype))


def residual(x: Tensor, block) -> Tensor:
    h = x if isinstance(block.conv_shortcut, torch.nn.Identity) else linear(x, block.conv_shortcut)
    y = normed_causal(x, block.norm1, block.conv1)
    return normed_causal(y, block.norm2, block.conv2) + h


def attention(x: Tensor, block) -> Tensor:
    n, t, h, w, c = x.shape
    y = F.normalize(x.float(), dim=-1) * (math.sqrt(c) * block.norm.gamma.flatten())
    q, k, v = linear(y.to(x.dtype).view(n * t, 1, h * w, c), block.to_qkv).chunk(3, -1)
    y = F.scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous())
    return linear(y.view(n, t, h, w, c), block.proj) + x


def middle(x: Tensor, block) -> Tensor:
    return residual(attention(residual(x, block.resnets[0]), block.attentions[0]), block.resnets[1])


def average_down(x: Tensor, m) -> Tensor:
    x = F.pad(x, (0, 0, 0, 0, 0, 0, -x.shape[1] % m.factor_t, 0))
    n, t, h, w, c = x.shape
    x = x.view(n, t // m.factor_t, m.factor_t, h // m.factor_s, m.factor_s, w // m.factor_s, m.factor_s, c)
    x = x.permute(0, 1, 3, 5, 7, 2, 4, 6).flatten(4)
    return x.unflatten(4, (m.out_channels, m.group_size)).mean(-1)


def duplicate_up(x: Tensor, m) -> Tensor:
    x = x.repeat_interleave(m.repeats, -1).unflatten(-1, (m.out_channels, m.factor_t, m.factor_s, m.factor_s))
    x = x.permute(0, 1, 5, 2, 6, 3, 7, 4).flatten(5, 6).flatten(3, 4).flatten(1, 2)
    return x[:, m.factor_t - 1 :]


def resample(x: Tensor, m) -> Tensor:
    conv = m.resample[1]
    if m.mode.startswith("down"):
        x = conv2d(F.pad(x, (0, 0, 0, 1, 0, 1)), conv.weight, conv.bias, stride=2)
        if m.mode == "downsample3d" and x.shape[1] > 1:  # the first frame goes through as it is
            rest = torch.cat([x[:, 0:-2:2], x[:, 1:-1:2], x[:, 2::2]], -1)
            x = torch.cat([x[:, :1], over_time(rest, m.time_conv)], 1)
        return x
    if m.mode == "upsample3d" and x.shape[1] > 1:  # and comes back as one
        rest = over_time(past(x[:, 1:]), m.time_conv)
        rest = rest.unflatten(-1, (2, x.shape[-1])).permute(0, 1, 4, 2, 3, 5).flatten(1, 2)
        x = torch.cat([x[:, :1], rest], 1)
    n, t, h, w, c = x.shape
    x = x.view(n, t, h, 1, w, 1, c).expand(n, t, h, 2, w, 2, c).reshape(n, t, 2 * h, 2 * w, c)
    return conv2d(x, conv.weight, conv.bias, padding=1)


def encode(vae, video: Tensor, dtype=None) -> tuple[Tensor, Tensor]:
    """Video [n, 3, frames, h, w] in -1..1 to mean and log variance [n, z, f, h/16, w/16]."""
    p = vae.config.patch_size
    n, c, t, h, w = video.shape
    x = video.view(n, c, t, h // p, p, w // p, p).permute(0, 2, 3, 5, 1, 6, 4).flatten(4).to(dtype or video.dtype)
    e = vae.encoder
    x = causal(x, e.conv_in)
    for block in e.down_blocks:
        y = x
        for r in block.resnets:
            y = residual(y, r)
        if block.downsampler is not None:
            y = resample(y, block.downsampler)
        x = y + average_down(x, block.avg_shortcut)
    x = middle(x, e.mid_block)
    x = linear(normed_causal(x, e.norm_out, e.conv_out), vae.quant_conv)
    mean, logvar = x.float().permute(0, 4, 1, 2, 3).chunk(2, 1)
    return mean, logvar.clamp(-30, 20)


def decode(vae, z: Tensor, dtype=None) -> Tensor:
    """Latents [n, z, f, h, w] (not normalised) to video in -1..1, not clamped."""
    d, p = vae.decoder, vae.config.patch_size
    x = linear(z.permute(0, 2, 3, 4, 1).to(dtype or z.dtype), vae.post_quant_conv)
    x = middle(causal(x, d.conv_in), d.mid_block)
    for block in d.up_blocks:
        y = x
        for r in block.resnets:
            y = residual(y, r)
        if block.upsampler is not None:
            y = resample(y, block.upsampler)
        x = y if block.avg_shortcut is None else y + duplicate_up(x, block.avg_shortcut)
    x = normed_causal(x, d.norm_out, d.conv_out).float()
    n, t, h, w, c = x.shape
    return x.view(n, t, h, w, c // (p * p), p, p).permute(0, 4, 1, 2, 6, 3, 5).reshape(n, c // (p * p), t, h * p, w * p)


# ---------------------------------------------------------------------------
# Transformer
# ---------------------------------------------------------------------------


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


def _block(x, clean, at_t, at_0, text, bias, cos, sin, heads: int, eps: float, w: dict[str, Tensor]):
    """One WanTransformerBlock. x [n, s, d]; clean [n, s, 1] marks tokens of a given frame."""
    table = w["scale_shift_table"][0]

    def modulation(i):
        return torch.where(clean, (table[i] + at_0[:, i]).unsqueeze(1), (table[i] + at_t[:, i]).unsqueeze(1))

    def lin(name, y):
        return F.linear(y, w[name + ".weight"].to(y.dtype), w[name + ".bias"].to(y.dtype))

    def split(y):
        return y.unflatten(2, (heads, -1)).transpose(1, 2)

    def rms(name, y):
        return (F.rms_norm(y.float(), y.shape[-1:], eps=eps) * w[name + ".weight"]).to(y.dtype)

    d = x.shape[-1:]
    dtype = text.dtype
    y = (F.layer_norm(x, d, eps=eps) * (1 + modulation(1)) + modulation(0)).to(dtype)
    q = rotate(split(rms("attn1.norm_q", lin("attn1.to_q", y))), cos, sin)
    k = rotate(split(rms("attn1.norm_k", lin("attn1.to_k", y))), cos, sin)
    y = F.scaled_dot_product_attention(q, k, split(lin("attn1.to_v", y))).transpose(1, 2).flatten(2)
    x = x + lin("attn1.to_out.0", y).float() * modulation(2)

    y = (F.layer_norm(x, d, w["norm2.weight"], w["norm2.bias"], eps)).to(dtype)
    q = split(rms("attn2.norm_q", lin("attn2.to_q", y)))
    k = split(rms("attn2.norm_k", lin("attn2.to_k", text)))
    y = F.scaled_dot_product_attention(q, k, split(lin("attn2.to_v", text)), attn_mask=bias).transpose(1, 2).flatten(2)
    x = x + lin("attn2.to_out.0", y).float()

    y = (F.layer_norm(x, d, eps=eps) * (1 + modulation(4)) + modulation(3)).to(dtype)
    y = lin("ffn.net.2", F.gelu(lin("ffn.net.0.proj", y), approximate="tanh"))
    return x + y.float() * modulation(5)


_block_compiled = torch.compile(_block, dynamic=False)


def text_bias(counts: Tensor, columns: int, dtype) -> Tensor:
    """The attention bias that lets `columns` keys stand for 512: the columns past a prompt's end are
    all the same key and share the weight of its 512 - count zeros."""
    column = torch.arange(columns, device=counts.device)
    spare = torch.log((TEXT_LENGTH - counts) / (columns - counts))
    return torch.where(column[None] < counts[:, None], 0.0, spare[:, None]).to(dtype)[:, None, None, :]


def denoise(model, x: Tensor, t: Tensor, clean_first: Tensor, text: Tensor, counts: Tensor, dtype=torch.float32) -> Tensor:
    """WanTransformer3DModel with one value of `t` [n] a clip and 0 in the first latent frame where
    `clean_first` [n]; text [n, columns, width] is zero from `counts` [n] on, with counts < columns."""
    n, _, f, h, w = x.shape
    c = model.config
    heads, embed = c.num_attention_heads, model.condition_embedder
    cos, sin = model.rope(x)
    cos, sin = (m[0, :, 0, ::2].float() for m in (cos, sin))

    tokens = F.conv3d(x.to(dtype), model.patch_embedding.weight.to(dtype), model.patch_embedding.bias.to(dtype), stride=(1, 2, 2))
    tokens = tokens.flatten(2).transpose(1, 2).float()
    clean = (torch.arange(tokens.shape[1], device=x.device) < tokens.shape[1] // f)[None, :, None] & clean_first.view(-1, 1, 1)

    both = embed.time_embedder(embed.timesteps_proj(torch.cat([t, t.new_zeros(1)])).float())  # n at t, then one at 0
    six = embed.time_proj(F.silu(both)).float().unflatten(1, (6, -1))
    text = embed.text_embedder(text).to(dtype)
    bias = text_bias(counts, text.shape[1], dtype)
    run = _block_compiled if compiled["on"] else _block
    for block in model.blocks:
        tokens = run(tokens, clean, six[:n], six[n:], text, bias, cos, sin, heads, c.eps, dict(block.named_parameters()))

    shift, scale = (
        torch.where(clean, (table + both[n:]).unsqueeze(1), (table + both[:n]).unsqueeze(1))
        for table in model.scale_shift_table[0]
    )
    y = F.layer_norm(tokens, tokens.shape[-1:], eps=c.eps) * (1 + scale) + shift
    y = F.linear(y.to(dtype), model.proj_out.weight.to(dtype), model.proj_out.bias.to(dtype)).float()
    y = y.view(n, f, h // 2, w // 2, 2, 2, -1).permute(0, 6, 1, 2, 4, 3, 5)
    return y.reshape(n, -1, f, h, w)


def encode_text(encoder, ids: Tensor, counts: Tensor) -> Tensor:
    mask = torch.arange(ids.shape[1], device=ids.device) < counts[:, None]
    return encoder(ids, attention_mask=mask).last_hidden_state * mask.unsqueeze(-1)


# ---------------------------------------------------------------------------


def compare() -> None:
    import train

    torch.manual_seed(0)
    vae, transformer, text = train.new_vae(train.VAE_CONFIG), train.new_transformer(), train.new_text_encoder(400)
    for m in (vae, transformer, text):
        m.eval()
        for p in m.parameters():  # nothing may hide behind zeros
            torch.nn.init.normal_(p, std=0.08) if p.dim() > 1 else p.data.add_(torch.randn_like(p) * 0.1)
    with torch.no_grad():
        for frames in (1, 9, 17):
            video = torch.rand(2, 3, frames, 64, 96) * 2 - 1
            mean, _ = encode(vae, video)
            theirs = vae.encode(video).latent_dist.mean
            z = torch.randn_like(mean)
            ours, reference = decode(vae, z).clamp(-1, 1), vae.decode(z).sample
            print(f"{frames} frames: encode {error(mean, theirs):.1e}, decode {error(ours, reference):.1e}")
        ids, counts = torch.randint(4, 300, (3, 24)), torch.tensor([23, 5, 1])
        full = torch.nn.functional.pad(ids, (0, TEXT_LENGTH - 24))
        mask = torch.arange(TEXT_LENGTH) < counts[:, None]
        reference = text(full * mask, attention_mask=mask).last_hidden_state * mask.unsqueeze(-1)
        ours = encode_text(text, ids, counts)
        print(f"text: {error(ours, reference[:, :24]):.1e}")
        x, t, clean = torch.randn(3, train.Z, 3, 8, 12), torch.tensor([900.0, 400.0, 20.0]), torch.tensor([True, False, True])
        per_token = t[:, None].repeat(1, 3 * 4 * 6)
        per_token[clean, : 4 * 6] = 0
        theirs = transformer(x, per_token, reference, return_dict=False)[0]
        print(f"transformer: {error(denoise(transformer, x, t, clean, ours, counts), theirs):.1e}")


def error(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


if __name__ == "__main__":
    compare()
