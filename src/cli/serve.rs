//! `safelight serve` and `safelight mcp`: queue, models and results for other programs, without a window.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Args;
use safelight_core::job::JobError;
use safelight_core::settings::LiveSettings;

use super::environment::{CliEnvironment, WorkerThreads};
use super::out;
use crate::server::link::{AppLink, link};
use crate::server::{self, DEFAULT_ADDRESS, RunningServer, ServerOptions};
use crate::window::app::StartupOptions;
use crate::window::desktop::instance::{self, InstanceStart};
use crate::window::{AppWaker, run_headless};

/// Serve images and videos to other programs and to a page, without a window
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Address and port. Others than this computer's own need a token, which is shown
    #[arg(long, value_name = "ADDRESS:PORT", default_value = DEFAULT_ADDRESS)]
    listen: SocketAddr,
}

/// Serve tools for language models (MCP) over standard input and output
#[derive(Args, Debug)]
pub struct McpArgs {}

pub fn run(args: &ServeArgs, environment: CliEnvironment) -> ExitCode {
    ended(serve(args, environment))
}

pub fn run_mcp(_: &McpArgs, environment: CliEnvironment) -> ExitCode {
    ended(serve_mcp(environment))
}

fn ended(result: Result<(), JobError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => out::print_job_error(&err, false),
    }
}

fn serve(args: &ServeArgs, environment: CliEnvironment) -> Result<(), JobError> {
    check_no_window()?;
    let options = ServerOptions::new(args.listen, &environment.paths)?;
    let token = options.token.clone();
    let app = HeadlessApp::new();
    let (link, app_link) = app.link();
    let server = server::start(link, options)?;
    let mut text = format!(
        "Safelight serves at http://{}\nPage: {}\n",
        server.address, server.page
    );
    if let Some(token) = token {
        let header = format!("Programs send the header `Authorization: Bearer {token}`\n");
        text.push_str(&header);
    }
    out::print(&text, 0);
    app.run(environment, (app_link, Some(server)));
    Ok(())
}

fn serve_mcp(environment: CliEnvironment) -> Result<(), JobError> {
    check_no_window()?;
    let app = HeadlessApp::new();
    let (link, app_link) = app.link();
    let uploads = environment.paths.uploads();
    let (stop, waker) = (Arc::clone(&app.stop), app.waker.0.clone());
    let client = thread::Builder::new().name("mcp".to_owned());
    let client = client.spawn(move || {
        let served = server::serve_stdio(link, uploads);
        stop.store(true, Ordering::Relaxed);
        waker.wake();
        served
    });
    let client = client.map_err(|err| JobError::disk("the server cannot start", &err))?;
    app.run(environment, (app_link, None));
    // One that still has an open standard input is not waited for.
    if client.is_finished() {
        return client.join().unwrap_or(Ok(()));
    }
    Ok(())
}

/// Fails while a window of this display has the queue.
fn check_no_window() -> Result<(), JobError> {
    match instance::start(&[]) {
        InstanceStart::First(_) | InstanceStart::Alone => Ok(()),
        InstanceStart::HandedOver => {
            let text = "Safelight's window is open and has the queue";
            let advice = "Switch the server on in its settings, or close the window";
            Err(JobError::invalid(text).advise(advice))
        }
    }
}

/// The app without a window, to be woken and stopped.
struct HeadlessApp {
    waker: (AppWaker, crossbeam_channel::Receiver<()>),
    stop: Arc<AtomicBool>,
}

impl HeadlessApp {
    fn new() -> Self {
        Self {
            waker: AppWaker::new(),
            stop: Arc::default(),
        }
    }

    fn link(&self) -> (server::link::ServerLink, AppLink) {
        let waker = self.waker.0.clone();
        link(move || waker.wake())
    }

    /// Runs until `stop` is set, or SIGINT or SIGTERM comes.
    fn run(self, environment: CliEnvironment, link: (AppLink, Option<RunningServer>)) {
        let (by_signal, wakes) = (Arc::clone(&self.stop), self.waker.0.clone());
        let handled = ctrlc::set_handler(move || {
            by_signal.store(true, Ordering::Relaxed);
            wakes.wake();
        });
        if let Err(err) = handled {
            tracing::warn!("the server cannot be stopped gracefully: {err}");
        }
        let live = LiveSettings::new(environment.loaded.settings.clone());
        let workers = WorkerThreads::default();
        let start_worker = workers.starter(&environment, &live);
        let startup = StartupOptions {
            live_settings: live,
            ..StartupOptions::new(environment.loaded, environment.paths)
        };
        let is_stopped = || self.stop.load(Ordering::Relaxed);
        run_headless(startup, link, self.waker, start_worker, is_stopped);
        workers.join();
    }
}
