//! `safelight download`: downloads a known model's missing files, after the user's confirmation.
//!
//! The catalogue lists a model's files; `crate::download` transfers them.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use safelight_core::catalog::{CatalogEntry, DownloadSource, ModelCatalog};
use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use safelight_core::settings::Settings;
use safelight_core::units::{measured_text, size_text};
use serde_json::json;

use super::generate::{CANCELLED, ended, print_event, progress_bar, say, stop_on_signal};
use super::{CliEnvironment, out};
use crate::download::{
    self, DownloadItem, DownloadOptions, DownloadPhase, DownloadStatus, ModelHub, RemoteQuote,
};
use crate::telemetry::host;

/// Interval of progress events for programs.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Download the missing files of a model; lists them and asks first
#[derive(Args, Debug)]
pub struct DownloadArgs {
    /// Model id from `safelight models`
    model: String,
    /// Model folder to download to [default: the app's own]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Download without asking
    #[arg(long, short)]
    yes: bool,
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    connections: u8,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DownloadArgs, environment: &CliEnvironment) -> ExitCode {
    let result = DownloadRun::new(args, environment).and_then(|download| download.run());
    ended(result, args.json)
}

struct DownloadRun<'a> {
    args: &'a DownloadArgs,
    environment: &'a CliEnvironment,
    models: PathBuf,
}

impl<'a> DownloadRun<'a> {
    fn new(args: &'a DownloadArgs, environment: &'a CliEnvironment) -> Result<Self, JobError> {
        let models = match &args.to {
            None => environment.paths.models(),
            Some(to) => std::path::absolute(to)
                .map_err(|err| JobError::from_error(JobErrorKind::InvalidRequest, &err))?,
        };
        if models.exists() && !models.is_dir() {
            let text = format!("this is a file, not a folder: {}", models.display());
            return Err(JobError::invalid(text));
        }
        Ok(Self {
            args,
            environment,
            models,
        })
    }

    fn run(&self) -> Result<u8, JobError> {
        let (catalog, _) = self.catalog();
        if let Some(spec) = catalog.available.iter().find(|it| it.id == self.args.model) {
            self.say_here(
                &format!("{} is already on this disk", spec.name),
                &spec.folder,
            );
            return Ok(0);
        }
        let known = catalog.missing.iter().find(|it| it.id == self.args.model);
        let Some(entry) = known else {
            let unknown = catalog.find(&self.args.model);
            let Err(err) = unknown else {
                self.say_here("This model is on this disk", Path::new(&self.args.model));
                return Ok(0);
            };
            return Err(err.into());
        };
        if entry.to_fetch().next().is_none() {
            return Err(nothing_to_fetch(entry, &catalog));
        }
        self.fetch(entry)
    }

    fn fetch(&self, entry: &CatalogEntry) -> Result<u8, JobError> {
        let hub = ModelHub::of_environment();
        let options = DownloadOptions {
            connections: usize::from(self.args.connections),
            token: hub.token.clone(),
            ..DownloadOptions::default()
        };
        let orders = download::orders(entry, &hub, &self.models);
        let job_error = |err| JobError::from(&err);
        // Until now there is nothing to keep, so an interrupt simply ends the program.
        let quotes = download::quote(&orders, &options, &CancelToken::default());
        let quotes = quotes.map_err(job_error)?.unwrap_or_default();
        self.list(entry, &orders, &quotes);
        download::ensure_space(&orders, &quotes).map_err(job_error)?;
        if !self.may_begin()? {
            self.say_cancelled();
            return Ok(CANCELLED);
        }
        let cancel = CancelToken::default();
        stop_on_signal(&cancel)?;
        let mut teller = DownloadPrinter::new(self.args.json);
        let fetched = download::download(&orders, &options, &cancel, &mut |progress| {
            teller.tell(progress);
        });
        teller.end();
        match fetched.map_err(job_error)? {
            None => {
                self.say_cancelled();
                Ok(CANCELLED)
            }
            Some(files) => self.finish(&files),
        }
    }

