//! Prompts that are templates.

use super::*;
use crate::job::prompt::{PromptWeights, WildcardFolders};
use crate::model::ModelFamily;

#[test]
fn prompts_are_expanded_once_and_keep_their_template() {
    let none = WildcardFolders::default();
    let mut request = request_of(&test_spec(), |form| {
        form.prompt = "a {red|blue} \\{cat\\|dog\\}".to_owned();
        form.negative_prompt = Some("{blurry|blurry} \\(fog\\)".to_owned());
    });
    let notices = request.expand_prompts(&none).unwrap();
    assert_eq!(notices, []);
    let settled = request.clone();
    assert!(settled.prompt.ends_with(" {cat|dog}"), "{settled:?}");
    request.seed += 1;
    assert!(request.expand_prompts(&none).unwrap().is_empty());
    assert_eq!(request.prompt, settled.prompt);
    let template = Some("a {red|blue} \\{cat\\|dog\\}");
    assert_eq!(request.prompt_template.as_deref(), template);
    assert_eq!(request.negative_prompt, "blurry \\(fog\\)");
    let template = Some("{blurry|blurry} \\(fog\\)");
    assert_eq!(request.negative_prompt_template.as_deref(), template);
}

#[test]
fn both_prompts_that_cannot_be_settled_are_named_at_once() {
    let mut request = request_of(&test_spec(), |form| {
        form.prompt = "a {red|blue".to_owned();
        form.negative_prompt = Some("__nothing__".to_owned());
    });
    let result = request.expand_prompts(&WildcardFolders::default());
    let errors = result.unwrap_err();
    let fields: Vec<_> = errors.iter().map(|err| err.field).collect();
    assert_eq!(fields, ["prompt", "negative"]);
    assert_eq!(request.prompt, "a {red|blue");
}

#[test]
fn a_carried_prompt_that_looks_like_a_template_is_none_however_often_it_is_settled() {
    let mut filled = form();
    filled.set_literal_prompt("a {red|blue} boat".to_owned());
    let mut request = filled.validate(&test_spec()).unwrap().request;
    for _ in 0..2 {
        let notices = request.expand_prompts(&WildcardFolders::default());
        assert_eq!(notices, Ok(Vec::new()));
        assert_eq!(&*request.prompt, "a {red|blue} boat");
    }
    let carried = request.carried();
    assert_eq!(carried["request"]["prompt"], "a {red|blue} boat");
    assert_eq!(carried["request"].get("prompt_template"), None);
}

/// The text that a job of the form is made from, and the negative one.
fn expanded(form: &GenerateForm) -> (String, String) {
    let mut request = form.validate(&test_spec()).unwrap().request;
    request.expand_prompts(&WildcardFolders::default()).unwrap();
    (request.prompt, request.negative_prompt)
}

#[test]
fn a_literal_prompt_reaches_the_model_to_the_letter_and_is_a_template_again_when_edited() {
    for text in [
        "a {red|blue} boat",
        "/* art */ a boat",
        "# Title\na boat",
        "a __colour__ boat",
        "{\"subject\": \"a boat\", \"f\": \"{1|2}\"}",
    ] {
        let mut filled = form();
        filled.set_literal_prompt(text.to_owned());
        filled.set_literal_negative(text.to_owned());
        assert_eq!(expanded(&filled), (text.to_owned(), text.to_owned()));
        assert!(filled.unedited_prompt().unwrap().differs_from_template());
        filled.prompt.push('!');
        assert_eq!(filled.unedited_prompt(), None);
        filled.prompt.pop();
        assert!(filled.unedited_prompt().is_some(), "as undo does");
    }
    let mut filled = form();
    filled.set_literal_prompt("a".repeat(70_000));
    let mut request = filled.validate(&test_spec()).unwrap().request;
    let errors = request.expand_prompts(&WildcardFolders::default());
    assert!(errors.unwrap_err()[0].message.contains("longer than"));
    filled.set_literal_prompt("a {red|red} boat".to_owned());
    filled.set_literal_negative("{fog|fog}".to_owned());
    filled.use_prompt_as_template();
    filled.use_negative_as_template();
    let expected = ("a red boat".to_owned(), "fog".to_owned());
    assert_eq!(expanded(&filled), expected);
}

