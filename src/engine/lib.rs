//! Safelight.
