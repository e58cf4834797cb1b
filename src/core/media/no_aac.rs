//! AAC in a build without it: nothing is encoded or decoded.

use super::{MediaError, SampledSound, SoundTrack};

pub fn encode_sound(_sound: &SampledSound) -> Result<SoundTrack, MediaError> {
    Err(MediaError::other("this build of Safelight has no AAC"))
}

pub(super) fn decode_sound(_track: &SoundTrack) -> Result<Option<SampledSound>, MediaError> {
    Ok(None)
}
