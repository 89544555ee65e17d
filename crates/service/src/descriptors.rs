//! Division of the limit of open files: connections first, then caches and pipes.

/// Descriptors of a process without threads: standard streams, signals, metrics.
const PROCESS: u64 = 16;
/// Descriptors of a thread beside its listeners: an event queue, a mailbox, a reserve.
const PER_THREAD: u64 = 4;
/// Share of the limit that is kept for files that are opened for a moment, and its bound.
const TRANSIENT_PART: u64 = 8;
const TRANSIENT_MAX: u64 = 512;
/// Share of the rest that caches and pipes have at most, so that connections have three quarters.
const KEPT_PART: u64 = 4;
/// Share of that which pipes have at most.
const PIPES_PART: u64 = 4;
/// Descriptors of a pipe.
const PER_PIPE: u64 = 2;
/// Connections below which a limit that nobody asked for is worth a line in the log.
const FEW_CONNECTIONS: u64 = 4096;

/// Advice where the limit of open files is too low.
pub(crate) const REMEDY: &str = "raise it with ulimit -n, LimitNOFILE= of systemd or --ulimit nofile= of docker";

/// Descriptors that a server would keep beside its connections, as far as the limit of open files allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescriptorDemand {
    /// Value of `--cache-descriptors`, if it was given.
    pub cache: Option<u64>,
    /// The same where it was not.
    pub cache_default: u64,
    /// Scratch pipes, of two descriptors each.
    pub pipes: u64,
}

/// Setting of the division.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) open_files: u64,
    pub(crate) threads: u64,
    pub(crate) addresses: u64,
    /// Value of `--max-connections`, if it was given.
    pub(crate) connections_max: Option<u64>,
}

/// Shares of the limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorShares {
    /// Connections that there are descriptors for.
    pub(crate) connections: u64,
    /// Files and pipe ends that a cache may keep open.
    pub(crate) cache: u64,
    pub(crate) pipes: u64,
}

impl DescriptorShares {
    pub(crate) fn divide(process: &Process, demand: &DescriptorDemand) -> Self {
        let own = PROCESS + process.threads.saturating_mul(PER_THREAD + process.addresses);
        let transient = (process.open_files / TRANSIENT_PART).min(TRANSIENT_MAX);
        let rest = process.open_files.saturating_sub(own).saturating_sub(transient);
        // Where fewer connections are asked for, the others' descriptors are free.
        let unasked = process.connections_max.map_or(0, |max| rest.saturating_sub(max));
        let for_kept = (rest / KEPT_PART).max(unasked);
        let pipes = demand.pipes.min((for_kept / PIPES_PART).max(unasked) / PER_PIPE).min(for_kept / PER_PIPE);
        let cache = demand.cache.unwrap_or(demand.cache_default).min(for_kept - pipes * PER_PIPE);
        Self { connections: rest.saturating_sub(cache + pipes * PER_PIPE).max(1), cache, pipes }
    }

    /// Warns of what was asked for and cannot be had; otherwise says what a low limit allows.
    pub(crate) fn report(&self, process: &Process, demand: &DescriptorDemand) {
        let Self { connections, cache, .. } = *self;
        let open_files = process.open_files;
        let too_many = process.connections_max.filter(|&max| max > connections);
        let uncached = demand.cache.filter(|&asked| asked > cache);
        if let Some(asked) = too_many {
            tracing::warn!(
                "--max-connections {asked}: the limit of {open_files} open files is enough for {connections}; {REMEDY}"
            );
        }
        if let Some(asked) = uncached {
            tracing::warn!(
                "--cache-descriptors {asked}: the limit of {open_files} open files leaves {cache} beside {connections} \
                 connections; {REMEDY}"
            );
        }
        let is_short = demand.cache.is_none() && cache < demand.cache_default
            || process.connections_max.is_none() && connections < FEW_CONNECTIONS;
        if is_short && too_many.is_none() && uncached.is_none() {
            let cached = if cache > 0 { format!(" and {cache} cached files") } else { String::new() };
            tracing::info!("{open_files} open files allow {connections} connections{cached}; {REMEDY}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ZEROCOPY: DescriptorDemand = DescriptorDemand { cache: None, cache_default: 4096, pipes: 256 };

    fn process(open_files: u64) -> Process {
        Process { open_files, threads: 2, addresses: 1, connections_max: None }
    }

    /// `ulimit -n 1024` is the ordinary case, and 256 that of macOS and of careful containers.
    #[test]
    fn connections_come_before_caches() {
        for (open_files, connections, cache, pipes) in
            [(256, 149, 37, 6), (512, 317, 79, 13), (1024, 653, 163, 27), (4096, 2669, 667, 111)]
        {
            let shares = DescriptorShares::divide(&process(open_files), &ZEROCOPY);
            assert_eq!(shares, DescriptorShares { connections, cache, pipes }, "{open_files}");
        }
        let shares = DescriptorShares::divide(&process(1 << 20), &ZEROCOPY);
        assert_eq!((shares.cache, shares.pipes), (4096, 256));
    }

    #[test]
    fn a_cache_has_what_few_connections_leave() {
        let few = Process { connections_max: Some(100), ..process(1024) };
        let demand = DescriptorDemand { cache: Some(700), ..ZEROCOPY };
        let shares = DescriptorShares::divide(&few, &demand);
        assert!(shares.connections >= 100 && shares.cache > 200 && shares.pipes == 256, "{shares:?}");
    }

    proptest! {
        /// Whatever is asked for, nothing is given away twice, and connections have their three quarters of the rest or
        /// all that they ask for.
        #[test]
        fn nothing_is_promised_twice(
            open_files in 16..2_000_000_u64,
            threads in 1..64_u64,
            connections_max in proptest::option::of(1..100_000_u64),
            cache in proptest::option::of(0..100_000_u64),
            pipes in 0..1_000_u64,
        ) {
            let process = Process { open_files, threads, addresses: 2, connections_max };
            let demand = DescriptorDemand { cache, cache_default: 256, pipes };
            let shares = DescriptorShares::divide(&process, &demand);
            let kept = shares.cache + 2 * shares.pipes;
            let own = PROCESS + threads * (PER_THREAD + 2);
            prop_assert!(shares.connections == 1 || shares.connections + kept + own <= open_files);
            prop_assert!(shares.cache <= cache.unwrap_or(256) && shares.pipes <= pipes);
            let fair = shares.connections >= 3 * kept;
            prop_assert!(fair || connections_max.is_some_and(|max| shares.connections >= max) || shares.connections == 1);
        }
    }
}
