//! The first page: one button that makes a video, what was found on this machine, what it can run, and what to do where
//! something is missing.
//!
//! Every state has a way on: no model, no libtorch, no GPU, a disk that takes nothing.

use safelight_core::catalog::CatalogEntry;
use safelight_core::memory::DeviceClass;
use safelight_core::units::gib_text;

use crate::window::downloads::panel::fetch_ui;
use crate::window::layout::prelude::*;
use crate::window::library::first_model;
use crate::window::library::panel::{
    ASKS_FIRST, LOOK_AGAIN, LOOK_AGAIN_HOVER, LOOKING, add_folder_button, fit_hover, fit_text,
    fit_tone,
};
use crate::window::library::survey::{FitWord, MachineInfo};
use crate::window::runtimes::panel::{card_ui, copy_command_ui};

const MAX_OFFERS: usize = 3;

pub(crate) fn welcome_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let frame = Frame::new().inner_margin(theme::PAGE_MARGIN);
    frame.show(ui, |ui| {
        header_ui(ui, view);
        page_column(ui, "welcome", |ui| {
            begin_ui(ui, view);
            ui.add_space(theme::GAP);
            libtorch_ui(ui, view);
            card_ui(ui, view);
            offers_ui(ui, view);
            ui.add_space(theme::GAP);
            if ui.available_width() < theme::STACK_WIDTH {
                machine_ui(ui, view);
                ui.add_space(theme::GAP);
                found_ui(ui, view);
            } else {
                ui.columns_const(|[left, right]| {
                    machine_ui(left, view);
                    found_ui(right, view);
                });
            }
            ui.add_space(theme::GAP);
        });
    });
}

fn header_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.horizontal(|ui| {
        sign(ui, icons::APERTURE, 34.0, palette(ui).accent);
        ui.vertical(|ui| {
            ui.label(RichText::new("Welcome to Safelight").heading().strong());
            let text = "Images and videos, made on your own computer. Nothing you make or write \
                       leaves it.";
            ui.add(Label::new(RichText::new(text).small().color(palette(ui).weak)).wrap());
        });
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let hover = "You find this page again under “First steps” among the models";
            let button = icon_button(ui, icons::X, "Skip the first steps", hover);
            view.on_click(&button, LibraryCommand::Leave);
        });
    });
    ui.add_space(theme::SMALL_GAP);
}

fn begin_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let model = first_model(view.app.cx.models.all()).cloned();
    let is_engine_there = !matches!(view.app.library.engine, Some(Err(_)));
    let is_ready = model.is_some() && is_engine_there;
    ui.add_space(theme::SMALL_GAP);
    ui.scope(|ui| {
        ui.set_max_width(theme::FIRST_BUTTON_WIDTH);
        let makes_images = model.as_ref().is_some_and(|spec| spec.family.makes_images);
        let text = format!("Make your first {}", result_word(makes_images));
        let button = main_button(ui, is_ready, icons::SPARKLE, &text);
        view.on_press(&button, |app| app.library.make_first_video(&mut app.cx));
    });
    let note = match (&model, is_engine_there) {
        (_, false) => "First, libtorch is needed: see below".to_owned(),
        (Some(spec), true) => {
            let prompt = spec.example_prompts.first().map(|it| format!(": “{it}”"));
            format!("With {}{}", spec.name, prompt.unwrap_or_default())
        }
        (None, true) if view.app.cx.models.are_loading => LOOKING.to_owned(),
        (None, true) if view.app.cx.models.all().is_empty() => {
            "First, a model is needed: download one, or add a folder that has one".to_owned()
        }
        (None, true) => "Your models need a start image: drop one on the window".to_owned(),
    };
    wide_note(ui, &note, NoteTone::Hint);
}

