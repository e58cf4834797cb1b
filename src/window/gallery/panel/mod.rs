//! Gallery page: search at the top, results below, details of the selected one next to them, and
//! tags.
//!
//! Reads no files: the app's threads do, and [`crate::window::gallery`] keeps their results.

mod details;
pub mod grid;

use std::collections::BTreeMap;

use egui::CentralPanel;
use safelight_core::gallery::{
    GalleryFilter, GalleryQuery, MarkChange, ResultMark, ShownKind, SortOrder,
};

use crate::window::layout::prelude::*;

const LOADING: &str = "Loading…";
const SHOW_ALL: &str = "Show all results";
/// With more filters than this there is a field to search them.
const SEARCHED_FROM: usize = 20;

pub(crate) fn gallery_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    grid::take_keys(ui, view);
    let stage = Frame::new().fill(palette(ui).stage);
    Panel::top("gallery-bar")
        .frame(stage.inner_margin(theme::margin([16, 12], [14, 6])))
        .resizable(false)
        .show_separator_line(false)
        .show(ui, |ui| {
            header_ui(ui, view);
            search_ui(ui, view);
            let listing = view.app.gallery.listing.as_ref();
            for problem in listing.iter().flat_map(|listing| &listing.problems).take(3) {
                wide_note(ui, problem, NoteTone::Warning);
            }
        });
    if !view.app.gallery.items().is_empty() {
        let side = Frame::new().fill(palette(ui).panel);
        Panel::right("gallery-details")
            .frame(side.inner_margin(theme::margin([14, 4], [12, 8])))
            .resizable(false)
            .exact_size(theme::DETAILS_WIDTH)
            .show(ui, |ui| details::details_ui(ui, view));
    }
    CentralPanel::default()
        .frame(stage.inner_margin(theme::margin([16, 4], [4, 4])))
        .show(ui, |ui| {
            if view.app.gallery.items().is_empty() {
                empty_ui(ui, view);
            } else {
                grid::grid_ui(ui, view);
            }
        });
}

fn header_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let words = count_text(view);
    ui.horizontal(|ui| {
        ui.label(RichText::new("Gallery").heading().strong());
        ui.add_space(theme::SMALL_GAP);
        ui.weak(words);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            view.close_button(ui, "Close the gallery");

            let mut side = view.app.gallery.look.side;
            let slider = Slider::new(&mut side, theme::GALLERY_SIDES).show_value(false);
            ui.spacing_mut().slider_width = theme::GALLERY_SLIDER;
            let slider = number_ui(ui, slider).on_hover_text("How large the thumbnails are");
            if slider.accessible_name("Thumbnail size").changed() {
                view.set(move |app| app.gallery.look.side = side);
            }
        });
    });
}

/// `1,234 results, 3 still to read…`
fn count_text(view: &UiContext<'_>) -> String {
    let page = &view.app.gallery;
    let Some(listing) = &page.listing else {
        return LOADING.to_owned();
    };
    let many = format!("{} results", grouped(listing.items.len()));
    let mut text = counted(listing.items.len(), "1 result", &many);
    if page.query.leaves_out() {
        text.push_str(" found");
    }
    if listing.is_looking {
        text = format!("{text}, looking for more…");
    } else if listing.num_unread > 0 {
        text = format!("{text}, {} still to read…", grouped(listing.num_unread));
    }
    match page.selection.len() {
        0 | 1 => text,
        more => format!("{text}, {} selected", grouped(more)),
    }
}

