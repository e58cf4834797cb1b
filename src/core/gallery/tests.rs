//! What the gallery promises, as sentences.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::*;
use crate::media::{RgbPixels, VideoOptions, write_video};

fn image(side: u32, red: u8) -> RgbPixels {
    RgbPixels::from_fn(side, side, |_, _| [red, 90, 40]).unwrap()
}

/// A result with its settings, made so many seconds after the first one.
fn result(folder: &Path, name: &str, prompt: &str, seed: u64, at_secs: u64) -> PathBuf {
    let path = folder.join(name);
    let num_frames = if name.ends_with("mp4") { 5 } else { 1 };
    let settings = serde_json::json!({
        "app": "Safelight",
        "request": {
            "model": "wan-2.2", "prompt": prompt, "negative_prompt": "blur", "seed": seed,
            "num_frames": num_frames, "num_steps": 12, "sampler": "unipc", "guidance_scale": 4.0,
        },
    });
    let frames: Vec<_> = (0..num_frames).map(|i| image(64, i * 30)).collect();
    let options = VideoOptions {
        fps: 10.0,
        settings: Some(settings.to_string()),
        ..VideoOptions::default()
    };
    write_video(&path, &frames, options).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000 + at_secs);
    let file = fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(time).unwrap();
    path
}

fn look(folder: &Path) -> GalleryScan {
    let mut scanner = GalleryScanner::new(vec![folder.to_path_buf()]);
    scanner.scan(&mut |_| true).unwrap()
}

fn shelf(home: &Path) -> GalleryIndex {
    let (shelf, problem) =
        GalleryIndex::open(home.join("index.json"), home.join("favourites.json"));
    assert!(problem.is_none(), "{problem:?}");
    shelf
}

fn read_all(shelf: &mut GalleryIndex, scan: GalleryScan) -> usize {
    let unread = shelf.put(scan);
    for found in &unread {
        let read = read_facts(&found.path).map_err(|err| err.to_string());
        assert!(shelf.take(found, read));
    }
    unread.len()
}

fn names(shelf: &GalleryIndex, query: &GalleryQuery) -> Vec<String> {
    shelf
        .list(query)
        .iter()
        .map(|entry| entry.file_name())
        .collect()
}

fn by_name() -> GalleryQuery {
    GalleryQuery {
        sort: SortOrder::Name,
        ..GalleryQuery::default()
    }
}

fn words(words: &str) -> GalleryQuery {
    GalleryQuery {
        words: words.to_owned(),
        ..GalleryQuery::default()
    }
}

#[test]
fn every_word_must_be_found_in_prompt_model_name_or_seed_in_any_language() {
    let home = tempfile::tempdir().unwrap();
    result(home.path(), "one.png", "A RED boat at sunset", 11, 0);
    result(home.path(), "two.mp4", "Ein GRÜNES Boot, 赤い船", 22, 60);
    result(home.path(), "drei.png", "ΚΌΚΚΙΝΟ πλοίο", 3311, 120);
    let mut shelf = shelf(home.path());
    assert_eq!(read_all(&mut shelf, look(home.path())), 3);
    for (search, found) in [
        ("", vec!["drei.png", "two.mp4", "one.png"]),
        ("bo", vec!["two.mp4", "one.png"]),
        ("boat  red", vec!["one.png"]),
        ("boat grünes", vec![]),
        ("grünes boot", vec!["two.mp4"]),
        ("赤い", vec!["two.mp4"]),
        ("κόκκινο", vec!["drei.png"]),
        ("DREI 3311", vec!["drei.png"]),
        ("WAN-2.2 22", vec!["two.mp4"]),
        ("blur", vec![]),
    ] {
        assert_eq!(names(&shelf, &words(search)), found, "{search:?}");
    }
}

#[test]
fn gallery_results_are_sorted_and_filtered_by_the_query() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a/b");
    fs::create_dir_all(&folder).unwrap();
    result(home.path(), "c.png", "x", 1, 60);
    result(&folder, "a.mp4", "x", 2, 0);
    let liked = result(&folder, "B.png", "x", 3, 120);
    let mut shelf = shelf(home.path());
    read_all(&mut shelf, look(home.path()));
    let mut query = GalleryQuery::default();
    assert_eq!(names(&shelf, &query), ["B.png", "c.png", "a.mp4"]);
    query.sort = SortOrder::Oldest;
    assert_eq!(names(&shelf, &query), ["a.mp4", "c.png", "B.png"]);
    query.sort = SortOrder::Name;
    assert_eq!(names(&shelf, &query), ["a.mp4", "B.png", "c.png"]);
    query.show = ShownKind::Videos;
    assert_eq!(names(&shelf, &query), ["a.mp4"]);
    query.show = ShownKind::Images;
    assert_eq!(names(&shelf, &query), ["B.png", "c.png"]);
    shelf.mark(&[liked], &ResultMark::Favourite, true).unwrap();
    query.only_favourites = true;
    assert_eq!(names(&shelf, &query), ["B.png"]);
}

