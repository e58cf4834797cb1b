//! Details of the selected results, and the buttons for them.

use std::path::Path;
use std::sync::Arc;

use egui::{Link, TextWrapMode};
use safelight_core::gallery::{
    GalleryItem, ItemReading, PostprocessInfo, ResultMetadata, THUMB_SIDE,
};
use safelight_core::job::PostprocessKind;
use safelight_core::media::{SoundCodec, VideoInfo, thumbnail_size};

use crate::window::create::choices::TrashRequest;
use crate::window::gallery::panel::{grouped, tags_ui};
use crate::window::layout::prelude::*;
use crate::window::results;

use crate::window::results::panel::{
    ResultAction, ResultSubject, copy_action, delete_action, favourite_action, file_actions,
    main_actions, trash_request,
};

/// Words of more letters are names of files.
const LONG_WORD: usize = 20;

const KEYS: [(&str, &str); 6] = [
    ("Arrows", "select, with Shift several"),
    ("Enter", "plays, as a double-click does"),
    ("B", "marks as favourite"),
    ("Ctrl+C", "copies the files"),
    ("Delete", "moves to the trash"),
    ("Ctrl+F", "searches"),
];

pub(super) fn details_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(entry) = view.app.gallery.current().map(Arc::clone) else {
        ui.weak("Select a result to see how it was made");
        ui.add_space(theme::GAP);
        for (keys, what) in KEYS {
            fact_ui(ui, keys, what);
        }
        return;
    };
    ScrollArea::vertical()
        .id_salt("gallery-details")
        .auto_shrink([false, false])
        .show(ui, |ui| {
            ui.set_max_width(ui.available_width() - 10.0);
            let num_chosen = view.app.gallery.selection.len();
            if num_chosen > 1 {
                ui.label(
                    RichText::new(format!("{} results selected", grouped(num_chosen))).strong(),
                );
                let chosen = view.app.gallery.chosen();
                let bytes = chosen.iter().map(|entry| entry.stamp.bytes).sum();
                ui.weak(size_text(bytes));
                ui.add_space(theme::SMALL_GAP);
            } else {
                image_ui(ui, view, &entry);
            }
            file_actions_ui(ui, view, &entry);
            actions_ui(ui, view, &entry);
            tags_ui(ui, view);
            if num_chosen <= 1 {
                prompt_ui(ui, view, &entry);
                facts_ui(ui, view, &entry);
            }
        });
}

fn image_ui(ui: &mut Ui, view: &UiContext<'_>, entry: &Arc<GalleryItem>) {
    let place = vec2(ui.available_width(), theme::DETAILS_IMAGE);
    let shown = ThumbSource::Result(Arc::clone(entry));
    let thumb = view.app.cx.thumbs.get(shown, THUMB_SIDE);
    // The space is reserved before the thumbnail is loaded, so that buttons do not move.
    let shape = entry.facts().map(|facts| (facts.width, facts.height));
    let size = match (shape, &thumb) {
        (_, Some(Err(_))) => None,
        (Some((width, height)), _) if width > 0 && height > 0 => {
            let (width, height) = thumbnail_size((width, height), THUMB_SIDE, THUMB_SIDE);
            Some(vec2(width as f32, height as f32))
        }
        (_, Some(Ok(texture))) => Some(texture.size_vec2()),
        (_, None) => None,
    };
    if let Some(size) = size {
        let size = vec2(place.x, fitted(size, place, 1.5).y);
        let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
        if let Some(Ok(texture)) = thumb {
            texture_ui(ui, texture, rect, 1.5);
        }
    }
    if let ItemReading::Broken(why) = &entry.reading {
        ui.add(Label::new(RichText::new(sentence(why)).color(palette(ui).amber)).wrap());
    }
    ui.add_space(theme::SMALL_GAP);
}

