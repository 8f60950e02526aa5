//! Plain data, and races for it.

use super::C11;
use crate::layout::Layout;

impl C11 {
    pub(super) fn access(
        &mut self,
        layout: &mut Layout,
        t: usize,
        cell: u32,
        write: Option<u64>,
    ) -> Result<u64, String> {
        let threads = self.threads.len();
        let first = layout.cell(cell, threads);
        let now = self.threads[t].now;
        let data = self.data(cell);
        let knows = |thread: usize, count: u8| thread == t || now.get(first + thread) >= count;
        let races = |thread: usize| {
            Err(format!(
                "data race: thread {t} {} cell {cell}, and does not know of thread {thread}'s access",
                if write.is_some() { "writes" } else { "reads" }
            ))
        };
        if let Some((writer, count)) = data.written
            && !knows(writer, count)
        {
            return races(writer);
        }
        if write.is_some()
            && let Some(other) = (0..threads).find(|&other| !knows(other, data.counts[other]))
        {
            return races(other);
        }
        data.counts[t] += 1;
        let count = data.counts[t];
        if let Some(value) = write {
            data.value = value;
            data.written = Some((t, count));
        }
        let value = data.value;
        self.threads[t].now.raise(first + t, count);
        Ok(value)
    }
}
