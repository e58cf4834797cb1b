"""Writes the files in `corpus` that are made from the fixtures of the tests: sound ones, and some with planted damage.

    python corpus.py

Files that a fuzzer found lie beside them and stay (their names begin with `found-`). Needs nothing but Python.
"""

import json
import struct
import zipfile
import zlib
from base64 import urlsafe_b64encode
from hashlib import sha256
from io import BytesIO
from math import prod
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIXTURES = ROOT / "tests/fixtures"
MAX_BYTES = 8 << 10
# Of one kind of file, those with the first names.
MAX_FILES = 20


def put(target: str, name: str, content: bytes | str, most: int = MAX_BYTES) -> None:
    content = content.encode() if isinstance(content, str) else content
    if len(content) <= most:
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(architecture: str, tensors: dict[str, tuple[list[int], int, int]]) -> bytes:
    """The header of a GGUF file with a value of every type; tensors are sizes (innermost first), type and bytes."""
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
    infos, start = b"", 0
    for name, (sizes, kind, size) in tensors.items():
        infos += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, start)
        start += size + -size % 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + infos
    return head + bytes(-len(head) % 32)


GGUF_FILES = [
    ("llama", {"token_embd.weight": ([32, 3], 8, 102), "blk.0.attn_norm.weight": ([32], 0, 128), "blk.0.attn_q.weight": ([256, 1], 12, 144)}),
    ("t5encoder", {"token_embd.weight": ([32, 3], 1, 192), "enc.blk.0.attn_rel_b.weight": ([4, 32], 0, 512)}),
    ("flux", {"double_blocks.0.img_attn.qkv.weight": ([256, 3], 13, 528), "img_in.weight": ([64, 4], 30, 512)}),
    ("wan", {"patch_embedding.weight": ([2, 2, 1, 16, 4], 0, 1024), "blocks.0.self_attn.q.weight": ([256, 2], 14, 420)}),
]  # fmt: skip


