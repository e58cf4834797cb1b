//! What helps with writing a prompt: tokens, earlier prompts, wildcards, one job a line, and seeds that follow.

use safelight_core::job::prompt::WeightedText;
use safelight_core::tokens::TextTokenizer;

use crate::app_window::prelude::*;

fn tokenizer() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/little-world/tokenizer")
}

fn bench() -> Bench {
    let mut spec = spec();
    spec.files.tokenizer = tokenizer();
    Bench::of(spec)
}

fn tokens_of(text: &str) -> usize {
    let own = TextTokenizer::open(&tokenizer(), None, 4096).expect("it opens");
    own.count(&[WeightedText::plain(text)])
        .expect("any text has tokens")
}

fn prompt(bench: &mut Bench) -> String {
    bench.form().prompt.clone()
}

fn count_of(text: &str) -> String {
    format!("{} of 512 tokens", tokens_of(text))
}

fn generate(bench: &mut Bench, text: &str) {
    text.clone_into(&mut bench.form().prompt);
    bench.request();
}

fn wildcard(bench: &Bench, name: &str, lines: &str) {
    let path = bench.paths().wildcards().join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, lines).expect("it is written");
}

#[test]
fn prompt_tokens_are_counted_and_truncated_ones_are_reported() {
    let mut bench = bench();
    bench.assert_hides("tokens");
    bench.write_prompt("a red boat & a blue one");
    bench.wait_for(&count_of("a red boat & a blue one"));
    bench.write_prompt(", at sea");
    bench.wait_for(&count_of("a red boat & a blue one, at sea"));
    bench.until_at_rest();
    bench.form().prompt = "a red boat".to_owned();
    bench.wait_for(&count_of("a red boat"));
    let long = "boat ".repeat(600);
    bench.form().prompt.clone_from(&long);
    let cut = tokens_of(long.trim()) - 512;
    bench.wait_for(&format!("the last {cut} are truncated"));

    // Tokens that only the second encoder of Flux reads are named.
    let mut spec = flux_spec();
    (spec.files.tokenizer, spec.files.tokenizer_2) = (tokenizer(), Some(tokenizer()));
    let mut bench = Bench::of(spec);
    bench.write_prompt("a red boat");
    bench.wait_for("of 512 tokens");
    bench.assert_hides("CLIP reads only");
    bench.form().prompt = "boat ".repeat(90);
    bench.wait_for("CLIP reads only the first 77|T5 reads all of it");
}

#[test]
fn a_wildcard_that_is_not_there_is_named_before_anything_is_generated() {
    let mut bench = bench();
    bench.write_prompt("a __boat__ at sea");
    bench.wait_for("There is no wildcard file boat.txt");
    let lines = "red boat\nvery large blue sailing boat\n";
    wildcard(&bench, "boat.txt", lines);
    bench.press("Wildcards");
    let longest = count_of("a very large blue sailing boat at sea");
    bench.wait_for(&format!("Up to {longest}"));
}

#[test]
fn earlier_prompts_are_listed_searched_used_and_forgotten() {
    let mut bench = bench();
    for text in ["a red boat", "a green hill", "a red boat", "two\nlines"] {
        generate(&mut bench, text);
    }
    bench.press_until("Earlier prompts", "Use: two lines");
    assert!(bench.has("Use: a green hill") && bench.has("Use: a red boat"));
    bench.type_into("Search earlier prompts", "RED");
    assert!(bench.has("Use: a red boat") && !bench.has("Use: a green hill"));
    bench.press("Use: a red boat");
    assert_eq!(prompt(&mut bench), "a red boat");
    assert!(!bench.has("Search earlier prompts"), "the list is closed");
    bench.press("Earlier prompts");
    bench.press("Forget: a green hill");
    bench.until("it is gone", |bench| {
        bench.app().prompt.history.entries.len() == 2
    });
    assert!(bench.has("Use: a red boat") && !bench.has("Use: a green hill"));
    let kept = bench.paths().data.join("prompts.jsonl");
    let kept = fs::read_to_string(kept).unwrap();
    assert_eq!(kept.lines().count(), 2, "{kept}");
}

