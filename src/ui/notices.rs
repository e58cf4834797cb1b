//! Notices as cards over the picture: a sentence, what to do, and details to copy.

use egui::{Align2, Area, Context, Order, RichText, ScrollArea, vec2};

use crate::app::commands::AppCommand;
use crate::app::state::{Notice, Severity};
use crate::ui::widgets::{card, icon_button, palette, sentence, with_icon};
use crate::ui::{View, icons, theme};

/// Cards shown at once; older ones follow when these are dismissed.
const MAX_SHOWN: usize = 3;

pub(super) fn notices_ui(ctx: &Context, view: &mut View<'_>) {
    if view.session.notices.is_empty() {
        return;
    }
    let notices: Vec<Notice> = view
        .session
        .notices
        .iter()
        .rev()
        .take(MAX_SHOWN)
        .cloned()
        .collect();
    Area::new(egui::Id::unique("notices"))
        .order(Order::Middle)
        .anchor(Align2::RIGHT_TOP, vec2(-16.0, 16.0))
        .show(ctx, |ui| {
            ui.set_width(theme::CARD_WIDTH);
            for notice in &notices {
                notice_ui(ui, view, notice);
                ui.add_space(theme::SMALL_GAP);
            }
        });
}

fn notice_ui(ui: &mut egui::Ui, view: &mut View<'_>, notice: &Notice) {
    let palette = palette(ui);
    let (icon, colour) = match notice.severity {
        Severity::Info => (icons::INFO, palette.weak),
        Severity::Warning => (icons::WARNING, palette.amber),
        Severity::Error => (icons::WARNING, palette.error),
    };
    card(ui, colour).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.horizontal(|ui| {
            ui.label(RichText::new(icon).size(20.0).color(colour));
            ui.with_layout(egui::Layout::right_to_left(egui::Align::TOP), |ui| {
                if icon_button(ui, icons::X, "Dismiss", "Close this notice").clicked() {
                    view.push(AppCommand::DismissNotice(notice.id));
                }
                ui.with_layout(egui::Layout::top_down(egui::Align::LEFT), |ui| {
                    ui.label(RichText::new(sentence(&notice.summary)).strong());
                    if !notice.advice.is_empty() {
                        ui.label(RichText::new(&notice.advice).color(palette.weak));
                    }
                });
            });
        });
        if let Some(action) = &notice.action {
            let button = ui.button(action.label).on_hover_text(action.explanation);
            if button.clicked() {
                view.push(action.command.clone());
                view.push(AppCommand::DismissNotice(notice.id));
            }
        }
        if !notice.details.is_empty() {
            details_ui(ui, view, notice);
        }
    });
}

fn details_ui(ui: &mut egui::Ui, view: &mut View<'_>, notice: &Notice) {
    ui.push_id(notice.id, |ui| {
        ui.horizontal(|ui| {
            let copy = ui.button(with_icon(icons::COPY, "Copy details"));
            if copy
                .on_hover_text("For a bug report")
                .accessible_name("Copy details")
                .clicked()
            {
                let text = format!("{}\n{}\n{}", notice.summary, notice.advice, notice.details);
                view.push(AppCommand::CopyText(text));
            }
        });
        ui.collapsing("Details", |ui| {
            ScrollArea::vertical().max_height(160.0).show(ui, |ui| {
                ui.label(RichText::new(&notice.details).monospace().small());
            });
        });
    });
}
