//! A display of its own: Xvfb, what stands on it as images, a mouse, a keyboard, files that are dragged, and the
//! clipboard.
//!
//! Speaks X11 as other programs on a desktop do. Knows nothing of Safelight.

use std::io::{BufRead as _, BufReader, IoSlice};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use safelight_core::media::RgbPixels;
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::ReplyError;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, BUTTON_PRESS_EVENT, BUTTON_RELEASE_EVENT, ClientMessageEvent, ConnectionExt as _,
    CreateWindowAux, EventMask, ImageFormat, InputFocus, KEY_PRESS_EVENT, KEY_RELEASE_EVENT,
    MOTION_NOTIFY_EVENT, MapState, PropMode, SELECTION_NOTIFY_EVENT, SelectionNotifyEvent,
    SelectionRequestEvent, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

/// Wider than the window at its first start, and with a corner to see that nothing is cut off.
const SCREEN: &str = "1440x900x24";
/// A video takes more than a minute where the machine does much else.
const PATIENCE: Duration = Duration::from_mins(5);
/// Keys by their place on a keyboard, as X counts them.
pub const CONTROL: u8 = 37;
pub const ENTER: u8 = 36;
pub const KEY_1: u8 = 10;
pub const KEY_A: u8 = 38;
pub const KEY_C: u8 = 54;
pub const KEY_L: u8 = 46;
pub const KEY_V: u8 = 55;

pub struct Display {
    server: Child,
    pub name: String,
    connection: RustConnection,
    root: Window,
}

impl Display {
    /// Starts a server on the first number that is free.
    pub fn start() -> Self {
        let mut server = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                SCREEN,
                "-nolisten",
                "tcp",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb starts; `cargo xtask test` installs it or says how");
        let mut number = String::new();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        said.read_line(&mut number).unwrap();
        let name = format!(":{}", number.trim());
        let (connection, screen) = x11rb::connect(Some(&name)).unwrap();
        let root = connection.setup().roots[screen].root;
        Self {
            server,
            name,
            connection,
            root,
        }
    }

    pub fn window(&self, title: &str) -> Window {
        wait("a window", || self.find_window(title))
    }

    /// The window whose title has this in it, where it is shown.
    pub fn find_window(&self, title: &str) -> Option<Window> {
        let tree = self.connection.query_tree(self.root).unwrap();
        let windows = tree.reply().unwrap().children;
        windows
            .into_iter()
            .find(|window| self.title(*window).contains(title) && self.is_shown(*window))
    }

    fn is_shown(&self, window: Window) -> bool {
        let asked = self.connection.get_window_attributes(window).unwrap();
        asked
            .reply()
            .is_ok_and(|window| window.map_state == MapState::VIEWABLE)
    }

    pub fn title(&self, window: Window) -> String {
        let name = self.atom("_NET_WM_NAME");
        let asked = self
            .connection
            .get_property(false, window, name, AtomEnum::ANY, 0, 1024)
            .unwrap();
        // A window may go while it is asked.
        let value = asked.reply().map(|reply| reply.value).unwrap_or_default();
        String::from_utf8_lossy(&value).into_owned()
    }

    pub fn image(&self, window: Window) -> RgbPixels {
        let size = self
            .connection
            .get_geometry(window)
            .unwrap()
            .reply()
            .unwrap();
        let (width, height) = (size.width, size.height);
        let asked =
            self.connection
                .get_image(ImageFormat::Z_PIXMAP, window, 0, 0, width, height, u32::MAX);
        let bgrx = asked.unwrap().reply().unwrap().data;
        let rgb = bgrx.chunks_exact(4).flat_map(|p| [p[2], p[1], p[0]]);
        RgbPixels {
            width: u32::from(width),
            height: u32::from(height),
            rgb: rgb.collect(),
            alpha: None,
        }
    }

