//! Card of one model: description, fit, paths of its files, peculiarities and missing parts; and the
//! question before it is deleted.

use std::path::Path;

use safelight_core::catalog::{
    CatalogEntry, ComponentCard, HelperKind, UnusableModel, helper_entry,
};
use safelight_core::units::about_rough_text;

use crate::window::downloads::panel::{fetch_ui, offer_button};
use crate::window::layout::prelude::*;
use crate::window::library::panel::{ASKS_FIRST, WAYS, fit_tone};
use crate::window::library::rows::{ListedModel, ModelPosition, needs_text};

const COPY_PATH_HOVER: &str = "Copy the path to the clipboard";

pub(super) fn details_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(model) = view.app.library.listed().cloned() else {
        ui.label(
            RichText::new("Choose a model in the list to see what it is").color(palette(ui).weak),
        );
        fetch_ui(ui, view);
        return;
    };
    ScrollArea::vertical()
        .id_salt("model-card")
        .auto_shrink([false, false])
        .show(ui, |ui| {
            ui.set_max_width((ui.available_width() - theme::GAP).min(theme::PAGE_WIDTH));
            match model.place {
                ModelPosition::Here(at) => {
                    if let Some(spec) = view.app.cx.models.all().get(at).cloned() {
                        here_ui(ui, view, &model, &spec);
                    }
                }
                ModelPosition::Unusable(at) => {
                    if let Some(unusable) = view.app.cx.models.found.unusable.get(at).cloned() {
                        unusable_ui(ui, view, &unusable);
                    }
                }
                ModelPosition::Known(at) => {
                    if let Some(entry) = view.app.cx.models.found.missing.get(at).cloned() {
                        known_ui(ui, view, &model, &entry);
                    }
                }
            }
            if !matches!(model.place, ModelPosition::Known(_)) {
                fetch_ui(ui, view);
            }
        });
}

fn here_ui(ui: &mut Ui, view: &mut UiContext<'_>, model: &ListedModel, spec: &ModelSpec) {
    let is_used = view.form.model.as_ref() == Some(&spec.id);
    title_ui(ui, view, model);
    wide_frame(ui, card(ui, palette(ui).line), |ui| {
        if !spec.description.is_empty() {
            ui.add(Label::new(sentence(&spec.description)).wrap());
        }
        fit_ui(ui, view, model);
        for (name, text) in facts(spec) {
            fact_ui(ui, name, &text);
        }
        for odd in oddities(spec) {
            wide_note(ui, &odd, NoteTone::Plain);
        }
        if spec.computer.is_none() {
            place_ui(ui, view, &spec.folder);
        }
    });
    ui.add_space(theme::GAP);
    // Above the files, which are there a moment later: nothing moves under the pointer.
    let verb = if is_used { "Continue with" } else { "Use" };
    let text = format!("{verb} this model");
    let button = second_button(ui, true, icons::CHECK_CIRCLE, &text)
        .on_hover_text("Fills in its default size and steps; your prompt stays (Enter)");
    view.on_click(&button, LibraryCommand::Use(spec.id.clone()));
    ui.add_space(theme::GAP);
    let parts = view.app.library.cards.get(&spec.id).cloned();
    for (place, part) in parts.iter().flatten() {
        ui.push_id(&part.name, |ui| part_ui(ui, view, place, part));
    }
    if spec.computer.is_some() {
        return;
    }
    if spec.files.preview_decoder.is_none()
        && let Some(entry) = helper_entry(HelperKind::PreviewDecoder, Some(spec))
    {
        let note = "Previews are coarse without a preview decoder";
        wide_note(ui, note, NoteTone::Hint);
        offer_button(ui, view, entry);
    }
    ui.add_space(theme::GAP);
    let mut jobs = view.app.queue.unfinished();
    let is_queued = jobs.any(|request| request.generate().is_some_and(|it| it.model == spec.id));
    let button = Button::new(with_icon(icons::TRASH, "Move to the trash…"));
    let button = ui
        .add_enabled(!is_queued, button)
        .on_hover_text("Delete its files from the disk. Shows them and their sizes, and asks first")
        .on_disabled_hover_text("Jobs in the queue use it")
        .accessible_name("Move to the trash…");
    let id = spec.id.clone();
    view.on_press(&button, move |app| app.library.ask_to_delete(&id, &app.cx));
}

fn title_ui(ui: &mut Ui, view: &mut UiContext<'_>, model: &ListedModel) {
    ui.horizontal(|ui| {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let is_favourite = view.app.library.remembered.favourites.contains(&model.id);
            let hover = if is_favourite {
                "Listed first; click to remove from favourites"
            } else {
                "List it first"
            };
            let name = "Favourite";
            let button = icon_toggle(ui, is_favourite, icons::STAR, name, hover);
            let command = LibraryCommand::Favour(model.id.clone(), !is_favourite);
            view.on_click(&button, command);
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.add(Label::new(RichText::new(&model.name).heading().strong()).truncate());
            });
        });
    });
}

