//! Tests of every image transformer.

use std::fs;

use safelight_core::formats::weights::quant::CodeType;
use tch::{Device, Kind, Tensor};

use super::*;
use crate::closeness::{assert_close, distance, with_both_frequencies};
use crate::parallel::tests::on_ranks;
use crate::placement::ComputePlacement;
use crate::stages::images::{ImageConditioning, WeightsDialect};
use crate::weights::tests::as_fp8::{FORMS, write_fp8};
use crate::weights::tests::as_quant::{FORMATS, write_quant};
use crate::weights::tests::made_up_gguf::both_forms;

fn assert_dialects<M: TinyModel>() {
    with_both_frequencies(|| {
        let predictions = dialects::<M>().map(|(name, tensors)| {
            let found = prediction_of::<M>(&tensors);
            assert_close(name, &found, &recorded::<M>("none"), limit_of::<M>("none"));
            found
        });
        assert_eq!(predictions[0], predictions[1]);
        assert!(distance(&predictions[2], &predictions[1]) < 1e-6);
    });
}

fn assert_lacking_is_named<M: TinyModel>() {
    let [lost, first] = M::facts().named;
    let config = config_of::<M>();
    let refusal = |tensors: &Tensors| {
        let (_folder, path) = written(tensors);
        M::new(&config, &opened(&path)).err().unwrap().to_string()
    };
    for (name, mut tensors) in dialects::<M>() {
        let key = tensors.keys().find(|key| key.contains(lost)).unwrap();
        tensors.remove(&key.clone());
        let err = refusal(&tensors);
        assert!(err.contains(lost), "{name}: {err}");
    }
    let other = Tensors::from([("conv.weight".to_owned(), Tensor::from_slice(&[0_f32]))]);
    let err = refusal(&other);
    assert!(err.contains(first), "{err}");
}

fn assert_loras<M: TinyModel>() {
    with_both_frequencies(|| {
        let folder = tempfile::tempdir().unwrap();
        let facts = M::facts();
        for (dialect, tensors) in dialects::<M>() {
            let (_model, path) = written(&tensors);
            let w = opened(&path);
            for form in facts.loras.iter().chain(facts.other_loras) {
                let one = lora_of::<M>(folder.path(), form, STRENGTH);
                let found =
                    prediction::<M>(&WeightsDialect::of::<M>(&w).with_loras(&w, &[one]).unwrap());
                let what = format!("{form} on {dialect}");
                let far = distance(&found, &recorded::<M>("none"));
                assert!(far > 0.01, "{what}: {far}");
                if facts.loras.contains(form) {
                    let limit = limit_of::<M>(form);
                    assert_close(&what, &found, &recorded::<M>(form), limit);
                }
            }
        }
    });
}

fn assert_blocks<M: TinyModel>() {
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<(String, Tensor)> = originals::<M>().into_iter().collect();
    let places = both_forms(folder.path(), &all, str::to_owned);
    let [found, exact] = places.map(|place| prediction::<M>(&opened(&place)));
    assert_eq!(found, exact);
    // Eight bits are near the truth, but not equal.
    let far = distance(&found, &recorded::<M>("none"));
    assert!((1e-4..0.1).contains(&far), "{far}");
}

fn assert_fp8<M: TinyModel>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let originals = originals::<M>();
    for (kind, scales, name) in FORMS {
        write_fp8(&path, &originals, kind, scales);
        let w = opened(&path);
        let found = prediction::<M>(&w);
        let exact = originals.iter().map(|(key, tensor)| {
            let exact = w.tensor(key, &tensor.size()).unwrap();
            (key.clone(), exact)
        });
        let exact = prediction_of::<M>(&exact.collect());
        assert_close(name, &found, &exact, 1e-6);
        let far = distance(&found, &recorded::<M>("none"));
        assert!((1e-3..M::facts().fp8).contains(&far), "{name}: {far}");
    }
}

