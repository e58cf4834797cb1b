//! Detection of files that are not weights, by name and first bytes, and advice for each kind.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;

use super::gguf;
use crate::files::{has_ending, open_regular};
use crate::formats::kind::{self, FileFormat};

/// As many bytes as distinguish kinds of files.
const HEAD_BYTES: u64 = 512;

/// A noun phrase for a file that does not hold weights, and what to do about it.
pub(crate) type OtherFile = (&'static str, &'static str);

const UNFINISHED: OtherFile = (
    "an unfinished download",
    "Let the download finish, or start it again",
);
const WEB_PAGE: OtherFile = (
    "a web page",
    "A web page was saved instead of the file: log in where it is published, accept its licence if it asks for that, and download the file again",
);
const NOT_GGUF: OtherFile = (
    "a file that is named .gguf and does not begin as one",
    "Download the file again, and do not rename files of other formats",
);
const PYTORCH: OtherFile = (
    "a ZIP archive or a PyTorch checkpoint",
    "PyTorch's files can run code when opened: get the .safetensors version of the same weights, or unpack the archive",
);
const PICKLE: OtherFile = (
    "a pickle file",
    "Pickle files can run code when opened: get the .safetensors version of the same weights",
);
const ARCHIVE: OtherFile = (
    "an archive",
    "Unpack it and use the .safetensors or .gguf file in it",
);
const OLD_GGML: OtherFile = (
    "a GGML file from before GGUF",
    "Get the model as GGUF or safetensors",
);
const OTHER_FRAMEWORK: OtherFile = ("a file of another framework", AS_WEIGHTS);
const ONNX: OtherFile = ("an ONNX file", AS_WEIGHTS);
const TENSORRT: OtherFile = (
    "a TensorRT engine",
    "An engine runs on one kind of GPU with one version of TensorRT: get the model that it was made of, as safetensors or GGUF",
);
const AS_WEIGHTS: &str = "Get the model as safetensors or GGUF";
const UNKNOWN: OtherFile = (
    "a file of an unknown kind",
    "It is not an image or a video that Safelight reads either; a model is a .safetensors or .gguf file, or a diffusers folder",
);
const GIT_LFS: OtherFile = (
    "a Git LFS pointer",
    "Run `git lfs pull` in its folder, or download the file itself",
);

const SOUND: OtherFile = (
    kind::SOUND,
    "It has no image: choose an image or a video; a model is a .safetensors or .gguf file, or a diffusers folder",
);

/// First bytes of a file that Git LFS has not fetched.
const LFS_START: &[u8] = b"version https://git-lfs";

