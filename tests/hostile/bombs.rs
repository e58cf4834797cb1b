//! Decompression bombs and other generated files that would exhaust memory or time.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::scratch::Scratch;
use crate::{corpus_file, fault, fault_of_read, read_with, reader_named};

/// Reads `bytes` and asserts the limits for a file without pixels.
fn assert_harmless(reader: &str, bytes: &[u8]) {
    let scratch = Scratch::new().unwrap();
    let read = read_with(reader_named(reader), &scratch, bytes);
    assert_eq!(fault_of_read(&read, 0), None, "{reader}");
}

fn zlib(pieces: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    for piece in pieces {
        encoder.write_all(&piece).unwrap();
    }
    encoder.finish().unwrap()
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn chunk(name: [u8; 4], content: &[u8]) -> Vec<u8> {
    let named = [&name[..], content].concat();
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[..], &named, &crc(&named).to_be_bytes()].concat()
}

fn png(width: u32, height: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let header = [&numbers(&[width, height])[..], &[8, 2, 0, 0, 0]].concat();
    let (header, end) = (chunk(*b"IHDR", &header), chunk(*b"IEND", b""));
    [&b"\x89PNG\r\n\x1a\n"[..], &header, &chunks.concat(), &end].concat()
}

#[test]
fn an_image_that_cannot_hold_the_pixels_it_promises_takes_no_room_for_them() {
    // As many zeros as 20 rows of 60,000 pixels have, in a few kilobytes.
    let rows = zlib((0..20).map(|_| vec![0; 180_001]));
    assert_harmless("png", &png(60_000, 60_000, &[chunk(*b"IDAT", &rows)]));
    let row = zlib([vec![0; 42_001]]);
    assert_harmless("png", &png(14_000, 14_000, &[chunk(*b"IDAT", &row)]));

    let mut jpeg = std::fs::read(corpus_file("jpeg/plain")).unwrap();
    let start = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]);
    // Its height and width: 14,000 each.
    let at = start.unwrap() + 5;
    jpeg[at..at + 4].copy_from_slice(&[0x36, 0xb0, 0x36, 0xb0]);
    assert_harmless("jpeg", &jpeg);
}

#[test]
fn packed_texts_of_a_png_are_not_unpacked_without_end() {
    let packed = zlib((0..8).map(|_| vec![b' '; 1 << 20]));
    let text = chunk(*b"zTXt", &[&b"parameters\0\0"[..], &packed].concat());
    let pixel = chunk(*b"IDAT", &zlib([vec![0; 4]]));
    let mut chunks = vec![text; 2000];
    chunks.push(pixel);
    assert_harmless("png", &png(1, 1, &chunks));
}

#[test]
fn a_gif_of_a_million_frames_is_refused_and_one_of_a_large_canvas_costs_little() {
    let frame = b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";
    let gif = |side: u16, num_frames: usize| {
        let side = side.to_le_bytes();
        let colours = b"\x80\0\0\0\0\0\xff\xff\xff";
        let canvas = [&b"GIF89a"[..], &side, &side, colours].concat();
        [&canvas[..], &frame.repeat(num_frames), b";"].concat()
    };
    assert_harmless("gif", &gif(1, 1_000_000));
    let scratch = Scratch::new().unwrap();
    // The canvas is within the limits; it is held once, not once a frame.
    let large = gif(10_000, 10_000);
    assert_eq!(fault(reader_named("gif"), &scratch, &large), None);
}

#[test]
fn a_tiff_of_60000_by_60000_pixels_is_refused() {
    for compression in [1, 5, 8, 32773] {
        let entries: [(u16, u32); 8] = [
            (256, 60_000),
            (257, 60_000),
            (258, 8),
            (259, compression),
            (262, 1),
            (273, 8),
            (278, 60_000),
            (279, 100),
        ];
        let mut bytes = b"II*\0\x08\0\0\0\x08\0".to_vec();
        for (tag, value) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend([4, 0, 1, 0, 0, 0]);
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend([0; 200]);
        assert_harmless("tiff", &bytes);
    }
}

