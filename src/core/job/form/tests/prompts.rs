//! Prompts that are templates.

use super::*;
use crate::job::prompt::WildcardFolders;
use crate::model::test_spec;

#[test]
fn prompts_are_settled_once_and_keep_what_was_written() {
    let none = WildcardFolders::default();
    let mut wish = form();
    wish.prompt = "a {red|blue} \\{cat\\|dog\\}".to_owned();
    wish.negative_prompt = Some("(blurry:1.2)".to_owned());
    let mut request = wish.validate(&test_spec()).unwrap().request;
    let notices = request.expand_prompts(&none).unwrap();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].field, "negative");
    let settled = request.clone();
    assert!(settled.prompt.ends_with(" {cat|dog}"), "{settled:?}");
    request.seed += 1;
    assert!(request.expand_prompts(&none).unwrap().is_empty());
    assert_eq!(request.prompt, settled.prompt);
    assert_eq!(
        request.prompt_template.as_deref(),
        Some("a {red|blue} \\{cat\\|dog\\}")
    );
    assert_eq!(request.negative_prompt, "blurry");
    assert_eq!(
        request.negative_prompt_template.as_deref(),
        Some("(blurry:1.2)")
    );
}

#[test]
fn both_prompts_that_cannot_be_settled_are_told_at_once() {
    let mut wish = form();
    wish.prompt = "a {red|blue".to_owned();
    wish.negative_prompt = Some("__nothing__".to_owned());
    let mut request = wish.validate(&test_spec()).unwrap().request;
    let errors = request
        .expand_prompts(&WildcardFolders::default())
        .unwrap_err();
    let fields: Vec<_> = errors.iter().map(|err| err.field).collect();
    assert_eq!(fields, ["prompt", "negative"]);
    assert_eq!(request.prompt, "a {red|blue");
}

#[test]
fn a_carried_prompt_that_looks_like_a_template_is_none() {
    let mut wish = form();
    wish.prompt = "a {red|blue} boat".to_owned();
    wish.prompt_template = Some(wish.prompt.clone());
    let mut request = wish.validate(&test_spec()).unwrap().request;
    let notices = request.expand_prompts(&WildcardFolders::default());
    assert_eq!(notices, Ok(Vec::new()));
    assert_eq!(
        (&*request.prompt, request.prompt_template),
        ("a {red|blue} boat", None)
    );
}
