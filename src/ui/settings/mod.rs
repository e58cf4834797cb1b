//! The settings window: a copy is edited, and taken over as a whole.
//!
//! Every setting is named here: a new one does not compile until it is shown or left out on purpose.

mod preview;

use std::path::PathBuf;

use egui::{
    Button, ComboBox, Context, DragValue, Frame, Grid, Margin, Modal, RichText, TextEdit, Ui,
};
use safelight_core::job::{DeviceChoice, DtypeChoice};
use safelight_core::memory::tiers::{AttentionChoice, ConvolutionChoice};
use safelight_core::settings::{
    AllocatorChoice, InterfaceSettings, MemorySettings, ModelSettings, OutputSettings,
    RuntimeSettings, Settings, Theme,
};

use crate::app::commands::{AppCommand, FolderSetting};
use crate::ui::widgets::{icon_button, palette};
use crate::ui::{View, icons, theme};

const FORMATS: [(&str, &str); 5] = [
    ("mp4", "MP4 (H.264), plays everywhere"),
    ("webm", "WebM"),
    ("gif", "GIF"),
    ("webp", "Animated WebP"),
    ("png", "Numbered PNG frames, lossless"),
];

pub(super) fn settings_ui(ctx: &Context, view: &mut View<'_>) {
    let Some(mut draft) = view.session.settings_draft.take() else {
        return;
    };
    let mut wishes = Vec::new();
    let frame = Frame::popup(&ctx.global_style()).inner_margin(Margin::same(20));
    let response = Modal::new(egui::Id::unique("settings"))
        .frame(frame)
        .show(ctx, |ui| {
            ui.set_width(theme::SETTINGS_WIDTH);
            ui.heading("Settings");
            ui.add_space(theme::SMALL_GAP);
            let Settings {
                runtime,
                output,
                models,
                interface,
                memory,
            } = &mut draft;
            Grid::new("settings grid")
                .num_columns(2)
                .spacing([14.0, 8.0])
                .show(ui, |ui| {
                    runtime_ui(ui, runtime, &mut wishes);
                    memory_ui(ui, memory);
                    output_ui(ui, output, &mut wishes);
                    models_ui(ui, models, &mut wishes);
                    interface_ui(ui, interface);
                });
            ui.add_space(theme::GAP);
            ui.horizontal(|ui| {
                let palette = palette(ui);
                let save = Button::new(RichText::new("Save settings").color(palette.on_accent))
                    .fill(palette.accent);
                let is_saved = ui.add(save).clicked();
                (is_saved, ui.button("Discard").clicked())
            })
            .inner
        });
    let (is_saved, is_discarded) = response.inner;
    let is_closed = is_saved || is_discarded || response.should_close();
    if is_saved {
        view.push(AppCommand::ChangeSettings(Box::new(draft.clone())));
    }
    view.commands.extend(wishes);
    view.session.settings_draft = (!is_closed).then_some(draft);
}

