//! The job graph store: graphs that are to run, whoever leads. A graph is stored before it is run and
//! removed after its result was recorded.

use super::JobStoreError;
use crate::objects::{ObjectStore, PutNew, StoreError};
use bytes::Bytes;
use model::{JobGraph, JobId};
use std::sync::Arc;

const PREFIX: &str = "jobs/graphs/";
/// First bytes of a stored graph: magic and version of the format.
const MAGIC: &[u8; 4] = b"FJG1";

/// Stored graphs, by job.
#[derive(Debug, Clone)]
pub struct JobGraphStore {
    objects: Arc<dyn ObjectStore>,
}

/// A stored graph that can't be understood. It is left where it is for people to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The object's name.
    pub name: String,
    /// The job that it is named after.
    pub job: Option<JobId>,
    /// Why.
    pub error: JobStoreError,
}

/// What is stored.
#[derive(Debug, Clone, Default)]
pub struct StoredGraphs {
    /// By ascending job id.
    pub graphs: Vec<JobGraph>,
    /// Those that are damaged: they must not keep the others from running.
    pub damaged: Vec<Damaged>,
}

impl JobGraphStore {
    /// On a store of objects.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects }
    }

    /// Stores a graph. It is durable when this returns.
    ///
    /// # Errors
    /// [`JobStoreError::Exists`] where a graph of that job is stored.
    pub fn put(&self, graph: &JobGraph) -> Result<(), JobStoreError> {
        let name = name_of(graph.job_id);
        match self.objects.put_new(&name, encode(graph, &name, self)?)? {
            PutNew::Created => Ok(()),
            PutNew::Exists => Err(JobStoreError::Exists {
                what: format!("the graph of job {}", graph.job_id),
                location: self.objects.location(),
            }),
        }
    }

    /// One graph.
    ///
    /// # Errors
    /// As the store's, or [`JobStoreError::Malformed`].
    pub fn get(&self, job: JobId) -> Result<Option<JobGraph>, JobStoreError> {
        let name = name_of(job);
        match self.objects.get(&name)? {
            Some(bytes) => self.decode(&name, &bytes).map(Some),
            None => Ok(None),
        }
    }

    /// All graphs.
    ///
    /// # Errors
    /// Where the store can't be listed, or a graph not be read this time; what is damaged, so that no other
    /// try will read it, is in [`StoredGraphs::damaged`].
    pub fn recover(&self) -> Result<StoredGraphs, JobStoreError> {
        let mut found = StoredGraphs::default();
        for name in self.objects.list(PREFIX)? {
            let read = match self.objects.get(&name) {
                Ok(Some(bytes)) => self.decode(&name, &bytes),
                // Removed since it was listed.
                Ok(None) => continue,
                Err(error @ StoreError::Corrupt { .. }) => Err(error.into()),
                Err(error) => return Err(error.into()),
            };
            match read {
                Ok(graph) => found.graphs.push(graph),
                Err(error) => found.damaged.push(Damaged { job: job_of(&name), name, error }),
            }
        }
        Ok(found)
    }

    /// Removes a graph; removing what is not there is no error.
    ///
    /// # Errors
    /// As the store's.
    pub fn remove(&self, job: JobId) -> Result<(), JobStoreError> {
        self.objects.delete(&name_of(job))?;
        Ok(())
    }

    fn decode(&self, name: &str, bytes: &[u8]) -> Result<JobGraph, JobStoreError> {
        let wrong = |why: String| JobStoreError::Malformed {
            name: name.to_owned(),
            location: self.objects.location(),
            why,
        };
        let body = bytes
            .strip_prefix(MAGIC)
            .ok_or_else(|| wrong("it is no job graph of a version this program knows".into()))?;
        let graph: JobGraph = super::decode(body).map_err(|e| wrong(e.to_string()))?;
        if name_of(graph.job_id) != name {
            return Err(wrong(format!("it holds the graph of job {}", graph.job_id)));
        }
        Ok(graph)
    }
}

fn job_of(name: &str) -> Option<JobId> {
    let job = name.strip_prefix(PREFIX)?.parse().ok()?;
    (name_of(job) == name).then_some(job)
}

fn name_of(job: JobId) -> String {
    format!("{PREFIX}{job}")
}

fn encode(graph: &JobGraph, name: &str, store: &JobGraphStore) -> Result<Bytes, JobStoreError> {
    let mut bytes = MAGIC.to_vec();
    let mut out = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    serde::Serialize::serialize(graph, &mut out).map_err(|e| JobStoreError::Malformed {
        name: name.to_owned(),
        location: store.objects.location(),
        why: e.to_string(),
    })?;
    Ok(bytes.into())
}
