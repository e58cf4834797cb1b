//! The memory panel: what the form's job would need, and the graph of the running job or the last one with what was
//! expected of it.
//!
//! What is not known is not drawn.

mod expected;
mod graph;
mod legend;
mod plan;
mod words;

use egui::{Color32, Ui};
use safelight_core::job::MemorySample;

use crate::app::memory::MemoryHistory;
use crate::ui::View;
use crate::ui::theme::{self, Palette};
use crate::ui::widgets::palette;

pub(super) use plan::{summary_ui, warning_ui};

/// One line of the graph.
struct Series {
    name: &'static str,
    explanation: &'static str,
    colour: Color32,
    bytes: fn(&MemorySample) -> u64,
    /// Drawn thin: it is the machine's, and not the job's.
    is_thin: bool,
}

/// Everything about memory, in at most this height as far as that is possible.
pub(super) fn memory_ui(ui: &mut Ui, view: &mut View<'_>, height: f32) {
    plan::plan_ui(ui, view);
    let series = series(palette(ui));
    if legend::shows_plan(view) {
        expected::expected_ui(ui, view, height);
        return;
    }
    let room = Room::below(ui, height);
    legend::legend_ui(ui, view, &series);
    let history = view.app.queue.memory();
    let is_running = view.app.queue.running.is_some();
    if let Some(last) = history.last() {
        legend::machine_ui(ui, history, last, &series);
        if !is_running {
            words::last_job_ui(ui, history);
        }
        let height = room.left(ui);
        graph::plot_ui(ui, history, &series, height, is_running);
    } else if is_running {
        ui.add_space(room.left(ui));
    }
}

/// The place of a graph and of the lines above it, equally high before a job, while it runs and behind it: the picture
/// above does not jump.
struct Room {
    top: f32,
    height: f32,
}

impl Room {
    /// Below what stands already, in a panel of this height.
    fn below(ui: &Ui, height: f32) -> Self {
        let top = ui.min_rect().height() + ui.spacing().item_spacing.y;
        let height = (height - top).clamp(theme::GRAPH_MIN_HEIGHT, theme::GRAPH_HEIGHT);
        Self { top, height }
    }

    /// What the lines leave the graph.
    fn left(&self, ui: &Ui) -> f32 {
        let taken = ui.min_rect().height() + ui.spacing().item_spacing.y - self.top;
        (self.height - taken).max(theme::GRAPH_MIN_HEIGHT)
    }
}

fn series(palette: &Palette) -> [Series; 5] {
    [
        Series {
            name: words::USED,
            explanation: words::USED_HOVER,
            colour: palette.used,
            bytes: |sample| sample.used_bytes,
            is_thin: false,
        },
        Series {
            name: words::ALLOCATED,
            explanation: words::ALLOCATED_HOVER,
            colour: palette.allocated,
            bytes: |sample| sample.allocated_bytes,
            is_thin: false,
        },
        Series {
            name: words::RESERVED,
            explanation: words::RESERVED_HOVER,
            colour: palette.reserved,
            bytes: |sample| sample.reserved_bytes,
            is_thin: false,
        },
        Series {
            name: words::PAGE_CACHE,
            explanation: words::PAGE_CACHE_HOVER,
            colour: palette.cache,
            bytes: |sample| sample.machine.page_cache_bytes.unwrap_or(0),
            is_thin: true,
        },
        Series {
            name: words::FREE,
            explanation: words::FREE_HOVER,
            colour: palette.available,
            bytes: |sample| sample.machine.host_available_bytes.unwrap_or(0),
            is_thin: true,
        },
    ]
}

/// An engine that cannot tell a figure leaves it at zero.
fn is_known(history: &MemoryHistory, line: &Series) -> bool {
    history
        .samples()
        .iter()
        .any(|sample| (line.bytes)(sample) > 0)
}
