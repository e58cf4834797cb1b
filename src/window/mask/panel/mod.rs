//! The page on which a mask is painted: its tools above, the image below.
//!
//! Paints nothing itself: pointer and buttons become commands.

mod canvas;
mod extend;

use egui::style::StyleModifier;
use egui::{Popup, PopupCloseBehavior};
use safelight_core::media::{MaskBrush, MaskFilter};

use crate::window::layout::prelude::*;
use crate::window::layout::view::MaskPanel;
use crate::window::mask::{MaskEditor, MaskTask};

/// Smallest and largest diameter, in pixels of the image.
const MIN_BRUSH: f32 = 1.0;
pub const MAX_BRUSH: f32 = 2000.0;
/// Maximum distance of growing and softening, in pixels of the image.
const MAX_SOFTEN: u32 = 200;
/// Distance of the overlay's colour from the image's, in steps of 8-bit RGB.
const MIN_DIFFERENCE: u32 = 130;
const USE: &str = "Use this mask";
const ERASE_HOVER: &str = "Erase with the chosen tool: what is erased stays as it is (E). The right mouse button erases too";
const INVERT_HOVER: &str = "Paint what is not painted, and erase what is (Ctrl+I)";
const TOOLS: [(MaskTool, char, &str, &str); 3] = [
    (
        MaskTool::Brush,
        icons::BRUSH,
        "Brush",
        "Paint what is regenerated (B)",
    ),
    (
        MaskTool::Rectangle,
        icons::SELECTION,
        "Rectangle",
        "Drag a rectangle over what is regenerated (R)",
    ),
    (
        MaskTool::Lasso,
        icons::LASSO,
        "Lasso",
        "Draw an outline around what is regenerated (L)",
    ),
];

impl MaskPanel {
    fn from_editor(editor: &MaskEditor, colour: Option<usize>) -> Self {
        let side = editor.size().max_elem();
        Self {
            number: editor.number,
            diameter: (side / 12.0).clamp(8.0, MAX_BRUSH / 4.0).round(),
            softness: 30.0,
            opacity: 0.55,
            colour,
            grow_by: ((side / 200.0) as u32).clamp(2, MAX_SOFTEN),
            soften_by: ((side / 100.0) as u32).clamp(2, MAX_SOFTEN),
            ..Self::default()
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

    /// Index of the overlay's colour: the chosen one, or the first that differs from an image's mean colour.
    fn colour_of(&self, mean_rgb: [u8; 3]) -> usize {
        let is_other = |(colour, _): &(Color32, &str)| {
            let pairs = colour.to_array().into_iter().zip(mean_rgb);
            let squares = pairs.map(|(a, b)| u32::from(a.abs_diff(b)).pow(2));
            squares.sum::<u32>() > MIN_DIFFERENCE.pow(2)
        };
        let first = || theme::MASK_COLOURS.iter().position(is_other);
        self.colour.or_else(first).unwrap_or(0)
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
        view.panels.mask = MaskPanel::from_editor(editor, view.panels.mask.colour);
    }
    view.panels.mask.follow_margins(editor);
    // Before Escape closes a popover.
    let is_uncovered = !view.app.palette.is_covered(ui.ctx());
    let frame = Frame::new().inner_margin(theme::margin([16, 12], [12, 6]));
    frame.show(ui, |ui| {
        header_ui(ui, view, editor);
        ui.add_space(theme::SMALL_GAP);
        tools_ui(ui, view, editor);
    });
    canvas::canvas_ui(ui, view, editor, is_uncovered);
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
            let hover = "Back to the image. What you painted is kept and used";
            let button = icon_button(ui, icons::X, "Close the mask", hover);
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
                    MaskTask::Filtering => "Changing the mask…",
                    MaskTask::Keeping => "Saving…",
                });
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                small_line(ui, text);
            });
        });
    });
}

/// All tools in one row. What is needed less often unfolds at its right end.
fn tools_ui(ui: &mut Ui, view: &mut UiContext<'_>, editor: &MaskEditor) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = theme::SMALL_GAP;
        ui.spacing_mut().button_padding.x = theme::SMALL_GAP;
        let panel = &mut view.panels.mask;
        for (tool, icon, name, hover) in TOOLS {
            if icon_toggle(ui, panel.tool == tool, icon, name, hover).clicked() {
                panel.tool = tool;
            }
        }
        let is_erasing = panel.is_erasing;
        if icon_toggle(ui, is_erasing, icons::ERASER, "Erase", ERASE_HOVER).clicked() {
            panel.is_erasing ^= true;
        }
        ui.separator();
        let size = DragValue::new(&mut panel.diameter)
            .range(MIN_BRUSH..=MAX_BRUSH)
            .max_decimals(0)
            .suffix(" px");
        let hover = "Diameter of the brush in pixels of the image ([ and ], or the wheel)";
        named_number(ui, "Size", "Brush size", hover, size);
        let softness = DragValue::new(&mut panel.softness)
            .range(0.0..=100.0)
            .max_decimals(0)
            .suffix(" %");
        let hover = "How much of the brush fades towards its edge. 0 % is hard";
        named_number(ui, "Soft edge", "Soft edge", hover, softness);
        ui.separator();
        let (undo, redo) = (editor.painted.can_undo, editor.painted.can_redo);
        for (is_possible, icon, name, hover, command) in [
            (
                undo,
                icons::RESET,
                "Undo",
                "Undo the last step (Ctrl+Z)",
                MaskCommand::Undo,
            ),
            (
                redo,
                icons::REDO,
                "Redo",
                "Redo the step (Ctrl+Shift+Z)",
                MaskCommand::Redo,
            ),
        ] {
            let button =
                Button::new(RichText::new(icon).size(theme::ICON)).frame_when_inactive(false);
            let button = ui.add_enabled(is_possible && editor.busy.is_none(), button);
            let button = button.on_hover_text(hover).accessible_name(name);
            view.on_click(&button.on_disabled_hover_text(hover), command);
        }
        ui.separator();
        let hover = "Fill, clear, invert, grow, shrink or feather the mask; its colour";
        let adjust = hint_button(ui, "Adjust", hover);
        popover(&adjust, "Adjust", |ui| adjust_ui(ui, view, editor));
        if editor.can_extend {
            let extend = hint_button(ui, "Extend", extend::EXTEND_HOVER);
            popover(&extend, "Extend", |ui| extend::extend_ui(ui, view, editor));
        }
        look_ui(ui, &mut view.panels.mask);
    });
}

