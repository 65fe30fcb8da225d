//! Partitioners: they select the consuming subtask of each record.

use crate::{
    batch::{Batch, Columns, record_by_record},
    operators::{KeySelector, Pace},
    seam::{Interrupt, TaskError},
    state::{channel_of_group, key_group},
    types::key_hash,
};
use std::marker::PhantomData;

/// Distributes the records of a batch to buffers, one per channel, each for one consuming subtask. [`EdgeWriter`](super::EdgeWriter) calls
/// it on the task's thread, if the edge has at least two channels, and sends the buffers: those that it reports as ready at once, the
/// others later. A partitioner may keep state between calls, which no checkpoint contains.
pub trait Partitioner<T>: Send {
    /// Moves every record, with its event time, into a buffer and leaves the batch empty. A partitioner that calls a function of the
    /// program returns when `interrupt` is raised, and leaves the other records in the batch; it processes at least one. Appends each
    /// channel whose buffer reached `limit` records in this call to `ready`, once. Records of one channel keep their order.
    ///
    /// # Errors
    /// Fails with [`TaskError::User`] if the program's function selects a channel that does not exist.
    fn partition(
        &mut self,
        batch: &mut Batch<T>,
        buffers: &mut [Batch<T>],
        limit: usize,
        ready: &mut Vec<usize>,
        interrupt: &Interrupt,
    ) -> Result<(), TaskError>;
    /// Returns true if `partition` calls a function of the program that may take long. False by default.
    fn calls_function(&self) -> bool {
        false
    }
    /// Returns the bytes that `partition` adds to each record. 0 by default.
    fn bytes_beside(&self) -> usize {
        0
    }
    /// Returns true if every record goes to every channel: `partition` then uses the first buffer only, which is copied when it is sent.
    /// False by default.
    fn broadcasts(&self) -> bool {
        false
    }
}

/// A partitioner that sends a record to the subtask that owns the key group of the record's key.
#[derive(Debug)]
pub struct HashByKey<S> {
    selector: S,
    max_parallelism: u32,
    /// The channel of each key group.
    channels: Vec<u32>,
    pace: Pace,
}

impl<S> HashByKey<S> {
    /// Creates the partitioner for `channels` subtasks of an operator with `max_parallelism` key groups, those of the consuming operator.
    /// `selector` returns a record's key, and is called once for each record, as it is again by the consumer: it must return the same key
    /// for a record each time. With more subtasks than key groups some subtasks get no records.
    pub fn new(selector: S, channels: usize, max_parallelism: u32) -> Self {
        let parallelism = u32::try_from(channels).unwrap_or(u32::MAX);
        let channels = (0..max_parallelism)
            .map(|group| channel_of_group(group, max_parallelism, parallelism))
            .collect();
        Self { selector, max_parallelism, channels, pace: Pace::default() }
    }
}

impl<S> HashByKey<S> {
    /// Does what [`Partitioner::partition`] does, for a batch with event times or for one without.
    #[inline]
    fn distribute<const TIMED: bool, T: Send>(
        &mut self,
        batch: &mut Batch<T>,
        buffers: &mut [Batch<T>],
        limit: usize,
        ready: &mut Vec<usize>,
        interrupt: &Interrupt,
    ) -> Result<(), TaskError>
    where
        S: KeySelector<T>,
    {
        let Self { selector, max_parallelism, channels, pace } = self;
        let mut put = |record, time| {
            let hash = selector.with(&record, key_hash);
            let group = key_group(hash, *max_parallelism) as usize;
            let channel = channels.get(group).map_or(0, |c| *c as usize);
            if let Some(buffer) = buffers.get_mut(channel) {
                if S::HASH_TRAVELS {
                    buffer.push_hash(hash);
                }
                match TIMED {
                    true => buffer.push(record, time),
                    false => buffer.push_record(record),
                }
                if buffer.len() == limit {
                    ready.push(channel);
                }
            }
        };
        let columns = Columns { times: TIMED, hashes: false };
        if S::COMPUTES {
            let mut should_continue = record_by_record(pace.parts::<T, S::Key>(interrupt));
            return batch.try_each(columns, |record, time, _| {
                put(record, time);
                Ok(should_continue())
            });
        }
        batch.try_each(columns, |record, time, _| {
            put(record, time);
            Ok(true)
        })
    }
}

impl<T: Send, S: KeySelector<T>> Partitioner<T> for HashByKey<S> {
    fn partition(
        &mut self,
        batch: &mut Batch<T>,
        buffers: &mut [Batch<T>],
        limit: usize,
        ready: &mut Vec<usize>,
        interrupt: &Interrupt,
    ) -> Result<(), TaskError> {
        match batch.times().is_empty() {
            true => self.distribute::<false, T>(batch, buffers, limit, ready, interrupt),
            false => self.distribute::<true, T>(batch, buffers, limit, ready, interrupt),
        }
    }
    fn calls_function(&self) -> bool {
        S::COMPUTES
    }
    fn bytes_beside(&self) -> usize {
        if S::HASH_TRAVELS { size_of::<u64>() } else { 0 }
    }
}

