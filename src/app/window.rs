//! Opening the native window: wgpu on Vulkan (or Metal, DX12), on OpenGL where there is no other.
//!
//! It prints nothing: a window that cannot be opened is an error with a sentence for the caller.

use std::sync::Arc;
use std::time::Duration;

use egui::{IconData, ViewportBuilder};

use crate::app::desktop::{APP_ID, place};
use crate::app::{App, StartupOptions};
use crate::starting;
use crate::ui::theme;
use crate::worker::WorkerHandle;

/// Bursts of events cost one repaint.
const WAKE_AFTER: Duration = Duration::from_millis(16);

/// Wakes the window; may be called from any thread.
pub type Wake = Box<dyn Fn() + Send>;

/// Why there is no window.
#[derive(Debug, thiserror::Error)]
#[error(
    "no window could be opened ({reason}); Safelight needs a desktop (X11 or Wayland) with Vulkan or OpenGL, and `safelight generate` works without one"
)]
pub struct WindowError {
    reason: String,
}

/// Opens the window and returns when it is closed. `start_worker` is called once, with a closure
/// that wakes the window.
pub fn run<E: std::error::Error + Send + Sync + 'static>(
    startup: StartupOptions,
    start_worker: impl FnOnce(Wake) -> Result<WorkerHandle, E>,
) -> Result<(), WindowError> {
    let storage = startup
        .paths
        .as_ref()
        .map(|paths| paths.data.join("window.ron"));
    let scale = startup.settings.interface.scale;
    let options = eframe::NativeOptions {
        window_builder: Some(Box::new(move |builder| place::at_scale(builder, scale))),
        viewport: ViewportBuilder::default()
            .with_title("Safelight")
            .with_app_id(APP_ID)
            .with_inner_size(theme::WINDOW_SIZE)
            .with_min_inner_size(theme::WINDOW_MIN_SIZE)
            .with_icon(Arc::new(icon())),
        renderer: eframe::Renderer::Wgpu,
        centered: true,
        persistence_path: storage,
        ..Default::default()
    };
    let create = Box::new(|cc: &eframe::CreationContext<'_>| {
        starting::passed("window and graphics opened");
        let ctx = cc.egui_ctx.clone();
        let worker = start_worker(Box::new(move || ctx.request_repaint_after(WAKE_AFTER)))?;
        let app = App::new(cc, worker, startup);
        starting::passed("state restored");
        Ok(Box::new(app) as Box<dyn eframe::App>)
    });
    eframe::run_native("Safelight", options, create).map_err(|err| WindowError {
        reason: without_source_place(&err.to_string()).to_owned(),
    })
}

/// The cause alone: the window library names the line of its own source before it.
fn without_source_place(text: &str) -> &str {
    let cause = text
        .rsplit_once(".rs:")
        .and_then(|(_, rest)| rest.split_once(": "));
    cause.map_or(text, |(_, cause)| cause).trim_end_matches('.')
}

/// The window's icon; none at all would be egui's own.
fn icon() -> IconData {
    eframe::icon_data::from_png_bytes(include_bytes!("../../assets/icons/safelight-256.png"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_stands_without_the_place_in_someones_source() {
        let text =
            "winit error: os error at /home/a/winit/src/linux/mod.rs:765: no DISPLAY is set.";
        assert_eq!(without_source_place(text), "no DISPLAY is set");
        assert_eq!(
            without_source_place("WGPU error: no adapter"),
            "WGPU error: no adapter"
        );
    }
}