/// A result with this model and LoRA.
fn made_with(folder: &Path, name: &str, model: &str, lora: &str) -> PathBuf {
    let path = result(folder, name, "x", 1, 0);
    let loras = serde_json::json!([{"path": format!("/l/{lora}.safetensors"), "strength": 0.8}]);
    let settings =
        serde_json::json!({"app": "Safelight", "request": {"model": model, "loras": loras}});
    let options = VideoOptions {
        settings: Some(settings.to_string()),
        ..VideoOptions::default()
    };
    write_video(&path, &[image(64, 0)], options).unwrap();
    path
}

#[test]
fn results_are_found_by_model_lora_date_and_tag_and_only_filters_that_find_something_exist() {
    let home = tempfile::tempdir().unwrap();
    let old = result(home.path(), "old.png", "x", 1, 0);
    let ink = made_with(home.path(), "ink.png", "flux", "ink (v2)");
    made_with(home.path(), "oil.png", "flux", "oil");
    let mut shelf = shelf(home.path());
    read_all(&mut shelf, look(home.path()));
    let [sea, red] = ["Sea", "red boat"].map(|tag| ResultMark::Tag(tag.to_owned()));
    shelf.mark(&[old.clone(), ink], &sea, true).unwrap();
    shelf.mark(&[old], &red, true).unwrap();
    let labels: Vec<String> = shelf
        .filters()
        .iter()
        .map(|(filter, count)| format!("{} ({count})", filter.label()))
        .collect();
    let month = crate::naming::month_name(&crate::naming::local_time("%Y-%m"));
    let expected = format!(
        "Today (2)|Last 7 days (2)|Last 30 days (2)|{month} (2)|September 2020 (1)|Tag: Sea (2)|Tag: red boat (1)|\
         Model: flux (2)|Model: wan-2.2 (1)|LoRA: ink (v2) (1)|LoRA: oil (1)"
    );
    assert_eq!(labels.join("|"), expected);
    for (chosen, found) in [
        ("Today", "ink.png oil.png"),
        ("September 2020|Today", "ink.png oil.png old.png"),
        ("Tag: Sea", "ink.png old.png"),
        ("Tag: Sea|Tag: red boat", "old.png"),
        ("Model: flux|Model: wan-2.2|Tag: Sea", "ink.png old.png"),
        ("LoRA: oil|LoRA: ink (v2)", ""),
        ("LoRA: ink (v2)|Model: flux|Last 7 days", "ink.png"),
    ] {
        let all = shelf.filters().into_iter().map(|(filter, _)| filter);
        let filters = all.filter(|it| chosen.split('|').any(|label| label == it.label()));
        let query = GalleryQuery {
            filters: filters.collect(),
            ..by_name()
        };
        assert!(query.leaves_out());
        assert_eq!(names(&shelf, &query).join(" "), found, "{chosen}");
    }
}

#[test]
fn tags_are_searched_survive_a_lost_index_and_are_removed_again() {
    let home = tempfile::tempdir().unwrap();
    let path = result(home.path(), "one.png", "a boat", 1, 0);
    let mut before = shelf(home.path());
    read_all(&mut before, look(home.path()));
    let tags: Vec<ResultMark> = ResultMark::tags_in(" Red  boat, sea,, ")
        .map(ResultMark::Tag)
        .collect();
    for tag in &tags {
        before.mark(std::slice::from_ref(&path), tag, true).unwrap();
    }
    before.save_index().unwrap();
    fs::remove_file(home.path().join("index.json")).unwrap();
    let mut after = shelf(home.path());
    read_all(&mut after, look(home.path()));
    let item = Arc::clone(&after.list(&words("tag:sea tag:red"))[0]);
    let kept: Vec<&String> = item.tags.iter().collect();
    assert_eq!(kept, ["Red boat", "sea"]);
    after.mark(&[path], &tags[1], false).unwrap();
    assert!(after.list(&words("sea")).is_empty());
    let text = fs::read_to_string(home.path().join("favourites.json")).unwrap();
    assert!(text.contains("Red boat") && !text.contains("sea"), "{text}");
}

