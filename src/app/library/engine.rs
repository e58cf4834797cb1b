//! Whether the engine could start.

use std::sync::Arc;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::settings::{
    ENGINES, Installation, Paths, Settings, libtorch_versions, own_runtime,
};

use crate::worker::{engine_executable, engine_for};

/// Looks whether the engine could start; runs on a thread of its own.
pub type CheckEngine = Arc<dyn Fn(&Settings) -> Result<(), JobError> + Send + Sync>;

/// Looks whether the engine's executable and a libtorch for it are there. Names only: what they can
/// do, the first job tells.
pub fn check_runtime(paths: Paths) -> CheckEngine {
    Arc::new(move |settings| {
        let found = own_runtime(settings, &paths.cache);
        let engine = match &found {
            Ok(runtime) => engine_for(runtime)?,
            Err(_) => engine_executable(&ENGINES[0]),
        };
        if !engine.is_file() {
            return Err(JobError::new(
                JobErrorKind::Device,
                "the program that computes (safelight-engine) is missing",
            )
            .advise(Installation::of_this_program().engine_advice())
            .detail(format!("expected an executable: {}", engine.display())));
        }
        found.map(drop).map_err(|err| {
            JobError::new(
                JobErrorKind::Device,
                "libtorch is missing, so nothing can be generated yet",
            )
            .advise(no_libtorch_advice())
            .detail(format!("{err}\n{err:?}"))
        })
    })
}

fn no_libtorch_advice() -> String {
    let either = libtorch_versions("or");
    let or_get = Installation::of_this_program().or_get_libtorch();
    format!("Choose a folder with libtorch {either} in the settings, {or_get}")
}
