//! The jobs of a soak, in an order that a seed decides: every mode, size, kind of file, fault and cancel.
//!
//! Runs nothing.

use crate::random::Random;

/// What a job starts from, and what it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One picture from a prompt.
    Picture,
    /// A clip from a prompt.
    Clip,
    /// A clip from a picture and a prompt.
    FromPicture,
}

const MODES: [Mode; 3] = [Mode::Picture, Mode::Clip, Mode::FromPicture];
/// Multiples of what every model of the architecture wants.
const SIZES: [(u32, u32); 5] = [(64, 64), (128, 64), (96, 160), (192, 128), (256, 256)];
const FRAMES: [u32; 3] = [5, 9, 17];
/// How many of them are small, from the front.
const NUM_SMALL: [usize; 2] = [2, 1];
const CLIPS: [&str; 3] = ["mp4", "gif", "webp"];

/// Faults that another try mends, and then ones that end the job.
const MENDED: [&str; 8] = [
    "encode_text@text:oom*1",
    "encode_text@weights:host_oom*1",
    "denoise@block:oom*1",
    "denoise@sampler:oom_code2*1",
    "denoise@saving:host_oom*1",
    "decode@vae_decode:oom_pressure*1",
    "decode@frames:oom*1",
    "unload:oom*1",
];
const FATAL: [&str; 3] = [
    "encode_text@weights+3:panic*1",
    "denoise@block+2:panic*1",
    "decode@vae_decode:panic*1",
];

/// More jobs than this show nothing new.
const WARM_UP: u32 = 24;

/// One job.
#[derive(Clone, Debug)]
pub(super) struct Card {
    /// Counted from 1.
    pub(super) number: u32,
    pub(super) mode: Mode,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) num_frames: u32,
    pub(super) num_steps: u32,
    pub(super) vae_tile: Option<u32>,
    /// For the engine, without the file that remembers it.
    pub(super) fault: Option<&'static str>,
    /// At which update the job is cancelled, counted from 1.
    pub(super) cancel_after: Option<u32>,
    extension: &'static str,
    /// One of those that meet everything once before memory is looked at.
    pub(super) is_warm_up: bool,
}

impl Card {
    pub(super) fn extension(&self) -> &'static str {
        self.extension
    }

    /// Whether the fault is one that no second try mends.
    pub(super) fn may_fail(&self) -> bool {
        self.fault.is_some_and(|fault| FATAL.contains(&fault))
    }
}

/// Gives the cards one by one.
pub(super) struct Deck {
    random: Random,
    sizes: &'static [(u32, u32)],
    frames: &'static [u32],
    drawn: u32,
    count: u32,
    warm_up: u32,
}

impl Deck {
    /// `is_small`: of small sizes alone.
    pub(super) fn new(seed: u64, count: u32, is_small: bool) -> Self {
        let [num_sizes, num_frames] = if is_small {
            NUM_SMALL
        } else {
            [SIZES.len(), FRAMES.len()]
        };
        let sizes = &SIZES[..num_sizes];
        Self {
            random: Random::new(seed),
            sizes,
            frames: &FRAMES[..num_frames],
            drawn: 0,
            count,
            // Every mode in every size, and most faults and kinds of files: what libraries make ready once and keep is
            // there then.
            warm_up: (count / 4).clamp(3, WARM_UP),
        }
    }

    pub(super) fn draw(&mut self) -> Option<Card> {
        if self.drawn == self.count {
            return None;
        }
        self.drawn += 1;
        let is_warm_up = self.drawn <= self.warm_up;
        let mut mode = self.random.one_of(&MODES);
        let (mut width, mut height) = self.random.one_of(self.sizes);
        let mut num_frames = self.random.one_of(self.frames);
        if is_warm_up {
            // The largest first, so that they are met in a short run too.
            let index = self.drawn as usize - 1;
            mode = MODES[index % MODES.len()];
            let size = self.sizes.len() - 1 - index / MODES.len() % self.sizes.len();
            (width, height) = self.sizes[size];
            num_frames = self.frames[self.frames.len() - 1];
        }
        let fault = match self.random.below(6) {
            0 | 1 => Some(self.random.one_of(&MENDED)),
            2 => Some(self.random.one_of(&FATAL)),
            _ => None,
        };
        let cancel_after = (self.random.below(6) == 0).then(|| 2 + self.random.below(12) as u32);
        let clip = self.random.one_of(&CLIPS);
        Some(Card {
            number: self.drawn,
            mode,
            width,
            height,
            num_frames,
            num_steps: 1 + self.random.below(3) as u32,
            vae_tile: (self.random.below(5) == 0).then_some(64),
            fault,
            cancel_after,
            extension: if mode == Mode::Picture { "png" } else { clip },
            is_warm_up,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_jobs_and_two_hundred_of_them_meet_everything() {
        let cards = |seed| {
            let mut deck = Deck::new(seed, 200, false);
            std::iter::from_fn(move || deck.draw()).collect::<Vec<_>>()
        };
        let all = cards(1);
        assert_eq!(format!("{all:?}"), format!("{:?}", cards(1)));
        assert_ne!(format!("{all:?}"), format!("{:?}", cards(2)));
        assert_eq!(all.len(), 200);
        for mode in MODES {
            for size in SIZES {
                let met = |card: &Card| card.mode == mode && (card.width, card.height) == size;
                assert!(all.iter().any(met), "{mode:?} {size:?}");
            }
        }
        for fault in MENDED.iter().chain(&FATAL) {
            assert!(all.iter().any(|card| card.fault == Some(*fault)), "{fault}");
        }
        assert!(all.iter().any(|card| card.cancel_after.is_some()));
        assert!(all.iter().any(Card::may_fail));
    }
}
