//! Rows of a form: label, control, reset button and the notes below.

use std::sync::Arc;

use egui::{
    Align, Align2, Button, Color32, ComboBox, DragValue, Galley, Label, Layout, Pos2, Rect,
    Response, RichText, Role, Sense, Slider, TextStyle, Ui, Vec2, Widget, WidgetInfo, pos2, vec2,
};

use crate::window::notices::sentence;
use crate::window::widgets::icons;
use crate::window::widgets::theme::{self, ThemeColors};
use crate::window::widgets::{list_icon, palette, sign};

pub const RUN_TO: &str = "to";

/// Label of fixed width, followed by the controls; returns the label's id for `labelled_by`.
pub fn row<R>(
    ui: &mut Ui,
    label: &str,
    hover: &str,
    contents: impl FnOnce(&mut Ui, egui::Id) -> R,
) -> R {
    label_row(ui, label, hover, None, contents).1
}

/// Like `row`, with room for a reset button: whether it is shown, the field's name and its default. The first result
/// is whether it was pressed.
fn label_row<R>(
    ui: &mut Ui,
    label: &str,
    hover: &str,
    own: Option<(bool, &str, &str)>,
    contents: impl FnOnce(&mut Ui, egui::Id) -> R,
) -> (bool, R) {
    ui.horizontal(|ui| {
        // With the gap before the controls, which a reset button may take.
        let gap = std::mem::take(&mut ui.spacing_mut().item_spacing.x);
        let width = theme::LABEL_WIDTH + gap;
        let size = vec2(width, ui.spacing().interact_size.y);
        let label = ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
            ui.set_min_width(width);
            let Some((is_changed, name, value)) = own else {
                return (group_label(ui, label, hover), false);
            };
            ui.set_max_width(width);
            // A long one is small, so that the button next to it fits and all controls begin at one edge.
            let font = egui::TextStyle::Body.resolve(ui.style());
            let text = ui
                .painter()
                .layout_no_wrap(label.to_owned(), font, palette(ui).weak);
            let room = width - theme::SMALL_ICON - 2.0;
            let is_long = text.size().x > room;
            let text = RichText::new(label);
            let text = if is_long { text.small() } else { text };
            let label = group_label(ui, text, hover);
            let to_left = Layout::right_to_left(Align::Center);
            let reset = ui.with_layout(to_left, |ui| is_changed && reset_button(ui, name, value));
            (label, reset.inner)
        });
        ui.spacing_mut().item_spacing.x = gap;
        let (label, is_reset) = label.inner;
        (is_reset, contents(ui, label.id))
    })
    .inner
}

/// Like [`row`], for a value that a small button next to the label sets to its default. Returns whether it was pressed.
///
/// `name` is for screen readers, after "Reset"; `words` is the default.
pub fn own_row<T: PartialEq>(
    ui: &mut Ui,
    (label, name, hover): (&str, &str, &str),
    value: &mut T,
    (default, words): (T, impl Into<String>),
    contents: impl FnOnce(&mut Ui, egui::Id, &mut T),
) -> bool {
    let words = words.into();
    let own = (*value != default, name, words.as_str());
    let contents = |ui: &mut Ui, id| contents(ui, id, value);
    let is_reset = label_row(ui, label, hover, Some(own), contents).0;
    if is_reset {
        *value = default;
    }
    is_reset
}

/// Like [`own_row`], for a value with a default by the model: `contents` changes the shown value, which applies until
/// it is reset.
pub fn default_row<T: Clone + PartialEq>(
    ui: &mut Ui,
    names: (&str, &str, &str),
    value: &mut Option<T>,
    (default, words): (T, impl Into<String>),
    contents: impl FnOnce(&mut Ui, egui::Id, &mut T),
) {
    let mut shown = value.clone().unwrap_or_else(|| default.clone());
    let before = shown.clone();
    if own_row(ui, names, &mut shown, (default, words), contents) {
        *value = None;
    } else if shown != before {
        *value = Some(shown);
    }
}

/// A quiet button that puts a field back to a value.
pub fn reset_button(ui: &mut Ui, name: &str, value: &str) -> bool {
    let icon = RichText::new(icons::RESET)
        .size(theme::SMALL_ICON)
        .color(palette(ui).weak);
    ui.scope(|ui| {
        ui.spacing_mut().button_padding.x = 1.0;
        ui.add(Button::new(icon).frame_when_inactive(false))
            .on_hover_text(format!("Back to {value}"))
            .accessible_name(format!("Reset {name}"))
            .clicked()
    })
    .inner
}

pub fn group_label(ui: &mut Ui, text: impl Into<RichText>, hover: &str) -> Response {
    ui.weak(text.into()).on_hover_text(hover)
}

/// Kind of a note. A coloured sign says it; the words themselves stay plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteTone {
    Hint,
    Plain,
    Good,
    Warning,
    Error,
}