fn runtime_ui(ui: &mut Ui, runtime: &mut RuntimeSettings, wishes: &mut Vec<AppCommand>) {
    let RuntimeSettings {
        libtorch,
        device,
        dtype,
        convolution,
        attention,
        stall_limit_secs,
        cancel_grace_secs,
        allocator,
        verbose_miopen,
        // Written in the file, and shown by the doctor.
        environment: _,
    } = runtime;
    let label = name(
        ui,
        "libtorch folder",
        "A folder with libtorch 2.11.0 (CPU, CUDA or ROCm). Empty: the one that set-up prepared",
    );
    folder_ui(
        ui,
        label,
        libtorch,
        FolderSetting::Libtorch,
        "The prepared one",
        wishes,
    );
    ui.end_row();

    let label = name(ui, "Device", "Where clips and pictures are computed");
    device_ui(ui, label, device);
    ui.end_row();

    let label = name(
        ui,
        "Precision",
        "The numbers that the transformer computes with. Automatic: bf16 on a GPU, f32 on the CPU",
    );
    ComboBox::from_id_salt("dtype")
        .selected_text(dtype_text(*dtype))
        .show_ui(ui, |ui| {
            for choice in DtypeChoice::ALL {
                ui.selectable_value(dtype, choice, dtype_text(choice));
            }
        })
        .response
        .labelled_by(label);
    ui.end_row();

    let label = name(
        ui,
        "Convolutions",
        "How the autoencoders of clips are computed. Automatic: the fastest that works, which AMD GPUs are tried for",
    );
    ComboBox::from_id_salt("convolution")
        .selected_text(convolution_text(*convolution))
        .show_ui(ui, |ui| {
            for choice in ConvolutionChoice::ALL {
                ui.selectable_value(convolution, choice, convolution_text(choice));
            }
        })
        .response
        .labelled_by(label);
    ui.end_row();

    let label = name(
        ui,
        "Attention",
        "How attention is computed on a GPU. Automatic: the fastest kernel; in slices is slower and always works",
    );
    ComboBox::from_id_salt("attention")
        .selected_text(attention_text(*attention))
        .show_ui(ui, |ui| {
            for choice in AttentionChoice::ALL {
                ui.selectable_value(attention, choice, attention_text(choice));
            }
        })
        .response
        .labelled_by(label);
    ui.end_row();

    let label = name(
        ui,
        "Hang limit",
        "An engine that makes no progress for so long is restarted",
    );
    ui.add(
        DragValue::new(stall_limit_secs)
            .range(10..=86_400)
            .suffix(" s"),
    )
    .labelled_by(label);
    ui.end_row();

    let label = name(
        ui,
        "Cancel grace",
        "How long a cancelled stage may take to stop by itself",
    );
    ui.add(
        DragValue::new(cancel_grace_secs)
            .range(1..=600)
            .suffix(" s"),
    )
    .labelled_by(label);
    ui.end_row();
    allocator_ui(ui, allocator, verbose_miopen);
}

/// For experts: what the doctor or an error may ask for.
fn allocator_ui(ui: &mut Ui, allocator: &mut AllocatorChoice, verbose_miopen: &mut bool) {
    let text = |choice: AllocatorChoice| match choice {
        AllocatorChoice::Default => "As libtorch does by itself",
        AllocatorChoice::Expandable => "Segments that grow",
        AllocatorChoice::SmallCard => "Tight, for cards of up to 24 GB",
    };
    let label = name(
        ui,
        "Allocator",
        "For experts: how libtorch keeps GPU memory. Growing segments lose less between tensors, but some ROCm builds hang at them",
    );
    ComboBox::from_id_salt("allocator")
        .selected_text(text(*allocator))
        .width(250.0)
        .show_ui(ui, |ui| {
            for choice in [
                AllocatorChoice::Default,
                AllocatorChoice::Expandable,
                AllocatorChoice::SmallCard,
            ] {
                ui.selectable_value(allocator, choice, text(choice));
            }
        })
        .response
        .labelled_by(label);
    ui.end_row();

    name(ui, "AMD", "");
    ui.checkbox(verbose_miopen, "Let MIOpen write to the log")
        .on_hover_text("What AMD's convolutions do, in the engine's log: for reports of faults");
    ui.end_row();
}

fn convolution_text(choice: ConvolutionChoice) -> &'static str {
    match choice {
        ConvolutionChoice::Auto => "Automatic",
        ConvolutionChoice::Direct => "By cuDNN or MIOpen",
        ConvolutionChoice::NoMiopen => "Without cuDNN or MIOpen",
        ConvolutionChoice::Frames => "Frame by frame",
        ConvolutionChoice::Cpu => "On the CPU",
    }
}

fn attention_text(choice: AttentionChoice) -> &'static str {
    match choice {
        AttentionChoice::Auto => "Automatic",
        AttentionChoice::Flash => "Flash",
        AttentionChoice::Efficient => "Memory-efficient",
        AttentionChoice::Sliced => "In slices",
    }
}

