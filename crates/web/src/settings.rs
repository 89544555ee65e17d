//! Settings of one virtual host, and the flags that they are made from.
//!
//! A setting is added in three places here: as a field of [`ContentArgs`], which makes it a flag of `http-server` and
//! `zerocopy`, a key of the configuration file and a key of its `[[host]]` tables; as a field of [`Settings`], in the
//! form that requests need; and in [`Settings::new`], which validates it.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{MediaTypes, MimeFileError};

/// Flags that say what a virtual host shows; those of the command line hold for all hosts that do not say otherwise.
#[derive(Clone, Debug, Args)]
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

    /// Send FILE.br, FILE.zst or FILE.gz in place of FILE to clients that accept it
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = service::on_or_off, action = clap::ArgAction::Set)]
    pub precompressed: bool,

    /// Compress text for clients that accept it, once for each file and coding, and keep the result in the cache
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = service::on_or_off, action = clap::ArgAction::Set)]
    pub compress: bool,
}

impl ContentArgs {
    /// Returns the directory to serve, by whichever argument it was named.
    pub fn root(&self) -> &Path {
        self.directory.as_deref().or(self.root.as_deref()).unwrap_or_else(|| Path::new("."))
    }
}

/// Settings of one virtual host; a reload makes new ones.
#[derive(Debug, Default)]
pub struct Settings {
    pub media_types: MediaTypes,
    pub codings: ContentCodings,
}

/// Content codings of a host's responses.
#[derive(Clone, Copy, Debug)]
pub struct ContentCodings {
    /// Compressed siblings are sent in place of their originals.
    pub precompressed: bool,
    /// What profits is compressed.
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
        let codings = ContentCodings { precompressed: args.precompressed, compress: args.compress };
        Ok(Self { media_types, codings })
    }
}

/// Reason why flags make no settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    MimeFile(#[from] MimeFileError),
}
