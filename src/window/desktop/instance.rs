//! One window per user and display: a second start passes its files to the first one and exits.
//!
//! A lock decides which is the first, so a crashed one never blocks the next; a Unix socket receives the files, only
//! from the same user. Without a folder for sockets each start opens a separate window.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, getuid};
use safelight_core::locks::FileLock;

const GREETING: &[u8] = b"safelight 1\n";
const ANSWER: &[u8] = b"ok\n";
/// More than this is no list of files.
const MAX_BYTES: u64 = 4 << 20;
/// The other end is this program, which is quick, or something else.
const PATIENCE: Duration = Duration::from_secs(2);
/// A first one that has only just been started does not listen yet.
const RETRY_EVERY: Duration = Duration::from_millis(50);

/// The first start, which takes the files of others.
#[derive(Debug)]
pub struct FirstInstance {
    pub(super) listener: UnixListener,
    pub(super) claim: InstanceClaim,
}

/// Makes this the first one for as long as it lives.
#[derive(Debug)]
pub struct InstanceClaim {
    _lock: FileLock,
    socket: PathBuf,
}

impl Drop for InstanceClaim {
    fn drop(&mut self) {
        // Otherwise the next instance would remove it.
        fs::remove_file(&self.socket).ok();
    }
}

#[derive(Debug)]
pub enum InstanceStart {
    First(FirstInstance),
    /// The first one has the files and comes to the front.
    HandedOver,
    /// No instance can be reached: opens a separate window.
    Alone,
}

/// Of this user's start with these files, on this display.
pub fn start(files: &[PathBuf]) -> InstanceStart {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let Some(folder) = variable("XDG_RUNTIME_DIR") else {
        return InstanceStart::Alone;
    };
    let display = variable("WAYLAND_DISPLAY").or_else(|| variable("DISPLAY"));
    start_in(Path::new(&folder), &display.unwrap_or_default(), files)
}

pub fn start_in(folder: &Path, display: &OsStr, files: &[PathBuf]) -> InstanceStart {
    let is_odd = |letter: char| !letter.is_ascii_alphanumeric();
    let display = display.to_string_lossy().replace(is_odd, "-");
    let socket = folder.join(format!("safelight{display}.sock"));
    match claim(&socket) {
        Ok(Some(instance)) => return InstanceStart::First(instance),
        Ok(None) => {}
        Err(err) => {
            tracing::debug!("other starts cannot be distinguished from this one: {err}");
            return InstanceStart::Alone;
        }
    }
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        match hand_over(&socket, files) {
            Ok(()) => return InstanceStart::HandedOver,
            Err(err) => match err.kind() {
                // It does not listen yet, or ends at this moment.
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    thread::sleep(RETRY_EVERY);
                }
                _ => {
                    tracing::warn!("the running Safelight does not answer: {err}");
                    break;
                }
            },
        }
    }
    InstanceStart::Alone
}

/// `None` if another instance is the first.
fn claim(socket: &Path) -> io::Result<Option<FirstInstance>> {
    // The kernel lets go of it when its owner is gone, however that went.
    let lock = match FileLock::take(&socket.with_extension("lock")) {
        Err(err) if err.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        taken => taken?,
    };
    match fs::remove_file(socket) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    Ok(Some(FirstInstance {
        listener,
        claim: InstanceClaim {
            _lock: lock,
            socket: socket.to_owned(),
        },
    }))
}

fn hand_over(socket: &Path, files: &[PathBuf]) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    check_user(&stream, getuid())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut message = GREETING.to_vec();
    for file in files {
        message.extend_from_slice(file.as_os_str().as_bytes());
        message.push(0);
    }
    stream.write_all(&message)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer)?;
    let is_ours = answer == ANSWER;
    is_ours
        .then_some(())
        .ok_or_else(|| io::Error::other("another program answered"))
}

/// Gives what others hand over, an empty list when they only want the window to be seen. Ends with the listener.
pub fn serve(listener: &UnixListener, mut take: impl FnMut(Vec<PathBuf>)) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Too many open files, for example: it may pass.
            thread::sleep(RETRY_EVERY);
            continue;
        };
        match receive(stream, getuid()) {
            Ok(files) => take(files),
            Err(err) => tracing::debug!("somebody at the socket was not understood: {err}"),
        }
    }
}

