//! Atomic file writes: to a temporary name next to the target, then renamed.
//!
//! Also optional JSON files, and moving unreadable ones aside. Independent of their formats.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fstatfs};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Sentence on a file's problem, which ends in its path.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}: {}", path.display())]
pub struct FileError {
    sentence: String,
    path: PathBuf,
}

impl FileError {
    pub(crate) fn new(sentence: impl Into<String>, path: &Path) -> Self {
        Self {
            sentence: sentence.into(),
            path: path.to_owned(),
        }
    }

    /// Error in a file's text at a byte offset. `whose`: further description of the position, such as ` of the
    /// settings`.
    pub(crate) fn in_text(
        text: &str,
        offset: Option<usize>,
        whose: &str,
        reason: &str,
        path: &Path,
    ) -> Self {
        let (line, column) = line_and_column(text, offset.unwrap_or(0));
        let reason = reason.trim().replace('\n', ", ");
        Self::new(
            format!("line {line}, column {column}{whose}: {reason}"),
            path,
        )
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Line and column of a byte offset in a text; both count from 1, columns in characters.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |rest| rest.chars().count())
        + 1;
    (line, column)
}

/// Far more than any JSON file of this program's own has, and than any published tokenizer's.
pub const MAX_JSON_BYTES: u64 = 64 << 20;
/// Limit of hand-written texts.
pub const MAX_TEXT_BYTES: u64 = 4 << 20;

/// File system magics (`statfs(2)`) of interfaces to the kernel: procfs, sysfs, cgroup, cgroup2, debugfs, tracefs,
/// securityfs, configfs, pstore, efivarfs and bpf. Their files may block for ever when read.
const KERNEL_FILE_SYSTEMS: [u32; 11] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0x6165_676c,
    0xde5e_81e4,
    0xcafe_4a11,
];

/// Opens a regular file of a disk for reading. Never blocks: pipes, devices, folders and files of the kernel
/// (`/proc`, `/sys`) are refused with [`io::ErrorKind::InvalidData`].
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Opening a device can already have an effect, so its type is checked before.
    if !fs::metadata(path)?.is_file() {
        return Err(invalid("this is not a file"));
    }
    let mut options = File::options();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = options.read(true).custom_flags(flags).open(path)?;
    // The path may lead to another file by now.
    if !file.metadata()?.is_file() {
        return Err(invalid("this is not a file"));
    }
    // Of the field's 32 or 64 bits the lower 32 hold the magic.
    let magic = fstatfs(&file)?.f_type as u32;
    if KERNEL_FILE_SYSTEMS.contains(&magic) {
        return Err(invalid("this is a file of the kernel, not of a disk"));
    }
    Ok(file)
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// Reads a file that [`open_regular`] opens, of at most `max_bytes`.
pub fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(invalid(format!(
            "this file has more than {max_bytes} bytes"
        )));
    }
    Ok(bytes)
}

/// Like [`read_bounded`], but reads text, see [`decode_text`].
pub fn read_text_bounded(path: &Path, max_bytes: u64) -> io::Result<String> {
    decode_text(read_bounded(path, max_bytes)?)
}

/// Decodes UTF-8, or UTF-16 with a byte order mark, as Windows' editors write it. The mark is removed.
pub fn decode_text(bytes: Vec<u8>) -> io::Result<String> {
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let (units, rest) = bytes[2..].as_chunks::<2>();
        let units = units.iter().map(|pair| unit(*pair));
        let text: Result<String, _> = char::decode_utf16(units).collect();
        text.ok().filter(|_| rest.is_empty())
    };
    let text = match bytes.as_slice() {
        [0xff, 0xfe, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf16(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        // UTF-16 without a mark would pass as letters with zeros between them.
        _ => String::from_utf8(bytes)
            .ok()
            .filter(|it| !it.contains('\0')),
    };
    text.ok_or_else(|| {
        let advice = "it is neither UTF-8 nor UTF-16 text with a byte order mark: save it as UTF-8";
        io::Error::new(io::ErrorKind::InvalidData, advice)
    })
}

/// Bytes of a name that a temporary one keeps: file systems allow 255, and its ends have less than 50.
const MAX_NAME_BYTES: usize = 200;

/// The temporary name under which `path` is written: in the same folder, so that a rename suffices.
pub fn partial_path(path: &Path) -> PathBuf {
    let mut name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if name.len() > MAX_NAME_BYTES {
        // Two long names that begin alike must not meet.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        name = format!("{name}.{:x}", hasher.finish());
    }
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}

/// The process that wrote under a [`partial_path`].
fn writer_of(partial: &Path) -> Option<u32> {
    let name = partial.file_name()?.to_str()?;
    let named = name.strip_prefix('.')?.strip_suffix(".partial")?;
    named.rsplit_once('.')?.1.parse().ok()
}

/// Returns whether this is a [`partial_path`] of a process that has ended.
pub fn is_left_half_written(path: &Path) -> bool {
    // If that is unknown, it may be running.
    let is_dead = |writer| fs::exists(format!("/proc/{writer}")).is_ok_and(|lives| !lives);
    writer_of(path).is_some_and(is_dead)
}

/// Removes from a folder the files that processes which are no more have left half-written under a [`partial_path`].
pub fn remove_partials(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if is_left_half_written(&path) && fs::remove_file(&path).is_ok() {
            tracing::info!("removed a half-written file: {}", path.display());
        }
    }
}

