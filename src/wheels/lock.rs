//! Lock files: which files of which wheels a libtorch for the CPU is made of, and the checksums that they must have.
//!
//! A line each: `wheel NAME===VERSION SHA256` (of the wheel's RECORD), then its `file FROM TO` and `tree FROM/ TO/`;
//! `text PATH CONTENT` for a file of one line; `crate NAME VERSION SHA256` for a Rust package that goes with it.

/// The libtorch that ships.
pub const FIRST: &str = include_str!("libtorch.lock");
/// The one that ROCm 10 has.
pub const SECOND: &str = include_str!("libtorch-2.13.lock");

#[derive(Debug, Default)]
pub struct LibtorchLock<'a> {
    pub wheels: Vec<LockedWheel<'a>>,
    /// Paths with the line that each file holds.
    pub texts: Vec<(&'a str, &'a str)>,
}

#[derive(Debug, Default)]
pub struct LockedWheel<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// The checksum of its RECORD, in lower-case hexadecimal.
    pub record_sha256: &'a str,
    /// Members, and where each goes.
    pub files: Vec<(&'a str, &'a str)>,
    /// Folders with all that is in them.
    pub trees: Vec<(&'a str, &'a str)>,
}

impl<'a> LibtorchLock<'a> {
    pub fn parse(text: &'a str) -> Self {
        let mut lock = Self::default();
        for line in text.lines() {
            match *line.splitn(4, ' ').collect::<Vec<_>>() {
                ["wheel", requirement, record_sha256] => {
                    let (name, version) =
                        requirement.split_once("===").unwrap_or((requirement, ""));
                    lock.wheels.push(LockedWheel {
                        name,
                        version,
                        record_sha256,
                        ..LockedWheel::default()
                    });
                }
                ["text", path, ..] => {
                    let content = line.splitn(3, ' ').nth(2).unwrap_or_default();
                    lock.texts.push((path, content));
                }
                [kind @ ("file" | "tree"), from, to] => {
                    if let Some(wheel) = lock.wheels.last_mut() {
                        let list = if kind == "file" {
                            &mut wheel.files
                        } else {
                            &mut wheel.trees
                        };
                        list.push((from, to));
                    }
                }
                // Comments, and `crate`, which `packaging/xtask/second.rs` reads.
                _ => {}
            }
        }
        lock
    }
}

impl LockedWheel<'_> {
    /// The target of a member; `None` where it is not needed.
    pub fn target_of(&self, member: &str) -> Option<String> {
        if let Some((_, to)) = self.files.iter().find(|(from, _)| *from == member) {
            return Some((*to).to_owned());
        }
        let mut trees = self.trees.iter();
        trees.find_map(|(from, to)| Some(format!("{to}{}", member.strip_prefix(from)?)))
    }
}

/// The SHA-256 of a wheel's list of files, where a lock names that wheel: the one of CPython 3.11, or of any Python.
pub fn record_sum(file: &str) -> Option<&'static str> {
    let locks = [FIRST, SECOND].into_iter().map(LibtorchLock::parse);
    locks.flat_map(|lock| lock.wheels).find_map(|wheel| {
        let start = format!("{}-{}-", wheel.name.replace('-', "_"), wheel.version);
        let rest = file.strip_prefix(&start)?;
        (rest.starts_with("cp311-") || rest.starts_with("py3-")).then_some(wheel.record_sha256)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_both_libtorchs_wheels_are_known() {
        let is_known = |version: &str| {
            let name = format!("torch-{version}-cp311-cp311-manylinux_2_28_x86_64.whl");
            record_sum(&name).is_some_and(|sum| sum.len() == 64)
        };
        assert!(is_known("2.11.0") && is_known("2.13.0"));
        assert!(!is_known("2.12.0") && !is_known("2.13.0+rocm10.0.0"));
    }

    #[test]
    fn wheel_members_map_to_their_locked_targets_and_others_are_skipped() {
        let lock = LibtorchLock::parse(
            "# why\ncrate tch 0.26.0 aa\nwheel torch===2.13.0 cc\nfile torch/lib/a.so lib/a.so\n\
             tree torch/include/ include/\ntext lib/b.so INPUT(a b.so)\n",
        );
        let wheel = &lock.wheels[0];
        let expected = ("torch", "2.13.0", "cc");
        assert_eq!((wheel.name, wheel.version, wheel.record_sha256), expected);
        for (member, target) in [
            ("torch/lib/a.so", Some("lib/a.so")),
            ("torch/include/c/d.h", Some("include/c/d.h")),
            ("torch/lib/b.so", None),
        ] {
            assert_eq!(wheel.target_of(member).as_deref(), target, "{member}");
        }
        assert_eq!(lock.texts, [("lib/b.so", "INPUT(a b.so)")]);
    }
}
