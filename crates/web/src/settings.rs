//! Settings of one virtual host, and the flags that they are made from.
//!
//! A setting is added in three places here: as a field of [`ContentArgs`], which makes it a flag of `http-server` and
//! `zerocopy`, a key of the configuration file and a key of its `[[host]]` tables; as a field of [`Settings`], in the
//! form that requests need; and in [`Settings::new`], which validates it.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use sys::beneath::Root;

use crate::{
    AuthArgs, CacheControlRule, CgiError, Charset, Content, ErrorPage, Guard, HeaderRule, Hsts, IndexName, MediaTypes,
    MimeFileError, PasswordFileError, Redirect, Rewrite, SitePath, Symlinks,
    cgi::{CgiArgs, Programs},
    listing,
    path::Dotfiles,
};

/// Flags that say what a virtual host shows; those of the command line hold for all hosts that do not say otherwise.
#[derive(Clone, Debug, Default, Args)]
pub struct ContentArgs {
    /// Directory to serve [default: the current one]
    #[arg(value_name = "DIR", conflicts_with = "root")]
    pub directory: Option<PathBuf>,

    /// The same as DIR
    #[arg(short = 'd', long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Media types by extension, in the format of mime.types; they take precedence over the built-in ones
    #[arg(long, value_name = "FILE")]
    pub mime_file: Option<PathBuf>,

    /// Show the contents of directories without an index [default: on without any argument, else off]
    #[arg(long, value_name = "on|off", value_parser = service::on_or_off)]
    pub listing: Option<bool>,

    #[command(flatten)]
    pub cgi: CgiArgs,

    #[command(flatten)]
    pub auth: AuthArgs,

    /// Policy for names that begin with a dot; what lies below a hidden one is hidden, too
    #[arg(long, value_name = "POLICY", value_enum, default_value = "well-known")]
    pub dotfiles: Dotfiles,

    /// Policy for symbolic links
    #[arg(long, value_name = "POLICY", value_enum, default_value = "beneath")]
    pub symlinks: Symlinks,

    /// Names of the file that is sent for a directory; the first that is there
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "index.html")]
    pub index: Vec<IndexName>,

    /// File that is sent with an error's status instead of the built-in page, such as 404=/404.html; repeatable
    #[arg(long, value_name = "STATUS=PATH")]
    pub error_page: Vec<ErrorPage>,

    /// File that is sent with 200 for a path without one, for applications that run in the browser; a missing script, image
    /// or other file by a known extension stays 404
    #[arg(long, value_name = "PATH")]
    pub fallback: Option<SitePath>,

    /// Redirects the paths of a pattern: '/old/*=301 /new/$1'; $1 is what the first * stands for; 302 where no status is
    /// given; repeatable, the first that matches counts
    #[arg(long, value_name = "FROM=[STATUS] TO")]
    pub redirect: Vec<Redirect>,

    /// Serves another file for the paths of a pattern: '/v1/*=/current/$1'; repeatable, the first that matches counts
    #[arg(long, value_name = "FROM=TO")]
    pub rewrite: Vec<Rewrite>,

    /// Field of every response, or of those for the paths of a pattern: 'GLOB=NAME: VALUE'; repeatable, of two with one name
    /// the later counts
    #[arg(long, value_name = "[GLOB=]NAME: VALUE")]
    pub header: Vec<HeaderRule>,

    /// Have browsers come by https only (RFC 6797), on TLS addresses; VALUE is max-age=31536000 unless given
    #[arg(long, value_name = "VALUE", num_args = 0..=1, require_equals = true, default_missing_value = "max-age=31536000")]
    pub hsts: Option<Hsts>,

    /// Cache-Control of the files of a pattern, such as '/assets/*=max-age=31536000, immutable'; repeatable, the last that
    /// matches counts
    #[arg(long, value_name = "GLOB=VALUE")]
    pub cache_control: Vec<CacheControlRule>,

    /// Character set that Content-Type names for text; off names none
    #[arg(long, value_name = "NAME", default_value = "utf-8")]
    pub charset: Charset,

    /// Send FILE.br, FILE.zst or FILE.gz in place of FILE to clients that accept it
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = service::on_or_off, action = clap::ArgAction::Set)]
    pub precompressed: bool,

    /// Compress text for clients that accept it, once for each file and coding, and keep the result in the cache
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = service::on_or_off, action = clap::ArgAction::Set)]
    pub compress: bool,
}