fn fit_ui(ui: &mut Ui, view: &UiContext<'_>, model: &ListedModel) {
    let survey = &view.app.library.survey;
    let Some(fit) = survey.fits.get(&model.id) else {
        return;
    };
    wide_note(ui, &fit.text, fit_tone(fit));
    if !fit.ways.is_empty() {
        wide_note(ui, WAYS, NoteTone::Plain);
        for way in &fit.ways {
            wide_note(ui, &format!("• {way}"), NoteTone::Plain);
        }
    } else if let Some(secs) = fit.secs {
        let word = result_word(model.makes_images);
        let text = format!("A {word} takes {}", about_rough_text(secs));
        wide_note(ui, &text, NoteTone::Hint);
    }
}

fn fact_ui(ui: &mut Ui, name: &str, text: &str) {
    ui.horizontal_top(|ui| {
        ui.spacing_mut().interact_size.y = 0.0;
        let size = egui::vec2(theme::CHECK_NAME_WIDTH, 0.0);
        ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Min), |ui| {
            ui.set_min_width(theme::CHECK_NAME_WIDTH);
            ui.weak(RichText::new(name).small());
        });
        ui.add(Label::new(RichText::new(text).small()).wrap());
    });
}

fn facts(spec: &ModelSpec) -> Vec<(&'static str, String)> {
    let word = result_word(spec.family.makes_images);
    let licence = match spec.licence.as_str() {
        "" => "not stated",
        licence => licence,
    };
    vec![
        ("Kind", spec.family.kind_text(&spec.variant)),
        ("Makes", format!("{word}s from {}", needs_text(spec))),
        ("Defaults", defaults_text(spec)),
        ("On disk", size_text(spec.bytes)),
        ("Licence", licence.to_owned()),
    ]
}

/// `832 × 480, 5.1 s at 16 fps, 30 steps`.
fn defaults_text(spec: &ModelSpec) -> String {
    let defaults = &spec.defaults;
    let (width, height) = (defaults.width, defaults.height);
    let (steps, fps) = (defaults.sampling.num_steps, defaults.fps);
    if spec.family.makes_images {
        return format!("{width} × {height}, {steps} steps");
    }
    let secs = seconds_text(f64::from(defaults.num_frames) / fps.max(f64::EPSILON));
    format!("{width} × {height}, {secs} at {fps} fps, {steps} steps")
}

fn oddities(spec: &ModelSpec) -> Vec<String> {
    let mut odd = Vec::new();
    if spec.licence.to_lowercase().contains("non-commercial") {
        odd.push("Its licence does not allow commercial use".to_owned());
    }
    if spec.limits.fixed_size {
        let (width, height) = (spec.defaults.width, spec.defaults.height);
        odd.push(format!("It makes one size only: {width} × {height}"));
    }
    if spec.files.transformer_2.is_some() {
        odd.push("It has two transformers: one for high noise, then one for low noise".to_owned());
    }
    odd
}

fn part_ui(ui: &mut Ui, view: &mut UiContext<'_>, place: &Path, part: &ComponentCard) {
    ui.horizontal(|ui| {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let what = match part.name.as_str() {
                "transformer" => "transformer",
                "transformer_2" => "transformer for low noise",
                "vae" => "VAE",
                "text_encoder" => "text encoder",
                "text_encoder_2" => "second text encoder",
                _ => "image encoder",
            };
            let copy = format!("Copy the path of the {what}");
            let button = icon_button(ui, icons::COPY, &copy, COPY_PATH_HOVER);
            let command = DesktopCommand::CopyText(place.display().to_string());
            view.on_click(&button, command);
            ui.small(size_text(part.bytes));
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.spacing_mut().item_spacing.y = 0.0;
                ui.vertical(|ui| {
                    let text = format!("{}  ·  {}", sentence(what), storage_text(part));
                    ui.add(Label::new(RichText::new(text).small()).truncate());
                    small_line(ui, part.files.join(", "))
                        .on_hover_text(place.display().to_string());
                });
            });
        });
    });
}

/// The types that most of its numbers have: `BF16`, `F8_E4M3 and F32`.
fn storage_text(part: &ComponentCard) -> String {
    let mut types: Vec<(&String, &u64)> = part.dtypes.iter().collect();
    types.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let names = types.iter().take(2).map(|(name, _)| name.as_str());
    names.collect::<Vec<_>>().join(" and ")
}