/// Writes `bytes` to `path` as a whole or not at all.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_whole(path, bytes, &mut File::options())
}

/// Like [`write_atomically`], readable only by its owner: it may contain prompts. Creates the folder if it is missing.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        make_private_folder(folder)?;
    }
    write_whole(path, bytes, private(&mut File::options()))
}

fn write_whole(path: &Path, bytes: &[u8], options: &mut OpenOptions) -> io::Result<()> {
    let partial = partial_path(path);
    let opened = options
        .write(true)
        .create(true)
        .truncate(true)
        .open(&partial);
    let written = opened.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    finish_partial(&partial, path, written)
}

/// Files that are made with these options are their owner's alone.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600);
    options
}

/// Creates a folder and its parents, accessible only to its owner.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder.recursive(true).create(folder)
}

/// Like [`make_private_folder`], for a folder that must not exist yet.
pub fn make_new_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Makes a file its owner's alone that was written by who does not know what it is for.
pub fn make_private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

/// Copies what is in a file, and not who may read it.
pub fn copy_private(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = open_regular(from)?;
    let mut copy = private(File::options().write(true).create(true).truncate(true)).open(to)?;
    let copied = io::copy(&mut source, &mut copy).map(drop);
    if copied.is_err() {
        // Half of it is of no use. The first error is the one that matters.
        fs::remove_file(to).ok();
    }
    copied
}

/// Opens a file that programs lock among themselves; makes it where it is missing.
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    private(&mut options).open(path)
}

/// Writes a value as JSON with [`write_private`].
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_private(path, &serde_json::to_vec(value)?)
}

/// Like [`write_json`], for a file that may be lost: a failure is only logged. `what`: its content, in a sentence.
pub fn write_optional_json(path: &Path, value: &impl Serialize, what: &str) {
    if let Err(err) = write_json(path, value) {
        tracing::warn!("{what} could not be stored: {err}");
    }
}

