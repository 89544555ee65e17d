#[allow(dead_code, unreachable_pub, reason = "the engine that fills the model arrives with the next merge")]
mod matrix {
    pub mod model;
}
#[allow(dead_code, unreachable_pub, reason = "only the engine calls it")]
mod report;

fn main() {}
