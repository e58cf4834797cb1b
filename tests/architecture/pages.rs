//! Holds that links between the pages of this repository lead somewhere: files exist, and anchors are headings.
//!
//! It reads Markdown as GitHub shows it, as far as links go. Addresses on the web are not asked for.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// Where pages are, beside those in the root.
const FOLDERS: [&str; 6] = ["docs", "assets", "packaging", "src", "tests", "benches"];

const MAX_LINES_README: usize = 120;

#[test]
fn links_between_pages_lead_to_files_and_headings() {
    let mut num_links = 0;
    let mut broken = Vec::new();
    for page in pages() {
        for link in links(&read(&page)) {
            num_links += 1;
            if let Some(problem) = problem(&page, &link) {
                let page = page.display();
                broken.push(format!("{page} links to {link}, but {problem}"));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    assert!(num_links > 20, "only {num_links} links were found");
}

#[test]
fn the_readme_is_read_in_a_few_minutes() {
    let num_lines = read(Path::new("README.md")).lines().count();
    assert!(num_lines <= MAX_LINES_README, "{num_lines} lines");
}

/// What is wrong with a link of a page, which is named from the root; `None` where it leads to a file or a heading.
fn problem(page: &Path, link: &str) -> Option<&'static str> {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    let target = if path.is_empty() {
        Some(page.to_owned())
    } else {
        from_root(page, path)
    };
    let Some(target) = target else {
        return Some("that lies outside of this repository");
    };
    if !root().join(&target).exists() {
        return Some("there is no such file");
    }
    let anchor = anchor?;
    let has_heading = anchors(&read(&target)).iter().any(|own| own == anchor);
    (!has_heading).then_some("there is no such heading")
}

/// The path from the root of what a page names from its own folder; `None` for what lies outside.
fn from_root(page: &Path, path: &str) -> Option<PathBuf> {
    let mut whole = page.parent()?.to_owned();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                if !whole.pop() {
                    return None;
                }
            }
            part => whole.push(part),
        }
    }
    Some(whole)
}

fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(text) {
        // What stands between backticks is code.
        let words: String = line.split('`').step_by(2).collect();
        for rest in words.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                links.push(target.to_owned());
            }
        }
    }
    links
}

/// The anchors of a page's headings: letters and digits, dashes for spaces, and a number where one stands again.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = prose(text).filter_map(|line| {
        let words = line.trim_start_matches('#');
        (words.len() < line.len()).then(|| words.strip_prefix(' '))?
    });
    let anchors = headings.map(|words| {
        let kept = words.trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ => letter.is_alphanumeric().then_some(letter),
        });
        let anchor: String = kept.flat_map(char::to_lowercase).collect();
        let times = seen.entry(anchor.clone()).or_default();
        *times += 1;
        match *times {
            1 => anchor,
            times => format!("{anchor}-{}", times - 1),
        }
    });
    anchors.collect()
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = entries(Path::new(""));
    let mut waiting: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    while let Some(folder) = waiting.pop() {
        for path in entries(&folder) {
            if root().join(&path).is_dir() {
                waiting.push(path);
            } else {
                pages.push(path);
            }
        }
    }
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

/// What is in a folder, but for what a build wrote there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    let names = names.filter(|name| name != "target");
    names.map(|name| folder.join(name)).collect()
}

fn read(path: &Path) -> String {
    super::read(&path.to_string_lossy())
}
