//! The gallery: all results in their folders, the selection, and the actions on it.
//!
//! Folders and files are read on threads.

mod index_thread;
pub mod panel;
mod selection;
mod trashing;

use std::cell::RefCell;

use crossbeam_channel::{Sender, bounded};
use safelight_core::gallery::{GalleryItem, GalleryQuery, MarkChange, ResultMark};
use safelight_core::settings::OutputSettings;

use crate::server::link::StoredResults;
use crate::window::background::BackgroundThreads;
use crate::window::create::choices::{GalleryLook, TrashRequest};
use crate::window::create::undo::UndoAction;
use crate::window::prelude::*;
use crate::window::queue::JobQueue;

pub use index_thread::GalleryListing;
use index_thread::{IndexCommand, IndexEvent, NUM_READERS, ResultIndex, ScanCommand};
pub use selection::GallerySelection;
use trashing::TrashBin;

/// Time that the folders are watched after a client of the server wanted the results.
const SERVED_SECS: f64 = 60.0;
/// Commands that may wait for the index thread; readers block, the window keeps its own.
const COMMAND_ROOM: usize = 256;

/// The chosen results, as of these revisions of the choice and of the list.
type KnownChoice = ((u64, u64), Arc<[Arc<GalleryItem>]>);

#[derive(Default)]
pub struct GalleryState {
    pub look: GalleryLook,
    folders: Vec<PathBuf>,
    output: OutputSettings,
    pub query: GalleryQuery,
    /// `None` before the first answer.
    pub listing: Option<GalleryListing>,
    pub selection: GallerySelection,
    /// The chosen ones, of the choice and the list with these numbers.
    chosen: RefCell<Option<KnownChoice>>,
    /// Number of lists so far.
    pub generation: u64,
    /// Counts how often the choice went to where it may not be seen.
    pub num_moves: u64,
    bin: TrashBin,
    is_open: bool,
    is_following: bool,
    /// Time until which the folders are watched for clients of the server.
    served_until: f64,
    /// Scans before the folders were watched.
    scans_before: u64,
    /// True if the neighbour of a deleted result is to be selected.
    moves_on: bool,
    threads: Option<GalleryThreads>,
}

impl GalleryState {
    pub fn new(look: GalleryLook) -> Self {
        Self {
            look,
            ..Self::default()
        }
    }

    pub fn items(&self) -> &[Arc<GalleryItem>] {
        self.listing.as_ref().map_or(&[], |listing| &listing.items)
    }

