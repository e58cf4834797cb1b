//! What is known of the chosen result.
//!
//! What can be done with it is [`super::actions`]'s.

use std::sync::Arc;

use egui::{Align, Label, Layout, RichText, ScrollArea, Sense, Ui, UiBuilder, vec2};
use safelight_core::gallery::{Entry, Facts, Reading, THUMB_SIDE};
use safelight_core::units::{duration_text, seconds_text, size_text};

use crate::app::commands::DesktopCommand;
use crate::app::notices::sentence;
use crate::app::thumbs::Pictured;
use crate::ui::gallery::actions::{actions_ui, file_actions_ui};
use crate::ui::widgets::{fitted, icon_button, palette, texture_ui};
use crate::ui::{View, icons, theme};

pub(super) fn details_ui(ui: &mut Ui, view: &mut View<'_>) {
    let Some(entry) = view.app.gallery.current().map(Arc::clone) else {
        hint_ui(ui);
        return;
    };
    ScrollArea::vertical()
        .id_salt("gallery-details")
        .auto_shrink([false, false])
        .show(ui, |ui| {
            ui.set_max_width(ui.available_width() - 10.0);
            let num_chosen = view.app.gallery.selection.len();
            if num_chosen > 1 {
                several_ui(ui, view, num_chosen);
            } else {
                picture_ui(ui, view, &entry);
            }
            file_actions_ui(ui, view, &entry, num_chosen);
            actions_ui(ui, view, &entry, num_chosen);
            if num_chosen <= 1 {
                prompt_ui(ui, view, &entry);
                facts_ui(ui, view, &entry);
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

fn picture_ui(ui: &mut Ui, view: &View<'_>, entry: &Arc<Entry>) {
    let width = ui.available_width();
    let pictured = Pictured::Result(Arc::clone(entry));
    if let Some(Ok(texture)) = view.app.cx.thumbs.get(pictured, THUMB_SIDE) {
        let height = fitted(texture, vec2(width, theme::DETAILS_PICTURE), 1.5).y;
        let (rect, _) = ui.allocate_exact_size(vec2(width, height), Sense::hover());
        texture_ui(ui, texture, rect, 1.5);
    }
    if let Reading::Broken(why) = &entry.reading {
        let text = RichText::new(sentence(why)).color(palette(ui).amber);
        ui.add(Label::new(text).wrap());
    }
    ui.add_space(theme::SMALL_GAP);
}

fn several_ui(ui: &mut Ui, view: &View<'_>, count: usize) {
    ui.label(RichText::new(format!("{count} results chosen")).strong());
    let chosen = view.app.gallery.chosen();
    let bytes = chosen.iter().map(|entry| entry.stamp.bytes).sum();
    ui.label(RichText::new(size_text(bytes)).color(palette(ui).weak));
    ui.add_space(theme::SMALL_GAP);
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
                view.push(DesktopCommand::CopyText(text.clone()));
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

fn facts_ui(ui: &mut Ui, view: &View<'_>, entry: &Entry) {
    ui.add_space(theme::SMALL_GAP);
    if let Some(facts) = entry.facts() {
        making_ui(ui, facts);
    }
    fact_ui(ui, "Made", &entry.made);
    let place = view.app.gallery.place_of(&entry.path).display();
    let file = format!("{place}, {}", size_text(entry.stamp.bytes));
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
