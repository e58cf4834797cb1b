//! What may be computed in several ways that differ in time alone: the ways, what was measured of them on a device, and
//! which one a job takes.
//!
//! Plain data. The engine measures (`safelight-engine probe-choices`), the worker decides when. Where the file lies says
//! [`Paths::choices_file`](crate::settings::Paths::choices_file). How convolutions are computed is in
//! [`tiers`](super::tiers), because a wrong choice hangs there; [`stored`] tells of both.

mod shapes;
mod told;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use shapes::{Latents, Shapes};
pub use told::{StoredChoice, StoredFigure, halves, stored};

use super::tiers::{AttentionChoice, PATIENCE_SECS, TierEnd};
use crate::files::{read_json_or_default, write_json};
use crate::named::{named, parsed};

named! {
    /// Which library multiplies matrices on a GPU.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MatrixLibrary {
        /// As libtorch does by itself, or what was measured to be faster.
        #[default]
        Auto = "auto", "Automatic";
        Lt = "lt", "hipBLASLt or cuBLASLt";
        Classic = "classic", "rocBLAS or cuBLAS";
    }
}

named! {
    /// How the matrices of linear layers lie in a GPU's memory.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MatrixLayout {
        /// By rows, or what was measured to be faster.
        #[default]
        Auto = "auto", "Automatic";
        /// As files have them: what makes one output lies together.
        Rows = "rows", "By rows";
        /// What one input goes to lies together.
        Columns = "columns", "By columns";
    }
}

named! {
    /// How many latent frames a decoder of clips takes at a time.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    pub enum Chunk {
        /// One, or what was measured to be faster and fits.
        #[default]
        #[serde(rename = "auto")]
        Auto = "auto", "Automatic";
        #[serde(rename = "1")]
        One = "1", "1";
        #[serde(rename = "2")]
        Two = "2", "2";
        #[serde(rename = "4")]
        Four = "4", "4";
        #[serde(rename = "8")]
        Eight = "8", "8";
    }
}

