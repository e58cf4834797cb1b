//! The jobs of a grid as one row that unfolds, and the keyboard in a list with such rows.

use egui::KeyboardShortcut;
use egui::containers::menu::MenuButton;
use egui::style::ScrollAnimation;
use safelight_core::job::GridId;

use crate::window::create::choices::MoveTarget;
use crate::window::layout::prelude::*;
use crate::window::queue::panel::row::{
    buttons_ui, facts_ui, idle_background, row_rect, sign_ui, thumb_rect, words_ui,
};
use crate::window::queue::{JobQueue, StoppedJob};
use crate::window::shortcuts::{alt, ctrl, key, keys_text};

pub(super) enum QueueRow<'a> {
    Stopped(&'a StoppedJob),
    /// Index among the waiting jobs.
    Waiting(usize),
    /// Its id, the index of the first of its waiting jobs, and their number.
    Grid(GridId, usize, usize),
}

/// All rows, in the order in which jobs run: what was interrupted, what waits, what failed or was paused.
pub(super) fn rows<'a>(ui: &Ui, queue: &'a JobQueue) -> Vec<QueueRow<'a>> {
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

pub(super) fn grid_ui(
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
    let mut toggles = false;
    buttons_ui(ui, rect, grid_id.0, |ui| {
        let name = format!("Cancel the grid: {prompt}");
        let hover = "Cancel the whole grid: its running job stops, the waiting ones leave \
                    the queue, and the contact sheet shows what is finished. Ctrl+Z brings \
                    the waiting ones back (Delete)";
        let button = icon_button(ui, icons::X, &name, hover);
        view.on_press(&button, move |app| {
            app.queue.cancel_grid(grid_id, &mut app.inputs, &mut app.cx);
        });
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
    if response.has_focus() && ui.input_mut(|input| input.consume_shortcut(&delete)) {
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

pub(super) fn menu_button(ui: &mut Ui, name: &str, hover: &str, contents: impl FnOnce(&mut Ui)) {
    let button =
        Button::new(RichText::new(icons::DOTS).size(theme::ICON)).frame_when_inactive(false);
    let (response, _) = MenuButton::from_button(button).ui(ui, contents);
    response.on_hover_text(hover).accessible_name(name);
}

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
    let y = if is_below {
        rect.bottom() + theme::QUEUE_GAP / 2.0
    } else {
        rect.top() - theme::QUEUE_GAP / 2.0
    };
    let stroke = Stroke::new(2.0, palette(ui).accent);
    ui.painter().hline(rect.x_range(), y, stroke);
    if let Some(dragged) = response.dnd_release_payload::<DraggedJob>() {
        let place = MoveTarget::Before(index + usize::from(is_below));
        view.push(QueueCommand::Move(dragged.0, place));
    }
}