fn assert_quantized<M: TinyModel>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let originals = originals::<M>();
    for (codes, name) in FORMATS {
        write_quant(&path, &originals, codes);
        let w = opened(&path);
        let found = prediction::<M>(&w);
        assert!(w.finish().is_empty(), "{name}: {:?}", w.finish());
        let exact = originals.iter().map(|(key, tensor)| {
            let exact = w.tensor(key, &tensor.size()).unwrap();
            (key.clone(), exact)
        });
        let exact = prediction_of::<M>(&exact.collect());
        assert_close(name, &found, &exact, 1e-6);
        let far = distance(&found, &recorded::<M>("none"));
        assert!(far > 1e-3, "{name}: {far}");
    }
}

fn assert_skips<M: TinyModel>() {
    let (_folder, path) = written(&originals::<M>());
    let (config, w) = (config_of::<M>(), opened(&path));
    let last = config.shape().layers as usize - 1;
    with_both_frequencies(|| {
        let whole = prediction::<M>(&w);
        for (name, blocks) in [
            ("0", "0".to_owned()),
            ("1", "1".to_owned()),
            ("0,last", format!("0,{last}")),
        ] {
            let found = prediction_without::<M>(&config, &w, blocks.parse().unwrap());
            assert!(distance(&found, &whole) > 0.01, "{name}");
            if M::facts().has_skips {
                let key = format!("{}.{name}", M::FAMILY.id);
                assert_close(&key, &found, &skipped(&key), limit_of::<M>("none"));
            }
        }
    });
}

fn assert_streams<M: TinyModel>() {
    let folder = tempfile::tempdir().unwrap();
    let (facts, config) = (M::facts(), config_of::<M>());
    let loras = facts
        .streamed_loras
        .map(|form| lora_of::<M>(folder.path(), form, 0.7));
    let all: Vec<(String, Tensor)> = originals::<M>().into_iter().collect();
    let [blocks, _] = both_forms(folder.path(), &all, str::to_owned);
    let files = dialects::<M>().map(|(_, tensors)| written(&tensors));
    let places = files.iter().map(|(_, path)| (path, &loras[..], 4));
    let timesteps = [1.2, 0.7, 0.1].map(|part: f32| part * facts.timestep);
    let quantized = folder.path().join("quantized.safetensors");
    write_quant(&quantized, &originals::<M>(), CodeType::E2m1);
    // In tiny networks what stays is a larger part of fewer bytes.
    let others = [(&blocks, &[][..], 4), (&quantized, &[][..], 2)];
    for (path, loras, floor) in places.chain(others) {
        assert_equal_when_streamed(floor, |resident_bytes| {
            let place = ComputePlacement {
                resident_bytes,
                ..ComputePlacement::new(Device::Cpu, Kind::Float)
            };
            let w = place.open(path).unwrap();
            let w = WeightsDialect::of::<M>(&w).with_loras(&w, loras).unwrap();
            let skip = SkipOptions::default();
            let (all, _) = predictions::<M>(&config, &w, &timesteps, skip).unwrap();
            (all, w.stream_bytes())
        });
    }
}

fn assert_batches<M: TinyModel>() {
    let model = model_of::<M>(&originals::<M>());
    let config = model.config();
    let shape = M::LATENTS.shape(config.latent_channels(), 112, 80).unwrap();
    let text = M::text(config, 40);
    let conditioning = ImageConditioning::of_prompt(shape, &text);
    let both = M::input(config, shape, "in.two", 2);
    assert_each_its_own(&both, |input| {
        let skip = SkipOptions::default();
        predictions_of(&model, input, &conditioning, &[300.0], skip).remove(0)
    });
}

/// Largest distance of a prediction on several ranks from that on one: sums over tokens have another order.
const RANKS_LIMIT: f64 = 2e-6;

fn assert_ranks<M: TinyModel>() {
    let run = |num_images| {
        let model = model_of::<M>(&originals::<M>());
        let config = model.config();
        let shape = M::LATENTS.shape(config.latent_channels(), 112, 80).unwrap();
        let text = M::text(config, 41);
        let conditioning = ImageConditioning::of_prompt(shape, &text);
        let input = M::input(config, shape, "in.two", num_images);
        let skip = SkipOptions::default();
        predictions_of(&model, &input, &conditioning, &[300.0], skip).remove(0)
    };
    for (num_images, ranks) in [(1, &[2, 3, 4, 8][..]), (2, &[3])] {
        let whole = run(num_images);
        for &ranks in ranks {
            for found in on_ranks(ranks, || run(num_images)) {
                let what = format!("{num_images} images on {ranks} ranks");
                assert_close(&what, &found, &whole, RANKS_LIMIT);
            }
        }
    }
}

