//! What is known of the chosen result, and what can be done with it.
//!
//! Does nothing by itself: buttons push commands.

use std::sync::Arc;

use egui::{
    Align, Button, Color32, Label, Layout, Rect, RichText, ScrollArea, Sense, Ui, UiBuilder, pos2,
    vec2,
};
use safelight_core::catalog::size_text;
use safelight_core::gallery::{Entry, Facts, Reading};

use crate::app::commands::AppCommand;
use crate::app::gallery::{GalleryCommand, Shown};
use crate::app::inputs::{Placing, Slot};
use crate::ui::gallery::keys;
use crate::ui::widgets::{
    duration_text, icon_button, icon_toggle, palette, seconds_text, sentence, with_icon,
};
use crate::ui::{View, icons, theme};

pub(super) fn details_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(entry) = view.session.gallery.current().map(Arc::clone) else {
        hint_ui(ui);
        return;
    };
    ScrollArea::vertical()
        .id_salt("gallery-details")
        .auto_shrink([false, false])
        .show(ui, |ui| {
            ui.set_max_width(ui.available_width() - 10.0);
            let num_chosen = view.session.gallery.selection.len();
            if num_chosen > 1 {
                several_ui(ui, view, num_chosen);
                file_actions_ui(ui, view, &entry, num_chosen);
            } else {
                picture_ui(ui, view, &entry);
                file_actions_ui(ui, view, &entry, num_chosen);
                actions_ui(ui, view, &entry);
                prompt_ui(ui, view, &entry);
                facts_ui(ui, &entry);
            }
        });
}

/// Nothing is chosen: the place stays, so that the rows beside it do too.
fn hint_ui(ui: &mut Ui) {
    let weak = palette(ui).weak;
    ui.label(RichText::new("Choose a result to see what made it").color(weak));
    ui.add_space(theme::GAP);
    for (keys, what) in [
        ("Arrows", "choose, with Shift several"),
        ("Enter", "plays, as a double click does"),
        ("F", "makes a favourite"),
        ("Delete", "moves to the trash"),
        ("Ctrl+F", "searches"),
    ] {
        fact_ui(ui, keys, what);
    }
}

fn picture_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry) {
    let width = ui.available_width();
    match view.session.gallery.thumbs.get(entry.thumb) {
        Shown::Texture(texture) => {
            let size = texture.size_vec2();
            let scale = (width / size.x.max(1.0))
                .min(theme::DETAILS_PICTURE / size.y.max(1.0))
                .min(1.5);
            let (rect, _) = ui.allocate_exact_size(vec2(width, size.y * scale), Sense::hover());
            let shown = Rect::from_center_size(rect.center(), size * scale);
            let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
            ui.painter().image(texture.id(), shown, uv, Color32::WHITE);
        }
        Shown::Broken(_) | Shown::NotYet => {}
    }
    if let Reading::Broken(why) = &entry.reading {
        let text = RichText::new(sentence(why)).color(palette(ui).amber);
        ui.add(Label::new(text).wrap());
    }
    ui.add_space(theme::SMALL_GAP);
}

/// A button over the whole width; tells whether it was pressed.
fn wide_button(ui: &mut Ui, icon: char, name: &str, explanation: &str) -> bool {
    let size = vec2(ui.available_width(), 0.0);
    let button = Button::new(with_icon(icon, name)).min_size(size);
    ui.add(button)
        .on_hover_text(explanation)
        .accessible_name(name)
        .clicked()
}

fn actions_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry) {
    let path = || entry.path.clone();
    if wide_button(ui, icons::PLAY, "Play", "Show it large (Enter)") {
        view.push(AppCommand::PlayFile(path()));
    }
    let explanation = "Put the prompt, the seed and the settings that it carries into the form";
    if wide_button(ui, icons::RESET, "Use these settings", explanation) {
        view.push(AppCommand::UseSettingsOfFile(path()));
    }
    for (slot, name, explanation) in places(view, entry) {
        if wide_button(ui, icons::ARROW_RIGHT, name, explanation) {
            let placing = Placing {
                slot: Some(slot),
                ..Placing::default()
            };
            view.push(if entry.is_clip() {
                AppCommand::ContinueFromFile(path())
            } else {
                AppCommand::OpenInputs(vec![path()], placing)
            });
        }
    }
}

/// Where the chosen model takes a picture.
fn places(view: &View<'_>, entry: &Entry) -> Vec<(Slot, &'static str, &'static str)> {
    let Some(spec) = view.session.model(&view.state.form) else {
        return Vec::new();
    };
    let mut places = Vec::new();
    if spec.start_image.is_possible() {
        places.push(if entry.is_clip() {
            let explanation = "Its last frame begins the next part";
            (Slot::Start, "Continue from last frame", explanation)
        } else {
            (
                Slot::Start,
                "Use as start picture",
                "Begin with this picture",
            )
        });
    }
    if entry.is_clip() {
        return places;
    }
    if spec.end_image.is_possible() {
        places.push((Slot::End, "Use as end picture", "End with this picture"));
    }
    if spec.mask.is_possible() {
        let explanation = "White is made anew, black stays";
        places.push((Slot::Mask, "Use as mask", explanation));
    }
    places
}

