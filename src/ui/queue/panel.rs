//! The panel at the right: the running job, those that wait and those that stopped, and what happens in the end.
//!
//! Only rows that are seen are drawn; what a row is, is [`super::row`]'s.

use egui::scroll_area::ScrollSource;
use egui::{
    Align, CentralPanel, ComboBox, CornerRadius, Frame, Label, Layout, Margin, Panel, ProgressBar,
    RichText, ScrollArea, Ui, vec2,
};

use crate::app::commands::{AppCommand, QueueCommand};
use crate::app::queue::choices::AfterQueue;
use crate::app::shortcuts;
use crate::app::state::Page;
use crate::app::state::PanelPlace;
use crate::ui::queue::grid::{Row, grid_ui, rows};
use crate::ui::queue::row::{running_ui, stopped_ui, waiting_ui};
use crate::ui::queue::words;
use crate::ui::widgets::{icon_button, icon_toggle, list_icon, palette, progress_bar, sign_button};
use crate::ui::{View, header, icons, theme};

/// Where the panel has room in this width beside the form.
pub(in crate::ui) fn place(width: f32, view: &View<'_>) -> PanelPlace {
    let needed = if view.app.cx.page == Page::Watch {
        theme::WATCH_MIN_WIDTH
    } else {
        theme::PAGE_MIN_WIDTH
    };
    if width >= needed + theme::QUEUE_WIDTH {
        if view.app.queue.panel.is_open {
            return PanelPlace::Beside;
        }
    } else if view.app.cx.is_queue_over {
        return PanelPlace::Over;
    }
    PanelPlace::Nowhere
}

pub(in crate::ui) fn panel_ui(ui: &mut Ui, view: &mut View<'_>) {
    Panel::right("queue")
        .frame(frame(ui))
        .resizable(false)
        .exact_size(theme::QUEUE_WIDTH)
        .show(ui, |ui| contents_ui(ui, view));
}

/// The panel over the page.
pub(in crate::ui) fn whole_ui(ui: &mut Ui, view: &mut View<'_>) {
    CentralPanel::default()
        .frame(frame(ui))
        .show(ui, |ui| contents_ui(ui, view));
}

fn frame(ui: &Ui) -> Frame {
    Frame::new()
        .fill(palette(ui).panel)
        .inner_margin(Margin::symmetric(12, 10))
}

fn contents_ui(ui: &mut Ui, view: &mut View<'_>) {
    if ui.available_height() < theme::SHORT_HEIGHT {
        // All of it scrolls, or nothing would be left for the jobs.
        let height = ui.available_height();
        ScrollArea::vertical().id_salt("queue").show(ui, |ui| {
            top_ui(ui, view);
            // With the numbers above the list and the line below it.
            let num_lines = 2.0;
            let line = ui.spacing().interact_size.y + ui.spacing().item_spacing.y;
            let end = num_lines * line + theme::SMALL_GAP;
            let left = height - ui.min_rect().height() - end;
            list_ui(ui, view, left.max(theme::QUEUE_ROW * 3.0));
            after_ui(ui, view);
        });
        return;
    }
    Panel::bottom("queue-end")
        .frame(Frame::new().inner_margin(Margin {
            top: 8,
            ..Margin::ZERO
        }))
        .resizable(false)
        .show_separator_line(false)
        .show(ui, |ui| after_ui(ui, view));
    top_ui(ui, view);
    list_ui(ui, view, f32::INFINITY);
}

fn top_ui(ui: &mut Ui, view: &mut View<'_>) {
    heading_ui(ui, view);
    held_ui(ui, view);
    opening_ui(ui, view);
    if let Some(job) = &view.app.queue.running {
        running_ui(ui, view, job);
    }
}

/// Opens the panel and closes it; says how many jobs there are.
pub(in crate::ui) fn header_button(ui: &mut Ui, view: &mut View<'_>) {
    let (num_waiting, num_stopped) = (view.app.queue.waiting.len(), view.app.queue.stopped.len());
    let explanation = words::header(num_waiting, num_stopped);
    let explanation = shortcuts::explained(&explanation, "queue");
    let is_open = view.drawn.queue != PanelPlace::Nowhere;
    let face = (icons::QUEUE, words::QUEUE);
    let button = header::button(ui, is_open, face, words::QUEUE, &explanation);
    if num_waiting > 0 && !is_open {
        let text = num_waiting.min(99).to_string();
        header::badge(ui, button.rect, &text, palette(ui).accent);
    }
    if button.clicked() {
        view.push(QueueCommand::Toggle);
    }
}

