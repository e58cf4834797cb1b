//! The one list of what Safelight reads and others may have written. The fuzzer and the tests go through it.
//!
//! Each reader gets bytes and gives them to the functions that the program itself calls, on a file of the usual name. What
//! those answer is no matter: a panic, and what it costs, is.

mod media;
mod texts;
mod weights;
mod wheels;

use std::io;

use crate::scratch::Scratch;

pub struct Reader {
    /// Also of its folder in `corpus`.
    pub name: &'static str,
    /// What its formats are spelled with: put into files among other damage.
    pub words: &'static [&'static str],
    /// Gives how many pixels the file says itself that it has, which may be unpacked.
    pub read: fn(&Scratch, &[u8]) -> io::Result<u64>,
}

const fn reader(
    name: &'static str,
    read: fn(&Scratch, &[u8]) -> io::Result<u64>,
    words: &'static [&'static str],
) -> Reader {
    Reader { name, words, read }
}

pub const READERS: &[Reader] = &[
    reader("safetensors", weights::safetensors, weights::SAFETENSORS),
    reader(
        "safetensors-header",
        weights::safetensors_header,
        weights::SAFETENSORS,
    ),
    reader("gguf", weights::gguf, weights::GGUF),
    reader("lora", weights::lora, weights::LORA),
    reader("model-folder", weights::model_folder, weights::CONFIG),
    reader(
        "tokenizer-folder",
        weights::tokenizer_folder,
        weights::TOKENIZER,
    ),
    reader("spiece", weights::spiece, &[]),
    reader("models-toml", texts::models, texts::MODELS),
    reader("settings-toml", texts::settings, texts::TOML),
    reader("presets-toml", texts::presets, texts::TOML),
    reader("paths-yaml", texts::paths, texts::YAML),
    reader("metadata-text", texts::metadata, texts::METADATA),
    reader("state-json", texts::state, texts::STATE),
    reader("prompt", texts::prompt, texts::PROMPT),
    reader("wildcards", texts::wildcards, texts::WILDCARDS),
    reader("telemetry-record", texts::telemetry_record, texts::RECORD),
    reader("engine-messages", texts::engine_messages, texts::STATE),
    reader("png", media::png, media::PNG),
    reader("jpeg", media::jpeg, media::JPEG),
    reader("webp", media::webp, media::WEBP),
    reader("gif", media::gif, media::GIF),
    reader("tiff", media::tiff, &[]),
    reader("bmp", media::bmp, &[]),
    reader("mp4", media::mp4, media::MP4),
    reader("webm", media::webm, media::WEBM),
    reader("index-page", texts::index_page, texts::INDEX),
    reader("wheel", wheels::wheel, wheels::WHEEL),
];
