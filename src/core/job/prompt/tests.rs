//! Templates in tables: what is written, and all that may come of it.

use std::collections::BTreeSet;
use std::fs;

use super::*;

fn none() -> WildcardFolders {
    WildcardFolders::default()
}

fn read(template: &str, seed: u64, wildcards: &WildcardFolders) -> String {
    expand(template, seed, wildcards).unwrap().prompt
}

fn all(template: &str, wildcards: &WildcardFolders) -> BTreeSet<String> {
    (0..400)
        .map(|seed| read(template, seed, wildcards))
        .collect()
}

fn set<const N: usize>(texts: [&str; N]) -> BTreeSet<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, WildcardFolders) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let folders = WildcardFolders::new([folder.path().to_owned()]);
    (folder, folders)
}

fn error(template: &str, wildcards: &WildcardFolders) -> String {
    expand(template, 1, wildcards).unwrap_err().to_string()
}

#[test]
fn a_choice_becomes_each_of_its_options() {
    for (template, expected) in [
        ("a {red|blue} cat", "a red cat/a blue cat"),
        ("{a|{b|c}} d", "a d/b d/c d"),
        ("a{ big|} cat", "a big cat/a cat"),
        ("{|}", ""),
        ("{0::a|b}", "b"),
        ("{ 2.5 ::a|b}", "a/b"),
        ("{std::vec|x}", "std::vec/x"),
        ("{2$$a|b}", "a, b/b, a"),
        ("{2$$ and $$ a | b }", "a and b/b and a"),
        ("{1-2$$a|b}", "a/b/a, b/b, a"),
        ("{-2$$+$$a|b}", "a/b/a+b/b+a"),
        ("{9$$a}", "a"),
        ("{0$$a|b}", ""),
        ("{é|日本|🙂}", "é/日本/🙂"),
    ] {
        let expected: BTreeSet<String> = expected.split('/').map(str::to_owned).collect();
        assert_eq!(all(template, &none()), expected, "{template}");
    }
}

#[test]
fn text_without_template_syntax_is_left_unchanged() {
    let plain = [
        "",
        "   ",
        "a cat, by the sea (close-up) | oil",
        "a { b } c }",
        "{\"subject\": {\"kind\": \"cat\"}, \"colours\": 2}",
        "an unclosed { brace",
        "price: 5$$ and a $ more",
        "snake_case, __ __, ____, _a_, __ a__",
        "https://example.org/a#b and/or // ".trim_end_matches("// "),
        "#1 of #hashtags, C# and # of",
        "(at 12:30), (16:9), (a: b), :-) and (",
        r"(red:1.2) \(a:1.2\) \[b\]",
        "C:\\images\\new \\ \\\\",
        "line one\n\n  line two\r\n",
        "日本語 🙂 \u{202e} \u{0} e\u{301}",
    ];
    for text in plain {
        let expanded = expand(text, 3, &none()).unwrap();
        assert_eq!((&*expanded.prompt, expanded.template), (text, None));
    }
}

#[test]
fn a_bar_in_a_json_object_is_not_a_choice() {
    for text in [
        "{\"subject\": \"a|b\", \"f\": \"f/2\"}",
        "Draw this: { \"a\" : { 'b': 'c|d', }, \"e\": [\"f|g\", {\"h\": 1}] }",
        "{\"a\": \"x|y\"",
    ] {
        assert_eq!(all(text, &none()), set([text]));
    }
    let template = "{\"subject\": \"a|b\", \"colour\": \"{red|blue}\"}";
    let expected = [
        "{\"subject\": \"a|b\", \"colour\": \"red\"}",
        "{\"subject\": \"a|b\", \"colour\": \"blue\"}",
    ];
    assert_eq!(all(template, &none()), set(expected));
    let expected = ["x", "{\"a\": \"b|c\"}"];
    assert_eq!(all("{x|{\"a\": \"b|c\"}}", &none()), set(expected));
    assert_eq!(all("{\"a\"|\"b\"}", &none()), set(["\"a\"", "\"b\""]));
}

