//! Content of a site by configuration: which file a path means, and the fields that responses have beside those that
//! follow from the file.

mod fields;
mod pages;
mod pattern;
mod routes;

use clap::ValueEnum;
use wire::http1::Status;

use self::fields::HeaderRules;
pub use self::{
    fields::{CacheControlRule, HeaderRule},
    pages::{ErrorPage, IndexName, SitePath},
    pattern::Pattern,
    routes::{Redirect, RedirectTarget, Rewrite},
};
use crate::{
    ContentArgs, MediaTypes, NotFound, SettingsError,
    path::{self, Dotfiles},
};

/// First byte of the key of a file that is found by a rewrite, as error page or as fallback, while requests for its own path
/// lead elsewhere. No path of a request begins with it.
const REWRITTEN: u8 = b'>';

/// Total length of the configured fields of one response, in bytes: they stay well below the limits of clients.
const FIELDS_MAX: usize = 8 << 10;

/// Policy for symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Symlinks {
    /// They are followed while they stay beneath the root
    #[default]
    Beneath,
    /// None is followed
    None,
}

/// Rules of a site's content, validated.
#[derive(Debug)]
pub struct Content {
    dotfiles: Dotfiles,
    index: Vec<IndexName>,
    error_pages: Vec<(Status, Vec<u8>)>,
    fallback: Option<Vec<u8>>,
    redirects: Vec<Redirect>,
    rewrites: Vec<Rewrite>,
    headers: HeaderRules,
    cache_control: Vec<CacheControlRule>,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            dotfiles: Dotfiles::default(),
            index: vec![IndexName::default()],
            error_pages: Vec::new(),
            fallback: None,
            redirects: Vec::new(),
            rewrites: Vec::new(),
            headers: HeaderRules::default(),
            cache_control: Vec::new(),
        }
    }
}

/// Media type of a file, and the configured fields of its responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Presentation {
    pub media_type: String,
    pub cache_control: Option<String>,
    /// Lines of a head, each with its CRLF.
    pub fields: Vec<u8>,
}

impl From<&str> for Presentation {
    /// Presentation without configured fields.
    fn from(media_type: &str) -> Self {
        Self { media_type: media_type.to_owned(), ..Self::default() }
    }
}

impl Content {
    /// Makes the rules from their flags.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub(crate) fn new(args: &ContentArgs) -> Result<Self, SettingsError> {
        let dotfiles = args.dotfiles;
        let normal = |file: &SitePath| {
            path::normalise_decoded(file.as_bytes(), dotfiles)
                .map_err(|_| SettingsError::Hidden { path: file.to_string() })
        };
        let headers = HeaderRules::new(args.header.clone(), args.hsts.clone());
        if headers.len_max() > FIELDS_MAX {
            return Err(SettingsError::FieldsTooLong { len: headers.len_max(), max: FIELDS_MAX });
        }
        Ok(Self {
            dotfiles,
            index: if args.index.is_empty() { vec![IndexName::default()] } else { args.index.clone() },
            error_pages: args
                .error_page
                .iter()
                .map(|page| Ok((page.status, normal(&page.file)?)))
                .collect::<Result<_, SettingsError>>()?,
            fallback: args.fallback.as_ref().map(normal).transpose()?,
            redirects: args.redirect.clone(),
            rewrites: args.rewrite.clone(),
            headers,
            cache_control: args.cache_control.clone(),
        })
    }

    /// Returns the key in a cache of the file that a request's path means, by the first redirect that matches, or else the
    /// first rewrite. [`crate::open`] opens the file for a key.
    ///
    /// # Errors
    /// The path is malformed or hidden, or leads elsewhere.
    pub fn locate(&self, path: &[u8]) -> Result<Vec<u8>, NotFound> {
        let normal = self.normalise(path)?;
        if let Some(target) = self.redirects.iter().find_map(|rule| rule.target(&normal)) {
            return Err(NotFound::Redirect(Box::new(target)));
        }
        match self.rewrites.iter().find_map(|rule| rule.target(&normal, self.dotfiles)) {
            Some(target) => Ok(self.own_key(&target?)),
            None => Ok(normal),
        }
    }

    /// Returns the normal form of a request's path.
    ///
    /// # Errors
    /// See [`path::PathError`].
    pub fn normalise(&self, path: &[u8]) -> Result<Vec<u8>, path::PathError> {
        path::normalise(path, self.dotfiles)
    }

    /// True if a file or directory of this name is served. `is_top` is true directly beneath the root.
    pub(crate) fn serves(&self, name: &[u8], is_top: bool) -> bool {
        self.dotfiles.serves(name, is_top)
    }

    /// Returns the key in a cache of the file at a normal path, whatever requests for that path lead to. So a rewrite may
    /// lead to files that a redirect hides.
    pub fn own_key(&self, normal: &[u8]) -> Vec<u8> {
        let leads_elsewhere = self.redirects.iter().any(|rule| rule.target(normal).is_some())
            || self.rewrites.iter().any(|rule| rule.target(normal, self.dotfiles).is_some());
        if leads_elsewhere { [&[REWRITTEN], normal].concat() } else { normal.to_vec() }
    }

    /// Returns the normal path of the file that a key means.
    pub(crate) fn file_of(key: &[u8]) -> &[u8] {
        key.strip_prefix(&[REWRITTEN]).unwrap_or(key)
    }

    /// Names of the file that is sent for a directory, in the order in which they are tried.
    pub(crate) fn index(&self) -> &[IndexName] {
        &self.index
    }

    /// Returns how a file is presented. `relative` is its path beneath the root.
    pub fn presentation(&self, relative: &[u8], media_types: &MediaTypes) -> Presentation {
        let path = [b"/", relative].concat();
        let cache_control = CacheControlRule::value_for(&self.cache_control, &path).map(str::to_owned);
        Presentation {
            media_type: media_types.for_name(relative),
            cache_control,
            fields: self.headers.lines_for(Some(&path)),
        }
    }

    /// Returns the configured fields of a response that is no file, to a request for `path` where that is known.
    pub(crate) fn fields_for(&self, path: Option<&[u8]>) -> Vec<u8> {
        let normal = path.and_then(|path| self.normalise(path).ok());
        self.headers.lines_for(normal.as_deref())
    }

    /// True if such fields depend on the path.
    pub(crate) fn fields_depend_on_path(&self) -> bool {
        self.headers.depends_on_path()
    }

    /// Returns the normal path of the page for a status.
    pub(crate) fn error_page(&self, status: Status) -> Option<&[u8]> {
        let page = self.error_pages.iter().rfind(|(of, _)| *of == status);
        page.map(|(_, path)| &path[..])
    }

    /// Returns the normal path of the file that is sent for a path without one. None is sent for hidden names, and none for
    /// what is meant to be another type than HTML: a page that asks for a script is not helped by HTML.
    pub(crate) fn fallback_for(&self, path: &[u8], media_types: &MediaTypes) -> Option<&[u8]> {
        let fallback = self.fallback.as_deref()?;
        let normal = self.normalise(path).ok()?;
        (!media_types.is_asset(&normal)).then_some(fallback)
    }

    /// Returns all paths of files that are named in the rules, to be looked for at the start.
    pub fn named_files(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let pages = self.error_pages.iter().map(|(_, path)| ("--error-page", &path[..]));
        pages.chain(self.fallback.as_deref().map(|path| ("--fallback", path)))
    }
}
