//! A server on this machine that answers as a test says, well or badly.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Such as `/owner/name/resolve/main/file`.
    pub path: String,
    pub headers: BTreeMap<String, String>,
    /// How many requests of this method came before.
    pub earlier: usize,
}

impl Request {
    pub fn range(&self) -> Option<(usize, usize)> {
        let range = self.headers.get("range")?;
        let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((start.parse().ok()?, end.parse().ok()?))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Bytes of the body after which the connection is closed.
    pub drops_after: Option<usize>,
    /// Bytes of the body after which the server is silent for this time.
    pub stalls_after: Option<(usize, Duration)>,
}

impl Answer {
    pub fn of(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub fn with(mut self, name: &str, value: impl Display) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), format!("{value}")));
        self
    }
}

/// Answers as a good server of one file would.
pub fn good(request: &Request, file: &[u8]) -> Answer {
    let answer = Answer::default()
        .with("accept-ranges", "bytes")
        .with("etag", "\"v1\"");
    let (status, body) = match (request.method.as_str(), request.range()) {
        ("HEAD", _) => (200, &[][..]),
        (_, Some((start, end))) => (206, &file[start..=end]),
        _ => (200, file),
    };
    let answer = match request.range() {
        Some((start, end)) if status == 206 => {
            let range = format!("bytes {start}-{end}/{}", file.len());
            answer
                .with("content-range", range)
                .with("content-length", body.len())
        }
        _ => answer.with("content-length", file.len()),
    };
    Answer {
        status,
        body: body.to_vec(),
        ..answer
    }
}

pub struct Server {
    pub url: String,
    pub seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers on a port of its own for as long as the tests run.
    pub fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), Arc::clone(&seen));
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("server")
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                    named("connection")
                        .spawn(move || serve(stream, &*answer, &log))
                        .expect("a thread starts");
                }
            })
            .expect("a thread starts");
        Self { url, seen }
    }

    pub fn requests(&self, method: &str) -> Vec<Request> {
        let seen = self.seen.lock().expect("no test panics while it looks");
        let of_method = seen.iter().filter(|it| it.method == method);
        of_method.cloned().collect()
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &(dyn Fn(&Request) -> Answer + Send + Sync),
    log: &Mutex<Vec<Request>>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let mut first = lines.first()?.split(' ');
    let method = first.next()?.to_owned();
    let path = first.next()?.to_owned();
    let headers = lines[1..].iter().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_lowercase(), value.trim().to_owned()))
    });
    let request = {
        let mut log = log.lock().expect("no test panics while it looks");
        let earlier = log.iter().filter(|it| it.method == method).count();
        let request = Request {
            method,
            path,
            headers: headers.collect(),
            earlier,
        };
        log.push(request.clone());
        request
    };
    let answer = answer(&request);
    let status = answer.status;
    write!(stream, "HTTP/1.1 {status} x\r\nconnection: close\r\n").ok()?;
    for (name, value) in &answer.headers {
        write!(stream, "{name}: {value}\r\n").ok()?;
    }
    stream.write_all(b"\r\n").ok()?;
    let body = &answer.body[..];
    if let Some(len) = answer.drops_after {
        return stream.write_all(&body[..len.min(body.len())]).ok();
    }
    if let Some((len, pause)) = answer.stalls_after {
        stream.write_all(&body[..len.min(body.len())]).ok()?;
        thread::sleep(pause);
        return Some(());
    }
    stream.write_all(body).ok()
}
