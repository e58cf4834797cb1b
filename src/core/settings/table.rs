//! Table of all settings: key, name, explanation, control, and syntax of the value.
//!
//! The settings page, the commented file, the command palette and `docs/settings.md` are generated from this table. The
//! window draws the controls; [`Settings`] has the defaults.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{AllocatorChoice, Settings, ThemeChoice};
use crate::job::{DtypeChoice, PreviewChoice};
use crate::media::HAS_H264;
use crate::memory::compute_options::{AttentionChoice, DecodeChunk, MatrixLibrary};
use crate::memory::conv_backends::ConvBackendChoice;

pub use toml::Value;

/// Settings that belong together on the page.
pub struct SettingsSection {
    pub name: &'static str,
    pub settings: &'static [SettingRow],
}

/// One setting.
#[derive(Clone, Copy)]
pub struct SettingRow {
    /// As in the file: `table.key`.
    pub key: &'static str,
    pub name: &'static str,
    /// Explanation for the page.
    pub explanation: &'static str,
    /// Syntax of the value, for the file; empty if the control suffices.
    pub written: &'static str,
    pub control: SettingControl,
}

/// The first needs H.264.
const VIDEO_FORMATS: &[(&str, &str)] = &[
    ("mp4", "MP4 (H.264), plays everywhere"),
    ("gif", "GIF"),
    ("webp", "Animated WebP"),
    ("png", "Numbered PNG frames, lossless"),
];