    /// At most `count` results, the newest first.
    pub fn newest(&self, count: usize) -> Vec<Arc<GalleryItem>> {
        let mut items: Vec<&Arc<GalleryItem>> = self.items().iter().collect();
        items.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.stamp.modified_ns));
        items.into_iter().take(count).map(Arc::clone).collect()
    }

    pub fn current(&self) -> Option<&Arc<GalleryItem>> {
        let cursor = self.selection.cursor_at();
        let at_cursor = cursor.and_then(|at| self.items().get(at));
        at_cursor
            .filter(|entry| self.selection.contains(&entry.path))
            .or_else(|| self.selection.entries(self.items()).next())
    }

    /// Path of a result relative to its result folder.
    pub fn place_of<'a>(&self, path: &'a Path) -> &'a Path {
        let mut below = self
            .folders
            .iter()
            .filter_map(|folder| path.strip_prefix(folder).ok());
        below.next().unwrap_or(path)
    }

    /// The chosen ones, in the order of the page; looked for when the choice or the list is another one.
    pub fn chosen(&self) -> Arc<[Arc<GalleryItem>]> {
        let now = (self.selection.revision(), self.generation);
        let mut known = self.chosen.borrow_mut();
        if let Some((then, chosen)) = &*known
            && *then == now
        {
            return Arc::clone(chosen);
        }
        let chosen: Arc<[_]> = self.selection.entries(self.items()).cloned().collect();
        *known = Some((now, Arc::clone(&chosen)));
        chosen
    }

    pub fn update(&mut self, command: GalleryCommand, queue: &JobQueue, cx: &mut AppContext) {
        let items = self.listing.as_ref().map_or(&[][..], |it| &it.items);
        match command {
            GalleryCommand::Ask(query) => {
                self.look.sort = query.sort;
                self.query = query;
                self.ask(|query| IndexCommand::Ask(query.clone()));
            }
            GalleryCommand::Click(index, modifiers) => {
                self.selection.click(items, index, modifiers);
            }
            GalleryCommand::Step(by, extends) => {
                self.selection.step(items, by, extends);
                self.num_moves += 1;
            }
            GalleryCommand::ChooseAll => self.selection.all(items),
            GalleryCommand::Mark(change) => {
                if let ResultMark::Tag(tag) = &change.mark {
                    let undo = UndoAction::Mark(change.clone());
                    if change.is_set {
                        cx.undo.push(format!("add the tag {tag}"), undo);
                    } else {
                        let done = format!("The tag {tag} was removed");
                        cx.offer_undo(format!("remove the tag {tag}"), done, undo);
                    }
                }
                self.mark(change);
            }
            GalleryCommand::Trash(requests) => {
                self.bin.next = self.next_to(&requests);
                self.trash(requests, queue, cx);
            }
            GalleryCommand::OpenFolder(path) => {
                if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
                    cx.background.open_folder(folder.to_path_buf());
                }
            }
        }
    }

    pub fn poll(&mut self, queue: &JobQueue, cx: &mut AppContext) {
        while let Some(event) = self.threads.as_mut().and_then(|it| it.events.take()) {
            match event {
                // An older question is not waited for any more.
                IndexEvent::Listed(query, listing) if query == self.query => self.take(listing),
                IndexEvent::Listed(..) => {}
                IndexEvent::Marked(Ok(())) => cx.notices.end(&NoticeCause::FavouritesFile),
                IndexEvent::Marked(Err(err)) => {
                    cx.tell_about(NoticeCause::FavouritesFile, NoticeSeverity::Warning, err);
                }
            }
        }
        self.poll_trash(queue, cx);
    }

    pub(super) fn mark(&self, change: MarkChange) {
        self.ask(|_| IndexCommand::Mark(change));
    }

    /// Result after the first of these in the list, or else before it.
    fn next_to(&self, requests: &[TrashRequest]) -> Option<PathBuf> {
        let is_requested =
            |entry: &&Arc<GalleryItem>| requests.iter().any(|request| request.path == entry.path);
        let items = self.items();
        let at = items.iter().position(|entry| is_requested(&entry))?;
        let (before, behind) = items.split_at(at);
        let mut others = behind.iter().chain(before.iter().rev());
        others
            .find(|entry| !is_requested(entry))
            .map(|entry| entry.path.clone())
    }

    fn take(&mut self, listing: GalleryListing) {
        self.num_moves += u64::from(self.selection.settle(&listing.items, self.moves_on));
        self.listing = Some(listing);
        self.generation += 1;
        // Files on their way to the trash may still be listed.
        self.moves_on &= self.bin.is_busy();
    }

    /// Watches the folders while the page is shown, however it came about; and looks at them once where there is nothing
    /// else to watch, for the newest results.
    pub(super) fn follow(&mut self, has_nothing_to_watch: bool, cx: &AppContext) {
        self.is_open = cx.page == MainPage::Gallery;
        let is_empty = cx.page == MainPage::Watch && has_nothing_to_watch;
        let is_served = cx.now_secs < self.served_until;
        let listing = self.listing.as_ref();
        let is_listed = listing.is_some_and(|listing| !listing.is_looking);
        let is_wanted = self.is_open || is_served || (is_empty && !is_listed);
        let is_elsewhere = (self.is_open || is_served) && self.output != cx.settings.output;
        if is_wanted && (!self.is_following || is_elsewhere) {
            self.open(cx);
        } else if !is_wanted && self.is_following {
            self.scan(ScanCommand::Rest);
        }
        self.is_following = is_wanted;
    }

    /// All results of the folders, which are read from the first call on.
    pub(super) fn stored_results(&mut self, cx: &AppContext) -> StoredResults {
        self.served_until = cx.now_secs + SERVED_SECS;
        let listing = self.listing.as_ref().filter(|_| self.is_following);
        let is_read = listing.is_some_and(|it| {
            it.num_scans > self.scans_before && !it.is_looking && it.num_unread == 0
        });
        let mut items = self.newest(usize::MAX);
        items.retain(|item| item.facts().is_some());
        StoredResults {
            items,
            are_loading: cx.paths.is_some() && !is_read,
        }
    }

    /// Clears the selection; false if it was empty.
    pub(super) fn unchoose(&mut self) -> bool {
        let had_any = self.is_open && !self.selection.is_empty();
        if had_any {
            self.selection.clear();
        }
        had_any
    }

    fn open(&mut self, cx: &AppContext) {
        self.output = cx.settings.output.clone();
        let Some(paths) = &cx.paths else {
            self.listing = Some(GalleryListing::default());
            return;
        };
        self.scans_before = self.listing.as_ref().map_or(0, |it| it.num_scans);
        self.query.sort = self.look.sort;
        self.folders = cx.settings.result_folders(paths);
        self.threads
            .get_or_insert_with(|| GalleryThreads::start(&cx.background, paths));
        self.scan(ScanCommand::Watch(self.folders.clone()));
        self.ask(|query| IndexCommand::Ask(query.clone()));
    }

    /// Ends the threads, which keep what they know.
    pub(super) fn finish(&mut self) {
        self.threads = None;
    }

    fn ask(&self, command: impl FnOnce(&GalleryQuery) -> IndexCommand) {
        if let Some(threads) = &self.threads {
            send(&threads.index, command(&self.query));
        }
    }

    fn scan(&self, command: ScanCommand) {
        if let Some(threads) = &self.threads {
            send(&threads.scanner, command);
        }
    }
}

