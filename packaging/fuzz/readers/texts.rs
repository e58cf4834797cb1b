//! What is text: lists of models, settings, presets, other programs' lists and words, this program's own state, prompts
//! with their wildcards, pages of package indexes.

use std::io;
use std::path::PathBuf;

use safelight::runtimes::{Requirement, of_page};
use safelight::telemetry::record::Record;
use safelight_core::catalog::known_models;
use safelight_core::gallery::Shelf;
use safelight_core::job::prompt::{self, Timeline, WildcardFolders};
use safelight_core::job::{GenerateForm, JobFolder, JobId, QueueFile, SheetCells};
use safelight_core::library::folders_listed_in;
use safelight_core::media::{read_settings, read_texts};
use safelight_core::memory::Corrections;
use safelight_core::memory::conv_backends::ConvBackendFile;
use safelight_core::memory::counters::Counters;
use safelight_core::protocol::{EngineCommand, EngineMessage, read_frame};
use safelight_core::settings::Settings;
use safelight_core::{presets, restore};

use crate::scratch::Scratch;

pub const MODELS: &[&str] = &[
    "[[model]]",
    "[shared.a]",
    "[source.a]",
    "id = ",
    "family = ",
    "variant = ",
    "defaults = ",
    "limits",
    "latent_rgb",
    "presets",
    "shape",
    "sources = ",
    "shared = ",
    "repository = ",
    "download_bytes = ",
    "component = ",
    "folder = ",
    "'''",
    "\"\"\"",
    "inf",
    "nan",
    "0xffffffffffffffff",
    "1979-05-27T07:32:00Z",
    "little-world",
    "[[[[[[[[",
    "{a={a={a={a=",
];
pub const TOML: &[&str] = &[
    "[interface]",
    "[models]",
    "[runtime]",
    "[output]",
    "[[preset]]",
    "name = ",
    "folders = [",
    "scale = ",
    "size = ",
    "nan",
    "inf",
    "-1",
    "true",
    "'''",
    "\"\"\"",
    "a.b.c = 1",
    "[[",
    "1e400",
    "\\u0000",
    "\\U0010FFFF",
];
pub const YAML: &[&str] = &[
    "base_path: ",
    "is_default: true",
    "checkpoints: ",
    "vae: |",
    "loras: >",
    "&a ",
    "*a",
    "<<: *a",
    "- ",
    "? ",
    "!!binary ",
    "%YAML 1.2",
    "---",
    "...",
    "[[[[[[[[",
    "{a: {a: {a: ",
    "\"\\x41\"",
    "~",
    "${HOME}",
    "$HOME",
];
pub const METADATA: &[&str] = &[
    "Steps: 20, Sampler: Euler a, CFG scale: 7, Seed: 1, Size: 512x512",
    "Negative prompt: ",
    "<lora:a:0.8>",
    "(a:1.2)",
    "\"class_type\"",
    "\"inputs\"",
    "\"KSampler\"",
    "\"nodes\"",
    "\"links\"",
    "\"widgets_values\"",
    "[\"1\", 0]",
    "{\"a\":",
    "sui_image_params",
    "\"request\"",
    "\"safelight\"",
    "1e308",
    "-0",
    "18446744073709551616",
    "[[[[[[[[",
    "\\ud800",
    "\\u0000",
];
pub const STATE: &[&str] = &[
    "\"version\"",
    "\"jobs\"",
    "\"request\"",
    "\"form\"",
    "\"prompt\"",
    "\"seed\"",
    "null",
    "true",
    "-1",
    "1e308",
    "1e-400",
    "18446744073709551615",
    "[[[[[[[[",
    "{\"a\":",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\0\0\0\0",
];
pub const PROMPT: &[&str] = &[
    "{",
    "}",
    "|",
    "{2$$",
    "{1-3$$, $$",
    "__a__",
    "__*__",
    "::",
    "(a:1.1)",
    "((",
    "[",
    "]",
    "[0s: a]",
    "[1s-2s: b]",
    "#",
    "//",
    "\\",
    "{a|{b|{c|{d|",
    "<lora:",
    "BREAK",
    "\u{200b}",
    "\u{1f98a}",
];

