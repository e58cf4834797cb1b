//! Widgets: icon buttons, chips, cards, badges, modal windows, and rows of the form.

mod fields;
pub mod icons;
pub mod theme;

use egui::accesskit::{Action, ActionRequest, TreeId};
use egui::containers::menu::{MenuButton, MenuConfig};
use egui::style::WidgetVisuals;
use egui::{
    InnerResponse, Modal, ModalResponse, Plugin, PopupCloseBehavior, RawInput, Role, TextWrapMode,
    TextureHandle, WidgetInfo, WidgetText,
};

use crate::window::layout::prelude::*;

pub use fields::*;
use theme::ThemeColors;

pub fn palette(ui: &Ui) -> &'static ThemeColors {
    theme::palette(ui.visuals())
}

/// A frameless button with an icon alone. `name` is what a screen reader says.
pub fn icon_button(ui: &mut Ui, icon: char, name: &str, hover: &str) -> Response {
    ui.add(Button::new(RichText::new(icon).size(theme::ICON)).frame_when_inactive(false))
        .on_hover_text(hover)
        .accessible_name(name)
}

/// A button with its name and an explanation.
pub fn hint_button(ui: &mut Ui, name: &str, hover: &str) -> Response {
    ui.button(name).on_hover_text(hover)
}

/// Adds explanation and accessible name to a button. Returns whether it was clicked.
pub fn pressed(button: Response, hover: impl Into<WidgetText>, name: impl Into<String>) -> bool {
    button.on_hover_text(hover).accessible_name(name).clicked()
}

/// A button at the top of a page; where there is little room, its icon alone.
pub fn page_button(ui: &mut Ui, is_small: bool, icon: char, name: &str, hover: &str) -> Response {
    if is_small {
        return icon_button(ui, icon, name, hover);
    }
    sign_button(ui, icon, name, hover)
}

pub fn sign_button(ui: &mut Ui, icon: char, name: &str, hover: &str) -> Response {
    ui.button(with_icon(icon, name))
        .on_hover_text(hover)
        .accessible_name(name)
}

/// A small button with a word, which may be a switch.
pub fn word_button(ui: &mut Ui, is_on: bool, word: &str, name: &str, hover: &str) -> Response {
    quiet_switch(ui, is_on, RichText::new(word).small(), name, hover)
}

pub fn icon_toggle(ui: &mut Ui, is_on: bool, icon: char, name: &str, hover: &str) -> Response {
    let face = RichText::new(icon).size(theme::ICON);
    quiet_switch(ui, is_on, face, name, hover)
}

fn quiet_switch(ui: &mut Ui, is_on: bool, face: RichText, name: &str, hover: &str) -> Response {
    let button = Button::new(face.color(ink(ui, is_on))).frame_when_inactive(false);
    ui.add(button.selected(is_on))
        .on_hover_text(hover)
        .accessible_name(name)
}

/// The sign before what folds.
pub fn caret(is_open: bool) -> char {
    if is_open {
        icons::CARET_DOWN
    } else {
        icons::CARET_RIGHT
    }
}

/// The sign of a list to choose from, the same as of what folds.
pub fn list_icon(ui: &Ui, rect: Rect, visuals: &WidgetVisuals, _is_open: bool) {
    let (middle, colour) = (rect.center(), visuals.fg_stroke.color);
    text_at(ui, middle, icons::CARET_DOWN, theme::CHEVRON, colour);
}

/// The colour of quiet words on a button that is chosen or is not.
pub fn ink(ui: &Ui, is_chosen: bool) -> Color32 {
    if is_chosen {
        palette(ui).on_selected
    } else {
        palette(ui).weak
    }
}

/// The colour of words or signs that stand out, or do not.
pub fn alert_ink(ui: &Ui, is_alert: bool) -> Color32 {
    if is_alert {
        palette(ui).amber
    } else {
        palette(ui).weak
    }
}

/// Icon without a name for screen readers: the text next to it suffices.
pub fn sign(ui: &mut Ui, icon: char, size: f32, colour: Color32) -> Response {
    let font = FontId::proportional(size);
    let galley = ui.painter().layout_no_wrap(icon.into(), font, colour);
    let (rect, response) = ui.allocate_exact_size(galley.size(), Sense::hover());
    ui.painter().galley(rect.min, galley, colour);
    response
}

