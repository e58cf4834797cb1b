//! The command palette and the list of shortcuts, over the window.
//!
//! Both show the one table of commands; which entry is found is the app's.

mod shortcuts;

use egui::{
    Align, Button, Context, Key, Layout, Margin, Modifiers, RichText, ScrollArea, TextEdit, Ui,
    vec2,
};

use crate::app::commands::PaletteCommand;
use crate::app::palette::{Entry, Palette};
use crate::ui::dialog::modal;
use crate::ui::widgets::{ink, palette as colours};
use crate::ui::{View, theme};

pub(super) use shortcuts::shortcuts_ui;

/// What is looked for.
#[derive(Default)]
pub struct PalettePanel {
    query: String,
    /// Of those that are found.
    pub chosen: usize,
    /// The chosen one has to be scrolled to.
    is_moved: bool,
}

pub(super) fn palette_ui(ctx: &Context, view: &mut View<'_>) {
    let palette = &view.app.palette;
    let panel = &mut view.panels.palette;
    if palette.entries.is_none() {
        *panel = PalettePanel::default();
        return;
    }
    let (mut is_run, mut is_closed) = take_keys(ctx, panel, palette);
    let screen = ctx.content_rect();
    let response = modal(ctx, "command-palette", (theme::PALETTE_WIDTH, 12), |ui| {
        let field = TextEdit::singleline(&mut panel.query)
            .id_salt("palette-query")
            .hint_text("What would you like to do?")
            .desired_width(f32::INFINITY)
            .margin(Margin::same(9));
        let field = ui.add(field).accessible_name("Search commands");
        if field.changed() {
            panel.chosen = 0;
        }
        // The keyboard stays here: the list is walked with the arrow keys.
        field.request_focus();
        ui.add_space(theme::SMALL_GAP);
        let height = theme::PALETTE_HEIGHT.min(screen.height() * 0.6);
        // As high for one that is found as for all: it stands still while somebody types.
        let size = vec2(ui.available_width(), height);
        ui.allocate_ui(size, |ui| {
            ui.set_min_size(size);
            list_ui(ui, panel, &palette.found(&panel.query), height)
        })
        .inner
    });
    if let Some(index) = response.inner {
        panel.chosen = index;
        is_run = true;
    }
    is_closed |= response.should_close();
    let found = palette.found(&panel.query);
    if let Some(entry) = found.get(panel.chosen).filter(|_| is_run) {
        let command = Box::new(entry.command.clone());
        view.push(PaletteCommand::Run(entry.id.clone(), command));
    } else if is_closed {
        view.push(PaletteCommand::Toggle);
    }
}

/// Whether the chosen one is to be run, and whether the palette is closed.
fn take_keys(ctx: &Context, panel: &mut PalettePanel, palette: &Palette) -> (bool, bool) {
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
    let count = palette.found(&panel.query).len() as isize;
    if by != 0 && count > 0 {
        // Up and down, around the ends.
        panel.chosen = (panel.chosen as isize + by).rem_euclid(count) as usize;
        panel.is_moved = true;
    }
    (is_run, is_closed)
}

/// The one that was clicked.
fn list_ui(ui: &mut Ui, panel: &mut PalettePanel, found: &[&Entry], height: f32) -> Option<usize> {
    if found.is_empty() {
        ui.label(RichText::new("No matches").color(colours(ui).weak));
        return None;
    }
    let row = theme::PALETTE_ROW;
    let mut area = ScrollArea::vertical()
        .max_height(height)
        .min_scrolled_height(height)
        .auto_shrink(false);
    if std::mem::take(&mut panel.is_moved) {
        // The chosen row in the middle, as far as the ends allow.
        let middle = (panel.chosen as f32 + 0.5) * (row + ui.spacing().item_spacing.y);
        area = area.vertical_scroll_offset((middle - height / 2.0).max(0.0));
    }
    area.show_rows(ui, row, found.len(), |ui, shown| {
        let mut clicked = None;
        for index in shown {
            if entry_ui(ui, found[index], index == panel.chosen) {
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
        let size = vec2(ui.available_width(), theme::PALETTE_ROW);
        let button = Button::new("")
            .selected(is_chosen)
            .frame_when_inactive(is_chosen)
            .min_size(size);
        let name = entry_text(entry.kind, &entry.name, &entry.keys);
        let response = ui.add(button).accessible_name(name);
        let inside = response.rect.shrink2(vec2(10.0, 0.0));
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

/// Accessible name of an entry.
fn entry_text(kind: &str, name: &str, keys: &str) -> String {
    if keys.is_empty() {
        format!("{kind}: {name}")
    } else {
        format!("{kind}: {name} ({keys})")
    }
}
