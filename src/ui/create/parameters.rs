//! Size, length, presets and seed; everything else is folded away under "Advanced".

use egui::{CollapsingHeader, ComboBox, DragValue, Slider, Ui};
use safelight_core::job::{
    ASPECTS, DEFAULT_SECS, GenerateForm, SectionOrder, Sections, SizeChoice, WINDOW,
};
use safelight_core::model::ModelSpec;
use safelight_core::units::seconds_text;

use crate::ui::create::advanced::{advanced_ui, said_ui};
use crate::ui::create::presets::presets_ui;
use crate::ui::create::seed::seed_ui;
use crate::ui::widgets::{Own, default_row, field_hint, own_row, row, wide_slider};
use crate::ui::{View, theme};

/// As many jobs come of one click, where each makes one clip.
const MAX_REPEATS: u32 = 16;

pub(super) fn parameters_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(spec) = view.model().cloned() else {
        return;
    };
    size_ui(ui, view, &spec);
    if spec.section_order.is_some() {
        sections_ui(ui, view, &spec);
    } else if !spec.family.makes_pictures {
        length_ui(ui, view, &spec);
    }
    count_ui(ui, view, &spec);
    presets_ui(ui, view, &spec);
    seed_ui(ui, view);
    let header = CollapsingHeader::new("Advanced")
        .id_salt("advanced")
        .open(None)
        .default_open(view.folds.is_advanced_open)
        .show_unindented(ui, |ui| advanced_ui(ui, view, &spec));
    view.folds.is_advanced_open = header.fully_open();
}

fn size_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = format!(
        "Width and height of the {} in pixels. Larger takes longer and needs more memory",
        view.thing()
    );
    let auto = auto_text(spec, view);
    let own = Own::of("size", &view.form.size, &SizeChoice::Auto, &auto);
    let reset = own_row(ui, "Size", &explanation, &own, |ui, label| {
        let before = view.form.shown_size(spec, view.app.inputs.sources().size());
        let form = &mut *view.form;
        let selected = match form.size {
            SizeChoice::Auto => auto.clone(),
            SizeChoice::Custom => "Custom".to_owned(),
            SizeChoice::Aspect(across, down) => aspect_text(spec, across, down),
        };
        let response = ComboBox::from_id_salt("size")
            .selected_text(selected)
            .height(theme::PICKER_HEIGHT)
            .width(ui.available_width())
            .show_ui(ui, |ui| {
                ui.selectable_value(&mut form.size, SizeChoice::Auto, auto);
                if !spec.limits.fixed_size {
                    for (across, down, _) in ASPECTS {
                        let text = aspect_text(spec, across, down);
                        ui.selectable_value(&mut form.size, SizeChoice::Aspect(across, down), text);
                    }
                }
                if ui
                    .selectable_label(form.size == SizeChoice::Custom, "Custom…")
                    .clicked()
                {
                    form.set_size(before);
                }
            });
        response
            .response
            .labelled_by(label)
            .on_hover_text(&explanation);
    });
    if reset {
        view.form.size = SizeChoice::Auto;
    }
    if view.form.size == SizeChoice::Custom {
        custom_size_ui(ui, view.form, spec);
    }
    said_ui(ui, view, &["width", "height"]);
}

fn custom_size_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let multiple = spec.limits.size_multiple;
    let explanation = format!("In pixels, a multiple of {multiple}");
    row(ui, "", &explanation, |ui, _| {
        let edges = [("Width", &mut form.width), ("Height", &mut form.height)];
        for (name, value) in edges {
            let value = value.get_or_insert_default();
            if name == "Height" {
                ui.label("×");
            }
            ui.add(
                DragValue::new(value)
                    .range(0..=16_384)
                    .speed(f64::from(multiple) / 8.0)
                    .suffix(" px"),
            )
            .on_hover_text(&explanation)
            .accessible_name(name);
        }
    });
}

/// What the model makes by itself: its own size, or that of its area nearest to the picture's aspect.
fn auto_text(spec: &ModelSpec, view: &View<'_>) -> String {
    let sources = view.app.inputs.sources();
    let auto = GenerateForm::default();
    let (width, height) = auto.shown_size(spec, sources.size());
    let size = format!("{width} × {height}");
    if sources.size().is_none() || spec.limits.fixed_size {
        size
    } else if sources.extend.is_some() {
        format!("Like the clip  {size}")
    } else {
        format!("Like the picture  {size}")
    }
}

fn aspect_text(spec: &ModelSpec, across: u32, down: u32) -> String {
    let (width, height) = spec.size_for_aspect(f64::from(across) / f64::from(down.max(1)));
    let name = ASPECTS
        .iter()
        .find(|aspect| (aspect.0, aspect.1) == (across, down))
        .map_or("", |aspect| aspect.2);
    format!("{name} {across}:{down}   {width} × {height}")
}