def weights() -> None:
    for path in sorted(FIXTURES.rglob("*.safetensors")):
        whole = path.read_bytes()
        end = 8 + int.from_bytes(whole[:8], "little")
        name = "-".join(path.relative_to(FIXTURES).with_suffix("").parts)
        put("safetensors", name, whole)
        # The largest headers say nothing that smaller ones do not.
        if end < 3000:
            put("safetensors-header", name, f"{len(whole) - end}\n".encode() + whole[8:end])
    sound = b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    whole = struct.pack("<Q", len(sound)) + sound + bytes(16)
    for name, damaged in {
        "no-header": b"",
        "cut": whole[:30],
        "length-of-all": b"\xff" * 8 + whole[8:],
        "length-negative": b"\x00" * 7 + b"\x80" + whole[8:],
        "offsets-backwards": whole.replace(b"[0,16]", b"[16,0]"),
        "offsets-huge": whole.replace(b"[0,16]", b"[0,18446744073709551615]"),
        "shape-overflows": whole.replace(b"[2,2]", b"[4294967296,4294967296]"),
        "type-unknown": whole.replace(b"F32", b"F99"),
        "twice": whole.replace(b'{"a"', b'{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a"'),
    }.items():
        put("safetensors", "damaged-" + name, damaged)
    for number, (architecture, tensors) in enumerate(GGUF_FILES):
        whole = gguf(architecture, tensors)
        put("gguf", architecture, whole)
        put("gguf", f"damaged-{number}-cut", whole[: len(whole) * 2 // 3])
        put("gguf", f"damaged-{number}-counts", whole[:8] + b"\xff" * 16 + whole[24:])
        put("gguf", f"damaged-{number}-lengths", whole.replace(struct.pack("<Q", 3), struct.pack("<Q", 1 << 61)))


def finishing() -> None:
    """Headers of the networks for finished pictures and clips: the smaller ones whole, and one of each kind damaged."""
    for place in ("finish/upscalers", "rife/shapes"):
        for name, shapes in json.loads((FIXTURES / f"{place}.json").read_text()).items():
            if name in ("body_x1", "body_x2", "trunk", "4.12.lite", "4.22", "4.26.heavy"):
                continue  # The others have what these have.
            header, end = {}, 0
            for tensor, sizes in shapes.items():
                start, end = end, end + 4 * prod(sizes)
                header[tensor] = {"dtype": "F32", "shape": sizes, "data_offsets": [start, end]}
            whole = json.dumps(header, separators=(",", ":"))
            put("safetensors-header", f"{place.split('/')[0]}-{name}", f"{end}\n{whole}", 3 * MAX_BYTES)
            if name in ("compact", "span_plain", "4.6"):
                put("safetensors-header", f"{place.split('/')[0]}-{name}-damaged", f"{end}\n" + whole.replace(",3,3]", ",0,3]", 3).replace("[8,", "[4611686018427387904,", 2), 3 * MAX_BYTES)


def lines(shapes: dict[str, list[int]]) -> str:
    return "\n".join(f"{name}\t{','.join(map(str, shape))}" for name, shape in shapes.items())


# What else has LoRAs: layers of its transformer in the names with which readers ask, what a LoRA's keys begin with, and
# the outputs and inputs of the layers that it changes, in that tool's names.
FAMILY_LORAS = {
    "chroma": (
        {"img_in.weight": [64, 16], "double_blocks.0.img_attn.proj.weight": [64, 64], "double_blocks.0.img_attn.qkv.weight": [192, 64], "single_blocks.0.linear1.weight": [448, 64], "single_blocks.0.linear2.weight": [64, 320], "distilled_guidance_layer.layers.0.in_layer.weight": [32, 32], "distilled_guidance_layer.norms.0.scale": [32]},
        "lora_unet_",
        {"double_blocks.0.img_attn.qkv": (192, 64), "single_blocks.0.linear1": (448, 64), "distilled_guidance_layer.layers.0.in_layer": (32, 32)},
    ),
    "flux2": (
        {"img_in.weight": [64, 128], "double_stream_modulation_img.lin.weight": [384, 64], "double_blocks.0.img_attn.proj.weight": [64, 64], "double_blocks.0.img_attn.qkv.weight": [192, 64], "single_blocks.0.linear1.weight": [576, 64], "single_blocks.0.linear2.weight": [64, 256]},
        "transformer.",
        {"transformer_blocks.0.attn.to_q": (64, 64), "transformer_blocks.0.attn.to_out.0": (64, 64), "single_transformer_blocks.0.attn.to_qkv_mlp_proj": (576, 64), "double_stream_modulation_img.linear": (384, 64)},
    ),
    "flux2.parted": (
        {"img_in.weight": [64, 128], "double_blocks.0.img_attn.proj.weight": [64, 64]} | {f"double_blocks.0.img_attn.qkv.{part}.weight": [64, 64] for part in "qkv"},
        "diffusion_model.",
        {"double_blocks.0.img_attn.qkv": (192, 64), "double_blocks.0.img_attn.proj": (64, 64)},
    ),
    "krea2": (
        {"first.weight": [64, 16], "blocks.0.prenorm.scale": [64], "txtfusion.layerwise_blocks.0.prenorm.scale": [32]} | {f"blocks.0.attn.heads.{part}.weight": [size, 64] for part, size in (("q", 64), ("k", 16), ("v", 16), ("gate", 64))},
        "transformer.",
        {"transformer_blocks.0.attn.to_q": (64, 64), "transformer_blocks.0.attn.to_k": (16, 64), "transformer_blocks.0.attn.to_gate": (64, 64)},
    ),
    "qwen_image": (
        {"img_in.weight": [64, 64], "double_blocks.0.img_attn.proj.weight": [64, 64], "double_blocks.0.img_mlp.0.weight": [256, 64]} | {f"double_blocks.0.img_attn.qkv.{part}.{end}": sizes for part in "qkv" for end, sizes in (("weight", [64, 64]), ("bias", [64]))},
        "transformer.",
        {"transformer_blocks.0.attn.to_v": (64, 64), "transformer_blocks.0.attn.to_out.0": (64, 64), "transformer_blocks.0.img_mlp.net.0.proj": (256, 64)},
    ),
    "z_image": (
        {"x_embedder.weight": [64, 64], "layers.0.attention_norm1.weight": [64], "layers.0.attention.qkv.weight": [192, 64], "layers.0.attention.out.weight": [64, 64], "noise_refiner.0.attention_norm1.weight": [64], "noise_refiner.0.feed_forward.w1.weight": [170, 64]},
        "diffusion_model.",
        {"layers.0.attention.to_k": (64, 64), "layers.0.attention.to_out.0": (64, 64), "noise_refiner.0.feed_forward.w1": (170, 64)},
    ),
}  # fmt: skip


def loras() -> None:
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
    for name, model in {"parted": parted, "clip": clip, "t5": t5}.items():
        layers = [layer.removesuffix(".weight") for layer in model if layer.endswith(".weight")]
        lora = {f"{layer}.lora_A.weight": [2, 64] for layer in layers} | {f"{layer}.lora_B.weight": [64, 2] for layer in layers}
        put("lora", name, f"{lines(lora)}\n---\n{lines(model)}\n")
    for name, shapes in forms.items():
        model = flux if name.startswith("flux") else wan
        some = dict(list(shapes.items())[:12])
        note = '#lora_adapter_metadata\t{"transformer.r": 4, "transformer.lora_alpha": 3}\n'
        put("lora", name.replace("/", "-"), f"{note}{lines(some)}\n---\n{lines(model)}\n")
    for name, (model, start, layers) in FAMILY_LORAS.items():
        down, up = (".lora_down", ".lora_up") if start == "lora_unet_" else (".lora_A", ".lora_B")
        lora = {}
        for layer, (output, inputs) in layers.items():
            layer = start + (layer.replace(".", "_") if start == "lora_unet_" else layer)
            lora |= {f"{layer}{down}.weight": [2, inputs], f"{layer}{up}.weight": [output, 2]}
        put("lora", name, f"{lines(lora)}\n---\n{lines(model)}\n")
    model, start, layers = FAMILY_LORAS["krea2"]
    wrong = {f"{start}{layer}.lora_A.weight": [0, 64] for layer in layers} | {f"{start}{layer}.lora_B.weight": [1 << 40, 0] for layer in layers}
    whole = "\n".join(f"{name}\t18446744073709551615,0" for name in model)
    put("lora", "damaged-krea2", f"{lines(wrong)}\n---\n{whole}\n")
    put("lora", "damaged-sizes", "a.lora_A.weight\t0,64\na.lora_B.weight\t64,0\na.alpha\t\nb.diff\t18446744073709551615\n---\n")


def tree(files: dict[str, bytes | str]) -> bytes:
    content = {name: text.encode() if isinstance(text, str) else text for name, text in files.items()}
    return b"\n".join(b"=== " + name.encode() + b"\n" + text for name, text in content.items())


def folders() -> None:
    names = ("model_index.json", "config.json", "scheduler_config.json", "preprocessor_config.json")
    made = 0
    for index in sorted(FIXTURES.rglob("model_index.json")):
        folder = index.parent
        paths = [path for path in sorted(folder.rglob("*.json")) if path.name in names]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        put("model-folder", "-".join(folder.relative_to(FIXTURES).parts), tree(files))
        made += 1
    assert made, "no fixture has a model_index.json"
    wan = '{"_class_name":"WanPipeline","transformer":["diffusers","WanTransformer3DModel"],"vae":["diffusers","AutoencoderKLWan"]}'
    config = '{"_class_name":"WanTransformer3DModel","num_layers":%s,"num_attention_heads":2,"attention_head_dim":12,"in_channels":16,"out_channels":16,"patch_size":[1,2,2],"text_dim":32,"ffn_dim":32,"freq_dim":16}'
    shards = '{"metadata":{"total_size":1},"weight_map":{"a":"../../x.safetensors","b":"/etc/passwd","c":"none.safetensors"}}'
    for name, files in {
        "index-empty": {"model_index.json": "{}"},
        "index-nested": {"model_index.json": '{"_class_name":' + "[" * 500 + "]" * 500 + "}"},
        "layers-million": {"model_index.json": wan, "transformer/config.json": config % 1048576},
        "layers-negative": {"model_index.json": wan, "transformer/config.json": config % -1},
        "layers-float": {"model_index.json": wan, "transformer/config.json": config % "1e308"},
        "shards-elsewhere": {"model_index.json": wan, "transformer/config.json": config % 2, "transformer/diffusion_pytorch_model.safetensors.index.json": shards},
        "header-of-one": {"model_index.json": wan, "transformer/config.json": config % 2, "transformer/diffusion_pytorch_model.safetensors": '{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}    '},
    }.items():  # fmt: skip
        put("model-folder", "damaged-" + name, tree(files))


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def spiece(pieces: list[tuple[str, float, int]], charsmap: bytes = b"") -> bytes:
    """A SentencePiece model of Unigram pieces: text, score and kind."""
    out = b""
    for piece, score, kind in pieces:
        out += field(1, field(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind))
    trainer = b"\x18\x01" + b"\xc8\x02\x02" + b"\xd0\x02\x01" + b"\xd8\x02" + varint((1 << 64) - 1) + b"\xe0\x02\x00"
    return out + field(2, trainer) + field(3, field(1, b"nmt_nfkc") + (field(2, charsmap) if charsmap else b""))


def tokenizers() -> None:
    pieces = [("<pad>", 0, 3), ("</s>", 0, 3), ("<unk>", 0, 2), ("\u2581", -2, 1), ("\u2581a", -3, 1), ("red", -4, 1), ("fox", -4.5, 1), ("f", -5, 1), ("o", -5, 1), ("x", -5, 1), ("<b>", 0, 4)]
    whole = spiece(pieces)
    put("spiece", "plain", whole)
    put("spiece", "bytes", spiece([*pieces, *((f"<0x{byte:02X}>", 0, 6) for byte in range(256))]))
    put("spiece", "damaged-cut", whole[:40])
    put("spiece", "damaged-charsmap", spiece(pieces, struct.pack("<I", 0xFFFFFFF0) + b"\xff" * 64))
    put("spiece", "damaged-charsmap-loop", spiece(pieces, struct.pack("<I", 16) + b"\x00\x01\x00\x80" * 4 + b"a\0"))
    put("spiece", "damaged-scores", spiece([(text, float("nan"), kind) for text, _, kind in pieces]))
    put("spiece", "damaged-empty-piece", spiece([*pieces, ("", 1e38, 1)]))
    put("spiece", "damaged-length", whole[:1] + b"\xff" * 9 + b"\x01" + whole[2:])
    put("spiece", "no-pieces", spiece([]))
    vocab = {letter: number for number, letter in enumerate("abcdefoxr")}
    vocab |= {"fo": 9, "fox": 10, "fox</w>": 11, "x</w>": 12, "d</w>": 13, "<|startoftext|>": 14, "<|endoftext|>": 15}
    merges = "#version: 0.2\nf o\nfo x</w>\n"
    put("tokenizer-folder", "clip", tree({"vocab.json": json.dumps(vocab), "merges.txt": merges, "tokenizer_config.json": '{"tokenizer_class":"CLIPTokenizer"}'}))
    put("tokenizer-folder", "damaged-merges", tree({"vocab.json": json.dumps(vocab), "merges.txt": "#version\nf\n\n o  o\nzz yy\n"}))
    put("tokenizer-folder", "damaged-ids", tree({"vocab.json": '{"a":4294967295,"b":-1,"c":1e9}', "merges.txt": merges}))
    bpe = {"type": "BPE", "vocab": vocab, "merges": ["f o", "fo x"], "unk_token": None, "dropout": None, "byte_fallback": True}
    unigram = {"type": "Unigram", "unk_id": 2, "vocab": [[text, score] for text, score, _ in pieces]}
    added = [{"id": 1, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    post = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [], "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}}
    rest = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "decoder": None}
    sound = {
        "bpe": rest | {"pre_tokenizer": level, "post_processor": None, "model": bpe},
        "unigram": rest | {"pre_tokenizer": space, "post_processor": post, "model": unigram},
        "replace": rest | {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}, "pre_tokenizer": level, "post_processor": None, "model": bpe},
        "word-level": rest | {"pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "a"}},
        "word-piece": rest | {"pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None, "model": {"type": "WordPiece", "vocab": vocab, "unk_token": "a", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}},
    }  # fmt: skip
    for name, value in sound.items():
        put("tokenizer-folder", name, tree({"tokenizer.json": json.dumps(value)}))
    wrong = {
        "unk-id": rest | {"pre_tokenizer": space, "post_processor": None, "model": unigram | {"unk_id": 99}},
        "no-vocab": rest | {"pre_tokenizer": space, "post_processor": None, "model": unigram | {"vocab": []}},
        "charsmap": rest | {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}, "pre_tokenizer": space, "post_processor": None, "model": unigram},
        "padding": rest | {"padding": {"strategy": {"Fixed": 4294967295}, "direction": "Right", "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0, "pad_token": "a"}, "pre_tokenizer": space, "post_processor": None, "model": unigram},
        "truncation": rest | {"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 9}, "pre_tokenizer": level, "post_processor": None, "model": bpe},
    }  # fmt: skip
    for name, value in wrong.items():
        put("tokenizer-folder", "damaged-" + name, tree({"tokenizer.json": json.dumps(value)}))
    put("tokenizer-folder", "damaged-nested", tree({"tokenizer.json": '{"model":' * 400 + "0" + "}" * 400}))


def texts() -> None:
    models = (ROOT / "models.toml").read_text()
    for number, part in enumerate(models.split("\n\n")[:12]):
        put("models-toml", f"part-{number:02}", part)
    put("models-toml", "damaged-types", '[[model]]\nid = 3\n[shared.a]\nsources = {a = [1, "2"]}\n')
    put("models-toml", "damaged-nested", "a = " + "[" * 200 + "]" * 200)
    put("models-toml", "damaged-bytes", b"id = \"\xff\xfe\"\r\n\x00")
    put("settings-toml", "old", (FIXTURES / "old/settings.toml").read_bytes())
    for name, content in {
        "all-kinds": '[interface]\nscale = 1.5\ntheme = "dark"\n[models]\nfolders = ["/a", "~/b"]\nsearch_installs = true\n[runtime]\ndevice = "cpu"\n',
        "damaged-numbers": "[interface]\nscale = nan\n[runtime]\ncancel_grace_secs = -1e400\ndevice = 3\n",
        "damaged-nested": "a" + ".a" * 300 + " = 1\n",
        "damaged-twice": "[interface]\nscale = 1\n[interface]\nscale = 2\n",
        "damaged-tables": "interface = 3\nmodels = []\n[[runtime]]\n",
    }.items():
        put("settings-toml", name, content)
    put("presets-toml", "old", (FIXTURES / "old/presets.toml").read_bytes())
    for name, content in {
        "one": '[[preset]]\nname = "quick"\nmodel = "little-world"\nsize = [512, 512]\nsteps = 4\nseconds = 2.0\nsampler = "euler"\n',
        "damaged-values": '[[preset]]\nname = ""\nsize = [0, -1]\nsteps = 1e308\nframes = 9223372036854775807\nseconds = nan\n[[preset]]\nname = "a"\n[[preset]]\nname = "a"\n',
        "damaged-table": "[preset]\nname = 1\n",
        "damaged-nested": "[[preset]]\nname = " + "[" * 300,
    }.items():
        put("presets-toml", name, content)
    for name, content in {
        "comfyui": "# mine\na111:\n    checkpoints: models/Stable-diffusion/\n    vae: models/VAE\ncomfyui:\n    is_default: true\n    base_path: c/\n    unet: |\n        unet\n        diffusion_models\n    loras: [a, b]\nempty:\n",
        "anchors": "a: {vae: &v ~/vae, clip: '$DISK/clip', unet: '/${DISK}s/$NONE/${', checkpoints: *v}\n",
        "damaged-aliases": "a: {vae: &a [*a, *a], clip: &b [*a, *a]}\nb: *b\n",
        "damaged-nested": "a: " + "[" * 2000,
        "damaged-flow": "{a: {b: {c: {d: " * 60,
        "damaged-tabs": 'a:\n\tvae: /x\n  clip: "\\xff\\q"\n%YAML 9.9\n--- !!binary |\n  ////\n',
        "windows": "\ufeffa:\r\n  base_path: C:\\ComfyUI\r\n  vae: models\\vae\r\n",
    }.items():
        put("paths-yaml", name, content)


def metadata() -> None:
    for path in sorted((FIXTURES / "old").glob("result*.json")):
        put("metadata-text", path.stem, path.read_bytes())
    infos = "a red fox, (sharp:1.2) <lora:fine:0.8>\nNegative prompt: blurry\nSteps: 20, Sampler: DPM++ 2M Karras, CFG scale: 7, Seed: 5, Size: 512x768, Model hash: abcdef, Model: some, Version: v1.9"
    graph = {"3": {"class_type": "KSampler", "inputs": {"seed": 5, "steps": 20, "cfg": 7.0, "sampler_name": "euler", "scheduler": "simple", "denoise": 1, "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}}, "4": {"class_type": "UNETLoader", "inputs": {"unet_name": "a.safetensors"}}, "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 512, "height": 512, "batch_size": 1}}, "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a fox", "clip": ["4", 1]}}, "7": {"class_type": "CLIPTextEncode", "inputs": {"text": ["8", 0], "clip": ["4", 1]}}, "8": {"class_type": "CLIPTextEncode", "inputs": {"text": ["7", 0]}}}
    nodes = {"nodes": [{"id": 1, "type": "KSampler", "inputs": [{"name": "model", "link": 1}], "outputs": [], "widgets_values": [5, "fixed", 20, 7, "euler", "simple", 1]}, {"id": 2, "type": "UNETLoader", "outputs": [{"links": [1]}], "widgets_values": ["a.safetensors"]}], "links": [[1, 2, 0, 1, 0, "MODEL"], [2, 1, 0, 1, 0, "LOOP"]]}
    for name, content in {
        "a1111": infos,
        "a1111-damaged": infos.replace("20", "1e400").replace("512x768", "99999999999x-1").replace(":1.2", ":" * 400),
        "graph": json.dumps(graph),
        "nodes": json.dumps(nodes),
        "swarm": json.dumps({"sui_image_params": {"prompt": "a fox", "seed": -1, "steps": 20, "cfgscale": 7, "aspectratio": "1:1", "width": 512, "height": 512, "loras": ["a"], "loraweights": ["0.8"]}}),
        "wan2gp": json.dumps({"type": "WanGP v9", "prompt": "a fox", "seed": 1, "num_inference_steps": 30, "resolution": "832x480", "video_length": 81, "activated_loras": ["a.safetensors"], "loras_multipliers": "1;0.5 2"}),
        "invoke": json.dumps({"app_version": "5.0", "generation_mode": "flux_txt2img", "positive_prompt": "a", "seed": 1, "steps": 4, "width": 512, "height": 512, "model": {"name": "flux"}, "loras": [{"model": {"name": "a"}, "weight": 0.5}]}),
        "framepack": json.dumps({"prompt": "a fox", "seed": 1, "total_second_length": 5, "steps": 25, "cfg": 1, "gs": 10, "use_teacache": True}),
        "draw-things": json.dumps({"c": "a fox", "uc": "", "seed": 1, "steps": 4, "scale": 1, "sampler": "Euler A Trailing", "size": "512x512", "v2": {"loras": [{"file": "a", "weight": 1}]}}),
        "damaged-nested": '{"prompt":' + "[" * 3000,
        "damaged-objects": '{"a":' * 500 + "1" + "}" * 500,
        "damaged-numbers": json.dumps({"seed": 1e300, "steps": -5, "width": 2**63, "height": 0, "prompt": None, "loras": "a"}),
        "damaged-surrogates": '{"prompt": "\\ud800\\udfff\\ud800", "seed": "0x10"}',
        "damaged-bytes": b"Steps: \xff\xfe, Seed: \x00\nNegative prompt:",
    }.items():  # fmt: skip
        put("metadata-text", name, content)


def state() -> None:
    for path in sorted((FIXTURES / "old").glob("*.json")):
        put("state-json", path.stem, path.read_bytes())
    for name, content in {
        "empty-queue": '{"version":1,"jobs":[]}',
        "damaged-version": '{"version":18446744073709551616,"jobs":{}}',
        "damaged-nested": "[" * 4000,
        "damaged-cut": '{"version":1,"jobs":[{"id":"1","request":{"prompt":"a',
        "damaged-kinds": '{"version":1,"jobs":[1,null,"a",[],{}],"forgotten":[-1]}',
    }.items():
        put("state-json", name, content)

    sample = {"at_secs": 0.1, "used_bytes": 5, "allocated_bytes": 3, "reserved_bytes": 4, "total_bytes": 9, "machine": {"gtt_used_bytes": 2, "temperature_celsius": 61.25}}
    record = {
        "job": 7,
        "model": "a model",
        "device": "cpu",
        "samples": [sample],
        "stages": [{"stage": "encode_text", "from_secs": 0.05, "to_secs": 0.2}, {"stage": "denoise", "from_secs": 0.2, "to_secs": None}],
        "reclaims": [{"at_secs": 0.21, "boundary": "post-text-encoding", "before_bytes": 4, "after_bytes": 0}],
    }
    for name, content in {
        "whole": json.dumps(record),
        "empty": json.dumps(record | {"samples": [], "stages": [], "reclaims": []}),
        "lists": json.dumps(record | {"samples": [[0, 0, 0, 0, 0]] * 50, "stages": [["save", 0, None]] * 50}),
        "damaged-times": json.dumps(record | {"samples": [sample | {"at_secs": at} for at in (1e308, -1e308, 0, -1)], "stages": [{"stage": "save", "from_secs": 1e308, "to_secs": -1e308}]}),
        "damaged-boundary": json.dumps(record | {"reclaims": [{"at_secs": 0, "boundary": 'a,"b"\n,', "before_bytes": 2**64 - 1, "after_bytes": 0}]}),
        "damaged-numbers": json.dumps(record).replace("9", "18446744073709551616").replace("0.1", "1e400"),
        "damaged-stage": json.dumps(record).replace("denoise", "dance"),
        "damaged-twice": json.dumps(record).replace('"boundary"', '"at_secs": 1, "boundary"'),
        "damaged-nested": '{"job":7,"samples":' + "[" * 3000,
        "damaged-cut": json.dumps(record)[:200],
    }.items():
        put("telemetry-record", name, content)

    def frame(message: str, payload: bytes = b"") -> bytes:
        return struct.pack("<II", len(message), len(payload)) + message.encode() + payload

    step = '{"Step":{"step":1,"total":4}}'
    for name, content in {
        "cancel": frame('"Cancel"'),
        "frame": frame('{"Frame":{"index":0,"count":1,"width":2,"height":1}}', bytes(6)),
        "steps": frame(step) * 3,
        "unknown": frame('{"Nothing":[]}'),
        "damaged-lengths": b"\xff" * 8,
        "damaged-message": struct.pack("<II", 1 << 20, 0) + b"{}",
        "damaged-payload": struct.pack("<II", 2, 1 << 28) + b"{}",
        "damaged-nested": frame("[" * 2000),
        "words": "Warning: the driver says something\n",
    }.items():
        put("engine-messages", name, content)
    for name, content in {
        "plain": "a red fox, 8k",
        "choices": "a {red|{dark|light} blue|2$$, $$a|b|c} fox in __place__ (sharp:1.3) [0s: still] [2s-4s: it jumps]",
        "weights": "((a)) [b] (c:1.2) {0.5::d|2::e} \\(f\\)",
        "lines": "# note\none // two\n\n  three  \n/* four\nfive */ six",
        "damaged-nested": "{" * 500 + "|" + "}" * 500,
        "damaged-brackets": "[" * 300 + "(" * 300 + ":1e308)",
        "damaged-counts": "{18446744073709551615$$a|b} {-1$$a} {3-1$$a|b} {nan::a|inf::b|-1::c|0::d}",
        "damaged-times": "[1e308s: a] [-1s: b] [5s-2s: c] [nans: d] [0s: ",
        "damaged-growth": "{20$$ {20$$ {20$$ a|b|c|d}|b|c|d}|b|c|d}",
        "damaged-bytes": b"\xff\xfe{\x00|\xf0\x9f",
    }.items():
        put("prompt", name, content)
    sound = {"prompt": "a __a__ fox, {2$$__b__}", "wildcards/a.txt": "red\n# none\n0.5::dark __b__\n", "wildcards/b.txt": "\ufeffblue\r\n2::{light|very light} green\r\n\r\n", "wildcards/c/d.txt": "one\ntwo\n"}
    for name, files in {
        "plain": sound,
        "stars": sound | {"prompt": "__*__, __c/*__, {1-3$$ and $$__**__}, __A.txt__"},
        "damaged-bytes": sound | {"wildcards/a.txt": b"red\n\xff\xfe\n\x00\n"},
        "damaged-circle": sound | {"wildcards/b.txt": "__a__ and __b__\n"},
        "damaged-empty": sound | {"wildcards/a.txt": "# nothing\n\n \n"},
        "damaged-growth": sound | {"wildcards/a.txt": "{9$$__b__}\n" * 9, "wildcards/b.txt": "{9$$__c/d__}\n" * 9, "wildcards/c/d.txt": "\n".join("abcdefghi")},
        "damaged-names": sound | {"prompt": "__../wildcards/a__ __/etc/hosts__ __a/../b__ ____ __c/d/__ __***c*__"},
        "damaged-nested": sound | {"wildcards/a.txt": "{a|" * 60 + "}" * 60},
        "damaged-weights": sound | {"wildcards/a.txt": "0::a\n0::b\n", "wildcards/b.txt": "1e9::a\n-1::b\n999999999::\n.::c\n::d\n"},
        "damaged-counts": sound | {"prompt": "{99999$$$$__a__} {0$$__b__} {3-1$$__**__}"},
    }.items():
        put("wildcards", name, tree(files))


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width: int, height: int, *more: bytes, depth: int = 8, color: int = 2) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + chunk(b"IDAT", zlib.compress(bytes(13))) + chunk(b"IEND", b"")


def media() -> None:
    endings = {".png": "png", ".jpg": "jpeg", ".webp": "webp", ".gif": "gif", ".tiff": "tiff", ".bmp": "bmp", ".mp4": "mp4", ".mov": "mp4", ".webm": "webm"}
    clips = ROOT / "src/core/media/source/tests/clips"
    paths = [*(FIXTURES / "media").iterdir(), *clips.iterdir(), *(FIXTURES / "old").iterdir()]
    kinds: dict[str, list[Path]] = {}
    for path in sorted(path for path in paths if path.suffix in endings):
        kinds.setdefault(endings[path.suffix], []).append(path)
    for kind, found in kinds.items():
        for path in found[:MAX_FILES]:
            whole = path.read_bytes()
            put(kind, path.stem, whole)
        first = min(found, key=lambda path: path.stat().st_size).read_bytes()
        put(kind, "damaged-cut", first[: len(first) * 2 // 3])
        put(kind, "damaged-magic", first[:12])
        put(kind, "damaged-ones", first[: len(first) // 3] + b"\xff" * (len(first) // 3))
    for name, content in {
        "texts": png(2, 2, chunk(b"tEXt", b"parameters\0a fox\nSteps: 4, Seed: 1, Size: 8x8"), chunk(b"iTXt", b"workflow\0\0\0\0\0{}"), chunk(b"zTXt", b"prompt\0\0" + zlib.compress(b'{"1":{}}'))),
        "damaged-size": png(0xFFFFFFFF, 0xFFFFFFFF),
        "damaged-depth": png(2, 2, depth=3, color=9),
        "damaged-text-bomb": png(2, 2, chunk(b"zTXt", b"parameters\0\0" + zlib.compress(bytes(4 << 20)))),
        "damaged-exif": png(2, 2, chunk(b"eXIf", b"II*\0\x08\0\0\0\xff\xff" + b"\x12\x01\x03\0\xff\xff\xff\xff" * 9)),
        "damaged-length": png(2, 2, struct.pack(">I", 0xFFFFFFF0) + b"tEXt" + b"a"),
    }.items():
        put("png", name, content)
    gif = b"GIF89a" + struct.pack("<HHBBB", 2, 2, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 2, 2, 0) + b"\x02\x03\x44\x02\x05\x00"
    put("gif", "damaged-canvas", b"GIF89a\xff\xff\xff\xff\x00\x00\x00" + frame + b";")
    put("gif", "damaged-frame-outside", gif + frame.replace(b"\x2c\0\0\0\0\2\0\2\0", b"\x2c\xff\xff\xff\xff\xff\xff\xff\xff") + b";")
    put("gif", "damaged-codes", gif + b"\x2c" + struct.pack("<HHHHB", 0, 0, 2, 2, 0) + b"\x0c\xff" + b"\xff" * 255 + b"\0;")
    put("gif", "many-frames", gif + frame * 300 + b";")

    def box(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content) + 8) + name + content

    def film(**other: bytes) -> bytes:
        tables = {"stts": bytes(4) + struct.pack(">III", 1, 1, 1), "stsc": bytes(4) + struct.pack(">IIII", 1, 1, 1, 1), "stsz": bytes(4) + struct.pack(">II", 4, 1), "stco": bytes(4) + struct.pack(">II", 1, 24)} | other
        entry = bytes(6) + b"\0\1" + bytes(16) + struct.pack(">HH", 32, 32) + bytes(50) + box(b"avcC", bytes.fromhex("01640c0dffe1001067640c0dac18d129350101010784423501000468ee3c80fdf8f800"))
        stbl = box(b"stsd", bytes(4) + struct.pack(">I", 1) + box(b"avc1", entry)) + b"".join(box(name.encode(), content) for name, content in tables.items())
        mdia = box(b"mdhd", bytes(12) + struct.pack(">II", 24, 1) + bytes(4)) + box(b"hdlr", bytes(8) + b"vide" + bytes(13)) + box(b"minf", box(b"stbl", stbl))
        return box(b"ftyp", b"isom" + bytes(4)) + box(b"mdat", bytes(16)) + box(b"moov", box(b"mvhd", bytes(100)) + box(b"trak", box(b"tkhd", bytes(84)) + box(b"mdia", mdia)))

    for name, content in {
        "made": film(),
        "damaged-samples": film(stsz=bytes(4) + struct.pack(">II", 1, 1_000_000_000)),
        "damaged-times": film(stts=bytes(4) + struct.pack(">III", 1, 0xFFFFFFFF, 0xFFFFFFFF)),
        "damaged-chunks": film(stsc=bytes(4) + struct.pack(">IIII", 1, 1, 0xFFFFFFFF, 1)),
        "damaged-offsets": film(stco=bytes(4) + struct.pack(">II", 1, 0xFFFFFFFF)),
        "damaged-counts": film(stco=bytes(4) + struct.pack(">II", 0xFFFFFFFF, 24), stsz=bytes(4) + struct.pack(">II", 0, 0xFFFFFFFF)),
    }.items():
        put("mp4", name, content)


def pages() -> None:
    wheel = "torch-2.11.0%2Brocm7.2-cp312-cp312-manylinux_2_28_x86_64.whl"
    links = f"""<!DOCTYPE html><html><body><h1>Links for torch</h1>
<a href="{wheel}#sha256={'AB' * 32}" data-requires-python="&gt;=3.10">x</a><br/>
<a data-x='1' href='../../files/torch-2.10.0-cp312-cp312-linux_x86_64.whl?a=1&amp;b=2'>y</a>
<a href="https://files.example/amd_torch_device_gfx1151-2.11.0-py3-none-any.whl">z</a>
</body></html>
"""
    for name, content in {
        "plain": links,
        "other-hosts": links.replace("../../files", "https://evil.example").replace("files.example", "files.example.evil"),
        "damaged-addresses": "".join(f'<a href="{address}{wheel}">' for address in ("../" * 90, "//", "://", "https://", "/" * 90, "?", "#", "./../.", "javascript://index.example/", "https://index.example@evil.example/")),
        "damaged-names": "".join(f"<a href='{name}.whl'>" for name in ("", "-", "-" * 400, "a-1-2-3", "torch-9" + "9" * 400 + "-py3-none-any", "..%2F..%2Fetc-1-py3-none-any", "%FF%00-1-py3-none-any", "torch-.+.-py3-none-any")),
        "damaged-quotes": "<a href=\"<a href='<a href=<a hrefhref=\"\"<a href=\u201ca.whl\u201d <a\nhref='a.whl'<a ",
        "damaged-bytes": b"<a href=\"\xff\xfe.whl\"><a href='\x00'>" + links.encode()[:200],
        "damaged-cut": links[: len(links) // 2],
        "none": "404 page not found\n",
    }.items():
        put("index-page", name, content)


def wheels() -> None:
    library, info = "torch/lib/libc10.so", "torch-1.dist-info/RECORD"
    content = b"a library " * 40

    def wheel(names: list[str], method: int, record: str | None = None, comment: bytes = b"", large: bool = False) -> bytes:
        sums = "".join(f"{name},sha256={urlsafe_b64encode(sha256(content).digest()).decode().rstrip('=')},{len(content)}\n" for name in names)
        whole = BytesIO()
        with zipfile.ZipFile(whole, "w", method) as archive:
            for name, inside in [*((name, content) for name in names), (info, (sums if record is None else record).encode())]:
                with archive.open(zipfile.ZipInfo(name), "w", force_zip64=large) as member:
                    member.write(inside)
            archive.comment = comment
        return whole.getvalue()

    stored, packed = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    sound = wheel([library, "torch/version.py"], packed)
    end = sound.rindex(b"PK\5\6")
    table = int.from_bytes(sound[end + 16 : end + 20], "little")
    for name, whole in {
        "packed": sound,
        "stored": wheel([library], stored),
        "large": wheel([library], packed, large=True),
        "comment": wheel([library], packed, comment=b"PK\5\6 is not the end"),
        "quoted": wheel([library], stored, record=f'"torch/lib/a,b.so",sha256=abc,1\n{library},sha256=,\n,,,\n'),
        "damaged-no-record": wheel([library], stored).replace(b"RECORD", b"SAMPLE"),
        "damaged-cut": sound[: end + 10],
        "damaged-name-up": sound.replace(library.encode(), b"../../../../ab/c.so"),
        "damaged-name-root": sound.replace(library.encode(), b"/orch/lib/libc10.so"),
        "damaged-ones": sound[: table + 10] + b"\xff" * 40 + sound[table + 50 :],
        "damaged-place": sound[: end + 16] + b"\xff" * 4 + sound[end + 20 :],
        "damaged-size": sound[: table + 20] + struct.pack("<II", 1 << 20, 1 << 31) + sound[table + 28 :],
        "damaged-method": sound[: table + 10] + b"\x0c\0" + sound[table + 12 :],
        "damaged-content": sound[:60] + b"\xa5" * 30 + sound[90:],
    }.items():
        put("wheel", name, whole)


def main() -> None:
    for path in (HERE / "corpus").glob("*/*"):
        if not path.name.startswith("found-"):
            path.unlink()
    for write in (weights, finishing, loras, folders, tokenizers, texts, metadata, state, media, pages, wheels):
        write()
    files = [path for path in (HERE / "corpus").glob("*/*")]
    print(len(files), "files,", sum(path.stat().st_size for path in files) // 1024, "KB")


if __name__ == "__main__":
    main()
