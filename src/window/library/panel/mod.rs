//! The models page: search, list and details.

pub(crate) mod details;
pub(crate) mod welcome;

use egui::TextFormat;
use egui::text::TextWrapping;
use safelight_core::catalog::ModelProblem;
use safelight_core::units::about_rough_text;

use crate::window::layout::prelude::*;
use crate::window::library::rows::{LibraryRow, ListedModel, ModelPosition};
use crate::window::library::survey::{FitWord, SLOW_SECS, SurveyedFit, TOO_SLOW_SECS};
use crate::window::shortcuts::LIST_STEPS;

const LOOK_AGAIN: &str = "Look again";
const LOOK_AGAIN_HOVER: &str = "Look for models again (F5)";
const LOOKING: &str = "Looking for models…";
const WAYS: &str = "What makes it fit:";
const ASKS_FIRST: &str =
    "Shows the files, their sizes and where they go. Nothing is downloaded before you agree";

pub(crate) fn library_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    keys(ui, view);
    let frame = Frame::new().inner_margin(theme::PAGE_MARGIN);
    frame.show(ui, |ui| {
        header_ui(ui, view);
        ui.add_space(theme::SMALL_GAP);
        let rect = ui.available_rect_before_wrap();
        let (list, mut card) = if rect.width() < theme::STACK_WIDTH {
            rect.split_top_bottom_at_fraction(theme::STAGE_SHARE)
        } else {
            let width = (rect.width() * 0.45).clamp(theme::MODELS_MIN_WIDTH, theme::MODELS_WIDTH);
            rect.split_left_right_at_x(rect.left() + width)
        };
        let layout = Layout::top_down(Align::Min);
        ui.scope_builder(UiBuilder::new().max_rect(list).layout(layout), |ui| {
            list_ui(ui, view);
        });
        if card.left() > list.left() {
            card.min.x += theme::GAP;
        } else {
            card.min.y += theme::SMALL_GAP;
        }
        ui.scope_builder(UiBuilder::new().max_rect(card).layout(layout), |ui| {
            details::details_ui(ui, view);
        });
    });
}

fn header_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let is_small = ui.available_width() < theme::SEARCH_BESIDE_WIDTH;
    ui.horizontal(|ui| {
        ui.label(RichText::new("Models").heading().strong());
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            buttons_ui(ui, view);
            if !is_small {
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    search_ui(ui, view);
                });
            }
        });
    });
    if is_small {
        ui.horizontal(|ui| search_ui(ui, view));
    }
}

/// From the last to the first.
fn buttons_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    view.close_button(ui, "Close the models");
    let button = icon_button(ui, icons::RESET, LOOK_AGAIN, LOOK_AGAIN_HOVER);
    view.on_click(&button, LibraryCommand::Reload);
    let hover = "What was found, what this machine can run, what to download";
    let button = hint_button(ui, "First steps", hover);
    view.on_click(&button, AppCommand::Show(MainPage::Welcome));
    let problems = &view.app.cx.models.found.problems;
    if !problems.is_empty() {
        let whole = problems.iter();
        let whole = whole.map(|it| format!("{}\n{}\n{}", it.summary, it.advice, it.details));
        let (name, hover) = (
            "Copy what is wrong with models",
            "Copy details for a bug report",
        );
        let text = whole.collect::<Vec<_>>().join("\n\n");
        let button = icon_button(ui, icons::COPY, name, hover);
        view.on_click(&button, DesktopCommand::CopyText(text));
    }
    // Its words would need more than there is.
    add_folder_button(ui, view, ui.available_width() < theme::KEYS_WIDTH);
}

fn add_folder_button(ui: &mut Ui, view: &mut UiContext<'_>, is_small: bool) {
    let hover = "Also look for models in another folder, or in another program's. Nothing is \
                 copied or moved";
    let text = if is_small {
        icons::FOLDER_OPEN.to_string()
    } else {
        with_icon(icons::FOLDER_OPEN, "Add a folder…")
    };
    let is_free = !view.app.cx.background.is_asking();
    if pressed(
        ui.add_enabled(is_free, Button::new(text)),
        hover,
        "Add a models folder",
    ) {
        view.push(SettingsCommand::PickFolder("models.folders"));
    }
}

fn search_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let mut query = view.app.library.query.clone();
    let field = TextEdit::singleline(&mut query)
        .id(search_id())
        .hint_text(with_icon(icons::SEARCH, "Search by name, kind, folder…"))
        .desired_width(f32::INFINITY);
    let response = ui
        .add_sized(
            vec2(ui.available_width(), ui.spacing().interact_size.y),
            field,
        )
        .on_hover_text("All words must match. Arrows select, Enter uses, Escape goes back")
        .accessible_name("Search models");
    let num_opened = view.app.library.num_opened;
    if std::mem::replace(&mut view.panels.library.num_opened, num_opened) != num_opened {
        response.request_focus();
    }
    if response.changed() {
        view.push(LibraryCommand::Search(query));
    }
}

