"""Writes what the fuzz targets begin with into `seeds`: the fixtures of the tests in the forms of the targets, and words.

    python seeds.py
"""

import json
import struct
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIXTURES = ROOT / "tests/fixtures"

WORDS = {
    "safetensors": [
        '"__metadata__"', '"dtype"', '"shape"', '"data_offsets"', '"F32"', '"BF16"', '"F8_E4M3"', '"U8"', '"F4"', "[0,0]",
        '"format"', '"_quantization_metadata"', '"comfy_quant"', "18446744073709551615", "9223372036854775808",
        ".scale_weight", ".weight_scale", "scaled_fp8", "spiece_model", "patch_embedding.weight", "blocks.0.",
        "double_blocks.0.", "encoder.block.0.", "text_model.", "vision_model.", "decoder.conv_in.weight",
    ],
    "gguf": [
        "GGUF", "general.architecture", "general.alignment", "split.count", "comfy.gguf.orig_shape.", "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores", "tokenizer.ggml.model", "flux", "wan", "t5encoder", "llama", "blk.0.attn_norm.weight",
        "token_embd.weight", "\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff", "\\x09\\x00\\x00\\x00", "\\x08\\x00\\x00\\x00",
    ],
    "lora": [
        "lora_unet_", "lora_te1_", ".lora_down.weight", ".lora_up.weight", ".lora_A.weight", ".lora_B.weight", ".alpha",
        ".diff", ".diff_b", ".diff_m", ".dora_scale", ".hada_w1_a", ".hada_w1_b", ".hada_w2_a", ".hada_w2_b", ".lokr_w1",
        ".lokr_w1_a", ".lokr_w1_b", ".lokr_w2", ".lokr_w2_a", ".lokr_w2_b", "diffusion_model.", "transformer.", "---",
        "#lora_adapter_metadata", "#ss_network_args", "blocks_0_self_attn_q", "double_blocks.0.img_attn.qkv",
        "single_blocks.0.linear1", "18446744073709551615", "9223372036854775808", "4294967296", ",0,", "\\x09",
    ],
    "models": [
        "[[model]]", "[shared.a]", "[source.a]", "id = ", "family = ", "variant = ", "defaults = ", "limits", "latent_rgb",
        "presets", "shape", "sources = ", "shared = ", "repository = ", "download_bytes = ", "component = ", "folder = ",
        "'''", '\\"\\"\\"', "inf", "nan", "0xffffffffffffffff", "1979-05-27T07:32:00Z", "wan", "flux", "little-world",
    ],
    "media": [
        "IHDR", "tEXt", "iTXt", "zTXt", "eXIf", "acTL", "fdAT", "parameters", "workflow", "Exif\\x00\\x00", "JFIF", "RIFF",
        "WEBP", "VP8X", "EXIF", "ANMF", "GIF89a", "NETSCAPE2.0", "ftyp", "moov", "moof", "trak", "stbl", "stsd", "avc1",
        "avcC", "hvc1", "stco", "co64", "stsz", "ctts", "elst", "udta", "ilst", "\\x1a\\x45\\xdf\\xa3",
        "\\xff\\xff\\xff\\xff",
    ],
}  # fmt: skip


def put(target: str, number: int, content: bytes) -> None:
    folder = HERE / "seeds" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number:03}").write_bytes(content)


def header(shapes: dict[str, list[int]]) -> tuple[str, int]:
    """The header of bf16 tensors, and the bytes of their data."""
    entries, start = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        end = start + 2
        for size in shape:
            end = start + (end - start) * size
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
        start = end
    return json.dumps(entries), start