/// A sign whose explanation is shown on hovering.
pub fn explained_sign(ui: &mut Ui, hover: &str) -> Response {
    let response = sign(ui, icons::INFO, theme::ICON, palette(ui).weak);
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, hover));
    response.on_hover_text(hover)
}

/// A word or a sign with its middle here.
pub fn text_at(ui: &Ui, middle: Pos2, text: impl ToString, size: f32, colour: Color32) {
    let font = FontId::proportional(size);
    let painter = ui.painter();
    painter.text(middle, Align2::CENTER_CENTER, text, font, colour);
}

/// Icon on a background, so that it is readable over any image.
pub fn badge(
    ui: &Ui,
    rect: Rect,
    ground: Color32,
    text: impl ToString,
    (size, ink): (f32, Color32),
) {
    ui.painter().rect_filled(rect, theme::RADIUS, ground);
    text_at(ui, rect.center(), text, size, ink);
}

/// Size of an image within an area, with its aspect ratio and at most `max_scale` times its size.
pub fn fitted(size: Vec2, place: Vec2, max_scale: f32) -> Vec2 {
    let scale = place / size.max(Vec2::splat(1.0));
    size * scale.min_elem().min(max_scale)
}

pub fn texture_ui(ui: &Ui, texture: &TextureHandle, rect: Rect, max_scale: f32) {
    let size = fitted(texture.size_vec2(), rect.size(), max_scale);
    let shown = Rect::from_center_size(rect.center(), size);
    let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
    ui.painter().image(texture.id(), shown, uv, Color32::WHITE);
}

pub fn progress_bar(ui: &mut Ui, bar: ProgressBar) -> Response {
    let response = ui.add(bar.fill(palette(ui).accent));
    ui.ctx().accesskit_node_builder(response.id, |node| {
        node.set_min_numeric_value(0.0);
        node.set_max_numeric_value(100.0);
    });
    response
}

/// Puts controls at the right end of a row. They are drawn, and walked with Tab, from left to right.
pub fn at_right<R>(ui: &mut Ui, row: &str, contents: impl FnOnce(&mut Ui) -> R) -> R {
    let id = Id::unique(("at-right", row));
    let before: f32 = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    ui.add_space((ui.available_width() - before).max(0.0));
    let shown = ui.horizontal(contents);
    let width = shown.response.rect.width();
    if (width - before).abs() > 0.5 {
        ui.data_mut(|data| data.insert_temp(id, width));
        // The right end of a row is as wide as its controls.
        ui.ctx().request_discard("at-right");
    }
    shown.inner
}

/// The scrolling part of a page, no wider than can be read.
pub fn page_column(ui: &mut Ui, id: &str, contents: impl FnOnce(&mut Ui)) {
    let area = ScrollArea::vertical().id_salt(id);
    area.auto_shrink([false, false]).show(ui, |ui| {
        ui.set_max_width((ui.available_width() - theme::GAP).min(theme::PAGE_WIDTH));
        contents(ui);
    });
}

/// A frameless button in line with the text above and below it.
pub fn flush(ui: &mut Ui, button: Button<'_>) -> Response {
    ui.scope(|ui| {
        ui.spacing_mut().button_padding.x = 0.0;
        ui.add(button)
    })
    .inner
}

pub fn with_icon(icon: char, text: &str) -> String {
    format!("{icon}  {text}")
}

/// A small rounded button that offers something to take over.
pub fn chip(ui: &mut Ui, text: &str, name: &str, hover: &str) -> Response {
    let palette = palette(ui);
    let button = Button::new(RichText::new(text).small().color(palette.weak))
        .fill(palette.field)
        .corner_radius(CornerRadius::same(12))
        .truncate();
    ui.add(button).on_hover_text(hover).accessible_name(name)
}

/// A chip that a press removes: returns whether it was pressed.
pub fn removable_chip(ui: &mut Ui, text: &str, kind: &str) -> bool {
    let shown = format!("{text}  {}", icons::X);
    let name = format!("Remove {kind} {text}");
    let hover = format!("Remove this {kind}");
    chip(ui, &shown, &name, &hover).clicked()
}