fn search_id() -> Id {
    Id::unique("search-of-models")
}

/// Arrows, Enter and Escape, before the search field sees them.
fn keys(ui: &Ui, view: &mut UiContext<'_>) {
    if view.app.palette.is_covered(ui.ctx()) {
        return;
    }
    let focused = ui.memory(|memory| memory.focused());
    let is_elsewhere = focused.is_some_and(|id| id != search_id());
    // The key that leaves a field is still the field's.
    let was_elsewhere = std::mem::replace(&mut view.panels.library.is_typing, is_elsewhere);
    if is_elsewhere || was_elsewhere {
        return;
    }
    let pressed = |key| ui.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    if let Some((_, by)) = LIST_STEPS.into_iter().find(|(key, _)| pressed(*key)) {
        view.push(LibraryCommand::Step(by));
    }
    if pressed(Key::Enter)
        && let Some(id) = view.app.library.chosen.clone()
    {
        view.push(LibraryCommand::Use(id));
    }
    if pressed(Key::Escape) {
        view.push(AppCommand::Show(MainPage::Watch));
    }
}

/// Tone of a model's memory verdict. Too large at its defaults is no obstacle where something helps.
fn fit_tone(fit: &SurveyedFit) -> NoteTone {
    match (fit.word, fit.ways.is_empty()) {
        (FitWord::Fits, _) if fit.secs >= Some(SLOW_SECS) => NoteTone::Warning,
        (FitWord::Fits, _) => NoteTone::Good,
        (FitWord::Squeezed, _) | (FitWord::TooLarge, false) => NoteTone::Warning,
        (FitWord::TooLarge, true) => NoteTone::Error,
        (FitWord::Unknown, _) => NoteTone::Hint,
    }
}

/// Memory verdict of a model, with the time of one result if known: `fits · about 14 h`.
fn fit_text(fit: &SurveyedFit) -> String {
    match (fit.word, fit.secs.map(about_rough_text)) {
        (FitWord::Fits | FitWord::Squeezed, Some(_)) if fit.secs >= Some(TOO_SLOW_SECS) => {
            "too slow here".to_owned()
        }
        (FitWord::Fits | FitWord::Squeezed, Some(time)) if fit.secs >= Some(SLOW_SECS) => {
            format!("slow here · {time}")
        }
        (FitWord::Fits, Some(time)) => format!("fits · {time}"),
        (FitWord::Fits, None) => "fits".to_owned(),
        (FitWord::Squeezed, Some(time)) => format!("just fits · {time}"),
        (FitWord::Squeezed, None) => "just fits".to_owned(),
        (FitWord::TooLarge, _) if !fit.ways.is_empty() => "too large at its defaults".to_owned(),
        (FitWord::TooLarge, _) => "too large".to_owned(),
        (FitWord::Unknown, _) => String::new(),
    }
}

fn fit_hover(fit: &SurveyedFit) -> String {
    let mut lines = vec![fit.text.clone()];
    lines.extend(fit.secs.map(|secs| sentence(&about_rough_text(secs))));
    if !fit.ways.is_empty() {
        lines.push(WAYS.to_owned());
        lines.extend(fit.ways.iter().map(|way| format!("• {way}")));
    }
    lines.join("\n")
}

fn list_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    if view.app.library.rows.shown.is_empty() {
        empty_ui(ui, view);
        return;
    }
    ui.spacing_mut().item_spacing.y = 0.0;
    let num_moves = view.app.library.num_moves;
    let has_moved = std::mem::replace(&mut view.panels.library.num_moves, num_moves) != num_moves;
    ScrollArea::vertical()
        .id_salt("models")
        .auto_shrink([false, false])
        .show(ui, |ui| {
            for line in 0..view.app.library.rows.shown.len() {
                row_ui(ui, view, line, has_moved);
            }
        });
}

/// One line of the list. `has_moved`: the chosen model is scrolled into view.
fn row_ui(ui: &mut Ui, view: &mut UiContext<'_>, line: usize, has_moved: bool) {
    let rows = &view.app.library.rows;
    let model = match rows.shown[line] {
        LibraryRow::Heading(text) => return heading_ui(ui, text),
        LibraryRow::Model(at) => &rows.models[at],
    };
    let size = vec2(
        ui.available_width() - theme::SMALL_GAP,
        theme::MODEL_ROW_HEIGHT,
    );
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    if has_moved && view.app.library.chosen.as_ref() == Some(&model.id) {
        // Including a heading directly above.
        let top = rect.min - vec2(0.0, theme::HEADING_HEIGHT);
        let animation = egui::style::ScrollAnimation::none();
        ui.scroll_to_rect_animation(Rect::from_min_max(top, rect.max), None, animation);
    }
    if ui.is_rect_visible(rect) {
        let model = model.clone();
        model_ui(ui, view, &model, rect, response);
    }
}

