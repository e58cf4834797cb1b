//! AAC by FDK: samples to packets for an MP4, and packets of a file to samples.

use std::io::Write as _;

use fdk_aac::dec::Decoder;
use fdk_aac::enc::{AudioObjectType, BitRate, ChannelMode, Encoder, EncoderParams};
use fdk_aac::{dec, enc};

use super::MediaError;
use super::sampled_sound::{MAX_SAMPLES, SampledSound};
use super::sound::{SoundPacket, SoundTrack};

/// Bits per second of each channel: more is not heard.
const CHANNEL_BITS: u32 = 96_000;
/// Most bits per second and sample that the decoders of AAC-LC take.
const MAX_SAMPLE_BITS: u32 = 6;
/// The longest decoded packet: HE-AAC, with as many channels as AAC has.
const MAX_PACKET_SAMPLES: usize = 2048 * 8;
/// Offset of the codec's own box in a description of an MP4's sound.
const OWN_BOX: usize = 36;
/// MPEG-4 AAC, and the three profiles of MPEG-2's, in an `esds` box.
const OBJECT_TYPES: [u8; 4] = [0x40, 0x66, 0x67, 0x68];

/// Encodes a sound of one or two channels.
pub fn encode_sound(sound: &SampledSound) -> Result<SoundTrack, MediaError> {
    let failed = |why: String| MediaError::other(format!("the sound cannot be encoded ({why})"));
    let disk = |err: std::io::Error| failed(err.to_string());
    let channels = match sound.channels {
        1 => ChannelMode::Mono,
        2 => ChannelMode::Stereo,
        other => {
            let why = format!("it has {other} channels, and only mono and stereo are written");
            return Err(failed(why));
        }
    };
    let count = u32::from(sound.channels);
    let bits = CHANNEL_BITS.min(sound.rate.saturating_mul(MAX_SAMPLE_BITS));
    let encoder = Encoder::new(EncoderParams {
        bit_rate: BitRate::Cbr(bits * count),
        sample_rate: sound.rate,
        transport: enc::Transport::Raw,
        channels,
        audio_object_type: AudioObjectType::Mpeg4LowComplexity,
    })
    .map_err(|err| failed(format!("{} Hz: {err}", sound.rate)))?;
    let info = encoder.info().map_err(|err| failed(err.to_string()))?;
    let (delay, frame) = (info.nDelay as usize, info.frameLength as usize);
    let num_packets = (sound.len() + delay).div_ceil(frame);
    let hop = frame * usize::from(sound.channels);
    let mut file = tempfile::tempfile().map_err(disk)?;
    let mut packets = Vec::with_capacity(num_packets);
    let mut bytes = vec![0; info.maxOutBufBytes as usize];
    let mut offset = 0;
    for index in 0..num_packets {
        let rest = sound.samples.get(index * hop..).unwrap_or_default();
        let mut input = rest[..hop.min(rest.len())].to_vec();
        // Silence pushes out what the encoder still holds.
        input.resize(hop, 0);
        let encoded = encoder.encode(&input, &mut bytes);
        let encoded = encoded.map_err(|err| failed(err.to_string()))?;
        file.write_all(&bytes[..encoded.output_size])
            .map_err(disk)?;
        let size = encoded.output_size as u32;
        let lasts = frame as u32;
        packets.push(SoundPacket {
            offset,
            size,
            lasts,
        });
        offset += u64::from(size);
    }
    let config = &info.confBuf[..(info.confSize as usize).min(info.confBuf.len())];
    Ok(SoundTrack {
        file,
        description: description(config, sound.channels, sound.rate),
        timescale: sound.rate,
        packets,
        delay_secs: 0.0,
        skipped: delay as u64,
        heard: Some(sound.len() as u64),
    })
}