#[test]
fn the_keyboard_steps_through_earlier_prompts_and_back_to_the_draft() {
    let mut bench = bench();
    generate(&mut bench, "first");
    generate(&mut bench, "second");
    bench.form().prompt.clear();
    bench.write_prompt("half a thou");
    bench.until("they are known", |bench| {
        bench.app().prompt.history.entries.len() == 2
    });
    let step = |bench: &mut Bench, key| {
        bench.press_keys(Modifiers::ALT, key);
        prompt(bench)
    };
    for (key, expected) in [
        (Key::ArrowUp, "second"),
        (Key::ArrowUp, "first"),
        (Key::ArrowUp, "first"),
        (Key::ArrowDown, "second"),
        (Key::ArrowDown, "half a thou"),
    ] {
        assert_eq!(step(&mut bench, key), expected);
    }
    // Another window has the same ones.
    let paths = bench.paths();
    let mut second = Bench::with(|startup| startup.paths = Some(paths));
    second.press_until("Earlier prompts", "Use: first");
}

#[test]
fn wildcard_is_inserted_at_the_cursor() {
    let mut bench = bench();
    let lines = "# a comment\ncalm sea\nwild sea\n";
    wildcard(&bench, "places/sea.txt", lines);
    bench.write_prompt("a boat");
    bench.press_until("Wildcards", "Insert places/sea");
    bench.press("Insert places/sea");
    assert_eq!(prompt(&mut bench), "a boat __places/sea__");
    bench.write_prompt(" at noon");
    assert_eq!(prompt(&mut bench), "a boat __places/sea__ at noon");
}

#[test]
fn a_wildcard_that_is_begun_is_completed() {
    let mut bench = bench();
    wildcard(&bench, "colour.txt", "red\n");
    wildcard(&bench, "country.txt", "Chile\n");
    bench.write_prompt("a ");
    bench.until("they are known", |bench| {
        let known = bench.app().prompt.wildcards.clone();
        known.is_some_and(|known| known.len() == 2)
    });
    bench.write_prompt("__co");
    assert!(bench.has("Complete colour") && bench.has("Complete country"));
    bench.press_key(Key::ArrowDown);
    bench.press_key(Key::Enter);
    assert_eq!(prompt(&mut bench), "a __country__");
    bench.assert_hides("Complete");
    bench.write_prompt(" __col");
    bench.press("Complete colour");
    assert_eq!(prompt(&mut bench), "a __country__ __colour__");
}

#[test]
fn each_line_becomes_a_job_where_that_is_wanted() {
    let mut bench = bench();
    let form = bench.form();
    form.prompt = "a red boat\n\n# not this\n  a green hill  \n".into();
    form.seed = 7;
    form.seed_mode = SeedMode::Increment;
    bench.press("One job per line");
    bench.press("Generate 2 videos");
    let mut sent = Vec::new();
    for _ in 0..2 {
        let request = bench.next_request();
        sent.push((request.prompt, request.seed));
    }
    let expected = [("a red boat".to_owned(), 7), ("a green hill".to_owned(), 8)];
    assert_eq!(sent, expected);
    bench.assert_no_job();
    assert!(prompt(&mut bench).starts_with("a red boat\n\n#"));
    bench.press("Generate 2 videos");
    assert_eq!(bench.next_job().request.seed, 9);
}

