//! The real window on a real display, used as a person would: opened, an image dropped on it, a video made of that,
//! seen, and closed.
//!
//! Leaves its images in `target/tmp/real-window` for whoever changed the window. Panels one by one are in
//! `app_window`.

mod display;
mod wayland;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use display::{CONTROL, Display, ENTER, KEY_1, KEY_A, KEY_C, KEY_L, KEY_V, wait};
use safelight_core::media::{RgbPixels, open_rgb, read_settings, write_png};
use wayland::Wayland;
use x11rb::protocol::xproto::Window;

struct App(Child);

impl Drop for App {
    fn drop(&mut self) {
        // One that has ended already is what the test wants.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn keep(display: &Display, window: Window, name: &str) -> RgbPixels {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-window");
    fs::create_dir_all(&folder).unwrap();
    let image = display.image(window);
    let path = folder.join(name).with_extension("png");
    write_png(&path, &image).unwrap();
    image
}

fn colours(image: &RgbPixels) -> usize {
    let pixels = image.rgb.chunks_exact(3);
    let known: std::collections::HashSet<_> = pixels.collect();
    known.len()
}

/// A sunset with a hill, of the size that the shipped model knows.
fn sunset() -> RgbPixels {
    let pixel = |x: u32, y: u32| {
        if y > 190 + x / 16 {
            [40, 90, 50]
        } else {
            [250 - (y / 2) as u8, 140, 60 + (y / 3) as u8]
        }
    };
    let rows = (0..256).flat_map(|y| (0..256).flat_map(move |x| pixel(x, y)));
    RgbPixels {
        width: 256,
        height: 256,
        rgb: rows.collect(),
        alpha: None,
    }
}

fn videos(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = found.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "mp4"))
        .collect()
}