/// Popover below a button; a click outside closes it.
fn popover(button: &Response, name: &str, contents: impl FnOnce(&mut Ui)) {
    Popup::menu(button)
        .close_behavior(PopupCloseBehavior::CloseOnClickOutside)
        // Buttons and fields with their frames, unlike the entries of a menu.
        .style(StyleModifier::default())
        .width(theme::MENU_WIDTH)
        .accessible_name(name)
        .show(|ui| {
            ui.set_width(theme::MENU_WIDTH);
            contents(ui);
        });
}

pub(super) fn field_number(ui: &mut Ui, name: &str, hover: &str, value: DragValue<'_>) {
    number(ui, theme::VALUE_WIDTH, value)
        .on_hover_text(hover)
        .accessible_name(name);
}

/// A number after its label.
fn named_number(ui: &mut Ui, label: &str, name: &str, hover: &str, value: DragValue<'_>) {
    // Of a known size, so that a narrow window puts both into the next line.
    let font = TextStyle::Body.resolve(ui.style());
    let colour = palette(ui).weak;
    let text = ui.painter().layout_no_wrap(label.to_owned(), font, colour);
    let height = ui.spacing().interact_size.y;
    let size = vec2(
        text.size().x + theme::SMALL_GAP + theme::VALUE_WIDTH,
        height,
    );
    ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
        ui.weak(label).on_hover_text(hover);
        field_number(ui, name, hover, value);
    });
}

fn adjust_ui(ui: &mut Ui, view: &mut UiContext<'_>, editor: &MaskEditor) {
    let is_idle = editor.busy.is_none();
    let by = |value| DragValue::new(value).range(1..=MAX_SOFTEN).suffix(" px");
    ui.horizontal(|ui| {
        for (name, hover, command) in [
            ("Fill", "Paint the whole image", MaskCommand::Fill),
            ("Clear", "Erase everything", MaskCommand::Clear),
            ("Invert", INVERT_HOVER, MaskCommand::Invert),
        ] {
            let button = ui.add_enabled(is_idle, Button::new(name));
            view.on_click(&button.on_hover_text(hover), command);
        }
    });
    let panel = &mut view.panels.mask;
    let (grow, soften) = (panel.grow_by, panel.soften_by);
    let grows = [
        (
            "Grow",
            "Extend all edges of the mask",
            MaskFilter::Grow(grow),
        ),
        (
            "Shrink",
            "Draw all edges of the mask in",
            MaskFilter::Shrink(grow),
        ),
    ];
    let hover = "Soften all edges of the mask by this many pixels to each side";
    let feather = [("Feather", hover, MaskFilter::Feather(soften))];
    let mut filters = Vec::new();
    for (name, value, buttons) in [
        ("Grow by", &mut panel.grow_by, grows.as_slice()),
        ("Feather by", &mut panel.soften_by, &feather),
    ] {
        ui.horizontal(|ui| {
            for (name, hover, filter) in buttons {
                let button = ui.add_enabled(is_idle, Button::new(*name));
                if button.on_hover_text(*hover).clicked() {
                    filters.push(MaskCommand::Filter(*filter));
                }
            }
            named_number(ui, "by", name, "Pixels of the image", by(value));
        });
    }
    ui.separator();
    ui.horizontal(|ui| {
        ui.weak("Overlay");
        let chosen = panel.colour_of(editor.mean_rgb);
        for (index, (colour, name)) in theme::MASK_COLOURS.into_iter().enumerate() {
            let side = ui.spacing().interact_size.y - 2.0 * theme::ICON_PADDING;
            let button = Button::new("").fill(colour).min_size(Vec2::splat(side));
            let line = Stroke::new(2.0, palette(ui).text);
            let button = if index == chosen {
                button.stroke(line)
            } else {
                button
            };
            if pressed(ui.add(button), name, format!("{name} overlay")) {
                panel.colour = Some(index);
            }
        }
    });
    let strength = Slider::new(&mut panel.opacity, 0.1..=1.0)
        .custom_formatter(|share, _| format!("{:.0}", share * 100.0))
        .custom_parser(|text| text.trim().parse::<f64>().ok().map(|it| it / 100.0))
        .suffix(" %");
    let hover = "How strongly the colour covers the image. The mask itself does not change";
    ui.horizontal(|ui| {
        wide_slider(ui, strength, hover).accessible_name("Overlay strength");
    });
    for filter in filters {
        view.push(filter);
    }
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
