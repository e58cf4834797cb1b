//! Threads of the gallery: one keeps the index of results, one scans their folders, and two read result files.

use std::collections::VecDeque;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, after, never, select};
use safelight_core::gallery::{
    FoundFile, GalleryFilter, GalleryIndex, GalleryItem, GalleryQuery, GalleryScan, GalleryScanner,
    MarkChange, ResultMetadata, ThumbFolder, read_facts,
};

use crate::window::background::{NOT_SURVIVED, guarded};
use crate::window::prelude::*;

/// Interval of folder scans while the gallery is open.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Minimum interval of listings while files change.
const LIST_EVERY: Duration = Duration::from_millis(150);
/// So much is taken in before the window is heard again.
const AT_ONCE: usize = 1000;
/// Delay after the last change before the index is saved.
const SAVE_AFTER: Duration = Duration::from_secs(2);
/// Interval of saves while many files are read.
const SAVE_EVERY: Duration = Duration::from_secs(30);
/// Two, so that one large file does not hold up all others.
pub(super) const NUM_READERS: usize = 2;

pub(super) enum IndexCommand {
    Scanned(GalleryScan),
    Read(FoundFile, Result<ResultMetadata, String>),
    Ask(GalleryQuery),
    Mark(MarkChange),
    Gone(Vec<PathBuf>),
}

pub(super) enum ScanCommand {
    Watch(Vec<PathBuf>),
    Look,
    /// The gallery is closed.
    Rest,
}

pub(super) enum IndexEvent {
    Listed(GalleryQuery, GalleryListing),
    Marked(Result<(), JobError>),
}

#[derive(Clone, Debug, Default)]
pub struct GalleryListing {
    pub items: Vec<Arc<GalleryItem>>,
    /// All that find something, each with the number of results, regardless of the query.
    pub filters: Vec<(GalleryFilter, usize)>,
    /// Number of all results, regardless of the query.
    pub num_all: usize,
    pub num_unread: usize,
    /// True while more files are being found.
    pub is_looking: bool,
    /// Scans of all folders so far.
    pub num_scans: u64,
    /// Folders that cannot be read, a sentence each.
    pub problems: Vec<String>,
}

