//! The panel at the right: the running jobs, those that wait and those that stopped, and what happens in the end.
//!
//! Only rows that are seen are drawn; what a row is, is [`crate::window::queue::panel::row`]'s.

use egui::CentralPanel;
use egui::scroll_area::ScrollSource;

use crate::window::create::choices::QueueEndAction;
use crate::window::layout::prelude::*;
use crate::window::layout::status;
use crate::window::queue::panel::grid::{QueueRow, grid_ui, rows};
use crate::window::queue::panel::row::{running_ui, stopped_ui, waiting_ui};
use crate::window::queue::panel::{RESUME, RESUME_QUEUE_EXPLAINED};
use crate::window::shortcuts;
use crate::window::state::PanelPlace;

const QUEUE: &str = "Queue";

pub(crate) fn place(width: f32, view: &UiContext<'_>) -> PanelPlace {
    let needed = if view.app.cx.page == MainPage::Watch {
        theme::WATCH_MIN_WIDTH
    } else {
        theme::PAGE_MIN_WIDTH
    };
    if width >= needed + theme::QUEUE_WIDTH {
        if view.app.queue.is_open {
            return PanelPlace::Beside;
        }
    } else if view.app.cx.is_queue_over {
        return PanelPlace::Over;
    }
    PanelPlace::Nowhere
}

pub(crate) fn panel_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    Panel::right("queue")
        .frame(frame(ui))
        .resizable(false)
        .exact_size(theme::QUEUE_WIDTH)
        .show(ui, |ui| contents_ui(ui, view));
}

pub(crate) fn whole_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    CentralPanel::default()
        .frame(frame(ui))
        .show(ui, |ui| contents_ui(ui, view));
}

fn frame(ui: &Ui) -> Frame {
    Frame::new()
        .fill(palette(ui).panel)
        .inner_margin(Margin::symmetric(12, 10))
}

fn contents_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
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

fn top_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    heading_ui(ui, view);
    held_ui(ui, view);
    opening_ui(ui, view);
    let queue = &view.app.queue;
    for job in &queue.running {
        running_ui(ui, view, job);
    }
}

pub(crate) fn header_button(ui: &mut Ui, view: &mut UiContext<'_>) {
    let num_waiting = view.app.queue.waiting.len();
    let counts = counts_text(view);
    let colon = if counts.is_empty() { "" } else { ": " };
    let hover = format!("Running and waiting jobs{colon}{counts}");
    let hover = shortcuts::explained(&hover, "queue");
    let is_open = view.drawn.queue != PanelPlace::Nowhere;
    let button = status::button(ui, is_open, (icons::QUEUE, QUEUE), QUEUE, &hover);
    if num_waiting > 0 && !is_open {
        let text = num_waiting.min(99).to_string();
        status::badge(ui, button.rect, &text, palette(ui).accent);
    }
    view.on_click(&button, QueueCommand::Toggle);
}

/// Jobs in the list by state: `1 running, 5 waiting, 1 stopped`.
fn counts_text(view: &UiContext<'_>) -> String {
    let queue = &view.app.queue;
    let counts = [
        (queue.running.len(), "running"),
        (queue.waiting.len(), "waiting"),
        (queue.stopped.len(), "stopped"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, of)| format!("{count} {of}")).collect();
    counts.join(", ")
}

fn heading_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.horizontal(|ui| {
        ui.label(RichText::new(QUEUE).heading().strong());
        ui.weak(counts_text(view));
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let button = icon_button(ui, icons::X, "Close the queue", "The jobs continue");
            view.on_click(&button, QueueCommand::Open(false));
            let queue = &view.app.queue;
            let command = if queue.is_paused {
                let hover = RESUME_QUEUE_EXPLAINED;
                icon_toggle(ui, true, icons::PLAY, "Start the queue", hover)
                    .clicked()
                    .then_some(QueueCommand::GoOn)
            } else {
                let hover = "Start no more jobs. The running job stops at its last \
                            checkpoint, frees its memory and can be resumed";
                icon_button(ui, icons::PAUSE, "Pause the queue", hover)
                    .clicked()
                    .then_some(QueueCommand::PauseAll)
            };
            view.commands.extend(command.map(AppCommand::Queue));
        });
    });
    // It stays where it is, so that nothing jumps when a job begins.
    let can_wait = !view.app.queue.running.is_empty() && !view.app.queue.is_paused;
    ui.add_enabled_ui(can_wait, |ui| {
        let mut pauses = view.app.queue.pauses_after;
        let hover = "The running job finishes; the next one waits until you resume the queue";
        let checkbox = ui
            .checkbox(&mut pauses, "Pause after this job")
            .on_hover_text(hover)
            .on_disabled_hover_text("No job is running, or the queue is paused");
        if checkbox.changed() {
            view.set(move |app| app.queue.pauses_after = pauses);
        }
    });
}

