//! Text files: models.toml, settings, presets, path lists and metadata of other programs, queue and job files, prompts
//! with wildcards, pages of package indexes.

use std::io;
use std::path::PathBuf;

use safelight::telemetry::record::TelemetryRecord;
use safelight_core::catalog::known_models;
use safelight_core::compute::conv_backends::ConvBackendFile;
use safelight_core::gallery::GalleryIndex;
use safelight_core::job::prompt::{self, PromptTimeline, WildcardFolders};
use safelight_core::job::{GenerateForm, JobFolder, JobId, QueueFile, SheetCells};
use safelight_core::library::folders_listed_in;
use safelight_core::media::{read_settings, read_texts};
use safelight_core::memory::counters::FallbackCounters;
use safelight_core::plan::PeakCorrections;
use safelight_core::protocol::{EngineCommand, EngineMessage, read_frame};
use safelight_core::settings::Settings;
use safelight_core::{presets, restore};
use safelight_wheels::{WheelRequirement, of_page};

use crate::scratch::Scratch;

/// A prompt and its wildcard files.
const WILDCARD_FILES: &[&str] = &[
    "prompt",
    "wildcards/a.txt",
    "wildcards/b.txt",
    "wildcards/c/d.txt",
];
/// A prompt that uses every wildcard.
const ALL_WILDCARDS: &str = "__a__, {2$$__**__}, __c/*__, {1-9$$ and $$__b__}";
/// Address of the index page, other hosts allowed for its files, and the packages to choose.
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
        // Settings that load can be saved and loaded again.
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

/// Metadata of other programs: as a file, and as the sidecar of an image.
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
    let image = scratch.file(
        "beside.png",
        b"\x89PNG\r\n\x1a\n\0\0\0\0IEND\xae\x42\x60\x82",
    )?;
    for name in ["beside.json", "beside.txt"] {
        scratch.file(name, bytes)?;
        scratch.call(|| drop(restore::read(&image)));
        std::fs::remove_file(scratch.path().join(name))?;
    }
    Ok(0)
}

/// Safelight's own files, damaged by a crash or a sync.
pub fn state(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("job/request.json", bytes)?;
    scratch.call(|| drop(JobFolder::open(scratch.path().join("job")).request()));
    scratch.call(|| drop(QueueFile::load(&path)));
    scratch.call(|| drop(GalleryIndex::open(path.clone(), path.clone())));
    scratch.call(|| drop((FallbackCounters::load(&path), PeakCorrections::load(&path))));
    scratch.call(|| drop(ConvBackendFile::load(&path)));
    scratch.call(|| drop(serde_json::from_slice::<GenerateForm>(bytes)));
    Ok(0)
}

#[expect(clippy::unnecessary_wraps, reason = "all readers have one signature")]
pub fn prompt(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let text = String::from_utf8_lossy(bytes);
    let none = WildcardFolders::new(Vec::<PathBuf>::new());
    for seed in [0, u64::MAX] {
        scratch.call(|| drop(prompt::expand(&text, seed, &none)));
    }
    scratch.call(|| drop(prompt::lines(&text)));
    scratch.call(|| drop(prompt::longest(&text, &none, &mut |text| text.len())));
    if let Ok(Some(timeline)) = scratch.call(|| PromptTimeline::parse(&text)) {
        scratch.call(|| drop(timeline.texts()));
    }
    Ok(0)
}

/// Protocol frames in both directions.
#[expect(clippy::unnecessary_wraps, reason = "all readers have one signature")]
pub fn engine_messages(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let mut rest = bytes;
    while let Ok(Some(_)) = scratch.call(|| read_frame::<EngineMessage>(&mut rest)) {}
    let mut rest = bytes;
    while let Ok(Some(_)) = scratch.call(|| read_frame::<EngineCommand>(&mut rest)) {}
    Ok(0)
}

/// A prompt and wildcard files in the format of [`Scratch::tree`].
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

#[expect(clippy::unnecessary_wraps, reason = "all readers have one signature")]
pub fn index_page(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let html = String::from_utf8_lossy(bytes);
    let listed = scratch.call(|| of_page(PAGE, &html, FILE_HOSTS));
    for text in REQUIREMENTS {
        let listed = listed.clone();
        scratch.call(|| drop(WheelRequirement::parse(text).choose(listed, BUILD, |_| false)));
    }
    Ok(0)
}

/// A telemetry record and its CSV export.
pub fn telemetry_record(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("records/7.json", bytes)?;
    let folder = scratch.path().join("records");
    let Ok(record) = scratch.call(|| TelemetryRecord::load(&folder, JobId(7))) else {
        return Ok(0);
    };
    scratch.call(|| drop(record.to_csv()));
    // A record that loads can be exported and loaded again.
    let exported = scratch.call(|| record.export(&path));
    assert!(exported.is_err() || TelemetryRecord::load(&folder, JobId(7)).is_ok());
    Ok(0)
}
