//! The gallery: all results in their folders, what is chosen of them, and what is done with those.
//!
//! Folders and files are looked at on threads; here their answers are kept for the panels.

mod librarian;
mod reading;
mod selection;
mod thumbs;
mod trashing;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::{Sender, bounded};
use egui::{ColorImage, Context};
use safelight_core::gallery::{Entry, Query, Sort, ThumbFolder, ThumbKey};
use safelight_core::settings::Paths;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::app::background::Background;
use crate::app::state::{Page, Severity};
pub use librarian::Listing;
use librarian::{Errand, Librarian, Order};
pub use reading::ThumbWish;
use reading::{Desk, NUM_READERS};
pub use selection::Selection;
pub use thumbs::{Shown, Thumbs};
pub use trashing::{Bin, RestoredResults, TrashWish, TrashedResults};

/// Errands that may wait for the librarian: readers wait, the window keeps its own.
const ERRAND_ROOM: usize = 256;

/// What the window remembers of the gallery.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GalleryLook {
    /// Of a small picture, in points.
    pub side: f32,
    pub sort: Sort,
}

impl Default for GalleryLook {
    fn default() -> Self {
        Self {
            side: 168.0,
            sort: Sort::default(),
        }
    }
}

/// Which small pictures a page needs: told when it is other than before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of which list.
    pub generation: u64,
    /// From this one of the list to before that one.
    pub from: usize,
    pub to: usize,
    /// In pixels.
    pub side: u32,
    /// The one with details.
    pub current: Option<ThumbKey>,
}

/// What the gallery may ask for.
#[derive(Clone, Debug)]
pub enum GalleryCommand {
    /// List what the page asks for now.
    Ask,
    /// These small pictures are drawn.
    Want(Wanted, Vec<ThumbWish>),
    /// Make these favourites, or not any more.
    Favour(Vec<PathBuf>, bool),
    Trash(Vec<TrashWish>),
    /// Bring back what was thrown away last.
    Undo,
    OpenFolder(PathBuf),
}

/// What the threads of the gallery say.
pub enum GalleryAnswer {
    /// For which question.
    Listed(Query, Listing),
    /// A small picture, or why there is none.
    Thumb(ThumbWish, Result<ColorImage, String>),
    Trashed(TrashedResults),
    Restored(RestoredResults),
}

/// The chosen results, as of these revisions of the choice and of the list.
type KnownChoice = ((u64, u64), Arc<[Arc<Entry>]>);

/// The page.
#[derive(Default)]
pub struct GalleryPage {
    /// Where results lie.
    folders: Vec<PathBuf>,
    /// What is looked for; the order is in [`GalleryLook`].
    pub query: Query,
    /// Nothing before the first answer.
    pub listing: Option<Listing>,
    pub selection: Selection,
    /// The chosen ones, of the choice and the list with these numbers.
    chosen: RefCell<Option<KnownChoice>>,
    pub thumbs: Thumbs,
    /// The small pictures that were asked for last.
    pub wanted: Wanted,
    /// Counts the lists.
    pub generation: u64,
    /// How many stand in a row, for the keyboard.
    pub num_columns: usize,
    /// The keyboard went to where it may not be seen.
    pub is_cursor_hidden: bool,
    /// A result has the keyboard, and no field.
    pub is_cell_focused: bool,
    /// A field had the keyboard in the last frame.
    pub is_typing: bool,
    /// How far the page is scrolled, and how much of it is seen.
    pub scrolled: (f32, f32),
    /// The search field gets the keyboard.
    pub is_search_wanted: bool,
    pub bin: Bin,
    /// It is shown.
    is_open: bool,
    /// Its folders are watched.
    is_following: bool,
    /// The neighbour of what goes is chosen.
    moves_on: bool,
    threads: Option<Threads>,
}

impl GalleryPage {
    pub fn items(&self) -> &[Arc<Entry>] {
        self.listing.as_ref().map_or(&[], |listing| &listing.items)
    }

    /// Whether the folders were looked at to their end.
    fn is_listed(&self) -> bool {
        let listing = self.listing.as_ref();
        listing.is_some_and(|listing| !listing.is_looking)
    }

    /// So many results, the newest first.
    pub fn newest(&self, count: usize) -> Vec<Arc<Entry>> {
        let mut items: Vec<&Arc<Entry>> = self.items().iter().collect();
        items.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.stamp.modified_ns));
        items.into_iter().take(count).map(Arc::clone).collect()
    }

    /// The one whose details are shown.
    pub fn current(&self) -> Option<&Arc<Entry>> {
        let cursor = self.selection.cursor_at();
        let at_cursor = cursor.and_then(|at| self.items().get(at));
        at_cursor
            .filter(|entry| self.selection.contains(&entry.path))
            .or_else(|| self.selection.entries(self.items()).next())
    }

    /// The path of a result below the folder of results in which it lies.
    pub fn place_of<'a>(&self, path: &'a Path) -> &'a Path {
        let mut below = self
            .folders
            .iter()
            .filter_map(|folder| path.strip_prefix(folder).ok());
        below.next().unwrap_or(path)
    }

    /// The chosen ones, in the order of the page; looked for when the choice or the list is another one.
    pub fn chosen(&self) -> Arc<[Arc<Entry>]> {
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
}

/// The near end of the gallery's threads.
struct Threads {
    desk: Arc<Desk>,
    librarian: Sender<Errand>,
    scanner: Sender<Order>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.desk.close();
    }
}

