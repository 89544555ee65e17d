//! Commands about the server as a whole.

use store::Store;

use super::{Call, Outcome};

pub(super) fn dbsize<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut len = 0;
    call.keys.each(|cache| len += cache.len());
    call.reply.count(len);
    Ok(())
}

pub(super) fn flushall<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.keys.each(|cache| cache.clear());
    call.reply.ok();
    Ok(())
}
