//! Bodies that a client has seen, beside those of another thread.

use super::Http2Client;
use crate::{http::SeesBodies, result::BodySeen};

impl SeesBodies for Http2Client {
    fn disagreements(&self, other: &Self) -> usize {
        if !self.checks.verify.compares_content() {
            return 0;
        }
        let pairs = self.checks.requests.iter().zip(&other.checks.requests);
        pairs.filter(|(ours, theirs)| !ours.known.agrees(&theirs.known)).count()
    }

    fn bodies(&self) -> Vec<BodySeen> {
        let requests = self.checks.requests.iter();
        requests.filter_map(|state| state.known.body(state.message.name.clone())).collect()
    }
}
