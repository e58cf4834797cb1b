//! What a file is by its first bytes, before its header is read or where it has none.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::gguf;
use crate::files::has_ending;
use crate::media::{self, Kind};

/// As many bytes as tell kinds of files apart.
const HEAD_BYTES: u64 = 512;

pub(crate) fn is_gguf(path: &Path) -> bool {
    head(path).starts_with(&gguf::MAGIC)
}

/// What a file without a sound header is by its first bytes, in words that fit behind "found"; `None` where
/// it may be a weight file that is cut off or damaged.
pub(crate) fn other_than_weights(path: &Path) -> Option<&'static str> {
    let head = head(path);
    let is_gguf_by_name = has_ending(path, &["gguf"]);
    // The length of a header, which may begin as another format does, and the header.
    let is_safetensors = head.get(5..9) == Some(b"\0\0\0{");
    if is_gguf_by_name && (is_safetensors || head.is_empty()) {
        return Some("a file that is named .gguf and does not begin as one");
    }
    if is_safetensors || head.len() < 8 || head.starts_with(&gguf::MAGIC) {
        return None;
    }
    if head.starts_with(b"version https://git-lfs") {
        return Some("the pointer of Git LFS that stands for a file, not the file");
    }
    match media::sniff(&head) {
        Kind::Other("a file of another kind") if is_gguf_by_name => {
            Some("a file that is named .gguf and does not begin as one")
        }
        Kind::Other("a file of another kind") => None,
        kind => Some(kind.described()),
    }
}

fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // Opening a pipe would wait for its writer.
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        // What was read before an error is as good as a short file.
        file.take(HEAD_BYTES).read_to_end(&mut head).ok();
    }
    head
}