fn empty_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.add_space(theme::GAP);
    if view.app.cx.models.are_loading {
        ui.label(LOOKING);
        return;
    }
    if view.app.library.query.is_empty() {
        ui.label("No models found, and none are known");
        return;
    }
    ui.label("No matches");
    let button = hint_button(ui, "Show all", "Clear the search");
    view.on_click(&button, LibraryCommand::Search(String::new()));
}

fn heading_ui(ui: &mut Ui, text: &str) {
    let size = vec2(ui.available_width(), theme::HEADING_HEIGHT);
    ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
        ui.set_min_height(theme::HEADING_HEIGHT);
        ui.weak(RichText::new(text).small());
    });
}

fn model_ui(
    ui: &Ui,
    view: &mut UiContext<'_>,
    model: &ListedModel,
    rect: Rect,
    response: Response,
) {
    let palette = palette(ui);
    let is_chosen = view.app.library.chosen.as_ref() == Some(&model.id);
    let is_used = view.form.model.as_ref() == Some(&model.id);
    response.widget_info(|| {
        egui::WidgetInfo::selected(egui::Role::ListBoxOption, true, is_chosen, &model.name)
    });
    let fill = if is_chosen {
        palette.raised
    } else if response.hovered() || response.has_focus() {
        palette.hovered.gamma_multiply(0.5)
    } else {
        Color32::TRANSPARENT
    };
    let inside = rect.shrink2(vec2(0.0, 1.0));
    ui.painter()
        .rect_filled(inside, CornerRadius::same(theme::RADIUS), fill);
    if is_chosen {
        let edge = Stroke::new(1.0, palette.line);
        let corners = CornerRadius::same(theme::RADIUS);
        ui.painter()
            .rect_stroke(inside, corners, edge, StrokeKind::Inside);
    }
    if is_used {
        let bar = Rect::from_min_size(inside.min, vec2(3.0, inside.height()));
        ui.painter()
            .rect_filled(bar, CornerRadius::same(2), palette.accent);
    }
    let fit = view.app.library.survey.fits.get(&model.id);
    let right = inside.right() - 8.0;
    let small = TextStyle::Small.resolve(ui.style());
    let upper = inside.top() + 14.0;
    let lower = inside.bottom() - 14.0;
    let size = ui.painter().text(
        pos2(right, upper),
        Align2::RIGHT_CENTER,
        &model.size,
        small.clone(),
        palette.weak,
    );
    let (said, tone) = match (model.ailment, fit) {
        (Some(ModelProblem::Incomplete), _) => ("incomplete".to_owned(), NoteTone::Warning),
        (Some(ModelProblem::Broken), _) => ("cannot be used".to_owned(), NoteTone::Error),
        (Some(ModelProblem::Unsupported), _) => ("not supported".to_owned(), NoteTone::Hint),
        (None, Some(fit)) => (fit_text(fit), fit_tone(fit)),
        (None, None) => (String::new(), NoteTone::Hint),
    };
    let said_width = chip_left_of(ui, pos2(right, lower), &said, tone);
    let is_favourite = view.app.library.remembered.favourites.contains(&model.id);
    let star = format!("{}  ", icons::STAR);
    let star = if is_favourite { star.as_str() } else { "" };
    let ink = match model.place {
        ModelPosition::Here(_) => palette.text,
        ModelPosition::Unusable(_) | ModelPosition::Known(_) => palette.weak,
    };
    let left = inside.left() + 10.0;
    let line = |y: f32, texts: &[(&str, Color32)], font: &FontId, taken: f32| {
        let mut job = LayoutJob {
            wrap: TextWrapping::truncate_at_width(right - left - taken - 10.0),
            ..LayoutJob::default()
        };
        for (text, colour) in texts {
            job.append(text, 0.0, TextFormat::simple(font.clone(), *colour));
        }
        let galley = ui.painter().layout_job(job);
        let top = y - galley.size().y / 2.0;
        ui.painter().galley(pos2(left, top), galley, palette.text);
    };
    let body = TextStyle::Body.resolve(ui.style());
    let name = [(star, palette.amber), (&model.name, ink)];
    line(upper, &name, &body, size.width());
    line(lower, &[(&model.facts, palette.weak)], &small, said_width);
    let mut hover = model.facts.clone();
    if let Some(fit) = fit.filter(|_| model.ailment.is_none()) {
        hover = format!("{hover}\n{}", fit_hover(fit));
    }
    let response = response.on_hover_text(hover);
    if response.double_clicked() {
        view.push(LibraryCommand::Use(model.id.clone()));
    } else if response.clicked() {
        view.push(LibraryCommand::Look(model.id.clone()));
    }
}