fn dtype_text(dtype: DtypeChoice) -> &'static str {
    if dtype == DtypeChoice::Auto {
        "Automatic"
    } else {
        dtype.name()
    }
}

fn device_ui(ui: &mut Ui, label: egui::Id, device: &mut DeviceChoice) {
    let text = |device: DeviceChoice| match device {
        DeviceChoice::Auto => "Automatic".to_owned(),
        DeviceChoice::Cpu => "CPU".to_owned(),
        DeviceChoice::Cuda(index) => format!("GPU {index}"),
    };
    ui.horizontal(|ui| {
        ComboBox::from_id_salt("device")
            .selected_text(text(*device))
            .show_ui(ui, |ui| {
                let gpu = match *device {
                    DeviceChoice::Cuda(index) => index,
                    _ => 0,
                };
                for choice in [
                    DeviceChoice::Auto,
                    DeviceChoice::Cpu,
                    DeviceChoice::Cuda(gpu),
                ] {
                    ui.selectable_value(device, choice, text(choice));
                }
            })
            .response
            .labelled_by(label);
        if let DeviceChoice::Cuda(index) = device {
            ui.add(DragValue::new(index).range(0..=15).prefix("number "))
                .accessible_name("GPU number");
        }
    });
}

fn memory_ui(ui: &mut Ui, memory: &mut MemorySettings) {
    let MemorySettings {
        preserved_gib,
        cap_gib,
        keep_loaded,
    } = memory;
    let label = name(
        ui,
        "Preserved memory",
        "Memory of the device kept free for what a model makes besides its weights. More is safer and slower",
    );
    gib_ui(ui, label, preserved_gib, "Computed for each job");
    ui.end_row();

    let label = name(
        ui,
        "Memory cap",
        "Memory of the device that is never gone beyond, other programs' use included",
    );
    gib_ui(ui, label, cap_gib, "By the kind of the device");
    ui.end_row();

    name(ui, "Between stages", "");
    ui.checkbox(keep_loaded, "Keep models loaded where they fit together")
        .on_hover_text("Otherwise each is unloaded before the next, which always fits more");
    ui.end_row();
}

/// A number of GiB, or what stands in its place.
fn gib_ui(ui: &mut Ui, label: egui::Id, gib: &mut Option<f64>, automatic: &str) {
    ui.horizontal(|ui| {
        let mut is_automatic = gib.is_none();
        if ui.checkbox(&mut is_automatic, automatic).changed() {
            *gib = (!is_automatic).then_some(8.0);
        }
        if let Some(gib) = gib {
            let drag = DragValue::new(gib).range(0.0..=4096.0).speed(0.1);
            ui.add(drag.fixed_decimals(1).suffix(" GiB"))
                .labelled_by(label);
        }
    });
}

fn output_ui(ui: &mut Ui, output: &mut OutputSettings, wishes: &mut Vec<AppCommand>) {
    let OutputSettings {
        folder,
        format,
        sidecar,
    } = output;
    let label = name(
        ui,
        "Results folder",
        "Where clips and pictures are written. Empty: the folder Safelight in your videos",
    );
    folder_ui(
        ui,
        label,
        folder,
        FolderSetting::Output,
        "Videos/Safelight",
        wishes,
    );
    ui.end_row();

    let label = name(
        ui,
        "Format",
        "The kind of file for clips. A picture is always a PNG",
    );
    let text = FORMATS
        .iter()
        .find(|(id, _)| id == format)
        .map_or(format.as_str(), |(_, text)| text);
    ComboBox::from_id_salt("format")
        .selected_text(text)
        .show_ui(ui, |ui| {
            for (id, text) in FORMATS {
                ui.selectable_value(format, id.to_owned(), text);
            }
        })
        .response
        .labelled_by(label);
    ui.end_row();

    name(ui, "Beside it", "");
    ui.checkbox(sidecar, "Also write the settings as a JSON file")
        .on_hover_text("They are inside the file too, where its format can carry them");
    ui.end_row();
}