fn libtorch_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(Err(err)) = view.app.library.engine.clone() else {
        return;
    };
    let amber = palette(ui).amber;
    wide_frame(ui, card(ui, amber), |ui| {
        ui.strong(sentence(&err.summary));
        wide_note(ui, &err.advice, NoteTone::Plain);
        ui.horizontal(|ui| {
            // A shell command is between backquotes.
            let command = err.advice.split('`').nth(1).filter(|text| !text.is_empty());
            if let Some(command) = command {
                copy_command_ui(ui, view, command, "Copy the command");
            }
            let button = Button::new(with_icon(icons::FOLDER_OPEN, "Choose a libtorch folder…"));
            if pressed(
                ui.add_enabled(!view.app.cx.background.is_asking(), button),
                "A folder with libtorch 2.11.0 or 2.13.0, or the torch folder of a Python \
                    environment",
                "Choose a libtorch folder",
            ) {
                view.push(SettingsCommand::PickFolder("runtime.libtorch"));
            }
            let hover = "The doctor examines this machine in detail";
            let button = hint_button(ui, "Check this machine", hover);
            view.on_click(&button, AppCommand::Show(MainPage::Doctor));
        });
    });
    ui.add_space(theme::GAP);
}

fn title(ui: &mut Ui, text: &str) {
    ui.label(RichText::new(text).strong());
}

fn machine_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let machine = view.app.library.survey.machine.clone();
    wide_frame(ui, card(ui, palette(ui).line), |ui| {
        title(ui, "This machine");
        let Some(machine) = machine else {
            wide_note(ui, "Looking…", NoteTone::Hint);
            return;
        };
        let is_cpu = machine.device.facts.class == DeviceClass::Cpu;
        let tone = if is_cpu {
            NoteTone::Warning
        } else {
            NoteTone::Plain
        };
        let has_idle_gpu = view.app.runtimes.idle_gpu().is_some();
        wide_note(ui, &device_text(&machine, has_idle_gpu), tone);
        if let Some(free) = machine.free_bytes {
            let text = format!("{} are free on the disk for models.", size_text(free));
            wide_note(ui, &text, NoteTone::Plain);
        }
        if !machine.is_writable {
            let text = format!(
                "This folder cannot be written to, so models cannot be downloaded and settings are \
                not kept: {}",
                machine.models.display()
            );
            wide_note(ui, &text, NoteTone::Warning);
        }
    });
}

/// `has_idle_gpu`: there is one that jobs do not use yet.
fn device_text(machine: &MachineInfo, has_idle_gpu: bool) -> String {
    let facts = &machine.device.facts;
    let memory = gib_text(facts.total_bytes);
    let name = &machine.device.name;
    match facts.class {
        DeviceClass::Unified => {
            format!("{name}, which shares {memory} GiB of memory with the processor.")
        }
        DeviceClass::Discrete => {
            format!("{name}, a graphics card with {memory} GiB of its own memory.")
        }
        // The card above says what to do about it.
        DeviceClass::Cpu if has_idle_gpu => {
            format!("Running on the CPU, which is slow, with {memory} GiB of memory.")
        }
        DeviceClass::Cpu => format!(
            "No supported GPU found. Running on the CPU, which is slow, with {memory} GiB of memory."
        ),
    }
}

fn found_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    wide_frame(ui, card(ui, palette(ui).line), |ui| {
        title(ui, "Found on this disk");
        let num_here = view.app.cx.models.all().len();
        let num_broken = view.app.cx.models.found.unusable.len();
        let text = match num_here {
            _ if view.app.cx.models.are_loading => LOOKING.to_owned(),
            0 => "No usable model".to_owned(),
            count => counted(count, "1 usable model", "{} usable models"),
        };
        wide_note(ui, &text, NoteTone::Plain);
        if num_broken > 0 {
            let one = "1 more lacks a file or is of another kind. The list of models says what it \
                       needs";
            let more = "{} more lack files or are of other kinds. The list of models says what \
                        each needs";
            wide_note(ui, &counted(num_broken, one, more), NoteTone::Warning);
        }
        searched_ui(ui, view);
        ui.horizontal(|ui| {
            add_folder_button(ui, view, false);
            let button = icon_button(ui, icons::RESET, LOOK_AGAIN, LOOK_AGAIN_HOVER);
            view.on_click(&button, LibraryCommand::Reload);
        });
    });
}

