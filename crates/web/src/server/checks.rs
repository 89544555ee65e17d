//! Rules that decide about requests before they are answered.

use proto::ClientKey;

use super::Conn;
use crate::Site;

/// Checks before a request of a connection is answered, beside the rules of its host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checks {
    /// It is sent to an address with TLS, whatever it is for.
    pub(crate) is_redirected: bool,
    /// Client whose rate of requests is limited.
    pub(crate) client: Option<ClientKey>,
}

impl<S: Site> Conn<S> {
    /// Decides whether requests have to be looked at before they are answered; so one without rules costs one comparison.
    pub(super) fn note_checks(&mut self) {
        let Checks { is_redirected, client } = self.checks;
        self.has_checks = is_redirected || client.is_some() || self.hosts.have_rules();
    }
}
