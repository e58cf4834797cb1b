//! Small files of every kind with texts in them, for tests. None holds an image.

fn chunk_png(name: [u8; 4], data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len()).unwrap().to_be_bytes();
    [len.as_slice(), &name, data, &[0; 4]].concat()
}

/// A PNG of nothing but this chunk.
pub fn png(name: [u8; 4], data: &[u8]) -> Vec<u8> {
    pngs(&[(name, data)])
}

/// A PNG of nothing but these chunks.
pub fn pngs(chunks: &[([u8; 4], &[u8])]) -> Vec<u8> {
    let chunks = chunks.iter().map(|(name, data)| chunk_png(*name, data));
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.extend(chunks.flatten());
    bytes.extend(chunk_png(*b"IEND", &[]));
    bytes
}

/// EXIF block with one tag, of ASCII or undefined type; comments are in a separate directory.
pub fn exif(is_little: bool, tag: u16, value: &[u8]) -> Vec<u8> {
    let ordered = |mut bytes: Vec<u8>| {
        if !is_little {
            bytes.reverse();
        }
        bytes
    };
    let two = |n: u16| ordered(n.to_le_bytes().to_vec());
    let four = |n: u32| ordered(n.to_le_bytes().to_vec());
    let entry = |tag: u16, kind: u16, count: u32, value: u32| {
        [&two(tag)[..], &two(kind), &four(count), &four(value)].concat()
    };
    let len = u32::try_from(value.len()).unwrap();
    let head = if is_little { b"II" } else { b"MM" };
    let directory = |entry: Vec<u8>| [&two(1)[..], &entry, &four(0)].concat();
    let start = [head.as_slice(), &two(42), &four(8)].concat();
    if tag == 0x9286 {
        let first = directory(entry(0x8769, 4, 1, 26));
        let second = directory(entry(tag, 7, len, 44));
        [start, first, second, value.to_vec()].concat()
    } else {
        [start, directory(entry(tag, 2, len, 26)), value.to_vec()].concat()
    }
}

/// A JPEG of nothing but this block of EXIF.
pub fn jpeg(exif: &[u8]) -> Vec<u8> {
    let len = u16::try_from(exif.len() + 8).unwrap().to_be_bytes();
    let head = [b"\xff\xd8\xff\xe1".as_slice(), &len, b"Exif\0\0"].concat();
    [head.as_slice(), exif, b"\xff\xd9"].concat()
}

/// A WebP of nothing but this block of EXIF.
pub fn webp(exif: &[u8]) -> Vec<u8> {
    let len = u32::try_from(exif.len()).unwrap();
    let padding = vec![0; exif.len() % 2];
    let body = [b"WEBPEXIF".as_slice(), &len.to_le_bytes(), exif, &padding].concat();
    let all = u32::try_from(body.len()).unwrap().to_le_bytes();
    [b"RIFF".as_slice(), &all, &body].concat()
}

pub fn box_of(name: [u8; 4], content: &[u8]) -> Vec<u8> {
    let len = u32::try_from(content.len() + 8).unwrap().to_be_bytes();
    [len.as_slice(), &name, content].concat()
}

/// An MP4 whose movie has nothing but this.
pub fn mp4(inside: &[u8]) -> Vec<u8> {
    let kind = box_of(*b"ftyp", b"isom\0\0\0\0");
    [kind, box_of(*b"mdat", &[0; 64]), box_of(*b"moov", inside)].concat()
}

/// An MP4 with this comment, as iTunes and mutagen write it.
pub fn mp4_with_comment(words: &str) -> Vec<u8> {
    mp4_with_item(*b"\xa9cmt", &data_of(1, words.as_bytes()))
}

/// An MP4 whose only item has this content, in iTunes' way.
pub fn mp4_with_item(name: [u8; 4], content: &[u8]) -> Vec<u8> {
    let list = box_of(*b"ilst", &box_of(name, content));
    let meta = box_of(*b"meta", &[&[0; 4], list.as_slice()].concat());
    mp4(&box_of(*b"udta", &meta))
}

/// The value of an item; kind 1 is text.
pub fn data_of(kind: u8, value: &[u8]) -> Vec<u8> {
    box_of(*b"data", &[&[0, 0, 0, kind, 0, 0, 0, 0], value].concat())
}

/// A WebM of nothing but one tag.
pub fn webm(name: &str, words: &str) -> Vec<u8> {
    let element = |id: &[u8], content: &[u8]| {
        let len = u32::try_from(content.len()).unwrap() | 0x1000_0000;
        [id, &len.to_be_bytes(), content].concat()
    };
    let tag = [
        element(&[0x45, 0xa3], name.as_bytes()),
        element(&[0x44, 0x87], words.as_bytes()),
    ]
    .concat();
    let tags = element(&[0x73, 0x73], &element(&[0x67, 0xc8], &tag));
    let tags = element(&[0x12, 0x54, 0xc3, 0x67], &tags);
    let head = element(&[0x1a, 0x45, 0xdf, 0xa3], &[]);
    [head, element(&[0x18, 0x53, 0x80, 0x67], &tags)].concat()
}

/// As a live stream is written: a segment and a cluster without length, and the tags after.
pub fn live_webm(name: &str, words: &str) -> Vec<u8> {
    let unknown = [0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let start = b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67".as_slice();
    let cluster = b"\xe7\x81\0\xa3\x84\x81\0\0\x80";
    let tags = webm(name, words).split_off(16);
    [
        start,
        &unknown,
        b"\x1f\x43\xb6\x75",
        &unknown,
        cluster,
        &tags,
    ]
    .concat()
}
