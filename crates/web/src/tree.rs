//! A directory tree to serve: the flags that name it, and the file in it that a path means.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use service::Cli;
use sys::{
    beneath::{OpenError, Opened, Root},
    listen::Address,
};

use crate::{Absence, MapError, MediaTypes, path};

/// Sent for a path that ends with a slash.
const INDEX: &str = "index.html";

/// What is served.
#[derive(Args, Clone, Debug)]
pub struct TreeArgs {
    /// The directory to serve
    #[arg(short = 'd', long, value_name = "DIR", default_value = ".")]
    pub root: PathBuf,

    /// Short for --listen 127.0.0.1:PORT
    #[arg(short = 'p', long, value_name = "PORT", conflicts_with = "listen")]
    pub port: Option<u16>,

    /// How long a cached file is served without a look whether it has changed
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub revalidate: Duration,

    /// Media types by extension, in the form of mime.types; they go before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub mime_file: Option<PathBuf>,
}

impl TreeArgs {
    /// # Errors
    /// The directory cannot be opened as one, or the kernel lacks openat2(2) (`ErrorKind::Unsupported`).
    pub fn open_root(&self) -> io::Result<Root> {
        Ok(Root::open(&self.root)?)
    }

    /// # Errors
    /// Those of [`MediaTypes::read`].
    pub fn media_types(&self) -> Result<MediaTypes, MapError> {
        self.mime_file.as_deref().map_or_else(|| Ok(MediaTypes::default()), MediaTypes::read)
    }

    /// What [`Cli::default_addresses`] says of a server with these flags.
    pub fn default_addresses<C: Cli>(&self) -> Vec<String> {
        vec![self.port.map_or_else(|| C::LISTEN.to_owned(), |port| format!("127.0.0.1:{port}"))]
    }

    /// A path that there is something at, for the person who started the server to try: `/` where there is an index,
    /// else the first file with a name that needs no quoting.
    pub fn path_to_try(&self) -> String {
        let is_plain = |name: &str| {
            !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        if self.root.join(INDEX).is_file() {
            return "/".to_owned();
        }
        let names = names(&self.root).into_iter().filter(|name| is_plain(name) && self.root.join(name).is_file());
        format!("/{}", names.min().unwrap_or_default())
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// A command that fetches `path` from there.
pub fn curl(address: &Address, path: &str) -> String {
    match address {
        Address::Tcp(address) => {
            let mut address = *address;
            if address.ip().is_unspecified() {
                address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() });
            }
            format!("curl http://{address}{path}")
        }
        Address::Unix(socket) => format!("curl --unix-socket '{}' http://localhost{path}", socket.display()),
    }
}

/// Opens the file that a normal path means, which for one that ends with a slash is the directory's index. Beside it its
/// own path beneath the root.
///
/// # Errors
/// See [`Absence`].
pub fn open(root: &Root, normal: &[u8]) -> Result<(Vec<u8>, Opened), Absence> {
    let is_directory = normal.ends_with(b"/");
    let mut relative = normal.strip_prefix(b"/").unwrap_or(normal).to_vec();
    if is_directory {
        relative.extend_from_slice(INDEX.as_bytes());
    }
    match root.open_file(&relative) {
        Err(OpenError::Directory) if !is_directory => Err(Absence::Moved(path::encode(&[normal, b"/"].concat()))),
        outcome => Ok((relative, outcome?)),
    }
}

/// Enough until the year 2554.
#[inline]
pub fn nanoseconds(unix: Duration) -> u64 {
    unix.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(unix.subsec_nanos()))
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
    fn a_port_is_not_given_twice() {
        let flags = Flags::try_parse_from(["server"]).unwrap();
        assert_eq!((flags.tree.root, flags.listen), (PathBuf::from("."), None));
        assert!(Flags::try_parse_from(["server", "-p", "1", "--listen", "127.0.0.1:2"]).is_err());
        assert!(Flags::try_parse_from(["server", "-p", "65536"]).is_err());
    }

    #[test]
    fn there_is_something_at_the_path_to_try() {
        let directory = tempfile::tempdir().unwrap();
        let args = Flags::try_parse_from(["server", "-d", directory.path().to_str().unwrap()]).unwrap().tree;
        assert_eq!(args.path_to_try(), "/");
        std::fs::create_dir(directory.path().join("a")).unwrap();
        for name in [".hidden", "a b.txt", "c.txt", "b.txt"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(args.path_to_try(), "/b.txt");
        std::fs::write(directory.path().join("index.html"), "").unwrap();
        assert_eq!(args.path_to_try(), "/");
    }

    #[test]
    fn the_command_to_try_reaches_the_server() {
        for (address, command) in [
            ("127.0.0.1:80", "curl http://127.0.0.1:80/a"),
            ("0.0.0.0:80", "curl http://127.0.0.1:80/a"),
            ("[::]:80", "curl http://[::1]:80/a"),
            ("unix:/run/x", "curl --unix-socket '/run/x' http://localhost/a"),
        ] {
            assert_eq!(curl(&address.parse().unwrap(), "/a"), command);
        }
    }
}
