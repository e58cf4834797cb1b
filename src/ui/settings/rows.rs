//! The rows of the settings page, in reading order: one for every key of the settings file.
//!
//! What a control looks like is in [`super::controls`] and [`super::lists`].

use safelight_core::job::{DtypeChoice, PreviewChoice};
use safelight_core::memory::tiers::{AttentionChoice, ConvolutionChoice};
use safelight_core::settings::{AllocatorChoice, Theme};

use super::{Row, Section};
use crate::app::commands::FolderSetting;

pub(super) const SECTIONS: &[Section] = &[
    Section {
        name: "Looks and desktop",
        rows: LOOKS,
    },
    Section {
        name: "Results",
        rows: RESULTS,
    },
    Section {
        name: "Models and prompts",
        rows: MODELS,
    },
    Section {
        name: "Memory",
        rows: MEMORY,
    },
    Section {
        name: "Device and engine",
        rows: ENGINE,
    },
    Section {
        name: "For experts",
        rows: EXPERTS,
    },
];

const LOOKS: &[Row] = &[
    Row {
        key: "interface.theme",
        name: "Look",
        explanation: "Dark as a darkroom, light as day, or as your desktop has it at the moment",
        draw: |ui, edit| {
            let mut theme = edit.settings.interface.theme;
            let choices = [
                (Theme::Dark, "Darkroom"),
                (Theme::Light, "Daylight"),
                (Theme::System, "As the desktop"),
            ];
            edit.choice(ui, &mut theme, &choices);
            edit.settings.interface.theme = theme;
        },
    },
    Row {
        key: "interface.scale",
        name: "Scale",
        explanation: "How large everything is, from 50 to 300 %. Ctrl and + or - do the same anywhere",
        draw: |ui, edit| {
            ui.horizontal_wrapped(|ui| edit.scale(ui));
        },
    },
    Row {
        key: "interface.preview",
        name: "Preview",
        explanation: "How a picture or clip is shown while it develops. A tiny decoder makes it sharp where one lies among your models, in ComfyUI's folder vae_approx for example: taef1 for Flux, taew2_1 or taew2_2 for Wan, taehv for FramePack",
        draw: |ui, edit| {
            let mut preview = edit.settings.interface.preview;
            let choices = PreviewChoice::ALL.map(|choice| (choice, choice.label()));
            edit.choice(ui, &mut preview, &choices);
            edit.settings.interface.preview = preview;
        },
    },
    Row {
        key: "interface.notifications",
        name: "Notifications",
        explanation: "The desktop tells when a job has failed, and when half a minute of work and more is done, while you do something else",
        draw: |ui, edit| {
            let mut is_on = edit.settings.interface.notifications;
            edit.switch(ui, &mut is_on, "Tell me when jobs have ended");
            edit.settings.interface.notifications = is_on;
        },
    },
];

const RESULTS: &[Row] = &[
    Row {
        key: "output.folder",
        name: "Folder for clips",
        explanation: "Where clips are written. Empty: the folder Safelight in your videos",
        draw: |ui, edit| {
            let folder = edit.settings.output.folder.clone();
            edit.settings.output.folder =
                edit.folder(ui, folder, FolderSetting::Output, "Videos/Safelight");
        },
    },
    Row {
        key: "output.pictures_folder",
        name: "Folder for pictures",
        explanation: "Where pictures are written. Empty: the folder Safelight in your pictures",
        draw: |ui, edit| {
            let folder = edit.settings.output.pictures_folder.clone();
            edit.settings.output.pictures_folder =
                edit.folder(ui, folder, FolderSetting::Pictures, "Pictures/Safelight");
        },
    },
    Row {
        key: "output.format",
        name: "Format of clips",
        explanation: "The kind of file for clips. A picture is always a PNG",
        draw: |ui, edit| {
            let mut format = edit.settings.output.format.clone();
            let choices = [
                ("mp4", "MP4 (H.264), plays everywhere"),
                ("gif", "GIF"),
                ("webp", "Animated WebP"),
                ("png", "Numbered PNG frames, lossless"),
            ]
            .map(|(id, text)| (id.to_owned(), text));
            edit.choice(ui, &mut format, &choices);
            edit.settings.output.format = format;
        },
    },
    Row {
        key: "output.crf",
        name: "Quality of clips",
        explanation: "Of MP4 and WebP, on the scale that x264 calls CRF: 0 is best and largest, 51 worst, 16 looks like the original",
        draw: |ui, edit| {
            let mut crf = edit.settings.output.crf;
            edit.quality(ui, &mut crf);
            edit.settings.output.crf = crf;
        },
    },
    Row {
        key: "output.sidecar",
        name: "Settings beside results",
        explanation: "They are inside the file too, where its format can carry them",
        draw: |ui, edit| {
            let mut is_on = edit.settings.output.sidecar;
            edit.switch(ui, &mut is_on, "Also write them as a JSON file");
            edit.settings.output.sidecar = is_on;
        },
    },
];

