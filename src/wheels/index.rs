//! Wheels listed by an index or a folder, and the choice of the matching file.
//!
//! An index has a page for each package (PEP 503). Pages are untrusted: only files on the index's hosts count.

use std::fs;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

/// The Python registry.
pub const PYPI: &str = "https://pypi.org/simple/";

/// A wheel that could be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedWheel {
    /// Its file name.
    pub name: String,
    pub at: WheelLocation,
    /// Lower-case hexadecimal, where the page states it.
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WheelLocation {
    Url(String),
    File(PathBuf),
}

/// `torch==2.11.0+rocm7.2`, or a name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelRequirement<'a> {
    name: String,
    version: Option<&'a str>,
}

impl<'a> WheelRequirement<'a> {
    pub fn parse(text: &'a str) -> Self {
        let (name, version) = match text.split_once("==") {
            Some((name, version)) => (name, Some(version.trim_start_matches('=').trim())),
            None => (text, None),
        };
        Self {
            name: normal(name.trim()),
            version,
        }
    }

    /// The page of an index that lists it.
    pub fn page(&self, index: &str) -> String {
        format!("{}/{}/", index.trim_end_matches('/'), self.name)
    }

    /// The best of the wheels: for this machine, of the version, for the Python that comes first. Without a version of
    /// its own the one that was made with `build`, such as `2.11.0+rocm7.2`, and else the newest. Of equals the one whose
    /// content is known.
    pub fn choose(
        &self,
        listed: Vec<ListedWheel>,
        build: &str,
        is_known: impl Fn(&str) -> bool,
    ) -> Option<ListedWheel> {
        let local = build.split_once('+').map(|(_, local)| local);
        let rank = |listed: &ListedWheel| {
            let wheel = WheelName::parse(&listed.name)?;
            let fits = normal(wheel.package) == self.name
                && self.version.is_none_or(|version| version == wheel.version)
                && wheel.is_for_this_machine();
            let is_of_build = wheel.version == build
                || local.is_some_and(|local| wheel.version.ends_with(&format!("+{local}")));
            let known = is_known(&listed.name);
            fits.then(|| {
                (
                    is_of_build,
                    numbers(wheel.version),
                    known,
                    wheel.python_rank(),
                )
            })
        };
        let ranked = listed.into_iter().filter_map(|it| Some((rank(&it)?, it)));
        ranked.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, it)| it)
    }

    /// A sentence that there is none.
    pub fn missing(&self, place: &str) -> String {
        let version = self.version.map_or_else(String::new, |it| format!(" {it}"));
        let name = &self.name;
        format!("there is no wheel of {name}{version} for this machine: {place}")
    }
}

/// As indexes write names of packages.
fn normal(name: &str) -> String {
    let mut text = String::new();
    for part in name.split(['-', '_', '.']).filter(|part| !part.is_empty()) {
        if !text.is_empty() {
            text.push('-');
        }
        text.push_str(&part.to_lowercase());
    }
    text
}

/// For comparing versions: `2.11.0+rocm7.14.1` → 2, 11, 0, 7, 14, 1.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// The parts of a wheel's file name.
struct WheelName<'a> {
    package: &'a str,
    version: &'a str,
    python: &'a str,
    platform: &'a str,
}

impl<'a> WheelName<'a> {
    fn parse(file: &'a str) -> Option<Self> {
        let parts: Vec<&str> = file.strip_suffix(".whl")?.split('-').collect();
        // Between version and Python there may be the number of a build.
        let (&[package, version], &[python, _, platform]) =
            (parts.get(..2)?, parts.get(parts.len().checked_sub(3)?..)?)
        else {
            return None;
        };
        (parts.len() == 5 || parts.len() == 6).then_some(Self {
            package,
            version,
            python,
            platform,
        })
    }

    fn is_for_this_machine(&self) -> bool {
        self.platform == "any"
            || (self.platform.contains("linux") && self.platform.ends_with("x86_64"))
    }

