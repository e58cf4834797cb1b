//! HTTP server on the app's queue, models and results: OpenAI's endpoints, jobs, A1111's endpoints, and a page.
//!
//! [`link`] leads to the app, `access` checks clients. Handlers read files and encode images on the server's threads, so
//! that no request holds up the app.

mod a1111;
mod access;
mod access_token;
mod api;
mod body;
mod context;
mod error;
mod form;
mod image_stream;
mod job_orders;
mod jobs;
pub mod link;
mod mcp;
mod openai;
mod page;
mod pending;
mod postprocess;
mod results;
mod uploads;
mod videos;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::get;
use axum::{Json, Router};
use safelight_core::job::{JobError, JobErrorKind};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use api::ApiRoutes;
use context::ServerContext;
pub use context::ServerOptions;
use link::ServerLink;

/// Time that open connections have to end.
const GRACE: Duration = Duration::from_millis(500);
const THREADS: usize = 2;

pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7860";

/// A running server; it ends when this is dropped.
pub struct RunningServer {
    pub address: SocketAddr,
    /// Address of the page, with the token where it needs one.
    pub page: String,
    /// Its end stops the server.
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Listens, and serves on new threads.
pub fn start(link: ServerLink, options: ServerOptions) -> Result<RunningServer, JobError> {
    let refused = |err: io::Error| {
        let what = format!("the address {} cannot be used: {err}", options.address);
        JobError::new(JobErrorKind::Network, what)
            .advise("Choose another port, or end the program that uses this one")
    };
    let listener = TcpListener::bind(options.address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let runtime = server_runtime()?;
    uploads::remove_old(&options.uploads);
    let page = page_address(address, options.token.as_deref());
    let (stop, stopped) = watch::channel(());
    let context = ServerContext::new(link, options);
    let mut is_stopped = stopped.clone();
    let serve = async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(err) => return tracing::error!("the server could not start: {err}"),
        };
        tokio::spawn(context.clone().watch());
        let served = axum::serve(listener, router(context)).with_graceful_shutdown(async move {
            is_stopped.changed().await.ok();
        });
        if let Err(err) = served.await {
            tracing::error!("the server ended: {err}");
        }
    };
    let thread = thread::Builder::new().name("server".to_owned());
    let thread = thread.spawn(move || {
        let mut is_stopped = stopped;
        runtime.block_on(async move {
            let serving = tokio::spawn(serve);
            is_stopped.changed().await.ok();
            // Streams of events have no end of their own.
            tokio::time::timeout(GRACE, serving).await.ok();
        });
        runtime.shutdown_timeout(GRACE);
    });
    Ok(RunningServer {
        address,
        page,
        stop: Some(stop),
        thread: Some(thread.map_err(|err| JobError::disk("the server cannot start", &err))?),
    })
}

/// Serves a client of MCP at standard input and output; returns when it is gone.
pub fn serve_stdio(link: ServerLink, uploads: PathBuf) -> Result<(), JobError> {
    let runtime = server_runtime()?;
    let options = ServerOptions {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        token: None,
        uploads,
    };
    runtime.block_on(mcp::serve_stdio(ServerContext::new(link, options)));
    runtime.shutdown_timeout(GRACE);
    Ok(())
}

fn server_runtime() -> Result<Runtime, JobError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("server")
        .enable_all()
        .build();
    runtime.map_err(|err| JobError::disk("the server cannot start", &err))
}

/// Address of the page as browsers take it. For an address of all networks that of the network which leads outwards.
fn page_address(address: SocketAddr, token: Option<&str>) -> String {
    let mut reached = address;
    if address.ip().is_unspecified() {
        // Nothing is sent: the system only chooses the network.
        let outwards = UdpSocket::bind((address.ip(), 0));
        let chosen = outwards.and_then(|socket| {
            socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
            socket.local_addr()
        });
        reached.set_ip(chosen.map_or_else(|_| Ipv4Addr::LOCALHOST.into(), |chosen| chosen.ip()));
    }
    let token = token.map_or_else(String::new, |token| format!("?token={token}"));
    format!("http://{reached}/{token}")
}

fn router(context: ServerContext) -> Router {
    let mut api = ApiRoutes::new();
    openai::routes(&mut api);
    videos::routes(&mut api);
    jobs::routes(&mut api);
    postprocess::routes(&mut api);
    results::routes(&mut api);
    a1111::routes(&mut api);
    let (api, document) = api.finish();
    api.merge(page::routes())
        .route("/openapi.json", get(async move || Json(document)))
        .merge(mcp::service(context.clone()))
        .fallback(error::no_such_address)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(context.clone(), access::check))
        .layer(map_response(error::in_own_form))
        .layer(from_fn_with_state(context.clone(), body::check))
        .with_state(context)
}
