//! Preemption on demand, such as `holder:5ms@1%`.

use super::numbers::{NumberUsage, share};
use super::times::{TimeUsage, nonzero_duration};
use crate::scenario::{Preempt, Whom};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub(crate) enum PreemptUsage {
    #[error(
        "'{0}' is no preemption; write holder:TIME@SHARE or next-waiter:TIME@SHARE, such as holder:5ms@1%"
    )]
    NoPreempt(String),
    #[error("{0} is too long to hold a vCPU off its CPU; give at most 4s")]
    TooLong(String),
    Time(#[from] TimeUsage),
    Share(#[from] NumberUsage),
}

pub(crate) fn preempt(text: &str) -> Result<Preempt, PreemptUsage> {
    let wrong = || PreemptUsage::NoPreempt(text.to_owned());
    let (whom, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (time, share_text) = rest.split_once('@').ok_or_else(wrong)?;
    let whom = match whom {
        "holder" => Whom::Holder,
        "next-waiter" => Whom::NextWaiter,
        _ => return Err(wrong()),
    };
    let ns = u32::try_from(nonzero_duration(time)?.as_nanos());
    let ns = ns.map_err(|_| PreemptUsage::TooLong(time.to_owned()))?;
    let share = share(share_text)?;
    if share > 1.0 {
        return Err(wrong());
    }
    Ok(Preempt { whom, ns, share })
}