    /// The native libraries are the same for every Python; one of a usual Python is the most tried.
    fn python_rank(&self) -> u8 {
        match self.python {
            "cp312" => 3,
            "py3" | "py2.py3" => 2,
            _ => 1,
        }
    }
}

/// The wheels that a page lists, on its own host and on `hosts` alone.
pub fn of_page(page: &str, html: &str, hosts: &[&str]) -> Vec<ListedWheel> {
    let mut listed = links(page, html);
    listed.retain(|it| match &it.at {
        WheelLocation::Url(url) => {
            host(url) == host(page) || hosts.iter().any(|it| host(url) == Some(it))
        }
        WheelLocation::File(_) => false,
    });
    listed
}

/// The wheels that a page lists, wherever they are.
pub fn links(page: &str, html: &str) -> Vec<ListedWheel> {
    // The last address of a page that was cut may be incomplete.
    let tags = &html[..html.rfind('>').unwrap_or(0)];
    tags.split("<a ")
        .skip(1)
        .filter_map(|link| {
            let tag = link.split('>').next()?;
            let href = tag.split("href=").nth(1)?;
            let quote = href.chars().next().filter(|c| ['"', '\''].contains(c))?;
            let href = href[1..].split(quote).next()?.replace("&amp;", "&");
            let (address, sum) = href.split_once('#').unwrap_or((&href, ""));
            let path = address.split('?').next()?;
            let name = percent_decode_str(path.rsplit('/').next()?).decode_utf8_lossy();
            Some(ListedWheel {
                name: name.into_owned(),
                at: WheelLocation::Url(joined(page, address)?),
                sha256: sum.strip_prefix("sha256=").map(str::to_lowercase),
            })
        })
        .filter(|listed| !listed.name.contains('/') && is_wheel(&listed.name))
        .collect()
}

pub fn is_wheel(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "whl")
}

/// The wheels in a folder.
pub fn of_folder(folder: &Path) -> Vec<ListedWheel> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    // Opening a pipe would wait for its writer.
    let files = entries.filter(|entry| entry.path().is_file());
    let listed = files.filter_map(|entry| {
        Some(ListedWheel {
            name: entry.file_name().into_string().ok()?,
            at: WheelLocation::File(entry.path()),
            sha256: None,
        })
    });
    listed.collect()
}

/// Scheme and host of an address, with its port.
fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', '?', '#']).next()
}

