//! Every tensor that diffusers recorded is there, under its name and within its limit, and none besides.

use super::*;

/// A run as it was recorded.
struct Run {
    name: &'static str,
    facts: Value,
    tensors: BTreeMap<String, Tensor>,
}

impl Run {
    fn open(name: &'static str) -> Self {
        let file = fixtures().join(format!("flux/stages/{name}.safetensors"));
        let facts = json_of(format!("flux/stages/{name}.json"));
        let mut tensors: BTreeMap<_, _> = store::read(&file).unwrap().into_iter().collect();
        for (twin, of) in facts["same"].as_object().unwrap() {
            let copy = tensors[of.as_str().unwrap()].shallow_clone();
            tensors.insert(twin.clone(), copy);
        }
        Self {
            name,
            facts,
            tensors,
        }
    }

    fn job(&self) -> Job {
        let mut facts = self.facts.clone();
        let fields = facts.as_object_mut().unwrap();
        for ours in ["same", "unchecked", "variant", "role"] {
            fields.remove(ours);
        }
        fields.insert("image_role".to_owned(), self.facts["role"].clone());
        let variant = self.facts["variant"].as_str().unwrap();
        let given = |name: &str| self.tensors.get(&format!("{name}.source_u8"));
        Job::new(variant, &facts, given("image"), given("mask"))
    }

    fn limit_of(&self, tensor: &str) -> f64 {
        // A tensor that equals another one is recorded once.
        let recorded = self.facts["same"][tensor].as_str().unwrap_or(tensor);
        let fixture = format!("flux/stages/{}", self.name);
        limit(&fixture, recorded, base_limit_of(tensor))
    }

    /// The names of all that was recorded.
    fn names(&self) -> BTreeSet<&str> {
        let unchecked = self.facts["unchecked"].as_array().unwrap().iter();
        let unchecked = unchecked.map(|name| name.as_str().unwrap());
        self.tensors
            .keys()
            .map(String::as_str)
            .chain(unchecked)
            .collect()
    }
}

/// The limits of `reference/README.md`, as relative distances, for a reference that is nearer to itself.
fn base_limit_of(name: &str) -> f64 {
    let last = name.rsplit('.').next().unwrap_or_default();
    if name.starts_with("tokenizer") || last.ends_with("ids") {
        return 0.0;
    }
    if name.starts_with("noise.") {
        return 1e-6;
    }
    match last {
        "source_u8" | "mask" | "guidance" | "timestep" | "timesteps" => 0.0,
        "sigmas" | "initial" => 1e-6,
        "cond" | "uncond" | "noise_pred" => 2e-5,
        "latents" | "final" | "output" | "pixels" => 3e-5,
        _ if name == "vae.decode.0.input" || last == "hidden_states" => 3e-5,
        // Of texts and given pictures.
        _ => 1e-5,
    }
}

fn check(name: &'static str) {
    with_both_frequencies(|| check_once(name));
}

fn check_once(name: &'static str) {
    let run = Run::open(name);
    let job = run.job();
    let told = job.run(true);
    let found = job.request.capture.as_ref().unwrap();
    let found = store::read(&found.join("capture.safetensors")).unwrap();
    let found: BTreeMap<_, _> = found.into_iter().collect();
    let names: BTreeSet<_> = found.keys().map(String::as_str).collect();
    let all = run.names();
    let missing: Vec<_> = all.difference(&names).collect();
    let extra: Vec<_> = names.difference(&all).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "{name}: no {missing:?}, but {extra:?}"
    );
    for (key, expected) in &run.tensors {
        let found = &found[key];
        assert_eq!(found.kind(), expected.kind(), "{name}: {key}");
        let what = format!("{name}: {key}");
        if key != "output_u8" {
            assert_close(&what, found, expected, run.limit_of(key));
            continue;
        }
        let [(0, 1, bytes)] = &told.frames[..] else {
            panic!("{name}: not one picture");
        };
        let sent: Vec<u8> = found.flatten(0, -1).try_into().unwrap();
        assert_eq!(*bytes, sent, "{what}");
        let off = (found.to_kind(Kind::Int) - expected.to_kind(Kind::Int)).abs();
        assert!(off.max().int64_value(&[]) <= 1, "{what}");
        let share = off.to_kind(Kind::Double).mean(Kind::Double);
        assert!(share.double_value(&[]) < 0.01, "{what}");
    }
}

#[test]
fn text_becomes_a_picture_as_in_the_reference() {
    for name in ["dev_a", "dev_b", "schnell_a", "schnell_b"] {
        check(name);
    }
}

#[test]
fn texts_have_the_length_that_the_model_was_trained_with() {
    for name in ["long", "long_schnell"] {
        check(name);
    }
}

#[test]
fn a_negative_prompt_guides_as_in_the_reference() {
    for name in ["true_cfg_a", "true_cfg_b"] {
        check(name);
    }
}

#[test]
fn a_picture_becomes_another_as_in_the_reference() {
    for name in ["image_a", "image_b"] {
        check(name);
    }
}

#[test]
fn what_a_mask_hides_is_made_anew_as_in_the_reference() {
    for name in ["inpaint", "inpaint_cfg"] {
        check(name);
    }
}

#[test]
fn what_a_mask_hides_is_filled_as_in_the_reference() {
    for name in ["fill", "fill_part"] {
        check(name);
    }
}

#[test]
fn a_picture_is_edited_as_in_the_reference() {
    for name in ["kontext", "kontext_cfg"] {
        check(name);
    }
}
