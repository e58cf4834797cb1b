//! The files of a Wan model: a diffusers folder, and whether every part fits its config and the others.
//!
//! Looks at configs and headers only. How two experts in single files find each other is `experts`' business.

use std::path::Path;

use super::variant::{WanVariant, of_index};
use super::{WanFamily, parts};
use crate::families::prelude::*;
use crate::families::single::{self, refuse_quantised};
use crate::library::component_search::wanted;
use crate::library::identify::check_components;
use crate::library::{ComponentLibrary, component_search};
use crate::model::ComponentOverrides;
use crate::model::configs::ModelIndex;
use crate::networks::{
    ClipVisionConfig, DeclaredConfig as _, DenoiserConfig as _, T5Config, T5Kind,
    WanTransformerConfig, WanVaeConfig, config_path,
};

const MAX_PIXELS: u64 = 1 << 24;
const MAX_FRAMES: i64 = 1025;

/// Checks a diffusers folder whole. Parts that the user named replace the folder's own.
pub(super) fn check_folder(
    folder: &Path,
    index: &ModelIndex,
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<(ModelFiles, ModelFacts), CatalogError> {
    // Before anything is said about its parts: another variant has other parts.
    let transformer = WanTransformerConfig::read(&folder.join("transformer")).ok();
    let variant = match of_index(index, transformer.as_ref()) {
        Ok(variant) => variant,
        Err(what) => {
            return Err(CatalogError::unsupported(what, folder));
        }
    };
    let mut components = vec![
        ("scheduler", None),
        ("text_encoder", Some("UMT5EncoderModel")),
        ("tokenizer", None),
        ("transformer", Some(variant.transformer_class())),
        ("vae", Some("AutoencoderKLWan")),
    ];
    if variant.boundary_ratio.is_some() {
        components.push(("transformer_2", Some(variant.transformer_class())));
    }
    if transformer.is_some_and(|config| config.image_dim.is_some()) {
        components.push(("image_encoder", Some("CLIPVisionModel")));
    }
    if index.components.contains_key("image_processor") {
        components.push(("image_processor", None));
    }
    check_components(folder, index, &components, companions)?;
    let mut files = ModelFiles {
        takes_control: variant.takes_control(),
        ..ModelFiles::from_index(folder, index)
    };
    if !companions.is_empty() {
        let transformer = WanTransformerConfig::read(&files.transformer)?;
        component_search::replace(
            &mut files,
            &single::parts::<WanFamily>(&transformer),
            companions,
            library,
        )?;
    }
    let facts = check(&files, variant)?;
    Ok((files, facts))
}

/// Checks a model whose parts are known whole: each against its config, and the configs with each other.
pub(super) fn check(files: &ModelFiles, variant: WanVariant) -> Result<ModelFacts, CatalogError> {
    let scheduler = files.scheduler.as_deref();
    let scheduler = scheduler.map(SchedulerConfig::read_with_fixed_shift);
    let schedule = scheduler.transpose()?.map(|scheduler| SchedulerDefaults {
        sampler: if scheduler.is_unipc() {
            SamplerKind::UniPc
        } else {
            SamplerKind::Euler
        },
        shift: scheduler.stated_shift(),
    });
    let config = WanTransformerConfig::read(&files.transformer)?;
    let second = files.transformer_2.as_deref();
    let second = second.map(|place| Ok((place, WanTransformerConfig::read(place)?)));
    let second = second.transpose()?;
    let vae = WanVaeConfig::read(&files.vae)?;
    let text = T5Config::read_as(T5Kind::Umt5, &files.text_encoder)?;
    let is_quantised = config.is_quantized()
        || second.iter().any(|(_, config)| config.is_quantized())
        || text.is_quantized();
    refuse_quantised(is_quantised, super::FAMILY, &files.transformer)?;
    variant.check_boundary(files)?;
    check_image_encoder(files, &config)?;
    if let Some(reason) = wrong_transformer(&config, variant, &vae) {
        return Err(CatalogError::config(
            reason,
            config_path(&files.transformer),
        ));
    }
    let mut transformers = vec![files.transformer.as_path()];
    if let Some((place, second)) = &second {
        same_experts(&config, second, place)?;
        transformers.push(place);
    }
    let bytes = wanted::check_model(
        files,
        &transformers,
        "a Wan transformer",
        &|weights| config.check_weights(weights),
        &single::parts::<WanFamily>(&config),
    )?;
    let mut model = variant.model;
    // An image encoder without places for two images knows no last one.
    if variant == WanVariant::I2V && files.image_encoder.is_some() {
        model.end_image = InputUse::No;
    }
    Ok(ModelFacts {
        family: super::FAMILY,
        variant: model,
        shape: config.shape(),
        section_order: None,
        latent_channels: vae.z_dim.unsigned_abs(),
        limits: limits(&config, &vae, variant),
        schedule,
        bytes,
    })
}

/// Checks that there is an image encoder where the transformer needs one, and none elsewhere.
fn check_image_encoder(
    files: &ModelFiles,
    transformer: &WanTransformerConfig,
) -> Result<(), CatalogError> {
    let Some(place) = &files.image_encoder else {
        return match transformer.image_dim {
            None => Ok(()),
            Some(_) => Err(CatalogError::MissingCompanion {
                what: "a CLIP image encoder, as the transformer looks at images through one,"
                    .to_owned(),
                example: parts::IMAGE_ENCODER,
                looked: "model_index.json".to_owned(),
                path: files.transformer.clone(),
            }),
        };
    };
    let image = ClipVisionConfig::read(place)?;
    let what = transformer.image_dim.map_or_else(
        || "no image encoder for a transformer without image_dim".to_owned(),
        |dim| {
            format!("a CLIP image encoder with a hidden_size of {dim}, the transformer's image_dim")
        },
    );
    let fits = transformer.image_dim == Some(image.hidden_size);
    wanted::fits_transformer(fits, &what, parts::IMAGE_ENCODER, place, || {
        format!("one of {}", image.hidden_size)
    })?;
    // Both images' tokens, one after the other.
    let tokens = image.num_tokens();
    match transformer.pos_embed_seq_len {
        Some(positions) if positions != 2 * tokens => Err(CatalogError::config(
            format!(
                "expected an image encoder of {} tokens, half the transformer's pos_embed_seq_len, found {tokens}",
                positions / 2
            ),
            config_path(place),
        )),
        _ => Ok(()),
    }
}

/// Two experts share one schedule and one cache of embeddings, so they are of one kind.
pub(super) fn same_experts(
    first: &WanTransformerConfig,
    second: &WanTransformerConfig,
    second_place: &Path,
) -> Result<(), CatalogError> {
    let mut sizes = first.sizes().into_iter().zip(second.sizes());
    let differing = sizes.find(|(first, second)| first != second);
    differing.map_or(Ok(()), |((name, expected), (_, found))| {
        Err(CatalogError::expert(
            format!(
                "expected a low-noise expert of the same kind as the high-noise one, with a {name} of {expected}, found {found}"
            ),
            second_place,
        ))
    })
}

fn wrong_transformer(
    config: &WanTransformerConfig,
    variant: WanVariant,
    vae: &WanVaeConfig,
) -> Option<String> {
    let latents = config.out_channels;
    let expected = if variant.is_image_to_video() {
        // Noise, a mask with a channel for each frame of a latent one, and the images.
        2 * latents + vae.temporal_factor()
    } else {
        latents
    };
    if config.in_channels != expected {
        return Some(format!(
            "expected in_channels to be {expected} in a {} model whose VAE has a z_dim of {latents}, found {}",
            variant.name(),
            config.in_channels
        ));
    }
    if config.has_control() != variant.takes_control() {
        let (expected, found) = if variant.takes_control() {
            ("vace_layers", "none")
        } else {
            ("no vace_layers", "some")
        };
        let name = variant.name();
        return Some(format!(
            "expected {expected} in a {name} model, found {found}"
        ));
    }
    let patch_frames = config.patch_size[0];
    (patch_frames != 1).then(|| format!("expected a patch_size of 1 in time, found {patch_frames}"))
}

fn limits(
    transformer: &WanTransformerConfig,
    vae: &WanVaeConfig,
    variant: WanVariant,
) -> SizeLimits {
    let [_, patch_height, patch_width] = transformer.patch_size;
    let multiples = (1..=patch_width).map(|n| n * patch_height);
    let both = multiples.into_iter().find(|patch| patch % patch_width == 0);
    let patch = both.unwrap_or(patch_height * patch_width);
    let (spatial, temporal) = (vae.spatial_factor(), vae.temporal_factor());
    // The table of rotations has this many places along each axis.
    let places = transformer.rope_max_seq_len;
    let narrow = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    SizeLimits {
        size_multiple: narrow(spatial * patch),
        max_edge: narrow(places * patch_height.min(patch_width) * spatial),
        max_pixels: MAX_PIXELS,
        frame_stride: narrow(temporal),
        max_frames: narrow(MAX_FRAMES.min((places - 1) * temporal + 1)),
        fixed_size: false,
        max_batch: 1,
        max_references: variant.model.max_references,
        controls: variant.model.controls,
    }
}