/// The box that describes the packets. `config`: the decoder's, at most 64 bytes.
fn description(config: &[u8], channels: u16, rate: u32) -> Vec<u8> {
    let descriptor = |tag: u8, parts: &[&[u8]]| {
        let content = parts.concat();
        [&[tag, content.len() as u8], content.as_slice()].concat()
    };
    let specific = descriptor(5, &[config]);
    // AAC, a stream of sound; the size of a buffer and the rates are not given.
    let decoder = descriptor(4, &[&[0x40, 0x15], &[0; 11], &specific]);
    let stream = descriptor(3, &[&[0; 3], &decoder, &descriptor(6, &[&[2]])]);
    let esds_size = (12 + stream.len()) as u32;
    let size = OWN_BOX as u32 + esds_size;
    // The clock of rates that 16 bits do not hold is the track's.
    let rate = u16::try_from(rate).unwrap_or(0);
    [
        &size.to_be_bytes()[..],
        b"mp4a",
        &[0; 6],
        &1_u16.to_be_bytes(),
        &[0; 8],
        &channels.to_be_bytes(),
        &16_u16.to_be_bytes(),
        &[0; 4],
        &rate.to_be_bytes(),
        &[0; 2],
        &esds_size.to_be_bytes(),
        b"esds",
        &[0; 4],
        &stream,
    ]
    .concat()
}

/// The decoder's configuration in the description of a track; `None` for other codecs.
fn config_of(description: &[u8]) -> Option<&[u8]> {
    if description.get(4..8)? != b"mp4a" {
        return None;
    }
    let stream = descriptor(description.get(OWN_BOX + 12..)?, 3)?;
    let flags = *stream.get(2)?;
    // Fields of other networks than a file.
    let inner = stream.get(3..).filter(|_| flags & 0xe0 == 0)?;
    let decoder = descriptor(inner, 4)?;
    let is_aac = OBJECT_TYPES.contains(decoder.first()?);
    descriptor(decoder.get(13..)?, 5).filter(|_| is_aac)
}

/// Content of the descriptor at the front, if it has this tag. A length has 7 bits in each of up to four bytes.
fn descriptor(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let (found, mut rest) = bytes.split_first()?;
    let mut len = 0;
    for _ in 0..4 {
        let (byte, next) = rest.split_first()?;
        len = len << 7 | usize::from(byte & 0x7f);
        rest = next;
        if byte & 0x80 == 0 {
            break;
        }
    }
    rest.get(..len).filter(|_| *found == tag)
}