    /// The catalogue with the chosen folder among the searched ones, and whether it is one anyway.
    fn catalog(&self) -> (ModelCatalog, bool) {
        let (paths, settings) = (&self.environment.paths, self.environment.settings());
        let catalog = ModelCatalog::load(paths, settings);
        let is_searched = catalog
            .searched
            .iter()
            .any(|it| self.models.starts_with(&it.path));
        if is_searched || !self.models.is_dir() {
            return (catalog, is_searched);
        }
        let mut with_folder: Settings = settings.clone();
        with_folder.models.folders.push(self.models.clone());
        (ModelCatalog::load(paths, &with_folder), false)
    }

    fn list(&self, entry: &CatalogEntry, orders: &[DownloadItem], quotes: &[RemoteQuote]) {
        let all: Vec<(&DownloadSource, &DownloadItem, &RemoteQuote)> = entry
            .to_fetch()
            .zip(orders)
            .zip(quotes)
            .map(|((source, order), quote)| (source, order, quote))
            .collect();
        let left: u64 = quotes.iter().map(|quote| quote.left_bytes()).sum();
        let free = host::free_bytes(&self.models);
        let here = || entry.sources.iter().filter(|source| source.here.is_some());
        if self.args.json {
            let files = all.iter().map(|(source, order, quote)| {
                json!({
                    "component": source.component, "repository": source.repository, "path": source.path,
                    "to": order.to, "bytes": quote.bytes, "here_bytes": quote.here_bytes,
                })
            });
            print_event(&json!({
                "event": "plan", "model": entry.id, "name": entry.name, "licence": entry.licence,
                "folder": self.models, "files": files.collect::<Vec<_>>(),
                "here": here().collect::<Vec<_>>(), "left_bytes": left, "free_bytes": free,
            }));
            return;
        }
        say(&format!("{}, licence: {}", entry.name, entry.licence));
        say(&format!("To download to {}", self.models.display()));
        let rows = all.iter().map(|(source, _, quote)| {
            let kept = match quote.here_bytes {
                0 => String::new(),
                bytes => format!(", {} of it already here", size_text(bytes)),
            };
            vec![
                source.label.to_owned(),
                format!("{}/{}", source.folder, source.name),
                format!("{}{kept}", size_text(quote.bytes)),
                format!("from {}", source.repository),
            ]
        });
        say(out::table(&rows.collect::<Vec<_>>()).trim_end_matches('\n'));
        if here().next().is_some() {
            say("Already here");
            let rows = here().map(|source| {
                let place = source.here.as_ref().map(|it| it.display().to_string());
                vec![source.label.to_owned(), place.unwrap_or_default()]
            });
            say(out::table(&rows.collect::<Vec<_>>()).trim_end_matches('\n'));
        }
        let free = free.map_or_else(String::new, |free| {
            format!(", {} free there", size_text(free))
        });
        say(&format!("{} to download{free}", size_text(left)));
    }

    /// Asks, unless that was settled before.
    fn may_begin(&self) -> Result<bool, JobError> {
        if self.args.yes {
            return Ok(true);
        }
        out::ask("Download?", "download", self.args.json)
    }

    /// Says what came, and whether the model works now.
    fn finish(&self, files: &[PathBuf]) -> Result<u8, JobError> {
        let id = &self.args.model;
        let (catalog, is_searched) = self.catalog();
        let spec = catalog.find(id).map_err(|err| {
            // A problem of the downloaded files is more useful than that the model is missing.
            let entry = catalog.missing.iter().find(|entry| entry.id == *id);
            let all_here = entry.filter(|entry| entry.to_fetch().next().is_none());
            all_here.map_or_else(
                || JobError::from(&err),
                |entry| nothing_to_fetch(entry, &catalog),
            )
        })?;
        if self.args.json {
            print_event(&json!({
                "event": "finished", "model": id, "files": files, "folder": spec.folder,
                "is_searched": is_searched,
            }));
            return Ok(0);
        }
        say(&format!("{} is complete", spec.name));
        if is_searched {
            say(&format!("Use it with `safelight generate --model {id}`"));
        } else {
            say(&format!(
                "Add the folder to models.folders in the settings so that it is found: {}",
                self.models.display()
            ));
        }
        let mut names = String::new();
        for path in files {
            writeln!(names, "{}", path.display()).ok(); // Writing to a string cannot fail.
        }
        out::print(&names, 0);
        Ok(0)
    }

