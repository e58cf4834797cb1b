//! Changing values in the text of a settings file and nothing around them.
//!
//! Comments, order, spaces and unknown keys stay as their user wrote them; nothing is read or written here.

use toml_edit::{Array, DocumentMut, Item, Table, Value};

use super::Settings;
use super::keys::{KeyPath, differing};

/// The text with the values of `wanted` wherever those of `theirs`, which it says now, differ.
pub(super) fn with_changes(
    text: &str,
    theirs: &Settings,
    wanted: &Settings,
) -> Result<String, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|err: toml_edit::TomlError| err.to_string())?;
    let values = wanted.to_document()?;
    let no_text = || "a folder's name is no text".to_owned();
    let leaves = theirs.leaves().ok_or_else(no_text)?;
    for key in differing(&leaves, &wanted.leaves().ok_or_else(no_text)?) {
        let value = key
            .iter()
            .try_fold(values.as_item(), |item, name| item.get(name))
            .and_then(Item::as_value);
        match value {
            Some(value) => set(document.as_item_mut(), &key, value, leaves.get(&key)),
            None => unset(document.as_item_mut(), &key),
        }
    }
    Ok(document.to_string())
}

/// Makes the tables around the key where they are not there yet.
fn set(item: &mut Item, key: &[String], value: &Value, theirs: Option<&toml::Value>) {
    let Some((name, rest)) = key.split_first() else {
        return;
    };
    let Some(table) = item.as_table_like_mut() else {
        return;
    };
    if rest.is_empty() {
        match table.get_mut(name) {
            Some(old) => set_value(old, value.clone(), theirs),
            None => {
                table.insert(name, Item::Value(value.clone()));
            }
        }
        return;
    }
    if table.get(name).and_then(Item::as_table_like).is_none() {
        let mut inner = Table::new();
        // A table of tables needs no separate header.
        inner.set_implicit(rest.len() > 1);
        table.insert(name, Item::Table(inner));
    }
    if let Some(inner) = table.get_mut(name) {
        set(inner, rest, value, theirs);
    }
}

/// TOML has no null: what is not set is an empty text, and a variable of the engine is not there.
fn unset(item: &mut Item, key: &KeyPath) {
    let Some((name, tables)) = key.split_last() else {
        return;
    };
    let table = tables
        .iter()
        .try_fold(item, |item, table| item.get_mut(table))
        .and_then(Item::as_table_like_mut);
    let Some(table) = table else {
        return;
    };
    if tables.len() > 1 {
        table.remove(name);
    } else if let Some(old) = table.get_mut(name) {
        set_value(old, Value::from(""), None);
    }
}

/// Replaces a value, keeping the comment and the spaces around it.
fn set_value(item: &mut Item, mut value: Value, theirs: Option<&toml::Value>) {
    let Some(old) = item.as_value_mut() else {
        *item = Item::Value(value);
        return;
    };
    if let (Some(list), Some(wanted), Some(theirs)) = (
        old.as_array_mut(),
        value.as_array(),
        theirs.and_then(toml::Value::as_array),
    ) && set_list(list, wanted, theirs)
    {
        return;
    }
    *value.decor_mut() = old.decor().clone();
    *item = Item::Value(value);
}

/// Takes out and adds single entries, so that the comments between the others stay. Not where they change places.
fn set_list(list: &mut Array, wanted: &Array, theirs: &[toml::Value]) -> bool {
    let wanted: Vec<&str> = wanted.iter().filter_map(Value::as_str).collect();
    let theirs: Vec<&str> = theirs.iter().filter_map(toml::Value::as_str).collect();
    let kept: Vec<&str> = theirs
        .iter()
        .copied()
        .filter(|path| wanted.contains(path))
        .collect();
    if theirs.len() != list.len() || !wanted.starts_with(&kept) {
        return false;
    }
    for (index, path) in theirs.iter().enumerate().rev() {
        if !wanted.contains(path) {
            take_out(list, index);
        }
    }
    for path in &wanted[kept.len()..] {
        add(list, path);
    }
    true
}

/// Removes an entry with the comment after it, but not the comment of the entry before, which is on that entry's line.
fn take_out(list: &mut Array, index: usize) {
    let removed = list.remove(index);
    let before = text_of(removed.decor().prefix());
    let comment = before.split_once('\n').map_or("", |(first, _)| first);
    match list.get_mut(index) {
        Some(next) => {
            let prefix = after_comment(comment, &text_of(next.decor().prefix()));
            next.decor_mut().set_prefix(prefix);
        }
        None => list.set_trailing(after_comment(comment, &text_of(Some(list.trailing())))),
    }
}

/// Adds an entry on a separate line if the others are.
fn add(list: &mut Array, path: &str) {
    let last = list
        .iter()
        .last()
        .map(|last| text_of(last.decor().prefix()));
    let indent = last.map(|before| match before.rfind('\n') {
        Some(line) => before[line..].to_owned(),
        None => " ".to_owned(),
    });
    // The last entry may be followed by a comment.
    let trailing = text_of(Some(list.trailing()));
    let (comment, rest) = match trailing.find('\n') {
        Some(line) => trailing.split_at(line),
        None => ("", trailing.as_str()),
    };
    list.set_trailing(rest);
    list.push(path);
    if let (Some(indent), Some(added)) = (indent, list.iter_mut().last()) {
        added.decor_mut().set_prefix(format!("{comment}{indent}"));
    }
}

/// Text after a line's entry, with another comment on that line.
fn after_comment(comment: &str, text: &str) -> String {
    let rest = text.find('\n').map_or(text, |line| &text[line..]);
    format!("{comment}{rest}")
}

fn text_of(text: Option<&toml_edit::RawString>) -> String {
    text.and_then(|text| text.as_str())
        .unwrap_or_default()
        .to_owned()
}
