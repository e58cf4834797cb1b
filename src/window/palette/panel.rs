//! The command palette and the list of keyboard shortcuts, over the window.

use egui::Grid;

use crate::window::layout::prelude::*;
use crate::window::layout::view::PalettePanel;
use crate::window::palette::{CommandPalette, PaletteEntry};
use crate::window::shortcuts::{CommandShortcut, GROUPS, LIST_STEPS, SHORTCUTS, keys_text};
use crate::window::widgets::palette as colours;

pub(crate) fn palette_ui(ctx: &Context, view: &mut UiContext<'_>) {
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
        // Constant height, so that it does not jump while typing.
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

/// Returns whether the chosen entry is to be run, and whether the palette is closed.
fn take_keys(ctx: &Context, panel: &mut PalettePanel, palette: &CommandPalette) -> (bool, bool) {
    let pressed = |key| ctx.input_mut(|input| input.consume_key(Modifiers::NONE, key));
    let (is_run, is_closed) = (pressed(Key::Enter), pressed(Key::Escape));
    let steps = LIST_STEPS.into_iter().filter(|(key, _)| pressed(*key));
    let by: isize = steps.map(|(_, by)| by).sum();
    let count = palette.found(&panel.query).len() as isize;
    if by != 0 && count > 0 {
        // Up and down, around the ends.
        panel.chosen = (panel.chosen as isize + by).rem_euclid(count) as usize;
        panel.is_moved = true;
    }
    (is_run, is_closed)
}

fn list_ui(
    ui: &mut Ui,
    panel: &mut PalettePanel,
    found: &[&PaletteEntry],
    height: f32,
) -> Option<usize> {
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

fn entry_ui(ui: &mut Ui, entry: &PaletteEntry, is_chosen: bool) -> bool {
    let weak = ink(ui, is_chosen);
    ui.push_id(&entry.id, |ui| {
        let size = vec2(ui.available_width(), theme::PALETTE_ROW);
        let button = Button::new("")
            .selected(is_chosen)
            .frame_when_inactive(is_chosen)
            .min_size(size);
        let mut name = format!("{}: {}", entry.kind, entry.name);
        if !entry.keys.is_empty() {
            name = format!("{name} ({})", entry.keys);
        }
        let response = ui.add(button).accessible_name(name);
        let inside = response.rect.shrink2(vec2(10.0, 0.0));
        let layout = Layout::right_to_left(Align::Center);
        let mut line = ui.new_child(UiBuilder::new().max_rect(inside).layout(layout));
        if is_chosen {
            line.visuals_mut().override_text_color = Some(weak);
        }
        line.label(RichText::new(&entry.keys).small().color(weak));
        line.with_layout(Layout::left_to_right(Align::Center), |ui| {
            ui.label(RichText::new(entry.kind).small().color(weak));
            ui.add(egui::Label::new(&entry.name).truncate());
        });
        response.clicked()
    })
    .inner
}

pub(crate) fn shortcuts_ui(ctx: &Context, view: &mut UiContext<'_>) {
    if !view.app.palette.are_shortcuts_shown {
        return;
    }
    let screen = ctx.content_rect();
    let response = modal(ctx, "shortcuts", (theme::PALETTE_WIDTH, 16), |ui| {
        let mut is_closed = false;
        ui.horizontal(|ui| {
            ui.heading("Keyboard shortcuts");
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let hover = "Back to the window (Escape)";
                is_closed = icon_button(ui, icons::X, "Close the shortcuts", hover).clicked();
            });
        });
        ScrollArea::vertical()
            .max_height(screen.height() * 0.7)
            .min_scrolled_height(screen.height() * 0.7)
            .show(ui, |ui| {
                for group in GROUPS {
                    group_ui(ui, group);
                }
                let text = "Tab and Shift+Tab move between controls, Space presses a button, and \
                           the arrow keys move a slider.";
                ui.weak(text);
            });
        is_closed
    });
    if response.inner || response.should_close() {
        view.push(PaletteCommand::ToggleShortcuts);
    }
}

fn group_ui(ui: &mut Ui, group: &str) {
    let of_group =
        |shortcut: &&CommandShortcut| shortcut.group == group && !shortcut.keys.is_empty();
    ui.add_space(theme::SMALL_GAP);
    ui.strong(group);
    if ui.available_width() < theme::STACK_WIDTH {
        for shortcut in SHORTCUTS.iter().filter(of_group) {
            ui.label(shortcut.name);
            ui.add(Label::new(keys_of(shortcut).color(palette(ui).weak)).wrap());
        }
        return;
    }
    Grid::new(("shortcuts", group))
        .num_columns(2)
        .min_col_width(theme::KEYS_WIDTH)
        .spacing([24.0, 4.0])
        .show(ui, |ui| {
            for shortcut in SHORTCUTS.iter().filter(of_group) {
                ui.label(keys_of(shortcut));
                ui.label(shortcut.name);
                ui.end_row();
            }
        });
}

fn keys_of(shortcut: &CommandShortcut) -> RichText {
    let keys: Vec<String> = shortcut.keys.iter().map(|keys| keys_text(*keys)).collect();
    RichText::new(keys.join(" or ")).monospace()
}
