//! Paths as text that loses nothing, as in `file://` addresses: what could mean something else is `%XX`.
//!
//! It knows nothing of other parts of an address.

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
