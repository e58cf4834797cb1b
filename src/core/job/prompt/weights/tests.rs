//! Prompts as ComfyUI reads them.

use std::time::Instant;

use super::*;

fn parts(prompt: &str) -> Vec<(String, f64)> {
    let parts = weighted_parts(prompt).into_iter();
    parts
        .map(|part| (part.text, (part.weight * 1e4).round() / 1e4))
        .collect()
}

/// Prompts, and their parts with weights.
const PARTS: &[(&str, &[(&str, f64)])] = &[
    ("", &[]),
    ("   ", &[("   ", 1.0)]),
    ("a red fox", &[("a red fox", 1.0)]),
    ("a (red) fox", &[("a ", 1.0), ("red", 1.1), (" fox", 1.0)]),
    (
        "a (red:1.3) fox",
        &[("a ", 1.0), ("red", 1.3), (" fox", 1.0)],
    ),
    (
        "a (((red))) fox",
        &[("a ", 1.0), ("red", 1.331), (" fox", 1.0)],
    ),
    (
        "a (small (red:1.3) fox:1.5) in the forest",
        &[
            ("a ", 1.0),
            ("small ", 1.5),
            ("red", 1.3),
            (" fox", 1.5),
            (" in the forest", 1.0),
        ],
    ),
    (
        "a ((red:1.3) fox) swims",
        &[("a ", 1.0), ("red", 1.3), (" fox", 1.1), (" swims", 1.0)],
    ),
    (
        "a [red] fox, [[blurry]]",
        &[("a [red] fox, [[blurry]]", 1.0)],
    ),
    (
        "a \\(red\\) fox, (\\(wolf\\):1.2)",
        &[("a (red) fox, ", 1.0), ("(wolf)", 1.2)],
    ),
    (
        "a \\[red\\] fox, back\\slash and two\\\\",
        &[("a \\[red\\] fox, back\\slash and two\\\\", 1.0)],
    ),
    ("a (red fox, blue", &[("a ", 1.0), ("(red fox, blue", 1.0)]),
    (
        "a red) fox (cat:1.4) dog",
        &[("a red) fox (cat:1.4) dog", 1.0)],
    ),
    ("(fox:cat:1.2) runs", &[("fox:cat", 1.2), (" runs", 1.0)]),
    (
        "(fox:abc) (:1.3) (cat:)",
        &[
            ("fox:abc", 1.1),
            (" ", 1.0),
            (":1.3", 1.1),
            (" ", 1.0),
            ("cat:", 1.1),
        ],
    ),
    (
        "(fox: 1.3 ) and (cat:-0.5) and (dog:0)",
        &[
            ("fox", 1.3),
            (" and ", 1.0),
            ("cat", -0.5),
            (" and ", 1.0),
            ("dog", 0.0),
        ],
    ),
    (
        "(fox:.5) (cat:1e1) (dog:+2)",
        &[
            ("fox", 0.5),
            (" ", 1.0),
            ("cat", 10.0),
            (" ", 1.0),
            ("dog", 2.0),
        ],
    ),
    (
        "(red)fox runs(fast)x",
        &[("red", 1.1), ("fox runs", 1.0), ("fast", 1.1), ("x", 1.0)],
    ),
    (
        "a (b [c) d] e",
        &[("a ", 1.0), ("b [c", 1.1), (" d] e", 1.0)],
    ),
    ("a fox, bird:1.5) flies", &[("a fox, bird:1.5) flies", 1.0)]),
    (
        "(ein Füchslein:1.2) 🦊 東京\nline",
        &[("ein Füchslein", 1.2), (" 🦊 東京\nline", 1.0)],
    ),
    ("()", &[]),
    ("(())", &[]),
    ("( )", &[(" ", 1.1)]),
    ("((a:1.2):0.5)", &[("a", 1.2)]),
    ("(a:1.2)(b:0.8)", &[("a", 1.2), ("b", 0.8)]),
    ("(a (b)", &[("a ", 1.1), ("(b", 1.1)]),
    ("((((a))", &[("((a", 1.21)]),
    (")(a)", &[(")(a)", 1.0)]),
    ("a)(b)((c))", &[("a)(b)(", 1.0), ("c", 1.1), (")", 1.0)]),
    ("(a (b):1.2)", &[("a ", 1.2), ("b", 1.32)]),
    ("(a (b:0.5)", &[("a ", 0.5), ("(b", 0.5)]),
    ("(a\\) b)", &[("a) b", 1.1)]),
    ("\\\\(a)", &[("\\(a)", 1.0)]),
    ("\\(a:1.2\\)", &[("(a:1.2)", 1.0)]),
    ("(a\\:1.2)", &[("a\\", 1.2)]),
    ("(16:9)", &[("16", 9.0)]),
    ("（a:1.2）", &[("（a:1.2）", 1.0)]),
    (
        "(a,(b,(c:2),d),e)",
        &[
            ("a,", 1.1),
            ("b,", 1.21),
            ("c", 2.0),
            (",d", 1.21),
            (",e", 1.1),
        ],
    ),
    ("(a:1.2:1.3)", &[("a:1.2", 1.3)]),
    ("((a):1.2)", &[("a", 1.32)]),
    ("(a)b)c(d)(e)", &[("a", 1.1), ("b)c(d)(e)", 1.0)]),
    ("(:1.2)", &[(":1.2", 1.1)]),
    ("(a: )", &[("a: ", 1.1)]),
    ("(a:--1)", &[("a:--1", 1.1)]),
    ("(a))((b", &[("a", 1.1), (")(", 1.0), ("(b", 1.0)]),
    ("(((x:1.5)y:0.5)z)", &[("x", 1.5), ("y", 0.5), ("z", 1.1)]),
    ("a:1.2", &[("a:1.2", 1.0)]),
    ("(a\\", &[("(a\\", 1.0)]),
    ("\\", &[("\\", 1.0)]),
    ("(", &[("(", 1.0)]),
    ("(a:1.2", &[("(a:1.2", 1.0)]),
    // Not numbers here, though they are in Python.
    (
        "(a:nan) (b:inf)",
        &[("a:nan", 1.1), (" ", 1.0), ("b:inf", 1.1)],
    ),
];

