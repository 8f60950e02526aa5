//! What a vCPU tells whoever runs its VM.

use std::error::Error;

/// What a vCPU has to say.
#[derive(Debug)]
pub enum Notice {
    /// It wants this shown.
    Log {
        /// The vCPU.
        vcpu: usize,
        /// The message.
        message: String,
    },
    /// It has finished its work.
    Done {
        /// The vCPU.
        vcpu: usize,
    },
    /// It has panicked.
    Panicked {
        /// The vCPU.
        vcpu: usize,
        /// The guest's message.
        message: String,
    },
    /// It cannot go on.
    Failed {
        /// The vCPU.
        vcpu: usize,
        /// Why, in the words of its machine.
        error: Box<dyn Error + Send + Sync>,
    },
}
