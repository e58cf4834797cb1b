//! What somebody looks for among the results, and in which order.
//!
//! Words are compared without regard to capitals, in any language; nothing is guessed.

use serde::{Deserialize, Serialize};

/// Which comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sort {
    #[default]
    Newest,
    Oldest,
    Name,
}

impl Sort {
    pub const ALL: [Self; 3] = [Self::Newest, Self::Oldest, Self::Name];

    /// The name in the interface.
    pub fn label(self) -> &'static str {
        match self {
            Self::Newest => "Newest first",
            Self::Oldest => "Oldest first",
            Self::Name => "By name",
        }
    }
}

/// Of which kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    #[default]
    All,
    Pictures,
    Clips,
}

impl Show {
    pub const ALL: [Self; 3] = [Self::All, Self::Pictures, Self::Clips];

    /// The name in the interface.
    pub fn label(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Pictures => "Pictures",
            Self::Clips => "Clips",
        }
    }
}

/// What is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// All of them must be found.
    pub words: String,
    pub sort: Sort,
    pub show: Show,
    pub only_favourites: bool,
}

impl Query {
    /// Whether anything may be left out.
    pub fn leaves_out(&self) -> bool {
        !self.words.trim().is_empty() || self.show != Show::All || self.only_favourites
    }
}

/// The words of a text as they are compared.
pub(super) fn folded(text: &str) -> String {
    // A capital's own lower-case form may have an accent of its own, as with the Turkish İ.
    text.to_lowercase().replace('\u{307}', "")
}