/// Decodes what is heard of a track, more than two channels mixed to stereo. `None` for other codecs. Damaged packets
/// become silence; the error says why nothing can be decoded.
pub(super) fn decode_sound(track: &SoundTrack) -> Result<Option<SampledSound>, MediaError> {
    let Some(config) = config_of(&track.description) else {
        return Ok(None);
    };
    let failed = |why: &str| MediaError::other(format!("its sound cannot be decoded ({why})"));
    let mut decoder = Decoder::new(dec::Transport::Raw);
    decoder
        .set_max_output_channels(2)
        .and_then(|()| decoder.config_raw(config))
        .map_err(|err| failed(err.message()))?;
    let mut sound = SampledSound::default();
    let mut pcm = vec![0; MAX_PACKET_SAMPLES];
    let (mut num_lost, mut delay) = (0, 0);
    let mut decode = |packet: &[u8]| {
        let filled = decoder.fill(packet);
        let is_good = filled.and_then(|_| decoder.decode_frame(&mut pcm)).is_ok();
        let info = decoder.stream_info();
        let (channels, rate) = (info.numChannels as u16, info.sampleRate as u32);
        let count = decoder.decoded_frame_size().min(pcm.len());
        if sound.samples.is_empty() {
            (sound.channels, sound.rate) = (channels, rate);
            delay = info.outputDelay as usize;
        }
        let is_same = (sound.channels, sound.rate) == (channels, rate);
        if is_good && is_same {
            sound.samples.extend(&pcm[..count]);
        } else {
            num_lost += 1;
            sound.samples.resize(sound.samples.len() + count, 0);
        }
        if sound.samples.len() > MAX_SAMPLES {
            return Err(failed("it is too long"));
        }
        Ok(())
    };
    let mut last = Vec::new();
    track.copy(&mut |packet| {
        packet.clone_into(&mut last);
        decode(packet)
    })?;
    // The decoder returns samples with a delay: further packets bring the last ones.
    for _ in 0..2 {
        decode(&last)?;
    }
    if num_lost > track.packets.len() || sound.is_empty() || sound.rate == 0 {
        return Err(failed("it is damaged"));
    }
    if num_lost > 0 {
        tracing::warn!("{num_lost} packets of the sound are damaged: they are silent");
    }
    let channels = usize::from(sound.channels);
    let samples = |units: u64| {
        let samples = u128::from(units) * u128::from(sound.rate) / u128::from(track.timescale);
        usize::try_from(samples).unwrap_or(usize::MAX)
    };
    let begin = samples(track.skipped).saturating_add(delay);
    let rest = track.num_units().saturating_sub(track.skipped);
    let heard = samples(track.heard.map_or(rest, |heard| heard.min(rest)));
    let begin = begin.saturating_mul(channels).min(sound.samples.len());
    let heard = heard.saturating_mul(channels);
    let mut heard: Vec<i16> = sound.samples.drain(begin..).take(heard).collect();
    let silent = (track.delay_secs * f64::from(sound.rate)) as usize;
    let silent = silent.saturating_mul(channels);
    if silent.saturating_add(heard.len()) > MAX_SAMPLES {
        return Err(failed("it is too long"));
    }
    heard.splice(0..0, std::iter::repeat_n(0, silent));
    sound.samples = heard;
    Ok(Some(sound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{VideoOptions, VideoWriter, open_sound, sound_for};
    use crate::testing::random::Random;

    /// Two tones and some noise.
    fn sound(len: usize, channels: u16, rate: u32) -> SampledSound {
        let mut random = Random::new(5);
        let mut sample = |index: usize| {
            let (time, channel) = (index / usize::from(channels), index % usize::from(channels));
            let phase = time as f64 / f64::from(rate) * std::f64::consts::TAU;
            let tones = (440.0 * phase).sin() + (1234.5 * phase * (channel + 1) as f64).sin() / 2.0;
            let noise = random.below(200) as f64 - 100.0;
            (tones * 6000.0 + noise) as i16
        };
        SampledSound {
            samples: (0..len * usize::from(channels)).map(&mut sample).collect(),
            channels,
            rate,
        }
    }

    /// Power of a sound over that of its difference from another.
    fn signal_to_noise(a: &SampledSound, b: &SampledSound) -> f64 {
        let power = |values: &mut dyn Iterator<Item = f64>| values.map(|it| it * it).sum::<f64>();
        let pairs = a.samples.iter().zip(&b.samples);
        let signal = power(&mut a.samples.iter().map(|it| f64::from(*it)));
        signal / power(&mut pairs.map(|(a, b)| f64::from(*a) - f64::from(*b)))
    }

    #[test]
    fn encoded_sound_has_every_sample_at_its_time() {
        for (len, channels, rate) in [
            (48_000, 2, 48_000),
            (10_001, 1, 24_000),
            (1, 2, 44_100),
            (1023, 1, 8000),
            (30_000, 2, 96_000),
        ] {
            let sound = sound(len, channels, rate);
            let track = encode_sound(&sound).unwrap();
            let decoded = decode_sound(&track).unwrap().unwrap();
            assert_eq!(
                (decoded.len(), decoded.channels, decoded.rate),
                (len, channels, rate)
            );
            let clear = signal_to_noise(&sound, &decoded);
            // 10 dB, and 20 for long ones: one sample off would be 8.
            let least = if len > 5000 { 100.0 } else { 0.0 };
            assert!(clear > least, "{len} samples: {clear}");
        }
    }

    #[test]
    fn sound_that_aac_does_not_have_is_refused_with_the_reason() {
        for (channels, rate, expected) in [(6, 48_000, "6 channels"), (2, 12_345, "12345 Hz")] {
            let err = encode_sound(&sound(100, channels, rate)).unwrap_err();
            assert!(err.to_string().contains(expected), "{err}");
        }
    }

    #[test]
    fn a_video_has_its_sound_in_step_for_odd_frame_counts_and_rates() {
        let folder = tempfile::tempdir().unwrap();
        let frame = crate::media::RgbPixels::from_fn(32, 32, |_, _| [90; 3]).unwrap();
        for (num_frames, fps, secs) in [
            (25_usize, 24.0, 1.2),
            (7, 23.976, 1.0),
            (121, 24.0, 5.04),
            (3, 60.0, 0.01),
        ] {
            let sound = sound((secs * 48_000.0) as usize, 2, 48_000);
            let video_secs = num_frames as f64 / fps;
            let track = encode_sound(&sound).unwrap().cut(0.0, video_secs);
            let path = folder.path().join(format!("{num_frames}.mp4"));
            let options = VideoOptions {
                fps,
                ..VideoOptions::default()
            };
            let mut writer = VideoWriter::create(&path, options).unwrap();
            for _ in 0..num_frames {
                writer.push(&frame).unwrap();
            }
            writer.finish_with(track.as_ref()).unwrap();
            let found = open_sound(&path).unwrap().unwrap();
            let expected = sound.cut(0.0, video_secs);
            // The movie's clock counts thousandths of a frame.
            let off = found.len().abs_diff(expected.len());
            assert!(off <= 3, "{num_frames} frames: {off} samples");
            assert!(found.len() < 1000 || signal_to_noise(&expected, &found) > 100.0);
        }
    }

    #[test]
    fn sound_of_other_programs_is_decoded_from_its_beginning() {
        let videos = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let videos = videos.join("media/source/tests/videos");
        // A tone of half a second at 440 Hz; it begins late in the second.
        for (name, begins) in [("sound.mp4", 0.0), ("sound-late.mov", 0.1)] {
            let sound = open_sound(&videos.join(name)).unwrap().unwrap();
            assert_eq!((sound.channels, sound.rate), (1, 16_000), "{name}");
            let secs = sound.len() as f64 / 16_000.0;
            assert!((secs - begins - 0.5).abs() < 0.02, "{name}: {secs} s");
            let first = sound.samples.iter().position(|it| it.abs() > 1000).unwrap();
            let found = first as f64 / 16_000.0;
            assert!((found - begins).abs() < 0.01, "{name}: from {found} s");
        }
    }

    #[test]
    fn damaged_packets_are_silence_errors_or_noise_and_never_more_samples() {
        let sound = sound(20_000, 2, 48_000);
        let mut random = Random::new(3);
        for round in 0..20 {
            let track = encode_sound(&sound).unwrap();
            let mut bytes = Vec::new();
            let take = &mut |packet: &[u8]| {
                bytes.extend(packet);
                Ok(())
            };
            track.copy(take).unwrap();
            for _ in 0..=round * 10 {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << (at % 8);
            }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let damaged = SoundTrack { file, ..track };
            if let Ok(Some(decoded)) = decode_sound(&damaged) {
                assert_eq!(decoded.len(), sound.len());
            }
        }
        let mut track = encode_sound(&sound).unwrap();
        let whole = track.description.clone();
        for at in 8..whole.len() {
            track.description.clone_from(&whole);
            track.description[at] ^= 0xff;
            decode_sound(&track).ok();
            track.description.truncate(at);
            decode_sound(&track).ok();
        }
    }

    #[test]
    fn a_copied_track_is_as_it_was_encoded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mp4");
        let track = encode_sound(&sound(9000, 2, 44_100)).unwrap();
        let frame = crate::media::RgbPixels::from_fn(32, 32, |_, _| [9; 3]).unwrap();
        let mut writer = VideoWriter::create(&path, VideoOptions::default()).unwrap();
        writer.push(&frame).unwrap();
        writer.finish_with(Some(&track)).unwrap();
        let found = sound_for(&path, &path).unwrap().sound.unwrap();
        assert_eq!(found.description, track.description);
        let found = (found.skipped, found.timescale, found.num_units());
        assert_eq!(found, (2048, 44_100, track.num_units()));
    }
}