#[test]
fn gallery_reads_settings_of_own_and_foreign_files() {
    let home = tempfile::tempdir().unwrap();
    let path = result(home.path(), "two.mp4", "a boat", u64::MAX, 60);
    let facts = read_facts(&path).unwrap();
    assert_eq!((facts.width, facts.height, facts.num_frames), (64, 64, 5));
    assert_eq!(
        (facts.kind, facts.video_secs()),
        (MediaKind::Video, Some(0.5))
    );
    assert_eq!((&*facts.prompt, &*facts.sampler), ("a boat", "unipc"));
    assert_eq!((facts.seed, facts.num_steps), (Some(u64::MAX), Some(12)));
    assert!(facts.has_settings && !facts.is_frame);

    let file = fs::File::create(home.path().join("other.png")).unwrap();
    let mut encoder = png::Encoder::new(file, 1, 1);
    let text = "a lighthouse\nNegative prompt: blur\nSteps: 20, Sampler: Euler, CFG scale: 7, Seed: 42, Size: 8x8, Model: dream";
    let text = text.to_owned();
    encoder
        .add_text_chunk("parameters".to_owned(), text)
        .unwrap();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[7]).unwrap();
    writer.finish().unwrap();
    let mut shelf = shelf(home.path());
    read_all(&mut shelf, look(home.path()));
    let found = shelf.list(&words("LIGHTHOUSE dream 42"));
    let facts = found[0].facts().unwrap();
    assert_eq!(
        (facts.num_steps, facts.guidance_scale),
        (Some(20), Some(7.0))
    );
    assert!(facts.has_settings);
}

#[test]
fn saved_gallery_index_rereads_only_changed_files() {
    let home = tempfile::tempdir().unwrap();
    let first = result(home.path(), "one.png", "a boat", 1, 0);
    result(home.path(), "two.png", "a hill", 2, 0);
    let odd = OsString::from_vec(b"odd\xff.png".to_vec());
    let odd = home.path().join(odd);
    fs::copy(&first, &odd).unwrap();
    let mut before = shelf(home.path());
    assert_eq!(read_all(&mut before, look(home.path())), 3);
    before
        .mark(std::slice::from_ref(&odd), &ResultMark::Favourite, true)
        .unwrap();
    assert!(before.is_index_old());
    before.save_index().unwrap();
    assert!(!before.is_index_old());
    let mut after = shelf(home.path());
    assert!(after.put(look(home.path())).is_empty());
    assert_eq!(names(&after, &words("boat")).len(), 2);
    let query = GalleryQuery {
        only_favourites: true,
        ..GalleryQuery::default()
    };
    assert_eq!(after.list(&query)[0].path, odd);
    result(home.path(), "two.png", "a mountain", 2, 99);
    assert_eq!(read_all(&mut after, look(home.path())), 1);
    assert_eq!(names(&after, &words("mountain")), ["two.png"]);
    assert_eq!(names(&after, &words("hill")), Vec::<String>::new());
}

#[test]
fn broken_gallery_index_is_rebuilt_and_broken_favourites_are_moved_aside() {
    let home = tempfile::tempdir().unwrap();
    result(home.path(), "one.png", "a boat", 1, 0);
    fs::write(home.path().join("index.json"), "{\"version\": 1, \"reco").unwrap();
    let mut shelf = shelf(home.path());
    assert_eq!(read_all(&mut shelf, look(home.path())), 1);
    shelf.save_index().unwrap();
    let favourites = home.path().join("favourites.json");
    fs::write(&favourites, "no list").unwrap();
    let (mut shelf, problem) = GalleryIndex::open(home.path().join("index.json"), favourites);
    assert!(problem.is_some_and(|problem| problem.to_string().contains("moved aside")));
    shelf
        .mark(&[PathBuf::from("/a.png")], &ResultMark::Favourite, true)
        .unwrap();
    fs::write(home.path().join("favourites.json"), "no list either").unwrap();
    let (_, problem) = GalleryIndex::open(PathBuf::new(), home.path().join("favourites.json"));
    assert!(problem.is_some());
    let aside = |name: &str| fs::read(home.path().join(name)).unwrap();
    assert_eq!(aside("favourites.broken-1.json"), b"no list");
    assert_eq!(aside("favourites.broken-2.json"), b"no list either");
}

