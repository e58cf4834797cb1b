//! Size, length, batch, presets and seed; the sections "Advanced" and "Grid".

use egui::CollapsingHeader;
use safelight_core::job::{
    ASPECTS, DEFAULT_SECS, InputMedia, SectionOrder, SeedMode, SizeChoice, VideoSections, WINDOW,
    is_of_aspect,
};

use crate::window::create::panel::advanced::{advanced_ui, choice_ui};
use crate::window::create::panel::grid::grid_ui;
use crate::window::layout::prelude::*;
use crate::window::presets::panel::presets_ui;

/// Most jobs of one click, where each makes one video.
const MAX_REPEATS: u32 = 16;
const LENGTH: &str = "Length";
const ORDER_HOVER: &str =
    "Which section is made first. Models are made for one order; their files do not say which";
const MARGIN: i8 = 4;
/// As many as a new seed has; the field shows them whole.
const SEEN_DIGITS: usize = 9;

pub(super) fn parameters_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(spec) = view.model().cloned() else {
        return;
    };
    size_ui(ui, view, &spec);
    if let Some(order) = spec.section_order {
        sections_ui(ui, view, &spec, order);
    } else if !spec.family.makes_images {
        length_ui(ui, view, &spec);
    }
    count_ui(ui, view, &spec);
    presets_ui(ui, view, &spec);
    seed_ui(ui, view);
    let num_shown = view.app.cx.num_advanced_shown;
    let is_wanted = std::mem::replace(&mut view.panels.num_advanced_shown, num_shown) != num_shown;
    let header = CollapsingHeader::new("Advanced")
        .id_salt("advanced")
        .open(is_wanted.then_some(true))
        .default_open(view.folds.is_advanced_open)
        .icon(fold_icon)
        .show_unindented(ui, |ui| advanced_ui(ui, view, &spec));
    view.folds.is_advanced_open = header.fully_open();
    if is_wanted {
        header.header_response.scroll_to_me(Some(Align::TOP));
    }
    header
        .header_response
        .on_hover_text("All other settings, such as steps, guidance and sampler");
    grid_ui(ui, view, &spec);
    let clear = ui.button("Clear form").on_hover_text(
        "Empty the prompt, the images, the mask and the LoRAs, and set everything else to the \
        model's defaults",
    );
    view.on_click(&clear, AppCommand::ClearForm);
}

fn size_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    let word = result_word(spec.family.makes_images);
    let hover = format!(
        "Width and height of the {word} in pixels. Larger takes longer and needs more memory"
    );
    let auto = auto_text(spec, view);
    let (own_width, own_height) = (spec.defaults.width, spec.defaults.height);
    let own_text = format!("The model's own  {own_width} × {own_height}");
    let follows = GenerateForm::default().shown_size(spec, view.inputs().size());
    let is_own_offered = view.form.size == SizeChoice::Own || follows != (own_width, own_height);
    let names = ("Size", "size", hover.as_str());
    let default = (SizeChoice::Auto, auto.as_str());
    let mut size = view.form.size;
    own_row(ui, names, &mut size, default, |ui, label, size| {
        let before = view.form.shown_size(spec, view.inputs().size());
        let selected = match *size {
            SizeChoice::Auto => auto.clone(),
            SizeChoice::Own => own_text.clone(),
            SizeChoice::Custom => format!("Custom  {} × {}", before.0, before.1),
            SizeChoice::Aspect(across, down) => aspect_text(spec, across, down),
        };
        let response = list_box(ui, "size", &selected)
            .height(theme::PICKER_HEIGHT)
            .show_ui(ui, |ui| {
                ui.selectable_value(size, SizeChoice::Auto, &auto);
                if is_own_offered {
                    ui.selectable_value(size, SizeChoice::Own, own_text);
                }
                if !spec.limits.fixed_size {
                    for (across, down, _) in ASPECTS {
                        let text = aspect_text(spec, across, down);
                        ui.selectable_value(size, SizeChoice::Aspect(across, down), text);
                    }
                }
                let custom = ui.selectable_value(size, SizeChoice::Custom, "Custom…");
                if custom.clicked() {
                    view.form.set_size(before);
                }
                // Its own fields have a button for that.
                let can_swap = before.0 != before.1 && *size != SizeChoice::Custom;
                if can_swap && ui.button("Swap width and height").clicked() {
                    view.form.set_size((before.1, before.0));
                    *size = SizeChoice::Custom;
                }
            });
        response.response.labelled_by(label).on_hover_text(&hover);
    });
    view.form.size = size;
    if view.form.size == SizeChoice::Custom {
        custom_size_ui(ui, view.form, spec);
    }
    said_ui(ui, view, &["width", "height"]);
}