struct GalleryThreads {
    index: Sender<IndexCommand>,
    scanner: Sender<ScanCommand>,
    events: BackgroundTask<IndexEvent>,
}

impl GalleryThreads {
    fn start(background: &BackgroundThreads, paths: &AppPaths) -> Self {
        let (index, queries) = bounded(COMMAND_ROOM);
        let (reporter, commands) = bounded(COMMAND_ROOM);
        let (scanner, orders) = bounded(COMMAND_ROOM);
        let (readers, unread) = bounded(NUM_READERS);
        let (paths, hold) = (paths.clone(), background.hold());
        let events = background.stream("gallery", move |postbox| {
            ResultIndex::run(&paths, &queries, &commands, readers, postbox);
            drop(hold);
        });
        // The others have nothing to tell anybody else.
        for _ in 0..NUM_READERS {
            let (unread, reporter) = (unread.clone(), reporter.clone());
            drop(background.run("gallery-reader", move || {
                index_thread::read(&unread, &reporter);
            }));
        }
        drop(background.run("gallery-folders", move || {
            index_thread::scan(&orders, &reporter);
        }));
        Self {
            index,
            scanner,
            events,
        }
    }
}

/// Hands something over without waiting. There is room for far more than a person does at once; should it be gone, a
/// thread hangs at a disk.
fn send<T>(thread: &Sender<T>, what: T) {
    if thread.try_send(what).is_err() {
        tracing::warn!("a thread of the gallery does not answer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::commands::AppCommand;
    use TrashRequest;

    #[test]
    fn deletion_can_be_undone_as_soon_as_it_is_requested() {
        let (mut gallery, queue) = (GalleryState::default(), JobQueue::default());
        let mut cx = AppContext::alone();
        let requests = ["/r/a.png", "/r/b.png"].map(|name| TrashRequest {
            path: PathBuf::from(name),
            is_frame: false,
        });
        gallery.update(GalleryCommand::Trash(requests.into()), &queue, &mut cx);
        assert_eq!(cx.undo.last(), Some("delete 2 results"));
        let entry = cx.undo.take(None).unwrap();
        assert!(matches!(entry.what, UndoAction::Results(_)));
        // Nothing went without a home folder: what was done before is meant.
        gallery.bring_back(entry.id, &mut cx);
        let next = loop {
            gallery.poll_trash(&queue, &mut cx);
            if let Some(command) = cx.next_command() {
                break command;
            }
        };
        assert!(matches!(next, AppCommand::Undo(None)));
    }
}
