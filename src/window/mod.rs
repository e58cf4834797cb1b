//! The native window: an [`eframe::App`] that gives [`SafelightApp`] its turn and has the panels drawn.
//!
//! wgpu on Vulkan (or Metal, DX12), on OpenGL where there is no other. It prints nothing: a window that cannot be opened
//! is an error with a sentence for the caller. Without a window the app is a loop that runs a round on each wake-up.

pub mod app;
pub mod background;
pub mod commands;
pub mod computers;
pub mod context;
pub mod create;
pub mod desktop;
pub mod devices;
pub mod doctor;
pub mod downloads;
pub mod gallery;
pub mod inputs;
pub mod layout;
pub mod library;
pub mod loras;
pub mod mask;
pub mod memory;
pub mod notices;
pub mod palette;
mod prelude;
pub mod presets;
pub mod prompt;
pub mod queue;
pub mod restore;
pub mod results;
pub mod runtimes;
pub mod server;
pub mod settings;
pub mod shortcuts;
pub mod state;
mod state_writer;
pub mod tabs;
pub mod thumbnails;
mod update;
pub mod viewer;
pub mod widgets;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use egui::{Context, IconData, RawInput, Ui, ViewportBuilder, ViewportCommand};

use crate::server::RunningServer;
use crate::server::link::AppLink;
use crate::window::app::{SafelightApp, StartupOptions};
use crate::window::desktop::{APP_ID, window_position};
use crate::window::devices::StartWorker;
use crate::window::inputs::wayland_drop;
use crate::window::layout::view::PanelStates;
use crate::window::state::MainPage;
use crate::window::widgets::theme;
use crate::worker::WorkerHandle;

/// Bursts of events cost one repaint.
const WAKE_AFTER: Duration = Duration::from_millis(16);

/// Wakes the window; may be called from any thread.
pub type WakeFn = Box<dyn Fn() + Send>;

/// Why there is no window.
#[derive(Debug, thiserror::Error)]
#[error(
    "no window could be opened ({reason}); Safelight needs a desktop (X11 or Wayland) with Vulkan or OpenGL, and `safelight generate` works without one"
)]
pub struct WindowError {
    reason: String,
}

/// Opens the window and returns when it is closed. `start_worker` is called for each device, with a closure that wakes the
/// window.
pub fn run(
    startup: StartupOptions,
    mut start_worker: impl FnMut(WakeFn) -> io::Result<WorkerHandle> + 'static,
) -> Result<(), WindowError> {
    let storage = startup
        .paths
        .as_ref()
        .map(|paths| paths.data.join("window.ron"));
    let scale = startup.settings.interface.scale;
    let options = eframe::NativeOptions {
        window_builder: Some(Box::new(move |builder| {
            window_position::at_scale(builder, scale)
        })),
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
        let ctx = cc.egui_ctx.clone();
        let start_worker = move || {
            let ctx = ctx.clone();
            start_worker(Box::new(move || ctx.request_repaint_after(WAKE_AFTER)))
        };
        let window = AppWindow::new(cc, Box::new(start_worker), startup);
        Ok(Box::new(window) as Box<dyn eframe::App>)
    });
    eframe::run_native("Safelight", options, create).map_err(|err| WindowError {
        reason: without_source_place(&err.to_string()).to_owned(),
    })
}

/// Cause only: the window library prefixes the line of its source.
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

/// The app with what its panels remember for themselves.
pub struct AppWindow {
    pub app: SafelightApp,
    pub panels: PanelStates,
    num_frames: u64,
    /// Its place was looked at.
    is_placed: bool,
}

impl AppWindow {
    pub fn new(
        cc: &eframe::CreationContext<'_>,
        start_worker: StartWorker,
        startup: StartupOptions,
    ) -> Self {
        let ctx = &cc.egui_ctx;
        theme::install(ctx);
        widgets::install_focus(ctx);
        // The settings' own keys do it.
        ctx.options_mut(|options| options.zoom_with_keyboard = false);
        // Nothing was saved yet, and no arguments were given.
        let is_first_start =
            cc.storage.is_some() && startup.remembered.is_none() && startup.files.is_empty();
        let mut app = SafelightApp::new(ctx, start_worker, startup, wayland_drop::listen(cc));
        if is_first_start {
            app.cx.page = MainPage::Welcome;
        }
        Self {
            app,
            panels: PanelStates::default(),
            num_frames: 0,
            is_placed: false,
        }
    }
}