def lines(shapes: dict[str, list[int]]) -> str:
    return "\n".join(f"{name}\t{','.join(map(str, shape))}" for name, shape in shapes.items())


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(architecture: str, tensors: dict[str, tuple[list[int], int, int]]) -> bytes:
    """A GGUF file with a value of every type; tensors are sizes (innermost first), type and bytes."""
    entries = [
        text("general.architecture") + struct.pack("<I", 8) + text(architecture),
        text("general.alignment") + struct.pack("<II", 4, 32),
        text(f"{architecture}.attention.head_count") + struct.pack("<IQ", 10, 4),
        text("a.float") + struct.pack("<If", 6, 1e-5),
        text("a.double") + struct.pack("<Id", 12, 1e-5),
        text("a.flag") + struct.pack("<IB", 7, 1),
        text("a.signed") + struct.pack("<Iq", 11, -3),
        text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("gpt2"),
        text("tokenizer.ggml.pre") + struct.pack("<I", 8) + text("llama-bpe"),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 3) + text("a") + text("b") + text("ab"),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ3f", 9, 6, 3, 0, -1, -2),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ3i", 9, 5, 3, 1, 1, 3),
    ]
    first = next(iter(tensors))
    sizes = tensors[first][0][::-1]
    original = struct.pack(f"<IIQ{len(sizes)}q", 9, 11, len(sizes), *sizes)
    entries.append(text(f"comfy.gguf.orig_shape.{first}") + original)
    infos, data = b"", b""
    for name, (sizes, kind, size) in tensors.items():
        infos += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += bytes(size + -size % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + infos
    return head + bytes(-len(head) % 32) + data


GGUF_FILES = [
    ("llama", {"token_embd.weight": ([32, 3], 8, 102), "blk.0.attn_norm.weight": ([32], 0, 128), "blk.0.attn_q.weight": ([256, 1], 12, 144)}),
    ("t5encoder", {"token_embd.weight": ([32, 3], 1, 192), "enc.blk.0.attn_rel_b.weight": ([4, 32], 0, 512)}),
    ("flux", {"double_blocks.0.img_attn.qkv.weight": ([256, 3], 13, 528), "img_in.weight": ([64, 4], 30, 512)}),
    ("wan", {"patch_embedding.weight": ([2, 2, 1, 16, 4], 0, 1024), "blocks.0.self_attn.q.weight": ([256, 2], 14, 420)}),
]  # fmt: skip


def main() -> None:
    files = sorted(FIXTURES.rglob("*.safetensors"))
    for number, path in enumerate(files):
        whole = path.read_bytes()
        end = 8 + int.from_bytes(whole[:8], "little")
        size = (len(whole) - end).to_bytes(8, "little")
        put("safetensors", number, b"\1" + size + whole[8:end])
        if len(whole) < 8192:
            put("safetensors", 500 + number, b"\0" + whole)
    for number, (name, shapes) in enumerate(json.loads((FIXTURES / "headers/flux.json").read_text()).items()):
        if isinstance(shapes, dict) and all(isinstance(shape, list) for shape in shapes.values()):
            text, size = header(shapes)
            put("safetensors", 900 + number, b"\1" + size.to_bytes(8, "little") + text.encode())
    for number, path in enumerate(sorted(FIXTURES.rglob("*.gguf"))):
        put("gguf", number, b"\0\0" + path.read_bytes())
    for number, (architecture, tensors) in enumerate(GGUF_FILES):
        put("gguf", 500 + number, b"\0\0" + gguf(architecture, tensors))
    forms = json.loads((FIXTURES / "lora/forms.json").read_text())["forms"]
    flux = {
        "double_blocks.0.img_attn.qkv.weight": [192, 64],
        "double_blocks.0.img_attn.qkv.bias": [192],
        "single_blocks.0.linear1.weight": [448, 64],
        "single_blocks.0.linear2.weight": [64, 320],
        "single_blocks.0.modulation.lin.weight": [192, 64],
    }
    wan = {f"blocks.0.self_attn.{name}.weight": [64, 64] for name in "qkvo"} | {"blocks.0.ffn.0.weight": [128, 64]}
    parted = {f"transformer_blocks.0.attn.{name}.weight": [64, 64] for name in ("to_q", "to_k", "to_v", "to_out.0")}
    parted |= {f"transformer_blocks.0.attn.{name}.bias": [64] for name in ("to_q", "to_k", "to_v")}
    clip = {f"encoder.layers.0.self_attn.{name}_proj.weight": [64, 64] for name in ("q", "k", "v", "out")}
    t5 = {f"encoder.block.0.layer.0.SelfAttention.{name}.weight": [64, 64] for name in "qkvo"}
    for number, model in enumerate((parted, clip, t5)):
        layers = [name.removesuffix(".weight") for name in model if name.endswith(".weight")]
        lora = {f"{layer}.lora_A.weight": [2, 64] for layer in layers} | {f"{layer}.lora_B.weight": [64, 2] for layer in layers}
        put("lora", 500 + number, f"{lines(lora)}\n---\n{lines(model)}\n".encode())
    for number, (name, shapes) in enumerate(forms.items()):
        model = flux if name.startswith("flux") else wan
        some = dict(list(shapes.items())[:12])
        note = '#lora_adapter_metadata\t{"transformer.r": 4, "transformer.lora_alpha": 3}\n'
        put("lora", number, f"{note}{lines(some)}\n---\n{lines(model)}\n".encode())
    text = (ROOT / "models.toml").read_text()
    put("models", 0, text.encode())
    for number, part in enumerate(text.split("\n\n")):
        put("models", 1 + number, part.encode())
    # In the order of the endings in `targets/media.rs`.
    endings = [".png", ".jpg", ".webp", ".gif", ".mp4", ".mov", ".webm", ".tiff", ".bmp"]
    media = [*(FIXTURES / "media").iterdir(), *(ROOT / "src/core/media/source/tests/clips").iterdir()]
    for number, path in enumerate(sorted(path for path in media if path.suffix in endings)):
        put("media", number, bytes([endings.index(path.suffix)]) + path.read_bytes())
    for target, words in WORDS.items():
        plain = [word if "\\" in word else word.replace('"', '\\"') for word in words]
        (HERE / "seeds" / f"{target}.dict").write_text("".join(f'"{word}"\n' for word in plain))


if __name__ == "__main__":
    main()
