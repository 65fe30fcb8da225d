//! The nodes of a cluster with their labels, and its kinds of resources. Nothing here changes the cluster.

use super::YarnClient;
use crate::yarn::YarnError;
use crate::yarn::messages::*;

impl YarnClient {
    /// Returns the reports of the nodes that are in one of these states; of all nodes if `states` is empty.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this.
    pub async fn nodes(&self, states: &[NodeState]) -> Result<Vec<NodeReport>, YarnError> {
        let node_states = states.iter().map(|state| i32::from(*state)).collect();
        let request = GetClusterNodesRequest { node_states };
        let response: GetClusterNodesResponse = self.call("getClusterNodes", &request).await?;
        Ok(response.node_reports)
    }

    /// Returns the numbers of the cluster's nodes by state, as the ResourceManager counts them now.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this; `YarnError::Incomplete` for an answer without numbers.
    pub async fn metrics(&self) -> Result<YarnClusterMetrics, YarnError> {
        let method = "getClusterMetrics";
        let response: GetClusterMetricsResponse =
            self.call(method, &GetClusterMetricsRequest {}).await?;
        response.cluster_metrics.ok_or(YarnError::Incomplete { method, field: "metrics" })
    }

    /// Returns the resource types of which the cluster's containers can ask an amount, memory and cores among them.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this.
    pub async fn resource_types(&self) -> Result<Vec<ResourceTypeInfo>, YarnError> {
        let request = GetAllResourceTypeInfoRequest {};
        let response: GetAllResourceTypeInfoResponse =
            self.call("getResourceTypeInfo", &request).await?;
        Ok(response.resource_type_info)
    }

    /// Returns the node labels (names of partitions of the nodes) that the cluster knows, whether a node has them or
    /// not.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example
    /// because the user may not do this.
    pub async fn node_labels(&self) -> Result<Vec<NodeLabel>, YarnError> {
        let request = GetClusterNodeLabelsRequest {};
        let response: GetClusterNodeLabelsResponse =
            self.call("getClusterNodeLabels", &request).await?;
        Ok(response.node_labels)
    }

    /// Returns the nodes that have labels, with these. A node id with port 0 stands for all of the host's nodes. Empty if no node has a
    /// label.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example because the user may
    /// not do this; `YarnError::Incomplete` for an entry without a node.
    pub async fn nodes_to_labels(&self) -> Result<Vec<(NodeId, Vec<String>)>, YarnError> {
        let method = "getNodeToLabels";
        let response: GetNodesToLabelsResponse =
            self.call(method, &GetNodesToLabelsRequest {}).await?;
        let entry = |entry: NodeIdToLabels| {
            let node = entry.node_id.ok_or(YarnError::Incomplete { method, field: "node" })?;
            Ok((node, entry.node_labels))
        };
        response.node_to_labels.into_iter().map(entry).collect()
    }

    /// Returns these labels with the nodes that have them; all labels if `labels` is empty. A label without nodes, or that the cluster does
    /// not know, has no entry.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if no ResourceManager answers after all tries, or for its exception, for example because the user may
    /// not do this; `YarnError::Incomplete` for an entry without a label.
    pub async fn labels_to_nodes(
        &self,
        labels: &[&str],
    ) -> Result<Vec<(String, Vec<NodeId>)>, YarnError> {
        let method = "getLabelsToNodes";
        let node_labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let request = GetLabelsToNodesRequest { node_labels };
        let response: GetLabelsToNodesResponse = self.call(method, &request).await?;
        let entry = |entry: LabelsToNodeIds| {
            let label =
                entry.node_labels.ok_or(YarnError::Incomplete { method, field: "label" })?;
            Ok((label, entry.node_id))
        };
        response.labels_to_nodes.into_iter().map(entry).collect()
    }
}

impl Resource {
    /// Checks that a container of this size may be asked for, if `maximum` is the size of the largest one (see
    /// `YarnClient::new_application`). Further resources that `maximum` does not name, or names in another unit, are not checked. Asks no
    /// server.
    ///
    /// # Errors
    /// Fails with [`YarnError::Capability`] for the first resource of which this has more than `maximum`.
    pub fn check(&self, maximum: &Self) -> Result<(), YarnError> {
        let over = |resource: &str, wanted: i64, maximum: i64| match wanted > maximum {
            true => Err(YarnError::Capability { resource: resource.to_owned(), wanted, maximum }),
            false => Ok(()),
        };
        over("MiB of memory", self.memory(), maximum.memory())?;
        over("cores", self.virtual_cores().into(), maximum.virtual_cores().into())?;
        for wanted in &self.resource_value_map {
            let known = maximum.resource_value_map.iter().find(|known| known.key == wanted.key);
            // Units differ where somebody chose others; the ResourceManager converts and checks those.
            let known = known.filter(|known| known.units() == wanted.units());
            if let Some(known) = known {
                over(&wanted.key, wanted.value(), known.value())?;
            }
        }
        Ok(())
    }
}
