//! Which way is taken of what was measured, what a user's own choice does to that, and what is remembered.

use std::fs;

use super::*;
use crate::settings::{Paths, RuntimeSettings};

fn key(choice: Choice) -> ChoiceKey {
    ChoiceKey {
        choice,
        device: "Radeon 8060S".to_owned(),
        driver: "6.18.4".to_owned(),
        libtorch: "2.11.0+rocm7.14.1".to_owned(),
        dtype: "bf16".to_owned(),
        shape: "4096 tokens".to_owned(),
    }
}

fn right(secs: f64) -> TierEnd {
    TierEnd::Right { secs, error: 1e-3 }
}

/// What came of the ways of a choice, in their order.
fn measured(choice: Choice, ends: Vec<TierEnd>) -> Measured {
    let ways = choice.alternatives().into_iter().zip(ends);
    Measured {
        key: key(choice),
        since_secs: 1_800_000_000,
        alternatives: ways
            .map(|(choices, end)| Alternative { choices, end })
            .collect(),
    }
}

fn by(attention: AttentionChoice) -> Choices {
    Choices {
        attention,
        ..Choices::default()
    }
}

const NONE: Choices = Choices {
    attention: AttentionChoice::Auto,
    matrices: MatrixLibrary::Auto,
    layout: MatrixLayout::Auto,
    chunk: Chunk::Auto,
    copies: CopyPath::Auto,
};

#[test]
fn a_way_is_taken_only_where_it_is_right_and_faster_by_a_twentieth() {
    let best = |own: TierEnd, other: TierEnd| {
        measured(Choice::Attention, vec![own, other])
            .best(NONE)
            .attention
    };
    let flash = AttentionChoice::Flash;
    assert_eq!(best(right(1.0), right(0.94)), flash);
    assert_eq!(best(right(1.0), right(0.96)), AttentionChoice::Auto);
    assert_eq!(best(right(1.0), right(f64::NAN)), AttentionChoice::Auto);
    let wrong = TierEnd::Wrong { error: 0.7 };
    assert_eq!(best(right(1.0), wrong.clone()), AttentionChoice::Auto);
    // What is done by itself does not work: anything right does better.
    assert_eq!(best(wrong.clone(), right(9.0)), flash);
    assert_eq!(best(wrong.clone(), wrong), AttentionChoice::Auto);
}

#[test]
fn what_a_user_chose_stays_and_only_the_rest_is_taken_from_what_was_measured() {
    let ends = [1.0, 0.5, 0.8, 0.9, 0.4, 0.3].map(right);
    let file = ChoiceFile {
        measured: vec![measured(Choice::Matrices, ends.to_vec())],
    };
    let key = key(Choice::Matrices);
    let taken = |hand: Choices| {
        let settled = file.settle(hand, [&key]);
        (settled.matrices, settled.layout)
    };
    let [columns, by_itself] = [MatrixLayout::Columns, MatrixLayout::Auto];
    assert_eq!(taken(NONE), (MatrixLibrary::Classic, columns));
    let hand = |matrices, layout| Choices {
        matrices,
        layout,
        ..NONE
    };
    let rows = hand(MatrixLibrary::Auto, MatrixLayout::Rows);
    assert_eq!(taken(rows), (MatrixLibrary::Lt, by_itself));
    let lt = hand(MatrixLibrary::Lt, MatrixLayout::Auto);
    assert_eq!(taken(lt), (MatrixLibrary::Lt, columns));
    let both = hand(MatrixLibrary::Lt, MatrixLayout::Rows);
    assert_eq!(taken(both), (MatrixLibrary::Lt, by_itself));
    // Of another device, nothing is known.
    let other = ChoiceKey {
        device: "another".to_owned(),
        ..key.clone()
    };
    assert_eq!(file.settle(NONE, [&other]), NONE);
    let flash = by(AttentionChoice::Flash);
    let settled = file.settle(flash, [&key]);
    assert_eq!(settled.attention, AttentionChoice::Flash);
    assert_eq!(settled.layout, columns);
}