/// The program in a home of its own, as its icon starts it.
fn at_home(command: &mut Command, home: &Path) -> App {
    command
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .env("XDG_VIDEOS_DIR", home.join("videos"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    App(command.spawn().expect("the program starts"))
}

fn open(display: &Display, home: &Path) -> (App, Window, RgbPixels) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_safelight"));
    command
        .env("DISPLAY", &display.name)
        .env("XDG_RUNTIME_DIR", home)
        .env_remove("WAYLAND_DISPLAY");
    let app = at_home(&mut command, home);
    let window = display.window("Safelight");
    let fresh = wait("a drawn window", || {
        let image = display.image(window);
        (colours(&image) > 100).then_some(image)
    });
    (app, window, fresh)
}

/// The image that was pasted, where the program keeps it.
fn pasted_image(home: &Path) -> Option<PathBuf> {
    let folder = fs::read_dir(home.join("data/safelight/pasted")).ok()?;
    let mut files = folder.flatten().map(|entry| entry.path());
    files.find(|path| {
        // It is there by its name before it is whole.
        let is_image = path.extension().is_some_and(|end| end == "png");
        is_image && open_rgb(path).is_ok()
    })
}

#[test]
fn a_person_drops_an_image_makes_a_video_of_it_sees_it_and_quits() {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("sunset over a hill.png");
    write_png(&image, &sunset()).unwrap();
    let display = Display::start();
    let (mut app, window, fresh) = open(&display, home.path());
    keep(&display, window, "1 opened");
    display.focus(window);

    display.drop_file(window, (700, 400), &image);
    wait("the dropped image", || {
        (display.image(window) != fresh).then_some(())
    });
    // Its thumbnail comes a moment later.
    thread::sleep(Duration::from_secs(1));
    keep(&display, window, "2 dropped");

    display.press(&[CONTROL, ENTER]);
    thread::sleep(Duration::from_secs(3));
    keep(&display, window, "3 developing");
    let folder = home.path().join("videos/Safelight");
    let video = wait("the video", || videos(&folder).pop());
    let made = read_settings(&video).unwrap().unwrap();
    assert!(made.contains("sunset over a hill.png"), "{made}");

    // It plays: what is seen changes by itself.
    let first = wait("the player", || {
        let first = display.image(window);
        thread::sleep(Duration::from_millis(250));
        (display.image(window) != first).then_some(first)
    });
    assert!(colours(&first) > 1_000, "{}", colours(&first));
    keep(&display, window, "4 playing");

    // The frame that is shown goes to other programs.
    display.press(&[KEY_C]);
    let copied = wait("the copied frame", || display.paste("image/png"));
    fs::write(home.path().join("copied.png"), copied).unwrap();
    let copied = open_rgb(&home.path().join("copied.png")).unwrap();
    assert_eq!((copied.width, copied.height), (256, 256));
    assert!(colours(&copied) > 1_000, "{}", colours(&copied));

    display.close(window);
    let status = wait("the end", || app.0.try_wait().unwrap());
    assert!(status.success(), "{status}");
}

#[test]
fn text_and_images_come_from_other_programs_and_go_to_them() {
    let home = tempfile::tempdir().unwrap();
    let display = Display::start();
    let (_app, window, fresh) = open(&display, home.path());
    display.focus(window);

    let prompt = "ein Leuchtturm im Nebel, 灯台";
    display.copy("UTF8_STRING", prompt.as_bytes());
    display.press(&[CONTROL, KEY_L]);
    wait("the prompt's field", || {
        (display.image(window) != fresh).then_some(())
    });
    display.press(&[CONTROL, KEY_A]);
    display.press(&[CONTROL, KEY_V]);
    // What comes back was in the field: it is not what was put there.
    display.press(&[KEY_1]);
    let written = wait("the prompt on the clipboard", || {
        display.press(&[CONTROL, KEY_A]);
        display.press(&[CONTROL, KEY_C]);
        let text = display.paste("UTF8_STRING")?;
        (text != prompt.as_bytes()).then_some(text)
    });
    assert_eq!(String::from_utf8(written).unwrap(), format!("{prompt}1"));

    let file = home.path().join("sunset.png");
    write_png(&file, &sunset()).unwrap();
    let copied = fs::read(&file).unwrap();
    // The field lets the keyboard go when somebody clicks beside it.
    display.click(window, (700, 250), 1);
    let pasted = wait("the pasted image", || {
        // The program may still be copying its text, and until it has heard that this is no longer its own, it pastes
        // that.
        display.copy("image/png", &copied);
        display.press(&[CONTROL, KEY_V]);
        thread::sleep(Duration::from_secs(1));
        pasted_image(home.path())
    });
    assert_eq!(open_rgb(&pasted).unwrap(), sunset());
    thread::sleep(Duration::from_secs(1));
    keep(&display, window, "5 pasted");
}

#[test]
fn on_wayland_too_text_and_images_come_and_go() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("sunset.png");
    write_png(&file, &sunset()).unwrap();
    let desktop = Wayland::start();
    let mut command = desktop.program(env!("CARGO_BIN_EXE_safelight"));
    // The image is looked at, so that it can be copied.
    let _app = at_home(command.arg(&file), home.path());
    desktop.window("Safelight");

    let prompt = "ein Leuchtturm im Nebel, 灯台";
    let written = wait("the prompt on the clipboard", || {
        desktop.copy("text/plain;charset=utf-8", prompt.as_bytes());
        // What comes back was in the field: it is not what was put there.
        desktop.press(&["ctrl+l", "ctrl+a", "ctrl+v", "1", "ctrl+a", "ctrl+c"]);
        let text = desktop.paste("text/plain;charset=utf-8")?;
        (text != prompt.as_bytes()).then_some(text)
    });
    assert_eq!(String::from_utf8(written).unwrap(), format!("{prompt}1"));

    let copied = wait("the copied image", || {
        // The field lets the keyboard go, then the image is copied.
        desktop.press(&["Escape", "c"]);
        desktop.paste("image/png")
    });
    fs::write(home.path().join("copied.png"), copied).unwrap();
    let copied = open_rgb(&home.path().join("copied.png")).unwrap();
    assert_eq!(copied, sunset());

    desktop.copy("image/png", &fs::read(&file).unwrap());
    let pasted = wait("the pasted image", || {
        desktop.press(&["Escape", "ctrl+v"]);
        pasted_image(home.path())
    });
    assert_eq!(open_rgb(&pasted).unwrap(), sunset());
}