fn custom_size_ui(ui: &mut Ui, form: &mut GenerateForm, spec: &ModelSpec) {
    let multiple = spec.limits.size_multiple;
    let hover = format!("In pixels, a multiple of {multiple}");
    row(ui, "", &hover, |ui, _| {
        ui.spacing_mut().item_spacing.x = theme::SMALL_GAP;
        let button_width = theme::SEED_DICE_WIDTH + 2.0 * theme::SMALL_GAP;
        let width = ((ui.available_width() - button_width) / 2.0).floor();
        let edge_ui = |ui: &mut Ui, edge: &mut Option<u32>, width, name: &str| {
            let value = DragValue::new(edge.get_or_insert_default())
                .range(0..=16_384)
                .speed(f64::from(multiple) / 8.0)
                .suffix(" px");
            let field = number(ui, width, value);
            field.on_hover_text(&hover).accessible_name(name);
        };
        edge_ui(ui, &mut form.width, width, "Width");
        ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
        let swap = Button::new(icons::SWAP.to_string()).frame_when_inactive(false);
        let swap = ui.add_sized(vec2(theme::SEED_DICE_WIDTH, 0.0), swap);
        if pressed(swap, "Swap width and height", "Swap width and height") {
            std::mem::swap(&mut form.width, &mut form.height);
        }
        let width = ui.available_width();
        edge_ui(ui, &mut form.height, width, "Height");
    });
}

/// Name of the automatic size: the model's, or that of its area nearest to the input image's aspect.
fn auto_text(spec: &ModelSpec, view: &UiContext<'_>) -> String {
    let inputs = view.inputs();
    let (width, height) = GenerateForm::default().shown_size(spec, inputs.size());
    if inputs.size().is_none() || spec.limits.fixed_size {
        return format!("{width} × {height}");
    }
    let what = result_word(!is_of_video(&inputs));
    format!("Like the {what}  {width} × {height}")
}

/// The automatic size follows a video: one that is extended, or a control.
fn is_of_video(inputs: &FormInputs) -> bool {
    let control = inputs.controls.first().map(|control| &control.source);
    let is_control_followed = inputs.image.is_none() && inputs.last_image.is_none();
    inputs.video().is_some()
        || (is_control_followed && matches!(control, Some(InputMedia::Video(_))))
}

fn aspect_text(spec: &ModelSpec, across: u32, down: u32) -> String {
    let size = spec.size_for_aspect(f64::from(across) / f64::from(down.max(1)));
    let aspect = (across, down);
    let known = ASPECTS.iter().find(|known| (known.0, known.1) == aspect);
    let is_exact = is_of_aspect(size, aspect);
    let name = if is_exact {
        known.map_or("", |known| known.2)
    } else {
        "Near"
    };
    format!("{name} {across}:{down}   {} × {}", size.0, size.1)
}

fn count_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    let mut most = MAX_REPEATS;
    let mut hover = "Videos generated one after the other, with consecutive seeds";
    if spec.takes_batches() {
        most = spec.limits.max_batch;
        hover = "Images generated together, with consecutive seeds. Larger batches need more \
      memory";
    }
    let (names, value) = (("Batch", "batch", hover), &mut view.form.batch_size);
    default_row(ui, names, value, (1, "1"), |ui, label, count| {
        wide_slider(ui, Slider::new(count, 1..=most), hover).labelled_by(label);
    });
    said_ui(ui, view, &["batch"]);
}

fn sections_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec, order: SectionOrder) {
    let hover = "How long the video is. It is made section by section, and each can be \
                watched as soon as it is done";
    let names = (LENGTH, "length", hover);
    let default = (DEFAULT_SECS, seconds_text(DEFAULT_SECS));
    default_row(
        ui,
        names,
        &mut view.form.secs,
        default,
        |ui, label, secs| {
            let slider = Slider::new(secs, 1.0..=120.0)
                .logarithmic(true)
                .fixed_decimals(1)
                .suffix(" s");
            wide_slider(ui, slider, hover).labelled_by(label);
        },
    );
    field_hint(ui, &sections_text(view, spec));
    said_ui(ui, view, &["seconds", "frames"]);
    let names = ("Order", "order", ORDER_HOVER);
    let choices = SectionOrder::ALL.map(|choice| (choice, choice.label(), ""));
    choice_ui(ui, names, (&mut view.form.section_order, order), &choices);
    said_ui(ui, view, &["sampling"]);
}

fn sections_text(view: &UiContext<'_>, spec: &ModelSpec) -> String {
    let form = &view.form;
    let fps = form.fps_for(spec);
    let count = VideoSections::in_secs(form.secs_or_default(), WINDOW);
    let sections = VideoSections {
        count,
        window: WINDOW,
        order: SectionOrder::default(),
        lead: 1,
    };
    let text = secs_text(f64::from(sections.num_frames()) / fps, fps);
    let count = counted(count as usize, "1 section", "{} sections");
    format!("{count}, {text}")
}