fn prompt_ui(ui: &mut Ui, view: &mut UiContext<'_>, entry: &GalleryItem) {
    let Some(facts) = entry.facts() else {
        return;
    };
    for (name, copy, text) in [
        ("Prompt", "Copy prompt", &facts.prompt),
        (
            "Negative prompt",
            "Copy negative prompt",
            &facts.negative_prompt,
        ),
    ] {
        if text.is_empty() {
            continue;
        }
        ui.add_space(theme::SMALL_GAP);
        ui.horizontal(|ui| {
            ui.weak(name);
            let button = icon_button(ui, icons::COPY, copy, "Put it on the clipboard");
            if button.clicked() {
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

fn facts_ui(ui: &mut Ui, view: &mut UiContext<'_>, entry: &GalleryItem) {
    ui.add_space(theme::SMALL_GAP);
    ui.horizontal(|ui| {
        ui.weak("Details");
        let hover = "Put the prompts and everything below on the clipboard, as text";
        if icon_button(ui, icons::COPY, "Copy details", hover).clicked() {
            view.push(DesktopCommand::CopyText(details_text(view, entry)));
        }
    });
    if let Some(facts) = entry.facts() {
        for (name, text) in making_rows(facts) {
            fact_ui(ui, name, &text);
        }
        for done in &facts.finished {
            finished_ui(ui, view, entry, done);
        }
    }
    for (name, text) in file_rows(view, entry) {
        fact_ui(ui, name, &text);
    }
}

fn file_rows<'a>(view: &UiContext<'_>, entry: &'a GalleryItem) -> [(&'a str, String); 2] {
    let place = view.app.gallery.place_of(&entry.path).display();
    let file = format!("{place}, {}", size_text(entry.stamp.bytes));
    [("Made", entry.made.clone()), ("File", file)]
}

/// A line for each value, such as `Seed: 7`.
fn details_text(view: &UiContext<'_>, entry: &GalleryItem) -> String {
    let mut rows = Vec::new();
    if let Some(facts) = entry.facts() {
        rows.push(("Prompt", facts.prompt.clone()));
        rows.push(("Negative prompt", facts.negative_prompt.clone()));
        rows.extend(making_rows(facts));
        rows.extend(facts.finished.iter().map(finished_row));
    }
    rows.extend(file_rows(view, entry));
    rows.retain(|(_, text)| !text.is_empty());
    let lines = rows.iter().map(|(name, text)| format!("{name}: {text}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Names and values; empty where nothing is known.
fn making_rows(facts: &ResultMetadata) -> Vec<(&str, String)> {
    let number = |number: Option<f64>| number.map(|it| it.to_string()).unwrap_or_default();
    let from = &facts.made_from;
    // Without a start image or video it says nothing.
    let has_base = !from.start.is_empty() || !from.source_video.is_empty();
    let strength = from.strength.filter(|_| has_base);
    let mut rows = vec![
        ("Model", facts.model.clone()),
        ("LoRAs", from.loras.join("\n")),
        (
            "Seed",
            facts.seed.map(|seed| seed.to_string()).unwrap_or_default(),
        ),
        ("Sampler", sampler_text(facts)),
        ("Scheduler", from.scheduler.clone()),
        ("Shift", from.shift.clone()),
        ("Guidance", number(facts.guidance_scale)),
        ("Guider", from.guider.clone()),
        ("Hires fix", from.second_pass.clone()),
        ("Start image", from.start.clone()),
        ("Made from", from.source_video.clone()),
        ("Denoising strength", number(strength)),
        ("End image", from.end.clone()),
        ("Mask", from.mask.clone()),
        ("References", from.references.join("\n")),
        ("Control images", from.controls.join("\n")),
        ("Images as prompts", from.prompt_images.join("\n")),
        ("Extends", from.extended.clone()),
    ];
    let others = from.others.iter();
    let sound = facts.sound.map(SoundCodec::name);
    rows.extend(others.map(|(name, text)| (name.as_str(), text.clone())));
    rows.extend([
        ("Size", format!("{} × {}", facts.width, facts.height)),
        (
            "Length",
            facts.video_secs().map_or_else(String::new, |secs| {
                format!("{}, {} frames", seconds_text(secs), facts.num_frames)
            }),
        ),
        ("Sound", sound.unwrap_or_default().to_owned()),
        ("Took", facts.secs.map(duration_text).unwrap_or_default()),
    ]);
    rows
}

fn finished_row(done: &PostprocessInfo) -> (&str, String) {
    let network = done.work.network_name();
    match done.work {
        PostprocessKind::Upscale { .. } => {
            let size = |info: &VideoInfo| format!("{} × {}", info.width, info.height);
            let sizes = format!("{} to {}", size(&done.before), size(&done.after));
            ("Upscaled", format!("{network}: {sizes}"))
        }
        PostprocessKind::Interpolate { .. } => (
            "More frames",
            retimed_text(&network, &done.before, &done.after),
        ),
        PostprocessKind::Depth { .. } => ("Depth map", network),
    }
}

fn finished_ui(ui: &mut Ui, view: &mut UiContext<'_>, entry: &GalleryItem, done: &PostprocessInfo) {
    let (name, text) = finished_row(done);
    fact_ui(ui, name, &text);
    let Some(file) = done.source.file_name().map(|name| name.to_string_lossy()) else {
        return;
    };
    let folder = entry.path.parent().unwrap_or_else(|| Path::new(""));
    let source = folder.join(&done.source);
    row_ui(ui, "Source file", |ui| {
        // As wide as there is room: the pointer over it tells all of it.
        ui.style_mut().wrap_mode = Some(TextWrapMode::Truncate);
        let link = Link::new(&*file);
        if ui
            .add(link)
            .on_hover_text(format!("Open {}", source.display()))
            .clicked()
        {
            view.push(PlayerCommand::PlayFile(source));
        }
    });
}

/// With which network, and the rate and length before and after: `rife: 8 to 16 frames a second, 17 to 33 frames`.
fn retimed_text(network: &str, before: &VideoInfo, after: &VideoInfo) -> String {
    format!(
        "{network}: {} to {} frames a second, {} to {} frames",
        rate(before.fps),
        rate(after.fps),
        before.num_frames,
        after.num_frames
    )
}

fn sampler_text(facts: &ResultMetadata) -> String {
    let sampler = facts.sampler.parse::<safelight_core::job::SamplerKind>();
    let label = sampler.map_or(facts.sampler.as_str(), |sampler| sampler.label());
    facts.num_steps.map_or_else(
        || label.to_owned(),
        |steps| format!("{label}, {}", counted(steps as usize, "1 step", "{} steps")),
    )
}

/// Nothing is said of what is not known.
fn fact_ui(ui: &mut Ui, name: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    row_ui(ui, name, |ui| {
        let ink = ui.visuals().text_color();
        let font = TextStyle::Body.resolve(ui.style());
        let mut job = LayoutJob::simple(text.to_owned(), font, ink, 0.0);
        // A file's name fills its lines: broken at its hyphens it would take twice as many.
        let mut words = text.split_whitespace();
        job.wrap.break_anywhere = words.any(|word| word.chars().count() > LONG_WORD);
        ui.add(Label::new(job).wrap().selectable(true));
    });
}

fn row_ui(ui: &mut Ui, name: &str, contents: impl FnOnce(&mut Ui)) {
    ui.horizontal_top(|ui| {
        ui.spacing_mut().interact_size.y = 0.0;
        let size = vec2(theme::LABEL_WIDTH, theme::CHECK_HEIGHT);
        let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
        let layout = Layout::left_to_right(Align::Min);
        let mut place = ui.new_child(UiBuilder::new().max_rect(rect).layout(layout));
        place.label(RichText::new(name).color(palette(ui).weak));
        contents(ui);
    });
}

/// Actions on the selected results; `entry` is the one with details.
fn main_of(view: &UiContext<'_>, entry: &GalleryItem) -> Vec<ResultAction> {
    let chosen = view.app.gallery.chosen();
    match &chosen[..] {
        [] | [_] => main_actions(view, &ResultSubject::of_entry(entry)),
        [one, other] => {
            let compare = PlayerCommand::CompareFiles(one.path.clone(), other.path.clone());
            let compare = ResultAction::new(icons::COLUMNS, "Compare", compare);
            vec![compare.explained("Show both beside each other")]
        }
        _ => Vec::new(),
    }
}

fn files_of(view: &UiContext<'_>, entry: &GalleryItem) -> Vec<ResultAction> {
    if view.app.gallery.selection.len() > 1 {
        vec![favour(view), copy(view), trash(view)]
    } else {
        let mut actions = file_actions(&ResultSubject::of_entry(entry));
        actions.insert(1, copy(view));
        actions
    }
}

fn are_favourites(view: &UiContext<'_>) -> bool {
    let chosen = view.app.gallery.chosen();
    chosen.iter().all(|entry| entry.is_favourite)
}

/// Makes the selected results favourites, or removes them if all of them are.
pub(super) fn favour(view: &UiContext<'_>) -> ResultAction {
    let chosen = view.app.gallery.chosen();
    let paths = chosen.iter().map(|entry| entry.path.clone()).collect();
    favourite_action(paths, are_favourites(view))
}

fn chosen_files(view: &UiContext<'_>) -> Vec<TrashRequest> {
    let chosen = view.app.gallery.chosen();
    chosen.iter().map(|entry| trash_request(entry)).collect()
}

pub(super) fn copy(view: &UiContext<'_>) -> ResultAction {
    copy_action(chosen_files(view))
}

pub(super) fn trash(view: &UiContext<'_>) -> ResultAction {
    delete_action(chosen_files(view), 1)
}

pub(super) fn actions_ui(ui: &mut Ui, view: &mut UiContext<'_>, entry: &GalleryItem) {
    for action in main_of(view, entry) {
        action.wide_ui(ui, view);
    }
}

/// Icon buttons without labels.
pub(super) fn file_actions_ui(ui: &mut Ui, view: &mut UiContext<'_>, entry: &GalleryItem) {
    let is_favourite = are_favourites(view);
    ui.horizontal(|ui| {
        // All of them fit into the panel.
        ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
        for action in files_of(view, entry) {
            let (icon, name) = (action.icon, action.name.as_str());
            let is_clicked = if icon == icons::STAR {
                icon_toggle(ui, is_favourite, icon, name, action.hover).clicked()
            } else {
                icon_button(ui, icon, name, action.hover).clicked()
            };
            if let Some(command) = action.command.filter(|_| is_clicked) {
                view.push(command);
            }
        }
    });
}

pub(super) fn menu_ui(ui: &mut Ui, view: &mut UiContext<'_>, entry: &GalleryItem) {
    let networks = results::panel::network_actions(view, entry.is_video());
    let groups = vec![main_of(view, entry), networks, files_of(view, entry)];
    results::panel::menu_ui(ui, |ui| results::panel::entries_ui(ui, view, groups));
}
