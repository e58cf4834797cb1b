//! Work on files that must bring an answer, whatever becomes of it.
//!
//! Decoders of others may panic over a damaged file. Their thread would end without a word, and who waits for its answer
//! would wait for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};

use safelight_core::job::{JobError, JobErrorKind};

/// Error of a file whose decoder panicked.
pub(in crate::app) const NOT_SURVIVED: &str = "the file is damaged and cannot be opened";

/// Does the work; `None` where it panics, which the panic hook has logged.
pub(in crate::app) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The same for work that can fail in words.
pub(in crate::app) fn survived<T>(
    work: impl FnOnce() -> Result<T, JobError>,
) -> Result<T, JobError> {
    guarded(work).unwrap_or_else(|| {
        let err = JobError::new(JobErrorKind::Internal, NOT_SURVIVED);
        Err(err.advise("Try another file. Nothing else is lost"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_brings_an_answer() {
        assert_eq!(guarded(|| 3), Some(3));
        assert_eq!(guarded(|| -> u8 { panic!("on purpose") }), None);
        let failed = survived::<()>(|| panic!("on purpose"));
        assert!(failed.is_err_and(|err| err.summary == NOT_SURVIVED));
        assert_eq!(survived(|| Ok(3)), Ok(3));
    }
}