/// The absolute address of a link on a page.
fn joined(page: &str, address: &str) -> Option<String> {
    if address.contains("://") {
        return Some(address.to_owned());
    }
    let (scheme, rest) = page.split_once("://")?;
    if let Some(rest) = address.strip_prefix("//") {
        return Some(format!("{scheme}://{rest}"));
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut folders: Vec<&str> = path.split('/').collect();
    folders.pop();
    let mut address = address;
    if let Some(from_root) = address.strip_prefix('/') {
        folders.clear();
        address = from_root;
    }
    for part in address.split('/') {
        match part {
            ".." => drop(folders.pop()),
            "." => {}
            part => folders.push(part),
        }
    }
    Some(format!("{scheme}://{host}/{}", folders.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "https://index.example/whl/torch/";

    fn names(listed: &[ListedWheel]) -> Vec<&str> {
        listed.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn links_are_taken_as_indexes_write_them_and_from_their_hosts_alone() {
        let html = r#"<!DOCTYPE html><html><body><h1>Links for torch</h1>
            <a href="torch-2.11.0%2Brocm7.2-cp312-cp312-manylinux_2_28_x86_64.whl#sha256=ABCD" data-requires-python="&gt;=3.10">x</a><br/>
            <a data-x='1' href='../../files/torch-2.10.0-cp312-cp312-linux_x86_64.whl?a=1&amp;b=2'>y</a>
            <a href="/whl/torch-2.9.0-cp312-cp312-linux_x86_64.whl">z</a>
            <a href="https://files.example/torch-2.8.0-cp312-cp312-linux_x86_64.whl">w</a>
            <a href="https://evil.example/torch-2.11.0-cp312-cp312-linux_x86_64.whl">v</a>
            <a href="torch-2.11.0.tar.gz">u</a> <a name="x">t</a> <a href=unquoted.whl>s</a></body>"#;
        let listed = of_page(PAGE, html, &["files.example"]);
        let urls: Vec<&WheelLocation> = listed.iter().map(|it| &it.at).collect();
        let expected = [
            "https://index.example/whl/torch/torch-2.11.0%2Brocm7.2-cp312-cp312-manylinux_2_28_x86_64.whl",
            "https://index.example/files/torch-2.10.0-cp312-cp312-linux_x86_64.whl?a=1&b=2",
            "https://index.example/whl/torch-2.9.0-cp312-cp312-linux_x86_64.whl",
            "https://files.example/torch-2.8.0-cp312-cp312-linux_x86_64.whl",
        ];
        let expected = expected.map(|url| WheelLocation::Url(url.to_owned()));
        assert!(urls.into_iter().eq(&expected), "{listed:?}");
        let expected = "torch-2.11.0+rocm7.2-cp312-cp312-manylinux_2_28_x86_64.whl";
        assert_eq!(names(&listed)[0], expected);
        assert_eq!(listed[0].sha256.as_deref(), Some("abcd"));
    }

    #[test]
    fn the_last_address_of_a_page_that_was_cut_is_none() {
        let whole = "<a href=\"a-1-py3-none-any.whl\">x</a>";
        // It looks like an address.
        let half = "<a href='b-1-py3-none-any.whl'-and-more";
        let listed = of_page(PAGE, &format!("{whole}{half}"), &[]);
        assert_eq!(names(&listed), ["a-1-py3-none-any.whl"]);
        assert!(of_page(PAGE, half, &[]).is_empty());
    }

    #[test]
    fn the_wheel_for_this_machine_and_version_is_chosen() {
        let listed = |names: &[&str]| -> Vec<ListedWheel> {
            let listed = names.iter().map(|name| ListedWheel {
                name: (*name).to_owned(),
                at: WheelLocation::File(PathBuf::new()),
                sha256: None,
            });
            listed.collect()
        };
        let choose = |requirement: &str, names: &[&str]| {
            let build = "2.11.0+rocm7.14.1";
            let chosen =
                WheelRequirement::parse(requirement).choose(listed(names), build, |_| false);
            chosen.map(|it| it.name)
        };
        let torch = [
            "torch-2.11.0+rocm7.14.1-cp314-cp314-linux_x86_64.whl",
            "torch-2.11.0+rocm7.14.1-cp312-cp312-linux_x86_64.whl",
            "torch-2.11.0+rocm7.14.1-cp312-cp312-win_amd64.whl",
            "torch-2.12.0+rocm7.14.1-cp312-cp312-linux_x86_64.whl",
            "torch-2.11.0+rocm7.14.1-cp312-cp312-manylinux_2_28_aarch64.whl",
            "broken.whl",
        ];
        let found = choose("torch==2.11.0+rocm7.14.1", &torch);
        assert_eq!(found.as_deref(), Some(torch[1]));
        assert_eq!(choose("torch==2.13.0", &torch), None);
        let known = |name: &str| name.contains("cp314");
        let requirement = WheelRequirement::parse("torch==2.11.0+rocm7.14.1");
        let chosen = requirement.choose(listed(&torch), "2.11.0+rocm7.14.1", known);
        assert_eq!(chosen.map(|it| it.name).as_deref(), Some(torch[0]));
        let device = [
            "amd_torch_device_gfx1151-2.9.0+rocm7.14.1-py3-none-linux_x86_64.whl",
            "amd_torch_device_gfx1151-2.11.0+rocm7.14.1-py3-none-linux_x86_64.whl",
            "amd_torch_device_gfx1151-2.12.0+rocm7.15-py3-none-linux_x86_64.whl",
        ];
        let found = choose("amd-torch-device-gfx1151", &device);
        assert_eq!(found.as_deref(), Some(device[1]));
        let page =
            WheelRequirement::parse("rocm_sdk.core==7.14.1").page("https://index.example/whl/");
        assert_eq!(page, "https://index.example/whl/rocm-sdk-core/");
    }
}
