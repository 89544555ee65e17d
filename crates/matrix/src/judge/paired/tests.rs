use super::*;

/// Twelve uniform values make a good enough normal one.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// Normal with one value of twenty ten times as far out: a machine on which others work now and then.
fn heavy(random: &mut fastrand::Rng) -> f64 {
    normal(random) * if random.u8(..20) == 0 { 10.0 } else { 1.0 }
}

fn turn(cost_ns: f64, waited: f64) -> Turn {
    let (ok, elapsed_ns) = (10_000, 50_000_000);
    let (cpu_ns, waited_ns) = ((cost_ns * ok as f64) as u64, (waited * elapsed_ns as f64) as u64);
    Turn { cpu_ns, ok, p99_us: 100.0, elapsed_ns, waited_ns, stolen: 0.0 }
}

fn pair(base: f64, change: f64, waited: f64) -> Pair {
    Pair { base: turn(base, waited), change: turn(change, 0.0) }
}

/// What came of comparisons with a true difference of `effect`.
#[derive(Debug, Default)]
struct Tally {
    decisions: std::collections::HashMap<String, u32>,
    /// Comparisons whose interval left out the true difference at some time.
    missed: u32,
    rounds: usize,
}

impl Tally {
    fn of(&self, decision: Decision) -> u32 {
        self.decisions.get(&format!("{decision:?}")).copied().unwrap_or(0)
    }
}

/// Makes `comparisons` of at most `most` rounds each, looking after every one.
fn compare(comparisons: u32, most: usize, effect: f64, mut noise: impl FnMut() -> f64) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..comparisons {
        let (mut sequence, mut has_missed, mut decision) = (Sequence::default(), false, Decision::Undecided);
        while decision == Decision::Undecided && sequence.rounds() < most {
            sequence.push(effect.ln_1p() + noise());
            let Some(known) = sequence.known(ERROR) else { continue };
            has_missed |= (known.centre - effect.ln_1p()).abs() > known.half_width;
            decision = known.decision(0.01);
        }
        *tally.decisions.entry(format!("{decision:?}")).or_default() += 1;
        tally.missed += u32::from(has_missed);
        tally.rounds += sequence.rounds();
    }
    tally
}

#[test]
fn equal_servers_are_told_apart_once_in_a_hundred_at_most() {
    let mut random = fastrand::Rng::with_seed(1);
    let tally = compare(2_000, 150, 0.0, || 0.02 * normal(&mut random));
    let false_alarms = tally.of(Decision::Less) + tally.of(Decision::More);
    // Three standard errors above one in a hundred.
    assert!(false_alarms <= 33 && tally.missed <= 33, "{tally:?}");
    let mut random = fastrand::Rng::with_seed(2);
    let tally = compare(2_000, 150, 0.0, || 0.01 * heavy(&mut random));
    assert!(tally.of(Decision::Less) + tally.of(Decision::More) <= 33, "{tally:?}");
}

#[test]
fn one_per_cent_is_seen_in_as_many_rounds_as_its_noise_asks_for() {
    let mut random = fastrand::Rng::with_seed(3);
    // Rounds that differ by as much as the effect.
    let tally = compare(400, 100, 0.01, || 0.01 * normal(&mut random));
    assert!(tally.of(Decision::More) >= 390 && tally.of(Decision::Less) == 0, "{tally:?}");
    assert!(tally.rounds < 400 * 30, "{tally:?}");
    let tally = compare(400, 100, -0.01, || 0.01 * heavy(&mut random));
    assert!(tally.of(Decision::Less) >= 380 && tally.of(Decision::More) == 0, "{tally:?}");
    assert!(tally.missed <= 12, "{tally:?}");
}

#[test]
fn what_is_alike_is_called_so_and_what_cannot_be_told_is_not() {
    let mut random = fastrand::Rng::with_seed(4);
    let tally = compare(200, 300, 0.0, || 0.01 * normal(&mut random));
    assert!(tally.of(Decision::Alike) >= 190, "{tally:?}");
    let tally = compare(200, 20, 0.0, || 0.1 * normal(&mut random));
    assert!(tally.of(Decision::Undecided) >= 196, "{tally:?}");
}

#[test]
fn fewer_than_six_rounds_decide_nothing() {
    let mut sequence = Sequence::default();
    for round in 1..=ROUNDS_MIN {
        assert_eq!(sequence.known(ERROR), None, "{round}");
        sequence.push(0.5);
    }
    assert_eq!(sequence.known(ERROR).map(|known| known.decision(0.01)), Some(Decision::More));
}

#[test]
fn a_smaller_error_asks_for_a_wider_interval_and_more_rounds_narrow_it() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut sequence = Sequence::default();
    (0..50).for_each(|_| sequence.push(normal(&mut random)));
    let half_width = |sequence: &Sequence, error| sequence.known(error).unwrap().half_width;
    let few = half_width(&sequence, 0.01);
    assert!(half_width(&sequence, 0.001) > few && few > half_width(&sequence, 0.1));
    (0..150).for_each(|_| sequence.push(normal(&mut random)));
    assert!((0.4..0.65).contains(&(half_width(&sequence, 0.01) / few)));
}

#[test]
fn the_values_of_a_round_are_the_centre_of_its_pairs() {
    let mut pairs: Vec<Pair> = (0..20).map(|at| pair(5_000.0 + f64::from(at), 5_100.0 + f64::from(at), 0.0)).collect();
    // A wild one does not count for much.
    pairs[3].change = turn(50_000.0, 0.0);
    let values = round_values(&pairs).unwrap();
    assert!((values.cpu - 1.02_f64.ln()).abs() < 5e-4 && values.p99 == 0.0, "{values:?}");
    assert_eq!((values.kept, values.rejected), (20, 0));
    assert_eq!(round_values(&[]), None);
    let silent = Turn { ok: 0, ..turn(1.0, 0.0) };
    assert_eq!(round_values(&[Pair { base: silent, change: silent }]), None);
}

#[test]
fn pairs_that_others_disturbed_are_left_out_unless_all_were() {
    let quiet = (0..12).map(|_| pair(5_000.0, 5_050.0, 0.01));
    let disturbed = (0..8).map(|_| pair(7_000.0, 5_050.0, 0.4));
    let values = round_values(&quiet.chain(disturbed).collect::<Vec<_>>()).unwrap();
    assert!((values.cpu - 1.01_f64.ln()).abs() < 1e-4, "{values:?}");
    assert_eq!((values.kept, values.rejected), (12, 8));
    let all: Vec<Pair> = (0..20).map(|at| pair(5_000.0, 5_050.0, 0.2 + 0.01 * f64::from(at))).collect();
    let values = round_values(&all).unwrap();
    assert_eq!((values.kept, values.rejected), (10, 10), "the half that was disturbed least");
}
