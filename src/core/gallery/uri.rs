//! Paths as text that loses nothing, as in `file://` addresses: whatever is no plain letter is `%XX`.
//!
//! It knows nothing of other parts of an address.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// `/home/a/gr%C3%BCn.png`.
pub(crate) fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            write!(text, "%{byte:02X}").ok();
        }
    }
    text
}

/// The path of such a text; what is no `%XX` stays as it is.
pub(crate) fn decoded(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).filter(|_| *first == b'%');
        let byte = code
            .and_then(|digits| str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

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