fn models_ui(ui: &mut Ui, models: &mut ModelSettings, wishes: &mut Vec<AppCommand>) {
    let ModelSettings {
        folders,
        search_installs,
        wildcards: _,
    } = models;
    name(
        ui,
        "Model folders",
        "Where models are looked for, besides the one that ships with Safelight",
    );
    ui.vertical(|ui| {
        let mut removed = None;
        for (index, folder) in folders.iter_mut().enumerate() {
            ui.horizontal(|ui| {
                let mut text = folder.display().to_string();
                let edit = TextEdit::singleline(&mut text)
                    .id_salt(("model folder", index))
                    .desired_width(280.0);
                if ui
                    .add(edit)
                    .accessible_name(format!("Model folder {}", index + 1))
                    .changed()
                {
                    *folder = PathBuf::from(text);
                }
                let explanation = "Do not look in this folder any more";
                if icon_button(
                    ui,
                    icons::TRASH,
                    &format!("Remove model folder {}", index + 1),
                    explanation,
                )
                .clicked()
                {
                    removed = Some(index);
                }
            });
        }
        if let Some(index) = removed {
            folders.remove(index);
        }
        if ui.button("Add a folder…").clicked() {
            wishes.push(AppCommand::PickFolder(FolderSetting::Models));
        }
        ui.checkbox(search_installs, "Also look in other programs' folders")
            .on_hover_text(
                "ComfyUI, SwarmUI, Forge, A1111, Wan2GP, FramePack, Stability Matrix and Pinokio, where they usually are. Nothing is copied or moved",
            );
    });
    ui.end_row();
}

fn interface_ui(ui: &mut Ui, interface: &mut InterfaceSettings) {
    let InterfaceSettings {
        theme,
        scale,
        preview,
    } = interface;
    name(ui, "Look", "");
    ui.horizontal(|ui| {
        ui.selectable_value(theme, Theme::Dark, "Darkroom");
        ui.selectable_value(theme, Theme::Light, "Daylight");
    });
    ui.end_row();

    let label = name(ui, "Scale", "How large everything is");
    let mut percent = f64::from(*scale) * 100.0;
    let response = ui.add(
        DragValue::new(&mut percent)
            .range(50.0..=300.0)
            .fixed_decimals(0)
            .suffix(" %"),
    );
    if response.labelled_by(label).changed() {
        *scale = (percent / 100.0) as f32;
    }
    ui.end_row();
    preview::preview_ui(ui, preview);
}

/// A path that can be typed or chosen.
fn folder_ui(
    ui: &mut Ui,
    label: egui::Id,
    folder: &mut Option<PathBuf>,
    purpose: FolderSetting,
    hint: &'static str,
    wishes: &mut Vec<AppCommand>,
) {
    ui.horizontal(|ui| {
        let mut text = folder
            .as_ref()
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        let edit = TextEdit::singleline(&mut text)
            .id_salt(hint)
            .hint_text(hint)
            .desired_width(280.0);
        if ui.add(edit).labelled_by(label).changed() {
            *folder = (!text.trim().is_empty()).then(|| PathBuf::from(&text));
        }
        let button = icon_button(
            ui,
            icons::FOLDER_OPEN,
            &format!("Choose: {hint}"),
            "Choose a folder…",
        );
        if button.clicked() {
            wishes.push(AppCommand::PickFolder(purpose));
        }
    });
}

fn name(ui: &mut Ui, text: &str, explanation: &str) -> egui::Id {
    let weak = palette(ui).weak;
    let response = ui.label(RichText::new(text).color(weak));
    let id = response.id;
    if !explanation.is_empty() {
        response.on_hover_text(explanation);
    }
    id
}
