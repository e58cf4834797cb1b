//! Graphs of many packs as a table: the parts that differ from a plain graph, settings, and all notes.

use serde_json::{Value, json};

use super::*;

const START: &str = "Its start image, cat.png, is not in the file";
const MASK: &str = "Its mask, cat.png, is not in the file: set it again";

fn image() -> Value {
    node("LoadImage", json!({"image": "clipspace/cat.png [input]"}))
}

/// Compares these of the settings, and the notes by their beginnings.
#[track_caller]
fn assert_settings(found: &ForeignSettings, expected: &Value, notes: &[&str]) {
    assert_fields(found, expected);
    let are_alike = found.notes.len() == notes.len()
        && found
            .notes
            .iter()
            .zip(notes)
            .all(|(it, start)| it.starts_with(start));
    assert!(are_alike, "{notes:?} in {:?}", found.notes);
}

#[track_caller]
fn assert_cases(cases: &[(Value, Value, &[&str])]) {
    for (parts, settings, notes) in cases {
        assert_settings(&read_with(parts), settings, notes);
    }
}

#[test]
fn contexts_pipes_switches_and_loader_packs_are_followed() {
    let pipe = |text: &str| {
        let members = json!({"positive": [text, 0], "model": ["1", 0], "negative": ["5", 0]});
        node("ToBasicPipe", members)
    };
    assert_cases(&[
        (
            json!({"20": node("Context (rgthree)", json!({"positive": ["3", 0], "model": ["1", 0], "seed": 1})),
                "21": encoder("at night"), "22": node("Context (rgthree)", json!({"positive": ["21", 0]})),
                "23": node("Context Merge (rgthree)", json!({"ctx_01": ["20", 0], "ctx_02": ["22", 0]})),
                "7.positive": ["23", 4], "7.model": ["23", 1], "7.seed": ["23", 8]}),
            json!({"prompt": "at night", "model": "flux1-dev.safetensors", "seed": 1}),
            &[],
        ),
        (
            json!({"20": pipe("3"), "21": encoder("at night"), "22": pipe("21"),
                "23": node("PipeBlender", json!({"pipe_a": ["20", 0], "pipe_b": ["22", 0]})),
                "24": node("FromBasicPipe", json!({"basic_pipe": ["23", 0]})), "7.positive": ["24", 3], "7.model": ["24", 0]}),
            json!({"prompt": null, "model": null}),
            &[
                "The prompt could not be read: node 23 (PipeBlender) makes it",
                "The model could not be read: node 23 (PipeBlender) loads it",
                "Not used: node 21 (CLIPTextEncode) with text at night",
            ],
        ),
        (
            json!({"20": node("PreviewAny", json!({"source": ["21", 0]})),
                "21": node("PrimitiveStringMultiline", json!({"value": "a cow"})), "3.text": ["20", 0]}),
            json!({"prompt": "a cow"}),
            &[],
        ),
        (
            json!({"11": node("UNETLoader", json!({"unet_name": "flux1-other.safetensors"})),
                "12": node("ModelMergeSimple", json!({"model1": ["1", 0], "model2": ["11", 0], "ratio": 0.6})), "7.model": ["12", 0]}),
            json!({"model": "flux1-dev.safetensors"}),
            &[
                "The model was joined with another one, flux1-other.safetensors, by node 12 (ModelMergeSimple)",
                "Not used: node 12 (ModelMergeSimple) with ratio 0.6",
            ],
        ),
        (
            json!({"7": node("WanVideoSamplerv2", json!({"model": ["1", 0], "image_embeds": ["6", 0], "text_embeds": ["3", 0],
                    "scheduler": ["11", 3], "cfg": 6.0, "seed": 12})),
                "11": node("WanVideoSchedulerv2", json!({"scheduler": "unipc", "steps": 25, "shift": 5.0, "start_step": 0, "end_step": -1})),
                "6": node("WanVideoEmptyEmbeds", json!({"width": 832, "height": 480, "num_frames": 49})),
                "3": node("WanVideoTextEncode", json!({"positive_prompt": "a cow", "negative_prompt": "fog"}))}),
            json!({"prompt": "a cow", "num_steps": 25, "shift": 5.0, "sampler": "unipc", "num_frames": 49, "width": 832}),
            &[],
        ),
        (
            json!({"1": node("NunchakuFluxDiTLoader", json!({"model_path": "svdq-int4-flux.1-dev", "device_id": 0})),
                "11": node("NunchakuFluxLoraLoader", json!({"model": ["1", 0], "lora_name": "ink.safetensors", "lora_strength": 0.8})),
                "12": node("KSampler Config (rgthree)", json!({"steps_total": 28, "cfg": 2.5, "sampler_name": "heun", "scheduler": "beta"})),
                "7.model": ["11", 0], "7.steps": ["12", 0], "7.cfg": ["12", 2], "7.sampler_name": ["12", 3], "7.scheduler": ["12", 4]}),
            json!({"model": "svdq-int4-flux.1-dev", "num_steps": 28, "cfg_scale": 2.5, "sampler": "heun", "sigma_schedule": "beta"}),
            &[],
        ),
        (
            json!({"20": node("ToBasicPipe", json!({"model": ["1", 0], "positive": ["4", 0], "negative": ["5", 0]})),
                "7": node("ImpactKSamplerBasicPipe", json!({"basic_pipe": ["20", 0], "seed": 77, "steps": 22, "cfg": 1.0,
                    "sampler_name": "euler", "scheduler": "beta", "latent_image": ["6", 0], "denoise": 1.0})),
                "8.samples": ["7", 1], "3.text": ["11", 0],
                "11": node("Switch any [Crystools]", json!({"boolean": true, "on_true": ["12", 0], "on_false": ["13", 0]})),
                "12": node("Primitive string [Crystools]", json!({"string": "a cow"})),
                "13": node("CR Prompt Text", json!({"prompt": "a pig"}))}),
            json!({"prompt": "a cow", "seed": 77, "num_steps": 22, "distilled_guidance": 3.1}),
            &[],
        ),
        (
            json!({"20": node("easy pipeIn", json!({"pos": ["4", 0], "neg": ["5", 0], "model": ["1", 0], "latent": ["6", 0]})),
                "21": encoder("edited"), "22": node("easy pipeEdit", json!({"pipe": ["20", 0], "neg": ["21", 0]})),
                "23": node("easy pipeOut", json!({"pipe": ["22", 0]})), "24": node("Bus Node", json!({"model": ["23", 1]})),
                "25": node("Bus Node", json!({"bus": ["24", 0]})),
                "7.positive": ["23", 2], "7.negative": ["23", 3], "7.model": ["25", 1]}),
            json!({"prompt": "a red barn", "negative_prompt": "edited", "model": "flux1-dev.safetensors"}),
            &[],
        ),
        (
            json!({"20": node("Text Concatenate (JPS)", json!({"delimiter": "comma-space", "text1": "a", "text2": "b"})), "3.text": ["20", 0]}),
            json!({"prompt": null}),
            &["The prompt could not be read: node 20 (Text Concatenate (JPS))"],
        ),
    ]);
}

