//! Grids on the command line: a job for each cell, the contact sheet, and what is refused.

use crate::generate::prelude::*;

#[test]
fn a_grid_makes_every_cell_and_a_sheet_that_makes_it_again() {
    let home = Home::new();
    let sides = ["--grid", "steps=1,2", "--grid", "seed=3..4"];
    let wish = ["--frames", "1", "--out", "fox.png"];
    let output = run(home.generate().args(sides).args(wish));
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
    let alone = "--steps 1 --seed 4 --frames 1 --out alone.png".split(' ');
    assert_finished(&run(home.generate().args(alone)));
    let read = |name: &str| media::open_picture(&home.path().join(name)).unwrap();
    assert_eq!(read("alone.png"), read("fox_0003.png"));
    // The sheet makes its grid again.
    let again = run(&mut home.repeat("fox_grid.png", "again.png"));
    assert_eq!(end(&again).1, 0, "{}", end(&again).0);
    assert_eq!(read("again_0003.png"), read("fox_0003.png"));
    assert_eq!(read("again_grid.png"), read("fox_grid.png"));
}

#[test]
fn a_wrong_grid_is_refused_before_anything_is_made() {
    let home = Home::new();
    for (grid, expected) in [
        ("steps=1..1000", "more than 400 values"),
        ("prompt=wolf,bear", "the prompt does not contain"),
        ("steps=0,2", "must be between 1 and 1000"),
        ("colour=red", "expected SETTING=VALUES"),
    ] {
        let output = run(home.generate().args(["--grid", grid]));
        assert_ne!(output.status.code(), Some(0), "{grid}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{grid}: {said}");
    }
    assert!(home.job_folders().is_empty());
}
