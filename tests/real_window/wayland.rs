//! A Wayland desktop of its own: sway without a screen, keys that are pressed, and the clipboard.
//!
//! Speaks through the desktop's own tools, as other programs do. Knows nothing of Safelight.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::real_window::display::wait;

/// Software draws; no screen, mouse or keyboard is looked for; windows have the whole screen.
const DRAWING: [(&str, &str); 3] = [
    ("WLR_BACKENDS", "headless"),
    ("WLR_LIBINPUT_NO_DEVICES", "1"),
    ("WLR_RENDERER", "pixman"),
];
const SETTINGS: &str = "output HEADLESS-1 resolution 1240x820 position 0 0\n\
    default_border none\n\
    xwayland disable\n";
/// Whoever owns nothing: sway does not start as root.
const NOBODY: u32 = 65534;
/// So long, in milliseconds, a program takes to notice that there is a keyboard.
const KEYBOARD_COMES: &str = "1500";
const KEYS_APART: &str = "300";

pub struct Wayland {
    compositor: Child,
    folder: TempDir,
    socket: PathBuf,
}

impl Wayland {
    pub fn start() -> Self {
        // Everybody may look into the folder for shared memory, whatever the one for temporary files allows.
        let folder = TempDir::new_in("/dev/shm").expect("a folder in memory");
        let settings = folder.path().join("sway.conf");
        fs::write(&settings, SETTINGS).expect("a file in memory");
        let mut command = Command::new("sway");
        command
            .arg("-c")
            .arg(&settings)
            .envs(DRAWING)
            .env("XDG_RUNTIME_DIR", folder.path())
            .env("HOME", folder.path())
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let is_root = fs::metadata(folder.path()).is_ok_and(|folder| folder.uid() == 0);
        if is_root {
            for path in [folder.path(), &settings] {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("root gives files away");
            }
            command.uid(NOBODY).gid(NOBODY);
        }
        let compositor = command
            .spawn()
            .expect("sway starts; `cargo xtask test` installs it or says how");
        let socket = wait("the Wayland desktop", || {
            let files = fs::read_dir(folder.path()).ok()?.flatten();
            let mut paths = files.map(|file| file.path());
            paths.find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("wayland-") && !name.ends_with(".lock")
            })
        });
        Self {
            compositor,
            folder,
            socket,
        }
    }

    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env("WAYLAND_DISPLAY", &self.socket)
            .env_remove("DISPLAY");
        command
    }

    /// Waits for a window of this title that has the keyboard.
    pub fn window(&self, title: &str) {
        wait("a window", || {
            let tree = self.ask_sway(&["-t", "get_tree"])?;
            let named = format!("\"name\": \"{title}\"");
            tree.contains(&named).then_some(())
        });
    }

    fn ask_sway(&self, arguments: &[&str]) -> Option<String> {
        let mut files = fs::read_dir(self.folder.path()).ok()?.flatten();
        let socket =
            files.find(|file| file.file_name().to_string_lossy().starts_with("sway-ipc"))?;
        let output = Command::new("swaymsg")
            .arg("-s")
            .arg(socket.path())
            .args(arguments)
            .output()
            .ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Presses keys one after the other; `ctrl+v` is one.
    pub fn press(&self, keys: &[&str]) {
        let mut command = self.program("wtype");
        command.args(["-s", KEYBOARD_COMES]);
        for key in keys {
            match key.strip_prefix("ctrl+") {
                Some(key) => command.args(["-M", "ctrl", "-k", key, "-m", "ctrl"]),
                None => command.args(["-k", key]),
            };
            command.args(["-s", KEYS_APART]);
        }
        let status = command.status().expect("wtype presses keys");
        assert!(status.success(), "wtype: {status}");
    }

    /// Puts something on the clipboard as another program does.
    pub fn copy(&self, kind: &str, bytes: &[u8]) {
        let mut program = self
            .program("wl-copy")
            .args(["--type", kind])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("wl-copy starts");
        let mut input = program.stdin.take().expect("it reads");
        input.write_all(bytes).expect("it reads all");
        drop(input);
        let status = program.wait().expect("it goes on in the background");
        assert!(status.success(), "wl-copy: {status}");
    }

    /// What is on the clipboard in this kind, as another program pastes it; nothing where it is not there.
    pub fn paste(&self, kind: &str) -> Option<Vec<u8>> {
        let output = self
            .program("wl-paste")
            .args(["--no-newline", "--type", kind])
            .output()
            .expect("wl-paste starts");
        output.status.success().then_some(output.stdout)
    }
}

impl Drop for Wayland {
    fn drop(&mut self) {
        // One that has ended already is as good.
        self.compositor.kill().ok();
        self.compositor.wait().ok();
    }
}
