//! Texts in files of every kind, as written by other programs, and in invalid files.

use super::files::{
    box_of, data_of, exif, jpeg, live_webm, mp4, mp4_with_comment, mp4_with_item, png, webm, webp,
};
use crate::media::metadata::{MetadataText, read_texts};
use crate::testing::file_of;

const WORDS: &str = "a naïve café, 猫";

fn read(bytes: &[u8]) -> Vec<MetadataText> {
    let (_folder, path) = file_of("file", bytes);
    read_texts(&path).unwrap()
}

fn text(name: &str, text: &str) -> MetadataText {
    let (name, text) = (name.to_owned(), text.to_owned());
    MetadataText { name, text }
}

#[test]
fn a_users_comment_is_read_in_each_of_its_encodings() {
    let units = || WORDS.encode_utf16();
    let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
    for is_little in [true, false] {
        for (code, content) in [
            (b"UNICODE\0", little.as_slice()),
            (b"UNICODE\0", &big),
            (b"ASCII\0\0\0", WORDS.as_bytes()),
            (b"\0\0\0\0\0\0\0\0", WORDS.as_bytes()),
            // Written by programs that name another encoding.
            (b"UNICODE\0", WORDS.as_bytes()),
            (b"ASCII\0\0\0", &little),
            (b"UNICODE\0", &[&[0xfe, 0xff], &big[..]].concat()),
            (b"UNICODE\0", &[&[0xff, 0xfe], &little[..]].concat()),
        ] {
            let comment = [code.as_slice(), content].concat();
            let block = exif(is_little, 0x9286, &comment);
            let expected = [text("UserComment", WORDS)];
            assert_eq!(read(&block), expected, "the block is a TIFF");
            assert_eq!(read(&jpeg(&block)), expected);
            assert_eq!(read(&webp(&block)), expected);
            assert_eq!(read(&png(*b"eXIf", &block)), expected);
        }
    }
}

#[test]
fn a_webp_of_comfyui_has_its_graphs_in_tags_of_other_names() {
    let block = exif(true, 0x0110, b"prompt:{\"3\":{}}\0");
    assert_eq!(read(&webp(&block)), [text("prompt", "{\"3\":{}}")]);
}

#[test]
fn a_png_has_texts_of_all_three_kinds() {
    let latin: Vec<u8> = "caf\u{e9}".chars().map(|letter| letter as u8).collect();
    let chunk = [b"parameters\0".as_slice(), &latin].concat();
    assert_eq!(read(&png(*b"tEXt", &chunk)), [text("parameters", "café")]);
    let chunk = [b"parameters\0\0\0\0\0", WORDS.as_bytes()].concat();
    assert_eq!(read(&png(*b"iTXt", &chunk)), [text("parameters", WORDS)]);
    let xmp = "<x><exif:UserComment><rdf:Alt><rdf:li xml:lang=\"x-default\">{&quot;c&quot;:1}</rdf:li></rdf:Alt></exif:UserComment></x>";
    let chunk = [b"XML:com.adobe.xmp\0\0\0\0\0", xmp.as_bytes()].concat();
    let expected = [text("exif:UserComment", "{\"c\":1}")];
    assert_eq!(read(&png(*b"iTXt", &chunk)), expected);
    let xmp = "<rdf:Description exif:UserComment='{&quot;c&quot;:1}' x:y='z'/>";
    let chunk = [b"XML:com.adobe.xmp\0\0\0\0\0", xmp.as_bytes()].concat();
    assert_eq!(read(&png(*b"iTXt", &chunk)), expected);
}

#[test]
fn a_video_has_texts_in_every_dialect() {
    let data = |words: &str| data_of(1, words.as_bytes());
    let udta = |inside: &[u8]| mp4(&box_of(*b"udta", inside));
    assert_eq!(read(&mp4_with_comment(WORDS)), [text("comment", WORDS)]);
    let free = [
        box_of(*b"mean", b"\0\0\0\0com.apple.iTunes"),
        box_of(*b"name", b"\0\0\0\0workflow"),
        data("{}"),
    ];
    let free = mp4_with_item(*b"----", &free.concat());
    assert_eq!(read(&free), [text("workflow", "{}")]);

    let keys = [&b"\0\0\0\0\0\0\0\x01"[..], &box_of(*b"mdta", b"prompt")].concat();
    let hdlr = box_of(*b"hdlr", &[0; 24]);
    let item = box_of(*b"ilst", &box_of([0, 0, 0, 1], &data("{}")));
    let quicktime = [hdlr, box_of(*b"keys", &keys), item].concat();
    let quicktime = mp4(&box_of(*b"meta", &quicktime));
    assert_eq!(read(&quicktime), [text("prompt", "{}")]);

    let plain = [&[0, 2, 0, 0], b"{}".as_slice()].concat();
    let plain = udta(&box_of(*b"\xa9cmt", &plain));
    assert_eq!(read(&plain), [text("comment", "{}")]);
    assert_eq!(read(&webm("WORKFLOW", WORDS)), [text("workflow", WORDS)]);
}

#[test]
fn an_image_among_the_items_is_no_text() {
    let cover = mp4_with_item(*b"covr", &data_of(14, b"\x89PNG"));
    assert_eq!(read(&cover), []);
}

#[test]
fn files_that_lie_or_are_cut_off_anywhere_end_quietly() {
    let comment = [b"UNICODE\0".as_slice(), &[0, 65].repeat(20)].concat();
    let block = exif(false, 0x9286, &comment);
    for whole in [
        jpeg(&block),
        webp(&block),
        png(*b"tEXt", b"parameters\0words"),
        mp4_with_comment("words"),
        webm("COMMENT", "words"),
    ] {
        for cut in 0..whole.len() {
            read(&whole[..cut]);
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            for byte in [0, 0x7f, 0xff] {
                changed[at] = byte;
                read(&changed);
            }
        }
    }
}

#[test]
fn gif_comments_and_webm_tags_after_unknown_size_clusters_are_read() {
    let gif = b"GIF89a\x01\0\x01\0\0\0\0\x21\xfe\x03hel\x02lo\0\x3b";
    assert_eq!(read(gif), [text("comment", "hello")]);
    let file = live_webm("COMMENT", WORDS);
    assert_eq!(read(&file), [text("comment", WORDS)]);
}

#[test]
fn parts_that_begin_again_and_again_come_to_an_end() {
    // Fill bytes without end, boxes without content, and chunks of nothing.
    let fill = [b"\xff\xd8\xff".as_slice(), &vec![0xff; 100_000]].concat();
    let boxes = [
        b"\0\0\0\x10ftypisom\0\0\0\0".to_vec(),
        b"\0\0\0\x08free".repeat(20_000),
    ]
    .concat();
    let chunks = [b"RIFF\xff\xff\xff\x7fWEBP".to_vec(), vec![0; 80_000]].concat();
    for file in [fill, boxes, chunks] {
        assert_eq!(read(&file), []);
    }
}

#[test]
fn a_block_of_exif_that_names_itself_as_its_own_directory_is_read_once() {
    // The entry for the inner directory points at the outer one.
    let mut block = exif(true, 0x9286, b"ASCII\0\0\0words");
    block[18..22].copy_from_slice(&8_u32.to_le_bytes());
    assert_eq!(read(&jpeg(&block)), []);
}
