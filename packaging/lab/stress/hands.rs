//! What the hands of somebody do in the window: at random all over it, with the waiting jobs, or in the gallery.
//!
//! They press and click, and neither look at the window nor know what comes of it.

use std::thread;
use std::time::Duration;

use x11rb::protocol::xproto::Window;

use super::display::{CONTROL, Display, ENTER, KEY_A, KEY_L};
use crate::random::Random;

/// Keys by their place on a keyboard, as X counts them.
const ESCAPE: u8 = 9;
const SHIFT: u8 = 50;
const ALT: u8 = 64;
const HOME: u8 = 110;
const UP: u8 = 111;
const LEFT: u8 = 113;
const RIGHT: u8 = 114;
const DOWN: u8 = 116;
const DELETE: u8 = 119;
const KEY_D: u8 = 40;
const KEY_F: u8 = 41;
const KEY_K: u8 = 45;
const KEY_O: u8 = 32;
const KEY_R: u8 = 27;
const KEY_Z: u8 = 52;
/// Delete, Z, Tab, space, the arrows, page up and down, comma, and letters.
const KEYS: [u8; 16] = [
    DELETE, KEY_Z, 23, 65, UP, LEFT, RIGHT, DOWN, 112, 117, 59, KEY_A, 42, KEY_L, 54, ENTER,
];
/// The rows of the queue, beside their buttons, where the panel is open in a window of its first size.
const ROWS: (i16, i16) = (950, 200);
const ROWS_SIZE: (usize, usize) = (190, 540);

/// One thing that a hand does anywhere.
pub(super) fn at_random(display: &Display, window: Window, random: &mut Random) {
    match random.below(9) {
        0 => display.press(&[CONTROL, ENTER]),
        1 => display.press(&[CONTROL, random.one_of(&KEYS)]),
        2 => display.press(&[random.one_of(&KEYS)]),
        3 => display.press(&[ESCAPE]),
        4 => open_loras(display),
        // Another theme, which is a setting.
        5 => display.press(&[CONTROL, SHIFT, KEY_L]),
        _ => {
            let (x, y) = (random.below(1240) as i16, random.below(820) as i16);
            display.click(window, (x, y), if random.below(6) == 0 { 3 } else { 1 });
        }
    }
    rest(random, 300);
}

/// Opens the list of LoRAs by its name among all commands.
pub(super) fn open_loras(display: &Display) {
    display.press(&[CONTROL, KEY_K]);
    for key in [KEY_L, KEY_O, KEY_R, KEY_A, ENTER] {
        display.press(&[key]);
    }
}

/// Moves, doubles or changes one of the waiting jobs, or takes it out and back -> how many may have been taken out.
pub(super) fn with_jobs(display: &Display, window: Window, random: &mut Random) -> usize {
    let x = ROWS.0 + random.below(ROWS_SIZE.0) as i16;
    let y = ROWS.1 + random.below(ROWS_SIZE.1) as i16;
    display.click(window, (x, y), 1);
    // The row has the keyboard a frame later.
    thread::sleep(Duration::from_millis(100));
    let mut taken_out = 0;
    match random.below(10) {
        0 | 1 => display.press(&[ALT, UP]),
        2 | 3 => display.press(&[ALT, DOWN]),
        4 => display.press(&[ALT, HOME]),
        5 => display.press(&[CONTROL, KEY_D]),
        6..=8 => {
            // Into the form, and back with another seed.
            display.press(&[ENTER]);
            rest(random, 200);
            display.press(&[CONTROL, KEY_R]);
            rest(random, 200);
            display.press(&[CONTROL, ENTER]);
        }
        _ => {
            taken_out = 1;
            display.press(&[DELETE]);
            rest(random, 100);
            display.press(&[CONTROL, KEY_Z]);
        }
    }
    rest(random, 150);
    taken_out
}

/// Chooses some results of the gallery and throws them away, and half of the time brings them back.
pub(super) fn with_results(display: &Display, random: &mut Random) {
    for _ in 0..random.below(4) {
        display.press(&[random.one_of(&[LEFT, RIGHT, UP, DOWN])]);
    }
    for _ in 0..random.below(3) {
        display.press(&[SHIFT, RIGHT]);
    }
    match random.below(6) {
        0 => display.press(&[KEY_F]),
        1 | 2 => display.press(&[CONTROL, KEY_Z]),
        _ => {
            display.press(&[DELETE]);
            if random.below(2) == 0 {
                rest(random, 150);
                display.press(&[CONTROL, KEY_Z]);
            }
        }
    }
    rest(random, 150);
}

fn rest(random: &mut Random, at_most_ms: usize) {
    thread::sleep(Duration::from_millis(random.below(at_most_ms) as u64));
}
