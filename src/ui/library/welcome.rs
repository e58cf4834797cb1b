//! The first page: one button that makes a clip, what was found on this machine, what it can run, and what to do where
//! something is missing.
//!
//! Every state has a way on: no model, no libtorch, no GPU, a disk that takes nothing.

use egui::{Align, Button, Frame, Label, Layout, RichText, ScrollArea, Ui};
use safelight_core::catalog::CatalogEntry;
use safelight_core::families::Family;
use safelight_core::memory::DeviceClass;

use crate::app::commands::{
    AppCommand, DesktopCommand, FetchCommand, FolderSetting, LibraryCommand, SettingsCommand,
};
use crate::app::library::first_model;
use crate::app::library::survey::{Fit, FitWord};
use crate::app::notices::sentence;
use crate::app::state::Page;
use crate::ui::downloads::fetch_ui;
use crate::ui::library::{fit_colour, words};
use crate::ui::runtimes::card_ui;
use crate::ui::widgets::{card, icon_button, main_button, palette, sign, wide_note, with_icon};
use crate::ui::{View, icons, theme};

/// Models that are offered for fetching.
const MAX_OFFERS: usize = 4;
/// Models of which is said whether they fit.
const MAX_FITS: usize = 12;

pub(in crate::ui) fn welcome_ui(ui: &mut Ui, view: &mut View<'_>) {
    let frame = Frame::new().inner_margin(theme::PAGE_MARGIN);
    frame.show(ui, |ui| {
        header_ui(ui, view);
        ScrollArea::vertical()
            .id_salt("welcome")
            .auto_shrink([false, false])
            .show(ui, |ui| {
                ui.set_max_width((ui.available_width() - 12.0).min(theme::PAGE_WIDTH));
                begin_ui(ui, view);
                ui.add_space(theme::GAP);
                libtorch_ui(ui, view);
                card_ui(ui, view);
                machine_ui(ui, view);
                ui.add_space(theme::GAP);
                found_ui(ui, view);
                ui.add_space(theme::GAP);
                offers_ui(ui, view);
                ui.add_space(theme::GAP);
            });
    });
}

fn header_ui(ui: &mut Ui, view: &mut View<'_>) {
    ui.horizontal(|ui| {
        let accent = palette(ui).accent;
        sign(ui, icons::APERTURE, 34.0, accent);
        ui.vertical(|ui| {
            ui.label(RichText::new(words::WELCOME).heading().strong());
            let weak = palette(ui).weak;
            ui.add(Label::new(RichText::new(words::WELCOME_TEXT).small().color(weak)).wrap());
        });
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if icon_button(ui, icons::X, words::SKIP, words::SKIP_HOVER).clicked() {
                view.push(LibraryCommand::Leave);
            }
        });
    });
    ui.add_space(theme::SMALL_GAP);
}

/// The one button, or why it cannot be pressed yet.
fn begin_ui(ui: &mut Ui, view: &mut View<'_>) {
    let model = first_model(view.app.cx.models.all()).cloned();
    let is_engine_there = !matches!(view.app.library.engine, Some(Err(_)));
    let is_ready = model.is_some() && is_engine_there;
    ui.add_space(theme::SMALL_GAP);
    ui.scope(|ui| {
        ui.set_max_width(theme::FIRST_BUTTON_WIDTH);
        let thing = model
            .as_ref()
            .is_some_and(|spec| spec.family.makes_pictures);
        let text = if thing {
            words::FIRST_PICTURE
        } else {
            words::FIRST_CLIP
        };
        let button = main_button(ui, is_ready, icons::SPARKLE, text);
        if button.clicked() && is_ready {
            view.push(LibraryCommand::FirstClip);
        }
    });
    let note = match (&model, is_engine_there) {
        (_, false) => words::NEEDS_LIBTORCH.to_owned(),
        (Some(spec), true) => {
            let prompt = spec.example_prompts.first();
            words::first_with(&spec.name, prompt.map(String::as_str))
        }
        (None, true) if view.app.cx.models.are_loading => words::LOOKING.to_owned(),
        (None, true) if view.app.cx.models.all().is_empty() => words::NEEDS_MODEL.to_owned(),
        (None, true) => words::NEEDS_PICTURE.to_owned(),
    };
    wide_note(ui, &note, palette(ui).weak);
}