pub const WILDCARDS: &[&str] = &[
    "__a__",
    "__b__",
    "__c/d__",
    "__*__",
    "__**__",
    "__../a__",
    "{2$$__a__}",
    "{1-3$$ and $$__c/*__}",
    "0.5::",
    "0::",
    "{a|b}",
    "# ",
    "\n",
    "\r\n",
    "\u{feff}",
    "\n=== prompt\n",
    "\n=== wildcards/a.txt\n",
    "\n=== wildcards/b.txt\n",
    "\n=== wildcards/c/d.txt\n",
];
pub const INDEX: &[&str] = &[
    "<a href=\"",
    "<a href='",
    "</a><br/>",
    "#sha256=",
    "&amp;",
    "?a=1",
    "%2B",
    "%2F",
    "%FF",
    "../",
    "//",
    "https://index.example/",
    "https://files.example/",
    "https://evil.example/",
    "torch-2.11.0%2Brocm7.2-cp312-cp312-manylinux_2_28_x86_64.whl",
    "amd_torch_device_gfx1151-2.11.0-py3-none-any.whl",
    "-1-2-3-4-5.whl",
    ".whl",
    "18446744073709551616",
];
pub const RECORD: &[&str] = &[
    "\"samples\":[",
    "\"stages\":[",
    "\"reclaims\":[",
    "\"machine\":{",
    "\"at_secs\":",
    "\"from_secs\":",
    "\"to_secs\":",
    "\"boundary\":",
    "[0,0,0,0,0],",
    "[\"save\",0,null],",
    "null",
    "-1",
    "1e308",
    "18446744073709551615",
    "[[[[[[[[",
    "{\"a\":",
    "\"a,b\\n\"",
    "\"\\ud800\"",
];

/// The prompt and the wildcards that it finds.
const WILDCARD_FILES: &[&str] = &[
    "prompt",
    "wildcards/a.txt",
    "wildcards/b.txt",
    "wildcards/c/d.txt",
];
/// Asks for every wildcard, whatever became of the other prompt.
const ALL_WILDCARDS: &str = "__a__, {2$$__**__}, __c/*__, {1-9$$ and $$__b__}";
/// Where a page comes from, where its files may be beside that, and what is looked for on it.
const PAGE: &str = "https://index.example/whl/torch/";
const FILE_HOSTS: &[&str] = &["files.example"];
const BUILD: &str = "2.11.0+rocm7.2";
const REQUIREMENTS: [&str; 3] = ["torch==2.11.0+rocm7.2", "torch", "amd-torch-device-gfx1151"];

pub fn models(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("models.toml", bytes)?;
    let (models, _problem) = scratch.call(|| known_models(&path));
    assert!(!models.is_empty(), "what ships is always known");
    Ok(0)
}

pub fn settings(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("settings.toml", bytes)?;
    let loaded = scratch.call(|| Settings::load(&path));
    if loaded.error.is_none() {
        // What is read can be written over what is there, and says the same then.
        let saved = scratch.call(|| loaded.settings.save(&path));
        assert!(saved.is_err() || Settings::load(&path).error.is_none());
    }
    Ok(0)
}

pub fn presets(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("presets.toml", bytes)?;
    scratch.call(|| drop(presets::load(&path)));
    Ok(0)
}

pub fn paths(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("extra_model_paths.yaml", bytes)?;
    scratch.call(|| drop(folders_listed_in(&path)));
    Ok(0)
}

/// What other programs write into files and beside them; the same bytes as a picture's neighbour, and alone.
pub fn metadata(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    for name in ["alone.json", "alone.txt"] {
        let path = scratch.file(name, bytes)?;
        let settings = scratch.call(|| read_settings(&path));
        let settings = settings.ok().flatten();
        let settings = settings.and_then(|text| serde_json::from_str(&text).ok());
        scratch.call(|| drop(settings.as_ref().and_then(SheetCells::of_settings)));
        scratch.call(|| drop(read_texts(&path)));
        scratch.call(|| drop(restore::read(&path)));
    }
    let picture = scratch.file(
        "beside.png",
        b"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82",
    )?;
    for name in ["beside.json", "beside.txt"] {
        scratch.file(name, bytes)?;
        scratch.call(|| drop(restore::read(&picture)));
        std::fs::remove_file(scratch.path().join(name))?;
    }
    Ok(0)
}