#[test]
fn escaped_signs_are_letters() {
    let cases = [
        (r"\{a\|b\}", "{a|b}"),
        (r"{a\|b|a\|b}", "a|b"),
        (r"{\}|\}}", "}"),
        (r"\__name__", "__name__"),
        (r"{1\::a|1\::a}", "1::a"),
        (r"{2\$$a|2\$$a}", "2$$a"),
        (r"\# no comment", "# no comment"),
        (r"a \// b", "a // b"),
        (r"\\{a\|b\}", r"\{a|b}"),
    ];
    for (template, expected) in cases {
        let expanded = expand(template, 5, &none()).unwrap();
        assert_eq!(expanded.prompt, expected, "{template}");
        assert_eq!(expanded.template.as_deref(), Some(template));
    }
}

#[test]
fn comments_are_left_out() {
    let cases = [
        ("a /* b */cat", "a cat"),
        ("a cat // at home", "a cat"),
        ("a cat // at\nhome", "a cat\nhome"),
        ("# first\na cat\n  ## second\nat home\n#", "a cat\nat home"),
        ("a\n// b\nc", "a\nc"),
        ("a /* b\nc */ d", "a  d"),
        ("/* {a|b} __c__ */x", "x"),
        ("{a// the first\n|a}", "{a// the first\n|a}"),
        ("an /* unclosed one", "an /* unclosed one"),
    ];
    for (template, expected) in cases {
        let found = comments::without(template);
        assert_eq!(found, expected, "{template}");
    }
}

#[test]
fn a_seed_chooses_the_same_for_ever() {
    let template = "{a|b|c|d|e} {1-3$$f|g|h|i} {5::j|k} {l|{m|n}}";
    let found: Vec<String> = [0, 1, 42, u64::MAX]
        .into_iter()
        .map(|seed| read(template, seed, &none()))
        .collect();
    let expected = ["e f, i j l", "c i, g, f j n", "d g j l", "e f, h, i j m"];
    assert_eq!(found, expected);
    for seed in 0..50 {
        assert_eq!(read(template, seed, &none()), read(template, seed, &none()));
    }
}

#[test]
fn weights_of_options_are_how_often_they_come() {
    let count = |template: &str| {
        let chosen = (0..2000).map(|seed| read(template, seed, &none()));
        chosen.filter(|it| it == "a").count()
    };
    assert!((900..1100).contains(&count("{a|b}")));
    assert!((1400..1600).contains(&count("{3::a|b}")));
    assert!((150..250).contains(&count("{0.5::a|4.5::b}")));
}

#[test]
fn a_wildcard_is_a_line_of_its_file() {
    let (_kept, wildcards) = folder(&[
        ("colour.txt", "\u{feff}# colours\nred\r\n\n  blue  \r\n"),
        ("animals/cat.txt", "{small|} __colour__ cat\n"),
        ("animals/dog.txt", "dog"),
        ("animals/wild/wolf.txt", "wolf"),
        ("often.txt", "0::never\n2::always\n"),
        ("Ünïcode name.txt", "found"),
        ("notes.md", "no"),
    ]);
    let cases: [(&str, &[&str]); 8] = [
        ("a __colour__ cat", &["a red cat", "a blue cat"]),
        ("__COLOUR__", &["red", "blue"]),
        ("__colour.txt__", &["red", "blue"]),
        ("__animals/dog____animals/dog__", &["dogdog"]),
        ("{2$$__colour__}", &["red, blue", "blue, red"]),
        ("__often__", &["always"]),
        ("__ünïcode name__", &["found"]),
        ("__animals/d*__, __animals/**f__", &["dog, wolf"]),
    ];
    for (template, expected) in cases {
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(all(template, &wildcards), expected, "{template}");
    }
    let expected = "small red cat|small blue cat| red cat| blue cat|dog".split('|');
    let expected: BTreeSet<String> = expected.map(str::to_owned).collect();
    assert_eq!(all("__animals/*__", &wildcards), expected);
    let names = "animals/cat animals/dog animals/wild/wolf colour often Ünïcode name";
    assert_eq!(wildcards.names().join(" "), names);
}