    /// There is no window manager that gives the keyboard to anybody.
    pub fn focus(&self, window: Window) {
        self.connection
            .set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME)
            .unwrap();
        self.connection.sync().unwrap();
    }

    /// Presses keys together, and lets them go in the other order.
    pub fn press(&self, keys: &[u8]) {
        let down = keys.iter().map(|key| (KEY_PRESS_EVENT, *key));
        let up = keys.iter().rev().map(|key| (KEY_RELEASE_EVENT, *key));
        for (kind, key) in down.chain(up) {
            self.fake_input(kind, key, (0, 0));
        }
    }

    /// Sends `FakeInput` of the XTEST extension: x11rb's own would need a feature with which the app, too, is built anew.
    fn fake_input(&self, kind: u8, detail: u8, (x, y): (i16, i16)) {
        const FAKE_INPUT: u8 = 2;
        let xtest = self.connection.extension_information("XTEST").unwrap();
        let mut request = [0; 36];
        request[0] = xtest.expect("Xvfb has it").major_opcode;
        request[1] = FAKE_INPUT;
        request[2..4].copy_from_slice(&9_u16.to_ne_bytes()); // Its length in words.
        request[4..6].copy_from_slice(&[kind, detail]);
        request[12..16].copy_from_slice(&self.root.to_ne_bytes());
        request[24..26].copy_from_slice(&x.to_ne_bytes());
        request[26..28].copy_from_slice(&y.to_ne_bytes());
        let request = [IoSlice::new(&request)];
        let sent = self
            .connection
            .send_request_without_reply(&request, Vec::new());
        sent.unwrap();
        self.connection.sync().unwrap();
        thread::sleep(Duration::from_millis(30));
    }

    /// Clicks at this place of the window: button 1 is the left one, 3 the right.
    pub fn click(&self, window: Window, (x, y): (i16, i16), button: u8) {
        let asked = self
            .connection
            .translate_coordinates(window, self.root, x, y);
        // A window may go while somebody clicks on it.
        let Ok(at) = asked.unwrap().reply() else {
            return;
        };
        let (x, y) = (at.dst_x, at.dst_y);
        for (kind, detail) in [
            (MOTION_NOTIFY_EVENT, 0),
            (BUTTON_PRESS_EVENT, button),
            (BUTTON_RELEASE_EVENT, button),
        ] {
            self.fake_input(kind, detail, (x, y));
        }
    }

    pub fn close(&self, window: Window) {
        let data = [self.atom("WM_DELETE_WINDOW"), 0, 0, 0, 0];
        self.send(window, "WM_PROTOCOLS", data);
    }

    /// Drags a file over the window to this place, and drops it: the protocol XDND, version 5.
    pub fn drop_file(&self, window: Window, (x, y): (i16, i16), file: &Path) {
        let connection = &self.connection;
        let source = hidden_window(connection, self.root);
        let selection = self.atom("XdndSelection");
        connection
            .set_selection_owner(source, selection, x11rb::CURRENT_TIME)
            .unwrap();
        let at = connection
            .translate_coordinates(window, self.root, x, y)
            .unwrap()
            .reply()
            .unwrap();
        let place = (u32::from(at.dst_x as u16) << 16) | u32::from(at.dst_y as u16);
        connection
            .warp_pointer(x11rb::NONE, self.root, 0, 0, 0, 0, at.dst_x, at.dst_y)
            .unwrap();
        let uris = self.atom("text/uri-list");
        let copy = self.atom("XdndActionCopy");
        let text = format!("file://{}\r\n", file.to_str().unwrap());
        self.send(window, "XdndEnter", [source, 5 << 24, uris, 0, 0]);
        self.send(window, "XdndPosition", [source, 0, place, 0, copy]);
        let mut is_dropped = false;
        wait("the end of the drop", || {
            while let Some(event) = connection.poll_for_event().unwrap() {
                match event {
                    Event::SelectionRequest(asked) => {
                        give(connection, asked, asked.target, text.as_bytes()).unwrap();
                    }
                    Event::ClientMessage(said) if said.type_ == self.atom("XdndStatus") => {
                        let is_accepted = said.data.as_data32()[1] & 1 == 1;
                        if is_accepted && !is_dropped {
                            is_dropped = true;
                            self.send(window, "XdndDrop", [source, 0, 0, 0, 0]);
                        }
                    }
                    Event::ClientMessage(said) if said.type_ == self.atom("XdndFinished") => {
                        return Some(());
                    }
                    _ => {}
                }
            }
            None
        });
    }

    /// Puts something on the clipboard as another program does: a format, such as `UTF8_STRING`, and its bytes.
    pub fn copy(&self, format: &str, bytes: &[u8]) {
        // The program answers while the test waits, and is gone with the display.
        let (connection, _) = x11rb::connect(Some(&self.name)).unwrap();
        let owner = hidden_window(&connection, self.root);
        let clipboard = self.atom("CLIPBOARD");
        connection
            .set_selection_owner(owner, clipboard, x11rb::CURRENT_TIME)
            .unwrap();
        connection.sync().unwrap();
        let (targets, format, bytes) = (self.atom("TARGETS"), self.atom(format), bytes.to_vec());
        let answer_all = move || {
            while let Ok(event) = connection.wait_for_event() {
                let given = match event {
                    Event::SelectionRequest(asked) if asked.target == targets => connection
                        .change_property32(
                            PropMode::REPLACE,
                            asked.requestor,
                            asked.property,
                            AtomEnum::ATOM,
                            &[targets, format],
                        )
                        .map_err(ReplyError::from)
                        .and_then(|_| answer(&connection, asked)),
                    Event::SelectionRequest(asked) if asked.target == format => {
                        give(&connection, asked, format, &bytes)
                    }
                    Event::SelectionRequest(asked) => {
                        let refused = SelectionRequestEvent {
                            property: x11rb::NONE,
                            ..asked
                        };
                        answer(&connection, refused)
                    }
                    Event::SelectionClear(_) => return,
                    _ => Ok(()),
                };
                if given.is_err() {
                    return;
                }
            }
        };
        let program = thread::Builder::new().name("clipboard".to_owned());
        program.spawn(answer_all).unwrap();
    }

    /// What is on the clipboard in a format, as another program pastes it; nothing where it is not there.
    pub fn paste(&self, format: &str) -> Option<Vec<u8>> {
        let (connection, _) = x11rb::connect(Some(&self.name)).unwrap();
        let asker = hidden_window(&connection, self.root);
        let (clipboard, format) = (self.atom("CLIPBOARD"), self.atom(format));
        let property = self.atom("PASTED");
        connection
            .convert_selection(asker, clipboard, format, property, x11rb::CURRENT_TIME)
            .unwrap();
        connection.sync().unwrap();
        loop {
            if let Event::SelectionNotify(given) = connection.wait_for_event().unwrap() {
                if given.property == x11rb::NONE {
                    return None;
                }
                let asked =
                    connection.get_property(true, asker, property, AtomEnum::ANY, 0, u32::MAX / 4);
                return Some(asked.unwrap().reply().unwrap().value);
            }
        }
    }

    fn send(&self, window: Window, kind: &str, data: [u32; 5]) {
        let event = ClientMessageEvent::new(32, window, self.atom(kind), data);
        self.connection
            .send_event(false, window, EventMask::NO_EVENT, event)
            .unwrap();
        self.connection.sync().unwrap();
    }

    fn atom(&self, name: &str) -> u32 {
        let asked = self.connection.intern_atom(false, name.as_bytes());
        asked.unwrap().reply().unwrap().atom
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // A server that has ended already is as good.
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

/// A window that nobody sees: who gives and takes what is dragged or copied.
fn hidden_window(connection: &RustConnection, root: Window) -> Window {
    let window = connection.generate_id().unwrap();
    let events = CreateWindowAux::new().event_mask(EventMask::PROPERTY_CHANGE);
    connection
        .create_window(
            0,
            window,
            root,
            0,
            0,
            1,
            1,
            0,
            WindowClass::INPUT_OUTPUT,
            0,
            &events,
        )
        .unwrap();
    window
}

/// Gives a program the selection that it asked for.
fn give(
    connection: &RustConnection,
    asked: SelectionRequestEvent,
    kind: u32,
    bytes: &[u8],
) -> Result<(), ReplyError> {
    let (window, property) = (asked.requestor, asked.property);
    connection.change_property8(PropMode::REPLACE, window, property, kind, bytes)?;
    answer(connection, asked)
}

/// Says that the property holds the selection, or with none that there is none.
fn answer(connection: &RustConnection, asked: SelectionRequestEvent) -> Result<(), ReplyError> {
    let answer = SelectionNotifyEvent {
        response_type: SELECTION_NOTIFY_EVENT,
        sequence: 0,
        time: asked.time,
        requestor: asked.requestor,
        selection: asked.selection,
        target: asked.target,
        property: asked.property,
    };
    connection.send_event(false, asked.requestor, EventMask::NO_EVENT, answer)?;
    connection.sync()
}

/// Looks again and again until there is something.
pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        thread::sleep(Duration::from_millis(100));
    }
}
