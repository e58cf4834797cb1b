"""Writes what the fuzz targets begin with into `seeds`: the fixtures of the tests in the forms of the targets, and words.

    python seeds.py
"""

import json
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
    forms = json.loads((FIXTURES / "lora/forms.json").read_text())["forms"]
    flux = {
        "double_blocks.0.img_attn.qkv.weight": [192, 64],
        "double_blocks.0.img_attn.qkv.bias": [192],
        "single_blocks.0.linear1.weight": [448, 64],
        "single_blocks.0.linear2.weight": [64, 320],
        "single_blocks.0.modulation.lin.weight": [192, 64],
    }
    wan = {f"blocks.0.self_attn.{name}.weight": [64, 64] for name in "qkvo"} | {"blocks.0.ffn.0.weight": [128, 64]}
    for number, (name, shapes) in enumerate(forms.items()):
        model = flux if name.startswith("flux") else wan
        some = dict(list(shapes.items())[:12])
        note = '#lora_adapter_metadata\t{"transformer.r": 4, "transformer.lora_alpha": 3}\n'
        put("lora", number, f"{note}{lines(some)}\n---\n{lines(model)}\n".encode())
    text = (ROOT / "models.toml").read_text()
    put("models", 0, text.encode())
    for number, part in enumerate(text.split("\n\n")):
        put("models", 1 + number, part.encode())
    for target, words in WORDS.items():
        plain = [word if "\\" in word else word.replace('"', '\\"') for word in words]
        (HERE / "seeds" / f"{target}.dict").write_text("".join(f'"{word}"\n' for word in plain))


if __name__ == "__main__":
    main()
