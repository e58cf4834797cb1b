//! The panel at the right: the running job, those that wait and those that stopped, and what happens in the end.
//!
//! Only rows that are seen are drawn; what a row is, is [`super::row`]'s.

use egui::scroll_area::ScrollSource;
use egui::{
    Align, Align2, CentralPanel, ComboBox, CornerRadius, Frame, Label, Layout, Margin, Panel,
    ProgressBar, RichText, ScrollArea, Ui, Vec2, vec2,
};

use crate::app::commands::{AppCommand, QueueCommand};
use crate::app::queue::choices::AfterQueue;
use crate::app::shortcuts;
use crate::app::state::Page;
use crate::app::state::PanelPlace;
use crate::ui::queue::row::{running_ui, stopped_ui, waiting_ui};
use crate::ui::widgets::{badge, icon_button, icon_toggle, palette, progress_bar, sign_button};
use crate::ui::{View, icons, theme};

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
            let left = height - ui.min_rect().height() - num_lines * line;
            list_ui(ui, view, left.max(theme::QUEUE_ROW * 3.0));
            after_ui(ui, view);
        });
        return;
    }
    Panel::bottom("queue end")
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
    let explanation = match (num_waiting, num_stopped) {
        (0, 0) => "The jobs that run and wait".to_owned(),
        (_, 0) => format!("The jobs that run and wait: {num_waiting} waiting"),
        _ => format!("The jobs that run and wait: {num_waiting} waiting, {num_stopped} stopped"),
    };
    let explanation = shortcuts::explained(&explanation, "queue");
    let is_open = view.drawn.queue != PanelPlace::Nowhere;
    let button = if is_open {
        icon_toggle(ui, true, icons::QUEUE, "Queue", &explanation)
    } else {
        icon_button(ui, icons::QUEUE, "Queue", &explanation)
    };
    if num_waiting > 0 && !is_open {
        let palette = palette(ui);
        let size = Vec2::splat(14.0);
        let rect = Align2::RIGHT_TOP.align_size_within_rect(size, button.rect);
        let count = num_waiting.min(99);
        badge(ui, rect, palette.accent, count, (9.5, palette.on_accent));
    }
    if button.clicked() {
        view.push(QueueCommand::Toggle);
    }
}

fn heading_ui(ui: &mut Ui, view: &mut View<'_>) {
    ui.horizontal(|ui| {
        ui.label(RichText::new("Queue").strong().size(15.0));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if icon_button(ui, icons::X, "Close the queue", "The jobs go on").clicked() {
                view.push(QueueCommand::Open(false));
            }
            let queue = &view.app.queue;
            let wish = if queue.is_paused {
                let explanation = "Start the jobs that wait, one after the other";
                icon_toggle(ui, true, icons::PLAY, "Start the queue", explanation)
                    .clicked()
                    .then_some(QueueCommand::GoOn)
            } else {
                let explanation = "Start no further job. The running one stops at its last finished stage or saved step, frees the memory, and goes on from there";
                icon_button(ui, icons::PAUSE, "Pause the queue", explanation)
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
        let explanation = "The running job goes on to its end; the next one waits until you go on";
        let checkbox = ui
            .checkbox(&mut pauses, "Pause after this job")
            .on_hover_text(explanation)
            .on_disabled_hover_text("No job runs, or the queue is paused");
        if checkbox.changed() {
            view.push(QueueCommand::PauseAfter(pauses));
        }
    });
}

/// The jobs of the last run.
fn held_ui(ui: &mut Ui, view: &mut View<'_>) {
    let text = match view.app.queue.held().count() {
        0 => return,
        1 => "One job waits from last time".to_owned(),
        count => format!("{count} jobs wait from last time"),
    };
    let palette = palette(ui);
    card(ui).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.label(RichText::new(text).color(palette.amber));
        ui.horizontal(|ui| {
            let explanation = "Start them, one after the other";
            if sign_button(ui, icons::PLAY, "Go on", explanation).clicked() {
                view.push(QueueCommand::ReleaseHeld);
            }
            let explanation = "Take them out of the queue. You can undo it";
            if sign_button(ui, icons::TRASH, "Clear", explanation).clicked() {
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
                ui.label(format!("Opening {} of {all} files…", (done + 1).min(all)));
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    let explanation = "Open no more of them. Those that are in the queue stay";
                    if icon_button(ui, icons::X, "Stop opening files", explanation).clicked() {
                        let stop = QueueCommand::StopOpening(opening.number);
                        view.push(stop);
                    }
                });
            });
            let bar = ProgressBar::new(done as f32 / all.max(1) as f32).desired_height(6.0);
            progress_bar(ui, bar).accessible_name("Files opened");
        });
    }
}

fn list_ui(ui: &mut Ui, view: &mut View<'_>, max_height: f32) {
    let queue = &view.app.queue;
    let (num_waiting, num_stopped) = (queue.waiting.len(), queue.stopped.len());
    let weak = palette(ui).weak;
    if num_waiting + num_stopped == 0 {
        let text = if queue.running.is_some() {
            "No other job waits"
        } else {
            "No job waits. Press Generate as often as you like, or drop several pictures at once"
        };
        ui.add(Label::new(RichText::new(text).color(weak)).wrap());
        return;
    }
    ui.horizontal(|ui| {
        if num_waiting > 0 {
            ui.label(RichText::new(format!("Waiting ({num_waiting})")).color(weak));
        }
        if num_stopped > 0 {
            ui.label(RichText::new(format!("Stopped ({num_stopped})")).color(weak))
                .on_hover_text("Jobs that failed, were paused, or whose program ended. They stand behind those that wait");
        }
    });
    ui.spacing_mut().item_spacing.y = theme::QUEUE_GAP;
    ScrollArea::vertical()
        .max_height(max_height)
        .auto_shrink([false, false])
        .scroll_source(ScrollSource::default())
        .show_rows(
            ui,
            theme::QUEUE_ROW,
            num_waiting + num_stopped,
            |ui, seen| {
                for index in seen {
                    if let Some(job) = queue.waiting.get(index) {
                        waiting_ui(ui, view, job, index);
                    } else if let Some(stopped) = queue.stopped.get(index - num_waiting) {
                        stopped_ui(ui, view, stopped);
                    }
                }
            },
        );
}

fn after_ui(ui: &mut Ui, view: &mut View<'_>) {
    let explanation = "What happens when the last job has ended. You have half a minute to stop it; it counts until Safelight is closed";
    let weak = palette(ui).weak;
    ui.horizontal(|ui| {
        let label = ui
            .label(RichText::new("Then").color(weak))
            .on_hover_text(explanation);
        let before = view.app.queue.after;
        let mut after = before;
        ComboBox::from_id_salt("after the queue")
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
