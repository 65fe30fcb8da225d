//! The target `remote`: a session that runs already, at the REST endpoint that `-m` or the options name.

use super::{Application, ClusterDescriptor, ClusterSpecification, Deployed};
use crate::cli::args::ClusterArgs;
use crate::cli::{Context, Failure, client};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use rest::client::RestClient;
use std::future::ready;

/// A running session.
pub(super) struct Remote<'a> {
    context: &'a Context,
    cluster: ClusterArgs,
}

impl<'a> Remote<'a> {
    pub(super) fn new(context: &'a Context, cluster: &ClusterArgs) -> Self {
        Self { context, cluster: cluster.clone() }
    }
}

impl ClusterDescriptor for Remote<'_> {
    fn deploy(
        &self,
        _: ClusterSpecification,
        _: Option<Application>,
    ) -> LocalBoxFuture<'_, Result<Deployed, Failure>> {
        let why = "the target 'remote' starts no cluster: start one with start-cluster.sh";
        ready(Err(Failure::usage(why))).boxed_local()
    }

    fn retrieve(&self) -> LocalBoxFuture<'_, Result<RestClient, Failure>> {
        ready(client::connect(self.context, &self.cluster)).boxed_local()
    }
}
