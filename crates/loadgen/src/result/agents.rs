//! Parts of a load from several machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Latency, Saturation};

/// Part of an agent in a load from several machines.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
pub struct AgentShare {
    /// Command that reaches its machine, as --agent has it.
    pub agent: String,
    /// Name of its machine.
    pub host: Option<String>,
    /// Its verified requests. Of an agent that failed, those that it had told of, which are in no other figure.
    pub ok: u64,
    /// Its failed requests.
    pub failed: u64,
    /// Its share of all verified requests.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
    /// Its verified requests per second; null if it failed, as are the next three.
    pub throughput_rps: Option<f64>,
    /// Its latencies, of the same kind as those of the whole.
    pub latency_us: Option<Latency>,
    /// Its own delays; null in a closed loop, too.
    pub lag_us: Option<Latency>,
    /// Its saturation and ceiling.
    pub saturation: Option<Saturation>,
    /// Microseconds by which its clock was ahead of the coordinator's.
    pub clock_offset_us: Option<f64>,
    /// Microseconds by which that may be wrong.
    pub clock_error_us: Option<f64>,
    /// Reason why it failed; null if it did not.
    pub failure: Option<String>,
}
