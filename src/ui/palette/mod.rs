//! The command palette and the list of shortcuts, over the window.
//!
//! Both show the one table of commands; which entry is found is the app's.

mod shortcuts;

use egui::{
    Align, Button, Context, Frame, Id, Key, Layout, Margin, Modal, Modifiers, RichText, ScrollArea,
    TextEdit, Ui,
};

use crate::app::commands::AppCommand;
use crate::app::palette::{Entry, Palette};
use crate::ui::widgets::{ink, modal_width, palette as colours};
use crate::ui::{View, theme};

pub(super) use shortcuts::shortcuts_ui;

pub(super) fn palette_ui(ctx: &Context, view: &mut View<'_>) {
    let Some(mut palette) = view.session.palette.take() else {
        return;
    };
    let (mut is_run, mut is_closed) = take_keys(ctx, &mut palette);
    let screen = ctx.content_rect();
    let width = modal_width(ctx, theme::PALETTE_WIDTH);
    let frame = Frame::popup(&ctx.global_style()).inner_margin(Margin::same(12));
    let response = Modal::new(Id::unique("command palette"))
        .frame(frame)
        .show(ctx, |ui| {
            ui.set_width(width);
            let field = TextEdit::singleline(&mut palette.query)
                .id_salt("palette query")
                .hint_text("What would you like to do?")
                .desired_width(f32::INFINITY)
                .margin(Margin::same(9));
            let field = ui.add(field).accessible_name("Search commands");
            // The keyboard stays here: the list is walked with the arrow keys.
            field.request_focus();
            ui.add_space(theme::SMALL_GAP);
            let height = theme::PALETTE_HEIGHT.min(screen.height() * 0.6);
            list_ui(ui, &mut palette, height)
        });
    let pressed = response.inner;
    if let Some(index) = pressed {
        palette.chosen = index;
        is_run = true;
    }
    is_closed |= response.should_close();
    if is_run && let Some(entry) = palette.chosen_entry() {
        view.push(AppCommand::Choose(Box::new(entry)));
        is_closed = true;
    }
    if !is_closed {
        view.session.palette = Some(palette);
    }
}

/// Whether the chosen one is to be run, and whether the palette is closed.
fn take_keys(ctx: &Context, palette: &mut Palette) -> (bool, bool) {
    let pressed = |key| ctx.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    let (is_run, is_closed) = (pressed(Key::Enter), pressed(Key::Escape));
    let steps = [
        (Key::ArrowDown, 1),
        (Key::ArrowUp, -1),
        (Key::PageDown, 8),
        (Key::PageUp, -8),
    ];
    let by: isize = steps
        .into_iter()
        .filter(|(key, _)| pressed(*key))
        .map(|(_, by)| by)
        .sum();
    if by != 0 {
        palette.step(by);
    }
    (is_run, is_closed)
}

/// The one that was clicked.
fn list_ui(ui: &mut Ui, palette: &mut Palette, height: f32) -> Option<usize> {
    let count = palette.num_found();
    if count == 0 {
        ui.label(RichText::new("Nothing is called so").color(colours(ui).weak));
        return None;
    }
    let row = theme::PALETTE_ROW;
    let mut area = ScrollArea::vertical()
        .max_height(height)
        .min_scrolled_height(height)
        .auto_shrink([false, true]);
    if std::mem::take(&mut palette.is_moved) {
        // The chosen row in the middle, as far as the ends allow.
        let middle = (palette.chosen as f32 + 0.5) * (row + ui.spacing().item_spacing.y);
        area = area.vertical_scroll_offset((middle - height / 2.0).max(0.0));
    }
    let chosen = palette.chosen;
    area.show_rows(ui, row, count, |ui, shown| {
        let (first, len) = (shown.start, shown.len());
        let mut clicked = None;
        for (index, entry) in palette.found().skip(first).take(len).enumerate() {
            let index = first + index;
            if entry_ui(ui, entry, index == chosen) {
                clicked = Some(index);
            }
        }
        clicked
    })
    .inner
}

fn entry_ui(ui: &mut Ui, entry: &Entry, is_chosen: bool) -> bool {
    let weak = ink(ui, is_chosen);
    ui.push_id(&entry.id, |ui| {
        let size = egui::vec2(ui.available_width(), theme::PALETTE_ROW);
        let button = Button::new("")
            .selected(is_chosen)
            .frame_when_inactive(is_chosen)
            .min_size(size);
        let name = if entry.keys.is_empty() {
            format!("{}: {}", entry.kind, entry.name)
        } else {
            format!("{}: {} ({})", entry.kind, entry.name, entry.keys)
        };
        let response = ui.add(button).accessible_name(name);
        let inside = response.rect.shrink2(egui::vec2(10.0, 0.0));
        let mut line = ui.new_child(
            egui::UiBuilder::new()
                .max_rect(inside)
                .layout(Layout::right_to_left(Align::Center)),
        );
        line.label(RichText::new(&entry.keys).small().color(weak));
        line.with_layout(Layout::left_to_right(Align::Center), |ui| {
            ui.label(RichText::new(entry.kind).small().color(weak));
            ui.add(egui::Label::new(&entry.name).truncate());
        });
        response.clicked()
    })
    .inner
}