fn searched_ui(ui: &mut Ui, view: &UiContext<'_>) {
    let searched = view.app.cx.models.found.searched.iter();
    let there: Vec<String> = searched
        .filter(|place| place.exists)
        .map(|place| place.path.display().to_string())
        .collect();
    if there.is_empty() {
        return;
    }
    wide_note(ui, "Searched folders", NoteTone::Hint);
    let height = ui.text_style_height(&egui::TextStyle::Small) + 2.0;
    ScrollArea::vertical()
        .id_salt("searched-folders")
        .max_height(theme::PROBLEMS_HEIGHT)
        .auto_shrink([false, true])
        .show_rows(ui, height, there.len(), |ui, seen| {
            ui.spacing_mut().item_spacing.y = 2.0;
            for path in &there[seen] {
                small_line(ui, path);
            }
        });
}

/// Models that suit this machine and its disk: those that fit, the quick ones first.
fn offers_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let offers = offers(view);
    wide_frame(ui, card(ui, palette(ui).line), |ui| {
        title(ui, "Models for this machine");
        let fetch = view.app.fetching.fetch.as_ref();
        let shown = fetch.map(|fetch| fetch.entry.id.clone());
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
        let note = "Times are for one result at default size and length; rough until the first run";
        wide_note(ui, note, NoteTone::Hint);
        let hover = "All models, with what they are and whether they fit";
        let button = hint_button(ui, "See all models", hover);
        view.on_click(&button, AppCommand::Show(MainPage::Models));
    });
}

fn offer_ui(ui: &mut Ui, view: &mut UiContext<'_>, entry: &CatalogEntry) {
    let fit = view.app.library.survey.fits.get(&entry.id).cloned();
    ui.horizontal(|ui| {
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let fetch = view.app.fetching.fetch.as_ref();
            let is_free = fetch.is_none_or(|fetch| !fetch.is_busy());
            let button = Button::new(with_icon(icons::DOWNLOAD, "Download…"));
            let name = format!("Download {}", entry.name);
            if pressed(ui.add_enabled(is_free, button), ASKS_FIRST, name) {
                view.push(FetchCommand::Show(Some(entry.id.clone())));
            }
            if let Some(fit) = &fit {
                state_chip(ui, &fit_text(fit), fit_tone(fit)).on_hover_text(fit_hover(fit));
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.vertical(|ui| {
                    ui.spacing_mut().item_spacing.y = 0.0;
                    ui.label(&entry.name);
                    small_line(ui, format!("{}. {}", entry.description, entry.licence));
                });
            });
        });
    });
}

fn offers(view: &UiContext<'_>) -> Vec<CatalogEntry> {
    let survey = &view.app.library.survey;
    let machine = survey.machine.as_ref();
    let free = machine.and_then(|machine| machine.free_bytes);
    let has_room = |entry: &&CatalogEntry| {
        entry.to_fetch().count() > 0 && free.is_none_or(|free| entry.about_bytes_to_fetch() <= free)
    };
    let missing = view.app.cx.models.found.missing.iter();
    let mut offers: Vec<&CatalogEntry> = missing.filter(has_room).collect();
    offers.sort_by_key(|entry| {
        let secs = survey.fits.get(&entry.id).and_then(|fit| fit.secs);
        let word = survey.word(&entry.id);
        (
            word > FitWord::Squeezed,
            secs.unwrap_or(u64::MAX),
            word,
            entry.largest_part_bytes(false),
        )
    });
    // One of each kind says more than four of one.
    let mut seen = Vec::new();
    offers.retain(|entry| {
        let kind = (entry.family, &entry.variant);
        let is_new = !seen.contains(&kind);
        seen.push(kind);
        is_new
    });
    offers.into_iter().take(MAX_OFFERS).cloned().collect()
}
