//! The panel at the right: the running jobs, those that wait and those that stopped, the jobs of a grid as one row that
//! unfolds, and what happens in the end.
//!
//! Only rows that are seen are drawn; what a row is, is [`crate::window::queue::panel::row`]'s.

use egui::scroll_area::ScrollSource;
use egui::style::ScrollAnimation;
use egui::{CentralPanel, KeyboardShortcut};
use safelight_core::job::GridId;

use crate::window::create::choices::{MoveTarget, QueueEndAction};
use crate::window::layout::prelude::*;
use crate::window::layout::status;
use crate::window::queue::panel::row::{
    buttons_ui, facts_ui, idle_background, row_rect, running_ui, sign_ui, stopped_ui, thumb_rect,
    waiting_ui, words_ui,
};
use crate::window::queue::panel::{RESUME, RESUME_QUEUE_EXPLAINED};
use crate::window::queue::{JobQueue, StoppedJob};
use crate::window::shortcuts::{alt, ctrl, explained, key, keys_text};
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
    let hover = explained(&hover, "queue");
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
            if view.app.queue.is_paused {
                let hover = RESUME_QUEUE_EXPLAINED;
                let button = icon_toggle(ui, true, icons::PLAY, "Start the queue", hover);
                view.on_click(&button, QueueCommand::GoOn);
            } else {
                let hover = "Start no more jobs. The running job stops at its last \
                             checkpoint, frees its memory and can be resumed";
                let button = icon_button(ui, icons::PAUSE, "Pause the queue", hover);
                view.on_click(&button, QueueCommand::PauseAll);
            }
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
    let one = "1 job is left from last time";
    let text = counted(count, one, "{} jobs are left from last time");
    wide_frame(ui, card(ui), |ui| {
        ui.label(RichText::new(text).color(palette(ui).amber));
        ui.horizontal(|ui| {
            let hover = "Start them, one after the other";
            let button = sign_button(ui, icons::PLAY, RESUME, hover);
            view.on_press(&button, |app| app.queue.release_held());
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
                    if icon_button(ui, icons::X, "Stop opening files", hover).clicked() {
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
        let mut after = view.app.queue.after;
        let choices = QueueEndAction::ALL.map(|choice| (choice, choice.label()));
        choice_list(ui, "after-the-queue", &mut after, choices)
            .labelled_by(label.id)
            .on_hover_text(hover);
        if after != view.app.queue.after {
            view.set(move |app| app.queue.set_after(after));
        }
    });
}

fn card(ui: &Ui) -> Frame {
    filled_frame(palette(ui).field, theme::RADIUS, vec2(10.0, 8.0))
}

enum QueueRow<'a> {
    Stopped(&'a StoppedJob),
    /// Index among the waiting jobs.
    Waiting(usize),
    /// Its id, the index of the first of its waiting jobs, and their number.
    Grid(GridId, usize, usize),
}

/// All rows, in the order in which jobs run: what was interrupted, what waits, what failed or was paused.
fn rows<'a>(ui: &Ui, queue: &'a JobQueue) -> Vec<QueueRow<'a>> {
    let (interrupted, others): (Vec<&StoppedJob>, Vec<_>) =
        queue.stopped.iter().partition(|it| it.is_interrupted());
    let mut rows: Vec<QueueRow<'_>> = interrupted.into_iter().map(QueueRow::Stopped).collect();
    let mut seen: Vec<GridId> = Vec::new();
    for (index, job) in queue.waiting.iter().enumerate() {
        let Some((grid, _)) = queue.grid_of(&job.request) else {
            rows.push(QueueRow::Waiting(index));
            continue;
        };
        let id = grid.id;
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        let is_of_it = |at: &usize| {
            let request = &queue.waiting[*at].request;
            request.cell().is_some_and(|(of, _)| of == id)
        };
        let places = (index..queue.waiting.len()).filter(is_of_it);
        let places: Vec<usize> = places.collect();
        rows.push(QueueRow::Grid(id, index, places.len()));
        if is_open(ui, id) {
            rows.extend(places.into_iter().map(QueueRow::Waiting));
        }
    }
    rows.extend(others.into_iter().map(QueueRow::Stopped));
    rows
}

fn fold_id(id: GridId) -> egui::Id {
    egui::Id::unique(("grid-fold", id.0))
}

fn is_open(ui: &Ui, id: GridId) -> bool {
    let open: Option<bool> = ui.data(|data| data.get_temp(fold_id(id)));
    open.unwrap_or_default()
}

fn grid_ui(
    ui: &mut Ui,
    view: &mut UiContext<'_>,
    grid_id: GridId,
    (first, num_waiting): (usize, usize),
) {
    let queue = &view.app.queue;
    let Some(job) = queue.waiting.get(first) else {
        return;
    };
    let Some((grid, _)) = queue.grid_of(&job.request) else {
        return;
    };
    let (title, prompt) = (grid.to_string(), &*job.request.title());
    let (num_made, num_failed) = queue.grid_progress(grid_id);
    let id = egui::Id::unique(("queued-grid", grid_id.0));
    let (rect, response) = row_rect(ui, id, Sense::click());
    idle_background(ui, &response, None);
    sign_ui(ui, thumb_rect(rect), icons::ROWS);
    let (columns, rows) = (grid.columns.len(), grid.rows.len());
    let failed = match num_failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let line = format!("{columns} × {rows} grid · {num_waiting} waiting, {num_made} done{failed}");
    words_ui(ui, rect, prompt, (line, palette(ui).weak), 56.0);
    let open = is_open(ui, grid_id);
    let (mut cancels, mut toggles) = (false, false);
    buttons_ui(ui, rect, grid_id.0, |ui| {
        let name = format!("Cancel the grid: {prompt}");
        let hover = "Cancel the whole grid: its running job stops, the waiting ones leave \
                    the queue, and the contact sheet shows what is finished. Ctrl+Z brings \
                    the waiting ones back (Delete)";
        cancels = icon_button(ui, icons::X, &name, hover).clicked();
        let name = format!("Jobs of the grid: {prompt}");
        let hover = "Show the jobs of the grid, or fold them away";
        toggles = icon_button(ui, caret(open), &name, hover).clicked();
    });
    if response.clicked() {
        response.request_focus();
    }
    if toggles || response.double_clicked() {
        ui.data_mut(|data| data.insert_temp(fold_id(grid_id), !open));
    }
    let delete = key(Key::Delete);
    cancels |= response.has_focus() && ui.input_mut(|input| input.consume_shortcut(&delete));
    if cancels {
        view.set(move |app| app.queue.cancel_grid(grid_id, &mut app.inputs, &mut app.cx));
    }
    let name = format!("{title}: {prompt}");
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
    response.on_hover_ui(|ui| {
        ui.label(&title);
        facts_ui(ui, view, &job.request, &job.missing);
    });
}

