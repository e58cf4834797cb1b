//! The list of models: as many lines as are seen are drawn, however many there are.

use egui::text::{LayoutJob, TextWrapping};
use egui::{
    Align2, Color32, CornerRadius, FontId, Rect, RichText, ScrollArea, Sense, Stroke, StrokeKind,
    TextFormat, TextStyle, Ui, pos2, vec2,
};
use safelight_core::catalog::ModelProblem;

use crate::app::commands::LibraryCommand;
use crate::app::library::rows::{Listed, Place, Row};
use crate::ui::library::{LOOKING, fit_colour, fit_hover, fit_text};
use crate::ui::widgets::palette;
use crate::ui::{View, icons, theme};

pub(super) fn list_ui(ui: &mut Ui, view: &mut View<'_>) {
    if view.app.library.rows.shown.is_empty() {
        empty_ui(ui, view);
        return;
    }
    ui.spacing_mut().item_spacing.y = 0.0;
    let height = theme::MODEL_ROW_HEIGHT;
    let num_rows = view.app.library.rows.shown.len();
    let mut area = ScrollArea::vertical()
        .id_salt("models")
        .auto_shrink([false, false]);
    if let Some(offset) = offset_of_chosen(view, ui.available_height()) {
        area = area.vertical_scroll_offset(offset);
    }
    let output = area.show_rows(ui, height, num_rows, |ui, seen| {
        for line in seen {
            let row = view.app.library.rows.shown.get(line).cloned();
            match row {
                Some(Row::Heading(text)) => heading_ui(ui, text),
                Some(Row::Model(at)) => {
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

/// Where the list has to be scrolled to, when the one that is looked at is out of sight.
fn offset_of_chosen(view: &mut View<'_>, room: f32) -> Option<f32> {
    let (library, panel) = (&view.app.library, &mut view.panels.library);
    if std::mem::replace(&mut panel.num_moves, library.num_moves) == library.num_moves {
        return None;
    }
    let line = library.rows.line_of(library.chosen.as_ref()?)?;
    let height = theme::MODEL_ROW_HEIGHT;
    let (top, bottom) = (line as f32 * height, (line + 1) as f32 * height);
    // With its heading, where that stands right above.
    let top = (top - height).max(0.0);
    if top < panel.scroll_offset {
        Some(top)
    } else if bottom > panel.scroll_offset + room {
        Some(bottom - room)
    } else {
        None
    }
}

fn empty_ui(ui: &mut Ui, view: &mut View<'_>) {
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
    if ui
        .button("Show all")
        .on_hover_text("Clear the search")
        .clicked()
    {
        view.push(LibraryCommand::Search(String::new()));
    }
}

fn heading_ui(ui: &mut Ui, text: &str) {
    let size = vec2(ui.available_width(), theme::MODEL_ROW_HEIGHT);
    let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
    let weak = palette(ui).weak;
    let below = Rect::from_min_max(pos2(rect.left(), rect.bottom() - 24.0), rect.max);
    ui.put(below, |ui: &mut Ui| {
        ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
            ui.label(RichText::new(text).small().color(weak))
        })
        .inner
    });
}

fn model_ui(ui: &mut Ui, view: &mut View<'_>, model: &Listed) {
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
    let text_at = |at, align, text: &str, colour| {
        ui.painter()
            .text(at, align, text, small.clone(), colour)
            .width()
    };
    let upper = inside.top() + 14.0;
    let lower = inside.bottom() - 14.0;
    let size_width = text_at(
        pos2(right, upper),
        Align2::RIGHT_CENTER,
        &model.size,
        palette.weak,
    );
    let (said, colour) = match model.ailment {
        Some(ModelProblem::Incomplete) => ("incomplete".to_owned(), palette.amber),
        Some(ModelProblem::Broken) => ("cannot be used".to_owned(), palette.error),
        Some(ModelProblem::Unsupported) => ("not supported".to_owned(), palette.weak),
        None => (fit.map_or_else(String::new, fit_text), fit_colour(ui, fit)),
    };
    let said_width = text_at(pos2(right, lower), Align2::RIGHT_CENTER, &said, colour);
    let is_favourite = view.app.library.remembered.favourites.contains(&model.id);
    let star = format!("{}  ", icons::STAR);
    let star = if is_favourite { star.as_str() } else { "" };
    let ink = match model.place {
        Place::Here(_) => palette.text,
        Place::Unusable(_) | Place::Known(_) => palette.weak,
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
    line(
        upper,
        &[(star, palette.amber), (&model.name, ink)],
        &body,
        size_width,
    );
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
