//! Connections to the package index of this user's pip.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use safelight_wheels::{
    ListedWheel, LockedWheel, WheelRequirement, links, of_folder, record_sum, tls,
};
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body, Proxy};

use crate::pip::PipConfig;

pub const ATTEMPTS: u32 = 5;
const PATIENCE: Duration = Duration::from_mins(1);
const BUFFER_BYTES: usize = 256 << 10;
/// The longest list of wheels has less than 2 MB.
const MAX_PAGE_BYTES: u64 = 32 << 20;

pub struct WheelClient {
    pip: PipConfig,
    agent: Agent,
    /// Before a second attempt; doubled for each further one.
    pause: Duration,
}

impl WheelClient {
    pub fn new(pip: PipConfig, pause: Duration) -> io::Result<Self> {
        let (tls, _unreadable) = tls(pip.certificates.as_deref());
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("safelight/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .tls_config(tls)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE));
        if let Some(proxy) = &pip.proxy {
            let proxy = Proxy::new(proxy);
            config = config.proxy(Some(proxy.map_err(io::Error::other)?));
        }
        let agent = config.build().into();
        Ok(Self { pip, agent, pause })
    }

    /// The wheel in the folders and indexes that pip looks in.
    pub fn find(&self, wheel: &LockedWheel<'_>) -> io::Result<ListedWheel> {
        let text = format!("{}=={}", wheel.name, wheel.version);
        let requirement = WheelRequirement::parse(&text);
        let (mut listed, mut missing) = (Vec::new(), "no index has this wheel".to_owned());
        let indexes = self.pip.indexes.iter().map(|index| requirement.page(index));
        for place in self.pip.links.iter().cloned().chain(indexes) {
            let folder = place.strip_prefix("file://").unwrap_or(&place);
            if !folder.contains("://") {
                listed.extend(of_folder(Path::new(folder)));
                continue;
            }
            match self.retried(|| self.page(&place)) {
                Ok(page) => listed.extend(links(&place, &page)),
                Err(err) => missing = err.to_string(),
            }
        }
        let known = |name: &str| record_sum(name).is_some();
        let chosen = requirement.choose(listed, wheel.version, known);
        chosen.ok_or_else(|| io::Error::other(missing))
    }

    pub fn wait_after(&self, failures: u32) {
        thread::sleep(self.pause * 2_u32.pow(failures));
    }

    /// Repeats a request while it fails.
    pub fn retried<T>(&self, request: impl Fn() -> io::Result<T>) -> io::Result<T> {
        for failures in 0..ATTEMPTS - 1 {
            if let Ok(answer) = request() {
                return Ok(answer);
            }
            self.wait_after(failures);
        }
        request()
    }

    /// A page of an index; an empty one where the index does not know the package.
    fn page(&self, url: &str) -> io::Result<String> {
        let answer = self.agent.get(url).call().map_err(io::Error::other)?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(String::new());
        }
        let body = good(answer)?.into_body().into_with_config();
        let text = body.limit(MAX_PAGE_BYTES).read_to_string();
        text.map_err(io::Error::other)
    }

    fn get(&self, url: &str, start: u64, end: u64) -> io::Result<Response<Body>> {
        let range = format!("bytes={start}-{}", end - 1);
        let request = self.agent.get(url).header(header::RANGE, range);
        good(request.call().map_err(io::Error::other)?)
    }

    /// Bytes of a file, and whether parts of it may be requested.
    pub fn size(&self, url: &str) -> io::Result<(u64, bool)> {
        let answer = self.get(url, 0, 1)?;
        let has_ranges = answer.status() == StatusCode::PARTIAL_CONTENT;
        let name = if has_ranges {
            header::CONTENT_RANGE
        } else {
            header::CONTENT_LENGTH
        };
        let text = answer.headers().get(name);
        let text = text.and_then(|text| text.to_str().ok()).unwrap_or_default();
        let bytes = text
            .rsplit('/')
            .next()
            .and_then(|it| it.trim().parse().ok());
        let bytes = bytes.ok_or_else(|| io::Error::other("the server does not tell its size"))?;
        Ok((bytes, has_ranges))
    }

    pub fn read(&self, url: &str, start: u64, end: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (end - start) as usize];
        let mut body = self.get(url, start, end)?.into_body().into_reader();
        body.read_exact(&mut bytes).map(|()| bytes)
    }

    /// Appends a range of a file to `path`; `arrived` gets each number of bytes.
    pub fn append(
        &self,
        (url, start, end): (&str, u64, u64),
        path: &Path,
        mut arrived: impl FnMut(u64),
    ) -> io::Result<()> {
        let mut out = File::options().create(true).append(true).open(path)?;
        let answer = self.get(url, start, end)?;
        let is_part = answer.status() == StatusCode::PARTIAL_CONTENT;
        let mut body = answer.into_body().into_reader();
        if !is_part {
            // A server without ranges sends the whole file.
            io::copy(&mut body.by_ref().take(start), &mut io::sink())?;
        }
        let mut body = body.take(end - start);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let len = body.read(&mut buffer)?;
            if len == 0 {
                break;
            }
            out.write_all(&buffer[..len])?;
            arrived(len as u64);
        }
        match body.limit() {
            0 => Ok(()),
            _ => Err(io::Error::other("the connection ended early")),
        }
    }
}

fn good(answer: Response<Body>) -> io::Result<Response<Body>> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let reason = format!("the server answers with error {}", status.as_u16());
    Err(io::Error::other(reason))
}
