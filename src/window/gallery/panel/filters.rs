//! Filters of the gallery: the list to choose from, those that are active, and advice when nothing passes them.

use safelight_core::gallery::{GalleryQuery, ShownKind};

use crate::window::layout::prelude::*;

/// With more filters than this there is a field to search them.
const SEARCHED_FROM: usize = 20;

pub(super) fn button_ui(ui: &mut Ui, view: &mut UiContext<'_>, query: &mut GalleryQuery) {
    let button = Button::new(with_icon(icons::FUNNEL, "Filter"));
    let button = button.selected(!query.filters.is_empty());
    staying_menu(ui, button, |ui| menu_ui(ui, view, query))
        .on_hover_text("Show only results of a date, with a tag, of a model or with a LoRA")
        .accessible_name("Filter");
}

fn menu_ui(ui: &mut Ui, view: &mut UiContext<'_>, query: &mut GalleryQuery) {
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
pub(super) fn chips_ui(ui: &mut Ui, query: &mut GalleryQuery) {
    if query.filters.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        let filters = &mut query.filters;
        filters.retain(|filter| !removable_chip(ui, &filter.label(), "filter"));
    });
}

/// `Only videos that are favourites with the filter “Tag: sea” are shown`, and that other words may help.
pub(super) fn no_matches_advice(query: &GalleryQuery) -> String {
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