#[test]
fn settings_are_choices_of_the_user_and_none_of_them_is_the_default() {
    let settings = RuntimeSettings::default();
    assert!(settings.measure);
    assert_eq!(settings.choices(), Choices::default());
    let settings = RuntimeSettings {
        chunk: Chunk::Four,
        copies: CopyPath::Driver,
        ..settings
    };
    assert_eq!(settings.choices().chunk.frames(), 4);
    // What is done by itself, said aloud.
    assert_eq!(settings.choices().plain().copies, CopyPath::Auto);
    assert_eq!(settings.choices().plain().chunk, Chunk::Four);
}

#[test]
fn only_what_is_no_default_is_written_and_every_way_comes_back() {
    assert_eq!(serde_json::to_string(&NONE).unwrap(), "{}");
    for choice in Choice::ALL {
        let ways = choice.alternatives();
        assert_eq!(ways[0], NONE);
        for way in ways {
            let text = serde_json::to_string(&way).unwrap();
            assert_eq!(serde_json::from_str::<Choices>(&text).unwrap(), way);
            assert_eq!(way, way.plain());
        }
    }
    let line = ChoiceLine {
        alternative: by(AttentionChoice::Flash),
        state: ChoiceState::Done { end: right(0.5) },
    };
    let text = serde_json::to_string(&line).unwrap();
    let expected = r#"{"alternative":{"attention":"flash"},"state":"done","end":"right","secs":0.5,"error":0.001}"#;
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<ChoiceLine>(&text).unwrap(), line);
}

#[test]
fn what_failed_is_due_after_a_week_and_a_broken_file_counts_as_none() {
    let failed = TierEnd::Failed {
        reason: "no kernel".to_owned(),
    };
    let of = |end: TierEnd| measured(Choice::Attention, vec![right(1.0), end]);
    let later = 1_800_000_000 + PATIENCE_SECS;
    assert!(of(failed.clone()).is_due(later) && !of(failed).is_due(later - 1));
    assert!(!of(right(2.0)).is_due(later));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache/choices.json");
    let mut file = ChoiceFile::load(&path);
    assert_eq!(file, ChoiceFile::default());
    file.put(of(right(2.0)));
    file.put(of(right(3.0)));
    file.save(&path).unwrap();
    let again = ChoiceFile::load(&path);
    assert_eq!(again.measured, [of(right(3.0))]);
    for text in ["", "{", "[]", r#"{"measured": [{"choice": "luck"}]}"#] {
        fs::write(&path, text).unwrap();
        assert_eq!(ChoiceFile::load(&path), ChoiceFile::default(), "{text}");
    }
}

#[test]
fn what_is_remembered_is_told_with_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::under(folder.path());
    assert_eq!(stored(&paths), []);
    let hung = TierEnd::TimedOut { secs: 30.0 };
    let ends = vec![right(0.0019), right(0.00105), hung, right(0.007)];
    let mut file = ChoiceFile::default();
    file.put(measured(Choice::Attention, ends));
    let mut f16 = measured(Choice::Matrices, vec![right(0.001)]);
    f16.key.dtype = "f16".to_owned();
    file.put(measured(Choice::Matrices, vec![right(0.002)]));
    file.put(f16);
    file.save(&paths.choices_file()).unwrap();
    let told = stored(&paths);
    assert_eq!(
        told[0].line(),
        "Attention (bf16, 4096 tokens): libtorch's choice 1.90 ms, flash 1.05 ms, memory-efficient not (hung for 30 s), in slices 7.00 ms -> flash"
    );
    assert!(!told[0].is_default && told[1].is_default);
    assert_eq!(told[1].chosen, "libtorch's choice by rows");
    let halves = halves(&told);
    assert_eq!(halves.len(), 1);
    assert!(
        halves[0].contains("f16 is 2.00 times as fast"),
        "{halves:?}"
    );
}
