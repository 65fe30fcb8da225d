//! Picks the commands that a test compares out of all that a core has given.

/// Takes the values out of all commands of one kind, in their order: `picked!(commands, Command::Deploy(d) => d)`.
macro_rules! picked {
    ($commands:expr, $kind:pat => $value:expr) => {
        $commands
            .iter()
            .filter_map(|command| match command {
                $kind => Some($value),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
}
pub(crate) use picked;