const MODELS: &[Row] = &[
    Row {
        key: "models.folders",
        name: "Model folders",
        explanation: "Where models are looked for, besides the usual places. May be a folder of ComfyUI or another program, or a list such as extra_model_paths.yaml",
        draw: |ui, edit| {
            let folders = edit.settings.models.folders.clone();
            edit.settings.models.folders = edit.folders(ui, folders, FolderSetting::Models);
        },
    },
    Row {
        key: "models.search_installs",
        name: "Other programs",
        explanation: "ComfyUI, SwarmUI, Forge, A1111, Wan2GP, FramePack, Stability Matrix and Pinokio, where they usually are. Nothing is copied or moved",
        draw: |ui, edit| {
            let mut is_on = edit.settings.models.search_installs;
            edit.switch(ui, &mut is_on, "Also look in their folders");
            edit.settings.models.search_installs = is_on;
        },
    },
    Row {
        key: "models.wildcards",
        name: "Wildcard folders",
        explanation: "Folders with files name.txt, a choice a line, for prompts with __name__; besides the folder wildcards beside the settings file",
        draw: |ui, edit| {
            let folders = edit.settings.models.wildcards.clone();
            edit.settings.models.wildcards = edit.folders(ui, folders, FolderSetting::Wildcards);
        },
    },
];

const MEMORY: &[Row] = &[
    Row {
        key: "memory.preserved_gib",
        name: "Preserved memory",
        explanation: "Memory of the device kept free for what a model makes besides its weights. More is safer and slower",
        draw: |ui, edit| {
            let mut gib = edit.settings.memory.preserved_gib;
            edit.gib(ui, &mut gib, "Computed for each job");
            edit.settings.memory.preserved_gib = gib;
        },
    },
    Row {
        key: "memory.cap_gib",
        name: "Memory cap",
        explanation: "Memory of the device that is never gone beyond, other programs' use included",
        draw: |ui, edit| {
            let mut gib = edit.settings.memory.cap_gib;
            edit.gib(ui, &mut gib, "By the kind of the device");
            edit.settings.memory.cap_gib = gib;
        },
    },
    Row {
        key: "memory.keep_loaded",
        name: "Between stages",
        explanation: "Otherwise each model is unloaded before the next, which always fits more",
        draw: |ui, edit| {
            let mut is_on = edit.settings.memory.keep_loaded;
            edit.switch(ui, &mut is_on, "Keep models loaded where they fit together");
            edit.settings.memory.keep_loaded = is_on;
        },
    },
];

const ENGINE: &[Row] = &[
    Row {
        key: "runtime.device",
        name: "Device",
        explanation: "Where clips and pictures are computed, from the next job on",
        draw: |ui, edit| edit.device(ui),
    },
    Row {
        key: "runtime.libtorch",
        name: "libtorch folder",
        explanation: "A folder with libtorch 2.11.0 (CPU, CUDA or ROCm). Empty: the one that set-up prepared",
        draw: |ui, edit| {
            let folder = edit.settings.runtime.libtorch.clone();
            edit.settings.runtime.libtorch =
                edit.folder(ui, folder, FolderSetting::Libtorch, "The prepared one");
        },
    },
    Row {
        key: "runtime.dtype",
        name: "Precision",
        explanation: "The numbers that the transformer computes with. Automatic: bf16 on a GPU, f32 on the CPU",
        draw: |ui, edit| {
            let mut dtype = edit.settings.runtime.dtype;
            let choices = DtypeChoice::ALL.map(|choice| match choice {
                DtypeChoice::Auto => (choice, "Automatic"),
                other => (choice, other.name()),
            });
            edit.choice(ui, &mut dtype, &choices);
            edit.settings.runtime.dtype = dtype;
        },
    },
];

