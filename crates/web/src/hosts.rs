//! Virtual hosts: the sites of a server, each with its settings, and the names by which requests choose one.

use std::sync::Arc;

use crate::{Settings, page::Pages};

/// One virtual host as it is served: a site, its settings, and what is rendered ahead from them. Never changed: a reload
/// makes another.
#[derive(Debug)]
pub struct Hosted<S> {
    pub site: S,
    pub settings: Arc<Settings>,
    pub(crate) pages: Pages,
}

impl<S> Hosted<S> {
    /// Serves `site`, which was made with the same settings.
    pub fn new(site: S, settings: Arc<Settings>) -> Self {
        let pages = Pages::new(&settings.content.fields_for(None));
        Self { site, settings, pages }
    }
}

/// All virtual hosts of a server. There is at least one; the first is the default.
#[derive(Debug)]
pub struct Hosts<S> {
    /// Number of reloads before it.
    pub(crate) generation: u64,
    hosts: Vec<Arc<Hosted<S>>>,
}

impl<S> Hosts<S> {
    /// Begins with the default host.
    pub fn new(default: Arc<Hosted<S>>) -> Self {
        Self { generation: 0, hosts: vec![default] }
    }

    /// Returns the host for requests whose host is unknown.
    #[inline]
    pub fn default_host(&self) -> &Arc<Hosted<S>> {
        // There is at least one.
        &self.hosts[0]
    }
}