impl ContentArgs {
    /// Checks flags that are right each for itself.
    ///
    /// # Errors
    /// The message says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        Content::new(self).map(drop).map_err(|error| error.to_string())
    }

    /// Opens the directory to serve.
    ///
    /// # Errors
    /// It cannot be opened as a directory.
    pub fn open_root(&self) -> io::Result<Root> {
        let root = Root::open(self.root())?;
        Ok(match self.symlinks {
            // A link could lead to the source of a program.
            Symlinks::Beneath if !self.cgi.is_beneath(self.root()) => root,
            Symlinks::Beneath | Symlinks::None => root.without_symlinks(),
        })
    }

    /// Returns the directory to serve, by whichever argument it was named.
    pub fn root(&self) -> &Path {
        self.directory.as_deref().or(self.root.as_deref()).unwrap_or_else(|| Path::new("."))
    }

    /// Turns listings on where the program was started without any argument: somebody has a first look.
    pub fn list_at_first_sight(&mut self) {
        if std::env::args_os().len() <= 1 {
            self.listing.get_or_insert(true);
        }
    }

    /// True if an argument names the directory.
    pub fn names_directory(&self) -> bool {
        self.directory.is_some() || self.root.is_some()
    }
}

/// Settings of one virtual host; a reload makes new ones.
#[derive(Debug, Default)]
pub struct Settings {
    pub media_types: MediaTypes,
    /// True if directories without an index are listed.
    pub listing: bool,
    pub programs: Option<Programs>,
    /// Rules about who may see what, where there are any.
    pub guard: Option<Guard>,
    pub content: Content,
    pub codings: ContentCodings,
}

/// Content codings of a host's responses.
#[derive(Clone, Copy, Debug)]
pub struct ContentCodings {
    /// Compressed siblings are sent in place of their originals.
    pub precompressed: bool,
    /// Text and other contents that profit are compressed.
    pub compress: bool,
}

impl Default for ContentCodings {
    fn default() -> Self {
        Self { precompressed: true, compress: true }
    }
}

impl Settings {
    /// Makes the settings from their flags, and reads the files that they name.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn new(args: &ContentArgs) -> Result<Self, SettingsError> {
        let media_types = args.mime_file.as_deref().map_or_else(|| Ok(MediaTypes::default()), MediaTypes::read)?;
        let programs = args.cgi.options().map(|options| Programs::open(&options, args.root())).transpose()?;
        Ok(Self {
            media_types: media_types.with_charset(args.charset.clone()),
            content: Content::new(args)?,
            listing: args.listing == Some(true),
            programs,
            guard: Guard::open(&args.auth, args.root())?,
            codings: ContentCodings { precompressed: args.precompressed, compress: args.compress },
        })
    }

    /// True if a directory without an index is listed; `normal` is its path.
    pub(crate) fn lists(&self, root: &Root, normal: &[u8]) -> bool {
        self.listing && root.look(listing::relative(normal)).is_ok_and(|seen| seen.is_directory)
    }

    /// True if an entry of the directory with this normal path is served.
    pub(crate) fn serves(&self, directory: &[u8], name: &[u8]) -> bool {
        let is_program = |programs: &Programs| programs.hides(&[directory, name].concat());
        let is_hidden = |guard: &Guard| guard.hides(&[directory, name].concat());
        self.content.serves(name, directory == b"/")
            && !self.programs.as_ref().is_some_and(is_program)
            && !self.guard.as_ref().is_some_and(is_hidden)
    }
}

/// Reason why flags make no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    MimeFile(#[from] MimeFileError),
    #[error(transparent)]
    Cgi(#[from] CgiError),
    #[error(transparent)]
    PasswordFile(#[from] PasswordFileError),
    #[error("{path} is hidden by --dotfiles")]
    Hidden { path: String },
    #[error("the fields of --header have {len} bytes together; at most {max} are allowed")]
    FieldsTooLong { len: usize, max: usize },
}
