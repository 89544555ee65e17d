//! Directory tree to serve: the flags that name it, and the file in it that a path means.

use std::{
    fs::File,
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
    time::Duration,
};

use clap::Args;
use service::{Cli, Endpoint, LineTarget, Sandbox, ServiceArgs};
use sys::{
    beneath::{OpenError, Opened, Root},
    confinement::Confinement,
    listen::Address,
};
use wire::http1::Status;

use crate::{
    AccessLogArgs, Content, ContentArgs, HttpsArgs, IndexName, NotFound, RateArgs, Settings, Sources, VirtualHosts,
    auth::AuthRule, path, variants::open_sources,
};

/// Flags that say what is served, and where; those of one virtual host are in [`ContentArgs`].
#[derive(Clone, Debug, Args)]
pub struct TreeArgs {
    #[command(flatten)]
    pub content: ContentArgs,

    /// Other hosts than that of the command line; they come from the configuration file.
    #[arg(skip)]
    pub hosts: VirtualHosts,

    /// Short for --listen 127.0.0.1:PORT
    #[arg(short = 'p', long, value_name = "PORT", conflicts_with = "listen")]
    pub port: Option<u16>,

    /// Time for which a cached file is served without a check whether it has changed; 0 checks each time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = service::duration)]
    pub revalidate: Duration,

    #[command(flatten)]
    pub access_log: AccessLogArgs,

    #[command(flatten)]
    pub rate: RateArgs,

    #[command(flatten)]
    pub https: HttpsArgs,

    /// Speak HTTP/2 with clients that begin with it, and offer it by ALPN on TLS addresses
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = service::on_or_off, action = clap::ArgAction::Set)]
    pub http2: bool,
}

impl TreeArgs {
    /// Returns the directory of the default host.
    pub fn root(&self) -> &Path {
        self.default_content().root()
    }

    /// Returns the content of the default host.
    pub fn default_content(&self) -> &ContentArgs {
        match &self.hosts.0[..] {
            [first, ..] if !self.content.names_directory() => &first.content,
            _ => &self.content,
        }
    }

    /// Returns the content of all hosts.
    fn contents(&self) -> impl Iterator<Item = &ContentArgs> {
        std::iter::once(self.default_content()).chain(self.hosts.0.iter().map(|host| &host.content))
    }

    fn starts_programs(&self) -> bool {
        self.contents().any(|content| content.cgi.cgi_dir.is_some())
    }

    /// Adds the files that are read and written, for `--sandbox`.
    pub fn keep(&self, kept: &mut Confinement) {
        if self.starts_programs() {
            kept.unconfined = Some("--cgi-dir: a confined server starts no program");
        }
        for content in self.contents() {
            kept.read_replaceable_directory(content.root());
            let files = content.auth.basic_auth.iter().filter_map(AuthRule::file);
            files.chain(content.mime_file.as_deref()).for_each(|file| kept.read_replaceable(file));
        }
        if let Some(LineTarget::File(file)) = &self.access_log.access_log {
            kept.write_replaceable(file);
        }
    }

    /// Checks flags that are right each for itself, of all hosts.
    ///
    /// # Errors
    /// The message says what is wrong.
    pub fn check(&self, service: &ServiceArgs) -> Result<(), String> {
        let is_plain = !service.listen.is_empty() || self.port.is_some() || self.https.tls.tls_listen.is_empty();
        let has_hsts = self.content.hsts.is_some() || self.hosts.0.iter().any(|host| host.content.hsts.is_some());
        self.https.check(is_plain, has_hsts)?;
        self.content.check()?;
        self.rate.check()?;
        if service.shell.sandbox == Sandbox::On && self.starts_programs() {
            return Err("--sandbox on and --cgi-dir exclude each other: a confined server starts no program".to_owned());
        }
        self.hosts.0.iter().try_for_each(|host| {
            let name = host.names.first().map_or_else(String::new, ToString::to_string);
            host.content.check().map_err(|why| format!("host {name}: {why}"))
        })
    }

    /// Returns the [`Cli::default_addresses`] of a server with these flags.
    pub fn default_addresses<C: Cli>(&self) -> Vec<String> {
        match self.port {
            Some(port) => vec![format!("127.0.0.1:{port}")],
            None if self.https.tls.tls_listen.is_empty() => vec![C::LISTEN.to_owned()],
            None => Vec::new(),
        }
    }