const EXPERTS: &[Row] = &[
    Row {
        key: "runtime.attention",
        name: "Attention",
        explanation: "How attention is computed on a GPU. Automatic: the fastest kernel; in slices is slower and always works",
        draw: |ui, edit| {
            let mut choice = edit.settings.runtime.attention;
            let choices = [
                (AttentionChoice::Auto, "Automatic"),
                (AttentionChoice::Flash, "Flash"),
                (AttentionChoice::Efficient, "Memory-efficient"),
                (AttentionChoice::Sliced, "In slices"),
            ];
            edit.choice(ui, &mut choice, &choices);
            edit.settings.runtime.attention = choice;
        },
    },
    Row {
        key: "runtime.convolution",
        name: "Convolutions",
        explanation: "How the autoencoders of clips are computed. Automatic: the fastest that works, which AMD GPUs are tried for",
        draw: |ui, edit| {
            let mut choice = edit.settings.runtime.convolution;
            let choices = [
                (ConvolutionChoice::Auto, "Automatic"),
                (ConvolutionChoice::Direct, "By cuDNN or MIOpen"),
                (ConvolutionChoice::NoMiopen, "Without cuDNN or MIOpen"),
                (ConvolutionChoice::Frames, "Frame by frame"),
                (ConvolutionChoice::Cpu, "On the CPU"),
            ];
            edit.choice(ui, &mut choice, &choices);
            edit.settings.runtime.convolution = choice;
        },
    },
    Row {
        key: "runtime.allocator",
        name: "Allocator",
        explanation: "How libtorch keeps GPU memory. Growing segments lose less between tensors, but some ROCm builds hang at them",
        draw: |ui, edit| {
            let mut choice = edit.settings.runtime.allocator;
            let choices = [
                (AllocatorChoice::Default, "As libtorch does by itself"),
                (AllocatorChoice::Expandable, "Segments that grow"),
                (
                    AllocatorChoice::SmallCard,
                    "Tight, for cards of up to 24 GiB",
                ),
            ];
            edit.choice(ui, &mut choice, &choices);
            edit.settings.runtime.allocator = choice;
        },
    },
    Row {
        key: "runtime.stall_limit_secs",
        name: "Hang limit",
        explanation: "An engine that makes no progress for so long is restarted",
        draw: |ui, edit| {
            let mut secs = edit.settings.runtime.stall_limit_secs;
            edit.secs(ui, &mut secs, 1);
            edit.settings.runtime.stall_limit_secs = secs;
        },
    },
    Row {
        key: "runtime.cancel_grace_secs",
        name: "Cancel grace",
        explanation: "How long a cancelled stage may take to stop by itself",
        draw: |ui, edit| {
            let mut secs = edit.settings.runtime.cancel_grace_secs;
            edit.secs(ui, &mut secs, 0);
            edit.settings.runtime.cancel_grace_secs = secs;
        },
    },
    Row {
        key: "runtime.verbose_miopen",
        name: "MIOpen's log",
        explanation: "What AMD's convolutions do, in the engine's log: for reports of faults",
        draw: |ui, edit| {
            let mut is_on = edit.settings.runtime.verbose_miopen;
            edit.switch(ui, &mut is_on, "Let MIOpen write to the log");
            edit.settings.runtime.verbose_miopen = is_on;
        },
    },
    Row {
        key: "runtime.environment",
        name: "Engine's variables",
        explanation: "More variables for the engine, over those that Safelight gives it by itself. An empty value takes one away",
        draw: |ui, edit| edit.variables(ui),
    },
];
