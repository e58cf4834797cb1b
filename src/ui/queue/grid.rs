//! The waiting jobs of a grid as one row, which folds open; and what a list of jobs looks like with such rows in it.

use egui::{Key, Response, Ui};
use safelight_core::job::GridId;

use crate::app::commands::QueueCommand;
use crate::app::queue::grids::GridProgress;
use crate::app::queue::{JobQueue, StoppedJob};
use crate::app::shortcuts::key;
use crate::ui::queue::parts::{
    Line, background, buttons_ui, facts_ui, grid_row_rect, sign_ui, thumb_rect, words_ui,
};
use crate::ui::widgets::{caret, icon_button, palette};
use crate::ui::{View, icons};

/// What stands in a row of the list.
pub(super) enum Row<'a> {
    Stopped(&'a StoppedJob),
    /// Its place among the waiting ones.
    Waiting(usize),
    Grid(WaitingGrid),
}

/// A grid of which some jobs wait.
#[derive(Clone, Copy)]
pub(super) struct WaitingGrid {
    id: GridId,
    /// Where the first of them stands.
    first: usize,
    num_waiting: usize,
}

/// All rows, in the order in which jobs run: what was interrupted, what waits, what failed or was paused.
pub(super) fn rows<'a>(ui: &Ui, queue: &'a JobQueue) -> Vec<Row<'a>> {
    let (interrupted, others): (Vec<&StoppedJob>, Vec<_>) =
        queue.stopped.iter().partition(|it| it.is_interrupted());
    let mut rows: Vec<Row<'_>> = interrupted.into_iter().map(Row::Stopped).collect();
    let mut seen: Vec<GridId> = Vec::new();
    for (index, job) in queue.waiting.iter().enumerate() {
        let Some((grid, _)) = queue.grid_of(&job.request) else {
            rows.push(Row::Waiting(index));
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
        rows.push(Row::Grid(WaitingGrid {
            id,
            first: index,
            num_waiting: places.len(),
        }));
        if is_open(ui, id) {
            rows.extend(places.into_iter().map(Row::Waiting));
        }
    }
    rows.extend(others.into_iter().map(Row::Stopped));
    rows
}

fn fold_id(id: GridId) -> egui::Id {
    egui::Id::unique(("grid-fold", id.0))
}

fn is_open(ui: &Ui, id: GridId) -> bool {
    let open: Option<bool> = ui.data(|data| data.get_temp(fold_id(id)));
    open.unwrap_or_default()
}

pub(super) fn grid_ui(ui: &mut Ui, view: &mut View<'_>, waiting: WaitingGrid) {
    let queue = &view.app.queue;
    let Some(job) = queue.waiting.get(waiting.first) else {
        return;
    };
    let Some((grid, _)) = queue.grid_of(&job.request) else {
        return;
    };
    let (title, prompt) = (grid.to_string(), &*job.request.title());
    let size = (grid.columns.len(), grid.rows.len());
    let progress = queue.grid_progress(waiting.id);
    let (rect, response) = grid_row_rect(ui, waiting.id);
    let palette = palette(ui);
    let fill = if response.hovered() {
        palette.raised
    } else {
        palette.field
    };
    let edge = response.has_focus().then_some(palette.text);
    background(ui, rect, edge, fill);
    sign_ui(ui, thumb_rect(rect), icons::ROWS);
    let line = Line {
        text: grid_left_text(size, waiting.num_waiting, &progress),
        colour: palette.weak,
    };
    words_ui(ui, rect, prompt, line, 56.0);
    let open = is_open(ui, waiting.id);
    let mut toggles = false;
    buttons_ui(ui, rect, waiting.id.0, |ui| {
        let name = format!("Cancel the grid: {prompt}");
        let explanation = "Cancel the whole grid: its running job stops, the waiting ones leave \
                          the queue, and the contact sheet shows what is finished. Ctrl+Z brings \
                          the waiting ones back (Delete)";
        if icon_button(ui, icons::X, &name, explanation).clicked() {
            view.push(QueueCommand::CancelGrid(waiting.id));
        }
        let name = format!("Jobs of the grid: {prompt}");
        toggles = icon_button(
            ui,
            caret(open),
            &name,
            "Show the jobs of the grid, or fold them away",
        )
        .clicked();
    });
    if response.clicked() {
        response.request_focus();
    }
    if toggles || response.double_clicked() {
        ui.data_mut(|data| data.insert_temp(fold_id(waiting.id), !open));
    }
    delete_key(ui, view, &response, waiting.id);
    let name = format!("{title}: {prompt}");
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
    response.on_hover_ui(|ui| {
        ui.label(&title);
        facts_ui(ui, view, &job.request, &job.missing);
    });
}

/// Progress of a grid with waiting jobs.
fn grid_left_text(
    (columns, rows): (usize, usize),
    num_waiting: usize,
    progress: &GridProgress,
) -> String {
    let made = progress.num_made;
    match progress.num_failed {
        0 => format!("{columns} × {rows} grid · {num_waiting} waiting, {made} done"),
        failed => {
            format!("{columns} × {rows} grid · {num_waiting} waiting, {made} done, {failed} failed")
        }
    }
}

fn delete_key(ui: &Ui, view: &mut View<'_>, response: &Response, id: GridId) {
    let delete = key(Key::Delete);
    if response.has_focus() && ui.input_mut(|input| input.consume_shortcut(&delete)) {
        view.push(QueueCommand::CancelGrid(id));
    }
}
