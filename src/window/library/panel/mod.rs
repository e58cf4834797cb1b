//! The models page: search, list and details.

pub(crate) mod deletion;
mod details;
pub(crate) mod welcome;

use egui::TextFormat;
use egui::text::TextWrapping;
use safelight_core::catalog::ModelProblem;
use safelight_core::units::about_rough_text;

use crate::window::layout::prelude::*;
use crate::window::library::rows::{LibraryRow, ListedModel, ModelPosition};
use crate::window::library::survey::{FitWord, JobSpeed, SurveyedFit};

const LOOK_AGAIN: &str = "Look again";
const LOOK_AGAIN_HOVER: &str = "Look for models again (F5)";
const ADD_FOLDER: &str = "Add a folder…";
const ADD_FOLDER_NAME: &str = "Add a models folder";
const ADD_FOLDER_HOVER: &str =
    "Also look for models in another folder, or in another program's. Nothing is copied or moved";
const LOOKING: &str = "Looking for models…";
const WAYS: &str = "What makes it fit:";
const ASKS_FIRST: &str =
    "Shows the files, their sizes and where they go. Nothing is downloaded before you agree";

pub(crate) fn library_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    keys(ui, view);
    let frame = Frame::new().inner_margin(Margin {
        left: 20,
        right: 12,
        top: 14,
        bottom: 8,
    });
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
    let button = hint_button(
        ui,
        "First steps",
        "What was found, what this machine can run, what to download",
    );
    view.on_click(&button, AppCommand::Show(MainPage::Welcome));
    let problems = &view.app.cx.models.found.problems;
    let hover = "Copy details for a bug report";
    if !problems.is_empty()
        && icon_button(ui, icons::COPY, "Copy what is wrong with models", hover).clicked()
    {
        let whole = problems
            .iter()
            .map(|it| format!("{}\n{}\n{}", it.summary, it.advice, it.details));
        let text = whole.collect::<Vec<_>>().join("\n\n");
        view.push(DesktopCommand::CopyText(text));
    }
    let is_free = !view.app.cx.background.is_asking();
    // Its words would need more than there is.
    let text = if ui.available_width() < theme::KEYS_WIDTH {
        icons::FOLDER_OPEN.to_string()
    } else {
        with_icon(icons::FOLDER_OPEN, ADD_FOLDER)
    };
    if pressed(
        ui.add_enabled(is_free, egui::Button::new(text)),
        ADD_FOLDER_HOVER,
        ADD_FOLDER_NAME,
    ) {
        let purpose = crate::window::commands::FolderSetting::Models;
        view.push(SettingsCommand::PickFolder(purpose));
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
    let by = [
        (Key::ArrowDown, 1),
        (Key::ArrowUp, -1),
        (Key::PageDown, 8),
        (Key::PageUp, -8),
    ]
    .into_iter()
    .find_map(|(key, by)| pressed(key).then_some(by));
    if let Some(by) = by {
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

/// The colour of the words on whether a model fits. Too large at its defaults is no obstacle where something helps.
fn fit_colour(ui: &Ui, fit: Option<&SurveyedFit>) -> egui::Color32 {
    let palette = palette(ui);
    match fit.map(|fit| (fit.word, fit.ways.is_empty())) {
        Some((FitWord::Fits, _)) if fit.and_then(SurveyedFit::speed) > Some(JobSpeed::Quick) => {
            palette.amber
        }
        Some((FitWord::Fits, _)) => palette.good,
        Some((FitWord::Squeezed, _) | (FitWord::TooLarge, false)) => palette.amber,
        Some((FitWord::TooLarge, true)) => palette.error,
        Some((FitWord::Unknown, _)) | None => palette.weak,
    }
}

/// Memory verdict of a model, with the time of one result if known: `fits · about 14 h`.
fn fit_text(fit: &SurveyedFit) -> String {
    match (fit.word, fit.secs.map(about_rough_text)) {
        (FitWord::Fits | FitWord::Squeezed, Some(_)) if fit.speed() == Some(JobSpeed::TooSlow) => {
            "too slow here".to_owned()
        }
        (FitWord::Fits | FitWord::Squeezed, Some(time)) if fit.speed() == Some(JobSpeed::Slow) => {
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
    let num_rows = view.app.library.rows.shown.len();
    let mut area = ScrollArea::vertical()
        .id_salt("models")
        .auto_shrink([false, false]);
    if let Some(offset) = offset_of_chosen(view, ui.available_height()) {
        area = area.vertical_scroll_offset(offset);
    }
    let output = area.show_rows(ui, theme::MODEL_ROW_HEIGHT, num_rows, |ui, seen| {
        for line in seen {
            match view.app.library.rows.shown.get(line).cloned() {
                Some(LibraryRow::Heading(text)) => heading_ui(ui, text),
                Some(LibraryRow::Model(at)) => {
                    if let Some(model) = view.app.library.rows.models.get(at).cloned() {
                        model_ui(ui, view, &model);
                    }
                }
                None => {}
            }
        }
    });
    view.panels.library.scroll_offset = output.state.clamped_offset().y;
}

/// Scroll offset at which the newly selected model is visible; `None` if it already is.
fn offset_of_chosen(view: &mut UiContext<'_>, room: f32) -> Option<f32> {
    let (library, panel) = (&view.app.library, &mut view.panels.library);
    if std::mem::replace(&mut panel.num_moves, library.num_moves) == library.num_moves {
        return None;
    }
    let line = library.rows.line_of(library.chosen.as_ref()?)?;
    let height = theme::MODEL_ROW_HEIGHT;
    let (top, bottom) = (line as f32 * height, (line + 1) as f32 * height);
    // Including a heading directly above.
    let top = (top - height).max(0.0);
    if top < panel.scroll_offset {
        Some(top)
    } else if bottom > panel.scroll_offset + room {
        Some(bottom - room)
    } else {
        None
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
    let size = vec2(ui.available_width(), theme::MODEL_ROW_HEIGHT);
    let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
    let below = Rect::from_min_max(pos2(rect.left(), rect.bottom() - 24.0), rect.max);
    let layout = Layout::left_to_right(Align::Center);
    ui.new_child(UiBuilder::new().max_rect(below).layout(layout))
        .weak(RichText::new(text).small());
}

fn model_ui(ui: &mut Ui, view: &mut UiContext<'_>, model: &ListedModel) {
    let size = vec2(
        ui.available_width() - theme::SMALL_GAP,
        theme::MODEL_ROW_HEIGHT,
    );
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
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
    let text_at = |at, text: &str, colour| {
        let rect = ui
            .painter()
            .text(at, Align2::RIGHT_CENTER, text, small.clone(), colour);
        rect.width()
    };
    let upper = inside.top() + 14.0;
    let lower = inside.bottom() - 14.0;
    let size_width = text_at(pos2(right, upper), &model.size, palette.weak);
    let (said, colour) = match model.ailment {
        Some(ModelProblem::Incomplete) => ("incomplete".to_owned(), palette.amber),
        Some(ModelProblem::Broken) => ("cannot be used".to_owned(), palette.error),
        Some(ModelProblem::Unsupported) => ("not supported".to_owned(), palette.weak),
        None => (fit.map_or_else(String::new, fit_text), fit_colour(ui, fit)),
    };
    let said_width = text_at(pos2(right, lower), &said, colour);
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
    line(upper, &name, &body, size_width);
    line(lower, &[(&model.facts, palette.weak)], &small, said_width);
    let response = match fit {
        Some(fit) if model.ailment.is_none() => {
            response.on_hover_text(format!("{}\n{}", model.facts, fit_hover(fit)))
        }
        _ => response.on_hover_text(&model.facts),
    };
    if response.double_clicked() {
        view.push(LibraryCommand::Use(model.id.clone()));
    } else if response.clicked() {
        view.push(LibraryCommand::Look(model.id.clone()));
    }
}
