//! SDXL's text encoders against `tests/fixtures/text/sdxl`: transformers, and the weights of ComfyUI and A1111.

use safelight_core::job::GenerateRequest;
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use crate::capture::StageCapture;
use crate::closeness::assert_close;
use crate::hooks::NoHooks;
use crate::placement::ComputePlacement;
use crate::text::{PromptEmbeds, TextEmbeds, sdxl_embeds};
use crate::weights::tests::fixtures::{fixture, json_of, recorded, tensors_of, write_folder};
use crate::weights::tests::made_up::made_up;
use crate::work::StageWork;

const RECORDED: &str = "text/sdxl/recorded.safetensors";
const STATES: f64 = 1e-5;

fn facts() -> Value {
    json_of(&fixture("text/sdxl/facts.json"))
}

fn weights_of(component: &str) -> Vec<(String, Tensor)> {
    tensors_of(&facts()["shapes"][component], &format!("{component}."))
}

/// A folder of an encoder, with what `change` makes of its weights.
fn folder(
    component: &str,
    change: impl Fn(Vec<(String, Tensor)>) -> Vec<(String, Tensor)>,
) -> TempDir {
    let config = json_of(&fixture(&format!("text/sdxl/{component}.json")));
    write_folder(&config, &change(weights_of(component)))
}

/// Folders of both encoders, and of embeddings.
struct EncoderFolders([TempDir; 3]);

impl EncoderFolders {
    fn new() -> Self {
        let [first, second] =
            ["text_encoder", "text_encoder_2"].map(|component| folder(component, |it| it));
        let embeddings = tempfile::tempdir().unwrap();
        for (name, rows) in [("tiny1", 1), ("tiny3", 3)] {
            let tensors = [("clip_l", 32), ("clip_g", 40)].map(|(key, width)| {
                let rows = made_up(&format!("{key}.{name}"), &[rows, width]);
                (key, rows)
            });
            let path = embeddings.path().join(name).with_extension("safetensors");
            Tensor::write_safetensors(&tensors, path).unwrap();
        }
        Self([first, second, embeddings])
    }

    fn request(&self, [prompt, negative]: [&str; 2], weights: &str) -> GenerateRequest {
        let [first, second, embeddings] = self.0.each_ref().map(TempDir::path);
        let embeddings = ["tiny1", "tiny3"].map(|name| {
            let path = embeddings.join(name).with_extension("safetensors");
            json!({"name": name, "path": path})
        });
        let request = json!({
            "model": "tiny", "family": "sdxl", "out": "a.png", "fps": 1.0, "num_frames": 1, "sampler": "euler",
            "prompt": prompt, "negative_prompt": negative, "prompt_weights": weights, "embeddings": embeddings,
            "width": 32, "height": 32, "num_steps": 2, "guidance_scale": 5.0, "seed": 5,
            "files": {
                "transformer": "", "vae": "", "text_encoder": first, "text_encoder_2": second,
                "tokenizer": fixture("text/flux"), "tokenizer_class": "CLIPTokenizer", "expand_timesteps": false,
            },
        });
        serde_json::from_value(request).unwrap()
    }

    fn encode(&self, prompts: [&str; 2], weights: &str) -> PromptEmbeds {
        embeds_of(&self.request(prompts, weights))
    }
}

fn embeds_of(request: &GenerateRequest) -> PromptEmbeds {
    let mut work = StageWork {
        request,
        place: ComputePlacement {
            device: Device::Cpu,
            kind: Kind::Float,
            resident_bytes: None,
            keeps: false,
        },
        capture: &mut StageCapture::off(),
        hooks: &NoHooks,
    };
    sdxl_embeds(&mut work).unwrap()
}

/// Compares every seventh state of both encoders, and the pooled vector.
#[track_caller]
fn assert_recorded(found: &TextEmbeds, name: &str, limits: [f64; 2]) {
    let states = found.prompt.squeeze_dim(0).slice(0, 0, None, 7);
    let [first, second] = ["l", "g"].map(|it| recorded(RECORDED, &format!("{name}.{it}.states")));
    let widths = [first.size()[1], second.size()[1]];
    let states = states.split_with_sizes(widths, 1);
    for ((found, expected), limit) in states.iter().zip([first, second]).zip(limits) {
        assert_close(name, found, &expected, limit);
    }
    let pooled = recorded(RECORDED, &format!("{name}.pooled")).unsqueeze(0);
    assert_close(name, found.pooled.as_ref().unwrap(), &pooled, STATES);
}

