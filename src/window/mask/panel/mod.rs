//! The page on which a mask is painted: its tools above, the image below.
//!
//! Paints nothing itself: pointer and buttons become commands.

mod canvas;
mod extend;

use safelight_core::media::MaskBrush;

use crate::window::layout::prelude::*;
use crate::window::layout::view::MaskPanel;
use crate::window::mask::{MaskEditor, MaskTask};

/// Smallest and largest diameter, in pixels of the image.
const MIN_BRUSH: f32 = 1.0;
pub const MAX_BRUSH: f32 = 2000.0;
/// Maximum width of softened edges, in pixels of the image.
const MAX_SOFTEN: u32 = 200;
const USE: &str = "Use this mask";

impl MaskPanel {
    fn from_editor(editor: &MaskEditor) -> Self {
        let side = editor.size().max_elem();
        Self {
            number: editor.number,
            diameter: (side / 12.0).clamp(8.0, MAX_BRUSH / 4.0).round(),
            softness: 30.0,
            is_erasing: false,
            opacity: 0.55,
            soften_by: ((side / 100.0) as u32).clamp(2, MAX_SOFTEN),
            scale: None,
            offset: Vec2::ZERO,
            extend: Default::default(),
        }
    }

    /// A brush one step larger or smaller, with the same feeling at all sizes.
    fn resize_brush(&mut self, steps: f32) {
        let wanted = self.diameter * 1.15_f32.powf(steps);
        // Small brushes would stay where they are for ever.
        let least = if steps > 0.0 { 1.0 } else { -1.0 };
        let by = wanted - self.diameter;
        let by = if by.abs() < 1.0 { least } else { by };
        self.diameter = (self.diameter + by).round().clamp(MIN_BRUSH, MAX_BRUSH);
    }

    fn brush(&self, erases: bool) -> MaskBrush {
        MaskBrush {
            radius: self.diameter / 2.0,
            softness: self.softness / 100.0,
            erases,
        }
    }
}

pub(crate) fn mask_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let Some(editor) = &view.app.masking.editor else {
        none_ui(ui, view);
        return;
    };
    if view.panels.mask.number != editor.number {
        view.panels.mask = MaskPanel::from_editor(editor);
    }
    let frame = Frame::new().inner_margin(Margin {
        left: 16,
        right: 12,
        top: 12,
        bottom: 6,
    });
    frame.show(ui, |ui| {
        header_ui(ui, view, editor);
        ui.add_space(theme::SMALL_GAP);
        brush_ui(ui, &mut view.panels.mask);
        whole_ui(ui, view, editor);
        extend::extend_ui(ui, view, editor);
    });
    canvas::canvas_ui(ui, view, editor);
}

fn none_ui(ui: &mut Ui, view: &UiContext<'_>) {
    ui.centered_and_justified(|ui| {
        let text = if view.app.masking.is_opening() {
            "Opening the image…"
        } else {
            "Choose an image first, then paint a mask over it"
        };
        ui.weak(text);
    });
}

fn header_ui(ui: &mut Ui, view: &mut UiContext<'_>, editor: &MaskEditor) {
    ui.horizontal(|ui| {
        ui.label(RichText::new("Paint a mask").heading().strong());
        let size = editor.size();
        let text = format!("{}  ·  {} × {} pixels", editor.name(), size.x, size.y);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let explanation = "Back to the image. What you painted is kept and used";
            let button = icon_button(ui, icons::X, "Close the mask", explanation);
            view.on_click(&button, AppCommand::Show(MainPage::Watch));
            let is_idle = editor.busy.is_none();
            let use_it = Button::new(with_icon(icons::CHECK_CIRCLE, USE));
            if pressed(
                ui.add_enabled(is_idle, use_it),
                "Save it and regenerate the painted part. Generate does this by itself",
                USE,
            ) {
                view.push(MaskCommand::Use);
            }
            let discard = ui
                .add_enabled(is_idle, Button::new("Discard"))
                .on_hover_text("Discard your changes and keep the previous mask");
            view.on_click(&discard, MaskCommand::Discard);
            if let Some(task) = editor.busy {
                ui.label(match task {
                    MaskTask::Extending => "Extending…",
                    MaskTask::Softening => "Softening…",
                    MaskTask::Keeping => "Saving…",
                });
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                small_line(ui, text);
            });
        });
    });
}

