#[allow(dead_code, unreachable_pub, reason = "the engine that fills the model arrives with the next merge")]
mod matrix {
    pub mod model;
}
mod report;

fn main() {
    let _ = report::render;
}
