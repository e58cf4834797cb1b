//! What went wrong, as one sentence and an exit code.
//!
//! Causes that a started program has already explained on the terminal carry no sentence of their own.

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub struct Failure {
    sentence: Option<String>,
    code: u8,
}

impl Failure {
    pub fn new(sentence: impl Into<String>) -> Self {
        Self {
            sentence: Some(sentence.into()),
            code: 1,
        }
    }

    /// Wrong arguments: exit code 2, as everywhere in Safelight.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Self {
            sentence: Some(sentence.into()),
            code: 2,
        }
    }

    /// The program that was started has said what is wrong.
    pub fn said(code: u8) -> Self {
        Self {
            sentence: None,
            code,
        }
    }

    pub fn sentence(&self) -> Option<&str> {
        self.sentence.as_deref()
    }

    pub fn code(&self) -> u8 {
        self.code
    }
}

/// Puts what was being done before an I/O error.
pub trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|err| Failure::new(format!("{}: {err}", what())))
    }
}