fn assert_shared_weights<M: TinyModel>() {
    let (_folder, path) = written(&originals::<M>());
    let timesteps = [1.2, 0.7].map(|part: f32| part * M::facts().timestep);
    let run = |resident_bytes: Option<u64>| {
        let place = ComputePlacement {
            resident_bytes,
            ..ComputePlacement::new(Device::Cpu, Kind::Float)
        };
        let w = place.open(&path).unwrap();
        let w = WeightsDialect::of::<M>(&w).with_loras(&w, &[]).unwrap();
        let skip = SkipOptions::default();
        let (all, _) = predictions::<M>(&config_of::<M>(), &w, &timesteps, skip).unwrap();
        (all, w.stream_bytes())
    };
    let (whole, _) = run(None);
    let bytes = fs::metadata(&path).unwrap().len();
    for (ranks, share) in [(2, bytes * 7 / 10), (3, bytes / 2)] {
        for (found, streamed) in on_ranks(ranks, || run(Some(share))) {
            let resident = streamed.unwrap().resident;
            assert!(resident < share, "{resident} of {bytes}");
            for (found, whole) in found.iter().zip(&whole) {
                assert_close(&format!("{ranks} ranks"), found, whole, RANKS_LIMIT);
            }
        }
    }
}

macro_rules! suite {
    ($($name:ident: $model:ty,)*) => {$(
        mod $name {
            #[test]
            fn every_dialect_gives_the_answer_of_the_reference_and_leaves_nothing_unread() {
                super::assert_dialects::<$model>();
            }

            #[test]
            fn a_file_that_lacks_a_tensor_or_has_no_such_network_in_it_is_named() {
                super::assert_lacking_is_named::<$model>();
            }

            #[test]
            fn loras_of_every_form_on_every_dialect_are_those_of_the_reference() {
                super::assert_loras::<$model>();
            }

            #[test]
            fn gguf_transformer_matches_its_dequantised_weights() {
                super::assert_blocks::<$model>();
            }

            #[test]
            fn fp8_transformer_matches_its_dequantised_weights_in_every_format() {
                super::assert_fp8::<$model>();
            }

            #[test]
            fn quantized_transformer_matches_its_dequantised_weights_in_every_format() {
                super::assert_quantized::<$model>();
            }

            #[test]
            fn transformer_with_skipped_blocks_matches_the_reference() {
                super::assert_skips::<$model>();
            }

            #[test]
            fn streamed_transformer_matches_the_resident_one_bit_for_bit() {
                super::assert_streams::<$model>();
            }

            #[test]
            fn several_ranks_predict_what_one_does() {
                super::assert_ranks::<$model>();
            }

            #[test]
            fn ranks_that_keep_a_part_of_the_weights_each_predict_what_one_does() {
                super::assert_shared_weights::<$model>();
            }

            #[test]
            fn a_batch_gives_each_image_its_own() {
                super::assert_batches::<$model>();
            }
        }
    )*};
}

suite! {
    anima: crate::families::anima::AnimaTransformer,
    chroma: crate::families::chroma::ChromaTransformer,
    flux: crate::families::flux::FluxTransformer,
    flux2: crate::families::flux2::Flux2Transformer<crate::families::flux2::Flux2Klein>,
    flux2_dev: crate::families::flux2::Flux2Transformer<crate::families::flux2::Flux2Dev>,
    flux3: crate::families::flux3::Flux3Transformer,
    krea2: crate::families::krea2::Krea2Transformer,
    qwen_image: crate::families::qwen_image::QwenImageTransformer,
    qwen_image_21: crate::families::qwen_image_21::QwenImage21Transformer,
    sdxl: crate::families::sdxl::SdxlUnet,
    z_image: crate::families::z_image::ZImageTransformer,
}