#[test]
fn deeply_nested_json_is_refused_by_every_reader() {
    for opening in ["[", "{\"a\":", "{\"prompt\":["] {
        let nested = opening.repeat((1 << 20) / opening.len());
        let text = nested.as_bytes();
        for reader in ["metadata-text", "state-json"] {
            assert_harmless(reader, text);
        }
        let header = [b"0\n", text].concat();
        assert_harmless("safetensors-header", &header);
        let deep = "[".repeat(1 << 20);
        let note = r#"{"__metadata__":{"lora_adapter_metadata":"DEEP"}}"#.replace("DEEP", &deep);
        assert_harmless("safetensors-header", format!("0\n{note}").as_bytes());
        for name in ["model_index.json", "transformer/config.json"] {
            let folder = [format!("=== {name}\n").as_bytes(), text].concat();
            assert_harmless("model-folder", &folder);
        }
        for name in ["tokenizer.json", "vocab.json", "tokenizer_config.json"] {
            let folder = format!("=== merges.txt\n\n=== {name}\n{nested}");
            assert_harmless("tokenizer-folder", folder.as_bytes());
        }
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        assert_harmless("engine-messages", &[&length[..], &[0; 4], text].concat());
    }
}

#[test]
fn toml_and_yaml_that_are_nested_a_million_deep_are_refused() {
    for text in [
        format!("a = {}", "[".repeat(1 << 20)),
        format!("a = {}", "{a=".repeat(1 << 18)),
        format!("[{}b]", "a.".repeat(1 << 18)),
        format!("{}b = 1", "a.".repeat(1 << 18)),
    ] {
        for reader in ["models-toml", "settings-toml", "presets-toml"] {
            assert_harmless(reader, text.as_bytes());
        }
    }
    for text in [
        "[".repeat(1 << 19),
        "{a: ".repeat(1 << 17),
        "- ".repeat(1 << 18),
        "? ".repeat(1 << 18),
        format!("a: {{vae: {}}}", "[".repeat(1 << 19)),
    ] {
        assert_harmless("paths-yaml", text.as_bytes());
    }
}

#[test]
fn a_safetensors_header_that_claims_a_hundred_megabytes_is_not_believed() {
    // The claim alone, and the bytes to it: blanks, which is no header.
    let claim = 99_999_999_u64.to_le_bytes();
    assert_harmless("safetensors", &[&claim[..], b"{\"a\":"].concat());
    for begin in [&b""[..], b"{", b"{\"a\":"] {
        let mut blank = [&claim[..], begin].concat();
        blank.resize(8 + 99_999_999, b' ');
        assert_harmless("safetensors", &blank);
    }
}

#[test]
fn a_header_of_a_hundred_thousand_small_tensors_costs_little() {
    let entries = (0..100_000).map(|number| {
        let end = number + 1;
        format!(r#""{number}":{{"dtype":"U8","shape":[1],"data_offsets":[{number},{end}]}}"#)
    });
    let entries = entries.collect::<Vec<_>>().join(",");
    let header = format!("100000\n{{{entries}}}");
    assert_harmless("safetensors-header", header.as_bytes());
}

#[test]
fn a_gguf_that_claims_two_to_the_sixtieth_of_anything_is_refused() {
    let many = (1_u64 << 60).to_le_bytes();
    let none = 0_u64.to_le_bytes();
    let one = 1_u64.to_le_bytes();
    let start = b"GGUF\x03\0\0\0";
    let list = |element: u32| {
        let key = [&one[..], b"a", &9_u32.to_le_bytes(), &element.to_le_bytes()].concat();
        [&start[..], &none, &one, &key, &many].concat()
    };
    for bytes in [
        [&start[..], &many, &none].concat(),
        [&start[..], &none, &many].concat(),
        [&start[..], &none, &one, &many].concat(),
        list(0),
        list(8),
        list(9),
        list(12),
    ] {
        assert_harmless("gguf", &[&bytes[..], &[0; 4096]].concat());
    }
}

fn mp4_box(name: &str, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len() + 8).unwrap();
    [&length.to_be_bytes()[..], name.as_bytes(), content].concat()
}

