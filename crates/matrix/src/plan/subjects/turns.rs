//! How long a load takes, and workloads in turns: which can be loaded so, and how the generator is told.

use std::time::Duration;

use results::{Arrivals, TurnPlan, Workload};

use super::{
    Subject,
    generator::{without, words},
};
use crate::run::pair::RoundShape;

/// Most connections of a load in turns.
const TURN_CONNECTIONS_MAX: u32 = 256;

/// True if servers can be loaded with the workload in turns of milliseconds: in a closed loop, which nobody paces, over no more
/// connections than a few turns can open.
pub(crate) fn takes_turns(workload: &Workload) -> bool {
    let is_plain = workload.arrivals == Arrivals::Closed && workload.repetitions.is_none();
    is_plain && workload.connections <= TURN_CONNECTIONS_MAX
}

/// Longest time for all turns of a visit.
const TURNS_WITHIN: &str = "10m";

/// Returns the arguments of a load as those of the same load in turns, which asks for as long as it may.
pub(crate) fn in_turns(arguments: &[String]) -> Vec<String> {
    let mut arguments = without(arguments, &["-d", "--warmup", "--max-warmup", "--server-pid", "-n"]);
    arguments.retain(|word| word != "--timeline");
    // Behind the subcommand.
    arguments.splice(1..1, words(["--turns", "-d", TURNS_WITHIN]));
    arguments
}

impl Subject {
    pub(crate) fn load_s(&self, workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
        self.load.load_s(self.spec(&workload.name), workload, slice_s, warmup_s)
    }

    /// Returns the turns that a visit takes beside the reference, where turns are wanted; `None`: the workload has none.
    pub(crate) fn turns(&self, workload: &Workload, plan: TurnPlan) -> Option<RoundShape> {
        let TurnPlan { turn_s, pairs } = plan;
        let usual = RoundShape { turn: Duration::from_secs_f64(turn_s), pairs, warm_up_turns: 2 };
        match self.round_s(workload) {
            // A turn of the full size takes seconds: several would be dear.
            Some(_) => Some(RoundShape { pairs: 1, warm_up_turns: 0, ..usual }),
            None => takes_turns(workload).then_some(usual),
        }
    }

    /// Estimates the time of a turn that lasts until every client has an answer, under a workload that has such turns.
    pub(crate) fn round_s(&self, workload: &Workload) -> Option<f64> {
        self.load.round_s(self.spec(&workload.name), workload)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::named, *};

    #[test]
    fn a_load_in_turns_has_no_end_of_its_own_and_watches_no_server() {
        for amount in ["-d 300ms --warmup 200ms --max-warmup 2000ms", "-n 40"] {
            let given = format!("http -t 1 -c 64 {amount} --pin 1 --format json --server-pid 7 --timeline http://a/");
            let given: Vec<String> = given.split(' ').map(str::to_owned).collect();
            let turns = in_turns(&given).join(" ");
            assert_eq!(turns, "http --turns -d 10m -t 1 -c 64 --pin 1 --format json http://a/");
        }
    }

    #[test]
    fn a_turn_of_the_large_file_lasts_until_every_client_has_it() {
        let subject = named("mq-server").unwrap();
        let of = |name: &str| {
            let workload = subject.workloads(false).into_iter().find(|workload| workload.name == name).unwrap();
            let shape = subject.turns(&workload, TurnPlan { turn_s: 0.04, pairs: 10 })?;
            Some((shape.pairs, shape.warm_up_turns, subject.round_s(&workload).is_some()))
        };
        assert_eq!([of("large-20x-read"), of("large-20x-splice")], [Some((1, 0, true)); 2]);
        assert_eq!((of("small-4KiB"), of("small-4KiB-open")), (Some((10, 2, false)), None));
    }
}