impl NoteTone {
    pub fn colour(self, palette: &ThemeColors) -> Color32 {
        match self {
            Self::Hint => palette.weak,
            Self::Plain => palette.text,
            Self::Good => palette.good,
            Self::Warning => palette.amber,
            Self::Error => palette.error,
        }
    }

    pub fn icon(self) -> Option<char> {
        match self {
            Self::Hint | Self::Plain => None,
            Self::Good => Some(icons::CHECK_CIRCLE),
            Self::Warning => Some(icons::WARNING),
            Self::Error => Some(icons::X_CIRCLE),
        }
    }
}

pub fn field_error(ui: &mut Ui, message: &str) {
    below_field(ui, message, NoteTone::Error);
}

/// Deviation from a field, or a missing requirement.
pub fn field_note(ui: &mut Ui, message: &str) {
    below_field(ui, message, NoteTone::Warning);
}

pub fn field_hint(ui: &mut Ui, message: &str) {
    below_field(ui, message, NoteTone::Hint);
}

fn below_field(ui: &mut Ui, message: &str, tone: NoteTone) {
    let indent = theme::LABEL_WIDTH + ui.spacing().item_spacing.x;
    note_ui(ui, indent, message, tone);
}

/// As [`field_error`] and [`field_note`], over the whole width.
pub fn wide_note(ui: &mut Ui, message: &str, tone: NoteTone) -> Response {
    note_ui(ui, 0.0, message, tone)
}

fn note_ui(ui: &mut Ui, indent: f32, message: &str, tone: NoteTone) -> Response {
    let palette = palette(ui);
    ui.scope(|ui| {
        // As low as its words.
        ui.spacing_mut().interact_size.y = 0.0;
        ui.horizontal_top(|ui| {
            ui.add_space(indent);
            ui.spacing_mut().item_spacing.x = theme::SMALL_GAP;
            let mut colour = tone.colour(palette);
            if let Some(icon) = tone.icon() {
                sign(ui, icon, theme::SMALL_TEXT, colour);
                colour = palette.text;
            }
            ui.add(Label::new(RichText::new(sentence(message)).small().color(colour)).wrap())
        })
        .inner
    })
    .inner
}

/// A state in a few words on a pill, with a dot in the colour of its kind.
pub fn state_chip(ui: &mut Ui, text: &str, tone: NoteTone) -> Response {
    let galley = chip_text(ui, text);
    let (rect, response) = ui.allocate_exact_size(chip_size(&galley), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, text));
    paint_chip(ui, rect, galley, tone);
    response
}

/// As [`state_chip`], painted left of a point; returns its width.
pub fn chip_left_of(ui: &Ui, end: Pos2, text: &str, tone: NoteTone) -> f32 {
    if text.is_empty() {
        return 0.0;
    }
    let galley = chip_text(ui, text);
    let rect = Align2::RIGHT_CENTER.anchor_size(end, chip_size(&galley));
    paint_chip(ui, rect, galley, tone);
    rect.width()
}

fn chip_text(ui: &Ui, text: &str) -> Arc<Galley> {
    let font = TextStyle::Small.resolve(ui.style());
    ui.painter()
        .layout_no_wrap(text.to_owned(), font, palette(ui).text)
}

/// With a dot and margins.
fn chip_size(text: &Galley) -> Vec2 {
    text.size() + vec2(theme::CHIP_DOT + 3.0 * theme::SMALL_GAP, 4.0)
}

fn paint_chip(ui: &Ui, rect: Rect, text: Arc<Galley>, tone: NoteTone) {
    let palette = palette(ui);
    let painter = ui.painter();
    painter.rect_filled(rect, rect.height() / 2.0, palette.field);
    let dot = rect.left_center() + vec2(theme::SMALL_GAP + theme::CHIP_DOT / 2.0, 0.0);
    painter.circle_filled(dot, theme::CHIP_DOT / 2.0, tone.colour(palette));
    let left = dot.x + theme::CHIP_DOT / 2.0 + theme::SMALL_GAP;
    let at = pos2(left, rect.center().y - text.size().y / 2.0);
    painter.galley(at, text, palette.text);
}

/// So wide, or as wide as there is room for.
pub fn field_width(ui: &Ui, wanted: f32) -> f32 {
    wanted
        .min(ui.available_width() - 2.0 * ui.spacing().button_padding.x)
        .max(theme::LABEL_WIDTH)
}

/// A button of a group of which one may be chosen.
pub fn choice(ui: &mut Ui, is_chosen: bool, text: &str, hover: &str) -> Response {
    ui.add(Button::selectable(is_chosen, text).frame_when_inactive(true))
        .on_hover_text(hover)
        .accessible_name(text)
}