/// A field for words to look for; `name` is its hint, too.
pub fn search_field(ui: &mut Ui, text: &mut String, name: &str) -> Response {
    let edit = TextEdit::singleline(text)
        .hint_text(name.to_owned())
        .align(Align2::LEFT_CENTER)
        .margin(Margin::symmetric(8, 4))
        .desired_width(f32::INFINITY);
    ui.add(edit).accessible_name(name)
}

/// A button with a menu that stays open while its contents are pressed.
pub fn staying_menu(ui: &mut Ui, button: Button<'_>, contents: impl FnOnce(&mut Ui)) -> Response {
    let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    let menu = MenuButton::from_button(button).config(config);
    menu.ui(ui, contents).0
}

/// A row with quiet words at its right end; what is too long for the rest of it is truncated.
pub fn noted_row<R>(ui: &mut Ui, note: &str, contents: impl FnOnce(&mut Ui) -> R) -> R {
    let row = ui.horizontal(|ui| {
        let inner = ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.weak(note);
            ui.style_mut().wrap_mode = Some(TextWrapMode::Truncate);
            let to_right = Layout::left_to_right(Align::Center);
            ui.with_layout(to_right, contents).inner
        });
        inner.inner
    });
    row.inner
}

/// Height of a list that fills gradually: this, if the window has room for it. Requested at once, because a popup keeps
/// the height with which it opened.
pub fn list_height(ui: &Ui, preferred: f32) -> f32 {
    preferred.min(ui.ctx().content_rect().height() / 2.0)
}

/// The button that the whole window is about.
pub fn main_button(ui: &mut Ui, is_enabled: bool, icon: char, text: &str) -> Response {
    let palette = palette(ui);
    let (fill, ink) = if is_enabled {
        (palette.accent, palette.on_accent)
    } else {
        (palette.raised, palette.weak)
    };
    let button = Button::new(RichText::new(with_icon(icon, text)).color(ink))
        .fill(fill)
        .stroke(Stroke::NONE)
        .min_size(vec2(0.0, theme::MAIN_BUTTON_HEIGHT));
    across(ui, text, |ui| ui.add_enabled(is_enabled, button)).accessible_name(text)
}

/// As wide as [`main_button`], where that is not the one of the page.
pub fn second_button(ui: &mut Ui, is_enabled: bool, icon: char, text: &str) -> Response {
    let button = Button::new(with_icon(icon, text)).min_size(vec2(0.0, theme::MAIN_BUTTON_HEIGHT));
    across(ui, text, |ui| ui.add_enabled(is_enabled, button)).accessible_name(text)
}

/// Widget over the whole width with centred text. Its id does not depend on the widgets before it.
pub fn across(ui: &mut Ui, id: &str, contents: impl FnOnce(&mut Ui) -> Response) -> Response {
    ui.push_id(id, |ui| ui.vertical_centered_justified(contents).inner)
        .inner
}

/// The sign before the heading of a part that folds.
pub fn fold_icon(ui: &mut Ui, openness: f32, response: &Response) {
    let colour = ui.style().interact(response).fg_stroke.color;
    let (middle, icon) = (response.rect.center(), caret(openness > 0.5));
    text_at(ui, middle, icon, theme::CHEVRON, colour);
}

/// Line of fixed height, present even if empty: content below it does not jump.
pub fn reserved<R>(ui: &mut Ui, height: f32, contents: impl FnOnce(&mut Ui) -> R) -> R {
    let size = vec2(ui.available_width(), height);
    ui.allocate_ui_with_layout(size, Layout::top_down(Align::Min), |ui| {
        ui.set_min_size(size);
        contents(ui)
    })
    .inner
}

/// A raised frame with a coloured edge.
pub fn card(ui: &Ui, edge: Color32) -> Frame {
    Frame::new()
        .fill(palette(ui).panel)
        .stroke(Stroke::new(1.0, edge))
        .corner_radius(CornerRadius::same(theme::CARD_RADIUS))
        .inner_margin(Margin::same(14))
}

