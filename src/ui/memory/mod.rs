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
use crate::ui::theme::Palette;
use crate::ui::widgets::palette;

/// One line of the graph.
struct Series {
    name: &'static str,
    explanation: &'static str,
    colour: Color32,
    bytes: fn(&MemorySample) -> u64,
    /// Drawn thin: it is the machine's, and not the job's.
    is_thin: bool,
}

pub(super) fn memory_ui(ui: &mut Ui, view: &mut View<'_>) {
    plan::plan_ui(ui, view);
    let series = series(palette(ui));
    let shows_plan = legend::choose_ui(ui, view);
    if shows_plan {
        expected::expected_ui(ui, view);
        return;
    }
    legend::legend_ui(ui, view, &series);
    let history = view.queue.memory();
    if let Some(last) = history.last() {
        legend::machine_ui(ui, history, last, &series);
        if view.queue.running.is_none() {
            words::last_job_ui(ui, history);
        }
        graph::plot_ui(ui, history, &series, view.queue.running.is_some());
    }
}

fn series(palette: &Palette) -> [Series; 5] {
    [
        Series {
            name: "Used",
            explanation: "What all programs use on the device; on the CPU, what the engine has in memory",
            colour: palette.used,
            bytes: |sample| sample.used_bytes,
            is_thin: false,
        },
        Series {
            name: "Allocated",
            explanation: "Tensors that are alive, weights included",
            colour: palette.allocated,
            bytes: |sample| sample.allocated_bytes,
            is_thin: false,
        },
        Series {
            name: "Reserved",
            explanation: "What the allocator holds, in use or kept for later",
            colour: palette.reserved,
            bytes: |sample| sample.reserved_bytes,
            is_thin: false,
        },
        Series {
            name: "Page cache",
            explanation: "Files that the system keeps in main memory, and gives up when it is wanted",
            colour: palette.cache,
            bytes: |sample| sample.machine.page_cache_bytes.unwrap_or(0),
            is_thin: true,
        },
        Series {
            name: "Free",
            explanation: "What programs can still get of main memory",
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