/// `12,345`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn search_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let mut query = view.app.gallery.query.clone();
    let is_narrow = ui.available_width() < theme::SEARCH_BESIDE_WIDTH;
    ui.horizontal_wrapped(|ui| {
        let hint = with_icon(icons::SEARCH, "Search");
        let field = TextEdit::singleline(&mut query.words)
            .id_salt(grid::SEARCH_FIELD)
            .hint_text(hint)
            .desired_width(theme::GALLERY_SEARCH.min(ui.available_width()));
        let field = ui
            .add(field)
            .on_hover_text(
                "Words from the prompt, the model, the file name, the seed or the tags. All of them \
                must match (Ctrl+F)",
            )
            .accessible_name("Search results");
        if std::mem::take(&mut view.panels.gallery.is_search_wanted) {
            field.request_focus();
        }
        // Its space is fixed, so that nothing after it moves while typing.
        ui.scope(|ui| {
            if query.words.is_empty() {
                ui.set_invisible();
            }
            if icon_button(ui, icons::X, "Clear the search", "Show all results again").clicked() {
                query.words.clear();
            }
        });
        if is_narrow {
            ui.end_row();
        }
        for (show, hover) in [
            (ShownKind::All, "Images and videos"),
            (ShownKind::Images, "Only images"),
            (ShownKind::Videos, "Only videos"),
        ] {
            if choice(ui, query.show == show, show.label(), hover).clicked() {
                query.show = show;
            }
        }
        let (name, is_on) = ("Only favourites", query.only_favourites);
        query.only_favourites ^= icon_toggle(ui, is_on, icons::STAR, name, name).clicked();
        filter_button_ui(ui, view, &mut query);
        let list = ComboBox::from_id_salt("sort")
            .icon(list_icon)
            .selected_text(query.sort.label());
        let orders = SortOrder::ALL.map(|sort| (sort, sort.label(), ""));
        choose_from(list, ui, &mut query.sort, orders)
            .on_hover_text("Which results come first")
            .accessible_name("Sort results");
    });
    chips_ui(ui, &mut query);
    if query != view.app.gallery.query {
        view.push(GalleryCommand::Ask(query));
    }
}

fn empty_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let page = &view.app.gallery;
    let is_known = page
        .listing
        .as_ref()
        .is_some_and(|listing| !listing.is_looking);
    let leaves_out = page.query.leaves_out();
    let (icon, title, advice) = if !is_known {
        (icons::IMAGES, LOADING, String::new())
    } else if leaves_out {
        (icons::SEARCH, "No matches", no_matches_advice(&page.query))
    } else {
        let advice = "Every image and video that you make appears here, newest first".to_owned();
        (icons::IMAGES, "Nothing here yet", advice)
    };
    let area = ui.available_rect_before_wrap();
    let colour = palette(ui).accent.gamma_multiply(0.85);
    text_at(ui, area.center() - vec2(0.0, 66.0), icon, 50.0, colour);
    ui.add_space((area.height() / 2.0 - 24.0).max(0.0));
    ui.vertical_centered(|ui| {
        ui.label(RichText::new(title).heading());
        if !advice.is_empty() {
            ui.weak(sentence(&advice));
        }
        if is_known && leaves_out {
            let all = Button::new(SHOW_ALL);
            if pressed(ui.add(all), "Clear the search and all filters", SHOW_ALL) {
                view.push(GalleryCommand::Ask(GalleryQuery {
                    sort: page.query.sort,
                    ..GalleryQuery::default()
                }));
            }
        }
    });
}

fn filter_button_ui(ui: &mut Ui, view: &mut UiContext<'_>, query: &mut GalleryQuery) {
    let button = Button::new(with_icon(icons::FUNNEL, "Filter"));
    let button = button.selected(!query.filters.is_empty());
    staying_menu(ui, button, |ui| filters_ui(ui, view, query))
        .on_hover_text("Show only results of a date, with a tag, of a model or with a LoRA")
        .accessible_name("Filter");
}

fn filters_ui(ui: &mut Ui, view: &mut UiContext<'_>, query: &mut GalleryQuery) {
    ui.set_width(theme::MENU_WIDTH);
    let listing = view.app.gallery.listing.as_ref();
    let known = listing.map_or(&[][..], |listing| &listing.filters);
    if known.is_empty() {
        ui.weak("There are no results to filter");
    }
    let search = &mut view.panels.gallery.filter_search;
    if known.len() > SEARCHED_FROM {
        search_field(ui, search, "Search filters");
    } else {
        search.clear();
    }
    let words = search.to_lowercase();
    let area = ScrollArea::vertical().max_height(list_height(ui, theme::PICKER_HEIGHT));
    area.show(ui, |ui| {
        ui.set_width(theme::MENU_WIDTH);
        let mut group = "";
        for (filter, count) in known {
            let value = filter.value();
            if !value.to_lowercase().contains(&words) {
                continue;
            }
            if group != filter.group() {
                group = filter.group();
                ui.add_space(theme::SMALL_GAP);
                ui.weak(group);
            }
            let mut is_on = query.filters.contains(filter);
            let shown = noted_row(ui, &count.to_string(), |ui| ui.checkbox(&mut is_on, value));
            if shown.accessible_name(filter.label()).clicked() && !query.filters.remove(filter) {
                query.filters.insert(filter.clone());
            }
        }
    });
}