impl Chunk {
    pub fn frames(self) -> u32 {
        match self {
            Self::Auto | Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

named! {
    /// How weights come to a GPU.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CopyPath {
        /// By the driver, or what was measured to be faster.
        #[default]
        Auto = "auto", "Automatic";
        /// By the driver's own copies out of pinned memory, beside the computation.
        Driver = "driver", "By the driver";
        /// By libtorch out of pinned memory.
        Pinned = "pinned", "From pinned memory";
        /// By libtorch out of ordinary memory.
        Pageable = "pageable", "From ordinary memory";
    }
}

named! {
    // The label begins a sentence.
    /// What is measured.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Choice {
        Attention = "attention", "Attention";
        Matrices = "matrices", "Matrix products";
        Chunk = "chunk", "Frames a chunk";
        Copies = "copies", "Copies to the device";
    }
}

parsed!(Choice, "a choice");

/// One way for everything, as settings, stages, records of jobs and alternatives have it. The default is what is done
/// where nothing was measured and nobody chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Choices {
    #[serde(skip_serializing_if = "is_default")]
    pub attention: AttentionChoice,
    #[serde(skip_serializing_if = "is_default")]
    pub matrices: MatrixLibrary,
    #[serde(skip_serializing_if = "is_default")]
    pub layout: MatrixLayout,
    #[serde(skip_serializing_if = "is_default")]
    pub chunk: Chunk,
    #[serde(skip_serializing_if = "is_default")]
    pub copies: CopyPath,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Choices {
    /// The same, with one name for each way: what is done by itself has the name that nobody chose.
    #[must_use]
    pub fn plain(mut self) -> Self {
        if self.layout == MatrixLayout::Rows {
            self.layout = MatrixLayout::Auto;
        }
        if self.chunk == Chunk::One {
            self.chunk = Chunk::Auto;
        }
        if self.copies == CopyPath::Driver {
            self.copies = CopyPath::Auto;
        }
        self
    }

    /// These of `what`, and nothing of the others.
    fn only(self, what: Choice) -> Self {
        let none = Self::default();
        match what {
            Choice::Attention => Self {
                attention: self.attention,
                ..none
            },
            Choice::Matrices => Self {
                matrices: self.matrices,
                layout: self.layout,
                ..none
            },
            Choice::Chunk => Self {
                chunk: self.chunk,
                ..none
            },
            Choice::Copies => Self {
                copies: self.copies,
                ..none
            },
        }
    }

    /// Whether nothing here is another than what a user chose.
    fn obeys(self, hand: Self) -> bool {
        fn may<T: Copy + Default + PartialEq>(own: T, hand: T, said: T) -> bool {
            is_default(&said) || own == hand
        }
        let (own, wanted) = (self.plain(), hand.plain());
        may(own.attention, wanted.attention, hand.attention)
            && may(own.matrices, wanted.matrices, hand.matrices)
            && may(own.layout, wanted.layout, hand.layout)
            && may(own.chunk, wanted.chunk, hand.chunk)
            && may(own.copies, wanted.copies, hand.copies)
    }

    /// What is chosen of `what`, in words.
    pub fn words(self, what: Choice) -> String {
        let own = self.plain();
        match what {
            Choice::Attention => match own.attention {
                AttentionChoice::Auto => "libtorch's choice".to_owned(),
                other => other.label().to_lowercase(),
            },
            Choice::Matrices => {
                let library = match own.matrices {
                    MatrixLibrary::Auto => "libtorch's choice",
                    other => other.label(),
                };
                let layout = match own.layout {
                    MatrixLayout::Auto => MatrixLayout::Rows,
                    other => other,
                };
                format!("{library} {}", layout.label().to_lowercase())
            }
            Choice::Chunk => match own.chunk.frames() {
                1 => "1 latent frame".to_owned(),
                frames => format!("{frames} latent frames"),
            },
            Choice::Copies => match own.copies {
                CopyPath::Auto => CopyPath::Driver,
                other => other,
            }
            .label()
            .to_lowercase(),
        }
    }
}

impl Choice {
    /// All ways, first the one that is taken where nothing was measured.
    pub fn alternatives(self) -> Vec<Choices> {
        let none = Choices::default();
        match self {
            Self::Attention => AttentionChoice::ALL
                .map(|attention| Choices { attention, ..none })
                .to_vec(),
            Self::Matrices => [MatrixLayout::Auto, MatrixLayout::Columns]
                .into_iter()
                .flat_map(|layout| {
                    MatrixLibrary::ALL.map(|matrices| Choices {
                        matrices,
                        layout,
                        ..none
                    })
                })
                .collect(),
            Self::Chunk => [Chunk::Auto, Chunk::Two, Chunk::Four, Chunk::Eight]
                .map(|chunk| Choices { chunk, ..none })
                .to_vec(),
            Self::Copies => [CopyPath::Auto, CopyPath::Pinned, CopyPath::Pageable]
                .map(|copies| Choices { copies, ..none })
                .to_vec(),
        }
    }

    /// The worst relative error that a way may have against f32 on the CPU. `dtype`: `bf16`, `f16` or `f32`.
    pub fn tolerance(self, dtype: &str) -> f64 {
        // Libraries may round f32 to 10 bits behind the point before they multiply.
        let of_numbers = match dtype {
            "bf16" => 2e-2,
            "f16" => 5e-3,
            _ => 3e-3,
        };
        match self {
            Self::Attention | Self::Matrices => of_numbers,
            // Roundings of all layers come together.
            Self::Chunk => 4.0 * of_numbers,
            Self::Copies => 0.0,
        }
    }
}

/// By so much must a way be faster than what is done by itself.
pub const WORTH_IT: f64 = 1.05;

/// What a measurement holds for: where one of these is another, it is made again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChoiceKey {
    pub choice: Choice,
    /// The device's own name.
    pub device: String,
    /// The versions of the driver and of the vendor's runtime (HIP), as far as they are known.
    pub driver: String,
    pub libtorch: String,
    /// What is computed in: `bf16`, `f16` or `f32`; empty of copies.
    pub dtype: String,
    /// The sizes, in words.
    pub shape: String,
}

