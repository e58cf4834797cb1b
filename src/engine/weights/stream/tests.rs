//! Streaming.