/// Control of a value.
#[derive(Clone, Copy)]
pub enum SettingControl {
    /// On or off, with a label.
    Switch(&'static str),
    /// One of several texts, each with its name.
    Choice(&'static [(&'static str, &'static str)]),
    /// Seconds, at least `least`.
    Secs { least: u64 },
    /// GiB, or the text for none.
    Gib(&'static str),
    /// A constant rate factor.
    Quality,
    /// The size of everything, 1 is 100 %.
    Scale,
    /// `auto`, `cpu` or `cuda:N`.
    Device,
    /// Path, or the text for none.
    Folder(&'static str),
    /// Address, or the text for none.
    Address(&'static str),
    /// Any number of paths.
    Folders,
    /// Names and values.
    Variables,
}

impl SettingRow {
    /// Returns whether the full name of a value, such as `runtime.environment.HOME`, belongs to this setting.
    pub fn holds(&self, key: &str) -> bool {
        key.strip_prefix(self.key)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Comment for the file and the documentation.
    fn comment(&self) -> String {
        let mut text = format!("{}.", self.explanation.trim_end_matches('.'));
        if let SettingControl::Choice(choices) = self.control
            && self.written.is_empty()
        {
            let named = choices.iter().map(|(value, name)| {
                if value.eq_ignore_ascii_case(name) {
                    format!("{value:?}")
                } else {
                    format!("{value:?} ({name})")
                }
            });
            let named: Vec<String> = named.collect();
            // Writing to a string cannot fail.
            write!(text, " One of {}.", named.join(", ")).ok();
        }
        if !self.written.is_empty() {
            write!(text, " {}.", self.written.trim_end_matches('.')).ok();
        }
        text
    }

    /// Its default as the file says it.
    fn default_text(&self, defaults: &BTreeMap<String, Value>) -> String {
        let value = defaults.get(self.key);
        value.map_or_else(|| "\"\"".to_owned(), |value| value.to_string())
    }
}

/// Every setting, in reading order.
pub fn settings() -> impl Iterator<Item = &'static SettingRow> {
    SECTIONS.iter().flat_map(|section| section.settings)
}

/// Every setting with its default and a comment: what a first save writes.
pub fn default_file() -> String {
    const TABLES: [&str; 5] = ["runtime", "memory", "output", "models", "interface"];
    let defaults = Settings::default().values();
    let mut text =
        "# Safelight's settings. Whatever is left out has the value shown here.\n".to_owned();
    for table in TABLES {
        write!(text, "\n[{table}]\n").ok();
        let of_table = settings().filter_map(|setting| {
            let (own, key) = setting.key.split_once('.')?;
            (own == table).then_some((setting, key))
        });
        // A nested table ends the one that contains it.
        let (inner, plain): (Vec<_>, Vec<_>) =
            of_table.partition(|(setting, _)| matches!(setting.control, SettingControl::Variables));
        for (setting, key) in plain {
            comment_out(&mut text, &setting.comment());
            writeln!(text, "{key} = {}", setting.default_text(&defaults)).ok();
        }
        for (setting, _) in inner {
            write!(text, "\n[{}]\n", setting.key).ok();
            comment_out(&mut text, &setting.comment());
        }
    }
    text
}

/// In lines that an editor shows whole.
fn comment_out(text: &mut String, comment: &str) {
    const MAX_CHARS: usize = 110;
    let mut line = String::from("#");
    for word in comment.split_whitespace() {
        if line.chars().count() + word.chars().count() >= MAX_CHARS {
            writeln!(text, "{line}").ok();
            line = String::from("#");
        }
        write!(line, " {word}").ok();
    }
    writeln!(text, "{line}").ok();
}

/// The documentation: a table of all settings, in Markdown.
#[cfg(all(test, feature = "h264"))]
fn documentation() -> String {
    let defaults = Settings::default().values();
    let mut text = "# Settings\n\nThe settings page and `settings.toml` have these. \
        A test writes this file: it is made from `src/core/settings/table.rs`.\n"
        .to_owned();
    for section in SECTIONS {
        write!(
            text,
            "\n## {}\n\n| Setting | Key | Default | What it does |\n|---|---|---|---|\n",
            section.name
        )
        .ok();
        for setting in section.settings {
            let default = match setting.control {
                SettingControl::Variables => String::new(),
                _ => format!("`{}`", setting.default_text(&defaults)),
            };
            writeln!(
                text,
                "| {} | `{}` | {default} | {} |",
                setting.name,
                setting.key,
                setting.comment()
            )
            .ok();
        }
    }
    text
}

pub const SECTIONS: &[SettingsSection] = &[
    SettingsSection {
        name: "Looks and desktop",
        settings: &[
            SettingRow {
                key: "interface.theme",
                name: "Look",
                explanation: "Dark, light, or the same as your desktop",
                written: "",
                control: SettingControl::Choice(ThemeChoice::CHOICES),
            },
            SettingRow {
                key: "interface.scale",
                name: "Scale",
                explanation: "Size of text and controls, from 50 to 300 %. Ctrl and + or - change it anywhere",
                written: "1.0 is 100 %",
                control: SettingControl::Scale,
            },
            SettingRow {
                key: "interface.preview",
                name: "Preview",
                explanation: "How an image or video is shown while it develops. A tiny decoder makes it sharp where one lies among your models, in ComfyUI's folder vae_approx for example: taef1 for Flux, taew2_1 or taew2_2 for Wan, taehv for FramePack",
                written: "",
                control: SettingControl::Choice(PreviewChoice::CHOICES),
            },
            SettingRow {
                key: "interface.notifications",
                name: "Notifications",
                explanation: "A desktop notification when a job fails, or when one of at least half a minute is done while you do something else",
                written: "",
                control: SettingControl::Switch("Notify me when jobs end"),
            },
        ],
    },
    SettingsSection {
        name: "Results",
        settings: &[
            SettingRow {
                key: "output.folder",
                name: "Folder for videos",
                explanation: "Where videos are written. Empty: the folder Safelight in your videos",
                written: "",
                control: SettingControl::Folder("Videos/Safelight"),
            },
            SettingRow {
                key: "output.images_folder",
                name: "Folder for images",
                explanation: "Where images are written. Empty: the folder Safelight in your images",
                written: "",
                control: SettingControl::Folder("Pictures/Safelight"),
            },
            SettingRow {
                key: "output.format",
                name: "Format of videos",
                explanation: "The kind of file for videos. An image is always a PNG",
                written: "",
                control: SettingControl::Choice(if HAS_H264 {
                    VIDEO_FORMATS
                } else {
                    VIDEO_FORMATS.split_at(1).1
                }),
            },
            SettingRow {
                key: "output.crf",
                name: "Quality of videos",
                explanation: "Of MP4 and WebP, on the scale that x264 calls CRF: 0 is best and largest, 51 worst, 16 looks like the original",
                written: "",
                control: SettingControl::Quality,
            },
            SettingRow {
                key: "output.sidecar",
                name: "Settings beside results",
                explanation: "They are inside the file too, where its format can carry them",
                written: "true also writes them beside the file, as .json",
                control: SettingControl::Switch("Also write them as a JSON file"),
            },
        ],
    },
    SettingsSection {
        name: "Models and prompts",
        settings: &[
            SettingRow {
                key: "models.folders",
                name: "Model folders",
                explanation: "Where models are looked for, besides the usual places. May be a folder of ComfyUI or another program, or a list such as extra_model_paths.yaml",
                written: "`safelight models` names the usual places",
                control: SettingControl::Folders,
            },
            SettingRow {
                key: "models.search_installs",
                name: "Other programs",
                explanation: "ComfyUI, SwarmUI, Forge, A1111, Wan2GP, FramePack, Stability Matrix and Pinokio, where they usually are. Nothing is copied or moved",
                written: "true also looks in their folders",
                control: SettingControl::Switch("Also look in their folders"),
            },
            SettingRow {
                key: "models.wildcards",
                name: "Wildcard folders",
                explanation: "Folders with files name.txt, a choice a line, for prompts with __name__; besides the folder wildcards beside the settings file",
                written: "SwarmUI's is Data/Wildcards, that of A1111's Dynamic Prompts wildcards",
                control: SettingControl::Folders,
            },
        ],
    },
    SettingsSection {
        name: "Memory",
        settings: &[
            SettingRow {
                key: "memory.preserved_gib",
                name: "Preserved memory",
                explanation: "Device memory kept free for activations. More is safer and slower",
                written: "In GiB; \"\" means computed for each job",
                control: SettingControl::Gib("Computed for each job"),
            },
            SettingRow {
                key: "memory.cap_gib",
                name: "Memory cap",
                explanation: "The most device memory that is ever used, including other programs",
                written: "In GiB; \"\" means by the kind of the device",
                control: SettingControl::Gib("By the kind of the device"),
            },
            SettingRow {
                key: "memory.keep_loaded",
                name: "Between stages",
                explanation: "Otherwise each model is unloaded before the next, which always fits more",
                written: "true keeps models loaded where they fit together",
                control: SettingControl::Switch("Keep models loaded where they fit together"),
            },
            SettingRow {
                key: "memory.yields",
                name: "Scarce memory",
                explanation: "When another program takes the memory that is left, the running job stops at its step, gives its memory back, and continues by itself when there is room",
                written: "true gives memory to other programs, false keeps it",
                control: SettingControl::Switch(
                    "Give memory to other programs when it gets scarce",
                ),
            },
        ],
    },
    SettingsSection {
        name: "Device and engine",
        settings: &[
            SettingRow {
                key: "runtime.device",
                name: "Device",
                explanation: "The device that runs jobs, from the next job on",
                written: "\"auto\" is the GPU of the libtorch where there is one; else \"cpu\", or \"cuda:0\" for the first GPU (AMD's count as cuda too)",
                control: SettingControl::Device,
            },
            SettingRow {
                key: "runtime.libtorch",
                name: "libtorch folder",
                explanation: "A folder with libtorch 2.11.0 or 2.13.0 (CPU, CUDA or ROCm). Empty: the one that set-up prepared",
                written: "",
                control: SettingControl::Folder("The prepared one"),
            },
            SettingRow {
                key: "runtime.mirror",
                name: "Mirror for libtorch",
                explanation: "An index of Python wheels (PEP 503) from which libtorch is downloaded, in place of AMD's, PyTorch's or the Python registry. Checksums are compared as before. Empty: each build's own index",
                written: "An address that begins with https://",
                control: SettingControl::Address("Each build's own index"),
            },
            SettingRow {
                key: "runtime.dtype",
                name: "Precision",
                explanation: "The number format of the transformer. Automatic: bf16 on a GPU, f32 on the CPU",
                written: "",
                control: SettingControl::Choice(DtypeChoice::CHOICES),
            },
        ],
    },
    SettingsSection {
        name: "For experts",
        settings: &[
            SettingRow {
                key: "runtime.attention",
                name: "Attention",
                explanation: "How attention runs on a GPU. Automatic: the fastest kernel; in slices is slower and always works",
                written: "",
                control: SettingControl::Choice(AttentionChoice::CHOICES),
            },
            SettingRow {
                key: "runtime.matrices",
                name: "Matrix library",
                explanation: "The library that multiplies matrices on a GPU. Automatic: the one that libtorch prefers",
                written: "",
                control: SettingControl::Choice(MatrixLibrary::CHOICES),
            },
            SettingRow {
                key: "runtime.chunk",
                name: "Frames a chunk",
                explanation: "Number of latent frames that Wan's VAEs decode together on a GPU, each of them four frames of the video. More are a little faster and need more memory: only as many are used as fit. Automatic: as many as fit, and 1 on AMD GPUs",
                written: "",
                control: SettingControl::Choice(DecodeChunk::CHOICES),
            },
            SettingRow {
                key: "runtime.convolution",
                name: "Convolutions",
                explanation: "How VAEs run. Automatic: the fastest way that works, which is tried out once on AMD GPUs",
                written: "",
                control: SettingControl::Choice(ConvBackendChoice::CHOICES),
            },
            SettingRow {
                key: "runtime.allocator",
                name: "Allocator",
                explanation: "How libtorch manages GPU memory. Growing segments waste less memory, but some ROCm builds hang with them",
                written: "",
                control: SettingControl::Choice(AllocatorChoice::CHOICES),
            },
            SettingRow {
                key: "runtime.stall_limit_secs",
                name: "Hang limit",
                explanation: "An engine that makes no progress for so long is restarted",
                written: "In seconds",
                control: SettingControl::Secs { least: 1 },
            },
            SettingRow {
                key: "runtime.cancel_grace_secs",
                name: "Cancel grace",
                explanation: "How long a cancelled stage may take to stop by itself",
                written: "In seconds",
                control: SettingControl::Secs { least: 0 },
            },
            SettingRow {
                key: "runtime.verbose_miopen",
                name: "MIOpen's log",
                explanation: "Details about AMD's convolutions in the engine's log, for bug reports",
                written: "true lets MIOpen write to it",
                control: SettingControl::Switch("Let MIOpen write to the log"),
            },
            SettingRow {
                key: "runtime.environment",
                name: "Engine's variables",
                explanation: "More environment variables for the engine. They replace those that Safelight sets; an empty value removes one",
                written: "`safelight doctor` names those. For example: MIOPEN_FIND_MODE = \"1\"",
                control: SettingControl::Variables,
            },
        ],
    },
];

#[cfg(test)]
mod tests;
