//! The form at the left: model, prompt, pictures, size and everything else that a job is made of.

pub(super) mod above;
pub(super) mod advanced;
mod grid;
mod guidance;
mod guider;
pub(super) mod loras;
mod model;
mod parameters;
pub(super) mod pictures;
pub(super) mod presets;
pub(super) mod prompt;
mod second_pass;
mod seed;

use egui::{Frame, Margin, Panel, ScrollArea, Ui};

use crate::app::App;
use crate::app::inputs::Sources;
use crate::ui::header::header_ui;
use crate::ui::{View, queue, theme};

const RUN_TO: &str = "to";

pub(super) fn create_ui(ui: &mut Ui, view: &mut View<'_>) {
    let margin = Margin {
        right: theme::FORM_MARGIN,
        ..Margin::ZERO
    };
    Frame::new()
        .inner_margin(margin)
        .show(ui, |ui| header_ui(ui, view));
    ui.add_space(theme::SMALL_GAP);
    Panel::bottom("go")
        .frame(Frame::new().inner_margin(Margin { top: 6, ..margin }))
        .resizable(false)
        .show_separator_line(false)
        .show(ui, |ui| queue::go_ui(ui, view));
    ScrollArea::vertical()
        .auto_shrink([false, false])
        .show(ui, |ui| {
            Frame::new().inner_margin(margin).show(ui, |ui| {
                model::model_ui(ui, view);
                ui.add_space(theme::GAP);
                prompt::prompt_ui(ui, view);
                ui.add_space(theme::GAP);
                pictures::inputs_ui(ui, view);
                loras::loras_ui(ui, view);
                parameters::parameters_ui(ui, view);
                ui.add_space(theme::SMALL_GAP);
            });
        });
}

/// What the chosen model is given of the pictures in the form.
fn sources<'a>(view: &View<'a>) -> Sources<'a> {
    let app: &'a App = view.app;
    match view.model() {
        Some(spec) => app.inputs.sources_for(view.form, spec),
        None => app.inputs.sources(),
    }
}

/// Frame rate, rounded to two decimals.
fn rate(fps: f64) -> f64 {
    (fps * 100.0).round() / 100.0
}

/// Chooses between the sentence for image models and that for video models.
fn image_or_video<'a>(makes_pictures: bool, picture: &'a str, clip: &'a str) -> &'a str {
    if makes_pictures { picture } else { clip }
}