/// What several chosen results have in common is what can be done with them.
fn several_ui(ui: &mut Ui, view: &mut View<'_>, count: usize) {
    ui.label(RichText::new(format!("{count} results chosen")).strong());
    let chosen = view.session.gallery.chosen();
    let bytes = chosen.iter().map(|entry| entry.stamp.bytes).sum();
    ui.label(RichText::new(size_text(bytes)).color(palette(ui).weak));
    ui.add_space(theme::SMALL_GAP);
    if let [one, other] = &chosen[..]
        && wide_button(ui, icons::COLUMNS, "Compare", "Both beside each other")
    {
        view.push(AppCommand::CompareFiles(
            one.path.clone(),
            other.path.clone(),
        ));
    }
}

fn prompt_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry) {
    let Some(facts) = entry.facts() else {
        return;
    };
    let weak = palette(ui).weak;
    for (name, text) in [
        ("Prompt", &facts.prompt),
        ("Negative prompt", &facts.negative_prompt),
    ] {
        if text.is_empty() {
            continue;
        }
        ui.add_space(theme::SMALL_GAP);
        ui.horizontal(|ui| {
            ui.label(RichText::new(name).color(weak));
            let copy = format!("Copy {}", name.to_lowercase());
            if icon_button(ui, icons::COPY, &copy, "Put it on the clipboard").clicked() {
                view.push(AppCommand::CopyText(text.clone()));
            }
        });
        ScrollArea::vertical()
            .id_salt(name)
            .max_height(theme::DETAILS_PROMPT)
            .show(ui, |ui| {
                ui.add(Label::new(text).wrap().selectable(true));
            });
    }
}

fn facts_ui(ui: &mut Ui, entry: &Entry) {
    ui.add_space(theme::SMALL_GAP);
    if let Some(facts) = entry.facts() {
        making_ui(ui, facts);
    }
    fact_ui(ui, "Made", &entry.made);
    let file = format!("{}, {}", entry.file_name(), size_text(entry.stamp.bytes));
    fact_ui(ui, "File", &file);
}

/// What made it, and what it is.
fn making_ui(ui: &mut Ui, facts: &Facts) {
    let rows = [
        ("Model", facts.model.clone()),
        (
            "Seed",
            facts.seed.map(|seed| seed.to_string()).unwrap_or_default(),
        ),
        ("Sampler", sampler_text(facts)),
        (
            "Guidance",
            facts
                .guidance_scale
                .map(|scale| scale.to_string())
                .unwrap_or_default(),
        ),
        ("Size", format!("{} × {}", facts.width, facts.height)),
        ("Length", length_text(facts)),
        ("Took", facts.secs.map(duration_text).unwrap_or_default()),
    ];
    for (name, text) in rows {
        fact_ui(ui, name, &text);
    }
}

fn sampler_text(facts: &Facts) -> String {
    let label = facts
        .sampler
        .parse::<safelight_core::job::Sampler>()
        .map_or_else(
            |_| facts.sampler.clone(),
            |sampler| sampler.label().to_owned(),
        );
    match facts.num_steps {
        Some(1) => format!("{label}, 1 step"),
        Some(steps) => format!("{label}, {steps} steps"),
        None => label,
    }
}

fn length_text(facts: &Facts) -> String {
    facts.clip_secs().map_or_else(String::new, |secs| {
        format!("{}, {} frames", seconds_text(secs), facts.num_frames)
    })
}

/// Nothing is said of what is not known.
fn fact_ui(ui: &mut Ui, name: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    let weak = palette(ui).weak;
    ui.horizontal_top(|ui| {
        ui.spacing_mut().interact_size.y = 0.0;
        let size = vec2(theme::LABEL_WIDTH, theme::CHECK_HEIGHT);
        let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
        let layout = Layout::left_to_right(Align::Min);
        let mut place = ui.new_child(UiBuilder::new().max_rect(rect).layout(layout));
        place.label(RichText::new(name).color(weak));
        ui.add(Label::new(text).wrap().selectable(true));
    });
}

/// What is done with files: one of them, or all that are chosen.
fn file_actions_ui(ui: &mut Ui, view: &mut View<'_>, entry: &Entry, num_chosen: usize) {
    ui.horizontal(|ui| {
        let chosen = view.session.gallery.chosen();
        let is_favourite = chosen.iter().all(|entry| entry.is_favourite);
        let (name, explanation) = if is_favourite {
            ("Not a favourite", "Take the star away (F)")
        } else {
            ("Favourite", "Give it a star, to find it again (F)")
        };
        if icon_toggle(ui, is_favourite, icons::STAR, name, explanation).clicked() {
            keys::favour(view);
        }
        if num_chosen == 1 {
            let explanation = "Show it in the file manager";
            if icon_button(ui, icons::FOLDER_OPEN, "Open folder", explanation).clicked() {
                let open = GalleryCommand::OpenFolder(entry.path.clone());
                view.push(AppCommand::Gallery(open));
            }
            let explanation = "Put the file's path on the clipboard";
            if icon_button(ui, icons::COPY, "Copy path", explanation).clicked() {
                let path = entry.path.display().to_string();
                view.push(AppCommand::CopyText(path));
            }
        }
        let explanation = "Move it to the desktop's trash, from where it can come back (Delete)";
        if icon_button(ui, icons::TRASH, "Delete", explanation).clicked() {
            keys::trash(view);
        }
    });
}
