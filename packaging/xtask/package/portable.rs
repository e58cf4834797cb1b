//! What a system must have for the executables to start: which glibc their symbols name.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Doing as _, Failure, Result};

/// The newest glibc that a release may ask for: that of Ubuntu 22.04 and Fedora 36. Debian 12 has a newer one.
const NEWEST: Glibc = Glibc(2, 35);

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Glibc(u32, u32);

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The oldest glibc on which all of them start; an error where that is newer than releases promise.
pub(super) fn needed_glibc(executables: impl Iterator<Item = PathBuf>) -> Result<Glibc> {
    let mut needed = Glibc(2, 17);
    for executable in executables {
        let symbols = symbols(&executable)?;
        let newest = newest_glibc(&symbols).ok_or_else(|| {
            Failure::new(format!(
                "objdump names no glibc in {}",
                executable.display()
            ))
        })?;
        if newest > NEWEST {
            return Err(Failure::new(format!(
                "{} needs glibc {newest}, and a release may need {NEWEST}: build it on an older system",
                executable.display()
            )));
        }
        needed = needed.max(newest);
    }
    Ok(needed)
}

fn symbols(executable: &Path) -> Result<String> {
    let output = Command::new("objdump")
        .arg("-T")
        .arg(executable)
        .output()
        .doing(|| "objdump, of the package binutils, cannot be started".to_owned())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Of lines such as `0000000000000000 DF *UND* 0000000000000000 (GLIBC_2.34) pthread_create`.
fn newest_glibc(symbols: &str) -> Option<Glibc> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let mut numbers = rest[..end].split('.').map(str::parse);
        match (numbers.next()?, numbers.next()?) {
            (Ok(major), Ok(minor)) => Some(Glibc(major, minor)),
            _ => None,
        }
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_says_which_glibc_is_needed() {
        let symbols = "\
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) pthread_create
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) memcpy
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_PRIVATE) hidden
0000000000000000      DF *UND*\t0000000000000000 (GLIBCXX_3.4.30) other
";
        assert_eq!(newest_glibc(symbols), Some(Glibc(2, 34)));
        assert_eq!(newest_glibc("nothing of it"), None);
        assert!(Glibc(2, 36) > Glibc(2, 4));
    }

    #[test]
    fn this_very_test_names_a_glibc() {
        let own = std::env::current_exe().expect("a test has an executable");
        let symbols = symbols(&own).expect("binutils come with the compiler");
        assert!(newest_glibc(&symbols).is_some());
    }
}