fn place_ui(ui: &mut Ui, view: &mut UiContext<'_>, place: &Path) {
    fact_ui(ui, "Folder", &place.display().to_string());
    ui.horizontal(|ui| {
        let button = hint_button(ui, "Show folder", "Open it in the file manager");
        // Of a file the one that it is in.
        let folder = place.parent().filter(|_| place.extension().is_some());
        let folder = folder.unwrap_or(place).to_owned();
        view.on_press(&button, |app| app.cx.background.open_folder(folder));
        let button = hint_button(ui, "Copy path", COPY_PATH_HOVER);
        let command = DesktopCommand::CopyText(place.display().to_string());
        view.on_click(&button, command);
    });
}

fn unusable_ui(ui: &mut Ui, view: &mut UiContext<'_>, model: &UnusableModel) {
    ui.add(Label::new(RichText::new(&model.name).heading().strong()).truncate());
    wide_frame(ui, card(ui, palette(ui).amber.gamma_multiply(0.6)), |ui| {
        if !model.needs.is_empty() {
            ui.label("It needs");
            for needed in &model.needs {
                wide_note(ui, &needed.what, NoteTone::Plain);
                wide_note(ui, &format!("Get {}", needed.example), NoteTone::Warning);
            }
            ui.add_space(theme::SMALL_GAP);
        }
        wide_note(ui, &model.summary, NoteTone::Hint);
        if !model.advice.is_empty() {
            wide_note(ui, &model.advice, NoteTone::Hint);
        }
        place_ui(ui, view, &model.path);
        if model.fetch.is_some() && view.app.fetching.fetch.is_none() {
            let button = hint_button(ui, "Download what is missing…", ASKS_FIRST);
            let command = LibraryCommand::Complete(model.path.display().to_string());
            view.on_click(&button, command);
        }
    });
}

fn known_ui(ui: &mut Ui, view: &mut UiContext<'_>, model: &ListedModel, entry: &CatalogEntry) {
    let fetch = view.app.fetching.fetch.as_ref();
    let is_other = fetch.is_some_and(|fetch| fetch.entry.id != entry.id);
    // The fit precedes the download.
    fit_ui(ui, view, model);
    if let Some(machine) = &view.app.library.survey.machine
        && let Some(free) = machine.free_bytes
        && let bytes = entry.about_bytes_to_fetch()
        && bytes > free
    {
        let [bytes, free] = [bytes, free].map(size_text);
        let text = format!("It takes about {bytes} on the disk, and {free} are free");
        wide_note(ui, &text, NoteTone::Error);
    }
    ui.add_space(theme::SMALL_GAP);
    if is_other {
        ui.strong(&entry.name);
        wide_note(ui, &entry.description, NoteTone::Hint);
        wide_note(ui, &format!("Licence: {}", entry.licence), NoteTone::Hint);
        let note = "Another model is being downloaded. This one can be downloaded after it";
        wide_note(ui, note, NoteTone::Warning);
        fetch_ui(ui, view);
        return;
    }
    fetch_ui(ui, view);
    if view.app.fetching.fetch.is_none() {
        let hover = "What would be downloaded, how large it is, and where it goes";
        let button = hint_button(ui, "Show its files…", hover);
        view.on_click(&button, LibraryCommand::Look(entry.id.clone()));
    }
}

/// Height of the list of files, in points.
const LIST_HEIGHT: f32 = 220.0;

pub(crate) fn question_ui(ctx: &Context, view: &mut UiContext<'_>) {
    let Some(question) = &view.app.library.deletion else {
        return;
    };
    let plan = &question.plan;
    let mut answer = None;
    let response = modal(ctx, "delete-model", (theme::QUESTION_WIDTH, 16), |ui| {
        ui.heading(format!("Move {} to the trash?", question.name));
        ui.add_space(theme::SMALL_GAP);
        ScrollArea::vertical()
            .max_height(LIST_HEIGHT)
            .show(ui, |ui| {
                ui.set_width(ui.available_width());
                for (file, bytes) in &plan.files {
                    file_ui(ui, file, &size_text(*bytes));
                }
                if !plan.kept.is_empty() {
                    ui.add_space(theme::SMALL_GAP);
                    ui.weak("These stay:");
                }
                for (file, why) in &plan.kept {
                    file_ui(ui, file, why);
                }
            });
        ui.add_space(theme::SMALL_GAP);
        let text = format!("Move {} to the trash", size_text(plan.bytes()));
        if main_button(ui, !plan.files.is_empty(), icons::TRASH, &text).clicked() {
            answer = Some(true);
        }
        if second_button(ui, true, icons::X, "Cancel").clicked() {
            answer = Some(false);
        }
    });
    if let Some(is_agreed) = answer.or_else(|| response.should_close().then_some(false)) {
        view.set(move |app| app.library.answer_deletion(is_agreed, &app.cx));
    }
}

fn file_ui(ui: &mut Ui, file: &Path, note: &str) {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    noted_row(ui, note, |ui| ui.label(name)).on_hover_text(file.display().to_string());
}