pub(super) fn scan(orders: &Receiver<ScanCommand>, index: &Sender<IndexCommand>) {
    let mut scanner = None;
    loop {
        let order = match scanner {
            Some(_) => orders.recv_timeout(LOOK_EVERY),
            None => orders.recv().map_err(RecvTimeoutError::from),
        };
        match order {
            Ok(ScanCommand::Watch(folders)) => scanner = Some(GalleryScanner::new(folders)),
            Ok(ScanCommand::Rest) => scanner = None,
            Ok(ScanCommand::Look) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if let Some(scanner) = &mut scanner {
            // Another order ends a long look.
            let mut tell =
                |part| orders.is_empty() && index.send(IndexCommand::Scanned(part)).is_ok();
            if let Some(scan) = scanner.scan(&mut tell)
                && index.send(IndexCommand::Scanned(scan)).is_err()
            {
                return;
            }
        }
    }
}

pub(super) struct ResultIndex {
    index: GalleryIndex,
    /// Files to read, the newest first: those are waited for.
    unread: VecDeque<FoundFile>,
    readers: Sender<FoundFile>,
    query: GalleryQuery,
    problems: Vec<String>,
    is_looking: bool,
    num_scans: u64,
    is_stale: bool,
    listed_at: Option<Instant>,
    saved_at: Instant,
}

impl ResultIndex {
    /// Receives requests of the window first, then those of other threads, which may wait.
    pub fn run(
        paths: &AppPaths,
        queries: &Receiver<IndexCommand>,
        commands: &Receiver<IndexCommand>,
        readers: Sender<FoundFile>,
        postbox: &TaskChannel<IndexEvent>,
    ) {
        let (index, problem) = GalleryIndex::open(paths.gallery_index(), paths.favourites_file());
        if let Some(err) = problem {
            postbox.post(IndexEvent::Marked(Err(marks_error(&err))));
        }
        ThumbFolder::new(paths.thumbnails()).prune();
        let mut this = Self {
            index,
            unread: VecDeque::new(),
            readers,
            query: GalleryQuery::default(),
            problems: Vec::new(),
            is_looking: true,
            num_scans: 0,
            is_stale: false,
            listed_at: None,
            saved_at: Instant::now(),
        };
        loop {
            match this.next(queries, commands) {
                Ok(command) => {
                    this.take(command, postbox);
                    // Changes that arrived meanwhile count as one.
                    for command in commands.try_iter().take(AT_ONCE) {
                        this.take(command, postbox);
                    }
                    this.have_read();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            this.settle(postbox);
        }
        this.save();
    }

    /// Sleeps as long as there is nothing to do.
    fn next(
        &self,
        queries: &Receiver<IndexCommand>,
        commands: &Receiver<IndexCommand>,
    ) -> Result<IndexCommand, RecvTimeoutError> {
        let timeout = if self.is_stale {
            after(LIST_EVERY.saturating_sub(self.listed_at.map_or(LIST_EVERY, |at| at.elapsed())))
        } else if self.index.is_index_old() {
            after(SAVE_AFTER)
        } else {
            never()
        };
        select! {
            recv(queries) -> command => command.map_err(RecvTimeoutError::from),
            recv(commands) -> command => command.map_err(RecvTimeoutError::from),
            recv(timeout) -> _ => Err(RecvTimeoutError::Timeout),
        }
    }

    fn take(&mut self, command: IndexCommand, postbox: &TaskChannel<IndexEvent>) {
        match command {
            IndexCommand::Scanned(scan) => {
                self.is_looking = !scan.is_whole;
                if scan.is_whole {
                    self.num_scans += 1;
                    self.problems.clone_from(&scan.problems);
                }
                for found in self.index.put(scan).into_iter().rev() {
                    self.unread.push_front(found);
                }
                self.is_stale = true;
            }
            IndexCommand::Gone(paths) => {
                self.index.remove(&paths);
                self.list(postbox);
            }
            IndexCommand::Read(found, read) => self.is_stale |= self.index.take(&found, read),
            IndexCommand::Ask(query) => {
                self.query = query;
                self.list(postbox);
            }
            IndexCommand::Mark(change) => {
                let marked = self.index.mark(&change.paths, &change.mark, change.is_set);
                postbox.post(IndexEvent::Marked(marked.map_err(|err| marks_error(&err))));
                self.list(postbox);
            }
        }
    }

    fn have_read(&mut self) {
        while let Some(found) = self.unread.pop_front() {
            if let Err(refused) = self.readers.try_send(found) {
                self.unread.push_front(refused.into_inner());
                return;
            }
        }
    }

    fn settle(&mut self, postbox: &TaskChannel<IndexEvent>) {
        if self.is_stale {
            if self.listed_at.is_none_or(|at| at.elapsed() >= LIST_EVERY) {
                self.list(postbox);
            }
        } else if self.index.num_unread() == 0 || self.saved_at.elapsed() >= SAVE_EVERY {
            self.save();
        }
    }

    fn list(&mut self, postbox: &TaskChannel<IndexEvent>) {
        self.is_stale = false;
        let listing = GalleryListing {
            items: self.index.list(&self.query),
            filters: self.index.filters(),
            num_all: self.index.len(),
            num_unread: self.index.num_unread(),
            is_looking: self.is_looking,
            num_scans: self.num_scans,
            problems: self.problems.clone(),
        };
        postbox.post(IndexEvent::Listed(self.query.clone(), listing));
        self.listed_at = Some(Instant::now());
    }

    fn save(&mut self) {
        self.saved_at = Instant::now();
        if self.index.is_index_old()
            && let Err(err) = self.index.save_index()
        {
            // It is only read again.
            tracing::warn!("the gallery's index was not kept: {err}");
        }
    }
}

fn marks_error(err: &dyn std::error::Error) -> JobError {
    JobError::from_error(JobErrorKind::Disk, err)
        .advise(
        "Favourites and tags are lost when Safelight closes. Make that folder writable to keep them",
    )
}

pub(super) fn read(unread: &Receiver<FoundFile>, index: &Sender<IndexCommand>) {
    for found in unread {
        let facts = guarded(|| read_facts(&found.path).map_err(|err| err.to_string()));
        let facts = facts.unwrap_or_else(|| Err(NOT_SURVIVED.to_owned()));
        if index.send(IndexCommand::Read(found, facts)).is_err() {
            return;
        }
    }
}