#[test]
fn sizes_steps_shifts_and_rates_are_those_of_the_saved_result() {
    let scaled = |class: &str, more: Value| {
        let mut inputs = more;
        inputs["image"] = json!(["20", 0]);
        json!({"20": image(), "21": node(class, inputs), "22": node("VAEEncode", json!({"pixels": ["21", 0], "vae": ["9", 0]})),
            "7.latent_image": ["22", 0], "7.denoise": 0.6, "7.steps": 12})
    };
    let calculated = |class: &str, inputs: Value| json!({"20": node(class, inputs), "6.width": ["20", 0], "6.height": ["20", 1]});
    assert_cases(&[
        (
            scaled(
                "ImageScale",
                json!({"width": 1024, "height": 768, "crop": "center"}),
            ),
            json!({"num_steps": 20, "strength": 0.6, "width": 1024, "height": 768}),
            &[START],
        ),
        (
            scaled("ImageScaleToTotalPixels", json!({"megapixels": 1})),
            json!({"num_steps": 20, "width": null}),
            &[
                START,
                "The size could not be read: node 21 (ImageScaleToTotalPixels) makes it. The model's own is used",
            ],
        ),
        (
            scaled(
                "ImageResize+",
                json!({"width": 1024, "height": 768, "method": "keep proportion"}),
            ),
            json!({"width": null}),
            &[START, "The size could not be read: node 21 (ImageResize+)"],
        ),
        (
            json!({"20": node("LatentUpscaleBy", json!({"samples": ["7", 0], "scale_by": 1.5})),
                "21": node("KSampler", json!({"seed": 9, "steps": 12, "cfg": 1.0, "sampler_name": "euler", "scheduler": "simple",
                    "denoise": 0.5, "model": ["1", 0], "positive": ["4", 0], "negative": ["5", 0], "latent_image": ["20", 0]})),
                "8.samples": ["21", 0]}),
            json!({"num_steps": 24, "strength": null, "second_pass": {"scale": 1.5, "strength": 0.5}}),
            &[],
        ),
        (
            calculated(
                "ResolutionSelector",
                json!({"aspect_ratio": "16:9 (Widescreen)", "megapixels": 1.0, "multiple": 16}),
            ),
            json!({"width": 1360, "height": 768}),
            &[],
        ),
        (
            calculated(
                "FluxResolutionNode",
                json!({"megapixel": "1.0", "aspect_ratio": "16:9 (Panorama)"}),
            ),
            json!({"width": null}),
            &[
                "The size could not be read: node 20 (FluxResolutionNode) makes it. The model's own is used",
            ],
        ),
        (
            json!({"11": node("ModelSamplingFlux", json!({"max_shift": 1.15, "base_shift": 0.5, "width": 1024, "height": 1024,
                "model": ["1", 0]})), "7.model": ["11", 0]}),
            json!({"shift": 3.1582}),
            &[],
        ),
        (
            json!({"11": node("ModelSamplingFlux", json!({"max_shift": 1.15, "base_shift": 0.5, "width": 896, "height": 640,
                "model": ["1", 0]})), "7.model": ["11", 0]}),
            json!({"shift": null}),
            &[],
        ),
        (
            json!({"20": node("CreateVideo", json!({"images": ["8", 0], "fps": 16})), "22": node("PreviewVideo", json!({"video": ["20", 0]})),
                "21": node("CreateVideo", json!({"images": ["8", 0], "fps": 24})), "10": node("SaveVideo", json!({"video": ["21", 0]})),
                "0": node("CreateVideo", json!({"images": ["8", 0], "fps": 30}))}),
            json!({"fps": 24.0}),
            &[],
        ),
        (
            json!({"20": node("ImageUpscaleWithModel", json!({"image": ["8", 0]})), "22": node("SaveImage", json!({"images": ["20", 0]}))}),
            json!({"width": 896}),
            &["Another saved result was changed by node 20 (ImageUpscaleWithModel)"],
        ),
        (
            json!({"7": node("SamplerCustomAdvanced", json!({"noise": ["20", 0], "guider": ["21", 0], "sampler": ["22", 0],
                    "sigmas": ["23", 0], "latent_image": ["6", 0]})),
                "20": node("RandomNoise", json!({"noise_seed": 99})), "22": node("KSamplerSelect", json!({"sampler_name": "euler"})),
                "21": node("BasicGuider", json!({"model": ["1", 0], "conditioning": ["4", 0]})),
                "23": node("ManualSigmas", json!({"sigmas": "1, 0.8, 0.5, 0"}))}),
            json!({"seed": 99, "num_steps": null}),
            &[
                "The number of steps could not be read: node 23 (ManualSigmas)",
                "The schedule could not be read: node 23 (ManualSigmas)",
            ],
        ),
    ]);
}