/// Jobs of the last run.
fn held_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let count = view.app.queue.held_jobs().count();
    if count == 0 {
        return;
    }
    let palette = palette(ui);
    wide_frame(ui, card(ui), |ui| {
        ui.label(
            RichText::new(counted(
                count,
                "1 job is left from last time",
                "{} jobs are left from last time",
            ))
            .color(palette.amber),
        );
        ui.horizontal(|ui| {
            let hover = "Start them, one after the other";
            let button = sign_button(ui, icons::PLAY, RESUME, hover);
            if button.clicked() {
                view.set(|app| app.queue.release_held());
            }
            let hover = "Remove them from the queue. Ctrl+Z brings them back";
            let button = sign_button(ui, icons::TRASH, "Clear", hover);
            view.on_press(&button, |app| {
                let ids: Vec<JobId> = app.queue.held_jobs().collect();
                app.queue.remove_all(&ids, &mut app.inputs, &mut app.cx);
            });
        });
    });
}

fn opening_ui(ui: &mut Ui, view: &UiContext<'_>) {
    for opening in &view.app.queue.opening {
        let (done, all) = (opening.num_done, opening.num_files);
        wide_frame(ui, card(ui), |ui| {
            ui.horizontal(|ui| {
                ui.label(format!("Opening {} of {all} files…", (done + 1).min(all)));
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    let hover = "Open no more of them. Those in the queue stay there";
                    let button = icon_button(ui, icons::X, "Stop opening files", hover);
                    if button.clicked() {
                        opening.stop.cancel();
                    }
                });
            });
            let bar = ProgressBar::new(done as f32 / all.max(1) as f32).desired_height(6.0);
            progress_bar(ui, bar).accessible_name("Files opened");
        });
    }
}

fn list_ui(ui: &mut Ui, view: &mut UiContext<'_>, max_height: f32) {
    let queue = &view.app.queue;
    let (num_waiting, num_stopped) = (queue.waiting.len(), queue.stopped.len());
    let weak = palette(ui).weak;
    if num_waiting + num_stopped == 0 {
        let text = if queue.running.is_empty() {
            "No job is waiting. Press Generate as often as you like, or drop several images at \
            once"
        } else {
            "No other job is waiting"
        };
        ui.add(Label::new(RichText::new(text).color(weak)).wrap());
        return;
    }
    ui.horizontal(|ui| {
        if num_waiting > 0 {
            ui.weak(format!("Waiting ({num_waiting})"));
        }
        if num_stopped > 0 {
            ui.weak(format!("Stopped ({num_stopped})")).on_hover_text(
                "Jobs that were interrupted come first, those that failed or were paused come \
                    after the waiting ones",
            );
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let button = ui.button(RichText::new("Clear all").small()).on_hover_text(
                "Remove all waiting and stopped jobs. The running one continues. Ctrl+Z brings \
                them back",
            );
            view.on_click(&button, QueueCommand::Clear);
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
                    QueueRow::Stopped(stopped) => stopped_ui(ui, view, stopped),
                    QueueRow::Grid(id, first, count) => grid_ui(ui, view, *id, (*first, *count)),
                    QueueRow::Waiting(index) => {
                        if let Some(job) = queue.waiting.get(*index) {
                            waiting_ui(ui, view, job, *index);
                        }
                    }
                }
            }
        });
}

fn after_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let hover = "What happens after the last job. You have half a minute to stop it; it \
                applies until Safelight is closed";
    ui.horizontal(|ui| {
        let label = ui.weak("Then").on_hover_text(hover);
        let before = view.app.queue.after;
        let mut after = before;
        let list = ComboBox::from_id_salt("after-the-queue")
            .icon(list_icon)
            .selected_text(after.label())
            .width(ui.available_width());
        let choices = QueueEndAction::ALL.map(|choice| (choice, choice.label(), ""));
        choose_from(list, ui, &mut after, choices)
            .labelled_by(label.id)
            .on_hover_text(hover);
        if after != before {
            view.set(move |app| app.queue.set_after(after));
        }
    });
}

fn card(ui: &Ui) -> Frame {
    filled_frame(palette(ui).field, theme::RADIUS, vec2(10.0, 8.0))
}
