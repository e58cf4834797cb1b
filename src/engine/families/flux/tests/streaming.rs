//! Flux with only a part of its weights on the device: equal to the last bit.

use safelight_core::networks::{T5Config, T5Kind};

use super::dialects::originals;
use super::*;
use crate::families::tests::{assert_equal_when_streamed, predictions};
use crate::placement::ComputePlacement;
use crate::text::T5Encoder;
use crate::weights::tests::as_fp8::{FORMS, Recorded};

#[test]
fn fp8_streams_as_it_is_stored() {
    let recorded = Recorded::open("flux");
    let config = fs::read(recorded.config("transformer")).unwrap();
    let config: FluxTransformerConfig = serde_json::from_slice(&config).unwrap();
    let tensors = originals(&recorded.weights("transformer"));
    for (kind, scales, _) in [FORMS[1], FORMS[2]] {
        let folder = recorded.folder("transformer", &tensors, kind, scales);
        assert_equal_when_streamed(4, |resident_bytes| {
            let place = ComputePlacement {
                resident_bytes,
                ..ComputePlacement::new(Device::Cpu, Kind::BFloat16)
            };
            let w = place
                .open(&folder.path().join("model.safetensors"))
                .unwrap();
            let (skip, timesteps) = (SkipOptions::default(), [900.0, 500.0, 100.0]);
            let (all, _) = predictions::<FluxTransformer>(&config, &w, &timesteps, skip).unwrap();
            (all, w.stream_bytes())
        });
    }
}

#[test]
fn streamed_t5_encoder_matches_the_resident_one() {
    let recorded = Recorded::open("flux");
    let tensors = recorded.weights("text_encoder_2");
    for (kind, scales, _) in [FORMS[0], FORMS[3]] {
        let folder = recorded.folder("text_encoder_2", &tensors, kind, scales);
        let config = T5Config::read_as(T5Kind::T5, folder.path()).unwrap();
        let embeds = |resident_bytes| {
            let place = ComputePlacement {
                resident_bytes,
                ..ComputePlacement::new(Device::Cpu, Kind::Float)
            };
            let w = place.open(folder.path()).unwrap();
            let encoder = T5Encoder::new(&config, &w).unwrap();
            let ids = recorded.get("input_ids");
            [ids, ids].map(|ids| encoder.forward(ids, None, &NoHooks).unwrap())
        };
        let expected = embeds(None);
        for budget in [0, 10_000, u64::MAX] {
            assert_eq!(embeds(Some(budget)), expected);
        }
    }
}