fn numbers(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// An MP4 of so many samples of one byte, all with the same description, and edits.
fn mp4(num_samples: u32, edits: &[u8]) -> Vec<u8> {
    // Frames of 32 × 32 that the decoder knows: of others nothing behind the header is looked at.
    let config = b"\x01\x64\x0c\x0d\xff\xe1\0\x10\x67\x64\x0c\x0d\xac\x18\xd1\x29\x35\x01\x01\x01\x07\x84\x42\x35\x01\0\x04\x68\xee\x3c\x80\xfd\xf8\xf8\0";
    let config = mp4_box("avcC", config);
    let entry = [&[0; 24][..], &[0, 32, 0, 32], &[0; 50], &config].concat();
    let entries = [&numbers(&[0, 1])[..], &mp4_box("avc1", &entry)].concat();
    let table = [
        mp4_box("stsd", &entries),
        mp4_box("stts", &numbers(&[0, 1, num_samples, 1])),
        mp4_box("stsc", &numbers(&[0, 1, 1, num_samples, 1])),
        mp4_box("stsz", &numbers(&[0, 1, num_samples])),
        mp4_box("stco", &numbers(&[0, 1, 24])),
    ];
    let media = [
        mp4_box("mdhd", &numbers(&[0, 0, 0, 24, 1, 0])),
        mp4_box("hdlr", &[&[0; 8][..], b"vide", &[0; 13]].concat()),
        mp4_box("minf", &mp4_box("stbl", &table.concat())),
    ];
    let track = [
        mp4_box("tkhd", &[0; 84]),
        mp4_box("edts", &mp4_box("elst", edits)),
        mp4_box("mdia", &media.concat()),
    ];
    let movie = [mp4_box("mvhd", &[0; 100]), mp4_box("trak", &track.concat())];
    [
        mp4_box("ftyp", b"isom\0\0\0\0"),
        mp4_box("mdat", &[0; 16]),
        mp4_box("moov", &movie.concat()),
    ]
    .concat()
}

#[test]
fn an_mp4_of_a_billion_samples_in_one_number_is_refused() {
    for num_samples in [1_000_000_000, u32::MAX, 1 << 20] {
        assert_harmless("mp4", &mp4(num_samples, &[]));
    }
}

#[test]
fn an_mp4_of_many_samples_and_many_edits_costs_little() {
    let edit = numbers(&[1, 0, 0x1_0000]);
    let edits = [numbers(&[0, 200_000]), edit.repeat(200_000)].concat();
    assert_harmless("mp4", &mp4(500_000, &edits));
}

#[test]
fn a_prompt_that_would_grow_without_end_is_refused() {
    let nested = ["{99$$, $$".repeat(30), "a|".repeat(1000), "}".repeat(30)].concat();
    assert_harmless("prompt", nested.as_bytes());
    for piece in ["{", "[", "(", "/*", "#", "__a__", "<lora:", "[0s:a]", "{|"] {
        for length in [60 << 10, 1 << 20] {
            let text = piece.repeat(length / piece.len());
            assert_harmless("prompt", text.as_bytes());
            assert_harmless("metadata-text", text.as_bytes());
        }
    }
    let brackets = ["(".repeat(30 << 10), ")".repeat(30 << 10)].concat();
    assert_harmless("prompt", brackets.as_bytes());
}

#[test]
fn a_choice_of_many_of_tens_of_thousands_costs_little() {
    let text = format!("{{30000$$$${}}}", "|".repeat(30_000));
    assert_harmless("prompt", text.as_bytes());
}

#[test]
fn a_long_wildcard_that_a_prompt_asks_for_again_and_again_costs_little() {
    let (prompt, lines) = ("__a__".repeat(3000), "a\n".repeat(50_000));
    let text = format!("=== prompt\n{prompt}\n=== wildcards/a.txt\n{lines}");
    assert_harmless("wildcards", text.as_bytes());
}

#[test]
fn a_tokenizer_of_one_enormous_piece_is_read_or_refused_at_little_cost() {
    let piece = "a".repeat(4 << 20);
    let vocab = format!("[[\"<pad>\",0],[\"</s>\",0],[\"<unk>\",0],[\"{piece}\",-1]]");
    let text = format!(
        "=== tokenizer.json\n{{\"version\":\"1.0\",\"model\":{{\"type\":\"Unigram\",\"unk_id\":2,\"vocab\":{vocab}}}}}"
    );
    assert_harmless("tokenizer-folder", text.as_bytes());
}