/// A partitioner that distributes the records of every batch evenly, in runs of its length divided by the number of channels, at least 1
/// record: each run goes to the next channel in turn.
#[derive(Debug)]
pub struct RoundRobin<T> {
    next: usize,
    record: PhantomData<fn(T)>,
}

impl<T> RoundRobin<T> {
    /// Creates the partitioner, whose first run goes to channel `first`, modulo the number of channels. Producers should begin with
    /// different channels, such as those of their subtask numbers.
    pub fn new(first: usize) -> Self {
        Self { next: first, record: PhantomData }
    }
}

impl<T: Send> Partitioner<T> for RoundRobin<T> {
    fn partition(
        &mut self,
        batch: &mut Batch<T>,
        buffers: &mut [Batch<T>],
        limit: usize,
        ready: &mut Vec<usize>,
        _interrupt: &Interrupt,
    ) -> Result<(), TaskError> {
        let channels = buffers.len().max(1);
        let run = (batch.len() / channels).max(1);
        let mut rest = batch.drain_parts();
        while !rest.is_empty() {
            let channel = self.next % channels;
            self.next = channel + 1;
            let Some(buffer) = buffers.get_mut(channel) else { break };
            let before = buffer.len();
            rest.take_into(run, buffer);
            if before < limit && buffer.len() >= limit {
                ready.push(channel);
            }
        }
        Ok(())
    }
}

/// A partitioner that sends a record to the channel that a function of the program returns for the record and the number of channels.
#[derive(Debug)]
pub struct ByFunction<F> {
    function: F,
}

impl<F> ByFunction<F> {
    /// Creates the partitioner that calls `function` with each record and the number of channels. `function` returns the index of the
    /// record's channel, counted from 0; an index that is not below the number of channels fails the task with `TaskError::User`.
    pub fn new(function: F) -> Self {
        Self { function }
    }
}

impl<F> ByFunction<F> {
    /// Does what [`Partitioner::partition`] does, for a batch with event times or for one without.
    fn distribute<const TIMED: bool, T>(
        &mut self,
        batch: &mut Batch<T>,
        buffers: &mut [Batch<T>],
        limit: usize,
        ready: &mut Vec<usize>,
        interrupt: &Interrupt,
    ) -> Result<(), TaskError>
    where
        F: FnMut(&T, usize) -> usize,
    {
        let channels = buffers.len();
        batch.try_each(Columns { times: TIMED, hashes: false }, |record, time, _| {
            let channel = (self.function)(&record, channels);
            let Some(buffer) = buffers.get_mut(channel) else {
                return Err(TaskError::User {
                    operator: "partition_custom".to_owned(),
                    message: format!(
                        "it chose subtask {channel} of {channels}; the first one is 0"
                    ),
                });
            };
            match TIMED {
                true => buffer.push(record, time),
                false => buffer.push_record(record),
            }
            if buffer.len() == limit {
                ready.push(channel);
            }
            Ok(!interrupt.is_raised())
        })
    }
}

impl<T: Send, F: FnMut(&T, usize) -> usize + Send> Partitioner<T> for ByFunction<F> {
    fn partition(
        &mut self,
        batch: &mut Batch<T>,
        buffers: &mut [Batch<T>],
        limit: usize,
        ready: &mut Vec<usize>,
        interrupt: &Interrupt,
    ) -> Result<(), TaskError> {
        match batch.times().is_empty() {
            true => self.distribute::<false, T>(batch, buffers, limit, ready, interrupt),
            false => self.distribute::<true, T>(batch, buffers, limit, ready, interrupt),
        }
    }
    fn calls_function(&self) -> bool {
        true
    }
}

/// A partitioner that sends every record to all channels: it puts them into the first buffer, of which the edge's writer sends a copy on
/// each channel.
#[derive(Debug)]
pub struct Broadcast;

impl<T: Send> Partitioner<T> for Broadcast {
    fn partition(
        &mut self,
        batch: &mut Batch<T>,
        buffers: &mut [Batch<T>],
        limit: usize,
        ready: &mut Vec<usize>,
        _interrupt: &Interrupt,
    ) -> Result<(), TaskError> {
        let Some(buffer) = buffers.first_mut() else { return Ok(()) };
        let before = buffer.len();
        buffer.append(batch);
        if before < limit && buffer.len() >= limit {
            ready.push(0);
        }
        Ok(())
    }
    fn broadcasts(&self) -> bool {
        true
    }
}
