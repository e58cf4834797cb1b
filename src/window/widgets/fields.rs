//! Rows of a form: label, control, reset button and the notes below.

use egui::{
    Align, Button, Color32, ComboBox, DragValue, Label, Layout, Response, RichText, Slider, Ui,
    vec2,
};

use crate::window::notices::sentence;
use crate::window::widgets::icons;
use crate::window::widgets::theme;
use crate::window::widgets::{list_icon, palette};

pub const RUN_TO: &str = "to";

/// Label of fixed width, followed by the controls; returns the label's id for `labelled_by`.
pub fn row<R>(
    ui: &mut Ui,
    label: &str,
    explanation: &str,
    contents: impl FnOnce(&mut Ui, egui::Id) -> R,
) -> R {
    label_row(ui, label, explanation, None, contents).1
}

/// Like `row`, with room for a reset button: whether it is shown, the field's name and its default. The first result
/// is whether it was pressed.
fn label_row<R>(
    ui: &mut Ui,
    label: &str,
    explanation: &str,
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
                return (group_label(ui, label, explanation), false);
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
            let label = group_label(ui, text, explanation);
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
    (label, name, explanation): (&str, &str, &str),
    value: &mut T,
    (default, words): (T, impl Into<String>),
    contents: impl FnOnce(&mut Ui, egui::Id, &mut T),
) -> bool {
    let words = words.into();
    let own = (*value != default, name, words.as_str());
    let contents = |ui: &mut Ui, id| contents(ui, id, value);
    let is_reset = label_row(ui, label, explanation, Some(own), contents).0;
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

pub fn group_label(ui: &mut Ui, text: impl Into<RichText>, explanation: &str) -> Response {
    ui.weak(text.into()).on_hover_text(explanation)
}

pub fn field_error(ui: &mut Ui, message: &str) {
    below_field(ui, message, palette(ui).error);
}

/// Deviation from a field, or a missing requirement.
pub fn field_note(ui: &mut Ui, message: &str) {
    below_field(ui, message, palette(ui).amber);
}

pub fn field_hint(ui: &mut Ui, message: &str) {
    below_field(ui, message, palette(ui).weak);
}

fn below_field(ui: &mut Ui, message: &str, colour: Color32) {
    ui.scope(|ui| {
        // As low as its words.
        ui.spacing_mut().interact_size.y = 0.0;
        ui.horizontal(|ui| {
            ui.add_space(theme::LABEL_WIDTH + ui.spacing().item_spacing.x);
            ui.add(Label::new(RichText::new(sentence(message)).small().color(colour)).wrap());
        });
    });
}

/// As [`field_error`] and [`field_note`], over the whole width.
pub fn wide_note(ui: &mut Ui, message: &str, colour: Color32) {
    ui.add(Label::new(RichText::new(sentence(message)).small().color(colour)).wrap());
}

/// So wide, or as wide as there is room for.
pub fn field_width(ui: &Ui, wanted: f32) -> f32 {
    wanted
        .min(ui.available_width() - 2.0 * ui.spacing().button_padding.x)
        .max(theme::LABEL_WIDTH)
}

/// A button of a group of which one may be chosen.
pub fn choice(ui: &mut Ui, is_chosen: bool, text: &str, explanation: &str) -> Response {
    ui.add(Button::selectable(is_chosen, text).frame_when_inactive(true))
        .on_hover_text(explanation)
        .accessible_name(text)
}

/// Slider over the rest of the row, followed by its value. All of them end at one edge.
pub fn wide_slider(ui: &mut Ui, slider: Slider<'_>, explanation: &str) -> Response {
    let width = ui.available_width() - theme::VALUE_WIDTH - ui.spacing().item_spacing.x;
    ui.spacing_mut().slider_width = width.max(theme::VALUE_WIDTH);
    ui.spacing_mut().interact_size.x = theme::VALUE_WIDTH;
    ui.add(slider).on_hover_text(explanation)
}

pub fn number(ui: &mut Ui, width: f32, value: DragValue<'_>) -> Response {
    ui.add_sized(vec2(width, ui.spacing().interact_size.y), value)
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
        for (choice, name, explanation) in choices {
            let entry = ui.selectable_value(value, choice, name.into());
            if !explanation.is_empty() {
                entry.on_hover_text(explanation);
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