#[test]
fn a_literal_prompt_stays_literal_in_each_line_and_in_each_cell_of_a_grid() {
    let mut filled = form();
    filled.set_literal_prompt("a {red|blue} boat\n# a __sea__".to_owned());
    filled.is_one_a_line = true;
    let find = |_: &str| -> Result<ModelSpec, String> { Err("no other model".to_owned()) };
    let texts = |form: &GenerateForm| -> Vec<String> {
        let made = jobs_of(form, &test_spec(), &find).unwrap();
        let expanded = made.jobs.into_iter().map(|mut job| {
            let none = WildcardFolders::default();
            job.request.expand_prompts(&none).unwrap();
            job.request.prompt
        });
        expanded.collect()
    };
    assert_eq!(texts(&filled), ["a {red|blue} boat", "# a __sea__"]);
    filled.set_literal_prompt("a {red|blue} boat".to_owned());
    filled.grid = vec!["prompt=boat,ship".parse().unwrap()];
    assert_eq!(texts(&filled), ["a {red|blue} boat", "a {red|blue} ship"]);
}

#[test]
fn the_prompts_of_a_result_are_literal_in_a_form_and_keep_their_template() {
    let mut filled = form();
    filled.prompt = "a {red|red} boat".to_owned();
    let mut request = filled.validate(&test_spec()).unwrap().request;
    request.expand_prompts(&WildcardFolders::default()).unwrap();
    let json = serde_json::to_string(&GenerateForm::from(&request)).unwrap();
    let mut again: GenerateForm = serde_json::from_str(&json).unwrap();
    let literal = again.unedited_prompt().unwrap();
    assert_eq!(&*literal.text, "a red boat");
    assert_eq!(&*literal.template, "a {red|red} boat");
    let repeated = again.validate(&test_spec()).unwrap().request;
    assert_eq!(repeated.prompt_template, request.prompt_template);
    again.use_prompt_as_template();
    assert_eq!(again.prompt, "a {red|red} boat");
    assert_eq!(again.unedited_prompt(), None);
}

#[test]
fn weights_without_effect_are_named_once_and_a_result_is_repeated_with_its_own() {
    let of = |family| {
        let mut spec = test_spec();
        spec.family = family;
        spec
    };
    let (spec, other) = (of(ModelFamily::Z_IMAGE), of(ModelFamily::CHROMA));
    let mut filled = form();
    filled.out = "a.png".into();
    filled.options.prompt_weights = Some(PromptWeights::Comfy);
    for (prompt, at_once, expanded) in [
        ("a (red:1.2) boat", 1, 0),
        ("a {(red:1.2)|(red:1.2)} boat", 0, 1),
        ("a (red) boat", 0, 0),
    ] {
        filled.prompt = prompt.to_owned();
        let mut checked = filled.validate(&spec).unwrap();
        assert_eq!(checked.notices.len(), at_once, "{prompt}");
        let notices = checked.request.expand_prompts(&WildcardFolders::default());
        assert_eq!(notices.unwrap().len(), expanded, "{prompt}");
        let weighted = filled.validate(&other).unwrap();
        assert_eq!(weighted.notices, [], "{prompt}");
        let again = GenerateForm::from(&weighted.request);
        assert_eq!(again.options.prompt_weights, Some(PromptWeights::Comfy));
    }
    let mut old = filled.validate(&spec).unwrap().request;
    old.options.prompt_weights = None;
    let again = GenerateForm::from(&old);
    assert_eq!(
        again.options.prompt_weights,
        Some(PromptWeights::Off),
        "of an earlier version"
    );
}
