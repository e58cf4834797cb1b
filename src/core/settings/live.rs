//! The settings as they are at this moment, for those who ask from another thread.
//!
//! Reads no file: the window puts in what it goes by, and a job takes out what counts for it.

use std::sync::{Arc, Mutex, PoisonError};

use super::Settings;

/// The window's settings, for the worker. A copy of it is the same settings.
#[derive(Clone, Debug, Default)]
pub struct LiveSettings(Arc<Mutex<Arc<Settings>>>);

impl LiveSettings {
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(settings))))
    }

    pub fn get(&self) -> Arc<Settings> {
        // Only locked to copy a pointer, so there is no wait.
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn set(&self, settings: Settings) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}