/// A frame in the colour of fields, of an image or a LoRA.
pub fn field_frame(ui: &Ui) -> Frame {
    filled_frame(palette(ui).field, theme::RADIUS, theme::TILE_MARGIN)
}

pub fn filled_frame(fill: Color32, radius: u8, margin: impl Into<Margin>) -> Frame {
    Frame::new()
        .fill(fill)
        .corner_radius(radius)
        .inner_margin(margin)
}

/// A frame over the whole width.
pub fn wide_frame<R>(
    ui: &mut Ui,
    frame: Frame,
    contents: impl FnOnce(&mut Ui) -> R,
) -> InnerResponse<R> {
    frame.show(ui, |ui| {
        ui.set_width(ui.available_width());
        contents(ui)
    })
}

/// Quiet small text of one line.
pub fn small_line(ui: &mut Ui, text: impl Into<String>) -> Response {
    let text = RichText::new(text).small().color(palette(ui).weak);
    ui.add(Label::new(text).truncate())
}

/// Progress from 0 to 1 in a thin line.
pub fn thin_progress(ui: &mut Ui, part: f32) -> Response {
    progress_bar(ui, ProgressBar::new(part).desired_height(theme::SMALL_GAP))
}

/// Something over the window that is to be done or closed before all else, so wide where there is room.
pub fn modal<R>(
    ctx: &Context,
    id: &str,
    (width, margin): (f32, i8),
    contents: impl FnOnce(&mut Ui) -> R,
) -> ModalResponse<R> {
    let frame = Frame::popup(&ctx.global_style()).inner_margin(Margin::same(margin));
    let width = width.min(ctx.content_rect().width() - 4.0 * theme::GAP);
    Modal::new(Id::unique(id)).frame(frame).show(ctx, |ui| {
        ui.set_width(width);
        contents(ui)
    })
}

const RING_GAP: f32 = 2.0;

pub fn install_focus(ctx: &Context) {
    ctx.add_plugin(FocusScroll::default());
}

#[derive(Default)]
struct FocusScroll {
    focused: Option<Id>,
    wanted: Option<Id>,
    /// The keyboard was used last, and not the pointer: nothing moves away under a pointer that presses it.
    is_walking: bool,
}

impl Plugin for FocusScroll {
    fn debug_name(&self) -> &'static str {
        "focus-scroll"
    }

    fn input_hook(&mut self, _ctx: &Context, input: &mut RawInput) {
        for event in &input.events {
            match event {
                Event::Key { key, pressed, .. } if *pressed => self.is_walking |= walks(*key),
                Event::PointerButton { .. } => self.is_walking = false,
                _ => {}
            }
        }
        if let Some(id) = self.wanted.take() {
            let request = ActionRequest {
                action: Action::ScrollIntoView,
                target_tree: TreeId::ROOT,
                target_node: id.accesskit_id(),
                data: None,
            };
            input.events.push(Event::AccessKitActionRequest(request));
        }
    }

    fn on_end_pass(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx();
        let focused = ctx.memory(egui::Memory::focused);
        let has_moved = std::mem::replace(&mut self.focused, focused) != focused;
        let response = focused.and_then(|id| ctx.read_response(id));
        let Some(response) = response.filter(|_| self.is_walking) else {
            return;
        };
        // A part of it is clipped by its container.
        let seen = response.interact_rect.expand(1.0);
        if has_moved && !seen.contains_rect(response.rect) {
            self.wanted = focused;
            ctx.request_repaint();
        }
        ring(ui, &response);
    }
}

fn walks(key: Key) -> bool {
    matches!(
        key,
        Key::Tab | Key::ArrowUp | Key::ArrowDown | Key::ArrowLeft | Key::ArrowRight
    )
}

fn ring(ui: &Ui, response: &Response) {
    let seen = response.interact_rect;
    if seen.is_positive() {
        let stroke = Stroke::new(1.5, theme::palette(ui.visuals()).amber);
        ui.ctx().layer_painter(response.layer_id).rect_stroke(
            seen.expand(RING_GAP),
            f32::from(theme::RADIUS),
            stroke,
            StrokeKind::Inside,
        );
    }
}