/// What is missing for computing, with what to do about it.
fn libtorch_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(Err(err)) = view.app.library.engine.clone() else {
        return;
    };
    let amber = palette(ui).amber;
    card(ui, amber).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.label(RichText::new(sentence(&err.summary)).color(amber));
        wide_note(ui, &err.advice, palette(ui).text);
        ui.horizontal(|ui| {
            let command = command_in(&err.advice);
            if let Some(command) = command {
                let copy = Button::new(with_icon(icons::COPY, command));
                if ui
                    .add(copy)
                    .on_hover_text(words::COPY_COMMAND_HOVER)
                    .accessible_name(words::COPY_COMMAND)
                    .clicked()
                {
                    view.push(DesktopCommand::CopyText(command.to_owned()));
                }
            }
            let button = Button::new(with_icon(icons::FOLDER_OPEN, words::CHOOSE_LIBTORCH));
            if ui
                .add_enabled(!view.app.cx.background.is_asking(), button)
                .on_hover_text(words::CHOOSE_LIBTORCH_HOVER)
                .accessible_name(words::CHOOSE_LIBTORCH_NAME)
                .clicked()
            {
                view.push(SettingsCommand::PickFolder(FolderSetting::Libtorch));
            }
            if ui
                .button(words::DOCTOR)
                .on_hover_text(words::DOCTOR_HOVER)
                .clicked()
            {
                view.push(AppCommand::Show(Page::Doctor));
            }
        });
    });
    ui.add_space(theme::GAP);
}

/// The line for a shell that a sentence has between backquotes.
fn command_in(advice: &str) -> Option<&str> {
    advice.split('`').nth(1).filter(|text| !text.is_empty())
}

fn title(ui: &mut Ui, text: &str) {
    ui.label(RichText::new(text).size(15.0).strong());
}

fn machine_ui(ui: &mut Ui, view: &mut View<'_>) {
    let machine = view.app.library.survey.machine.clone();
    card(ui, palette(ui).line).show(ui, |ui| {
        ui.set_width(ui.available_width());
        title(ui, words::MACHINE);
        let Some(machine) = machine else {
            wide_note(ui, words::LOOKING_AT_MACHINE, palette(ui).weak);
            return;
        };
        let is_cpu = machine.device.facts.class == DeviceClass::Cpu;
        let colour = if is_cpu {
            palette(ui).amber
        } else {
            palette(ui).text
        };
        let has_idle_gpu = view.app.runtimes.idle_gpu().is_some();
        wide_note(ui, &words::device(&machine, has_idle_gpu), colour);
        if let Some(free) = machine.free_bytes {
            wide_note(ui, &words::disk(free), palette(ui).text);
        }
        if !machine.is_writable {
            let text = words::not_writable(&machine.models.display().to_string());
            wide_note(ui, &text, palette(ui).amber);
        }
        ui.add_space(theme::SMALL_GAP);
        fits_ui(ui, view);
    });
}

struct Said {
    name: String,
    is_here: bool,
    fit: Fit,
}

