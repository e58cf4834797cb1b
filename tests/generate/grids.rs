//! Grids on the command line: a job for each cell, the contact sheet; wrong grids and extensions are refused.

use crate::generate::prelude::*;

#[test]
fn a_grid_makes_every_cell_and_a_sheet_that_makes_it_again() {
    let home = Home::new();
    let grid = "--grid steps=1,2 --grid seed=3..4 --frames 1 --out fox.png";
    let output = run(home.generate().args(grid.split(' ')));
    let (last, code) = end(&output);
    assert_eq!((last["event"].as_str(), code), (Some("sheet"), 0), "{last}");
    let sheet = home.path().join("fox_grid.png");
    assert_eq!(last["path"], sheet.display().to_string());
    let seeds = events_of(&output, "job").into_iter();
    let seeds: Vec<Value> = seeds.map(|event| event["seed"].clone()).collect();
    assert_eq!(seeds, [3, 3, 4, 4]);
    let grid = settings(&home, "fox_grid.png")["grid"].clone();
    assert_eq!(grid["columns"], serde_json::json!(["Steps 1", "Steps 2"]));
    let cells = grid["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for (cell, number) in cells.iter().zip(1..) {
        assert_eq!(cell["file"], format!("fox_000{number}.png"));
    }
    // A cell is what the same settings make alone.
    makes(&home, "--steps 1 --seed 4 --frames 1 --out alone.png");
    let read = |name: &str| media::open_rgb(&home.path().join(name)).unwrap();
    assert_eq!(read("alone.png"), read("fox_0003.png"));
    // The sheet makes its grid again.
    let again = run(&mut home.repeat("fox_grid.png", "again.png"));
    assert_eq!(end(&again).1, 0, "{}", end(&again).0);
    assert_eq!(read("again_0003.png"), read("fox_0003.png"));
    assert_eq!(read("again_grid.png"), read("fox_grid.png"));
}

#[test]
fn a_wrong_grid_or_extension_is_refused_before_anything_is_made_or_kept() {
    let home = Home::new();
    let sides = "expected pixels for sides such as left=128,top=64";
    for (option, value, expected) in [
        ("--grid", "steps=1..1000", "more than 400 values"),
        ("--grid", "prompt=wolf,bear", "the prompt does not contain"),
        ("--grid", "steps=0,2", "must be between 1 and 1000"),
        ("--grid", "colour=red", "expected SETTING=VALUES"),
        (
            "--outpaint",
            "left=64",
            "give the image to extend with --image",
        ),
        ("--outpaint", "left", sides),
        ("--outpaint", "overlap=4", sides),
    ] {
        let output = run(home.generate().args([option, value]));
        assert_ne!(output.status.code(), Some(0), "{value}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{value}: {said}");
    }
    assert!(home.job_folders().is_empty());
    let kept = fs::read_dir(home.path().join("data/safelight/masks"));
    assert!(kept.is_err(), "an image was written for a refused job");
}
