//! Creates the coordinator of a source where the JobMaster's host asks for it.

use super::{Source, coordinator::SourceCoordinator};
use crate::seam::{Coordinator, CoordinatorContext, CoordinatorFactory};
use std::sync::{Arc, Mutex};

/// Creates the coordinator of a source.
pub(crate) struct SourceCoordinators<S>(pub(crate) Arc<Mutex<S>>);

impl<S: Source> CoordinatorFactory for SourceCoordinators<S> {
    fn coordinator(&mut self, context: CoordinatorContext) -> Box<dyn Coordinator> {
        Box::new(SourceCoordinator::new(self.0.clone(), context))
    }
}