#[test]
fn weights_of_words_are_those_of_comfyui() {
    for (prompt, expected) in PARTS {
        let expected: Vec<(String, f64)> = expected
            .iter()
            .map(|(text, weight)| ((*text).to_owned(), *weight))
            .collect();
        assert_eq!(parts(prompt), expected, "{prompt:?}");
    }
}

#[test]
fn brackets_are_text_where_weights_do_not_act() {
    let prompt = r"a (red:1.2) \(fox\)";
    let text = |brackets: BracketUse| {
        let parts = brackets.parts(prompt);
        assert!(parts.len() == 1 && parts[0].weight == 1.0);
        parts[0].text.clone()
    };
    assert_eq!(text(BracketUse::Text), prompt);
    assert_eq!(text(BracketUse::Unescaped), "a (red:1.2) (fox)");
    assert_eq!(
        BracketUse::Weights.parts(""),
        [WeightedText::plain("")],
        "an encoder reads an empty text, too"
    );
    let escaped = escaped("a (fox:1.2), (b");
    assert_eq!(
        BracketUse::Weights.parts(&escaped),
        [WeightedText::plain("a (fox:1.2), (b")]
    );
}

#[test]
fn weights_without_effect_and_unlikely_weights_have_a_notice() {
    for (brackets, prompt, expected) in [
        (BracketUse::Weights, "a (red:1.2) fox", None),
        (
            BracketUse::Weights,
            "(a film still 16:9)",
            Some("\"a film still 16\" has a very large weight"),
        ),
        (BracketUse::Unescaped, "a (small) fox", None),
        (
            BracketUse::Unescaped,
            "a ((small)) fox",
            Some("Qwen does not use prompt weights: the brackets and numbers around \"small\""),
        ),
        (
            BracketUse::Text,
            "a (small:0.5) fox",
            Some("Prompt weights are off: the brackets and numbers around \"small\""),
        ),
        (BracketUse::Text, r"a \(small:0.5\) fox", None),
    ] {
        let found = brackets.notice(prompt, "Qwen");
        match expected {
            Some(expected) => assert!(
                found.as_ref().is_some_and(|it| it.starts_with(expected)),
                "{found:?}"
            ),
            None => assert_eq!(found, None, "{prompt}"),
        }
    }
}

#[test]
fn hostile_brackets_are_read_in_time_that_grows_with_their_length() {
    for prompt in [
        "(".repeat(60_000),
        ")".repeat(60_000),
        "()".repeat(30_000),
        ["(".repeat(30_000), ")".repeat(30_000)].join("a"),
        ["(".repeat(35_000), ")".repeat(25_000)].join("a:1"),
        ["(a:1.2".repeat(10_000), ")".repeat(9_999)].concat(),
        "\\(".repeat(30_000),
    ] {
        let start = Instant::now();
        weighted_parts(&prompt);
        let secs = start.elapsed().as_secs_f64();
        assert!(secs < 2.0, "{secs} s for {}…", &prompt[..8]);
    }
}