/// Whether models fit: those that are here first, then one of each kind that is known.
fn fits_ui(ui: &mut Ui, view: &mut View<'_>) {
    let said = said_of_models(view);
    let height = ui.text_style_height(&egui::TextStyle::Small) + 6.0;
    ui.scope(|ui| {
        ui.spacing_mut().interact_size.y = height;
        ui.columns(2, |columns| {
            // Equally high: a model that does not fit has a second line.
            let num_lines = |said: &Said| 1 + said.fit.ways.len().min(1);
            let all: usize = said.iter().map(num_lines).sum();
            let mut before = 0;
            for said in &said {
                let is_second = before * 2 >= all;
                before += num_lines(said);
                said_ui(&mut columns[usize::from(is_second)], said);
            }
        });
    });
    if said.iter().any(|said| said.fit.secs.is_some()) {
        wide_note(ui, words::TIMES, palette(ui).weak);
    }
    if ui
        .button(words::SEE_ALL)
        .on_hover_text(words::SEE_ALL_HOVER)
        .clicked()
    {
        view.push(AppCommand::Show(Page::Models));
    }
}

fn said_ui(ui: &mut Ui, said: &Said) {
    let Said { name, is_here, fit } = said;
    let palette = palette(ui);
    ui.horizontal(|ui| {
        ui.set_max_width(theme::FIT_WIDTH.min(ui.available_width() - theme::GAP));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let colour = fit_colour(ui, Some(fit));
            ui.label(RichText::new(words::fit(fit)).small().color(colour))
                .on_hover_text(words::fit_hover(fit));
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                let ink = if *is_here { palette.text } else { palette.weak };
                ui.add(Label::new(RichText::new(name).small().color(ink)).truncate());
            });
        });
    });
    if let Some(way) = fit.ways.first() {
        let text = RichText::new(words::way(way)).small().color(palette.weak);
        ui.add(Label::new(text).truncate())
            .on_hover_text(words::fit_hover(fit));
    }
}

fn said_of_models(view: &View<'_>) -> Vec<Said> {
    let fits = &view.app.library.survey.fits;
    let said = |id: &String, name: &String, is_here| {
        let fit = fits.get(id).filter(|fit| fit.word != FitWord::Unknown)?;
        Some(Said {
            name: name.clone(),
            is_here,
            fit: fit.clone(),
        })
    };
    let here = view.app.cx.models.all().iter();
    let here = here.filter_map(|spec| said(&spec.id, &spec.name, true));
    let mut seen: Vec<(Family, &str)> = Vec::new();
    let known = view.app.cx.models.found.missing.iter().filter(|entry| {
        let kind = (entry.family, entry.variant.as_str());
        let is_new = !entry.sources.is_empty() && !seen.contains(&kind);
        seen.push(kind);
        is_new
    });
    let known = known.filter_map(|entry| said(&entry.id, &entry.name, false));
    here.take(MAX_FITS / 2)
        .chain(known)
        .take(MAX_FITS)
        .collect()
}

fn found_ui(ui: &mut Ui, view: &mut View<'_>) {
    card(ui, palette(ui).line).show(ui, |ui| {
        ui.set_width(ui.available_width());
        title(ui, words::FOUND);
        let num_here = view.app.cx.models.all().len();
        let num_broken = view.app.cx.models.found.unusable.len();
        let text = if view.app.cx.models.are_loading {
            words::LOOKING.to_owned()
        } else {
            words::usable(num_here)
        };
        wide_note(ui, &text, palette(ui).text);
        if num_broken > 0 {
            wide_note(ui, &words::unusable(num_broken), palette(ui).amber);
        }
        searched_ui(ui, view);
        ui.horizontal(|ui| {
            let add = Button::new(with_icon(icons::FOLDER_OPEN, words::ADD_FOLDER));
            if ui
                .add_enabled(!view.app.cx.background.is_asking(), add)
                .on_hover_text(words::ADD_FOLDER_HOVER)
                .accessible_name(words::ADD_FOLDER_NAME)
                .clicked()
            {
                view.push(SettingsCommand::PickFolder(FolderSetting::Models));
            }
            if icon_button(ui, icons::RESET, words::LOOK_AGAIN, words::LOOK_AGAIN_HOVER).clicked() {
                view.push(LibraryCommand::Reload);
            }
        });
    });
}