#[test]
fn edges_and_seeds_are_read_at_the_slots_that_give_them() {
    let resized = |class: &str, slots: [u32; 2]| {
        let edges = json!({"width": 704, "height": 1280, "image": ["20", 0]});
        let measured = json!({"image": ["21", 0]});
        let inputs = if class.contains("Get") {
            measured
        } else {
            edges.clone()
        };
        json!({"20": image(), "21": node("ImageScale", edges), "22": node(class, inputs),
            "6.width": ["22", slots[0]], "6.height": ["22", slots[1]]})
    };
    assert_cases(&[
        // Nodes that give an image first have its width at the second slot.
        (
            resized("ImageResizeKJv2", [1, 2]),
            json!({"width": 704, "height": 1280}),
            &["Not used: cat.png ("],
        ),
        (
            resized("GetImageSizeAndCount", [1, 2]),
            json!({"width": 704, "height": 1280}),
            &["Not used: cat.png ("],
        ),
        (
            resized("GetImageSize", [1, 0]),
            json!({"width": 1280, "height": 704}),
            &["Not used: cat.png ("],
        ),
        (
            json!({"7.denoise": 0.6, "7.seed": ["20", 0], "20": node("Seed Everywhere", json!({"seed": 5151}))}),
            json!({"seed": 5151, "num_steps": 24, "strength": null, "from_image": false}),
            &[
                "Its denoising strength, 0.6, was for an empty image, which cannot be repeated: 1 is used",
            ],
        ),
    ]);
}

