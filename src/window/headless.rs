//! The app without a window: a loop that runs a round on each wake-up until it is stopped.

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use egui::Context;

use crate::server::RunningServer;
use crate::server::link::AppLink;
use crate::window::WakeFn;
use crate::window::app::{SafelightApp, StartupOptions};
use crate::worker::WorkerHandle;

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

/// Runs the app with the calls of a server until `is_stopped` says so, and then ends the server. `start_worker` is called
/// for each device, with a closure that wakes the app.
pub fn run(
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