fn brush_ui(ui: &mut Ui, panel: &mut MaskPanel) {
    ui.horizontal_wrapped(|ui| {
        let explanation = "The painted part is regenerated";
        if choice(ui, !panel.is_erasing, "Paint", explanation).clicked() {
            panel.is_erasing = false;
        }
        let explanation = "The erased part stays as it is. The right mouse button erases too (E)";
        if choice(ui, panel.is_erasing, "Erase", explanation).clicked() {
            panel.is_erasing = true;
        }
        ui.separator();
        let slider = Slider::new(&mut panel.diameter, MIN_BRUSH..=MAX_BRUSH)
            .logarithmic(true)
            .fixed_decimals(0)
            .suffix(" px");
        let explanation = "Diameter of the brush in pixels of the image ([ and ], or the wheel)";
        named_slider(ui, "Brush size", slider, explanation);
        let slider = Slider::new(&mut panel.softness, 0.0..=100.0)
            .fixed_decimals(0)
            .suffix(" %");
        let explanation = "How much of the brush fades towards its edge. 0 % is hard";
        named_slider(ui, "Soft edge", slider, explanation);
        let slider = Slider::new(&mut panel.opacity, 0.1..=1.0)
            .custom_formatter(|share, _| format!("{:.0}", share * 100.0))
            .custom_parser(|text| text.trim().parse::<f64>().ok().map(|it| it / 100.0))
            .suffix(" %");
        let explanation = "How strongly the colour covers the image. The mask itself does not \
                          change";
        named_slider(ui, "Overlay", slider, explanation);
    });
}

fn named_slider(ui: &mut Ui, name: &str, slider: Slider<'_>, explanation: &str) {
    // Of a known size, so that a narrow window puts it into the next line whole.
    let size = egui::vec2(theme::TOOL_WIDTH, ui.spacing().interact_size.y);
    ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
        let label = ui.weak(name).on_hover_text(explanation);
        ui.spacing_mut().slider_width = theme::TOOL_SLIDER_WIDTH;
        ui.add(slider)
            .labelled_by(label.id)
            .on_hover_text(explanation);
    });
}

fn whole_ui(ui: &mut Ui, view: &mut UiContext<'_>, editor: &MaskEditor) {
    let soften = MaskCommand::Soften(view.panels.mask.soften_by);
    ui.horizontal_wrapped(|ui| {
        let is_idle = editor.busy.is_none();
        let mut tool = |ui: &mut Ui, is_enabled, text: &str, explanation: &str, command| {
            let button = ui.add_enabled(is_enabled && is_idle, Button::new(text));
            let button = button.on_hover_text(explanation);
            view.on_click(&button.on_disabled_hover_text(explanation), command);
        };
        let (undo, redo) = (editor.painted.can_undo, editor.painted.can_redo);
        let hover = "Undo the last step (Ctrl+Z)";
        tool(ui, undo, "Undo", hover, MaskCommand::Undo);
        let hover = "Redo the step (Ctrl+Shift+Z)";
        tool(ui, redo, "Redo", hover, MaskCommand::Redo);
        ui.separator();
        let hover = "Paint the whole image";
        tool(ui, true, "Fill", hover, MaskCommand::Fill);
        tool(ui, true, "Clear", "Erase everything", MaskCommand::Clear);
        let hover = "Paint what is not painted, and erase what is";
        tool(ui, true, "Invert", hover, MaskCommand::Invert);
        ui.separator();
        let hover = "Soften all edges of the mask by this many pixels to each side";
        tool(ui, true, "Feather", hover, soften);
        ui.add(
            egui::DragValue::new(&mut view.panels.mask.soften_by)
                .range(1..=MAX_SOFTEN)
                .suffix(" px"),
        )
        .on_hover_text("How far Feather softens")
        .accessible_name("Feather by");
        ui.separator();
        look_ui(ui, &mut view.panels.mask);
    });
}

fn look_ui(ui: &mut Ui, panel: &mut MaskPanel) {
    if choice(ui, panel.scale.is_none(), "Fit", "Show the whole image").clicked() {
        panel.scale = None;
        panel.offset = Vec2::ZERO;
    }
    let dots = ui.ctx().pixels_per_point();
    let is_true = panel.scale == Some(1.0 / dots);
    let hover = "One pixel of the image for each pixel of the screen. Ctrl and the wheel zoom, \
                the middle button moves";
    if choice(ui, is_true, "100 %", hover).clicked() {
        panel.scale = Some(1.0 / dots);
    }
}
