//! Notices as cards: a sentence, advice, buttons, and details to copy.
//!
//! They have separate space, so that they cover no control and no image: above the image, whose controls stay where they
//! are, and below other pages. Only in full screen they cover it.

use egui::{Area, Order};

use crate::window::layout::prelude::*;
use crate::window::notices::{NoticeSeverity, UserNotice};

/// Cards seen at once; older ones follow when these are gone.
const MAX_SHOWN: usize = 3;
const MARGIN: f32 = 16.0;
/// So much of them is seen over the smallest image.
const MIN_HEIGHT: f32 = 96.0;
/// Below other things they have at most this share of the height.
const MAX_SHARE: f32 = 0.4;

pub(crate) fn over_ui(ctx: &Context, view: &mut UiContext<'_>, area: Rect) {
    if view.app.cx.notices.all().is_empty() {
        return;
    }
    let room = area.shrink(MARGIN);
    Area::new(Id::unique("notices"))
        .order(Order::Middle)
        .pivot(Align2::RIGHT_TOP)
        .fixed_pos(room.right_top())
        .show(ctx, |ui| {
            ui.set_width(theme::CARD_WIDTH.min(room.width()));
            scrolled_ui(ui, view, room.height().max(MIN_HEIGHT));
        });
}

pub(crate) fn below_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    apart_ui(ui, view, Panel::bottom("notices"));
}

pub(crate) fn above_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    apart_ui(ui, view, Panel::top("notices"));
}

fn apart_ui(ui: &mut Ui, view: &mut UiContext<'_>, panel: Panel) {
    if view.app.cx.notices.all().is_empty() {
        return;
    }
    let height = ui.available_height() * MAX_SHARE;
    let frame = Frame::new()
        .fill(palette(ui).stage)
        .inner_margin(Margin::from(vec2(MARGIN, theme::SMALL_GAP)));
    panel.frame(frame).resizable(false).show(ui, |ui| {
        scrolled_ui(ui, view, height);
    });
}

fn scrolled_ui(ui: &mut Ui, view: &mut UiContext<'_>, height: f32) {
    ScrollArea::vertical()
        .id_salt("notices")
        .max_height(height)
        .min_scrolled_height(height)
        .show(ui, |ui| cards_ui(ui, view));
}

fn cards_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let notices = view.app.cx.notices.all();
    let now = ui.input(|input| input.time);
    if notices.len() > 1 {
        all_ui(ui, view, notices.len());
    }
    for notice in notices.iter().rev().take(MAX_SHOWN) {
        let response = notice_ui(ui, view, notice);
        let is_held = response.contains_pointer() || has_keyboard(ui, response.rect);
        match notice.secs_left(now, is_held) {
            Some(0.0) => dismiss(view, notice.id),
            Some(secs) => ui.ctx().request_repaint_after_secs(secs as f32),
            None => {}
        }
        ui.add_space(theme::SMALL_GAP);
    }
}

fn has_keyboard(ui: &Ui, place: Rect) -> bool {
    let focused = ui.ctx().memory(egui::Memory::focused);
    let response = focused.and_then(|id| ui.ctx().read_response(id));
    response.is_some_and(|it| it.layer_id == ui.layer_id() && place.contains_rect(it.rect))
}

fn all_ui(ui: &mut Ui, view: &mut UiContext<'_>, count: usize) {
    let palette = palette(ui);
    let frame = card(ui, palette.line).inner_margin(Margin::symmetric(14, 4));
    wide_frame(ui, frame, |ui| {
        ui.horizontal(|ui| {
            let text = match count.saturating_sub(MAX_SHOWN) {
                0 => format!("{count} notices"),
                unseen => format!("{count} notices, {unseen} more below"),
            };
            ui.weak(RichText::new(text).small());
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let button = hint_button(ui, "Close all", "Close all notices");
                view.on_press(&button, |app| app.cx.notices.clear());
            });
        });
    });
    ui.add_space(theme::SMALL_GAP);
}

fn notice_ui(ui: &mut Ui, view: &mut UiContext<'_>, notice: &UserNotice) -> Response {
    let palette = palette(ui);
    let (icon, colour) = match notice.severity {
        NoticeSeverity::Info => (icons::INFO, palette.weak),
        NoticeSeverity::Warning => (icons::WARNING, palette.amber),
        NoticeSeverity::Error => (icons::WARNING, palette.error),
    };
    let shown = wide_frame(ui, card(ui, colour), |ui| {
        ui.horizontal(|ui| {
            ui.label(RichText::new(icon).size(theme::ICON).color(colour));
            ui.with_layout(Layout::right_to_left(Align::TOP), |ui| {
                if icon_button(ui, icons::X, "Dismiss", "Close this notice").clicked() {
                    dismiss(view, notice.id);
                }
                ui.with_layout(Layout::top_down(Align::LEFT), |ui| {
                    ui.strong(sentence(&notice.summary));
                    if !notice.advice.is_empty() {
                        ui.weak(&notice.advice);
                    }
                });
            });
        });
        if !notice.actions.is_empty() || !notice.details.is_empty() {
            ui.push_id(notice.id, |ui| {
                ui.horizontal_wrapped(|ui| {
                    actions_ui(ui, view, notice);
                    if !notice.details.is_empty() {
                        let UserNotice {
                            summary,
                            advice,
                            details,
                            ..
                        } = notice;
                        let text = format!("{summary}\n{advice}\n{details}");
                        let button =
                            sign_button(ui, icons::COPY, "Copy details", "For a bug report");
                        view.on_click(&button, DesktopCommand::CopyText(text));
                    }
                });
                if !notice.details.is_empty() {
                    details_ui(ui, notice);
                }
            });
        }
    });
    shown.response
}

fn actions_ui(ui: &mut Ui, view: &mut UiContext<'_>, notice: &UserNotice) {
    for action in &notice.actions {
        let button = ui.button(action.label).on_hover_text(action.hover);
        if button.clicked() {
            view.push(action.command.clone());
            dismiss(view, notice.id);
        }
    }
}

fn dismiss(view: &mut UiContext<'_>, id: u64) {
    view.set(move |app| app.cx.notices.dismiss(id));
}

fn details_ui(ui: &mut Ui, notice: &UserNotice) {
    ui.collapsing("Details", |ui| {
        ScrollArea::vertical().max_height(160.0).show(ui, |ui| {
            ui.label(RichText::new(&notice.details).monospace().small());
        });
    });
}
