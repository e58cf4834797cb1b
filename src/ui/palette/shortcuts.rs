//! The list of keyboard shortcuts, in groups.
//!
//! It shows the table that the keys are taken from, so it cannot be out of date.

use egui::{Context, Grid, Label, RichText, ScrollArea, Ui};

use crate::app::commands::PaletteCommand;
use crate::app::shortcuts::{Group, SHORTCUTS, Shortcut, keys_text};
use crate::ui::dialog::modal;
use crate::ui::widgets::{icon_button, palette};
use crate::ui::{View, icons, theme};

pub(in crate::ui) fn shortcuts_ui(ctx: &Context, view: &mut View<'_>) {
    if !view.app.palette.are_shortcuts_shown {
        return;
    }
    let screen = ctx.content_rect();
    let response = modal(ctx, "shortcuts", (theme::PALETTE_WIDTH, 16), |ui| {
        let is_closed = ui
            .horizontal(|ui| {
                ui.heading("Keyboard shortcuts");
                ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                    icon_button(
                        ui,
                        icons::X,
                        "Close the shortcuts",
                        "Back to the window (Escape)",
                    )
                    .clicked()
                })
                .inner
            })
            .inner;
        ScrollArea::vertical()
            .max_height(screen.height() * 0.7)
            .min_scrolled_height(screen.height() * 0.7)
            .show(ui, |ui| {
                for group in Group::ALL {
                    group_ui(ui, group);
                }
                let weak = palette(ui).weak;
                let text = "Tab and Shift+Tab move between controls, Space presses a button, and \
                           the arrow keys move a slider.";
                ui.label(RichText::new(text).color(weak));
            });
        is_closed
    });
    if response.inner || response.should_close() {
        view.push(PaletteCommand::ToggleShortcuts);
    }
}

fn group_ui(ui: &mut Ui, group: Group) {
    let of_group = |shortcut: &&Shortcut| shortcut.group == group && !shortcut.keys.is_empty();
    ui.add_space(theme::SMALL_GAP);
    ui.label(RichText::new(group.name()).strong());
    if ui.available_width() < theme::STACK_WIDTH {
        for shortcut in SHORTCUTS.iter().filter(of_group) {
            ui.label(shortcut.name);
            ui.add(Label::new(keys_of(shortcut).color(palette(ui).weak)).wrap());
        }
        return;
    }
    Grid::new(("shortcuts", group.name()))
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

fn keys_of(shortcut: &Shortcut) -> RichText {
    let keys: Vec<String> = shortcut.keys.iter().map(|keys| keys_text(*keys)).collect();
    RichText::new(keys.join(" or ")).monospace()
}
