//! What the rows of the queue are drawn with: picture, words, the place for buttons, and the facts on hover.

use std::borrow::Cow;

use egui::{
    Align, Color32, CornerRadius, Label, Layout, Rect, Response, RichText, Sense, Stroke,
    StrokeKind, Ui, UiBuilder, pos2, vec2,
};
use safelight_core::job::{GridId, JobId, JobRequest};
use safelight_core::units::seconds_text;

use crate::app::thumbs::Pictured;
use crate::ui::widgets::{palette, text_at, texture_ui};
use crate::ui::{View, icons, theme};

/// The longer side of a row's picture, sharp on a screen of double density.
const THUMB_PX: u32 = 112;

/// What stands in a row's second line.
pub(super) struct Line {
    pub text: String,
    pub colour: Color32,
}

pub(super) fn row_id(id: JobId) -> egui::Id {
    egui::Id::unique(("queued-job", id.0))
}

/// The row's id goes by its job, so that the focus moves with it.
pub(super) fn row_rect(ui: &mut Ui, id: JobId) -> (Rect, Response) {
    let rect = whole_row(ui);
    (rect, ui.interact(rect, row_id(id), Sense::click_and_drag()))
}

/// The same of all jobs of a grid.
pub(super) fn grid_row_rect(ui: &mut Ui, id: GridId) -> (Rect, Response) {
    let rect = whole_row(ui);
    let id = egui::Id::unique(("queued-grid", id.0));
    (rect, ui.interact(rect, id, Sense::click()))
}

fn whole_row(ui: &mut Ui) -> Rect {
    let size = vec2(ui.available_width(), theme::QUEUE_ROW);
    ui.allocate_space(size).1
}

pub(super) fn thumb_rect(row: Rect) -> Rect {
    let margin = (theme::QUEUE_ROW - theme::QUEUE_THUMB.y) / 2.0;
    Rect::from_min_size(row.min + vec2(margin, margin), theme::QUEUE_THUMB)
}

pub(super) fn background(ui: &Ui, rect: Rect, edge: Option<Color32>, fill: Color32) {
    let radius = CornerRadius::same(theme::RADIUS);
    ui.painter().rect_filled(rect, radius, fill);
    if let Some(colour) = edge {
        let stroke = Stroke::new(1.0, colour);
        ui.painter()
            .rect_stroke(rect, radius, stroke, StrokeKind::Inside);
    }
}

/// The start picture, else the sign of what the model makes.
pub(super) fn thumb_ui(ui: &Ui, view: &View<'_>, request: &JobRequest, rect: Rect) {
    let palette = palette(ui);
    let pictured = request.picture().map(|path| Pictured::Input(path.clone()));
    let shown = pictured.and_then(|pictured| view.app.cx.thumbs.get(pictured, THUMB_PX));
    if let Some(Ok(texture)) = shown {
        texture_ui(ui, texture, rect, f32::INFINITY);
        return;
    }
    ui.painter()
        .rect_filled(rect, CornerRadius::same(4), palette.stage);
    let icon = if request.num_frames() > 1 {
        icons::FILM
    } else {
        icons::IMAGE
    };
    sign_ui(ui, rect, icon);
}

/// A sign in the place of a picture.
pub(super) fn sign_ui(ui: &Ui, rect: Rect, icon: char) {
    let palette = palette(ui);
    ui.painter()
        .rect_filled(rect, CornerRadius::same(4), palette.stage);
    text_at(ui, rect.center(), icon, theme::QUEUE_SIGN, palette.weak);
}

/// The prompt, and a line below it; `room` is kept free at the right.
pub(super) fn words_ui(ui: &mut Ui, row: Rect, prompt: &str, line: Line, room: f32) {
    let left = thumb_rect(row).right() + 8.0;
    let rect = Rect::from_min_max(
        pos2(left, row.top() + 9.0),
        pos2(row.right() - room - 4.0, row.bottom()),
    );
    let builder = UiBuilder::new()
        .max_rect(rect)
        .layout(Layout::top_down(Align::LEFT));
    let mut ui = ui.new_child(builder);
    ui.spacing_mut().item_spacing.y = 2.0;
    let first_line = prompt.lines().next().unwrap_or_default();
    ui.add(Label::new(RichText::new(first_line).strong()).truncate());
    let text = RichText::new(line.text).small().color(line.colour);
    ui.add(Label::new(text).truncate());
}

/// At the right of the row. Their ids go by the number of the job or grid, so that an open menu stays with it.
pub(super) fn buttons_ui(ui: &mut Ui, row: Rect, number: u64, contents: impl FnOnce(&mut Ui)) {
    let builder = UiBuilder::new()
        .max_rect(row.shrink2(vec2(4.0, 8.0)))
        .id_salt(number)
        .layout(Layout::right_to_left(Align::Center));
    let mut ui = ui.new_child(builder);
    ui.spacing_mut().button_padding.x = theme::ICON_PADDING;
    ui.spacing_mut().item_spacing.x = 2.0;
    contents(&mut ui);
}

/// `Little World · 256×256 · 2.1 s`.
pub(super) fn short_facts(view: &View<'_>, request: &JobRequest) -> String {
    let length = match request.num_frames() {
        0 | 1 => pictures_text(request.batch_size()),
        frames => seconds_text(f64::from(frames) / request.fps().max(f64::EPSILON)),
    };
    let (model, (width, height)) = (model_name(view, request), request.size());
    format!("{model} · {width}×{height} · {length}")
}

/// Output of an image job.
fn pictures_text(count: u32) -> String {
    match count {
        0 | 1 => "picture".to_owned(),
        count => format!("{count} pictures"),
    }
}

fn model_name<'a>(view: &'a View<'_>, request: &'a JobRequest) -> Cow<'a, str> {
    let model = request.model();
    let mut specs = view.app.cx.models.all().iter();
    let spec = specs.find(|spec| spec.id == *model);
    spec.map_or(model, |spec| Cow::Borrowed(spec.name.as_str()))
}

pub(super) fn facts_ui(
    ui: &mut Ui,
    view: &View<'_>,
    request: &JobRequest,
    missing: &[std::path::PathBuf],
) {
    ui.set_max_width(theme::CARD_WIDTH);
    ui.label(request.title());
    let short = short_facts(view, request);
    ui.label(match request.generate() {
        Some(request) => facts_text(&short, request.seed, request.sampling.num_steps),
        None => short,
    });
    for path in missing {
        let amber = palette(ui).amber;
        let text = format!("This file is missing: {}", path.display());
        ui.label(RichText::new(text).color(amber));
    }
}

fn facts_text(short: &str, seed: u64, num_steps: u32) -> String {
    match num_steps {
        1 => format!("{short} · seed {seed} · 1 step"),
        steps => format!("{short} · seed {seed} · {steps} steps"),
    }
}