#[test]
fn a_wildcard_file_in_utf_16_is_read_and_another_encoding_named() {
    let (kept, wildcards) = folder(&[("utf8.txt", "\u{feff}größe\n")]);
    let little = "\u{feff}größe 🙂\r\n日本".encode_utf16();
    let little: Vec<u8> = little.flat_map(u16::to_le_bytes).collect();
    let big = "\u{feff}größe".encode_utf16();
    let big: Vec<u8> = big.flat_map(u16::to_be_bytes).collect();
    let write = |name: &str, bytes: &[u8]| fs::write(kept.path().join(name), bytes).unwrap();
    write("little.txt", &little);
    write("big.txt", &big);
    write("unmarked.txt", &little[2..]);
    write("latin1.txt", b"gr\xf6\xdfe");
    write("odd.txt", &little[..little.len() - 1]);
    assert_eq!(all("__utf8__", &wildcards), set(["größe"]));
    assert_eq!(all("__big__", &wildcards), set(["größe"]));
    assert_eq!(all("__little__", &wildcards), set(["größe 🙂", "日本"]));
    for name in ["unmarked", "latin1", "odd"] {
        let message = error(&format!("__{name}__"), &wildcards);
        assert!(message.contains("save it as UTF-8"), "{message}");
    }
    let listed = wildcards.list();
    let listed = listed.iter();
    let listed = listed.map(|it| (&*it.name, it.num_lines, &*it.beginning[0]));
    let expected = [
        ("big", 1, "größe"),
        ("little", 2, "größe 🙂"),
        ("utf8", 1, "größe"),
    ];
    assert_eq!(listed.collect::<Vec<_>>(), expected);
}

#[test]
fn the_first_folder_that_has_a_name_gives_it() {
    let (first, _) = folder(&[("a.txt", "mine")]);
    let (second, _) = folder(&[("a.txt", "theirs"), ("b.txt", "also")]);
    let missing = first.path().join("nowhere");
    let folders = [missing, first.path().to_owned(), second.path().to_owned()];
    let wildcards = WildcardFolders::new(folders);
    assert_eq!(all("__a__ __b__", &wildcards), set(["mine also"]));
    assert_eq!(all("__*__", &wildcards), set(["mine", "also"]));
}

#[test]
fn unreadable_wildcards_are_reported_by_name() {
    let (kept, wildcards) = folder(&[
        ("empty.txt", "# nothing\n\n"),
        ("a.txt", "__b__"),
        ("b.txt", "so __a__"),
        ("self.txt", "__self__"),
        ("never.txt", "0::a"),
    ]);
    fs::write(kept.path().join("binary.txt"), [0xff, 0xfe, 0x00, 0xd8]).unwrap();
    let place = kept.path().display().to_string();
    let cases: [(&str, &[&str]); 9] = [
        ("__cats__", &["cats.txt", &place, "\\__"]),
        ("{__nowhere/*__|__nowhere/*__}", &["nowhere/*.txt", &place]),
        ("__empty__", &["no line", "empty.txt"]),
        ("__binary__", &["cannot read", "binary.txt"]),
        ("__a__", &["circle: a → b → a"]),
        ("{x__self__|y__self__}", &["circle: self → self"]),
        ("__never__", &["__never__", "weights"]),
        ("__../secret__", &["../secret", "outside of"]),
        ("__/etc/hosts__", &["/etc/hosts", "outside of"]),
    ];
    for (template, expected) in cases {
        let message = error(template, &wildcards);
        for part in expected {
            assert!(message.contains(part), "{template}: {message}");
        }
    }
    assert!(error("__cats__", &none()).contains("none is set"));
}

#[test]
fn templates_that_make_no_sense_are_errors() {
    let cases = [
        ("a {red|blue cat", "\"{red|blue cat\" is never closed"),
        ("{a|{b|c}", "\"{a|{b|c}\" is never closed"),
        ("{0::a|0::b}", "{0::a|0::b} has nothing"),
    ];
    for (template, expected) in cases {
        let message = error(template, &none());
        assert!(message.contains(expected), "{template}: {message}");
    }
}

