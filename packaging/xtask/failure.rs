//! An error: one sentence and an exit code.

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub struct Failure {
    sentence: String,
    code: u8,
}

impl Failure {
    pub fn new(sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self { sentence, code: 1 }
    }

    /// Wrong arguments: exit code 2, as everywhere in Safelight.
    pub fn usage(sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self { sentence, code: 2 }
    }

    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    pub fn code(&self) -> u8 {
        self.code
    }
}

/// Puts an action or a path in front of an I/O error.
pub trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|err| Failure::new(format!("{}: {err}", what())))
    }
}