impl Threads {
    fn start(background: &Background, paths: &Paths) -> Self {
        let desk = Arc::new(Desk::default());
        let (librarian, asked) = bounded(ERRAND_ROOM);
        let (told, errands) = bounded(ERRAND_ROOM);
        let (scanner, orders) = bounded(ERRAND_ROOM);
        let (own_desk, own_paths) = (Arc::clone(&desk), paths.clone());
        background.spawn("gallery", move |postbox| {
            Librarian::run(&own_paths, &asked, &errands, &own_desk, postbox);
        });
        let found = told.clone();
        background.spawn("gallery-folders", move |_| librarian::scan(&orders, &found));
        for _ in 0..NUM_READERS {
            let (desk, told) = (Arc::clone(&desk), told.clone());
            let thumbs = ThumbFolder::new(paths.thumbnails());
            background.spawn("gallery-reader", move |postbox| {
                reading::read(&desk, &thumbs, &told, postbox);
            });
        }
        Self {
            desk,
            librarian,
            scanner,
        }
    }
}

impl App {
    /// Watches the folders while the page is shown, however it came about; and looks at them once where there is nothing
    /// else to watch, for the newest results.
    pub(super) fn follow_gallery(&mut self) {
        let has_nothing = self.session.has_nothing_to_watch(&self.queue);
        let page = &mut self.session.gallery;
        page.is_open = self.session.page == Page::Gallery;
        let is_empty = self.session.page == Page::Watch && has_nothing;
        let is_wanted = page.is_open || (is_empty && !page.is_listed());
        if is_wanted != page.is_following {
            page.is_following = is_wanted;
            if is_wanted {
                self.open_gallery();
            } else {
                self.close_gallery();
            }
        }
    }

    /// Chooses nothing any more; `false` when nothing was chosen. The key that leaves a field does only that.
    pub(super) fn unchoose(&mut self) -> bool {
        let page = &mut self.session.gallery;
        if page.is_open && page.is_typing {
            return true;
        }
        let had_any = page.is_open && !page.selection.is_empty();
        if had_any {
            page.selection.clear();
        }
        had_any
    }

    /// Looks at the folders from now on.
    pub(super) fn open_gallery(&mut self) {
        let Some(paths) = &self.paths else {
            self.session.gallery.listing = Some(Listing::default());
            return;
        };
        let folders = self.settings.result_folders(paths);
        let page = &mut self.session.gallery;
        page.query.sort = self.state.gallery.sort;
        page.folders.clone_from(&folders);
        // What was drawn is drawn again.
        page.wanted = Wanted::default();
        let threads = page
            .threads
            .get_or_insert_with(|| Threads::start(&self.background, paths));
        tell(&threads.scanner, Order::Watch(folders));
        tell(&threads.librarian, Errand::Ask(page.query.clone()));
    }

    /// Nobody looks at it: nothing is watched any more.
    fn close_gallery(&mut self) {
        let page = &mut self.session.gallery;
        page.wanted = Wanted::default();
        if let Some(threads) = &page.threads {
            tell(&threads.scanner, Order::Rest);
            threads.desk.want(Vec::new());
        }
    }

    pub(super) fn run_gallery_command(&mut self, command: GalleryCommand) {
        let page = &mut self.session.gallery;
        match command {
            GalleryCommand::Ask => {
                self.state.gallery.sort = page.query.sort;
                if let Some(threads) = &page.threads {
                    tell(&threads.librarian, Errand::Ask(page.query.clone()));
                }
            }
            GalleryCommand::Want(wanted, mut wishes) => {
                page.wanted = wanted;
                if let Some(threads) = &page.threads {
                    wishes.retain(|wish| !page.thumbs.contains(wish.key, wish.side));
                    threads.desk.want(wishes);
                }
            }
            GalleryCommand::Favour(paths, is_favourite) => {
                if let Some(threads) = &page.threads {
                    tell(&threads.librarian, Errand::Favour(paths, is_favourite));
                }
            }
            GalleryCommand::Trash(wishes) => self.trash(wishes),
            GalleryCommand::Undo => self.undo_trash(),
            GalleryCommand::OpenFolder(path) => {
                if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
                    self.background.open_folder(folder.to_path_buf());
                }
            }
        }
    }

    pub(super) fn take_gallery(&mut self, ctx: &Context, answer: GalleryAnswer) {
        let page = &mut self.session.gallery;
        match answer {
            GalleryAnswer::Listed(query, listing) => {
                // An older question is not waited for any more.
                if query == page.query {
                    page.is_cursor_hidden |= page.selection.settle(&listing.items, page.moves_on);
                    page.listing = Some(listing);
                    page.generation += 1;
                    // What is on its way to the trash may still be listed.
                    page.moves_on &= page.bin.is_busy();
                }
            }
            GalleryAnswer::Thumb(wish, made) => page.thumbs.keep(ctx, wish.key, wish.side, made),
            GalleryAnswer::Trashed(results) => self.take_trashed(results),
            GalleryAnswer::Restored(results) => self.take_restored(results),
        }
    }
}

/// Hands something over without waiting. There is room for far more than a person does at once; should it be gone, a
/// thread hangs at a disk.
fn tell<T>(thread: &Sender<T>, what: T) {
    if thread.try_send(what).is_err() {
        tracing::warn!("a thread of the gallery does not answer");
    }
}

/// A card for each kind of trouble, not for each file.
fn problem_severity(num_done: usize) -> Severity {
    if num_done == 0 {
        Severity::Error
    } else {
        Severity::Warning
    }
}