    /// Returns a file to begin with: the index where there is one, else the first file with a name that needs no quoting, and
    /// what is missing for a GET of `/`. A confined server can no longer look for it.
    pub fn example(&self) -> Example {
        let is_plain = |name: &str| {
            !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        let is_served = |name: &str| {
            let path = self.root().join(name);
            path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) && File::open(path).is_ok()
        };
        let content = self.default_content();
        let has_index = content.index.iter().any(|name| is_served(name.as_str()));
        if has_index || content.listing == Some(true) {
            return Example { path: "/".to_owned(), remark: String::new() };
        }
        let index = self.default_content().index.first().map_or("index", IndexName::as_str);
        let mut names = names(self.root());
        names.sort_unstable();
        match names.iter().find(|name| is_plain(name) && is_served(name)) {
            Some(name) => Example { path: format!("/{name}"), remark: format!("  # no {index} here, so / is 404") },
            None => Example {
                path: "/".to_owned(),
                remark: format!("  # 404 until there is an {index} in {}", self.root().display()),
            },
        }
    }
}

/// File to begin with.
#[derive(Debug)]
pub struct Example {
    path: String,
    remark: String,
}

impl Example {
    /// Returns the command that fetches it from the server at `endpoint`.
    pub fn command(&self, endpoint: &Endpoint) -> String {
        curl_command(endpoint, &self.path) + &self.remark
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Returns the URL of `path` on the server at `endpoint`, as seen from this machine; `None` for a unix socket.
pub fn url(endpoint: &Endpoint, path: &str) -> Option<String> {
    let Address::Tcp(mut address) = endpoint.address else { return None };
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    Some(format!("{}://{address}{path}", endpoint.scheme.unwrap_or("http")))
}

/// Returns a command line that fetches `path` from the server at `endpoint`. It does not ask who vouches for a certificate,
/// which is for another name than the address.
pub fn curl_command(endpoint: &Endpoint, path: &str) -> String {
    let (insecure, scheme) = endpoint.scheme.map_or(("", "http"), |scheme| (" -k", scheme));
    match (&endpoint.address, url(endpoint, path)) {
        (Address::Unix(socket), _) => {
            format!("curl{insecure} --unix-socket '{}' {scheme}://localhost{path}", socket.display())
        }
        (Address::Tcp(_), url) => format!("curl{insecure} {}", url.unwrap_or_default()),
    }
}

/// Opens the file that a key means ([`Content::locate`]), which for a path that ends with a slash is the directory's index.
/// Returns the file's own path beneath the root, too.
///
/// # Errors
/// See [`NotFound`].
pub fn open(root: &Root, key: &[u8], settings: &Settings) -> Result<(Vec<u8>, Opened), NotFound> {
    let normal = Content::file_of(key);
    if let Some(programs) = &settings.programs {
        programs.check(normal)?;
    }
    if settings.guard.as_ref().is_some_and(|guard| guard.hides(normal)) {
        return Err(NotFound::MISSING);
    }
    let relative = normal.strip_prefix(b"/").unwrap_or(normal);
    if normal.ends_with(b"/") {
        return match open_index(root, relative, settings.content.index()) {
            Err(NotFound::MISSING) if settings.lists(root, normal) => Err(NotFound::Directory(normal.to_vec())),
            outcome => outcome,
        };
    }
    match root.open_file(relative) {
        Err(OpenError::Directory) => Err(NotFound::MovedTo(path::encode(&[normal, b"/"].concat()))),
        outcome => Ok((relative.to_vec(), outcome?)),
    }
}

/// Opens the representations of what a key means: see [`open`]. Compressed siblings are looked for where the settings say
/// so.
///
/// # Errors
/// See [`NotFound`].
pub fn open_variants(root: &Root, key: &[u8], settings: &Settings, unix: Duration) -> Result<Sources, NotFound> {
    let should_look = settings.codings.precompressed;
    match open(root, key, settings) {
        Ok((relative, opened)) => open_sources(root, relative, Some(opened), should_look, unix),
        Err(error) if error == NotFound::MISSING && should_look => {
            let normal = Content::file_of(key);
            let relative = normal.strip_prefix(b"/").unwrap_or(normal);
            let is_directory = normal.ends_with(b"/");
            let names = settings.content.index().iter().map(|name| name.as_str().as_bytes());
            let names: Vec<&[u8]> = if is_directory { names.collect() } else { vec![b""] };
            let mut sources =
                names.into_iter().map(|name| open_sources(root, [relative, name].concat(), None, true, unix));
            sources.find_map(Result::ok).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Warns of files that the rules of the content name and that are not there. They may come later, so they are no error.
pub fn warn_of_missing(root: &Root, settings: &Settings) {
    for (flag, path) in settings.content.named_files() {
        if let Err(error) = open(root, path, settings) {
            let why = match error {
                NotFound::Status(Status::Forbidden) => "permission denied",
                NotFound::MovedTo(_) | NotFound::Directory(_) => "a directory",
                NotFound::Program(_) => "a program",
                NotFound::Status(_) | NotFound::Redirect(_) => "no such file beneath the root",
            };
            tracing::warn!("{flag}: {} cannot be sent: {why}", path.escape_ascii());
        }
    }
}

/// Opens the first index that is there. One that is there and cannot be read is not passed over.
fn open_index(root: &Root, directory: &[u8], names: &[IndexName]) -> Result<(Vec<u8>, Opened), NotFound> {
    for name in names {
        let relative = [directory, name.as_str().as_bytes()].concat();
        match root.open_file(&relative) {
            Err(OpenError::Missing | OpenError::Directory | OpenError::NotRegular) => {}
            outcome => return Ok((relative, outcome?)),
        }
    }
    Err(NotFound::MISSING)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        tree: TreeArgs,
        #[arg(long)]
        listen: Option<String>,
    }

    #[test]
    fn a_port_excludes_listen_addresses() {
        let flags = Flags::try_parse_from(["server"]).unwrap();
        assert_eq!((flags.tree.root(), flags.listen), (Path::new("."), None));
        assert!(Flags::try_parse_from(["server", "-p", "1", "--listen", "127.0.0.1:2"]).is_err());
        assert!(Flags::try_parse_from(["server", "-p", "65536"]).is_err());
    }

    #[test]
    fn a_directory_is_named_once_with_or_without_a_flag() {
        let parse = |arguments: &[&str]| Flags::try_parse_from([&["server"], arguments].concat());
        for arguments in [&["site"][..], &["-d", "site"], &["--root", "site"]] {
            assert_eq!(parse(arguments).unwrap().tree.root(), Path::new("site"));
        }
        assert!(parse(&["site", "-d", "other"]).is_err() && parse(&["site", "other"]).is_err());
    }

    #[test]
    fn the_example_fetches_a_file_that_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let args = Flags::try_parse_from(["server", directory.path().to_str().unwrap()]).unwrap().tree;
        let example = || args.example().command(&"127.0.0.1:80".parse::<Address>().unwrap().into());
        assert!(
            example().starts_with("curl http://127.0.0.1:80/ ") && example().contains("index.html"),
            "{}",
            example()
        );
        std::fs::create_dir(directory.path().join("a")).unwrap();
        for name in [".hidden", "a b.txt", "c.txt", "b.txt"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("aa")).unwrap();
        assert!(example().starts_with("curl http://127.0.0.1:80/b.txt "), "{}", example());
        std::fs::write(directory.path().join("index.html"), "").unwrap();
        assert_eq!(example(), "curl http://127.0.0.1:80/");
    }

    #[test]
    fn the_example_command_reaches_the_server() {
        for (address, scheme, command) in [
            ("127.0.0.1:80", None, "curl http://127.0.0.1:80/a"),
            ("0.0.0.0:80", None, "curl http://127.0.0.1:80/a"),
            ("[::]:80", None, "curl http://[::1]:80/a"),
            ("unix:/run/x", None, "curl --unix-socket '/run/x' http://localhost/a"),
            ("0.0.0.0:443", Some("https"), "curl -k https://127.0.0.1:443/a"),
            ("unix:/run/x", Some("https"), "curl -k --unix-socket '/run/x' https://localhost/a"),
        ] {
            let endpoint = Endpoint { address: address.parse().unwrap(), scheme };
            assert_eq!(curl_command(&endpoint, "/a"), command);
        }
    }
}
