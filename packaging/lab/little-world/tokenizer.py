"""The little world's tokenizer: SentencePiece unigram in UMT5's conventions.

<pad>=0 </s>=1 <s>=2 <unk>=3, then 256 byte pieces, then learned pieces, then
300 extra ids as UMT5 has them. Text is NFKC-normalised and case-folded, and a
character that no piece covers is spelled in bytes, so every prompt has ids.
`spiece.model` and `tokenizer.json` hold the same model and give the same ids.

    python tokenizer.py DIR       makes both files and compares them
"""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
from pathlib import Path

import world

EXTRA_IDS = 300
# Ordinary words, so that prompts from outside the world do not fall into single letters.
COMMON = """about above across after again all along alone always among animal around autumn away baby back beach bear
bicycle black bottle bridge bright brown building camera castle cat child children cinematic city close cloud clouds
colourful colorful cup cute dancing dark day dog door dragon dream elephant evening eyes face fast field film fire
flower flowers fly flying forest fox friend from garden gentle ghost girl boy giant glass grass grey gray green ground
hair hand happy hat head heart hello high hill hills home horse hour house ice inside island jumping jungle king lake
lamp large leaf leaves left light lighthouse lights lion little living long low machine magic man woman many moon
morning mountain mountains mouse moving music near new night no not ocean old only open out over owl painting panda
paper park penguin people person photo photograph picture piano plane planet play playing pond portrait queen quiet
rain rainbow realistic right river road robot rocket roof room round run running sand sea shadow shore short singing
sit sitting sky sleep sleeping slow smile smiling smoke snow soft song space spaceship spring stand standing star
stars still stone storm story street style summer sun sunlight sunrise sunset swimming table tall teapot through time
toward towards tower town toy train tree trees turtle umbrella under up very walk walking wall warm watch water wave
waves way weather whale wheel when white wide wild wind window winter with wolf wonderful wood wooden world yard year
you young zebra blurry low quality distorted ugly watermark static worst detailed lighting sharp focus bokeh""".split()


def corpus() -> list[str]:
    rng = random.Random(1)
    lines = [
        world.caption(rng, *(rng.randrange(n) for n in (8, 8, 6, 6, 3)))
        for _ in range(12000)
    ]
    for _ in range(2500):
        lines.append(" ".join(rng.sample(COMMON, 8)))
    return lines


def make(folder: Path) -> None:
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    model = io.BytesIO()
    letters = "".join(chr(c) for c in [*range(33, 127), *range(0xDF, 0x100)])
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_writer=model,
        model_type="unigram",
        vocab_size=1400,
        hard_vocab_limit=False,
        required_chars=letters,
        character_coverage=1.0,
        byte_fallback=True,
        normalization_rule_name="nmt_nfkc_cf",
        num_threads=1,
        minloglevel=2,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        pad_piece="<pad>",
    )
    folder.mkdir(parents=True, exist_ok=True)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    proto.trainer_spec.ClearField("input")
    (folder / "spiece.model").write_bytes(proto.SerializeToString(deterministic=True))

    vocab = [(p.piece, p.score) for p in proto.pieces]
    vocab += [(f"<extra_id_{i}>", 0.0) for i in reversed(range(EXTRA_IDS))]
    tok = Tokenizer(models.Unigram(vocab, unk_id=3, byte_fallback=True))
    tok.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
            normalizers.Strip(left=True, right=True),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tok.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
    tok.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(replacement="▁", prepend_scheme="always", split=True)]
    )
    tok.post_processor = processors.TemplateProcessing(
        single=["$A", "</s>"], pair=["$A", "</s>", "$B", "</s>"], special_tokens=[("</s>", 1)]
    )
    special = ["<pad>", "</s>", "<s>", "<unk>", *(f"<extra_id_{i}>" for i in range(EXTRA_IDS))]
    tok.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in special])
    tok.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    extra = special[4:]
    write = lambda name, value: (folder / name).write_text(json.dumps(value, indent=1) + "\n")  # noqa: E731
    write("special_tokens_map.json", {"additional_special_tokens": extra, **names})
    write(
        "tokenizer_config.json",
        {
            **names,
            "additional_special_tokens": extra,
            "clean_up_tokenization_spaces": False,
            "extra_ids": EXTRA_IDS,
            "model_max_length": 512,
            "padding_side": "right",
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )


def load(folder: Path):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def table_size(tok) -> int:
    """Rows of the embedding table: the ids, rounded up as published tables are."""
    return (tok.get_vocab_size() + 63) // 64 * 64


def copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        shutil.copyfile(file, target / file.name)


def compare(folder: Path) -> None:
    import sentencepiece

    tok = load(folder)
    piece = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"), add_eos=True)
    lines = corpus()[::50] + [
        "A RED Boat drifts LEFT at night!",
        "ein gelber Vogel im Schnee – schön",
        "赤い船が夜に左へ漂う 🚤🌙",
        "  two   spaces\tand a tab ",
        "",
        "C'est l'été; ½ ﬁsh № 5",
    ]
    differ = [line for line in lines if tok.encode(line).ids != piece.encode(line)]
    longest = max(len(tok.encode(line).ids) for line in corpus())
    print(f"{piece.get_piece_size()} pieces, {tok.get_vocab_size()} ids, longest caption {longest} tokens")
    print(f"{len(lines)} lines compared, {len(differ)} differ", differ[:3])
    print([piece.id_to_piece(i) for i in piece.encode("A tiny crimson sailboat drifting to the left by moonlight, 4k")])


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    compare(Path(sys.argv[1]))