    fn say_here(&self, what: &str, folder: &Path) {
        if self.args.json {
            let id = &self.args.model;
            print_event(&json!({"event": "finished", "model": id, "files": [], "folder": folder}));
        } else {
            say(&format!("{what}: {}", folder.display()));
        }
    }

    fn say_cancelled(&self) {
        if self.args.json {
            print_event(&json!({"event": "cancelled"}));
        } else {
            say("Cancelled. What was downloaded is kept: run the same command again to continue");
        }
    }
}

/// Why a model that is not complete cannot be fetched.
fn nothing_to_fetch(entry: &CatalogEntry, catalog: &ModelCatalog) -> JobError {
    if entry.sources.is_empty() {
        let text = format!("Safelight does not know where to download {}", entry.name);
        return JobError::new(JobErrorKind::BadModel, text).advise(format!("Get {}", entry.what));
    }
    let what = format!(
        "all files of {} are here, but it cannot be used",
        entry.name
    );
    let problems = catalog.problems.iter().chain(&catalog.unsupported);
    let said: Vec<String> = problems.map(ToString::to_string).collect();
    JobError::new(JobErrorKind::BadModel, what).advise(format!(
        "`safelight models` lists what is wrong: {}",
        said.join("; ")
    ))
}

/// Tells how far it is: a bar on a terminal, a line a file elsewhere, JSON lines for programs.
struct DownloadPrinter {
    bar: ProgressBar,
    is_json: bool,
    is_terminal: bool,
    last: Option<(String, DownloadPhase)>,
    reported_at: Instant,
}

impl DownloadPrinter {
    fn new(is_json: bool) -> Self {
        let is_terminal = io::stderr().is_terminal() && !is_json;
        let template = "{prefix} {bar:30.red} {bytes}/{total_bytes}  {msg}";
        Self {
            bar: progress_bar(is_terminal, template),
            is_json,
            is_terminal,
            last: None,
            reported_at: Instant::now(),
        }
    }

    fn tell(&mut self, progress: &DownloadStatus) {
        let now = (progress.name.clone(), progress.phase);
        let is_new = self.last.as_ref() != Some(&now);
        if self.is_json {
            if is_new || self.reported_at.elapsed() > TELL_EVERY {
                self.reported_at = Instant::now();
                print_event(&json!({
                    "event": "progress", "phase": phase_name(progress.phase), "file": progress.name,
                    "done_bytes": progress.done_bytes, "total_bytes": progress.total_bytes,
                    "bytes_per_sec": progress.bytes_per_sec, "secs_left": progress.secs_left(),
                }));
            }
        } else if self.is_terminal {
            self.bar.set_length(progress.total_bytes.max(1));
            self.bar.set_position(progress.done_bytes);
            self.bar.set_prefix(progress.name.clone());
            self.bar.set_message(message(progress));
        } else if is_new && progress.phase != DownloadPhase::Asking {
            say(&format!("{} {}", phase_name(progress.phase), progress.name));
        }
        self.last = Some(now);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn phase_name(phase: DownloadPhase) -> &'static str {
    match phase {
        DownloadPhase::Asking => "asking",
        DownloadPhase::Fetching => "downloading",
        DownloadPhase::Checking => "checking",
    }
}

fn message(progress: &DownloadStatus) -> String {
    match (progress.phase, progress.secs_left()) {
        (DownloadPhase::Fetching, Some(secs)) => {
            let speed = size_text(progress.bytes_per_sec as u64);
            format!("{speed}/s  {} left", measured_text(secs))
        }
        (DownloadPhase::Fetching, None) => "waiting".to_owned(),
        (phase, _) => phase_name(phase).to_owned(),
    }
}
