//! What all targets share: a file in memory to read from, and an allocator that counts.
//!
//! A reader may take as much memory as its input has bytes, and 64 MiB besides; more is a find, as is a panic.
//! libFuzzer itself watches the time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

const SPARE_BYTES: usize = 64 << 20;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn took(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it came; only numbers are kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs `read`, which may take `input_bytes` and what is spare, all its allocations together.
pub fn bounded<T>(input_bytes: usize, read: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = read();
    let taken = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    assert!(
        taken <= input_bytes + SPARE_BYTES,
        "{taken} bytes of memory for an input of {input_bytes}"
    );
    result
}

/// A file that is written again and again.
pub struct Scratch {
    file: File,
    pub path: PathBuf,
}

impl Scratch {
    /// Alone in a folder of its own, in memory where the system has that.
    pub fn new(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let folder = home.join(format!("safelight-fuzz-{}-{name}", process::id()));
        fs::create_dir_all(&folder).expect("the scratch folder can be made");
        let path = folder.join(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .expect("the scratch file can be made");
        Self { file, path }
    }

    /// `head`, then zeros that take no room up to `file_bytes`.
    pub fn write(&self, head: &[u8], file_bytes: u64) {
        self.file.set_len(0).expect("a scratch file can be emptied");
        self.file
            .write_all_at(head, 0)
            .expect("a scratch file can be written");
        self.file
            .set_len(file_bytes)
            .expect("a scratch file can be long");
    }

    /// A safetensors file with this header and `data_bytes` of zeros.
    pub fn write_safetensors(&self, header: &[u8], data_bytes: u64) {
        let mut head = (header.len() as u64).to_le_bytes().to_vec();
        head.extend(header);
        let file_bytes = head.len() as u64 + data_bytes;
        self.write(&head, file_bytes);
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<(&'static str, Scratch)>> = const { RefCell::new(Vec::new()) };
}

/// Gives `with` the scratch file of this name.
pub fn scratch<T>(name: &'static str, with: impl FnOnce(&Scratch) -> T) -> T {
    SCRATCH.with_borrow_mut(|all| {
        let found = all.iter().position(|(known, _)| *known == name);
        let index = found.unwrap_or_else(|| {
            all.push((name, Scratch::new(name)));
            all.len() - 1
        });
        with(&all[index].1)
    })
}