/// First bytes of such files.
const MAGIC: [(&[u8], OtherFile); 23] = [
    (LFS_START, GIT_LFS),
    (b"PK\x03\x04", PYTORCH),
    (b"\x80\x02", PICKLE),
    (b"\x80\x03", PICKLE),
    (b"\x80\x04", PICKLE),
    (b"\x80\x05", PICKLE),
    (b"\x1f\x8b", ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", ARCHIVE),
    (b"Rar!\x1a", ARCHIVE),
    (b"lmgg", OLD_GGML),
    (b"fmgg", OLD_GGML),
    (b"tjgg", OLD_GGML),
    (b"algg", OLD_GGML),
    (b"\x89HDF\r\n", OTHER_FRAMEWORK),
    (b"\x93NUMPY", OTHER_FRAMEWORK),
    (b"\x1c\0\0\0TFL3", OTHER_FRAMEWORK),
    // The version of the intermediate representation, and the name of the program that wrote it.
    (b"\x08\x06\x12", ONNX),
    (b"\x08\x07\x12", ONNX),
    (b"\x08\x08\x12", ONNX),
    (b"\x08\x09\x12", ONNX),
    (b"\x08\x0a\x12", ONNX),
    (b"ftrt", TENSORRT),
    (b"ptrt", TENSORRT),
];

/// Endings of files whose first bytes tell less.
const ENDINGS: [(&[&str], OtherFile); 4] = [
    (&["onnx"], ONNX),
    (&["engine", "plan", "trt"], TENSORRT),
    (
        &["keras", "mlmodel", "msgpack", "npz", "pb", "pdparams"],
        OTHER_FRAMEWORK,
    ),
    (&["ggml"], OLD_GGML),
];

/// Endings that browsers and download programs give to files that are not complete.
const PARTIAL_ENDINGS: [&str; 7] = [
    "aria2",
    "crdownload",
    "download",
    "incomplete",
    "part",
    "partial",
    "tmp",
];

pub(crate) fn is_gguf(path: &Path) -> bool {
    head(path).starts_with(&gguf::MAGIC)
}

/// Returns what a file is if a program is still downloading it, or has given up: its size may be right all the same.
pub(crate) fn unfinished_download(path: &Path) -> Option<OtherFile> {
    let mut control = OsString::from(path);
    control.push(".aria2");
    Path::new(&control).exists().then_some(UNFINISHED)
}

/// Returns what a file is that Git LFS has not fetched, whatever its name; or a sound file.
pub(crate) fn without_content(path: &Path) -> Option<OtherFile> {
    let is_sound = || kind::sniff(&head(path)) == FileFormat::Other(kind::SOUND);
    git_lfs_pointer(path).or_else(|| is_sound().then_some(SOUND))
}

/// Returns what a file is that Git LFS has not fetched, whatever its name.
pub(crate) fn git_lfs_pointer(path: &Path) -> Option<OtherFile> {
    head(path).starts_with(LFS_START).then_some(GIT_LFS)
}

/// Returns what a file with the name of a pickle is, where its first bytes tell that it is none.
pub(crate) fn other_than_pickle(path: &Path) -> Option<OtherFile> {
    let known = [PICKLE, PYTORCH, UNKNOWN];
    other_than_weights(path).filter(|found| !known.contains(found))
}

/// Returns what a file without a sound header is; `None` if it may be a weight file that is cut off or damaged.
pub(crate) fn other_than_weights(path: &Path) -> Option<OtherFile> {
    if has_ending(path, &PARTIAL_ENDINGS) {
        return Some(UNFINISHED);
    }
    let head = head(path);
    let is_gguf_by_name = has_ending(path, &["gguf"]);
    // The length of a header, which may begin as another format does, and the header.
    let is_safetensors = head.get(5..9) == Some(b"\0\0\0{");
    if is_gguf_by_name && is_safetensors {
        return Some(NOT_GGUF);
    }
    if is_safetensors || head.len() < 8 || head.starts_with(&gguf::MAGIC) {
        return None;
    }
    if head.len() as u64 == HEAD_BYTES && head.iter().all(|&byte| byte == 0) {
        return Some(UNFINISHED);
    }
    let mut endings = ENDINGS.iter();
    if let Some((_, found)) = endings.find(|(endings, _)| has_ending(path, endings)) {
        return Some(*found);
    }
    let mut known = MAGIC.iter();
    if let Some((_, found)) = known.find(|(magic, _)| head.starts_with(magic)) {
        return Some(*found);
    }
    if is_markup(&head) {
        return Some(WEB_PAGE);
    }
    match kind::sniff(&head) {
        FileFormat::Other("a file of another kind") if is_gguf_by_name => Some(NOT_GGUF),
        // In safetensors the JSON header follows 8 bytes of length.
        FileFormat::Other("a file of another kind") => {
            (head.get(8) != Some(&b'{') && !head.starts_with(&[0; 8])).then_some(UNKNOWN)
        }
        kind @ (FileFormat::Json | FileFormat::Other("a text file")) => Some((
            kind.described(),
            "A server may have answered with a text instead of the file: log in where it is published, accept its licence if it asks for that, and download the file again",
        )),
        FileFormat::Other(kind::SOUND) => Some(SOUND),
        kind @ FileFormat::Other(_) => Some((
            kind.described(),
            "To use it as an image, save it as PNG or JPEG first; a model is a .safetensors or .gguf file",
        )),
        kind => Some((
            kind.described(),
            "A model is a .safetensors or .gguf file, or a diffusers folder",
        )),
    }
}

/// HTML, or the XML with which file servers report errors.
fn is_markup(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = text.trim_ascii_start().to_ascii_lowercase();
    let beginnings: [&[u8]; 5] = [b"<!doctype", b"<html", b"<head", b"<?xml", b"<!--"];
    beginnings.iter().any(|start| text.starts_with(start))
}

fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if let Ok(file) = open_regular(path) {
        // Bytes read before an error are treated as a short file.
        file.take(HEAD_BYTES).read_to_end(&mut head).ok();
    }
    head
}