/// One way, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    pub choices: Choices,
    #[serde(flatten)]
    pub end: TierEnd,
}

impl Alternative {
    /// Seconds; `None` where it is not right.
    pub fn secs(&self) -> Option<f64> {
        match self.end {
            TierEnd::Right { secs, .. } if secs.is_finite() && secs > 0.0 => Some(secs),
            _ => None,
        }
    }
}

/// What was measured of one choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    #[serde(flatten)]
    pub key: ChoiceKey,
    /// When, in seconds of the Unix epoch.
    pub since_secs: u64,
    pub alternatives: Vec<Alternative>,
}

impl Measured {
    /// The way to take of this choice, where a user chose `hand`: the fastest that is right, but what is done by itself
    /// where that is right and nothing is faster by [`WORTH_IT`].
    pub fn best(&self, hand: Choices) -> Choices {
        let what = self.key.choice;
        let base = hand.only(what).plain();
        let fitting = self.alternatives.iter().filter(|it| {
            let is_of_it = it.choices.only(what) == it.choices;
            is_of_it && it.choices.obeys(hand.only(what))
        });
        let costs = fitting.filter_map(|it| Some((it.choices.plain(), it.secs()?)));
        let costs: Vec<(Choices, f64)> = costs.collect();
        let fastest = costs.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some(&(fastest, secs)) = fastest else {
            return base;
        };
        let own = costs.iter().find(|(choices, _)| *choices == base);
        match own {
            Some(&(_, own)) if secs * WORTH_IT > own => base,
            _ => fastest,
        }
    }

    /// Whether a way failed so long ago that it is worth another try.
    pub fn is_due(&self, now_secs: u64) -> bool {
        let has_failed =
            |it: &Alternative| matches!(it.end, TierEnd::Failed { .. } | TierEnd::TimedOut { .. });
        // A clock that was set back tells nothing.
        let is_old = now_secs.abs_diff(self.since_secs) >= PATIENCE_SECS;
        is_old && self.alternatives.iter().any(has_failed)
    }
}

/// One line of the probe: `safelight-engine probe-choices`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChoiceLine {
    pub alternative: Choices,
    #[serde(flatten)]
    pub state: ChoiceState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ChoiceState {
    /// It runs now; the first time may compile and search for long.
    Trying { is_first: bool },
    /// All that there is to say of it.
    Done {
        #[serde(flatten)]
        end: TierEnd,
    },
}

/// All measurements, as they are remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChoiceFile {
    pub measured: Vec<Measured>,
}

impl ChoiceFile {
    /// What is remembered; nothing where there is no file or a broken one, which costs a measurement.
    pub fn load(path: &Path) -> Self {
        read_json_or_default(path)
    }

    pub fn save(&self, path: &Path) -> io::Result<()> {
        write_json(path, self)
    }

    pub fn find(&self, key: &ChoiceKey) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.key == *key)
    }

    pub fn put(&mut self, measured: Measured) {
        self.measured.retain(|known| known.key != measured.key);
        self.measured.push(measured);
    }

    /// What a job takes: what a user chose, then what was measured under `keys`, then what is done by itself.
    pub fn settle<'a>(
        &self,
        hand: Choices,
        keys: impl IntoIterator<Item = &'a ChoiceKey>,
    ) -> Choices {
        let mut settled = hand.plain();
        for measured in keys.into_iter().filter_map(|key| self.find(key)) {
            let best = measured.best(hand);
            match measured.key.choice {
                Choice::Attention => settled.attention = best.attention,
                Choice::Matrices => {
                    settled.matrices = best.matrices;
                    settled.layout = best.layout;
                }
                Choice::Chunk => settled.chunk = best.chunk,
                Choice::Copies => settled.copies = best.copies,
            }
        }
        settled
    }
}

#[cfg(test)]
mod tests;