#[test]
fn favourites_that_could_not_be_read_are_never_written_over() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("favourites.json");
    let index = home.path().join("index.json");
    fs::create_dir(&path).unwrap();
    let (mut shelf, problem) = GalleryIndex::open(index.clone(), path.clone());
    assert!(matches!(problem, Some(IndexError::Unreadable(_))));
    assert!(
        shelf
            .mark(&[PathBuf::from("/new.png")], &ResultMark::Favourite, true)
            .is_err()
    );
    fs::remove_dir(&path).unwrap();
    fs::write(&path, r#"{"favourites": ["/old.png"]}"#).unwrap();
    shelf
        .mark(&[PathBuf::from("/newer.png")], &ResultMark::Favourite, true)
        .unwrap();
    let text = fs::read_to_string(&path).unwrap();
    for name in ["old", "new", "newer"] {
        assert!(text.contains(&format!("/{name}.png")), "{text}");
    }
}

#[test]
fn a_file_that_could_not_be_read_is_tried_again_at_the_next_start() {
    let home = tempfile::tempdir().unwrap();
    result(home.path(), "one.png", "a boat", 1, 0);
    let mut before = shelf(home.path());
    let unread = before.put(look(home.path()));
    assert!(before.take(&unread[0], Err("the disk was away".to_owned())));
    before.save_index().unwrap();
    let mut after = shelf(home.path());
    assert_eq!(read_all(&mut after, look(home.path())), 1);
    assert_eq!(names(&after, &words("boat")), ["one.png"]);
}

#[test]
fn broken_half_written_and_foreign_files_are_shown_with_a_reason_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let sound = result(home.path(), "sound.png", "a boat", 1, 0);
    let bytes = fs::read(&sound).unwrap();
    fs::write(home.path().join("half.png"), &bytes[..20]).unwrap();
    fs::write(home.path().join("empty.mp4"), b"").unwrap();
    for name in ["text.webp", "notes.txt", ".video.mp4.12.partial"] {
        fs::write(home.path().join(name), b"hello").unwrap();
    }
    fs::create_dir(home.path().join("folder.png")).unwrap();
    std::os::unix::fs::symlink(home.path(), home.path().join("circle")).unwrap();
    let mut shelf = shelf(home.path());
    assert_eq!(read_all(&mut shelf, look(home.path())), 4);
    let query = by_name();
    let list = shelf.list(&query);
    let is_broken = |index: usize| matches!(list[index].reading, ItemReading::Broken(_));
    assert_eq!([0, 1, 2, 3].map(is_broken), [true, true, false, true]);
    let expected = ["empty.mp4", "half.png", "sound.png", "text.webp"];
    assert_eq!(names(&shelf, &query), expected);
}

#[test]
fn gallery_scan_reports_only_added_changed_and_removed_files() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("later");
    let mut scanner = GalleryScanner::new(vec![folder.clone()]);
    let mut look = || scanner.scan(&mut |_| true).map(|scan| scan.files.len());
    assert_eq!(look(), Some(0));
    assert_eq!(look(), None);
    fs::create_dir(&folder).unwrap();
    fs::create_dir(folder.join("inner")).unwrap();
    let path = folder.join("inner/a.png");
    fs::write(&path, "a").unwrap();
    assert_eq!(look(), Some(1));
    assert_eq!(look(), None);
    fs::write(&path, "it grows in place").unwrap();
    assert_eq!(look(), Some(1));
    fs::write(folder.join("notes.txt"), "a").unwrap();
    assert_eq!(look(), None);
    fs::remove_file(&path).unwrap();
    assert_eq!(look(), Some(0));
}

#[test]
fn large_folder_scan_reports_partial_results_and_can_be_stopped() {
    let home = tempfile::tempdir().unwrap();
    for number in 0..2500 {
        fs::write(home.path().join(format!("{number}.png")), "").unwrap();
    }
    let mut message = 0;
    let mut scanner = GalleryScanner::new(vec![home.path().to_path_buf()]);
    let whole = scanner.scan(&mut |part| {
        assert!(!part.is_whole);
        message += part.files.len();
        true
    });
    assert_eq!((message, whole.unwrap().files.len()), (2000, 2500));
    let mut scanner = GalleryScanner::new(vec![home.path().to_path_buf()]);
    assert_eq!(scanner.scan(&mut |_| false), None);
}

