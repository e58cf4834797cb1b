//! Gallery page: search at the top, results below, details of the selected one next to them.
//!
//! Reads no files: the app's threads do, and [`crate::app::gallery`] keeps their results.

mod details;
pub mod grid;

use egui::CentralPanel;
use safelight_core::gallery::{GalleryQuery, ShownKind, SortOrder};

use crate::ui::prelude::*;

const LOADING: &str = "Loading…";
const SHOW_ALL: &str = "Show all results";

pub(super) fn gallery_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    grid::take_keys(ui, view);
    let stage = Frame::new().fill(palette(ui).stage);
    Panel::top("gallery-bar")
        .frame(stage.inner_margin(Margin {
            left: 16,
            right: 12,
            top: 14,
            bottom: 6,
        }))
        .resizable(false)
        .show_separator_line(false)
        .show(ui, |ui| {
            header_ui(ui, view);
            search_ui(ui, view);
            let listing = view.app.gallery.listing.as_ref();
            for problem in listing.iter().flat_map(|listing| &listing.problems).take(3) {
                wide_note(ui, problem, palette(ui).amber);
            }
        });
    if !view.app.gallery.items().is_empty() {
        Panel::right("gallery-details")
            .frame(Frame::new().fill(palette(ui).panel).inner_margin(Margin {
                left: 14,
                right: 4,
                top: 12,
                bottom: 8,
            }))
            .resizable(false)
            .exact_size(theme::DETAILS_WIDTH)
            .show(ui, |ui| details::details_ui(ui, view));
    }
    CentralPanel::default()
        .frame(stage.inner_margin(Margin {
            left: 16,
            right: 4,
            top: 4,
            bottom: 4,
        }))
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
    let palette = palette(ui);
    ui.horizontal(|ui| {
        ui.label(RichText::new("Gallery").heading().strong());
        ui.add_space(theme::SMALL_GAP);
        ui.label(RichText::new(words).color(palette.weak));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let button = icon_button(ui, icons::X, "Close the gallery", "Back to the image");
            view.on_click(&button, AppCommand::Show(MainPage::Watch));
            let mut side = view.app.gallery.look.side;
            let slider = Slider::new(&mut side, theme::GALLERY_SIDES).show_value(false);
            ui.spacing_mut().slider_width = theme::GALLERY_SLIDER;
            let slider = ui.add(slider).on_hover_text("How large the thumbnails are");
            if slider.accessible_name("Thumbnail size").changed() {
                view.push(GalleryCommand::Resize(side));
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
    let mut text = num_results_text(listing.items.len(), page.query.leaves_out());
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

fn num_results_text(count: usize, are_found: bool) -> String {
    let number = grouped(count);
    match (count, are_found) {
        (1, false) => "1 result".to_owned(),
        (1, true) => "1 result found".to_owned(),
        (_, false) => format!("{number} results"),
        (_, true) => format!("{number} results found"),
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
    ui.horizontal_wrapped(|ui| {
        let hint = with_icon(icons::SEARCH, "Search");
        let field = TextEdit::singleline(&mut query.words)
            .id_salt(grid::SEARCH_FIELD)
            .hint_text(hint)
            .desired_width(theme::GALLERY_SEARCH.min(ui.available_width()));
        let field = ui
            .add(field)
            .on_hover_text(
                "Words from the prompt, the model, the file name or the seed. All of them must \
                match (Ctrl+F)",
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
        for show in ShownKind::ALL {
            if choice(ui, query.show == show, show.label(), show_hover(show)).clicked() {
                query.show = show;
            }
        }
        let explanation = "Only favourites";
        if icon_toggle(
            ui,
            query.only_favourites,
            icons::STAR,
            explanation,
            explanation,
        )
        .clicked()
        {
            query.only_favourites = !query.only_favourites;
        }
        let list = ComboBox::from_id_salt("sort")
            .icon(list_icon)
            .selected_text(query.sort.label());
        let orders = SortOrder::ALL.map(|sort| (sort, sort.label(), ""));
        choose_from(list, ui, &mut query.sort, orders)
            .on_hover_text("Which results come first")
            .accessible_name("Sort results");
    });
    if query != view.app.gallery.query {
        view.push(GalleryCommand::Ask(query));
    }
}

fn show_hover(show: ShownKind) -> &'static str {
    match show {
        ShownKind::All => "Images and videos",
        ShownKind::Images => "Only images",
        ShownKind::Videos => "Only videos",
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
    let palette = palette(ui);
    let area = ui.available_rect_before_wrap();
    let middle = area.center() - vec2(0.0, 20.0);
    let text = |up: f32, text: &dyn ToString, size: f32, colour| {
        let at = middle - vec2(0.0, up);
        let font = FontId::proportional(size);
        ui.painter()
            .text(at, Align2::CENTER_CENTER, text.to_string(), font, colour);
    };
    text(46.0, &icon, 50.0, palette.accent.gamma_multiply(0.85));
    ui.add_space((area.height() / 2.0 - 24.0).max(0.0));
    ui.vertical_centered(|ui| {
        ui.label(RichText::new(title).size(18.0));
        if !advice.is_empty() {
            ui.label(RichText::new(sentence(&advice)).color(palette.weak));
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

fn no_matches_advice(query: &GalleryQuery) -> String {
    let shown = match (query.show, query.only_favourites) {
        (ShownKind::All, false) => "",
        (ShownKind::All, true) => "Only favourites are shown",
        (ShownKind::Images, false) => "Only images are shown",
        (ShownKind::Videos, false) => "Only videos are shown",
        (ShownKind::Images, true) => "Only images that are favourites are shown",
        (ShownKind::Videos, true) => "Only videos that are favourites are shown",
    };
    let advice = "Other words, or fewer of them, may find more";
    match (query.words.trim().is_empty(), shown) {
        (_, "") => advice.to_owned(),
        (true, shown) => shown.to_owned(),
        (false, shown) => format!("{shown}. {advice}"),
    }
}
