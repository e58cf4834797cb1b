//! Lossless paths as text, as in `file://` URLs: special characters are `%XX`; and checks of allowed URLs.
//!
//! Sends no requests.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// All but letters, digits and what means nothing in an address.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// `/home/a/gr%C3%BCn.png`.
pub fn encoded(path: &Path) -> String {
    percent_encode(path.as_os_str().as_bytes(), ENCODED).to_string()
}

/// The path of such a text; what is no `%XX` stays as it is.
pub fn decoded(text: &str) -> PathBuf {
    OsString::from_vec(percent_decode_str(text).collect()).into()
}

/// Returns whether a URL is of a server on this machine, which is used without encryption: no network is involved.
pub fn is_of_this_machine(url: &str) -> bool {
    let rest = url.strip_prefix("http://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        _ => authority,
    };
    ["127.0.0.1", "localhost", "[::1]"].contains(&host)
}

/// Returns whether a text is an allowed URL: with TLS, or of this machine.
pub fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let has_space = text.contains(|c: char| c.is_whitespace() || c.is_control());
    !has_space && (!host.is_empty() || is_of_this_machine(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_allowed_only_for_localhost() {
        for url in [
            "http://127.0.0.1:8080/a",
            "http://localhost",
            "http://[::1]:1?a",
            "http://[::1]/",
        ] {
            assert!(is_of_this_machine(url) && is_address(url), "{url}");
        }
        for url in [
            "https://huggingface.co/a",
            "http://huggingface.co/a",
            "http://127.0.0.1.example/a",
            "http://localhost@example.org/a",
            "http://localhost:80@example.org/",
            "http://example.org/#localhost",
            "file:///etc/passwd",
        ] {
            assert!(!is_of_this_machine(url), "{url}");
            assert_eq!(is_address(url), url.starts_with("https://"), "{url}");
        }
        for text in ["https://", "https:///a", "https://a b/", "mirror.example"] {
            assert!(!is_address(text), "{text}");
        }
    }

    #[test]
    fn every_path_comes_back_as_it_was() {
        let odd = OsString::from_vec(b"/a b/\xff%41\n.png".to_vec());
        for path in [
            Path::new("/home/a/grün.png"),
            Path::new(&odd),
            Path::new(""),
        ] {
            assert_eq!(decoded(&encoded(path)), path);
        }
        assert_eq!(encoded(Path::new("/a b/ü")), "/a%20b/%C3%BC");
        assert_eq!(decoded("100%"), Path::new("100%"));
    }
}