/// How many are made with one click.
fn count_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let (most, explanation) = if spec.takes_batches() {
        let explanation = "How many pictures are made at once, each with the next seed. More at once need more memory";
        (spec.limits.max_batch, explanation)
    } else {
        let explanation = "How many are made one after the other, each with the next seed";
        (MAX_REPEATS, explanation)
    };
    default_row(
        ui,
        ("How many", "how many", explanation),
        &mut view.form.batch_size,
        (1, "1"),
        |ui, label, count| {
            wide_slider(ui, Slider::new(count, 1..=most), explanation).labelled_by(label);
        },
    );
    said_ui(ui, view, &["batch"]);
}

/// The length of a clip that is made section by section, and their order.
fn sections_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation =
        "How long the clip is. It is made in sections, each of which can be seen at once";
    default_row(
        ui,
        ("Length", "length", explanation),
        &mut view.form.secs,
        (DEFAULT_SECS, seconds_text(DEFAULT_SECS)),
        |ui, label, secs| {
            let slider = Slider::new(secs, 1.0..=120.0)
                .logarithmic(true)
                .fixed_decimals(1)
                .suffix(" s");
            wide_slider(ui, slider, explanation).labelled_by(label);
        },
    );
    field_hint(ui, &sections_text(view, spec));
    said_ui(ui, view, &["seconds", "frames"]);
    order_ui(ui, view, spec);
}

/// Which section is made first.
fn order_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let Some(default) = spec.section_order else {
        return;
    };
    let explanation =
        "Which section is made first. Models are made for one order; their files do not say which";
    default_row(
        ui,
        ("Order", "order", explanation),
        &mut view.form.section_order,
        (default, default.label()),
        |ui, label, order| {
            ComboBox::from_id_salt("order")
                .selected_text(order.label())
                .width(ui.available_width())
                .show_ui(ui, |ui| {
                    for choice in SectionOrder::ALL {
                        ui.selectable_value(order, choice, choice.label());
                    }
                })
                .response
                .labelled_by(label)
                .on_hover_text(explanation);
        },
    );
    said_ui(ui, view, &["sampling", "extend"]);
}

/// How many sections there are, and how long they are together.
fn sections_text(view: &View<'_>, spec: &ModelSpec) -> String {
    let form = &view.form;
    let fps = form.fps_for(spec);
    let count = Sections::in_secs(form.secs_or_default(), WINDOW);
    let sections = Sections {
        count,
        window: WINDOW,
        order: SectionOrder::default(),
        lead: 1,
    };
    let secs = seconds_text(f64::from(sections.num_frames()) / fps);
    let noun = if count == 1 { "section" } else { "sections" };
    format!("{count} {noun}, {secs} at {fps} frames a second")
}

fn length_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = "How long the clip is. One frame is a picture";
    let default = spec.defaults.num_frames;
    default_row(
        ui,
        ("Length", "length", explanation),
        &mut view.form.num_frames,
        (default, format!("{default} frames")),
        |ui, label, num_frames| {
            let stride = spec.limits.frame_stride.max(1);
            // In whole groups, and told in frames.
            let whole = |num_frames: u32| num_frames.saturating_sub(1) / stride * stride + 1;
            let mut frames = whole(*num_frames);
            ui.spacing_mut().slider_width = (ui.available_width() - 106.0).max(40.0);
            let slider = Slider::new(&mut frames, 1..=whole(spec.limits.max_frames))
                .step_by(f64::from(stride))
                .show_value(false);
            if ui
                .add(slider)
                .on_hover_text(explanation)
                .labelled_by(label)
                .changed()
            {
                *num_frames = frames;
            }
            ui.add(
                DragValue::new(num_frames)
                    .range(0..=100_000)
                    .speed(f64::from(stride) / 8.0)
                    .suffix(" frames"),
            )
            .on_hover_text(format!("A multiple of {stride}, plus one"))
            .accessible_name("Frames");
        },
    );
    field_hint(ui, &length_text(view, spec));
    said_ui(ui, view, &["frames"]);
}

/// The clip's length in seconds.
fn length_text(view: &View<'_>, spec: &ModelSpec) -> String {
    let form = &view.form;
    let (num_frames, fps) = (form.num_frames_for(spec), form.fps_for(spec));
    let secs = |num_frames: u32, fps: f64| seconds_text(f64::from(num_frames) / fps);
    if let Some(clip) = view.app.inputs.clip() {
        let info = &clip.info;
        // The new part begins with the old one's last frame.
        let num_new = num_frames.saturating_sub(1);
        return format!(
            "{} more, {} in all at {} frames a second",
            secs(num_new, info.fps),
            secs(num_new.saturating_add(info.num_frames), info.fps),
            (info.fps * 100.0).round() / 100.0
        );
    }
    if num_frames == 1 {
        "A single picture".to_owned()
    } else {
        format!("{} at {fps} frames a second", secs(num_frames, fps))
    }
}
