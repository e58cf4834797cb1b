//! Size, length, presets and seed; everything else is folded away under "Advanced".

use egui::{CollapsingHeader, DragValue, Slider, Ui};
use safelight_core::job::{
    ASPECTS, DEFAULT_SECS, GenerateForm, SectionOrder, Sections, SizeChoice, WINDOW, is_of_aspect,
};
use safelight_core::model::ModelSpec;
use safelight_core::units::seconds_text;

use crate::app::commands::AppCommand;
use crate::app::inputs::{Source, Sources};
use crate::ui::create::advanced::{advanced_ui, pair_width, said_ui};
use crate::ui::create::grid::grid_ui;
use crate::ui::create::presets::presets_ui;
use crate::ui::create::seed::seed_ui;
use crate::ui::create::{image_or_video, rate, sources};
use crate::ui::widgets::{
    Own, default_row, field_hint, fold_icon, list_box, number, own_row, row, wide_slider,
};
use crate::ui::{View, theme};

/// As many jobs come of one click, where each makes one clip.
const MAX_REPEATS: u32 = 16;
/// Between the two edges of a size.
const TIMES: &str = "×";
const LENGTH: &str = "Length";
const ORDER_HOVER: &str =
    "Which section is made first. Models are made for one order; their files do not say which";

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
        .icon(fold_icon)
        .show_unindented(ui, |ui| advanced_ui(ui, view, &spec));
    view.folds.is_advanced_open = header.fully_open();
    header
        .header_response
        .on_hover_text("All other settings, such as steps, guidance and sampler");
    grid_ui(ui, view, &spec);
    let clear = ui.button("Clear form").on_hover_text(
        "Empty the prompt, the pictures, the mask and the LoRAs, and set everything else to the \
        model's defaults",
    );
    if clear.clicked() {
        view.push(AppCommand::ClearForm);
    }
}

fn size_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = size_hover(view.makes_pictures());
    let auto = auto_text(spec, view);
    let (own_width, own_height) = (spec.defaults.width, spec.defaults.height);
    let own_text = format!("The model's own  {own_width} × {own_height}");
    let follows = GenerateForm::default().shown_size(spec, sources(view).size());
    let is_own_offered = view.form.size == SizeChoice::Own || follows != (own_width, own_height);
    let own = Own::of("size", &view.form.size, &SizeChoice::Auto, &auto);
    let reset = own_row(ui, "Size", explanation, &own, |ui, label| {
        let before = view.form.shown_size(spec, sources(view).size());
        let form = &mut *view.form;
        let selected = match form.size {
            SizeChoice::Auto => auto.clone(),
            SizeChoice::Own => own_text.clone(),
            SizeChoice::Custom => format!("Custom  {} × {}", before.0, before.1),
            SizeChoice::Aspect(across, down) => aspect_text(spec, across, down),
        };
        let response = list_box(ui, "size", &selected)
            .height(theme::PICKER_HEIGHT)
            .show_ui(ui, |ui| {
                ui.selectable_value(&mut form.size, SizeChoice::Auto, auto);
                if is_own_offered {
                    ui.selectable_value(&mut form.size, SizeChoice::Own, own_text);
                }
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
            .on_hover_text(explanation);
    });
    if reset {
        view.form.size = SizeChoice::Auto;
    }
    if view.form.size == SizeChoice::Custom {
        custom_size_ui(ui, view.form, spec);
    }
    said_ui(ui, view, &["width", "height"]);
}

fn size_hover(makes_pictures: bool) -> &'static str {
    image_or_video(
        makes_pictures,
        "Width and height of the picture in pixels. Larger takes longer and needs more memory",
        "Width and height of the clip in pixels. Larger takes longer and needs more memory",
    )
}

fn custom_size_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let multiple = spec.limits.size_multiple;
    let explanation = format!("In pixels, a multiple of {multiple}");
    row(ui, "", &explanation, |ui, _| {
        let edge = |ui: &mut Ui, width, name: &str, value: &mut Option<u32>| {
            let value = DragValue::new(value.get_or_insert_default())
                .range(0..=16_384)
                .speed(f64::from(multiple) / 8.0)
                .suffix(" px");
            number(ui, width, value)
                .on_hover_text(&explanation)
                .accessible_name(name);
        };
        let width = pair_width(ui, TIMES);
        edge(ui, width, "Width", &mut form.width);
        ui.label(TIMES);
        let rest = ui.available_width();
        edge(ui, rest, "Height", &mut form.height);
    });
}

/// What the model makes by itself: its own size, or that of its area nearest to the picture's aspect.
fn auto_text(spec: &ModelSpec, view: &View<'_>) -> String {
    let sources = sources(view);
    let auto = GenerateForm::default();
    let (width, height) = auto.shown_size(spec, sources.size());
    if sources.size().is_none() || spec.limits.fixed_size {
        format!("{width} × {height}")
    } else if is_of_clip(&sources) {
        format!("Like the clip  {width} × {height}")
    } else {
        format!("Like the picture  {width} × {height}")
    }
}

