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
use crate::ui::create::{sources, words};
use crate::ui::widgets::{
    Own, default_row, field_hint, fold_icon, list_box, number, own_row, row, wide_slider,
};
use crate::ui::{View, theme};

/// As many jobs come of one click, where each makes one clip.
const MAX_REPEATS: u32 = 16;
/// Between the two edges of a size.
const TIMES: &str = "×";

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
    let header = CollapsingHeader::new(words::ADVANCED)
        .id_salt("advanced")
        .open(None)
        .default_open(view.folds.is_advanced_open)
        .icon(fold_icon)
        .show_unindented(ui, |ui| advanced_ui(ui, view, &spec));
    view.folds.is_advanced_open = header.fully_open();
    header.header_response.on_hover_text(words::ADVANCED_HOVER);
    grid_ui(ui, view, &spec);
    let clear = ui.button(words::CLEAR).on_hover_text(words::CLEAR_HOVER);
    if clear.clicked() {
        view.push(AppCommand::ClearForm);
    }
}

fn size_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = words::size_hover(view.makes_pictures());
    let auto = auto_text(spec, view);
    let (own_width, own_height) = (spec.defaults.width, spec.defaults.height);
    let own_text = words::own_size(own_width, own_height);
    let follows = GenerateForm::default().shown_size(spec, sources(view).size());
    let is_own_offered = view.form.size == SizeChoice::Own || follows != (own_width, own_height);
    let own = Own::of("size", &view.form.size, &SizeChoice::Auto, &auto);
    let reset = own_row(ui, words::SIZE, explanation, &own, |ui, label| {
        let before = view.form.shown_size(spec, sources(view).size());
        let form = &mut *view.form;
        let selected = match form.size {
            SizeChoice::Auto => auto.clone(),
            SizeChoice::Own => own_text.clone(),
            SizeChoice::Custom => words::custom_size(before.0, before.1),
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
                    .selectable_label(form.size == SizeChoice::Custom, words::CUSTOM)
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

fn custom_size_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let multiple = spec.limits.size_multiple;
    let explanation = words::multiple_of(multiple);
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
        edge(ui, width, words::WIDTH, &mut form.width);
        ui.label(TIMES);
        let rest = ui.available_width();
        edge(ui, rest, words::HEIGHT, &mut form.height);
    });
}

/// What the model makes by itself: its own size, or that of its area nearest to the picture's aspect.
fn auto_text(spec: &ModelSpec, view: &View<'_>) -> String {
    let sources = sources(view);
    let auto = GenerateForm::default();
    let (width, height) = auto.shown_size(spec, sources.size());
    if sources.size().is_none() || spec.limits.fixed_size {
        words::size(width, height)
    } else if is_of_clip(&sources) {
        words::size_of_clip(width, height)
    } else {
        words::size_of_picture(width, height)
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
    words::aspect_size(name, aspect, size, is_of_aspect(size, aspect))
}

/// How many are made with one click.
fn count_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let (most, explanation) = if spec.takes_batches() {
        (spec.limits.max_batch, words::BATCH_HOVER)
    } else {
        (MAX_REPEATS, words::REPEATS_HOVER)
    };
    default_row(
        ui,
        (words::HOW_MANY, words::HOW_MANY_FIELD, explanation),
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
    let explanation = words::SECTIONS_HOVER;
    default_row(
        ui,
        (words::LENGTH, "length", explanation),
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
        (words::ORDER, "order", words::ORDER_HOVER),
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
                .on_hover_text(words::ORDER_HOVER);
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
    words::sections(count, f64::from(sections.num_frames()) / fps, fps)
}

fn length_ui(ui: &mut Ui, view: &mut View<'_>, spec: &ModelSpec) {
    let explanation = words::LENGTH_HOVER;
    let default = spec.defaults.num_frames;
    default_row(
        ui,
        (words::LENGTH, "length", explanation),
        &mut view.form.num_frames,
        (default, words::frames(default)),
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
                .on_hover_text(words::frames_of(stride))
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
        let info = &clip.info;
        // The new part begins with the old one's last frame.
        let num_new = num_frames.saturating_sub(1);
        let num_all = num_new.saturating_add(info.num_frames);
        let secs = |num_frames: u32| f64::from(num_frames) / info.fps;
        return words::longer(secs(num_new), secs(num_all), info.fps);
    }
    let source = sources(view).source_clip.map(|clip| &clip.info);
    if let Some(info) = source.filter(|info| info.num_frames > 1) {
        // No longer than the clip, and at its rate.
        let num_frames = num_frames.min(info.num_frames);
        return words::length(f64::from(num_frames) / info.fps, info.fps);
    }
    if num_frames == 1 {
        words::ONE_PICTURE.to_owned()
    } else {
        words::length(f64::from(num_frames) / fps, fps)
    }
}
