//! ControlNets: told by their headers, as wholes, and others named and refused; what models take them.

use std::path::Path;

use serde_json::json;

use super::files::{flux_tree, shapes};
use crate::families::flux::{self, control};
use crate::fitting::{LoraFit, LoraMatcher, model_with};
use crate::job::GenerateForm;
use crate::model::{CatalogError, ControlBy, ControlKind, InputUse, ModelSpec};
use crate::networks::{FluxControlConfig, NetworkConfig as _};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::write_json;
use crate::testing::published::{
    assert_is_read, assert_needs_all, assert_no_control_network, control_network, edited,
};

const UNION: &str = "controlnet union";

#[test]
fn headers_of_published_flux_controlnets_are_read_without_unused_keys() {
    for (name, blocks, modes) in [
        (UNION, [5, 10], Some(10)),
        ("controlnet union pro 2.0", [6, 0], None),
        ("controlnet depth", [4, 1], None),
        ("controlnet upscaler", [5, 0], None),
    ] {
        let config: FluxControlConfig = assert_is_read(&shapes(name), name);
        assert_eq!(config.blocks.streams().blocks, blocks, "{name}");
        assert_eq!(config.num_mode, modes, "{name}");
        assert!(config.blocks.guidance_embeds);
        let found = control_network(&shapes(name));
        assert_eq!((found.family, found.takes_masks), (flux::FAMILY, false));
        let kinds = if modes.is_some() { 7 } else { 0 };
        assert_eq!(found.kinds.len(), kinds, "{name}");
    }
    let is_looked_at = |key: &str| !key.contains("blocks.") || key.contains("_blocks.3.bias");
    assert_needs_all::<FluxControlConfig>(&shapes(UNION), is_looked_at);
}

#[test]
fn flux_controlnet_config_json_agrees_with_the_header() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("FLUX.1-dev-Controlnet-Union");
    let file = folder.join("diffusion_pytorch_model.safetensors");
    write(&file, &shapes(UNION), "BF16");
    let bare = FluxControlConfig::read(&file).unwrap();
    // As InstantX's.
    let config = json!({
        "_class_name": "FluxControlNetModel", "_diffusers_version": "0.30.0.dev0", "attention_head_dim": 128,
        "axes_dims_rope": [16, 56, 56], "guidance_embeds": true, "in_channels": 64, "joint_attention_dim": 4096,
        "num_attention_heads": 24, "num_layers": 5, "num_mode": 10, "num_single_layers": 10, "patch_size": 1,
        "pooled_projection_dim": 768,
    });
    write_json(&folder.join("config.json"), &config);
    assert_eq!(FluxControlConfig::read(&folder).unwrap(), bare);
    let found = crate::families::control_network(&folder).unwrap();
    assert_eq!(found.label, "FLUX.1 ControlNet Union");
}

#[test]
fn flux_union_controlnet_requires_a_control_kind_and_maps_it_to_its_mode() {
    use ControlKind::{Blur, Depth, Edges, Gray, LowQuality, Normals, Pose, Scribble, Tile};
    let union = control_network(&shapes(UNION));
    let problem = |kind| union.problem(flux::FAMILY, kind, false);
    assert!(problem(None).unwrap().contains("must be told"));
    assert!(problem(Some(Scribble)).unwrap().contains("not scribble"));
    for (number, kind) in (0..).zip([Edges, Tile, Depth, Blur, Pose, Gray, LowQuality]) {
        assert_eq!(problem(Some(kind)), None);
        assert_eq!(control::mode(kind), Some(number));
    }
    assert_eq!(control::mode(Normals), None);
}

#[test]
fn controlnets_of_other_makers_are_named_and_refused() {
    let of = |keys: &[(&str, &[u64])]| {
        let pairs = keys.iter();
        let pairs = pairs.map(|(key, shape)| ((*key).to_owned(), shape.to_vec()));
        pairs.collect::<Shapes>()
    };
    let xlabs = of(&[
        ("controlnet_blocks.0.weight", &[3072, 3072]),
        ("double_blocks.0.img_attn.qkv.weight", &[9216, 3072]),
        ("input_hint_block.0.weight", &[16, 3, 3, 3]),
        ("pos_embed_input.weight", &[3072, 64]),
    ]);
    let depth = shapes("controlnet depth");
    let pixels = edited(depth.clone(), "input_hint_block.0.weight", &[16, 3, 3, 3]);
    let union = shapes("controlnet union pro 2.0");
    let fills = edited(union, "controlnet_x_embedder.weight", &[3072, 68]);
    let lost = "controlnet_single_blocks.0.bias";
    let mut broken = depth;
    broken.remove(lost);
    assert_no_control_network(&xlabs, "XLabs");
    assert_no_control_network(&pixels, "XLabs");
    assert_no_control_network(&fills, "reads a mask");
    assert_no_control_network(&broken, lost);
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = models.join("unet/x.safetensors");
    for name in [UNION, "controlnet upscaler"] {
        write(&place, &shapes(name), "BF16");
        let text = ModelSpec::open(&place).unwrap_err().to_string();
        assert!(text.contains("Flux ControlNet"), "{text}");
    }
}