#[test]
fn numbered_images_of_a_video_are_one_result_and_those_of_a_batch_are_several() {
    let home = tempfile::tempdir().unwrap();
    let frames: Vec<_> = (0..3).map(|i| image(16, i)).collect();
    let write = |name: &str, num_frames: u32, frames: &[RgbPixels]| {
        let settings = serde_json::json!({"app": "Safelight", "request": {"prompt": name, "num_frames": num_frames, "fps": 8.0}});
        let options = VideoOptions {
            settings: Some(settings.to_string()),
            ..VideoOptions::default()
        };
        write_video(&home.path().join(name), frames, options).unwrap();
    };
    write("video.png", 3, &frames);
    write("batch_0001.png", 1, &frames[..1]);
    write("batch_0002.png", 1, &frames[..1]);
    let ours = r#"{"app": "Safelight", "request": {}}"#;
    fs::write(home.path().join("video.json"), ours).unwrap();
    fs::write(home.path().join("batch_0001.json"), r#"{"app": "another"}"#).unwrap();
    // A frame that was saved alone, as the player does.
    let settings = r#"{"request": {"prompt": "alone", "num_frames": 3}, "frame": 2}"#;
    let alone = VideoOptions {
        settings: Some(settings.to_owned()),
        ..VideoOptions::default()
    };
    for name in ["alone_frame_0002.png", "alone_frame_0003.png"] {
        write_video(&home.path().join(name), &frames[..1], alone.clone()).unwrap();
    }
    let mut shelf = shelf(home.path());
    assert_eq!(read_all(&mut shelf, look(home.path())), 7);
    let query = by_name();
    let expected =
        "alone_frame_0002.png alone_frame_0003.png batch_0001.png batch_0002.png video_0001.png";
    assert_eq!(names(&shelf, &query).join(" "), expected);
    let list = shelf.list(&query);
    let frame = list[4].facts().unwrap();
    assert!(frame.is_frame && list[4].is_video() && !list[0].is_video());
    let found = files_of(&list[4].path, true).len();
    assert_eq!(found, 4, "three images and their settings");
    assert_eq!(files_of(&list[2].path, false), [list[2].path.clone()]);
}

#[test]
fn thumbnails_are_cached_rebuilt_when_broken_and_pruned_to_the_size_limit() {
    let home = tempfile::tempdir().unwrap();
    let path = result(home.path(), "video.mp4", "a boat", 1, 0);
    let cache = home.path().join("cache");
    let thumbs = ThumbFolder::new(cache.clone());
    let stamp = look(home.path()).files[0].stamp;
    let key = ThumbKey::new(&path, stamp);
    let made = thumbs.get(&path, key).unwrap();
    assert_eq!((made.width, made.height), (64, 64));
    fs::remove_file(&path).unwrap();
    assert_eq!(thumbs.get(&path, key).unwrap().width, 64, "it is kept");
    let other = FileStamp {
        bytes: stamp.bytes + 1,
        ..stamp
    };
    assert!(thumbs.get(&path, ThumbKey::new(&path, other)).is_err());
    let path = result(home.path(), "video.mp4", "a boat", 1, 0);
    fs::write(cache.join(format!("{key}.webp")), "broken").unwrap();
    assert_eq!(thumbs.get(&path, key).unwrap().width, 64);
    for number in 0..20 {
        fs::write(cache.join(format!("{number}.webp")), [0; 1000]).unwrap();
    }
    thumbs.clone().prune();
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 21);
    let mut small = thumbs;
    small.max_bytes = 10_000;
    small.prune();
    assert!(fs::read_dir(&cache).unwrap().count() <= 9);
}

#[test]
fn a_file_that_another_one_has_replaced_keeps_its_own_facts() {
    let home = tempfile::tempdir().unwrap();
    result(home.path(), "one.png", "a boat", 1, 0);
    let mut shelf = shelf(home.path());
    let unread = shelf.put(look(home.path()));
    result(home.path(), "one.png", "a hill of another size", 1, 5);
    let newer = shelf.put(look(home.path()));
    assert!(!shelf.take(&unread[0], Ok(ResultMetadata::default())));
    assert!(shelf.take(&newer[0], Err("it is broken".to_owned())));
    assert_eq!(shelf.num_unread(), 0);
}
