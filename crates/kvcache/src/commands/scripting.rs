//! FUNCTION and SCRIPT. There are no functions and no scripts, so commands that list or delete them find none.

use store::Store;

use super::call::Call;
use crate::reply::{Outcome, Refusal};

impl<S: Store> Call<'_, '_, S> {
    /// Checks that argument 2 is missing, SYNC or ASYNC.
    fn check_flush_mode(&self, refusal: &'static str) -> Outcome {
        match self.args.len() {
            2 => Ok(()),
            3 if self.is(2, "SYNC") || self.is(2, "ASYNC") => Ok(()),
            _ => Err(Refusal::new(refusal)),
        }
    }
}

pub(super) fn function_flush<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_flush_mode("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
    call.reply.ok();
    Ok(())
}

pub(super) fn function_delete<S: Store>(_: &mut Call<'_, '_, S>) -> Outcome {
    Err(Refusal::new("ERR Library not found"))
}

pub(super) fn function_list<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut index = 2;
    while index < call.args.len() {
        if call.is(index, "WITHCODE") {
            index += 1;
        } else if call.is(index, "LIBRARYNAME") {
            if index + 1 == call.args.len() {
                return Err(Refusal::new("ERR library name argument was not given"));
            }
            index += 2;
        } else {
            let unknown = String::from_utf8_lossy(call.args[index]).into_owned();
            return Err(Refusal::new(format!("ERR Unknown argument {unknown}")));
        }
    }
    call.reply.array(0);
    Ok(())
}

pub(super) fn function_stats<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    reply.null();
    reply.bulk(b"engines");
    reply.map(0);
    Ok(())
}

pub(super) fn script_flush<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_flush_mode("ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
    call.reply.ok();
    Ok(())
}

pub(super) fn script_exists<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let scripts = call.args.len() - 2;
    call.reply.array(scripts);
    (0..scripts).for_each(|_| call.reply.integer(0));
    Ok(())
}

pub(super) fn nothing_runs<S: Store>(_: &mut Call<'_, '_, S>) -> Outcome {
    Err(Refusal::new("NOTBUSY No scripts in execution right now."))
}
