//! Directory tree to serve: the flags that name it, and the file in it that a path means.

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

use crate::{MediaTypes, MimeFileError, NotFound, path};

/// Name of the file that is sent for a path with a slash at its end.
const INDEX: &str = "index.html";

/// Flags that say what is served.
#[derive(Clone, Debug, Args)]
pub struct TreeArgs {
    /// The directory to serve
    #[arg(short = 'd', long, value_name = "DIR", default_value = ".")]
    pub root: PathBuf,

    /// Short for --listen 127.0.0.1:PORT
    #[arg(short = 'p', long, value_name = "PORT", conflicts_with = "listen")]
    pub port: Option<u16>,

    /// Time for which a cached file is served without a check whether it has changed
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub revalidate: Duration,

    /// Media types by extension, in the form of mime.types; they go before the built-in ones
    #[arg(long, value_name = "FILE")]
    pub mime_file: Option<PathBuf>,
}

impl TreeArgs {
    /// Opens the directory.
    ///
    /// # Errors
    /// It cannot be opened as a directory.
    pub fn open_root(&self) -> io::Result<Root> {
        Ok(Root::open(&self.root)?)
    }

    /// Reads the media types, where a file of them is named.
    ///
    /// # Errors
    /// Those of [`MediaTypes::read`].
    pub fn media_types(&self) -> Result<MediaTypes, MimeFileError> {
        self.mime_file.as_deref().map_or_else(|| Ok(MediaTypes::default()), MediaTypes::read)
    }

    /// Returns the [`Cli::default_addresses`] of a server with these flags.
    pub fn default_addresses<C: Cli>(&self) -> Vec<String> {
        vec![self.port.map_or_else(|| C::LISTEN.to_owned(), |port| format!("127.0.0.1:{port}"))]
    }

    /// Returns a path for the person who started the server to try: `/` where there is an index, else the first file with a
    /// name that needs no quoting.
    pub fn example_path(&self) -> String {
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

/// Returns a command line that fetches `path` from the server at `address`.
pub fn curl_command(address: &Address, path: &str) -> String {
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

/// Opens the file that a normal path means, which for one that ends with a slash is the directory's index. Returns the
/// file's own path beneath the root, too.
///
/// # Errors
/// See [`NotFound`].
pub fn open(root: &Root, normal: &[u8]) -> Result<(Vec<u8>, Opened), NotFound> {
    let is_directory = normal.ends_with(b"/");
    let mut relative = normal.strip_prefix(b"/").unwrap_or(normal).to_vec();
    if is_directory {
        relative.extend_from_slice(INDEX.as_bytes());
    }
    match root.open_file(&relative) {
        Err(OpenError::Directory) if !is_directory => Err(NotFound::MovedTo(path::encode(&[normal, b"/"].concat()))),
        outcome => Ok((relative, outcome?)),
    }
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
        assert_eq!((flags.tree.root, flags.listen), (PathBuf::from("."), None));
        assert!(Flags::try_parse_from(["server", "-p", "1", "--listen", "127.0.0.1:2"]).is_err());
        assert!(Flags::try_parse_from(["server", "-p", "65536"]).is_err());
    }

    #[test]
    fn the_example_path_leads_to_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let args = Flags::try_parse_from(["server", "-d", directory.path().to_str().unwrap()]).unwrap().tree;
        assert_eq!(args.example_path(), "/");
        std::fs::create_dir(directory.path().join("a")).unwrap();
        for name in [".hidden", "a b.txt", "c.txt", "b.txt"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(args.example_path(), "/b.txt");
        std::fs::write(directory.path().join("index.html"), "").unwrap();
        assert_eq!(args.example_path(), "/");
    }

    #[test]
    fn the_example_command_reaches_the_server() {
        for (address, command) in [
            ("127.0.0.1:80", "curl http://127.0.0.1:80/a"),
            ("0.0.0.0:80", "curl http://127.0.0.1:80/a"),
            ("[::]:80", "curl http://[::1]:80/a"),
            ("unix:/run/x", "curl --unix-socket '/run/x' http://localhost/a"),
        ] {
            assert_eq!(curl_command(&address.parse().unwrap(), "/a"), command);
        }
    }
}