/// The program's own files, which a crash, a sync or another version may have changed.
pub fn state(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("job/request.json", bytes)?;
    scratch.call(|| drop(JobFolder::at(scratch.path().join("job")).request()));
    scratch.call(|| drop(QueueFile::load(&path)));
    scratch.call(|| drop(Shelf::open(path.clone(), path.clone())));
    scratch.call(|| drop((Counters::load(&path), Corrections::load(&path))));
    scratch.call(|| drop(ConvBackendFile::load(&path)));
    scratch.call(|| drop(serde_json::from_slice::<GenerateForm>(bytes)));
    Ok(0)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "every reader of the list has this form"
)]
pub fn prompt(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let text = String::from_utf8_lossy(bytes);
    let none = WildcardFolders::new(Vec::<PathBuf>::new());
    for seed in [0, u64::MAX] {
        scratch.call(|| drop(prompt::expand(&text, seed, &none)));
    }
    scratch.call(|| drop(prompt::lines(&text)));
    scratch.call(|| drop(prompt::longest(&text, &none, &mut |text| text.len())));
    if let Ok(Some(timeline)) = scratch.call(|| Timeline::parse(&text)) {
        scratch.call(|| drop(timeline.texts()));
    }
    Ok(0)
}

/// What an engine that has lost its mind may send, and what it may be told.
#[expect(
    clippy::unnecessary_wraps,
    reason = "every reader of the list has this form"
)]
pub fn engine_messages(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let mut rest = bytes;
    while let Ok(Some(_)) = scratch.call(|| read_frame::<EngineMessage>(&mut rest)) {}
    let mut rest = bytes;
    while let Ok(Some(_)) = scratch.call(|| read_frame::<EngineCommand>(&mut rest)) {}
    Ok(0)
}

/// A prompt and files of wildcards, as [`Scratch::tree`] has them.
pub fn wildcards(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let folder = scratch.tree(bytes, WILDCARD_FILES)?;
    let template = std::fs::read(folder.join("prompt")).unwrap_or_default();
    let template = String::from_utf8_lossy(&template);
    let wildcards = WildcardFolders::new([folder.join("wildcards")]);
    scratch.call(|| drop(wildcards.names()));
    scratch.call(|| drop(wildcards.list()));
    for template in [&*template, ALL_WILDCARDS] {
        for seed in [0, u64::MAX] {
            scratch.call(|| drop(prompt::expand(template, seed, &wildcards)));
        }
        let longest = || prompt::longest(template, &wildcards, &mut |text| text.len());
        scratch.call(|| drop(longest()));
    }
    Ok(0)
}

/// What a server sends as the page of a package.
#[expect(
    clippy::unnecessary_wraps,
    reason = "every reader of the list has this form"
)]
pub fn index_page(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let html = String::from_utf8_lossy(bytes);
    let listed = scratch.call(|| of_page(PAGE, &html, FILE_HOSTS));
    for text in REQUIREMENTS {
        let listed = listed.clone();
        scratch.call(|| drop(Requirement::parse(text).choose(listed, BUILD, |_| false)));
    }
    Ok(0)
}

/// What was measured during a job, and its table.
pub fn telemetry_record(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("records/7.json", bytes)?;
    let folder = scratch.path().join("records");
    let Ok(record) = scratch.call(|| Record::load(&folder, JobId(7))) else {
        return Ok(0);
    };
    scratch.call(|| drop(record.to_csv()));
    // What is read can be written again, and is a record then.
    let exported = scratch.call(|| record.export(&path));
    assert!(exported.is_err() || Record::load(&folder, JobId(7)).is_ok());
    Ok(0)
}