fn heading_ui(ui: &mut Ui, view: &mut View<'_>) {
    ui.horizontal(|ui| {
        ui.label(RichText::new(words::QUEUE).strong().size(15.0));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if icon_button(ui, icons::X, words::CLOSE, words::CLOSE_EXPLAINED).clicked() {
                view.push(QueueCommand::Open(false));
            }
            let queue = &view.app.queue;
            let wish = if queue.is_paused {
                let explanation = words::RESUME_QUEUE_EXPLAINED;
                icon_toggle(ui, true, icons::PLAY, words::START_QUEUE, explanation)
                    .clicked()
                    .then_some(QueueCommand::GoOn)
            } else {
                let explanation = words::PAUSE_QUEUE_EXPLAINED;
                icon_button(ui, icons::PAUSE, words::PAUSE_QUEUE, explanation)
                    .clicked()
                    .then_some(QueueCommand::PauseAll)
            };
            view.commands.extend(wish.map(AppCommand::Queue));
        });
    });
    // It stays where it is, so that nothing jumps when a job begins.
    let can_wait = view.app.queue.running.is_some() && !view.app.queue.is_paused;
    ui.add_enabled_ui(can_wait, |ui| {
        let mut pauses = view.app.queue.pauses_after;
        let explanation = words::PAUSE_AFTER_EXPLAINED;
        let checkbox = ui
            .checkbox(&mut pauses, words::PAUSE_AFTER)
            .on_hover_text(explanation)
            .on_disabled_hover_text(words::PAUSE_AFTER_DISABLED);
        if checkbox.changed() {
            view.push(QueueCommand::PauseAfter(pauses));
        }
    });
}

/// The jobs of the last run.
fn held_ui(ui: &mut Ui, view: &mut View<'_>) {
    let count = view.app.queue.held().count();
    if count == 0 {
        return;
    }
    let palette = palette(ui);
    card(ui).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.label(RichText::new(words::held(count)).color(palette.amber));
        ui.horizontal(|ui| {
            let explanation = words::RESUME_HELD_EXPLAINED;
            if sign_button(ui, icons::PLAY, words::RESUME, explanation).clicked() {
                view.push(QueueCommand::ReleaseHeld);
            }
            let explanation = words::CLEAR_HELD_EXPLAINED;
            if sign_button(ui, icons::TRASH, words::CLEAR, explanation).clicked() {
                view.push(QueueCommand::ClearHeld);
            }
        });
    });
}

/// Files that become jobs.
fn opening_ui(ui: &mut Ui, view: &mut View<'_>) {
    for opening in &view.app.queue.opening {
        let (done, all) = (opening.num_done, opening.num_files);
        card(ui).show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.horizontal(|ui| {
                ui.label(words::opening((done + 1).min(all), all));
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    let explanation = words::STOP_OPENING_EXPLAINED;
                    if icon_button(ui, icons::X, words::STOP_OPENING, explanation).clicked() {
                        let stop = QueueCommand::StopOpening(opening.number);
                        view.push(stop);
                    }
                });
            });
            let bar = ProgressBar::new(done as f32 / all.max(1) as f32).desired_height(6.0);
            progress_bar(ui, bar).accessible_name(words::FILES_OPENED);
        });
    }
}

fn list_ui(ui: &mut Ui, view: &mut View<'_>, max_height: f32) {
    let queue = &view.app.queue;
    let (num_waiting, num_stopped) = (queue.waiting.len(), queue.stopped.len());
    let weak = palette(ui).weak;
    if num_waiting + num_stopped == 0 {
        let text = if queue.running.is_some() {
            words::NO_OTHER_JOB
        } else {
            words::NO_JOB
        };
        ui.add(Label::new(RichText::new(text).color(weak)).wrap());
        return;
    }
    ui.horizontal(|ui| {
        if num_waiting > 0 {
            ui.label(RichText::new(words::waiting(num_waiting)).color(weak));
        }
        if num_stopped > 0 {
            ui.label(RichText::new(words::stopped(num_stopped)).color(weak))
                .on_hover_text(words::STOPPED_EXPLAINED);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let text = RichText::new(words::CLEAR_ALL).small();
            let button = ui.button(text).on_hover_text(words::CLEAR_ALL_EXPLAINED);
            if button.clicked() {
                view.push(QueueCommand::Clear);
            }
        });
    });
    let rows = rows(ui, queue);
    ui.spacing_mut().item_spacing.y = theme::QUEUE_GAP;
    ScrollArea::vertical()
        .max_height(max_height)
        .auto_shrink([false, false])
        .scroll_source(ScrollSource::default())
        .show_rows(ui, theme::QUEUE_ROW, rows.len(), |ui, seen| {
            for row in &rows[seen] {
                match row {
                    Row::Stopped(stopped) => stopped_ui(ui, view, stopped),
                    Row::Grid(waiting) => grid_ui(ui, view, *waiting),
                    Row::Waiting(index) => {
                        if let Some(job) = queue.waiting.get(*index) {
                            waiting_ui(ui, view, job, *index);
                        }
                    }
                }
            }
        });
}

fn after_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = words::THEN_EXPLAINED;
    let weak = palette(ui).weak;
    ui.horizontal(|ui| {
        let label = ui
            .label(RichText::new(words::THEN).color(weak))
            .on_hover_text(explanation);
        let before = view.app.queue.after;
        let mut after = before;
        ComboBox::from_id_salt("after-the-queue")
            .icon(list_icon)
            .selected_text(after.label())
            .width(ui.available_width())
            .show_ui(ui, |ui| {
                for choice in AfterQueue::ALL {
                    ui.selectable_value(&mut after, choice, choice.label());
                }
            })
            .response
            .labelled_by(label.id)
            .on_hover_text(explanation);
        if after != before {
            view.push(QueueCommand::After(after));
        }
    });
}

fn card(ui: &Ui) -> Frame {
    Frame::new()
        .fill(palette(ui).field)
        .corner_radius(CornerRadius::same(theme::RADIUS))
        .inner_margin(Margin::from(vec2(10.0, 8.0)))
}