#[test]
fn restored_input_files_are_named_by_their_use() {
    assert_cases(&[
        // Of merged contexts the last one that has the member.
        // All steps are the last ones of a longer schedule.
        (
            json!({"20": image(), "21": node("VAEEncodeForInpaint", json!({"pixels": ["20", 0], "mask": ["20", 1], "grow_mask_by": 6})),
                "7.latent_image": ["21", 0]}),
            json!({"from_image": true}),
            &[
                START,
                MASK,
                "Not used: grow_mask_by 6 of node 21 (VAEEncodeForInpaint)",
            ],
        ),
        (
            json!({"20": image(), "21": node("VAEEncode", json!({"pixels": ["20", 0]})), "22": node("GrowMask", json!({"expand": 6, "mask": ["20", 1]})),
                "23": node("SetLatentNoiseMask", json!({"samples": ["21", 0], "mask": ["22", 0]})), "7.latent_image": ["23", 0]}),
            json!({"from_image": true}),
            &[START, MASK, "Not used: node 22 (GrowMask) with expand 6"],
        ),
        (
            json!({"20": image(), "21": node("InpaintModelConditioning", json!({"positive": ["4", 0], "negative": ["5", 0],
                "pixels": ["20", 0], "mask": ["20", 1], "noise_mask": true})),
                "7.latent_image": ["21", 2], "7.positive": ["21", 0], "7.negative": ["21", 1]}),
            json!({"prompt": "a red barn", "distilled_guidance": 3.1}),
            &[START, MASK],
        ),
        // One reference for both prompts.
        (
            json!({"20": image(), "22": node("VAEEncode", json!({"pixels": ["20", 0]})), "11": encoder("fog"),
                "23": node("ReferenceLatent", json!({"conditioning": ["4", 0], "latent": ["22", 0]})),
                "24": node("ReferenceLatent", json!({"conditioning": ["11", 0], "latent": ["22", 0]})),
                "7.positive": ["23", 0], "7.negative": ["24", 0]}),
            json!({"prompt": "a red barn", "negative_prompt": "fog"}),
            &["Its reference image, cat.png, is not in the file"],
        ),
        // The rate of what is saved, not of what is shown or unused.
        // Files of which only a text or a size was used.
        (
            json!({"20": image(), "21": node("Florence2Run", json!({"image": ["20", 0], "task": "caption", "seed": 1})), "3.text": ["21", 2]}),
            json!({"prompt": null, "from_image": false, "distilled_guidance": 3.1}),
            &[
                "The prompt could not be read: node 21 (Florence2Run)",
                "Not used: cat.png (image of node 21 (Florence2Run))",
            ],
        ),
        (
            json!({"20": image(), "21": node("GetImageSize+", json!({"image": ["20", 0]})),
                "22": node("WanImageToVideo", json!({"width": ["21", 0], "height": ["21", 1], "length": 81, "positive": ["4", 0],
                    "negative": ["5", 0], "start_image": ["20", 0]})),
                "7.positive": ["22", 0], "7.negative": ["22", 1], "7.latent_image": ["22", 2]}),
            json!({"num_frames": 81, "from_image": true}),
            &[START],
        ),
    ]);
}

#[test]
fn a_size_that_could_not_be_read_is_that_of_the_image_unless_it_was_enlarged_later() {
    let mut parts = json!({"20": node("FluxResolutionNode", json!({"megapixel": "1.0"})), "6.width": ["20", 0], "6.height": ["20", 1]});
    let read = |parts: &Value| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        let image = image::RgbImage::new(48, 32);
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        let mut bytes = bytes.into_inner();
        let text = graph_with(parts).to_string();
        // All but the signature of a file with this text alone.
        let chunk = [b"prompt\0\0\0\0\0", text.as_bytes()].concat();
        bytes.truncate(bytes.len() - 12);
        bytes.extend(&png(*b"iTXt", &chunk)[8..]);
        read_file("a.png", &bytes).unwrap()
    };
    let own = "The size could not be read: node 20 (FluxResolutionNode) makes it. That of the file, 48 × 32, is used";
    assert_settings(&read(&parts), &json!({"width": 48, "height": 32}), &[own]);
    parts["21"] = node("ImageScaleBy", json!({"image": ["8", 0], "scale_by": 2.0}));
    parts["10.images"] = json!(["21", 0]);
    let found = read(&parts);
    assert_eq!(found.width, None);
    assert_note(&found, "makes it. The model's own is used");
}
