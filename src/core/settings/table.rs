//! Table of all settings: key, name, explanation, control, and syntax of the value.
//!
//! The settings page, the commented file, the command palette and `docs/settings.md` are generated from this table. The
//! window draws the controls; [`Settings`] has the defaults.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{AllocatorChoice, ComputerSettings, ServerReach, Settings, ThemeChoice};
use crate::compute::conv_backends::ConvBackendChoice;
use crate::compute::{AttentionChoice, DecodeChunk, MatrixLibrary};
use crate::job::prompt::PromptWeights;
use crate::job::{DeviceChoice, DtypeChoice, PreviewChoice};
use crate::media::HAS_H264;

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

/// Those that this program writes.
const OWN_VIDEO_FORMATS: &[(&str, &str)] = if HAS_H264 {
    VIDEO_FORMATS
} else {
    VIDEO_FORMATS.split_at(1).1
};

/// Control of a value.
#[derive(Clone, Copy)]
pub enum SettingControl {
    /// On or off, with a label.
    Switch(&'static str),
    /// One of several texts, each with its name.
    Choice(&'static [(&'static str, &'static str)]),
    /// Seconds, at least `least`.
    Secs { least: u64 },
    /// A number from one to another.
    Number((u16, u16)),
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
    /// Any number of names: an example, and a sentence on what is no name.
    Names(&'static str, fn(&str) -> Option<String>),
    /// Names and values.
    Variables,
}

fn device_problem(name: &str) -> Option<String> {
    name.parse::<DeviceChoice>().err()
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
    const TABLES: [&str; 7] = [
        "runtime",
        "memory",
        "output",
        "models",
        "server",
        "computers",
        "interface",
    ];
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

/// Sections by name: key, name and control of a setting, its explanation, and the syntax of its value where the control
/// does not suffice.
macro_rules! settings_sections {
    ($($section:literal {
        $($key:literal $name:literal: $control:ident $(($($of:expr),+))? $({ $least:ident: $secs:literal })?,
            $explanation:literal $(, $written:literal)?;)+
    })+) => {
        &[$(SettingsSection {
            name: $section,
            settings: &[$(SettingRow {
                key: $key,
                name: $name,
                explanation: $explanation,
                written: concat!("" $(, $written)?),
                control: SettingControl::$control $(($($of),+))? $({ $least: $secs })?,
            }),+],
        }),+]
    };
}

pub const SECTIONS: &[SettingsSection] = settings_sections! {
    "Looks and desktop" {
        "interface.theme" "Look": Choice(ThemeChoice::CHOICES),
            "Dark, light, or the same as your desktop";
        "interface.scale" "Scale": Scale,
            "Size of text and controls, from 50 to 300 %. Ctrl and + or - change it anywhere",
            "1.0 is 100 %";
        "interface.preview" "Preview": Choice(PreviewChoice::CHOICES),
            "How an image or video is shown while it develops. A tiny decoder makes it sharp where one lies among your models, in ComfyUI's folder vae_approx for example: taef1 for Flux, taew2_1 or taew2_2 for Wan, taehv for FramePack";
        "interface.notifications" "Notifications": Switch("Notify me when jobs end"),
            "A desktop notification when a job fails, or when one of at least half a minute is done while you do something else";
    }
    "Results" {
        "output.folder" "Folder for videos": Folder("Videos/Safelight"),
            "Where videos are written. Empty: the folder Safelight in your videos";
        "output.images_folder" "Folder for images": Folder("Pictures/Safelight"),
            "Where images are written. Empty: the folder Safelight in your images";
        "output.format" "Format of videos": Choice(OWN_VIDEO_FORMATS),
            "The kind of file for videos. An image is always a PNG";
        "output.crf" "Quality of videos": Quality,
            "Of MP4 and WebP, on the scale that x264 calls CRF: 0 is best and largest, 51 worst, 16 looks like the original";
        "output.sidecar" "Settings beside results": Switch("Also write them as a JSON file"),
            "They are inside the file too, where its format can carry them",
            "true also writes them beside the file, as .json";
    }
    "Models and prompts" {
        "models.folders" "Model folders": Folders,
            "Where models are looked for, besides the usual places. May be a folder of ComfyUI or another program, or a list such as extra_model_paths.yaml",
            "`safelight models` names the usual places";
        "models.search_installs" "Other programs": Switch("Also look in their folders"),
            "ComfyUI, SwarmUI, Forge, A1111, Wan2GP, FramePack, Stability Matrix and Pinokio, where they usually are. Nothing is copied or moved",
            "true also looks in their folders";
        "models.wildcards" "Wildcard folders": Folders,
            "Folders with files name.txt, a choice a line, for prompts with __name__; besides the folder wildcards beside the settings file",
            "SwarmUI's is Data/Wildcards, that of A1111's Dynamic Prompts wildcards";
        "models.prompt_weights" "Prompt weights": Choice(PromptWeights::CHOICES),
            "With FLUX.1, SDXL, Chroma, Wan and FramePack: (word) multiplies the weight by 1.1, and \\( is a bracket. In ComfyUI (word:1.2) sets the weight, in A1111 it multiplies it, and [word] divides it by 1.1. The advanced settings of the form change it for a job";
    }
    "Server" {
        "server.reach" "Server": Choice(ServerReach::CHOICES),
            "A page for phone and laptop, OpenAI's endpoints for images and videos, A1111's, and the jobs of this window for other programs, while it is open. `safelight serve` does the same without a window";
        "server.port" "Port": Number((1024, 65_535)),
            "Number after the colon of the server's address, such as http://127.0.0.1:7860",
            "1024 to 65535";
    }
    "Computers" {
        "computers.hosts" "Computers": Names("user@host", ComputerSettings::host_problem),
            "Other computers with Safelight whose models run there, reached by your own ssh with its keys and config",
            "Names as ssh takes them, such as [\"me@box\"]; `safelight computers install HOST` puts Safelight there";
    }
    "Memory" {
        "memory.preserved_gib" "Preserved memory": Gib("Computed for each job"),
            "Device memory kept free for activations. More is safer and slower",
            "In GiB; \"\" means computed for each job";
        "memory.cap_gib" "Memory cap": Gib("By the kind of the device"),
            "The most device memory that is ever used, including other programs",
            "In GiB; \"\" means by the kind of the device";
        "memory.keep_loaded" "Between stages": Switch("Keep models loaded where they fit together"),
            "Otherwise each model is unloaded before the next, which always fits more",
            "true keeps models loaded where they fit together";
        "memory.devices" "GPUs for one job": Number((0, 64)),
            "GPUs that share the steps of one job, from the chosen one on, and the decoding of Wan's videos. Weights that fit on none of them are kept in parts. 0: all equal ones, for a job that does not fit on one or when no other job waits",
            "1 runs each job on one GPU, 0 is automatic";
        "memory.yields" "Scarce memory": Switch("Give memory to other programs when it gets scarce"),
            "When another program takes the memory that is left, the running job stops at its step, gives its memory back, and continues by itself when there is room",
            "true gives memory to other programs, false keeps it";
    }
    "Device and engine" {
        "runtime.device" "Device": Device,
            "The device that runs jobs, from the next job on",
            "\"auto\" is the GPU of the libtorch where there is one; else \"cpu\", or \"cuda:0\" for the first GPU (AMD's count as cuda too)";
        "runtime.devices" "Devices side by side": Names("cuda:1", device_problem),
            "Each of these devices runs a job at the same time. Empty: the device above, and with Automatic every GPU",
            "Names as for the device, such as [\"cuda:0\", \"cuda:1\"]";
        "runtime.libtorch" "libtorch folder": Folder("The prepared one"),
            "A folder with libtorch 2.11.0 or 2.13.0 (CPU, CUDA or ROCm). Empty: the one that set-up prepared";
        "runtime.mirror" "Mirror for libtorch": Address("Each build's own index"),
            "An index of Python wheels (PEP 503) from which libtorch is downloaded, in place of AMD's, PyTorch's or the Python registry. Checksums are compared as before. Empty: each build's own index",
            "An address that begins with https://";
        "runtime.dtype" "Precision": Choice(DtypeChoice::CHOICES),
            "The number format of the transformer. Automatic: bf16 on a GPU, f32 on the CPU";
    }
    "For experts" {
        "runtime.attention" "Attention": Choice(AttentionChoice::CHOICES),
            "How attention runs on a GPU. Automatic: the fastest kernel; in slices is slower and always works";
        "runtime.matrices" "Matrix library": Choice(MatrixLibrary::CHOICES),
            "The library that multiplies matrices on a GPU. Automatic: the one that libtorch prefers";
        "runtime.chunk" "Frames a chunk": Choice(DecodeChunk::CHOICES),
            "Number of latent frames that Wan's VAEs decode together on a GPU, each of them four frames of the video. More are a little faster and need more memory: only as many are used as fit. Automatic: as many as fit, and 1 on AMD GPUs";
        "runtime.convolution" "Convolutions": Choice(ConvBackendChoice::CHOICES),
            "How VAEs run. Automatic: the fastest way that works, which is tried out once on AMD GPUs";
        "runtime.allocator" "Allocator": Choice(AllocatorChoice::CHOICES),
            "How libtorch manages GPU memory. Growing segments waste less memory, but some ROCm builds hang with them";
        "runtime.stall_limit_secs" "Hang limit": Secs { least: 1 },
            "An engine that makes no progress for so long is restarted",
            "In seconds";
        "runtime.cancel_grace_secs" "Cancel grace": Secs { least: 0 },
            "How long a cancelled stage may take to stop by itself",
            "In seconds";
        "runtime.verbose_miopen" "MIOpen's log": Switch("Let MIOpen write to the log"),
            "Details about AMD's convolutions in the engine's log, for bug reports",
            "true lets MIOpen write to it";
        "runtime.environment" "Engine's variables": Variables,
            "More environment variables for the engine. They replace those that Safelight sets; an empty value removes one",
            "`safelight doctor` names those. For example: MIOPEN_FIND_MODE = \"1\"";
    }
};

#[cfg(test)]
mod tests;
