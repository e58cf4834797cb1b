//! Readers of files that other programs may have written, for the tests here and the fuzzer in `packaging/lab`.
//!
//! Each reader passes bytes, mostly as a file of the usual name, to the functions that the program calls. Their results
//! do not matter; panics, memory and time do.

mod media;
mod texts;
mod weights;
mod wheels;

use std::io;

use crate::scratch::Scratch;

pub struct Reader {
    /// Name of its folder in `tests/fixtures/hostile`.
    pub name: &'static str,
    /// Returns the number of pixels that the file declares: they may be unpacked.
    pub read: fn(&Scratch, &[u8]) -> io::Result<u64>,
}

const fn reader(name: &'static str, read: fn(&Scratch, &[u8]) -> io::Result<u64>) -> Reader {
    Reader { name, read }
}

pub const READERS: &[Reader] = &[
    reader("safetensors", weights::safetensors),
    reader("safetensors-header", weights::safetensors_header),
    reader("gguf", weights::gguf),
    reader("lora", weights::lora),
    reader("model-folder", weights::model_folder),
    reader("tokenizer-folder", weights::tokenizer_folder),
    reader("spiece", weights::spiece),
    reader("models-toml", texts::models),
    reader("settings-toml", texts::settings),
    reader("presets-toml", texts::presets),
    reader("paths-yaml", texts::paths),
    reader("metadata-text", texts::metadata),
    reader("state-json", texts::state),
    reader("prompt", texts::prompt),
    reader("wildcards", texts::wildcards),
    reader("telemetry-record", texts::telemetry_record),
    reader("engine-messages", texts::engine_messages),
    reader("png", |to, bytes| media::media(to, "x.png", bytes)),
    reader("jpeg", |to, bytes| media::media(to, "x.jpg", bytes)),
    reader("webp", |to, bytes| media::media(to, "x.webp", bytes)),
    reader("gif", |to, bytes| media::media(to, "x.gif", bytes)),
    reader("tiff", |to, bytes| media::media(to, "x.tiff", bytes)),
    reader("bmp", |to, bytes| media::media(to, "x.bmp", bytes)),
    reader("mp4", |to, bytes| media::media(to, "x.mp4", bytes)),
    reader("webm", media::webm),
    reader("index-page", texts::index_page),
    reader("wheel", wheels::wheel),
];