/// Entries of a folder, sorted.
pub(crate) fn sorted_entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Name of a file without its folder; empty where there is none.
pub fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns whether a file's name has one of these extensions, ignoring case.
pub fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension()
        .is_some_and(|end| endings.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// Content of a JSON file; the default if it is missing or unreadable: for optional files.
pub fn read_json_or_default<T: DeserializeOwned + Default>(path: &Path) -> T {
    let read = read_bounded(path, MAX_JSON_BYTES).ok();
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// A free name for a broken file: `queue.broken-1.json` for `queue.json`.
pub(crate) fn aside_path(path: &Path) -> PathBuf {
    let ending = path.extension().unwrap_or_default().display();
    let name = |number: u32| path.with_extension(format!("broken-{number}.{ending}"));
    let free = (1..1000).map(name).find(|path| !path.exists());
    free.unwrap_or_else(|| name(0))
}

/// Copies an unreadable JSON file to another name next to it, before a new one replaces it; returns that name. A pipe,
/// a device, a folder or a file far too large is renamed instead.
pub fn keep_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = aside_path(path);
    let found = fs::metadata(path)?;
    if found.is_file() && found.len() <= MAX_JSON_BYTES {
        copy_private(path, &aside)?;
    } else {
        fs::rename(path, &aside)?;
    }
    Ok(aside)
}

/// Renames `partial` to `path` when `written` succeeded, and removes it otherwise.
pub fn finish_partial(partial: &Path, path: &Path, written: io::Result<()>) -> io::Result<()> {
    let result = written.and_then(|()| fs::rename(partial, path));
    if result.is_err() {
        // The first error is the one that matters; a leftover that cannot be removed changes nothing.
        fs::remove_file(partial).ok();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_and_in_characters() {
        assert_eq!(line_and_column("ab\nçd", 0), (1, 1));
        assert_eq!(line_and_column("ab\nçd", 5), (2, 2));
        assert_eq!(line_and_column("ab", 99), (1, 3));
    }

    #[test]
    fn a_file_that_is_kept_aside_takes_no_earlier_ones_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.json");
        for text in ["first", "second"] {
            fs::write(&path, text).unwrap();
            let copy = keep_aside(&path).unwrap();
            assert_eq!(fs::read_to_string(copy).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn special_and_oversized_files_are_moved_aside_without_copying() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe.json"))
            .status();
        assert!(made.unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", at("zero.json")).unwrap();
        fs::create_dir(at("folder.json")).unwrap();
        let large = File::create(at("large.json")).unwrap();
        large.set_len(MAX_JSON_BYTES + 1).unwrap();
        for name in ["pipe", "zero", "folder", "large"] {
            let path = at(&format!("{name}.json"));
            let aside = keep_aside(&path).unwrap();
            assert_eq!(aside, at(&format!("{name}.broken-1.json")));
            assert!(fs::symlink_metadata(&aside).is_ok(), "{name}");
            write_json(&path, &1).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"1", "{name}");
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomically(&path, b"old").unwrap();
        let partial = partial_path(&path);
        fs::write(&partial, b"half").unwrap();
        let failed = finish_partial(&partial, &path, Err(io::Error::other("disk full")));
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn remove_partials_deletes_only_files_of_dead_processes() {
        let folder = tempfile::tempdir().unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let at = |name: String| folder.path().join(name);
        let mine = partial_path(&at("a.json".to_owned()));
        let left = at(format!(".a.json.{}.partial", dead.id()));
        let others = ["a.json", ".a.partial", "a.json.1.partial", ".a.b.partial"];
        let kept = others.map(|name| at(name.to_owned()));
        for path in kept.iter().chain([&mine, &left]) {
            fs::write(path, "half").unwrap();
        }
        remove_partials(folder.path());
        assert!(!left.exists());
        assert!(mine.exists(), "its writer lives");
        assert!(kept.iter().all(|path| path.exists()));
        remove_partials(&at("nowhere".to_owned()));
    }

    #[test]
    fn a_name_of_255_bytes_is_written_as_a_whole_too() {
        let folder = tempfile::tempdir().unwrap();
        let long = |end: &str| folder.path().join(format!("{}{end}", "ä".repeat(125)));
        for end in [".json", ".jsom"] {
            write_atomically(&long(end), end.as_bytes()).unwrap();
            assert_eq!(fs::read(long(end)).unwrap(), end.as_bytes());
        }
        assert_ne!(partial_path(&long(".json")), partial_path(&long(".jsom")));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn private_files_and_folders_are_accessible_to_the_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open.txt");
        fs::write(&open, "prompt").unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
        let at = |name: &str| folder.path().join(name);
        make_new_private_folder(&at("new")).unwrap();
        assert!(make_new_private_folder(&at("new")).is_err(), "it is there");
        write_private(&at("inner/a.json"), b"{}").unwrap();
        copy_private(&open, &at("copy.txt")).unwrap();
        drop(open_lock(&at("a.lock")).unwrap());
        let kept = keep_aside(&open).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for private in ["new", "inner"] {
            assert_eq!(mode(&at(private)), 0o700, "{private}");
        }
        for private in ["inner/a.json", "copy.txt", "a.lock"] {
            assert_eq!(mode(&at(private)), 0o600, "{private}");
        }
        assert_eq!(mode(&kept), 0o600);
        make_private(&open).unwrap();
        assert_eq!(mode(&open), 0o600);
        assert_eq!(fs::read(at("copy.txt")).unwrap(), b"prompt");
    }

    #[test]
    fn read_bounded_refuses_pipes_devices_kernel_files_and_oversized_files() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            let err = read_bounded(path, 10).unwrap_err();
            assert_eq!(err.to_string(), "this is not a file");
        }
        let link = folder.path().join("config.json");
        for target in ["/proc/self/status", "/proc/kmsg", "/sys/kernel/mm"] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            assert!(read_bounded(&link, 1 << 20).is_err(), "{target}");
            fs::remove_file(&link).unwrap();
        }
        let err = read_bounded(Path::new("/proc/self/status"), 1 << 20).unwrap_err();
        assert!(err.to_string().contains("of the kernel"), "{err}");
        let path = folder.path().join("a.txt");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_text_bounded(&path, 10).unwrap(), "0123456789");
        let err = read_bounded(&path, 9).unwrap_err();
        assert_eq!(err.to_string(), "this file has more than 9 bytes");
        fs::write(&path, [0xff]).unwrap();
        assert!(read_text_bounded(&path, 9).is_err());
    }
}