#[test]
fn hostile_templates_end_soon() {
    let bomb = [
        ("a.txt", "__b____b____b____b____b____b____b____b____b__"),
        ("b.txt", "__c____c____c____c____c____c____c____c____c__"),
        ("c.txt", "__d____d____d____d____d____d____d____d____d__"),
        ("d.txt", "__e____e____e____e____e____e____e____e____e__"),
        ("e.txt", "__f____f____f____f____f____f____f____f____f__"),
        ("f.txt", "x"),
        ("long.txt", &"x".repeat(60_000)),
        (&format!("{}.txt", "a".repeat(200)), "x"),
    ];
    let (_kept, wildcards) = folder(&bomb);
    let deep = format!("{}a|b{}", "{|".repeat(30), "}".repeat(30));
    assert!(error(&deep, &none()).contains("deeper than"));
    assert!(error("__a__", &wildcards).contains("choices"));
    assert!(error("__long____long__", &wildcards).contains("longer than"));
    assert!(error(&"x".repeat(MAX_BYTES + 1), &none()).contains("longer than"));
    let stars = format!("__{}b__", "*a".repeat(90));
    assert!(error(&stars, &wildcards).contains("no wildcard file"));
    for sign in [
        "{", "}", "(", "[", "|", "\\", "__", "/*", "#", "{|", "((a:", "$$", "{1$$",
    ] {
        let many = sign.repeat(MAX_BYTES / sign.len());
        let closed = format!("{many}{}", "})]".repeat(9000));
        drop(expand(&many, 1, &wildcards));
        drop(expand(&closed, 1, &wildcards));
    }
}

#[test]
fn choices_of_several_choose_a_bounded_number_together() {
    let many = format!("{{60000$$$${}}}", "|".repeat(60_000));
    assert_eq!(read(&many, 1, &none()), "");
    let (_kept, wildcards) = folder(&[("a.txt", &many)]);
    let message = error("__a____a__", &wildcards);
    assert!(message.contains("more than 100000 options"), "{message}");
}

#[test]
fn wildcard_files_beyond_all_reason_are_refused() {
    let long = format!("{{{}|b}}", "a".repeat(MAX_BYTES));
    let line = format!("{{0::{}|}}", "a".repeat(60_000));
    let (kept, wildcards) = folder(&[
        ("long.txt", &long),
        ("lines.txt", &"a\n".repeat(1_000_001)),
        ("again.txt", &line),
    ]);
    let large = fs::File::create(kept.path().join("large.txt")).unwrap();
    large.set_len(16 * 1024 * 1024 + 1).unwrap();
    let again = "__again__".repeat(200);
    let cases = [
        ("__long__", "longer than"),
        ("__lines__", "more than 1000000 lines"),
        ("__large__", "more than 16777216 bytes"),
        (&*again, "more than 4194304 bytes of text"),
    ];
    for (template, expected) in cases {
        let message = error(template, &wildcards);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_wildcard_gives_other_lines_again_after_several_of_them_were_taken() {
    let (_kept, wildcards) = folder(&[("a.txt", "0.1::x\n0.2::y\n0::never\n0.7::z")]);
    for seed in 0..50 {
        let text = read("{3$$ $$__a__} __a__ {3$$ $$__a__}", seed, &wildcards);
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words.len(), 7, "{text}");
        for several in [&words[..3], &words[4..]] {
            let several: BTreeSet<&str> = several.iter().copied().collect();
            assert_eq!(several, BTreeSet::from(["x", "y", "z"]), "{text}");
        }
    }
}

#[test]
fn every_line_is_a_prompt_but_empty_ones_and_comments() {
    let text = "a {red|blue} cat\r\n\n# not this\n  a dog // home\n   \n/* nor\nthis */\n#1 fan";
    assert_eq!(lines(text), ["a {red|blue} cat", "a dog", "#1 fan"]);
    assert!(lines("\n# only\n").is_empty());
}

#[test]
fn has_choices_detects_prompts_that_depend_on_the_seed() {
    for template in ["a {red|blue} fox", "{2$$a|b}", "a __animal__"] {
        assert!(has_choices(template), "{template}");
    }
    for template in ["a red fox", "{\"as\": \"JSON\"}", "a | b", "snake_case"] {
        assert!(!has_choices(template), "{template}");
    }
}