/// The size that is followed is a clip's: one that is continued, or one that is a control.
fn is_of_clip(sources: &Sources<'_>) -> bool {
    let pictures = [sources.image, sources.last_image];
    let control = sources.controls.first().map(|control| &control.source);
    let is_control_followed = pictures.iter().all(Option::is_none);
    sources.clip().is_some() || (is_control_followed && matches!(control, Some(Source::Clip(_))))
}

/// The size of an aspect; of models that make a few sizes it may be another shape.
fn aspect_text(spec: &ModelSpec, across: u32, down: u32) -> String {
    let size = spec.size_for_aspect(f64::from(across) / f64::from(down.max(1)));
    let aspect = (across, down);
    let known = ASPECTS.iter().find(|known| (known.0, known.1) == aspect);
    let name = known.map_or("", |known| known.2);
    aspect_size_text(name, aspect, size, is_of_aspect(size, aspect))
}

/// Size with its aspect ratio, or with the nearest one.
fn aspect_size_text(
    name: &str,
    (across, down): (u32, u32),
    (width, height): (u32, u32),
    is_exact: bool,
) -> String {
    if is_exact {
        format!("{name} {across}:{down}   {width} × {height}")
    } else {
        format!("Near {across}:{down}   {width} × {height}")
    }
}

/// How many are made with one click.
fn count_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let (most, explanation) = if spec.takes_batches() {
        (
            spec.limits.max_batch,
            "Images generated together, with consecutive seeds. Larger batches need more memory",
        )
    } else {
        (
            MAX_REPEATS,
            "How many are made one after the other, each with the next seed",
        )
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
    let explanation = "How long the clip is. It is made section by section, and each can be \
                      watched as soon as it is done";
    default_row(
        ui,
        (LENGTH, "length", explanation),
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
    default_row(
        ui,
        ("Order", "order", ORDER_HOVER),
        &mut view.form.section_order,
        (default, default.label()),
        |ui, label, order| {
            list_box(ui, "order", order.label())
                .show_ui(ui, |ui| {
                    for choice in SectionOrder::ALL {
                        ui.selectable_value(order, choice, choice.label());
                    }
                })
                .response
                .labelled_by(label)
                .on_hover_text(ORDER_HOVER);
        },
    );
    said_ui(ui, view, &["sampling"]);
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
    let fps = rate(fps);
    match count {
        1 => format!("1 section, {secs} at {fps} frames a second"),
        count => format!("{count} sections, {secs} at {fps} frames a second"),
    }
}

fn length_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = "How long the clip is. One frame is a picture";
    let default = spec.defaults.num_frames;
    default_row(
        ui,
        (LENGTH, "length", explanation),
        &mut view.form.num_frames,
        (default, format!("{default} frames")),
        |ui, label, num_frames| {
            let stride = spec.limits.frame_stride.max(1);
            // In whole groups, and told in frames.
            let whole = |num_frames: u32| num_frames.saturating_sub(1) / stride * stride + 1;
            let mut frames = whole(*num_frames);
            let gap = ui.spacing().item_spacing.x;
            ui.spacing_mut().slider_width =
                (ui.available_width() - theme::FRAMES_WIDTH - gap).max(theme::VALUE_WIDTH);
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
            let value = DragValue::new(num_frames)
                .range(0..=100_000)
                .speed(f64::from(stride) / 8.0)
                .suffix(" frames");
            number(ui, theme::FRAMES_WIDTH, value)
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
    if let Some(clip) = sources(view).extend {
        let info = clip.info.for_model(fps);
        // The new part begins with the old one's last frame.
        let num_new = num_frames.saturating_sub(1);
        let num_all = num_new.saturating_add(info.num_frames);
        let secs = |num_frames: u32| f64::from(num_frames) / info.fps;
        return longer_text(secs(num_new), secs(num_all), info.fps);
    }
    let source = sources(view).source_clip;
    let source = source.map(|clip| clip.info.for_model(fps));
    if let Some(info) = source.filter(|info| info.num_frames > 1) {
        // No longer than the clip, and at its rate.
        let num_frames = num_frames.min(info.num_frames);
        return secs_text(f64::from(num_frames) / info.fps, info.fps);
    }
    if num_frames == 1 {
        "A single picture".to_owned()
    } else {
        secs_text(f64::from(num_frames) / fps, fps)
    }
}

fn secs_text(secs: f64, fps: f64) -> String {
    format!("{} at {} frames a second", seconds_text(secs), rate(fps))
}

fn longer_text(more: f64, all: f64, fps: f64) -> String {
    let (more, all) = (seconds_text(more), seconds_text(all));
    format!("{more} more, {all} in all at {} frames a second", rate(fps))
}
