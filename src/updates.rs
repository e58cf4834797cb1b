//! Whether there is a newer Safelight, asked of an address that its user names. Nothing is asked otherwise, and nothing is
//! ever installed.
//!
//! The answer is a JSON object with `version` and, where there is one, `page`.

use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use serde::Deserialize;

use crate::download::{self, Options};

/// This program's.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
const MAX_VERSION_CHARS: usize = 40;

/// What an address says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Newest {
    pub version: String,
    /// Where to read of it and get it.
    #[serde(default)]
    pub page: Option<String>,
}

impl Newest {
    /// Whether this program is older.
    pub fn is_newer(&self) -> bool {
        is_newer(&self.version, VERSION)
    }
}

/// Asks once. Blocks, as long as a server may be silent.
pub fn newest(feed: &str) -> Result<Newest, JobError> {
    let options = Options {
        retries: 0,
        ..Options::default()
    };
    let text = download::page(feed, &options, &CancelToken::default());
    // Nobody cancels.
    let text = text
        .map_err(|err| JobError::from(&err))?
        .unwrap_or_default();
    read(&text).ok_or_else(|| {
        let what = format!("the address for updates does not say a version: {feed}");
        JobError::new(JobErrorKind::Network, what)
            .advise("Correct or empty the setting updates.feed")
    })
}

fn read(text: &str) -> Option<Newest> {
    let mut newest: Newest = serde_json::from_str(text).ok()?;
    let is_version = numbers(&newest.version).is_some();
    // Whatever a server says is shown as it is: only what can be an address.
    newest.page = newest
        .page
        .filter(|page| safelight_core::uri::is_address(page));
    is_version.then_some(newest)
}

/// `1.2.3` → 1, 2, 3.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let is_short = version.len() <= MAX_VERSION_CHARS;
    let numbers = version.split('.').map(|part| part.parse().ok());
    numbers.collect::<Option<Vec<u64>>>().filter(|_| is_short)
}

fn is_newer(version: &str, own: &str) -> bool {
    // What comes behind the numbers of a version of ours is older than the version.
    let own = own.split(['-', '+']).next().unwrap_or_default();
    numbers(version) > numbers(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(is_newer("0.10.0", "0.9.9"));
        assert!(is_newer("1.0.1", "1.0"));
        assert!(!is_newer("0.9.9", "0.9.9"));
        assert!(!is_newer("0.9.8", "0.9.9-dev+abc"));
    }

    #[test]
    fn what_says_no_version_or_leads_elsewhere_is_not_believed() {
        let page = |text: &str| read(text).map(|newest| newest.page.is_some());
        assert_eq!(
            page(r#"{"version": "1.2", "page": "https://a.example/"}"#),
            Some(true)
        );
        assert_eq!(
            page(r#"{"version": "1.2", "page": "file:///etc"}"#),
            Some(false)
        );
        assert_eq!(page(r#"{"version": "1.2"}"#), Some(false));
        for text in [
            "",
            "<html>",
            r#"{"version": "new; rm"}"#,
            r#"{"page": "x"}"#,
        ] {
            assert_eq!(page(text), None, "{text}");
        }
    }
}