#[test]
fn inactive_negative_prompt_names_the_setting_that_enables_it() {
    let mut bench = bench();
    let field = |bench: &Bench| bench.has_node(Role::MultilineTextInput, "Negative prompt");
    assert!(field(&bench) && !bench.has("No negative prompt"));
    bench.edit(|form| form.sampling.guidance_scale = Some(1.0));
    assert!(!field(&bench));
    bench.assert_shows("No negative prompt: it needs a guidance above 1");
    bench.edit(|form| form.negative_prompt = Some("fog".into()));
    bench.assert_shows("The negative prompt is kept but not used");
    let flux = Bench::of(flux_spec());
    flux.assert_shows("it needs a CFG scale above 1");
}

#[test]
fn a_wildcard_that_was_made_since_is_completed() {
    let mut bench = bench();
    bench.write_prompt("a boat ");
    bench.until("there are none", |bench| {
        bench.app().prompt.wildcards.is_some()
    });
    wildcard(&bench, "colour.txt", "red\n");
    let folder = bench.paths().wildcards();
    fs::write(folder.join("cold.txt"), b"caf\xe9\n").expect("it is written");
    // Those that were looked at just now are not looked at again.
    bench.harness.run_steps(10);
    bench.write_prompt("__co");
    bench.wait_for("Complete colour");
    assert!(!bench.has("Complete cold"), "it is no text");
}

#[test]
fn tab_after_an_incomplete_wildcard_name_keeps_focus_in_the_prompt() {
    let mut bench = bench();
    let has_focus = |bench: &Bench| bench.has_focus(Role::MultilineTextInput, "Prompt");
    bench.write_prompt("a __nobody");
    bench.press_key(Key::Tab);
    assert!(has_focus(&bench));
    assert_eq!(prompt(&mut bench), "a __nobody");
    bench.write_prompt("__");
    bench.press_key(Key::Tab);
    assert!(!has_focus(&bench));
}

#[test]
fn examples_are_offered_for_an_empty_field_and_replace_nothing_unseen() {
    let mut bench = bench();
    bench.assert_shows("Example: a red boat");
    bench.press("Example: a yellow balloon rises at dawn");
    assert_eq!(prompt(&mut bench), "a yellow balloon rises at dawn");
    bench.edit(|form| form.prompt.clear());
    bench.write_prompt("my own boat");
    bench.assert_hides("Example: a yellow balloon");
    bench.press("Random example");
    assert_ne!(prompt(&mut bench), "my own boat");
    bench.press("Random example");
    bench.press_until("Earlier prompts", "Use: my own boat");
    assert_eq!(bench.app().prompt.history.entries.len(), 1);
}

#[test]
fn text_from_right_to_left_is_stored_as_written_and_its_display_explained() {
    let mut bench = bench();
    // Which fonts this machine has is no matter here.
    let tofu = egui::MissingGlyphPolicy::Tofu;
    bench.harness.ctx.set_missing_glyph_policy(tofu);
    let note = "Right-to-left text is shown in the wrong order here";
    bench.write_prompt("a boat, 한국어 ไทย हिन्दी");
    assert!(!bench.has(note));
    bench.write_prompt(" שלום");
    bench.assert_shows(note);
    assert_eq!(bench.request().prompt, "a boat, 한국어 ไทย हिन्दी שלום");
}

#[test]
fn a_long_prompt_scrolls_in_its_field_and_moves_nothing_far_down() {
    let mut bench = bench();
    let top = |bench: &Bench| bench.labelled("LoRAs").rect().top();
    let empty = top(&bench);
    bench.write_prompt("a red boat");
    bench.wait_for("tokens");
    assert_eq!(top(&bench), empty, "the first letters move nothing");
    bench.edit(|form| form.prompt = "a line of words\n".repeat(80));
    assert!(top(&bench) - empty < 180.0, "{} after {empty}", top(&bench));
}

#[test]
fn a_list_that_comes_late_gets_its_full_height() {
    let mut bench = bench();
    for name in 'a'..='f' {
        wildcard(&bench, &format!("{name}.txt"), "x\n");
    }
    bench.press_until("Wildcards", "Insert a");
    assert!(bench.has("Insert f"), "all rows are in sight");
}