/// The folders that were gone through.
fn searched_ui(ui: &mut Ui, view: &View<'_>) {
    let weak = palette(ui).weak;
    let there: Vec<String> = view
        .app
        .cx
        .models
        .found
        .searched
        .iter()
        .filter(|place| place.exists)
        .map(|place| place.path.display().to_string())
        .collect();
    if there.is_empty() {
        return;
    }
    wide_note(ui, words::LOOKED_IN, weak);
    let height = ui.text_style_height(&egui::TextStyle::Small) + 2.0;
    ScrollArea::vertical()
        .id_salt("searched-folders")
        .max_height(theme::PROBLEMS_HEIGHT)
        .auto_shrink([false, true])
        .show_rows(ui, height, there.len(), |ui, seen| {
            ui.spacing_mut().item_spacing.y = 2.0;
            for path in &there[seen] {
                ui.add(Label::new(RichText::new(path).small().color(weak)).truncate());
            }
        });
}

/// Models that suit this machine and its disk, the smallest first.
fn offers_ui(ui: &mut Ui, view: &mut View<'_>) {
    let offers = offers(view);
    if offers.is_empty() && view.app.fetching.fetch.is_none() {
        return;
    }
    card(ui, palette(ui).line).show(ui, |ui| {
        ui.set_width(ui.available_width());
        title(ui, words::OFFERS);
        let shown = view
            .app
            .fetching
            .fetch
            .as_ref()
            .map(|fetch| fetch.entry.id.clone());
        for entry in &offers {
            if shown.as_ref() == Some(&entry.id) {
                fetch_ui(ui, view);
            } else {
                offer_ui(ui, view, entry);
            }
        }
        if shown.is_some_and(|id| offers.iter().all(|entry| entry.id != id)) {
            fetch_ui(ui, view);
        }
    });
}

fn offer_ui(ui: &mut Ui, view: &mut View<'_>, entry: &CatalogEntry) {
    let fit = view.app.library.survey.fits.get(&entry.id).cloned();
    ui.horizontal(|ui| {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let is_free = view
                .app
                .fetching
                .fetch
                .as_ref()
                .is_none_or(|fetch| !fetch.is_busy());
            let button = ui.add_enabled(
                is_free,
                Button::new(with_icon(icons::DOWNLOAD, words::DOWNLOAD)),
            );
            if button
                .on_hover_text(words::ASKS_FIRST)
                .accessible_name(words::download(&entry.name))
                .clicked()
            {
                view.push(FetchCommand::Show(Some(entry.id.clone())));
            }
            let colour = fit_colour(ui, fit.as_ref());
            if let Some(fit) = &fit {
                ui.label(RichText::new(words::fit(fit)).small().color(colour))
                    .on_hover_text(words::fit_hover(fit));
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.vertical(|ui| {
                    ui.spacing_mut().item_spacing.y = 0.0;
                    ui.label(&entry.name);
                    let weak = palette(ui).weak;
                    let text = format!("{}. {}", entry.description, entry.licence);
                    ui.add(Label::new(RichText::new(text).small().color(weak)).truncate());
                });
            });
        });
    });
}

fn offers(view: &View<'_>) -> Vec<CatalogEntry> {
    let survey = &view.app.library.survey;
    let free = survey
        .machine
        .as_ref()
        .and_then(|machine| machine.free_bytes);
    let has_room = |entry: &&CatalogEntry| {
        entry.to_fetch().count() > 0 && free.is_none_or(|free| entry.about_bytes_to_fetch() <= free)
    };
    let missing = view.app.cx.models.found.missing.iter();
    let mut offers: Vec<&CatalogEntry> = missing.filter(has_room).collect();
    offers.sort_by_key(|entry| (survey.word(&entry.id), entry.largest_part_bytes(false)));
    // One of each kind says more than four of one.
    let mut seen = Vec::new();
    offers.retain(|entry| {
        let kind = (entry.family, entry.variant.clone());
        let is_new = !seen.contains(&kind);
        seen.push(kind);
        is_new
    });
    offers.into_iter().take(MAX_OFFERS).cloned().collect()
}