#[test]
fn flux_dev_and_schnell_accept_controlnets_but_fill_and_kontext_do_not() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    for (name, file, by) in [
        ("dev", "flux1-dev", ControlBy::Networks),
        ("schnell", "flux1-schnell", ControlBy::Networks),
        ("fill", "flux1-fill-dev", ControlBy::Nothing),
        ("dev", "flux1-kontext-dev", ControlBy::Nothing),
        ("control", "flux1-depth-dev", ControlBy::Channels),
    ] {
        let place = models.join(format!("unet/{file}.safetensors"));
        write(&place, &shapes(&format!("transformer {name}")), "BF16");
        let found = ModelSpec::open(&place).unwrap().limits.controls;
        assert_eq!(found.by, by, "{file}");
    }
}

/// The authors' for depth, which has every tensor of the one for edges.
const LORA: &str = "lora control";

fn with_lora(spec: &ModelSpec, lora: &Path) -> Result<ModelSpec, CatalogError> {
    model_with(spec, &[lora.to_string_lossy().parse().unwrap()])
}

#[test]
fn flux_control_lora_requires_the_kind_of_control_image_in_its_name() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let loras = models.join("loras");
    for (layout, name) in [
        ("transformer dev", "flux1-dev.safetensors"),
        ("transformer dev diffusers", "other.safetensors"),
    ] {
        let place = models.join("diffusion_models").join(name);
        write(&place, &shapes(layout), "BF16");
        let spec = ModelSpec::open(&place).unwrap();
        let (depth, edges) = (Some(ControlKind::Depth), Some(ControlKind::Edges));
        let of_edges = "an image of edges, or an image whose edges are computed here";
        for (file, kind, needed, sampling) in [
            ("flux1-depth-dev-lora", depth, "a depth map", (10.0, 30)),
            ("flux1-canny-dev-lora", edges, of_edges, (30.0, 50)),
            ("mine", None, "a control image", (3.5, 20)),
        ] {
            let lora = loras.join(file).with_extension("safetensors");
            write(&lora, &shapes(LORA), "BF16");
            let found = LoraMatcher::of(&spec).unwrap().look(&lora);
            let LoraFit::Yes(coverage) = &found.fit else {
                panic!("{layout}: {:?}", found.fit);
            };
            assert!(found.is_of_control);
            assert_eq!(
                coverage.to_string(),
                "applies to 466 of 466 layers (1094 of 1094 keys)"
            );
            let with = with_lora(&spec, &lora).unwrap();
            let controls = with.limits.controls;
            assert_eq!((controls.by, controls.kind), (ControlBy::Channels, kind));
            assert_eq!(with.mask, InputUse::No);
            let found = &with.defaults.sampling;
            let found = (found.guidance_scale, found.num_steps);
            assert_eq!(found, sampling, "{file}");
            let form = GenerateForm {
                prompt: "x".into(),
                out: "a.png".into(),
                ..GenerateForm::default()
            };
            let problems = form.validate(&with).unwrap_err();
            let expected = format!("{} needs {needed}", with.name);
            assert_eq!(problems[0].message, expected);
            assert!(form.validate(&spec).is_ok());
        }
    }
}

#[test]
fn a_control_lora_is_refused_where_the_model_sees_another_image_already() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let lora = models.join("loras/flux1-depth-dev-lora.safetensors");
    write(&lora, &shapes(LORA), "BF16");
    let place = models.join("diffusion_models/flux1-kontext-dev.safetensors");
    write(&place, &shapes("transformer dev"), "BF16");
    let kontext = ModelSpec::open(&place).unwrap();
    let err = with_lora(&kontext, &lora).unwrap_err().to_string();
    assert!(err.contains("a control LoRA of FLUX.1 dev"), "{err}");
    let fit = LoraMatcher::of(&kontext).unwrap().look(&lora).fit;
    assert!(matches!(fit, LoraFit::No(_)), "{fit:?}");
    // The whole model needs no widening, and is what it was.
    let place = models.join("diffusion_models/flux1-canny-dev.safetensors");
    write(&place, &shapes("transformer control"), "BF16");
    let canny = ModelSpec::open(&place).unwrap();
    assert_eq!(with_lora(&canny, &lora).unwrap(), canny);
}
