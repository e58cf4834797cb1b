//! What is remembered of choosing models.

use serde::{Deserialize, Serialize};

/// How many of the models used lately are remembered.
const MAX_RECENT: usize = 12;

/// Models that somebody likes or has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    pub favourites: Vec<String>,
    /// The last one used first.
    pub recent: Vec<String>,
}

impl Remembered {
    pub(super) fn favour(&mut self, id: String, is_favourite: bool) {
        self.favourites.retain(|known| *known != id);
        if is_favourite {
            self.favourites.insert(0, id);
        }
    }

    pub(super) fn use_now(&mut self, id: &str) {
        self.recent.retain(|known| known != id);
        self.recent.insert(0, id.to_owned());
        self.recent.truncate(MAX_RECENT);
    }
}