struct DraggedJob(JobId);

/// Icon, name, keys and what it does.
type JobAction = (char, &'static str, Option<KeyboardShortcut>, QueueCommand);
/// Name of letting a stopped job run; `None` for a waiting one.
pub(super) type JobAgain = Option<&'static str>;

/// All that can be done with a job.
fn actions(id: JobId, again: JobAgain) -> Vec<JobAction> {
    let (edit, copy) = (QueueCommand::Edit(id), QueueCommand::Duplicate(id));
    let to = |place| QueueCommand::Move(id, place);
    let [top, up, down] = [Key::Home, Key::ArrowUp, Key::ArrowDown].map(|key| Some(alt(key)));
    let first = to(MoveTarget::Top);
    let mut actions = match again {
        Some(again) => vec![(icons::PLAY, again, None, QueueCommand::Restart(id))],
        None => vec![
            (icons::ARROW_TO_TOP, "Move to the top", top, first),
            (icons::ARROW_UP, "Move up", up, to(MoveTarget::Up)),
            (icons::ARROW_DOWN, "Move down", down, to(MoveTarget::Down)),
        ],
    };
    let delete = Some(key(Key::Delete));
    actions.extend([
        (icons::PENCIL, "Edit", Some(key(Key::Enter)), edit),
        (icons::COPY, "Duplicate", Some(ctrl(Key::D)), copy),
        (icons::TRASH, "Remove", delete, QueueCommand::Remove(id)),
    ]);
    actions
}

pub(super) fn menu_ui(ui: &mut Ui, view: &mut UiContext<'_>, id: JobId, again: JobAgain) {
    for (icon, name, keys, command) in actions(id, again) {
        let keys = keys.map(keys_text).unwrap_or_default();
        let button = Button::new(with_icon(icon, name)).shortcut_text(keys);
        if ui.add(button).accessible_name(name).clicked() {
            view.push(command);
            ui.close();
        }
    }
    let job = view.app.queue.idle_job(id);
    for (device, name) in view.app.devices.choices() {
        let is_chosen = job.is_some_and(|job| job.device == device);
        let name = format!("Run on: {name}");
        if choice(ui, is_chosen, &name, "Where the job runs").clicked() {
            view.push(QueueCommand::Pin(id, device));
            ui.close();
        }
    }
}

pub(super) fn keys(
    ui: &Ui,
    view: &mut UiContext<'_>,
    response: &Response,
    id: JobId,
    again: JobAgain,
) {
    if !response.has_focus() {
        return;
    }
    for (.., keys, command) in actions(id, again) {
        if keys.is_some_and(|keys| ui.input_mut(|input| input.consume_shortcut(&keys))) {
            if let QueueCommand::Move(_, place) = command {
                follow(ui, view, response.rect, id, place);
            }
            view.push(command);
        }
    }
}

/// Scrolls to the job's new position: out of sight it would lose the focus, and the keys with it.
fn follow(ui: &Ui, view: &UiContext<'_>, rect: Rect, id: JobId, place: MoveTarget) {
    let Some(index) = view.app.queue.waiting.iter().position(|job| job.id == id) else {
        return;
    };
    let rows = match place {
        MoveTarget::Up => -1.0,
        MoveTarget::Down => 1.0,
        MoveTarget::Top | MoveTarget::Before(_) => -(index as f32),
    };
    let way = vec2(0.0, rows * (theme::QUEUE_ROW + theme::QUEUE_GAP));
    ui.scroll_to_rect_animation(rect.translate(way), None, ScrollAnimation::none());
}

/// A job is dragged between two others; a line shows where it would go.
pub(super) fn drag(
    ui: &Ui,
    view: &mut UiContext<'_>,
    response: &Response,
    rect: Rect,
    (id, index): (JobId, usize),
) {
    response.dnd_set_drag_payload(DraggedJob(id));
    let pointer = ui.input(|input| input.pointer.latest_pos());
    let Some(pos) = pointer.filter(|_| response.dnd_hover_payload::<DraggedJob>().is_some()) else {
        return;
    };
    let is_below = pos.y > rect.center().y;
    let between = rect.expand2(vec2(0.0, theme::QUEUE_GAP / 2.0));
    let y = if is_below {
        between.bottom()
    } else {
        between.top()
    };
    let stroke = Stroke::new(2.0, palette(ui).accent);
    ui.painter().hline(rect.x_range(), y, stroke);
    if let Some(dragged) = response.dnd_release_payload::<DraggedJob>() {
        let place = MoveTarget::Before(index + usize::from(is_below));
        view.push(QueueCommand::Move(dragged.0, place));
    }
}
