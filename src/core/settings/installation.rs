//! Kind of this installation, a checkout or a package, and so the command that repairs missing parts.
//!
//! Does not look for missing parts.

use std::path::Path;

/// Kind of this installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallationKind {
    /// Built by cargo in a checkout, so `cargo xtask` repairs it.
    Checkout,
    /// From anywhere else: its user may have no cargo and no sources.
    Package,
}

impl InstallationKind {
    pub fn of_this_program() -> Self {
        let executable = std::env::current_exe();
        executable.map_or(Self::Package, |executable| {
            Self::from_executable(&executable)
        })
    }

    fn from_executable(executable: &Path) -> Self {
        let mut folder = executable.parent().unwrap_or(executable);
        // A test executable is one folder deeper than the program.
        if folder.ends_with("deps") {
            folder = folder.parent().unwrap_or(folder);
        }
        // `target/debug`, or one folder deeper with an explicit target. Not more, because a package that is built or
        // unpacked in a checkout does not belong to it.
        let mut targets = folder.ancestors().skip(1).take(2);
        let is_checkout = targets.any(|target| {
            let checkout = target.parent().filter(|_| target.ends_with("target"));
            checkout.is_some_and(|it| it.join("packaging/xtask").is_dir())
        });
        if is_checkout {
            Self::Checkout
        } else {
            Self::Package
        }
    }

    /// The command that gets a libtorch, which computes on the CPU of any machine.
    pub fn libtorch_command(self) -> &'static str {
        match self {
            Self::Checkout => "cargo xtask setup",
            Self::Package => "safelight runtime install cpu",
        }
    }

    /// Alternative to a complete libtorch, as the end of a sentence that begins with choosing another.
    pub fn or_get_libtorch(self) -> String {
        let command = self.libtorch_command();
        match self {
            Self::Checkout => format!("or run `{command}`"),
            Self::Package => format!("run `{command}`, or install Safelight again"),
        }
    }

    /// Advice for a missing engine.
    pub fn engine_advice(self) -> &'static str {
        match self {
            Self::Checkout => "Build it with `cargo xtask run`",
            Self::Package => "Install Safelight again",
        }
    }

    /// Advice for a missing engine of the other libtorch version.
    pub fn second_engine_advice(self) -> &'static str {
        match self {
            Self::Checkout => "Build it with `cargo xtask run --second-engine`",
            Self::Package => "Install Safelight again from a package, which brings both engines",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_cargo_builds_inside_a_checkout_count_as_checkout() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| InstallationKind::from_executable(&root.path().join(name));
        let built = [
            "target/debug/safelight",
            "target/release/safelight",
            "target/debug/deps/safelight-0123",
            "target/x86_64-unknown-linux-gnu/release/safelight",
            "target/x86_64-unknown-linux-gnu/release/deps/safelight-0123",
        ];
        for name in built {
            assert_eq!(
                at(name),
                InstallationKind::Package,
                "{name}: no sources are above it"
            );
        }
        fs::create_dir_all(root.path().join("packaging/xtask")).unwrap();
        for name in built {
            assert_eq!(at(name), InstallationKind::Checkout, "{name}");
        }
        for name in [
            "target/package/safelight-0.1.0/lib/safelight/safelight",
            "safelight-0.1.0/lib/safelight/safelight",
            "bin/safelight",
        ] {
            assert_eq!(at(name), InstallationKind::Package, "{name}");
        }
        for name in ["/usr/lib/safelight/safelight", "/safelight", ""] {
            let found = InstallationKind::from_executable(Path::new(name));
            assert_eq!(found, InstallationKind::Package, "{name}");
        }
    }

    #[test]
    fn who_has_a_package_is_not_sent_to_cargo() {
        let words = |installation: InstallationKind| {
            let sentences = [
                installation.libtorch_command(),
                &installation.or_get_libtorch(),
                installation.engine_advice(),
                installation.second_engine_advice(),
            ];
            sentences.map(|sentence| sentence.contains("cargo"))
        };
        assert_eq!(words(InstallationKind::Package), [false; 4]);
        assert_eq!(words(InstallationKind::Checkout), [true; 4]);
    }
}