fn length_ui(ui: &mut Ui, view: &mut UiContext<'_>, spec: &ModelSpec) {
    let hover = "How long the video is. One frame is an image";
    let default = spec.defaults.num_frames;
    let (names, default) = (
        (LENGTH, "length", hover),
        (default, format!("{default} frames")),
    );
    let value = &mut view.form.num_frames;
    default_row(ui, names, value, default, |ui, label, num_frames| {
        let stride = spec.limits.frame_stride.max(1);
        // In whole latent frames.
        let whole = |num_frames: u32| num_frames.saturating_sub(1) / stride * stride + 1;
        let mut frames = whole(*num_frames);
        let gap = ui.spacing().item_spacing.x;
        ui.spacing_mut().slider_width =
            (ui.available_width() - theme::FRAMES_WIDTH - gap).max(theme::VALUE_WIDTH);
        let slider = Slider::new(&mut frames, 1..=whole(spec.limits.max_frames))
            .step_by(f64::from(stride))
            .show_value(false);
        if number_ui(ui, slider)
            .on_hover_text(hover)
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
    });
    field_hint(ui, &length_text(view, spec));
    said_ui(ui, view, &["frames"]);
}

fn length_text(view: &UiContext<'_>, spec: &ModelSpec) -> String {
    let form = &view.form;
    let (num_frames, fps) = (form.num_frames_for(spec), form.fps_for(spec));
    if let Some(video) = view.inputs().extend {
        let info = video.info.for_model(fps);
        // The new part begins with the old one's last frame.
        let num_new = num_frames.saturating_sub(1);
        let num_all = num_new.saturating_add(info.num_frames);
        let secs = |num_frames: u32| f64::from(num_frames) / info.fps;
        let [more, all] = [num_new, num_all].map(|num_frames| seconds_text(secs(num_frames)));
        let fps = rate(info.fps);
        return format!("{more} more, {all} in all at {fps} frames a second");
    }
    let source = view.inputs().source_video;
    let source = source.map(|video| video.info.for_model(fps));
    if let Some(info) = source.filter(|info| info.num_frames > 1) {
        // No longer than the video, and at its rate.
        let num_frames = num_frames.min(info.num_frames);
        return secs_text(f64::from(num_frames) / info.fps, info.fps);
    }
    if num_frames == 1 {
        "A single image".to_owned()
    } else {
        secs_text(f64::from(num_frames) / fps, fps)
    }
}

fn secs_text(secs: f64, fps: f64) -> String {
    format!("{} at {} frames a second", seconds_text(secs), rate(fps))
}

pub(super) fn seed_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let word = result_word(view.makes_images());
    let hover =
        format!("Seed of the random noise. The same seed and settings make the same {word}");
    row(ui, "Seed", &hover, |ui, label| {
        // Close together: a seed of nine digits is seen whole.
        ui.spacing_mut().item_spacing.x = theme::SMALL_GAP;
        ui.spacing_mut().button_padding.x = theme::SMALL_GAP;
        let others = theme::SEED_MODE_WIDTH + theme::SEED_DICE_WIDTH + 2.0 * theme::SMALL_GAP;
        let width = ui.available_width() - others - 2.0 * f32::from(MARGIN);
        let mut text = view.form.seed_text();
        let edit = TextEdit::singleline(&mut text)
            .id_salt("seed")
            .margin(Margin::symmetric(MARGIN, 2))
            .align(Align2::LEFT_CENTER)
            .desired_width(width);
        let response = ui.add(edit).labelled_by(label).on_hover_ui(|ui| {
            // A longer one is cut off in its field.
            let text = view.form.seed_text();
            if text.len() > SEEN_DIGITS {
                ui.label(text);
            }
            ui.label(&hover);
        });
        if response.changed() {
            view.form.type_seed(text);
            view.set(|app| app.cx.is_seed_used = false);
        }
        let mode = &mut view.form.seed_mode;
        let list = list_box(ui, "seed-mode", mode.label()).width(theme::SEED_MODE_WIDTH);
        let text = |mode| match mode {
            SeedMode::Random => format!("Every new {word} gets a new seed"),
            SeedMode::Fixed => format!("Every {word} uses this seed, until you change it"),
            SeedMode::Increment => format!("Every new {word} gets the next higher number"),
        };
        let texts = SeedMode::ALL.map(text);
        let modes = SeedMode::ALL.into_iter().zip(&texts);
        let modes = modes.map(|(mode, text)| (mode, mode.label(), text.as_str()));
        choose_from(list, ui, mode, modes)
            .on_hover_text(text(*mode))
            .accessible_name("Seed mode");
        let button = icon_button(ui, icons::DICE, "Roll a new seed", "Another random seed");
        view.on_click(&button, QueueCommand::RollSeed);
    });
    said_ui(ui, view, &["seed"]);
}