/// A chip for each active filter, which removes it.
fn chips_ui(ui: &mut Ui, query: &mut GalleryQuery) {
    if query.filters.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        let filters = &mut query.filters;
        filters.retain(|filter| !removable_chip(ui, &filter.label(), "filter"));
    });
}

/// `Only videos that are favourites with the filter “Tag: sea” are shown`, and that other words may help.
fn no_matches_advice(query: &GalleryQuery) -> String {
    let kind = match query.show {
        ShownKind::All => "results",
        ShownKind::Images => "images",
        ShownKind::Videos => "videos",
    };
    let subject = match (query.show, query.only_favourites) {
        (ShownKind::All, true) => "favourites".to_owned(),
        (_, true) => format!("{kind} that are favourites"),
        (_, false) => kind.to_owned(),
    };
    let filters = query.filters.iter();
    let filters: Vec<String> = filters.map(|it| format!("“{}”", it.label())).collect();
    let with = match filters.as_slice() {
        [] => String::new(),
        [one] => format!(" with the filter {one}"),
        more => format!(" with the filters {}", more.join(", ")),
    };
    let words = "Other words, or fewer of them, may find more";
    match (&*subject, with.is_empty(), query.words.trim().is_empty()) {
        ("results", true, _) => words.to_owned(),
        (_, _, true) => format!("Only {subject}{with} are shown"),
        (_, _, false) => format!("Only {subject}{with} are shown. {words}"),
    }
}

/// Known tags that are offered while one is written.
const MAX_OFFERED: usize = 4;

pub(super) fn tags_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let chosen = view.app.gallery.chosen();
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for tag in chosen.iter().flat_map(|entry| &entry.tags) {
        *counts.entry(tag).or_default() += 1;
    }
    // Only of those that change, so that undoing it changes no others.
    let mark = |view: &mut UiContext<'_>, tag: &str, is_set: bool| {
        let changed = chosen
            .iter()
            .filter(|entry| entry.tags.contains(tag) != is_set);
        view.push(GalleryCommand::Mark(MarkChange {
            paths: changed.map(|entry| entry.path.clone()).collect(),
            mark: ResultMark::Tag(tag.to_owned()),
            is_set,
        }));
    };
    ui.add_space(theme::SMALL_GAP);
    ui.horizontal_wrapped(|ui| {
        sign(ui, icons::TAG, theme::SMALL_ICON, palette(ui).weak);
        for (tag, count) in &counts {
            let tagged = if *count < chosen.len() {
                format!("{tag} ({count})")
            } else {
                (*tag).clone()
            };
            if removable_chip(ui, &tagged, "tag") {
                mark(view, tag, false);
            }
        }
        let text = &mut view.panels.gallery.new_tag;
        let edit = TextEdit::singleline(text)
            .hint_text("Add a tag")
            .desired_width(theme::LABEL_WIDTH);
        let response = ui
            .add(edit)
            .on_hover_text(
                "Words to find these results by. Enter adds them; commas separate several",
            )
            .accessible_name("Add a tag");
        if response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter)) {
            for tag in ResultMark::tags_in(&std::mem::take(text)) {
                mark(view, &tag, true);
            }
            response.request_focus();
        }
        let start = view.panels.gallery.new_tag.trim().to_lowercase();
        let listing = view.app.gallery.listing.as_ref();
        let known = listing.into_iter().flat_map(|listing| &listing.filters);
        let offered = known.filter_map(|(filter, _)| match filter {
            GalleryFilter::Tag(tag) => Some(tag).filter(|tag| {
                let is_new = counts.get(tag) != Some(&chosen.len());
                is_new && !start.is_empty() && tag.to_lowercase().starts_with(&start)
            }),
            _ => None,
        });
        for tag in offered.take(MAX_OFFERED) {
            if chip(ui, tag, &format!("Add tag {tag}"), "Add this tag").clicked() {
                view.panels.gallery.new_tag.clear();
                mark(view, tag, true);
            }
        }
    });
}