impl eframe::App for AppWindow {
    fn logic(&mut self, ctx: &Context, frame: &mut eframe::Frame) {
        if self.num_frames == 1 {
            tracing::info!("the first frame is shown");
        }
        if !std::mem::replace(&mut self.is_placed, true) {
            window_position::correct(ctx, frame, theme::WINDOW_MIN_SIZE);
            // It may have been closed while an image had the whole screen.
            ctx.send_viewport_cmd(ViewportCommand::Fullscreen(false));
        }
        self.app.step();
    }

    fn raw_input_hook(&mut self, _ctx: &Context, input: &mut RawInput) {
        self.app.drops.forget_stale(input);
    }

    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        self.num_frames += 1;
        let (drawn, commands) = layout::draw(ui, &mut self.app, &mut self.panels);
        self.app.take_frame(drawn, commands);
    }

    /// Anything that should outlive the window is in the app's file; a half-scrolled form should not.
    fn persist_egui_memory(&self) -> bool {
        false
    }

    fn on_exit(&mut self) {
        self.app.close();
    }
}

/// Longest time between two rounds.
const IDLE: Duration = Duration::from_secs(1);
/// Time for a cancelled job to end before the program exits.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// A burst of events costs one round.
const REST: Duration = Duration::from_millis(4);

/// Wakes the app; may be called from any thread.
#[derive(Clone)]
pub struct AppWaker {
    wake: Sender<()>,
}

impl AppWaker {
    pub fn new() -> (Self, Receiver<()>) {
        let (wake, woken) = bounded(1);
        (Self { wake }, woken)
    }

    pub fn wake(&self) {
        // A full channel wakes it already.
        self.wake.try_send(()).ok();
    }
}

/// Runs the app without a window, with the calls of a server until `is_stopped` says so, and then ends the server. `start_worker` is called
/// for each device, with a closure that wakes the app.
pub fn run_headless(
    startup: StartupOptions,
    (link, server): (AppLink, Option<RunningServer>),
    (waker, woken): (AppWaker, Receiver<()>),
    mut start_worker: impl FnMut(WakeFn) -> io::Result<WorkerHandle> + 'static,
    is_stopped: impl Fn() -> bool,
) {
    let ctx = Context::default();
    let (by_ctx, by_worker) = (waker.clone(), waker);
    ctx.set_request_repaint_callback(move |info| {
        if info.delay < IDLE {
            by_ctx.wake();
        }
    });
    let start_worker = move || {
        let waker = by_worker.clone();
        start_worker(Box::new(move || waker.wake()))
    };
    let mut app = SafelightApp::new(&ctx, Box::new(start_worker), startup, None);
    app.is_headless = true;
    app.server.serve(link);
    while !is_stopped() {
        app.step();
        woken.recv_timeout(IDLE).ok();
        std::thread::sleep(REST);
    }
    drop(server);
    // Clients that were waiting have cancelled their jobs.
    let begin = Instant::now();
    app.step();
    let is_cancelling = |app: &SafelightApp| {
        let mut jobs = app.queue.running.iter();
        jobs.any(|job| job.cancel.is_cancelled())
    };
    while is_cancelling(&app) && begin.elapsed() < CANCEL_GRACE {
        woken.recv_timeout(REST).ok();
        app.step();
    }
    app.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_cause_is_shown_without_its_source_location() {
        let text =
            "winit error: os error at /home/a/winit/src/linux/mod.rs:765: no DISPLAY is set.";
        assert_eq!(without_source_place(text), "no DISPLAY is set");
        assert_eq!(
            without_source_place("WGPU error: no adapter"),
            "WGPU error: no adapter"
        );
    }
}