/// Fails when a program of another user is at the other end; what the socket's folder and mode allow is no matter.
fn check_user(stream: &UnixStream, user: Uid) -> io::Result<()> {
    let other = socket_peercred(stream)?.uid;
    if other == user {
        return Ok(());
    }
    let [other, user] = [other, user].map(Uid::as_raw);
    let reason = format!("it belongs to user {other}, not {user}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

fn receive(mut stream: UnixStream, user: Uid) -> io::Result<Vec<PathBuf>> {
    check_user(&stream, user)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut message = Vec::new();
    (&mut stream).take(MAX_BYTES).read_to_end(&mut message)?;
    let is_whole = (message.len() as u64) < MAX_BYTES;
    let Some(list) = message.strip_prefix(GREETING).filter(|_| is_whole) else {
        return Err(io::Error::other("it is no list of files"));
    };
    let paths = list.split(|byte| *byte == 0);
    let paths = paths.map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec())));
    // A relative one would be looked for in a folder of another program.
    let files = paths.filter(|path| path.is_absolute()).collect();
    stream.write_all(ANSWER)?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    fn first(folder: &Path) -> FirstInstance {
        match start_in(folder, OsStr::new(":0"), &[]) {
            InstanceStart::First(instance) => instance,
            other => panic!("{other:?}"),
        }
    }

    /// The first one, and the files that it takes from others.
    fn served(folder: &Path) -> (InstanceClaim, crossbeam_channel::Receiver<Vec<PathBuf>>) {
        let FirstInstance { listener, claim } = first(folder);
        let (sender, taken) = bounded(4);
        let serves = move || serve(&listener, |files| sender.send(files).unwrap());
        thread::Builder::new().spawn(serves).unwrap();
        (claim, taken)
    }

    #[test]
    fn a_second_start_hands_its_files_to_the_first_and_a_third_only_raises_it() {
        let folder = tempfile::tempdir().unwrap();
        let (_claim, taken) = served(folder.path());
        let odd = PathBuf::from(OsStr::from_bytes(b"/images/caf\xe9\n.png"));
        let files = [odd.clone(), "/videos/a b.mp4".into(), "relative.png".into()];
        let second = start_in(folder.path(), OsStr::new(":0"), &files);
        assert!(matches!(second, InstanceStart::HandedOver), "{second:?}");
        assert_eq!(taken.recv().unwrap(), [odd, "/videos/a b.mp4".into()]);
        let third = start_in(folder.path(), OsStr::new(":0"), &[]);
        assert!(matches!(third, InstanceStart::HandedOver), "{third:?}");
        assert!(taken.recv().unwrap().is_empty());
        let elsewhere = start_in(folder.path(), OsStr::new(":1"), &[]);
        let is_first = matches!(elsewhere, InstanceStart::First(_));
        assert!(is_first, "another display");
    }

    #[test]
    fn stale_socket_of_a_crashed_instance_does_not_block_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let FirstInstance { listener, claim } = first(folder.path());
        let socket = claim.socket.clone();
        // As the kernel does with a program that is gone; its files stay.
        std::mem::drop(listener);
        let copy = folder.path().join("kept");
        fs::hard_link(&socket, &copy).unwrap();
        drop(claim);
        fs::rename(copy, &socket).unwrap();
        assert!(socket.exists());
        first(folder.path());
    }

    #[test]
    fn unknown_or_flooding_clients_do_not_block_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let (claim, taken) = served(folder.path());
        let mut stranger = UnixStream::connect(&claim.socket).unwrap();
        let request = b"GET / HTTP/1.1\r\n/etc/passwd\0";
        stranger.write_all(request).unwrap();
        drop(stranger);
        let mut flood = UnixStream::connect(&claim.socket).unwrap();
        let chunk = vec![b'/'; 1 << 20];
        flood.write_all(GREETING).unwrap();
        while flood.write_all(&chunk).is_ok() {}
        let second = start_in(folder.path(), OsStr::new(":0"), &["/a.png".into()]);
        assert!(matches!(second, InstanceStart::HandedOver), "{second:?}");
        assert_eq!(taken.recv().unwrap(), [PathBuf::from("/a.png")]);
    }

    #[test]
    fn nothing_is_taken_from_programs_of_other_users() {
        let message = [GREETING, b"/images/a.png\0"].concat();
        let send = |user: Uid| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(&message).unwrap();
            ours.shutdown(Shutdown::Write).unwrap();
            let taken = receive(theirs, user);
            let mut answer = Vec::new();
            // Whoever is not listened to is not answered either.
            ours.read_to_end(&mut answer).ok();
            (taken, answer)
        };
        let (taken, answer) = send(getuid());
        assert_eq!(taken.unwrap(), [PathBuf::from("/images/a.png")]);
        assert_eq!(answer, ANSWER);
        // The kernel says who is at the other end: this user, who is a stranger to the other one.
        let (taken, answer) = send(Uid::from_raw(getuid().as_raw() + 1));
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(answer.is_empty());
    }

    #[test]
    fn the_socket_and_its_lock_are_their_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let FirstInstance { claim, .. } = first(folder.path());
        for path in [claim.socket.clone(), claim.socket.with_extension("lock")] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    }

    #[test]
    fn without_a_folder_to_write_in_each_start_is_alone() {
        let alone = start_in(Path::new("/nowhere/at/all"), OsStr::new(":0"), &[]);
        assert!(matches!(alone, InstanceStart::Alone));
    }
}