/// Slider over the rest of the row, followed by its value. All of them end at one edge.
pub fn wide_slider(ui: &mut Ui, slider: Slider<'_>, hover: &str) -> Response {
    let width = ui.available_width() - theme::VALUE_WIDTH - ui.spacing().item_spacing.x;
    ui.spacing_mut().slider_width = width.max(theme::VALUE_WIDTH);
    ui.spacing_mut().interact_size.x = theme::VALUE_WIDTH;
    number_ui(ui, slider).on_hover_text(hover)
}

/// A slider or a number. Numbers look like fields for text, and the handles of sliders are quiet.
pub fn number_ui(ui: &mut Ui, widget: impl Widget) -> Response {
    let palette = palette(ui);
    ui.scope(|ui| {
        let visuals = ui.visuals_mut();
        visuals.override_text_color = Some(palette.text);
        visuals.selection.bg_fill = palette.accent;
        let widgets = &mut visuals.widgets;
        for state in [
            &mut widgets.inactive,
            &mut widgets.hovered,
            &mut widgets.active,
        ] {
            state.weak_bg_fill = palette.field;
            state.corner_radius = theme::NUMBER_RADIUS.into();
        }
        widgets.inactive.fg_stroke.color = palette.weak;
        ui.add(widget)
    })
    .inner
}

pub fn number(ui: &mut Ui, width: f32, value: DragValue<'_>) -> Response {
    let size = vec2(width, ui.spacing().interact_size.y);
    number_ui(ui, |ui: &mut Ui| ui.add_sized(size, value))
}

/// A list to choose from, as wide as there is room: what is too long for that ends in dots.
/// Shows the longest list, of samplers, without scrolling.
const LIST_HEIGHT: f32 = 480.0;

pub fn list_box(ui: &Ui, id: &str, selected: &str) -> ComboBox<'static> {
    ComboBox::from_id_salt(id)
        .height(LIST_HEIGHT)
        .selected_text(selected.to_owned())
        .truncate()
        .width(ui.available_width())
        .icon(list_icon)
}

pub fn choice_list<T: PartialEq>(
    ui: &mut Ui,
    id: &str,
    value: &mut T,
    choices: impl IntoIterator<Item = (T, &'static str)>,
) -> Response {
    let choices: Vec<_> = choices.into_iter().collect();
    let known = choices.iter().find(|(choice, _)| choice == value);
    let list = list_box(ui, id, known.map_or("", |(_, name)| name));
    choose_from(list, ui, value, choices.into_iter().map(unexplained))
}

pub fn unexplained<T, N>((choice, name): (T, N)) -> (T, N, &'static str) {
    (choice, name, "")
}

/// A list of choices, each with its name and an explanation, which may be empty.
pub fn choose_from<'a, T: PartialEq>(
    list: ComboBox<'_>,
    ui: &mut Ui,
    value: &mut T,
    choices: impl IntoIterator<Item = (T, impl Into<String>, &'a str)>,
) -> Response {
    let shown = list.show_ui(ui, |ui| {
        for (choice, name, hover) in choices {
            let entry = ui.selectable_value(value, choice, name.into());
            if !hover.is_empty() {
                entry.on_hover_text(hover);
            }
        }
    });
    shown.response
}

pub fn rate(fps: f64) -> f64 {
    (fps * 100.0).round() / 100.0
}

/// Two numbers with a word between them; `names` are for screen readers.
pub fn number_pair(
    ui: &mut Ui,
    word: &str,
    names: [&str; 2],
    hovers: [&str; 2],
    values: [DragValue<'_>; 2],
) {
    let font = egui::TextStyle::Body.resolve(ui.style());
    let colour = ui.visuals().text_color();
    let text = ui.painter().layout_no_wrap(word.to_owned(), font, colour);
    let gaps = 2.0 * ui.spacing().item_spacing.x;
    let width = ((ui.available_width() - text.size().x - gaps) / 2.0).floor();
    let [first, second] = values;
    number(ui, width, first)
        .on_hover_text(hovers[0])
        .accessible_name(names[0]);
    ui.label(word);
    number(ui, ui.available_width(), second)
        .on_hover_text(hovers[1])
        .accessible_name(names[1]);
}

/// Typed number without a range: "nan" and "inf" are refused.
pub fn typed_number(text: &str) -> Option<f64> {
    let number: f64 = text.trim().replace('\u{2212}', "-").parse().ok()?;
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_numbers_must_be_finite_and_may_use_a_unicode_minus() {
        assert_eq!(typed_number(" \u{2212}1.5 "), Some(-1.5));
        assert_eq!(["nan", "inf", "1e999"].map(typed_number), [None; 3]);
    }

    #[test]
    fn a_message_begins_with_a_capital() {
        assert_eq!(sentence("expected a width"), "Expected a width");
        assert_eq!(sentence(""), "");
    }
}
