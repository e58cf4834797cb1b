//! The versions of libtorch that Safelight has an engine for, and what the executable of each is called.
//!
//! Data alone: whether an executable is here, its caller looks.

/// An engine: the same sources, built for one version of libtorch.
#[derive(Debug, PartialEq, Eq)]
pub struct EngineBuild {
    /// The version of libtorch, such as `2.11.0`.
    pub libtorch: &'static str,
    /// The name of its executable.
    pub executable: &'static str,
}

/// The engines. The first is the one for the libtorch that ships, and for one that does not say its version.
pub const ENGINES: [EngineBuild; 2] = [
    EngineBuild {
        libtorch: "2.11.0",
        executable: "safelight-engine",
    },
    EngineBuild {
        libtorch: "2.13.0",
        executable: "safelight-engine-2.13",
    },
];

/// The version of the libtorch that ships and that set-up prepares.
pub const LIBTORCH_VERSION: &str = ENGINES[0].libtorch;

/// The engine for a libtorch that calls itself so, such as `2.11.0+cu130`; `None` where there is none.
pub fn engine_of(version: &str) -> Option<&'static EngineBuild> {
    let number = version.split('+').next();
    ENGINES.iter().find(|it| Some(it.libtorch) == number)
}

/// All versions with this word between them, such as `2.11.0 or 2.13.0`.
pub fn libtorch_versions(between: &str) -> String {
    ENGINES
        .each_ref()
        .map(|it| it.libtorch)
        .join(&format!(" {between} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtorch_version_selects_the_engine_regardless_of_its_build_suffix() {
        let chosen = |version: &str| engine_of(version).map(|it| it.executable);
        for version in ["2.11.0", "2.11.0+cu130", "2.11.0+rocm7.14.1"] {
            assert_eq!(chosen(version), Some("safelight-engine"), "{version}");
        }
        for version in ["2.13.0", "2.13.0+rocm10.0.0"] {
            assert_eq!(chosen(version), Some("safelight-engine-2.13"), "{version}");
        }
        for version in ["2.12.0+rocm7.14.1", "2.13.1", "2.1", ""] {
            assert_eq!(chosen(version), None, "{version}");
        }
        assert_eq!(libtorch_versions("or"), "2.11.0 or 2.13.0");
    }
}
