//! Search, filters and order of results.
//!
//! Words are compared case-insensitively, in any language; there is no fuzzy matching.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::enum_macros::labelled;
use crate::naming;

labelled! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum SortOrder {
        #[default]
        Newest = "Newest first",
        Oldest = "Oldest first",
        Name = "By name",
    }
}

labelled! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ShownKind {
        #[default]
        All = "All",
        Images = "Images",
        Videos = "Videos",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultDate {
    Today,
    Last7Days,
    Last30Days,
    /// `2026-11`; the newest is the first in order.
    Month(Reverse<String>),
}

impl ResultDate {
    /// The recent ones, each with its first day: `2026-11-20`.
    pub(super) fn recent() -> [(Self, String); 3] {
        let now = naming::now_secs().cast_signed();
        let day = |days_ago: i64| {
            let minute = naming::local_minute(now - days_ago * 24 * 60 * 60);
            minute.split(' ').next().unwrap_or_default().to_owned()
        };
        [
            (Self::Today, day(0)),
            (Self::Last7Days, day(6)),
            (Self::Last30Days, day(29)),
        ]
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GalleryFilter {
    Date(ResultDate),
    Tag(String),
    Model(String),
    Lora(String),
}

impl GalleryFilter {
    pub fn group(&self) -> &'static str {
        match self {
            Self::Date(_) => "Date",
            Self::Tag(_) => "Tag",
            Self::Model(_) => "Model",
            Self::Lora(_) => "LoRA",
        }
    }

    pub fn value(&self) -> String {
        match self {
            Self::Date(ResultDate::Today) => "Today".to_owned(),
            Self::Date(ResultDate::Last7Days) => "Last 7 days".to_owned(),
            Self::Date(ResultDate::Last30Days) => "Last 30 days".to_owned(),
            Self::Date(ResultDate::Month(Reverse(month))) => naming::month_name(month),
            Self::Tag(name) | Self::Model(name) | Self::Lora(name) => name.clone(),
        }
    }

    /// `Model: flux`, and of a date its name alone.
    pub fn label(&self) -> String {
        match self {
            Self::Date(_) => self.value(),
            _ => format!("{}: {}", self.group(), self.value()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GalleryQuery {
    /// All of them must be found.
    pub words: String,
    pub sort: SortOrder,
    pub show: ShownKind,
    pub only_favourites: bool,
    /// All of the tags and LoRAs, one of the models, one of the dates.
    pub filters: BTreeSet<GalleryFilter>,
}

impl GalleryQuery {
    /// Returns whether any result may be filtered out.
    pub fn leaves_out(&self) -> bool {
        let is_any = !self.words.trim().is_empty() || self.only_favourites;
        is_any || self.show != ShownKind::All || !self.filters.is_empty()
    }

    /// `own` are all filters that a result passes.
    pub(super) fn passes(&self, own: &[GalleryFilter]) -> bool {
        self.filters.iter().all(|wanted| match wanted {
            GalleryFilter::Tag(_) | GalleryFilter::Lora(_) => own.contains(wanted),
            GalleryFilter::Model(_) | GalleryFilter::Date(_) => {
                let is_other = |filter: &&GalleryFilter| filter.group() == wanted.group();
                let mut others = self.filters.iter().filter(is_other);
                others.any(|filter| own.contains(filter))
            }
        })
    }
}

/// The words of a text as they are compared.
pub(super) fn folded(text: &str) -> String {
    // The lower-case form of a capital may have a separate accent, as with the Turkish İ.
    text.to_lowercase().replace('\u{307}', "")
}
