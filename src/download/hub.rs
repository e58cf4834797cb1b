//! Addresses of files on the Hugging Face hub, and the user's token for it.
//!
//! Contacts no server: only addresses and the paths of its tools' tokens.

use std::env;
use std::path::{Path, PathBuf};

use safelight_core::files::{MAX_TEXT_BYTES, read_text_bounded};
use safelight_core::uri;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelHub {
    endpoint: String,
    pub token: Option<String>,
}

impl ModelHub {
    /// The hub that `HF_ENDPOINT` names, else huggingface.co, with the token of `HF_TOKEN`, else of the file that
    /// the hub's own login writes.
    pub fn of_environment() -> Self {
        let variable = |name: &str| env::var(name).ok().filter(|text| !text.trim().is_empty());
        let home = variable("HF_HOME").map(PathBuf::from).or_else(|| {
            let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.or_else(|| env::home_dir().map(|home| home.join(".cache")));
            cache.map(|cache| cache.join("huggingface"))
        });
        let kept = || read_text_bounded(&home?.join("token"), MAX_TEXT_BYTES).ok();
        Self::new(
            &variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned()),
            variable("HF_TOKEN").or_else(kept),
        )
    }

    /// `token`: surrounding white space does not count.
    pub fn new(endpoint: &str, token: Option<String>) -> Self {
        let token = token.map(|token| token.trim().to_owned());
        Self {
            endpoint: endpoint.trim().trim_end_matches('/').to_owned(),
            token: token.filter(|token| !token.is_empty() && token.is_ascii()),
        }
    }

    /// Address of a file in the newest revision of a repository. `path` may contain folders.
    pub fn url(&self, repository: &str, path: &str) -> String {
        let path = uri::encoded(Path::new(path));
        format!("{}/{repository}/resolve/main/{path}", self.endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_repository_and_the_escaped_path() {
        let hub = ModelHub::new(" https://hub.example/ ", Some(" hf_x\n".to_owned()));
        assert_eq!(
            hub.url("owner/name", "split files/a+b.safetensors"),
            "https://hub.example/owner/name/resolve/main/split%20files/a%2Bb.safetensors"
        );
        assert_eq!(hub.token.as_deref(), Some("hf_x"));
        assert_eq!(ModelHub::new("x", Some(" \n".to_owned())).token, None);
    }
}
