//! Why an engine did not start, in words that say what to do.
//!
//! Reads what the loader wrote before the engine's own code ran. Starts nothing.

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::settings::{
    InstallationKind, LIBTORCH_VERSION, RuntimeProblem, loader_complaint,
};

/// A start that fails for a reason that a second try cannot mend: the loader's own complaint, or a libtorch that is
/// known not to fit.
pub(crate) fn explain_start(words: &str, concerns: &[RuntimeProblem]) -> Option<JobError> {
    let complaint = words.lines().find(|line| {
        line.contains("error while loading shared libraries")
            || line.contains("symbol lookup error")
    });
    let what = complaint.map(|line| {
        // The name of the engine, then what it is: both are known.
        let complaint = line.splitn(3, ": ").last().unwrap_or(line);
        format!("libtorch cannot be loaded: {}", loader_complaint(complaint))
    });
    let concern = concerns.first();
    let what = match (what, concern) {
        (Some(what), Some(concern)) => format!("{what}; {}", concern.what),
        (None, Some(concern)) => format!("the engine did not start: {}", concern.what),
        (what, None) => what?,
    };
    let advice = concern.map_or_else(
        || {
            let or_get = InstallationKind::of_this_program().or_get_libtorch();
            format!("Choose a whole libtorch {LIBTORCH_VERSION} in the setting runtime.libtorch, {or_get}")
        },
        |concern| concern.advice.clone(),
    );
    Some(
        JobError::new(JobErrorKind::Device, what)
            .advise(advice)
            .detail(words),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADER: &str = "the engine process ended: exit code 127\n/opt/safelight-engine: error while loading shared libraries: libroctracer64.so.4: cannot open shared object file: No such file or directory";

    #[test]
    fn the_library_that_is_missing_is_named() {
        let err = explain_start(LOADER, &[]).unwrap();
        let expected = "libtorch cannot be loaded: libroctracer64.so.4 is missing";
        assert_eq!(err.summary, expected);
        assert!(err.advice.contains(LIBTORCH_VERSION), "{err:?}");
        assert!(explain_start("signal 11\nHSA exception", &[]).is_none());
    }

    #[test]
    fn mismatched_libtorch_version_is_named_for_any_start_failure() {
        let concern = RuntimeProblem {
            what: "this is libtorch 2.13.0, and the engine is built for 2.11.0".to_owned(),
            advice: "Choose another".to_owned(),
        };
        let concerns = [concern];
        let symbol = "/opt/safelight-engine: symbol lookup error: /opt/safelight-engine: undefined symbol: _ZN2at";
        for (words, start) in [
            (
                LOADER,
                "libtorch cannot be loaded: libroctracer64.so.4 is missing; ",
            ),
            (
                symbol,
                "libtorch cannot be loaded: /opt/safelight-engine: undefined symbol: _ZN2at; ",
            ),
            ("signal 11", "the engine did not start: "),
        ] {
            let err = explain_start(words, &concerns).unwrap();
            let expected = format!("{start}{}", concerns[0].what);
            assert!(err.summary.starts_with(&expected), "{err:?}");
            assert_eq!(err.advice, "Choose another");
        }
    }
}