#[test]
fn sdxl_prompts_give_the_embeddings_of_the_reference() {
    let facts = facts();
    let text = |name: &str| facts[name].as_str().unwrap();
    let encoders = EncoderFolders::new();
    let found = encoders.encode([text("prompt"), text("negative")], "off");
    assert_recorded(&found.prompt, "prompt", [STATES; 2]);
    assert_recorded(found.negative.as_ref().unwrap(), "negative", [STATES; 2]);
    let found = encoders.encode([text("prompt"), ""], "off");
    assert_recorded(found.negative.as_ref().unwrap(), "empty", [STATES; 2]);
}

#[test]
fn weighted_prompts_of_several_chunks_have_the_states_of_comfyui_and_a1111() {
    let facts = facts();
    let encoders = EncoderFolders::new();
    for number in super::ids(&facts["kept"]) {
        let entry = &facts["prompts"][number as usize];
        let prompt = entry["prompt"].as_str().unwrap();
        for (rule, weights) in [("comfy", "comfyui"), ("a1111", "a1111")] {
            let found = encoders.encode([prompt, ""], weights);
            // The means that A1111 divides are nearly 0 here, so that rounding grows.
            let growth = entry[rule]["condition"].as_array();
            let growth = growth.map_or([1.0; 2], |it| [0, 1].map(|at| it[at].as_f64().unwrap()));
            let limits = growth.map(|it| STATES * it.max(1.0));
            assert_recorded(&found.prompt, &format!("{number}.{rule}"), limits);
        }
    }
}

#[test]
fn openclip_names_give_the_states_of_transformers_names() {
    let mut encoders = EncoderFolders::new();
    let prompts = ["a red boat", "fog"];
    let expected = encoders.encode(prompts, "off");
    encoders.0[1] = folder("text_encoder_2", |weights| {
        let find = |name: &str| {
            let found = weights.iter().find(|(own, _)| own == name);
            found.map(|(_, xs)| xs.shallow_clone()).unwrap()
        };
        let mut renamed = Vec::new();
        for (name, xs) in &weights {
            if let Some((layer, end)) = name.split_once(".self_attn.q_proj.") {
                let parts =
                    ["q", "k", "v"].map(|it| find(&format!("{layer}.self_attn.{it}_proj.{end}")));
                let name = format!("{layer}.attn.in_proj_{end}");
                renamed.push((name, Tensor::cat(&parts, 0)));
            } else if name == "text_projection.weight" {
                renamed.push(("text_projection".to_owned(), xs.tr().contiguous()));
            } else if !name.contains("k_proj") && !name.contains("v_proj") {
                let name = name.replace("self_attn.out", "attn.out");
                renamed.push((name, xs.shallow_clone()));
            }
        }
        for (name, _) in &mut renamed {
            let own = name
                .replace("text_model.", "")
                .replace("embeddings.token_embedding", "token_embedding")
                .replace(
                    "embeddings.position_embedding.weight",
                    "positional_embedding",
                )
                .replace("final_layer_norm", "ln_final")
                .replace("encoder.layers.", "transformer.resblocks.")
                .replace("layer_norm", "ln_")
                .replace("mlp.fc1", "mlp.c_fc")
                .replace("mlp.fc2", "mlp.c_proj");
            *name = format!("conditioner.embedders.1.model.{own}");
        }
        renamed
    });
    let found = encoders.encode(prompts, "off");
    assert_close(
        "states",
        &found.prompt.prompt,
        &expected.prompt.prompt,
        STATES,
    );
    let pooled = |embeds: &PromptEmbeds| embeds.prompt.pooled.as_ref().unwrap().shallow_clone();
    assert_close("pooled", &pooled(&found), &pooled(&expected), STATES);
}
